"""The page of the audit: what people and programs did, the edits of sessions among it."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.urls import reverse
from django.utils.http import urlencode
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


@dataclass(frozen=True, slots=True)
class Row:
    """An act with its details in words, and the address of what it was about, if whoever looks may see that."""

    entry: AuditRow
    about: list[str]
    details: list[tuple[str, str]]  # a name alone says that it is so
    link: str


@require_GET
def audit(request: HttpRequest) -> HttpResponse:
    """Lists the acts and edits that a filter selects, the newest first. htmx gets the rows."""
    only, who = _filter(request), actor(request)
    audit_rows.check_audits(who)
    context: dict[str, Any] = {"only": only, "acts": sorted({*ACTS, EDIT}), "query": _query(only)}
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
        Row(each, [name for name in shown_ref(each.ref, who) if name], _details(each), _link(each, who))
        for each in entries
    ]


def _details(entry: AuditRow) -> list[tuple[str, str]]:
    return [
        (name, _words(value))
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
