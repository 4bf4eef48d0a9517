"""Turns a query into SQL over the index: which sessions it selects."""

import functools
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, cast

import psycopg
from django.conf import settings
from django.db import OperationalError, connection, transaction
from django.utils.translation import gettext as _

from ..access import masking
from ..access.actor import PEOPLE, Actor
from ..access.handles import sees_ids, shown_user
from ..domain.errors import Slow
from ..domain.positions import Seq
from ..domain.session_ref import digest_of
from ..models import SearchSession, SearchSource
from ..sources import dialect, registry
from ..sources.dialect import Either
from . import masked, tree, vocabulary
from .at_work import BUSY, Numbers
from .matching import Question, answering, answering_of, question
from .sql import is_one_of, rows
from .values import REMOVED, value_of
from .words import START, folded, marked

# Each twice: as the list of all sessions that have it, and as a question to one row.
_FACTS: Final = {
    False: """+s.id IN (SELECT f.session_id FROM sessions_app_searchname AS n
        JOIN sessions_app_searchfact AS f ON f.name_id = n.id WHERE n.kind = '{kind}' AND {value})""",
    True: """EXISTS (SELECT 1 FROM sessions_app_searchfact AS f JOIN sessions_app_searchname AS n ON n.id = f.name_id
        WHERE f.session_id = s.id AND n.kind = '{kind}' AND {value})""",
}
_USERS: Final = {
    False: "+s.user_owner_id IN (SELECT n.id FROM sessions_app_searchowner AS n WHERE n.user_id <> '' AND {value})",
    True: """EXISTS (SELECT 1 FROM sessions_app_searchowner AS n
        WHERE n.id = s.user_owner_id AND n.user_id <> '' AND {value})""",
}
_TAGS: Final = """EXISTS (SELECT 1 FROM sessions_app_sessiontag AS t JOIN sessions_app_searchsource AS w
    ON w."where" = t."where" WHERE w.id = s.source_id AND t.digest = s.digest AND {value})"""
_OWNERS: Final = {"session": "+s.id", "user": "-s.user_owner_id", "app": "-s.app_owner_id"}
_PREFIXES: Final = {"session": "", "user": "user:", "app": "app:"}
_STATE: Final = {
    False: """{owner} IN (SELECT v.owner_id FROM sessions_app_searchname AS n
        JOIN sessions_app_searchvalue AS v ON v.name_id = n.id WHERE n.kind = 'key' AND n.value = %s AND ({holds}))""",
    True: """EXISTS (SELECT 1 FROM sessions_app_searchvalue AS v JOIN sessions_app_searchname AS n ON n.id = v.name_id
        WHERE v.owner_id = {owner} AND n.kind = 'key' AND n.value = %s AND ({holds}))""",
}


# What events wrote, `v` as well.
_WROTE: Final = {
    False: """+s.id IN (SELECT v.session_id FROM sessions_app_searchname AS n
        JOIN sessions_app_searchwrite AS v ON v.name_id = n.id WHERE n.kind = 'key' AND {holds})""",
    True: """EXISTS (SELECT 1 FROM sessions_app_searchwrite AS v JOIN sessions_app_searchname AS n ON n.id = v.name_id
        WHERE v.session_id = s.id AND n.kind = 'key' AND {holds})""",
}
_WRITERS: Final = """v.writer_id IN (SELECT b.id FROM sessions_app_searchname AS b
    WHERE b.kind IN ('author', 'edited') AND {position} > 0)"""


# The calls that wait, and that the user didn't pass over. They are few, and their sessions are among those at work. SQLite
# goes by the index search_pending_at for an equation, but not for NOT: that leads a session to its own calls.
_WAITS: Final = {
    False: f"""({BUSY} AND s.id IN (SELECT p.session_id FROM sessions_app_searchpending AS p
        WHERE p.passed_over = FALSE AND {{holds}}))""",
    True: """EXISTS (SELECT 1 FROM sessions_app_searchpending AS p
        WHERE p.session_id = s.id AND NOT p.passed_over AND {holds})""",
}
MANY: Final = 500  # users or names that a filter means
_TURNED: Final = str.maketrans("<>", "><")


