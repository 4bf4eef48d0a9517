"""Keeps the sessions of a batch, each with its outcome."""

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final
from uuid import UUID

from django.db.models import Count, Q
from django.utils.translation import gettext as _

from ..domain.errors import NotOpen
from ..domain.session_ref import SessionRef
from ..models import BatchItem
from ..models.pages import in_pages
from ..sources import registry

TO_DO: Final = ""
CHANGED: Final = "changed"
SAME: Final = "same"  # nothing was to be changed
MOVED: Final = "moved"  # someone has changed it since it was tried
GONE: Final = "gone"
REFUSED: Final = "refused"
OUTCOMES: Final = (CHANGED, SAME, MOVED, GONE, REFUSED)
_SOME: Final = 500


def add(job_id: UUID, sessions: Iterable[tuple[SessionRef, str]], start: int = 0) -> int:
    """Adds sessions to a batch that has `start` of them, each with what is expected there. Returns their number."""
    numbered = enumerate(sessions, start)
    added = 0
    while some := list(islice(numbered, _SOME)):
        BatchItem.objects.bulk_create(
            BatchItem(
                job_id=job_id,
                number=number,
                where=registry.identity(ref.source),
                names=json.dumps(ref[1:]),
                expects=expects,
            )
            for number, (ref, expects) in some
        )
        added += len(some)
    return added


def walk(job_id: UUID) -> Iterator[BatchItem]:
    """Yields the sessions for which something is to be done, in order. Reads a page at a time."""
    yield from in_pages(of(job_id, TO_DO), "number")


def of(job_id: UUID, outcome: str) -> Any:
    """Returns the rows of a batch with this outcome."""
    return BatchItem.objects.filter(job_id=job_id, outcome=outcome)


def apps_with_events(job_id: UUID) -> set[str]:
    """Returns the apps in which a batch has written an event."""
    return {json.loads(row.names)[0] for row in in_pages(of(job_id, CHANGED).exclude(event_id=""), "number")}


def sources_of(job_id: UUID) -> dict[str, str | None]:
    """Returns the sources of a batch's sessions: their alias by their identity, or None if they are not open."""
    rows = BatchItem.objects.filter(job_id=job_id).order_by().values_list("where", flat=True).distinct()
    return {where: registry.alias_of(where) for where in rows}


def ref_of(item: BatchItem, sources: Mapping[str, str | None]) -> SessionRef:
    """Returns the session of a row. Raises NotOpen if its source is not open."""
    alias = sources[item.where]
    if alias is None:
        raise NotOpen(_("One of this batch's sources isn't open."))
    return SessionRef(alias, *json.loads(item.names))


def note(item: BatchItem, **fields: Any) -> None:
    """Sets fields of a row."""
    BatchItem.objects.filter(pk=item.pk).update(**fields)


def begin(item: BatchItem) -> None:
    """Notes that a session is about to be deleted, so that a process that continues after this one knows who did it."""
    BatchItem.objects.filter(pk=item.pk).update(begun=True)


def note_tried(item: BatchItem, claim: str, **fields: Any) -> None:
    """Sets fields of a row, unless the dry run that has this claim was stopped: another one may have started."""
    BatchItem.objects.filter(pk=item.pk, job__claim=claim).update(**fields)


def counts(job_id: UUID) -> dict[str, int]:
    """Returns how many sessions have each outcome; `held` counts those with something to do whose agent was running,
    and `waited` those that are changed and whose agent was running when it was tried or first to be done."""
    rows = (
        BatchItem.objects.filter(job_id=job_id)
        .values("outcome")
        .annotate(n=Count("id"), held=Count("id", Q(held=True)))
    )
    some = {row["outcome"]: row for row in rows.order_by()}
    numbers = {outcome: some[outcome]["n"] if outcome in some else 0 for outcome in (TO_DO, *OUTCOMES)}
    held = {outcome: some[outcome]["held"] if outcome in some else 0 for outcome in (TO_DO, CHANGED)}
    return {**numbers, "held": held[TO_DO], "waited": held[CHANGED]}
