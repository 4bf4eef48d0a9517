"""The inbox: lists the calls that wait for an answer, the oldest first, and dismisses those that no one will answer."""

from dataclasses import dataclass
from typing import Any, Final

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django.views.decorators.http import require_GET, require_POST

from ..access.actor import Actor
from ..domain.description import Part
from ..domain.errors import Conflict, Error, Invalid, NotFound
from ..domain.invocations import ASKING_CALLS
from ..domain.pending import CONFIRMATION, CREDENTIAL, INPUT, LONG_RUNNING
from ..domain.session_ref import SessionRef, digest_of
from ..domain.summary import arguments, tool_name
from ..http.problems import status_of
from ..running import answers
from ..running.answers import Given
from ..search import inbox as waiting
from ..search.inbox import Waiting
from ..search.results import behind
from ..sources import errors
from .forms import Check, Form, Text
from .html.render import offer_undo, page
from .links import session_of
from .numbers import count
from .request import actor, check_may

MOST_DECIDED: Final = 20  # calls at once: each is a run of an agent
KINDS: Final = {
    CONFIRMATION: gettext_lazy("confirmation"),
    INPUT: gettext_lazy("input"),
    CREDENTIAL: gettext_lazy("sign-in"),
    LONG_RUNNING: gettext_lazy("long-running"),
}


@dataclass(frozen=True, slots=True)
class Row:
    """A call that waits: what is asked, in the agent's words if it has any; then the tool with its arguments, unless they
    are what is asked or the tool is ADK's own. `address` is that of the session, at the call; `preview` shows it beside."""

    of: Waiting
    asked: str
    tool: str
    kind: str
    address: str
    preview: str
    decides: bool

    @property
    def approves(self) -> bool:
        """Returns whether the call can be approved or declined in the list: a payload, or what else its event asks, needs to
        be looked at first."""
        simple = self.of.kind == CONFIRMATION and self.of.asked is not None and self.of.asked.payload is None
        return simple and self.of.alone and not (self.of.why or self.of.dismissal)

    @classmethod
    def about(cls, each: Waiting, who: Actor) -> "Row":
        """Returns the row of a call; `decides` tells whether they may answer and dismiss it."""
        names, at = each.ref._asdict(), f"?seq={each.seq}"
        args = each.asked.args if each.asked else None
        call = tool_name(each.tool) + (arguments(Part("call", args)) if isinstance(args, dict) and args else "")
        hint = each.asked.hint if each.asked else ""
        if each.kind == CREDENTIAL:
            hint = _("Sign in") if each.tool in ASKING_CALLS else _("Sign in for %(tool)s") % {"tool": each.tool}
        return cls(
            each,
            hint or call,
            call if hint and each.tool not in ASKING_CALLS else "",
            str(KINDS[each.kind]),
            reverse("session", kwargs=names) + at,
            reverse("preview", kwargs=names) + at,
            who.may_write("operate", each.ref.source, each.ref.app_name),
        )


@require_GET
def inbox(request: HttpRequest) -> HttpResponse:
    """Lists the calls that wait; with ?show=passed those that users passed over, with ?show=dismissed those that someone
    dismissed."""
    return _page(request)


def _page(request: HttpRequest, more: dict[str, Any] | None = None, status: int = 200) -> HttpResponse:
    show, cursor = request.GET.get("show", ""), request.GET.get("after")
    who = actor(request)
    listed = waiting.waiting(actor=who, passed_over=show == "passed", dismissed=show == "dismissed", cursor=cursor)
    rows = [Row.about(each, who) for each in listed.rows]
    have = digest_of(*(each.key for each in listed.rows))
    if request.htmx and "have" in request.GET:  # type: ignore[attr-defined]
        if request.GET["have"] == have:
            return HttpResponse(status=204)
        return page(request, "inbox/_news.html", {"show": show})
    context = {
        "rows": rows,
        "have": have,
        "approves": any(row.decides and row.approves for row in rows),
        "next": listed.next,
        "show": show,
        "behind": behind(),
        "first": cursor is None,
        **(more or {}),
    }
    return page(request, "inbox/inbox.html", context, status)


class DecideForm(Form):
    """Approves the calls `ref`, each the path of its session and its key, if `confirmed` is "yes", and declines them if it
    is "no"."""

    ref = forms.Field(required=False, widget=forms.MultipleHiddenInput)
    confirmed = Text()


@require_POST
def decide(request: HttpRequest) -> HttpResponse:
    """Approves or declines several calls, each by itself. The page says how many, and why others weren't answered."""
    given, who = DecideForm.of(request).read(), actor(request)
    confirmed, answered, refused = given["confirmed"] == "yes", 0, list[str]()
    if given["confirmed"] not in ("yes", "no") or not 0 < len(given["ref"] or ()) <= MOST_DECIDED:
        return _page(request, {"error": _("Select 1 to %(most)s calls.") % {"most": MOST_DECIDED}}, 400)
    calls = [(session_of(path, who), key) for path, _sign, key in (each.partition("#") for each in given["ref"])]
    for ref, _key in calls:
        check_may(request, "operate", ref)
    for ref, key in calls:
        try:
            call = next(
                (each for each in waiting.waiting(actor=who, ref=ref, passed_over=None).rows if each.key == key), None
            )
            if call is None or not Row.about(call, who).approves:
                raise Conflict(_("This doesn't wait for an answer any longer. Nothing was sent."))
            answers.answer(ref, call.event_id, {call.call_id: Given(confirmed=confirmed)}, actor=who)
            answered += 1
        except Error as error:
            refused.append(errors.shown(error, who))
    if answered:
        message = ngettext("%(n)s call answered.", "%(n)s calls answered.", answered)
        messages.success(request, message % {"n": count(answered)})
    for message in dict.fromkeys(refused):
        messages.error(request, message)
    return redirect("inbox")


class DismissForm(Form):
    """Dismisses a call, named by its `key`. The button of a toast says `undo`."""

    key = Text()
    reason = Text()
    undo = Check()


@require_POST
def dismiss(request: HttpRequest, **names: str) -> HttpResponse:
    """Dismisses a call that no one will answer, or undoes that."""
    ref, form = SessionRef(**names), DismissForm.of(request)
    check_may(request, "operate", ref)
    try:
        given = form.read()
        if given["undo"]:
            waiting.undo_dismissal(ref, given["key"], actor=actor(request))
        else:
            waiting.dismiss(ref, given["key"], given["reason"], actor=actor(request))
            offer_undo(request, _("Call dismissed."), reverse("dismiss", kwargs=names), [("key", given["key"])])
    except (Invalid, NotFound) as error:
        return _page(request, {"error": error.message}, status_of(error))
    return redirect("inbox")