@dataclass(slots=True)
class Selection:
    """The rows of the index that a query selects, as a condition over `s` with its values.

    `questions` are those that the index of words is asked, for the lines that match; `written` are conditions on keys, for
    the events that wrote what they ask for.
    """

    sql: str = "TRUE"
    values: list[Any] = field(default_factory=list)
    questions: list[tuple[tree.Text, Question]] = field(default_factory=list)
    written: list[tree.State | tree.Wrote] = field(default_factory=list)

    @property
    def broad(self) -> list[str]:
        """Returns the parts of words that too many words have in common."""
        return [each.broad for _text, each in self.questions if each.broad]


def select(query: tree.Query, actor: Actor) -> Selection:
    """Returns what a query selects of all sessions that the actor may see."""
    selection = Selection()
    conditions = ["s.listed", sessions_in_seen_apps(actor, selection.values)]
    if query.tree is not None:
        conditions.append(_Builder(selection, time.time(), actor=actor).of(query.tree))
    selection.sql = " AND ".join(conditions)
    return selection


def query_of(source: str, app_name: str, user_id: str = "", *, actor: Actor) -> str:
    """Returns the query for all sessions of an app, or of one of its users.

    It names the source only if another one has an app of that name, too, and the actor may see it."""
    query, digest = f"app:{tree.quoted(app_name)}", digest_of(app_name, "")
    if len([app for app in seen_apps(actor) if app.digest == digest]) > 1:
        query = f"source:{tree.quoted(source)} {query}"
    return f"{query} user:{tree.quoted(shown_user(source, app_name, user_id, actor))}" if user_id else query


def among(numbers: Collection[int], query: tree.Query, *, now: float, actor: Actor = PEOPLE) -> set[int]:
    """Returns which of a few rows of the index a query selects at a time, by their numbers.

    Apart from words, each row is asked for itself, so that it costs the same however many others there are."""
    if not numbers:
        return set()
    selection = Selection()
    condition = "TRUE" if query.tree is None else _Builder(selection, now, numbers, actor).of(query.tree)
    some = ", ".join(map(str, numbers))
    selected = rows(
        f"SELECT s.id FROM sessions_app_searchsession AS s WHERE s.id IN ({some}) AND s.listed AND {condition}",
        selection.values,
    )
    return {row[0] for row in selected}


def newest_writes(sessions: Sequence[int], node: tree.State | tree.Wrote, most: int) -> dict[int, list[Seq]]:
    """Returns the seqs of the newest events that wrote what a condition asks for, at most so many of each session, the
    newest first."""
    selection = Selection()
    holds = _Builder(selection, time.time()).written(node)
    some: list[Any] = []
    writes = rows(
        f"""SELECT session, seq FROM (SELECT v.session_id AS session, v.seq AS seq,
            row_number() OVER (PARTITION BY v.session_id ORDER BY v.seq DESC) AS turn
            FROM sessions_app_searchname AS n JOIN sessions_app_searchwrite AS v ON v.name_id = n.id
            WHERE {is_one_of("v.session_id", sessions, some)} AND n.kind = 'key' AND v.seq > 0 AND {holds}) AS w
        WHERE turn <= {most} ORDER BY seq DESC""",
        [*some, *selection.values],
    )
    seqs: dict[int, list[Seq]] = {}
    for session, seq in writes:
        seqs.setdefault(session, []).append(Seq(seq))
    return seqs


