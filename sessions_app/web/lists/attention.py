"""Lists what needs attention: failures, calls that wait for an answer, turns that are silent, state that drifted."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC
from typing import Final

from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from ...access.actor import Actor
from ...domain.brief import brief
from ...search import drift_looks, health
from ...search.drift_looks import Drifted
from ...search.health import EVERYBODY, Failure, Of
from ...search.language import parse
from ...search.results import Row, search
from . import charts

FAILURES: Final = 5
SESSIONS: Final = 4  # that wait, and as many that are silent
_VALUE: Final = 24  # characters


@dataclass(frozen=True, slots=True)
class Item:
    """Something that needs attention: an icon and its severity, words, where it leads, and since when it is so.

    `action` is the label of a button that leads there, too. `key` says that the subject is a key of state.
    """

    icon: str
    severity: str
    subject: str
    words: str
    aside: str
    address: str
    since: float
    action: str = ""
    key: bool = False


def attention(name: str, now: float, actor: Actor, of: Of = EVERYBODY, query: str = "") -> list[Item]:
    """Returns what needs attention in a range of time, the worst first. `query` selects the sessions that `of` means."""
    failed = health.failures(charts.during(name, now), actor=actor, of=of)[:FAILURES]
    return [
        *(_failure(each, name, query) for each in failed),
        *_sessions(f"{query} status:waiting".strip(), now, actor),
        *_sessions(f"{query} status:stuck after:{name}".strip(), now, actor),
        *map(_drift, drift_looks.drifted(actor=actor, of=of)),
    ]


def _failure(failure: Failure, name: str, query: str) -> Item:
    tool, colon, message = failure.text.partition(": ")
    subject, message = (tool, message) if colon and " " not in tool else ("", failure.text)
    times = ngettext("failed %(n)s time", "failed %(n)s times", failure.count) % {"n": failure.count}
    words = f"{times}: {message}" if subject else message
    sessions = ngettext("%(n)s session", "%(n)s sessions", failure.sessions) % {"n": failure.sessions}
    address = reverse("session", kwargs=failure.ref._asdict()) + f"?seq={failure.seq}"
    if failure.sessions > 1:
        alike = max(message.split("…"), key=len).strip().replace('"', " ")
        address = charts.sessions_since(name, f'{query} error:any "{alike}"'.strip())
    aside = sessions if subject else f"{times} · {sessions}"
    return Item("error", "bad", subject, words, aside, address, failure.last)


def _sessions(query: str, now: float, actor: Actor) -> Iterator[Item]:
    for row in search(parse(query, now=now, zone=UTC), actor=actor, limit=SESSIONS).rows:
        yield _waiting(row, actor) if row.status == "waiting" else _silent(row)


def _silent(row: Row) -> Item:
    words = _("is silent in the middle of a turn")
    return Item("wait", "warn", row.title, words, _whose(row), reverse("session", kwargs=row.ref._asdict()), row.last)


def _waiting(row: Row, actor: Actor) -> Item:
    """Returns a session that waits. Its button says no more than it does: adkweb shows the call, and answers none."""
    address, words = reverse("session", kwargs=row.ref._asdict()), _("waits for an answer")
    if not (asked := health.asked(row.ref, actor=actor)):
        return Item("wait", "warn", row.title, words, _whose(row), address, row.last)
    tool, seq = asked
    aside = f"{row.title} · {_whose(row)}"
    return Item("wait", "warn", tool, words, aside, f"{address}?seq={seq}", row.last, _("Open the call"))


def _drift(each: Drifted) -> Item:
    values = {"stored": brief(each.change.new, _VALUE), "said": brief(each.change.old, _VALUE)}
    words = _("is %(stored)s in the table, the events say %(said)s") % values
    more = f"+{each.keys - 1} · " if each.keys > 1 else ""
    aside = f"{more}{each.title} · {each.ref.app_name} · {each.ref.user_id}"
    address = reverse("drift", kwargs=each.ref._asdict())
    return Item("drift", "warn", each.change.key, words, aside, address, each.since, _("Repair"), key=True)


def _whose(row: Row) -> str:
    return f"{row.ref.app_name} · {row.ref.user_id}"
