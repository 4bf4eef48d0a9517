"""Reads the rows of the audit for people who may read it; history/audit_log.py merges them with the edits."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Final

from django.db.models import QuerySet
from django.utils.translation import gettext as _

from ..access.actor import Actor
from ..access.audit.forwarding import Backlog, backlogs
from ..access.audit.record import row_text
from ..access.handles import are_hidden_anywhere, shown_user
from ..domain.errors import Invalid, NotAllowed
from ..models import AuditRow

_READ: Final = 2_000  # rows that an export reads at once


@dataclass(frozen=True, slots=True)
class Filter:
    """Selects rows by their act, by who did it, by app, and by day (UTC). Empty texts select all."""

    act: str = ""
    by: str = ""
    app: str = ""
    day: str = ""

    @property
    def seconds(self) -> tuple[float, float]:
        """Returns when the day starts, and when the next one does. Raises Invalid for a text that isn't a day."""
        try:
            first = datetime.combine(date.fromisoformat(self.day), datetime.min.time(), UTC)
            return first.timestamp(), (first + timedelta(days=1)).timestamp()
        except (ValueError, OverflowError) as error:
            words = _("“%(day)s” isn't a date. Use the format 2026-11-25.")
            raise Invalid(words % {"day": self.day[:40]}, field="day") from error


def check_audits(actor: Actor) -> None:
    """Raises NotAllowed unless an actor may read the audit."""
    if not actor.audits:
        raise NotAllowed(_("Only auditors and admins of all sources and apps can read the audit."))


def newest(only: Filter, below: int | None, limit: int, *, actor: Actor) -> list[AuditRow]:
    """Returns the newest rows that a filter selects, or the newest below a number. Raises Invalid and NotAllowed."""
    check_audits(actor)
    rows = _rows(only)
    if below is not None:
        rows = rows.filter(number__lt=below)
    return list(rows.order_by("-number")[:limit])


def receivers(*, actor: Actor) -> list[Backlog]:
    """Returns the progress of each receiver of the audit. Raises NotAllowed."""
    check_audits(actor)
    return backlogs()


def lines(only: Filter, *, actor: Actor) -> Iterator[tuple[float, str]]:
    """Yields the selected rows as lines of JSON, the oldest first, each with its time. Raises Invalid and NotAllowed.

    A row has the handle of a user whose id is hidden from the actor. With the digest of such a row, or of a later one,
    anyone could try ids: for actors from whom any id may be hidden, no row has one."""
    check_audits(actor)
    rows, after, chained = _rows(only), 0, not are_hidden_anywhere(actor)
    while some := list(rows.filter(number__gt=after).order_by("number")[:_READ]):
        for row in some:
            row.user_id = shown_user(row.source, row.app_name, row.user_id, actor)
            yield row.at, row_text(row, chained=chained)
        after = some[-1].number


def _rows(only: Filter) -> QuerySet[AuditRow]:
    rows = AuditRow.objects.all()
    for name, value in (("act", only.act), ("by", only.by), ("app_name", only.app)):
        if value:
            rows = rows.filter(**{name: value.replace("\0", "")})
    if only.day:
        first, next_day = only.seconds
        rows = rows.filter(number__gte=_first_since(first), number__lt=_first_since(next_day))
    return rows


def _first_since(moment: float) -> int:
    """Returns the number of the first row since a moment, or the next one to come. Rows are in the order of time."""
    newest: int = AuditRow.objects.order_by("-number").values_list("number", flat=True).first() or 0
    low, high = 1, newest + 1
    while low < high:
        middle = (low + high) // 2
        at = AuditRow.objects.filter(number__gte=middle).order_by("number").values_list("at", flat=True).first()
        if at is None or at >= moment:
            high = middle
        else:
            low = middle + 1
    return low
