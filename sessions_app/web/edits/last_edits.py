"""The last edits of all sources, for home: who, what, why, and whether an agent has read it since."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from ...access.actor import Actor
from ...domain.state import Change, Scope
from ...history import edit_log
from ...reads.event_views import EventView
from ...search import first_reads
from ...search.first_reads import Readers
from ..html.tags import count

RECENT: Final = 6
_SECONDS: Final = 0.2  # for reading what is new


@dataclass(frozen=True, slots=True)
class LastEdit:
    """An edit: the change that it is shown with, what is said of its readers, and where it was read."""

    edit: EventView
    change: Change | None
    read: str
    address: str
    shared: str


def last_edits(actor: Actor) -> list[LastEdit]:
    """Returns the newest edits that an actor may see."""
    page, _problems = edit_log.edits(limit=RECENT, seconds=_SECONDS, actor=actor)
    return [_of(view, actor) for view in page.rows]


def _of(view: EventView, actor: Actor) -> LastEdit:
    change = _widest(view.changes)
    if change is None or view.seq is None:
        return LastEdit(view, change, "", "", "")
    told = first_reads.readers(view.ref, view.seq, view.timestamp, change.scope, actor=actor)
    address = reverse("session", kwargs=told.first.ref._asdict()) + f"?seq={told.first.seq}" if told.first else ""
    return LastEdit(view, change, _read(told), address, _shared(told, change.scope))


def _widest(changes: Iterable[Change]) -> Change | None:
    """Returns the first change of the keys that most sessions share."""
    return min(changes, key=lambda change: ("app", "user", "session", "temp").index(change.scope), default=None)


def _read(told: Readers) -> str:
    if told.first:
        return _("read by the agent in turn %(n)s") % {"n": count(told.first.turn)}
    return _("not read yet") if told.known else ""


def _shared(told: Readers, scope: Scope) -> str:
    if told.sessions is None:
        return ""
    words = ngettext("%(n)s session shares it", "%(n)s sessions share it", told.sessions)
    return words % {"n": count(told.sessions, 0 if scope == "app" else first_reads.COUNT_LIMIT)}