class _Builder:
    """Builds the condition of a tree."""

    def __init__(self, selection: Selection, now: float, few: Collection[int] = (), actor: Actor = PEOPLE) -> None:
        self._selection = selection
        self._values = selection.values
        self._now = now
        self._few = few  # rows that are asked for one by one
        self._revealed_values: list[
            Any
        ] = []  # of the condition for users whose ids the actor sees though they are hidden
        self._revealed = _in_revealing_apps(actor, self._revealed_values)

    def of(self, node: tree.Node, positive: bool = True) -> str:
        """Returns the condition of a node."""
        if positive and isinstance(node, tree.State | tree.Wrote):
            self._selection.written.append(node)
        match node:
            case tree.And(children):
                return f"({' AND '.join([self.of(child, positive) for child in children])})"
            case tree.Or(children):
                return f"({' OR '.join([self.of(child, positive) for child in children])})"
            case tree.Not(child):
                return f"(NOT {self.of(child, not positive)})"
            case tree.Text():
                return self._text(node, positive)
            case _:
                return _LEAVES[type(node)](self, node)

    def _text(self, node: tree.Text, positive: bool) -> str:
        asked = question(node.text, vocabulary.remembered if self._few else vocabulary.containing)
        if asked is None:
            return "FALSE"
        if positive:
            self._selection.questions.append((node, asked))
        condition, values = answering_of(self._few, asked) if self._few else answering(asked)
        self._values += values
        return condition

    def _match(self, node: tree.Match) -> str:
        if node.name == "source":
            some = [number for number, alias in listed_sources().items() if _is_meant(alias, node)]
            return is_one_of("+s.source_id", some, self._values)
        if node.name == "app":
            return is_one_of("s.app_name", self._apps(node), self._values)
        if node.name == "user":
            return self._user(node)
        if node.name in ("session", "title"):
            return self._compared({"session": "s.folded_id", "title": "s.folded_title"}[node.name], node)
        if node.name == "tag":
            return _TAGS.format(value=self._compared("t.seen", node))
        if node.name == "waits-for":
            return self._waits_for(self._named(node))
        return self._fact(node.name, self._named(node))

    def _user(self, node: tree.Match) -> str:
        """Few users lead to their sessions; of many, what sorts the sessions is the better guide.

        A hidden id is looked for where it is seen, and its handle everywhere."""
        condition, count = self._named(node), 1
        if self._revealed:
            condition = f"({condition} OR ({self._revealed} AND {_holds('n.folded_id', node)} AND n.folded_id <> ''))"
            self._values += [*self._revealed_values, marked(node.value)]
            count = len(self._revealed_values) + 2
        users = self._numbers(f"sessions_app_searchowner AS n WHERE n.user_id <> '' AND {condition}", count)
        if users is None:
            return _USERS[bool(self._few)].format(value=condition)
        return f"s.user_owner_id IN ({users})" if users else "FALSE"

    def _fact(self, kind: str, condition: str) -> str:
        """Names that are few are looked up before their sessions: how many these are can be told then."""
        names = self._numbers(f"sessions_app_searchname AS n WHERE n.kind = '{kind}' AND {condition}")
        if names is None:
            return _FACTS[bool(self._few)].format(kind=kind, value=condition)
        return (
            f"+s.id IN (SELECT f.session_id FROM sessions_app_searchfact AS f WHERE f.name_id IN ({names}))"
            if names
            else "FALSE"
        )

    def _waits_for(self, condition: str) -> str:
        tools = self._numbers(f"sessions_app_searchname AS n WHERE n.kind = 'tool' AND {condition}")
        if tools is None:
            return self._waiting(
                f"EXISTS (SELECT 1 FROM sessions_app_searchname AS n WHERE n.id = p.name_id AND {condition})"
            )
        return self._waiting(f"p.name_id IN ({tools})") if tools else "FALSE"

    def _waits(self, node: tree.Waits) -> str:
        self._values.append(node.value)
        return self._waiting("p.kind = %s")

    def _waiting(self, holds: str) -> str:
        return _WAITS[bool(self._few)].format(holds=holds)

    def _numbers(self, meant: str, count: int = 1) -> str | None:
        """Returns the numbers of the rows `n` for which the last values hold, and takes these away; None if they are many,
        or if rows are asked for one by one."""
        if self._few:
            return None
        numbers = rows(f"SELECT n.id FROM {meant} LIMIT {MANY + 1}", self._values[-count:])
        if len(numbers) > MANY:
            return None
        del self._values[-count:]
        return ", ".join(str(number) for (number,) in numbers)

    def _apps(self, node: tree.Match) -> list[str]:
        every: Iterable[str] = {app.name for app in apps()}
        if self._few:
            every = SearchSession.objects.filter(pk__in=self._few).values_list("app_name", flat=True).distinct()
        return [app for app in every if _is_meant(app, node)]

    def _compared(self, column: str, node: tree.Match) -> str:
        self._values.append(folded(node.value))
        return _holds(column, node)

    def _named(self, node: tree.Match) -> str:
        """Names are looked for from the start of a word, errors anywhere."""
        wanted = marked(node.value)
        self._values.append(wanted.removeprefix(START) if node.name == "error" and not node.exact else wanted)
        return _holds("n.folded", node)

    def _presence(self, node: tree.Presence) -> str:
        condition = {
            "error": "s.errors > 0",
            "edited": "s.edited",
            "tag": _TAGS.format(value="TRUE"),
            "waits": self._waiting("TRUE"),
        }[node.name]
        return condition if node.there else f"NOT ({condition})"

    def _kind(self, node: tree.Kind) -> str:
        self._values.append(node.value)
        return self._fact("kind", "n.value = %s")

    def _status(self, node: tree.Status) -> str:
        silent, busy = self._now - settings.SILENCE_SECONDS, f"{BUSY} AND s.phase"
        if node.value in ("running", "stuck"):
            self._values.append(silent)
            condition = f"({busy} = 'open' AND s.last {'>=' if node.value == 'running' else '<'} %s)"
        elif node.value in ("waiting", "stopped"):
            condition = f"({busy} = '{node.value}')"
        else:
            condition = f"(s.phase = 'idle' AND {'s.failed' if node.value == 'failed' else 'NOT s.failed'})"
        # What is known can't be asked for another time, as watched views do.
        return condition if self._few else Numbers.now().narrowed(node.value, condition)

    def _time(self, node: tree.Time) -> str:
        self._values.append(node.seconds)
        return "s.last >= %s" if node.name == "after" else "s.first < %s"

    def _number(self, node: tree.Number) -> str:
        if node.name == "waiting":
            return self._waiting_time(node)
        if node.op == "..":
            self._values += [node.value, node.upto]
            return f"s.{node.name} BETWEEN %s AND %s"
        self._values.append(node.value)
        return f"s.{node.name} {node.op} %s"

    def _waiting_time(self, node: tree.Number) -> str:
        """Turns the comparison: a call that has waited longer was asked earlier."""
        if node.op == "..":
            self._values += [self._now - cast(float, node.upto), self._now - node.value]
            return self._waiting("p.at BETWEEN %s AND %s")
        self._values.append(self._now - node.value)
        return self._waiting(f"p.at {node.op.translate(_TURNED)} %s")

    def _state(self, node: tree.State) -> str:
        """What a key was, is what events wrote and, of the session's own, what it is: it may have begun with that."""
        now = ""
        if not node.ever or node.scope == "session":
            self._values.append(path_of(node))
            now = _STATE[bool(self._few)].format(owner=_OWNERS[node.scope], holds=self._holds(node))
        if not node.ever:
            return now
        was = self._wrote(node)
        return f"({now} OR {was})" if now else was

    def _wrote(self, node: tree.State | tree.Wrote) -> str:
        return _WROTE[bool(self._few)].format(holds=self.written(node))

    def written(self, node: tree.State | tree.Wrote) -> str:
        """Returns the condition for the key `n` and what events wrote, `v`."""
        self._values.append(path_of(node))
        if isinstance(node, tree.State):
            return f"n.value = %s AND v.kind <> '{REMOVED.kind}' AND ({self._holds(node)})"
        holds = "n.value = %s AND " + ("v.changed" if node.name == "changed" else "v.seq > 0")
        if node.by:
            self._values.append(marked(node.by))
            holds += f" AND {_WRITERS.format(position=dialect.of(connection).position('b.folded'))}"
        return holds

    def _holds(self, node: tree.State) -> str:
        if node.op == "exists":
            return "TRUE"
        if node.op == "in":
            return " OR ".join([self._equal(value) for value in node.values]) or "FALSE"
        if node.op in ("=", "!="):
            equal = self._equal(node.values[0])
            return equal if node.op == "=" else f"NOT ({equal})"
        value = value_of(node.values[0])
        if value.kind not in "ns":
            return "FALSE"
        self._values += [value.kind, value.text]
        return f"v.kind = %s AND {dialect.of(connection).by_bytes('v.text')} {node.op} %s"

    def _equal(self, stored: tree.Value) -> str:
        value = value_of(stored)
        self._values += [value.kind, value.text]
        return "(v.kind = %s AND v.text = %s)"


