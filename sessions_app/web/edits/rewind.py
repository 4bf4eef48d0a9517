"""Rewinds a session to before an invocation, after showing what that would write and hide."""

from typing import Any

from django.contrib import messages
from django.forms import HiddenInput
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods

from ...access.actor import Actor
from ...domain.errors import Error, Invalid, StaleSession
from ...domain.event import new_id
from ...domain.invocations import Running
from ...domain.json_values import dumps
from ...domain.session_ref import SessionRef
from ...edits import rewind as core
from ...reads import timeline, views
from ...search import outline
from ...sources import errors
from ...writes.append import Appended
from ..forms import Form, Read, Reason, Text, act
from ..html.render import page
from ..request import actor, check_may
from .edit import tell_saved


def address(ref: SessionRef, invocation_id: str) -> str:
    """Returns the URL of the page that rewinds to before an invocation."""
    query = urlencode({"before": invocation_id.encode("utf-8", "replace")})
    return f"{reverse('rewind', kwargs=ref._asdict())}?{query}"


@require_http_methods(["GET", "POST"])
def rewind(request: HttpRequest, **names: str) -> HttpResponse:
    """Rewinds to before the invocation ?before=. If the session has changed since the page was opened, shows the page
    again."""
    ref = SessionRef(**names)
    check_may(request, "append", ref)
    before = request.GET.get("before", "")
    form = RewindForm.of(request, initial={"once": new_id()})
    if form.is_bound and form.data.get("action") != "now" and _ended(ref, actor(request)):
        return _page(request, ref, before, form, 409)  # the form says what is running, and offers a choice
    appended, status = act(form, lambda given: _rewind(ref, before, **given, who=actor(request)))
    if appended is None:
        return _page(request, ref, before, form, status)
    if appended.seq is None:
        messages.info(request, _("This rewind has already been written."))
    else:
        tell_saved(request, ref, appended.event["id"], appended.seq)
    return redirect(reverse("session", kwargs=names))


def _ended(ref: SessionRef, who: Actor) -> Running | None:
    """Returns the invocation that a rewind would end now: it restores a past, which no run can take in."""
    running = timeline.in_flight(ref, actor=who)
    return running if running and not running.waiting else None


def _revision(text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise Invalid(_("This form is incomplete. Open the page again.")) from error


class RewindForm(Form):
    """Says why. `revision` is the one that the session had when the page was opened."""

    once = Text(widget=HiddenInput)
    revision = Read(_revision)
    reason = Reason(help_text=gettext_lazy("Saved with the event."))


def _rewind(ref: SessionRef, before: str, *, revision: float, reason: str, once: str, who: Actor) -> Appended:
    try:
        return core.rewind(ref, before, actor=who, reason=reason, revision=revision, once=once)
    except StaleSession as error:
        raise StaleSession(_("This session changed after you opened the page. Review the changes again.")) from error


def _page(request: HttpRequest, ref: SessionRef, before: str, form: RewindForm, status: int = 200) -> HttpResponse:
    plan = core.plan(ref, before, actor=actor(request))
    ends = (plan.first, plan.gone.first, plan.gone.last)
    context: dict[str, Any] = {
        "ref": ref,
        "view": views.session(ref, actor=actor(request)),
        "plan": plan,
        "numbers": outline.numbers_of(ref, [each.seq for each in ends if each], actor=actor(request)),
        "revision": repr(plan.revision),
        "held": _ended(ref, actor(request)),
        "form": form,
        "error": next((errors[0] for errors in form.errors.values()), ""),
    }
    said = [form[name].value() or "" for name in ("reason", "once")]
    try:
        context["raw"] = dumps(core.event_of(plan, actor(request), *said), indent=2)
    except Error as refused:  # about what the session holds; sending the form reports it, too
        context["error"] = context["error"] or errors.shown(refused, actor(request))
    return page(request, "edits/rewind/rewind.html", context, status)
