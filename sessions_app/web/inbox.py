"""The inbox: lists the calls that wait for an answer, the oldest first."""

from dataclasses import dataclass
from typing import Final

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_GET

from ..domain.description import Part
from ..domain.invocations import ASKING_CALLS
from ..domain.pending import CONFIRMATION, CREDENTIAL, INPUT, LONG_RUNNING
from ..domain.summary import arguments
from ..search import inbox as waiting
from ..search.inbox import Waiting
from ..search.results import behind
from .html.render import page
from .request import actor

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

    @classmethod
    def about(cls, each: Waiting) -> "Row":
        """Returns the row of a call."""
        names, at = each.ref._asdict(), f"?seq={each.seq}"
        args = each.asked.args if each.asked else None
        call = each.tool + (arguments(Part("call", args)) if isinstance(args, dict) and args else "")
        hint = each.asked.hint if each.asked else ""
        if each.kind == CREDENTIAL:
            hint = _("Sign in for %(tool)s") % {"tool": each.tool}
        return cls(
            each,
            hint or call,
            call if hint and each.tool not in ASKING_CALLS else "",
            str(KINDS[each.kind]),
            reverse("session", kwargs=names) + at,
            reverse("preview", kwargs=names) + at,
        )


@require_GET
def inbox(request: HttpRequest) -> HttpResponse:
    """Lists the calls that wait; with ?passed=1, those that users passed over."""
    who, passed = actor(request), request.GET.get("passed") == "1"
    listed = waiting.waiting(actor=who, passed_over=passed, cursor=request.GET.get("after"))
    context = {
        "rows": [Row.about(each) for each in listed.rows],
        "next": listed.next,
        "passed": passed,
        "behind": behind(),
        "first": "after" not in request.GET,
    }
    return page(request, "inbox/inbox.html", context)