def path_of(node: tree.State | tree.Wrote) -> str:
    """Returns the path of a key, with its prefix, as the index has it."""
    return _PREFIXES[node.scope] + ".".join(node.path)


def _in_revealing_apps(actor: Actor, values: list[Any]) -> str:
    """Returns the condition for users `n` of apps in which ids are hidden, but not from this actor; "" if there are none."""
    names: dict[int, list[str]] = {}
    if masking.mask_of_all().hides_ids and actor is not PEOPLE:
        for app in seen_apps(actor):
            if sees_ids(app.source, app.name, actor):
                names.setdefault(app.source_number, []).append(app.name)
    conditions = []
    for number, some in names.items():
        values.append(number)
        conditions.append(f"(n.source_id = %s AND {is_one_of('n.app_name', some, values)})")
    return f"({' OR '.join(conditions)})" if conditions else ""


def _holds(column: str, node: tree.Match) -> str:
    if node.exact:
        return f"{column} = %s"
    return f"{dialect.of(connection).position(column)} > 0"


def about(node: tree.Node | None, every: frozenset[tuple[str, str]]) -> frozenset[tuple[str, str]]:
    """Returns in which apps, of `every` source and app, a query may find sessions, by what it says of sources and apps. What
    a `not` leaves out may be anywhere, so that it counts for nothing."""
    match node:
        case tree.And(children=children):
            return functools.reduce(frozenset.intersection, (about(each, every) for each in children))
        case tree.Or(children=children):
            return functools.reduce(frozenset.union, (about(each, every) for each in children))
        case tree.Match(name="app" | "source" as name):
            return frozenset(each for each in every if _is_meant(each[name == "app"], node))
    return every


