"""Lists what needs attention: failures, calls that wait for an answer, turns that are silent, drift, broken rules."""

from dataclasses import dataclass
from datetime import UTC
from typing import Final

from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from ...access.actor import Actor
from ...checks import breaches
from ...checks.breaches import Recent
from ...domain import shorten
from ...domain.session_ref import SessionRef
from ...domain.summary import tool_name
from ...http.reader import user_for_reader
from ...search import drift_looks, health, inbox, tree
from ...search.drift_looks import Drifted
from ...search.health import EVERYBODY, Failure, Of
from ...search.inbox import Waiting
from ...search.language import parse
from ...search.results import Row, search
from ..numbers import count
from .charts import Chosen

SESSIONS: Final = 4  # that wait, and as many that are silent
REJECTED: Final = "This tool call is rejected."  # what google-adk answers when a person has not confirmed a call
_VALUE, _HINT = 24, 80  # characters


@dataclass(frozen=True, slots=True)
class Item:
    """Something that needs attention: an icon and its severity, words, where it leads, and since when it is so.

    It was so `count` times. `action` is the label of a button that leads there, too. `key` says that the subject is a key of
    state.
    """

    icon: str
    severity: str
    subject: str
    words: str
    aside: str
    address: str
    since: float
    count: int = 1
    action: str = ""
    key: bool = False


def attention(chosen: Chosen, now: float, actor: Actor, of: Of = EVERYBODY, query: str = "") -> list[Item]:
    """Returns what needs attention in a range of time, the most frequent first, then the newest. `query` selects the
    sessions that `of` means."""
    items = [
        *(_failure(each, chosen, of, query) for each in health.failures(chosen.during, actor=actor, of=of)),
        *(_waiting(each, of, actor) for each in inbox.waiting(_query(query, now), actor=actor, limit=SESSIONS).rows),
        *(_silent(each, of) for each in _stuck(f"{query} status:stuck {chosen.query}".strip(), now, actor)),
        *(_drift(each, of) for each in drift_looks.drifted(actor=actor, of=of)),
        *(_broken(each, of) for each in breaches.recent(chosen.during, actor=actor, of=of)),
    ]
    return sorted(items, key=lambda item: (-item.count, -item.since))


def _failure(failure: Failure, chosen: Chosen, of: Of, query: str) -> Item:
    tool, colon, message = failure.text.partition(": ")
    subject, message = (tool, message) if colon and " " not in tool else ("", failure.text)
    sessions = ngettext("%(n)s session", "%(n)s sessions", failure.sessions) % {"n": count(failure.sessions)}
    numbers = {"n": count(failure.count), "sessions": sessions}
    times = _("failed %(n)s× in %(sessions)s") % numbers
    if failure.count == 1:
        times = _("failed") if subject else ""
    words = f"{times}: {message}" if subject else message
    if message == REJECTED:  # by a person: the tool has not failed, and its own figures do not say so
        words = _("was rejected %(n)s× in %(sessions)s") % numbers if failure.count > 1 else _("was rejected")
    whose = _whose(failure.ref, of, failure.title) if failure.sessions == 1 else ""
    aside = " · ".join(filter(None, ("" if subject else times, whose)))
    address = reverse("session", kwargs=failure.ref._asdict()) + f"?seq={failure.seq}"
    if failure.sessions > 1:
        alike = max(message.split("…"), key=len).strip().replace('"', " ")
        with_tool = f"tool:{tree.quoted(tool)} " if subject else ""
        address = chosen.sessions(f'{query} {with_tool}error:any "{alike}"'.strip())
    return Item("error", "bad", subject, words, aside, address, failure.last, failure.count)


def _query(text: str, now: float) -> tree.Query:
    return parse(text, now=now, zone=UTC)


def _stuck(query: str, now: float, actor: Actor) -> list[Row]:
    return search(_query(query, now), actor=actor, limit=SESSIONS).rows


def _silent(row: Row, of: Of) -> Item:
    words = _("went silent during a turn")
    return Item(
        "wait", "warn", row.title, words, _whose(row.ref, of), reverse("session", kwargs=row.ref._asdict()), row.last
    )


def _waiting(each: Waiting, of: Of, actor: Actor) -> Item:
    """Returns a call that waits, in the agent's words if it has any; its button leads to where it is answered."""
    address = f"{reverse('session', kwargs=each.ref._asdict())}#waits"
    hint = shorten.words(each.asked.hint, _HINT) if each.asked else ""
    words, aside = "" if hint else _("is waiting for an answer"), _whose(each.ref, of, each.title)
    may = actor.may_write("operate", each.ref.source, each.ref.app_name)
    action = _("Answer…") if may else _("Open the call")
    return Item("wait", "warn", hint or tool_name(each.tool), words, aside, address, each.since, action=action)


def _drift(each: Drifted, of: Of) -> Item:
    values = {"stored": shorten.brief(each.change.new, _VALUE), "said": shorten.brief(each.change.old, _VALUE)}
    words = _("is %(stored)s in the table, but %(said)s in the events") % values
    aside = _whose(each.ref, of, f"+{each.keys - 1}" if each.keys > 1 else "", each.title)
    address = reverse("drift", kwargs=each.ref._asdict())
    return Item("drift", "warn", each.change.key, words, aside, address, each.since, action=_("Repair"), key=True)


def _broken(each: Recent, of: Of) -> Item:
    sessions = ngettext("%(n)s session", "%(n)s sessions", each.sessions) % {"n": each.sessions}
    aside = " · ".join([sessions, *([] if of.app_name else [each.app_name])])
    address = reverse("rule", args=[each.source, each.app_name, each.rule])
    words = _("didn't hold")  # a rule is called like what must hold, not like the alarm
    return Item("key", "warn", each.name, words, aside, address, each.last, each.sessions)


def _whose(ref: SessionRef, of: Of, *words: str) -> str:
    """Returns words, and whose a session is, as far as the page does not say so by itself."""
    names = "" if of.app_name else ref.app_name, "" if of.user_id else user_for_reader(*ref[:3])
    return " · ".join(each for each in (*words, *names) if each)
