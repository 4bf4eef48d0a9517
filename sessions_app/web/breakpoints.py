"""Breakpoints of a session and its app, and what people decide about an agent that pauses at one."""

from typing import Any

from django.forms import HiddenInput
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_POST

from ..domain.errors import AgentError, Conflict, Error, Held, Invalid, NotFound
from ..domain.json_values import loads
from ..domain.session_ref import SessionRef
from ..http.problems import status_of
from ..running import breakpoints, runs
from .answers import back, cards_of, cards_page
from .forms import Form, Text
from .request import actor, check_may


class ResumeForm(Form):
    """What someone decides about a pause, and what they change of the request: what isn't sent stays as it is."""

    pause = Text(widget=HiddenInput)
    go = Text(widget=HiddenInput)
    args = Text()
    result = Text()
    instruction = Text()
    message = Text()


@require_POST
def resume(request: HttpRequest, **names: str) -> HttpResponse:
    """Lets an agent that pauses go on, or stops it."""
    ref = SessionRef(**names)
    check_may(request, "operate", ref)
    form = ResumeForm.of(request)
    try:
        given = form.read()
        if given["go"] == "stop":
            runs.stop(ref, actor=actor(request))
            return back(request, ref)
        texts = {name: given[name].replace("\r\n", "\n") for name in ("instruction", "message") if name in request.POST}
        values = {
            "args": _read("args", given["args"]) if "args" in request.POST else None,
            "result": _read("result", given["result"]) if given["result"].strip() else None,
        }
        breakpoints.decide(ref, given["pause"], given["go"], **values, **texts, actor=actor(request))
    except (Held, NotFound) as error:  # a run that has just ended
        return back(request, ref, error.message)
    except (Invalid, Conflict) as error:
        return _refused(request, ref, error, {"typed": request.POST, "go_field": error.detail.get("field")})
    return back(request, ref)


def _read(field: str, text: str) -> Any:
    try:
        return loads(text)
    except Invalid as error:
        raise Invalid(error.message, field=field) from error


class BreakpointForm(Form):
    """A breakpoint: `scope` is app if it is for all of the app, and `what` the name or the condition."""

    kind = Text()
    what = Text()
    scope = Text()
    remove = Text(widget=HiddenInput)


@require_POST
def change(request: HttpRequest, **names: str) -> HttpResponse:
    """Sets a breakpoint, or removes one."""
    ref, who = SessionRef(**names), actor(request)
    check_may(request, "operate", ref)
    try:
        given = BreakpointForm.of(request).read()
        if given["remove"].isdecimal():
            breakpoints.remove(ref, int(given["remove"][:18]), actor=who)
        else:
            named = {"condition": given["what"]} if given["kind"] == breakpoints.STATE else {"name": given["what"]}
            breakpoints.add(ref, given["kind"], **named, of_app=given["scope"] == "app", actor=who)
    except (Invalid, NotFound, AgentError) as error:
        return _refused(request, ref, error, {"typed_stop": request.POST, "stop_error": error.message})
    return back(request, ref)


def _refused(request: HttpRequest, ref: SessionRef, error: Error, more: dict[str, object]) -> HttpResponse:
    """Shows what was typed again, and what is wrong with it."""
    if not request.htmx:  # type: ignore[attr-defined]
        return back(request, ref, error.message)
    cards = cards_of(ref, actor(request))
    return cards_page(request, ref, cards, status_of(error), {"go_error": error.message, **more})