def _is_meant(name: str, node: tree.Match) -> bool:
    wanted = marked(node.value)
    return marked(name) == wanted if node.exact else wanted in marked(name)


_LEAVES: Final[dict[type, Callable[[_Builder, Any], str]]] = {
    tree.Match: _Builder._match,
    tree.Presence: _Builder._presence,
    tree.Kind: _Builder._kind,
    tree.Status: _Builder._status,
    tree.Waits: _Builder._waits,
    tree.Time: _Builder._time,
    tree.Number: _Builder._number,
    tree.State: _Builder._state,
    tree.Wrote: _Builder._wrote,
}


# --- Which indexed apps somebody may see, in the sources that are open ------------------------------------------------


class App(NamedTuple):
    """An indexed app of a listed source: the numbers that the index has for it and for the source, the digest that stands
    for its name, which may be cut, and how many of its sessions are listed."""

    number: int
    source_number: int
    source: str
    digest: str
    name: str
    sessions: int


def apps() -> list[App]:
    """Returns all indexed apps of listed sources, but for sources that were read by other rules of masking."""
    aliases = registry.aliases()
    # Without these very words in the condition, SQLite would look at every user.
    every = rows(
        """SELECT o.id, o.source_id, w."where", o.digest, o.app_name, o.sessions FROM sessions_app_searchowner AS o
        JOIN sessions_app_searchsource AS w ON w.id = o.source_id WHERE o.user_id = '' AND w.version = %s""",
        [masked.version()],
    )
    return [App(number, source, aliases[where], *rest) for number, source, where, *rest in every if where in aliases]


