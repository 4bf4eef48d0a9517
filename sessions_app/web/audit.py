"""The page of the audit: what people and programs did, in words, the edits of sessions among it."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from operator import itemgetter
from typing import Any, Final

from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.translation import pgettext_lazy
from django.views.decorators.http import require_GET

from ..access.actor import Actor
from ..access.audit.acts import ACTS
from ..access.handles import shown_ref
from ..domain.errors import Invalid
from ..history import audit_log
from ..history.audit_log import EDIT
from ..http.streaming import streamed
from ..models import AuditRow
from ..reads import audit_rows
from .html.render import page
from .request import actor

SAID: Final = {
    "account-changed": pgettext_lazy("an act", "Account changed"),
    "account-connected": pgettext_lazy("an act", "Account connected"),
    "account-made": pgettext_lazy("an act", "Account created"),
    "admin-made": pgettext_lazy("an act", "Admin added"),
    "adopted": pgettext_lazy("an act", "Database adopted"),
    "approval-rule-deleted": pgettext_lazy("an act", "Approval rule deleted"),
    "approval-rule-made": pgettext_lazy("an act", "Approval rule created"),
    "backed-up": pgettext_lazy("an act", "Backup made"),
    "edit": pgettext_lazy("an act", "State edited"),
    "expiry-changed": pgettext_lazy("an act", "Expiry changed"),
    "exported": pgettext_lazy("an act", "Sessions exported"),
    "group-deleted": pgettext_lazy("an act", "Group deleted"),
    "group-made": pgettext_lazy("an act", "Group created"),
    "agent-address-set": pgettext_lazy("an act", "Agent's address set"),
    "agent-address-changed": pgettext_lazy("an act", "Agent's address changed"),
    "agent-address-removed": pgettext_lazy("an act", "Agent's address removed"),
    "group-renamed": pgettext_lazy("an act", "Group renamed"),
    "imported": pgettext_lazy("an act", "Sessions imported"),
    "invitation-withdrawn": pgettext_lazy("an act", "Invitation cancelled"),
    "invited": pgettext_lazy("an act", "Person invited"),
    "joined": pgettext_lazy("an act", "Invitation accepted"),
    "mask-rule-made": pgettext_lazy("an act", "Masking rule created"),
    "mask-rule-removed": pgettext_lazy("an act", "Masking rule removed"),
    "password-changed": pgettext_lazy("an act", "Password changed"),
    "proposal-applied": pgettext_lazy("an act", "Proposal applied"),
    "proposal-declined": pgettext_lazy("an act", "Proposal declined"),
    "proposal-seconded": pgettext_lazy("an act", "Proposal approved by the first of two"),
    "proposal-withdrawn": pgettext_lazy("an act", "Proposal cancelled"),
    "proposed": pgettext_lazy("an act", "Edit proposed"),
    "queued-withdrawn": pgettext_lazy("an act", "Queued edit cancelled"),
    "refused": pgettext_lazy("an act", "Access refused"),
    "released": pgettext_lazy("an act", "Database released"),
    "restored": pgettext_lazy("an act", "Backup restored"),
    "replayed": pgettext_lazy("an act", "Sessions replayed"),
    "retention-changed": pgettext_lazy("an act", "Retention rule changed"),
    "retention-removed": pgettext_lazy("an act", "Retention rule removed"),
    "revealed": pgettext_lazy("an act", "Hidden value revealed"),
    "role-given": pgettext_lazy("an act", "Role given"),
    "role-taken": pgettext_lazy("an act", "Role removed"),
    "rule-changed": pgettext_lazy("an act", "Rule changed"),
    "rule-created": pgettext_lazy("an act", "Rule created"),
    "rule-deleted": pgettext_lazy("an act", "Rule deleted"),
    "second-factor-removed": pgettext_lazy("an act", "Second factor removed"),
    "second-factor-set": pgettext_lazy("an act", "Second factor set up"),
    "session-deleted": pgettext_lazy("an act", "Session deleted"),
    "session-held": pgettext_lazy("an act", "Session put on hold"),
    "session-unheld": pgettext_lazy("an act", "Session's hold ended"),
    "call-answered": pgettext_lazy("an act", "Waiting call answered"),
    "message-sent": pgettext_lazy("an act", "Message sent to an agent"),
    "breakpoint-removed": pgettext_lazy("an act", "Breakpoint removed"),
    "breakpoint-set": pgettext_lazy("an act", "Breakpoint set"),
    "step-continued": pgettext_lazy("an act", "Agent continued after a pause"),
    "run-continued": pgettext_lazy("an act", "Agent's run continued"),
    "tool-tried": pgettext_lazy("an act", "Tool run in a what-if"),
    "kept": pgettext_lazy("an act", "What-if kept as a fork"),
    "tried": pgettext_lazy("an act", "What-if tried"),
    "run-stopped": pgettext_lazy("an act", "Agent's run stopped"),
    "call-dismissed": pgettext_lazy("an act", "Waiting call dismissed"),
    "call-undismissed": pgettext_lazy("an act", "Dismissal undone"),
    "sign-in": pgettext_lazy("an act", "Signed in"),
    "sign-in-failed": pgettext_lazy("an act", "Sign-in failed"),
    "sign-out": pgettext_lazy("an act", "Signed out"),
    "token-created": pgettext_lazy("an act", "Token created"),
    "token-renewed": pgettext_lazy("an act", "Token renewed"),
    "token-revoked": pgettext_lazy("an act", "Token revoked"),
    "user-erased": pgettext_lazy("an act", "User erased"),
    "view-changed": pgettext_lazy("an act", "View changed"),
    "view-deleted": pgettext_lazy("an act", "View deleted"),
    "view-saved": pgettext_lazy("an act", "View saved"),
    "webhook-removed": pgettext_lazy("an act", "Webhook removed"),
    "webhook-set": pgettext_lazy("an act", "Webhook set up"),
}


@dataclass(frozen=True, slots=True)
class Row:
    """An act with its details in words, and the address of what it was about, if whoever looks may see that."""

    entry: AuditRow
    said: str
    about: list[str]
    details: list[tuple[str, str]]  # a name alone says that it is so
    link: str


@require_GET
def audit(request: HttpRequest) -> HttpResponse:
    """Lists the acts and edits that a filter selects, the newest first. htmx gets the rows."""
    only, who = _filter(request), actor(request)
    audit_rows.check_audits(who)
    context: dict[str, Any] = {
        "only": only,
        "acts": sorted(((act, str(SAID[act])) for act in {*ACTS, EDIT}), key=itemgetter(1)),
        "query": _query(only),
    }
    context["receivers"] = audit_rows.receivers(actor=who)
    status = 200
    try:
        listed, context["missing"] = audit_log.entries(only, request.GET.get("before"), actor=who)
        context |= {"rows": _rows(listed.rows, who), "next": listed.next}
    except Invalid as error:
        context["error"], status = error.message, 400
    htmx: Any = request.htmx  # type: ignore[attr-defined]
    return page(request, "audit/_rows.html" if htmx and status == 200 else "audit/audit.html", context, status)


@require_GET
def export(request: HttpRequest) -> StreamingHttpResponse:
    """Downloads the acts and edits that a filter selects, one JSON object a line."""
    lines = audit_log.export(_filter(request), actor=actor(request))
    return streamed(lines, "application/jsonl", {"Content-Disposition": 'attachment; filename="audit.jsonl"'})


def _rows(entries: Iterable[AuditRow], who: Actor) -> list[Row]:
    return [
        Row(
            each,
            str(SAID.get(each.act, each.act)),
            [name for name in shown_ref(each.ref, who) if name],
            _details(each),
            _link(each, who),
        )
        for each in entries
    ]


_NAMES: Final = {"how": pgettext_lazy("signed in", "with")}  # where the name of a detail is no word for it


def _details(entry: AuditRow) -> list[tuple[str, str]]:
    return [
        (str(_NAMES.get(name, name.replace("_", " "))), _words(value))
        for name, value in entry.details.items()
        if value is not False and value not in (None, "", [])
    ]


def _words(value: Any) -> str:
    if value is True:
        return ""
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _link(entry: AuditRow, who: Actor) -> str:
    """Returns the address of an edit's event, or of the session that an act was about. An auditor may see neither."""
    names = entry.ref._asdict()
    if not all(entry.ref) or entry.act == "session-deleted" or not who.may_see(entry.ref.source, entry.ref.app_name):
        return ""
    return (
        reverse("event", kwargs={**names, "event_id": entry.event_id})
        if entry.event_id
        else reverse("session", kwargs=names)
    )


def _filter(request: HttpRequest) -> audit_rows.Filter:
    given = (request.GET.get(name, "").strip() for name in ("act", "by", "app", "day"))
    return audit_rows.Filter(*given)


def _query(only: audit_rows.Filter) -> str:
    """Returns the filter as the query of an address."""
    return urlencode({name: value.encode("utf-8", "replace") for name, value in asdict(only).items() if value})