def seen_apps(actor: Actor) -> list[App]:
    """Returns the indexed apps that an actor may see."""
    return _seen(apps(), actor)


def _seen(every: list[App], actor: Actor) -> list[App]:
    whole = {alias for alias in registry.aliases().values() if actor.sees_all_of(alias)}
    return [app for app in every if app.source in whole or actor.may_see(app.source, app.name)]


def seen_everywhere(actor: Actor) -> list[str]:
    """Returns the indexed apps that an actor may see in every listed source that has one of that name."""
    every = apps()
    return sorted({app.name for app in every} - {app.name for app in set(every).difference(_seen(every, actor))})


def sessions_in_seen_apps(actor: Actor, values: list[Any]) -> str:
    """Returns the condition for sessions `s` of listed sources, in apps that the actor may see."""
    if actor.sees_all:
        return is_one_of("+s.source_id", list(listed_sources()), values)
    every = apps()
    seen = _seen(every, actor)
    # Of most sessions, the others are left out in passing. To look up so many, and to sort them, would take longer.
    most = sum(app.sessions for app in seen) * 2 >= sum(app.sessions for app in every)
    return is_one_of("+s.app_owner_id" if most else "s.app_owner_id", [app.number for app in seen], values)


def owners_in_seen_apps(actor: Actor, values: list[Any]) -> str:
    """Returns the condition for users and apps `o` of listed sources, in apps that the actor may see."""
    names: dict[int, list[str]] = {}
    for app in seen_apps(actor):
        names.setdefault(app.source_number, []).append(app.name)
    conditions = []
    for number, some in names.items():
        values.append(number)
        conditions.append(f"(o.source_id = %s AND {is_one_of('o.app_name', some, values)})")
    return f"({' OR '.join(conditions)})" if conditions else "FALSE"


def listed_sources() -> dict[int, str]:
    """Returns the sources that are listed: by the numbers that the index has for them, their aliases.

    One that was read by other rules of masking is left out until it is read anew: it may hold what they hide."""
    aliases = registry.aliases()
    sources = SearchSource.objects.filter(version=masked.version()).values_list("pk", "where")
    return {number: aliases[where] for number, where in sources if where in aliases}


def all_listed() -> bool:
    """Tells whether the index has nothing but listed sources. Another process, or this one before, may have read others."""
    return len(listed_sources()) == SearchSource.objects.count()


# --- A search that runs past its deadline is stopped ------------------------------------------------------------------

HASTY: Final = 3.0  # seconds, before somebody is asked
PATIENT: Final = 60.0
_STEPS: Final = 10_000  # of SQLite's machine, between two looks at the clock


@contextmanager
def patience(seconds: float) -> Iterator[None]:
    """Lets the queries to adkweb's own database in its block take so long. Raises Slow if they take longer.

    On PostgreSQL, each of them may take so long.
    """
    connection.ensure_connection()
    try:
        with Either(postgresql=_on_postgresql, sqlite=_on_sqlite).on(connection)(seconds):
            yield
    except OperationalError as error:
        if "interrupted" in str(error) or isinstance(error.__cause__, psycopg.errors.QueryCanceled):
            raise Slow(_("This search took longer than %(n)s seconds.") % {"n": round(seconds)}) from error
        raise


@contextmanager
def _on_sqlite(seconds: float) -> Iterator[None]:
    until, raw = time.monotonic() + seconds, connection.connection
    raw.set_progress_handler(lambda: time.monotonic() > until, _STEPS)
    try:
        yield
    finally:
        raw.set_progress_handler(None, 0)


@contextmanager
def _on_postgresql(seconds: float) -> Iterator[None]:
    # Only for this transaction: a pooler would let others meet what is set for longer.
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT set_config('statement_timeout', %s, true)", [str(max(1, round(seconds * 1000)))])
        yield
        cursor.execute("SET LOCAL statement_timeout TO DEFAULT")  # within another transaction
