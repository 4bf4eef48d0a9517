"""Says why a query finds nothing, and which queries near it do. Each of these was asked: none leads to nothing again."""

import itertools
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from rapidfuzz import process
from rapidfuzz.distance import OSA

from ..access.actor import Actor
from ..domain.errors import Slow
from . import tree
from .completing import complete, names_of_key
from .results import count
from .selecting import path_of, patience
from .spelling import nearest
from .sql import is_one_of, rows
from .values import json_of

MANY: Final = 1_000  # sessions of a query, which are not counted further
_CONDITIONS: Final = 6  # of a query; a longer one is not looked into
_WAYS: Final = 8  # in place of a condition
_TRIED: Final = 16
_SAMPLE: Final = 2_000  # values of state
_NEAR: Final = 2  # letters
_SECONDS: Final = 1.0  # for all of it: nobody waits longer to read that there is nothing


@dataclass(frozen=True, slots=True)
class Way:
    """A query that finds sessions: its text, the part of it that stands for it, and how many it finds, at most MANY + 1."""

    query: str
    part: str
    sessions: int


@dataclass(frozen=True, slots=True)
class Unmatched:
    """A condition that no session matches, as it was typed, and what finds sessions in its place. `is_held`: its key is
    known, and these are values that it has or had, as JSON. `earlier` asks whether it had the value that it has nowhere."""

    node: tree.Node
    part: str
    ways: list[Way]
    is_held: bool = False
    earlier: Way | None = None


@dataclass(frozen=True, slots=True)
class Instead:
    """Offers for a query that finds nothing.

    They are the conditions that no session matches; the query without one of its conditions, or without all that no session
    matches; if these find nothing, either, each condition `alone`; and the query with its words as sessions spell them, or
    ""."""

    unmatched: list[Unmatched]
    without: list[Way]
    alone: list[Way]
    respelt: str


def instead(text: str, query: tree.Query, *, parse: Callable[[str], tree.Query], actor: Actor) -> Instead:
    """Returns what there is instead of what a query finds, which is nothing. `parse` reads a text as the query was read.
    Raises Slow if it takes long."""
    with patience(_SECONDS):
        return _Asker(text, query, parse, actor).answer()


class _Asker:
    """Asks queries near one that finds nothing."""

    def __init__(self, text: str, query: tree.Query, parse: Callable[[str], tree.Query], actor: Actor) -> None:
        self._text, self._parse, self._actor = text, parse, actor
        self._until = time.monotonic() + _SECONDS
        node = query.tree
        self._nodes: tuple[tree.Node, ...] = node.children if isinstance(node, tree.And) else (node,) if node else ()

    def answer(self) -> Instead:
        """Returns it, after at most _SECONDS."""
        respelt = self._respelt()
        if len(self._nodes) > _CONDITIONS:
            return Instead([], [], [], respelt)
        lost = [node for node in self._nodes if not self._sessions(self._part(node))]
        unmatched = [self._unmatched(node, lost) for node in lost]
        fewer = [lost] if len(lost) > 1 else []
        fewer += [[node] for node in self._nodes]
        without = self._ways((self._but(dict.fromkeys(nodes, "")), " ".join(map(self._part, nodes))) for nodes in fewer)
        alone = [] if without or len(self._nodes) < 2 else self._ways((self._part(node),) * 2 for node in self._nodes)
        return Instead(unmatched, without, alone, respelt)

    def _part(self, node: tree.Node) -> str:
        return self._text[node.start : node.end]

    def _but(self, other: dict[tree.Node, str]) -> str:
        """Returns the query with other texts in place of some conditions."""
        return " ".join(filter(None, [other.get(node, self._part(node)) for node in self._nodes]))

    def _sessions(self, text: str) -> int:
        if time.monotonic() > self._until:
            raise Slow("")
        query = self._parse(text)
        return 0 if query.problems or not query.tree else count(query, actor=self._actor, most=MANY)

    def _way(self, text: str, part: str) -> Way | None:
        sessions = self._sessions(text) if text else 0
        return Way(text, part, sessions) if sessions else None

    def _ways(self, queries: Iterable[tuple[str, str]]) -> list[Way]:
        return [way for text, part in queries if (way := self._way(text, part))]

    def _unmatched(self, node: tree.Node, lost: list[tree.Node]) -> Unmatched:
        """Asks each replacement together with the other conditions, except those that no session matches, either."""

        def ways(others: Iterator[tuple[str, str]]) -> list[Way]:
            some: list[Way] = []
            for text, part in itertools.islice(others, _TRIED):
                if len(some) < _WAYS and (way := self._way(self._but(dict.fromkeys(lost, "") | {node: text}), part)):
                    some.append(way)
            return some

        names = names_of_key(path_of(node), actor=self._actor) if isinstance(node, tree.State) else []
        if isinstance(node, tree.State) and names:
            held = sorted(ways(self._held(node, names)), key=lambda way: -way.sessions)
            was = tree.write(replace(node, ever=True)).replace("was.state.", "was.", 1)
            earlier = None if node.ever else self._way(self._but(dict.fromkeys(lost, "") | {node: was}), was)
            return Unmatched(node, self._part(node), held, is_held=True, earlier=earlier)
        return Unmatched(node, self._part(node), ways(self._near(node)))

    def _held(self, node: tree.State, names: list[int]) -> Iterator[tuple[str, str]]:
        """Yields conditions on the same key with the values that it has or had, and these values."""
        values = _had(names) if node.ever else _has(names)
        for value in dict.fromkeys(json_of(*each) for each in values):
            if value is not None:
                yield f"{_key(node)} = {value}", value

    def _near(self, node: tree.Node) -> Iterator[tuple[str, str]]:
        """Yields conditions with another key, or another name, that is spelt like this one; of names, then any others."""
        if isinstance(node, tree.State):
            key, (first, *_inner) = _key(node), node.path
            begun = key[: key.index(first) + 1] if first in key else key
            for other in self._alike(begun, key):
                comparison = tree.write(node).replace("was.state.", "was.", 1).removeprefix(key)
                yield from dict.fromkeys((text, text) for text in (other + comparison, f"{other} exists"))
        elif isinstance(node, tree.Match):
            typed = f"{node.name}:{node.value}"
            near = self._alike(f"{node.name}:{node.value[:2]}", typed)
            others = [f"{node.name}:"[: each.start] + each.text for each in self._completed(f"{node.name}:")]
            for text in dict.fromkeys([*near, *others]):
                yield text, text

    def _alike(self, begun: str, typed: str) -> list[str]:
        texts = [begun[: each.start] + each.text for each in self._completed(begun)]
        alike = process.extract(typed, texts, scorer=OSA.distance, processor=str.lower, score_cutoff=_NEAR, limit=_WAYS)
        return [text for text, _distance, _number in alike]

    def _completed(self, text: str) -> list[Any]:
        return [each for each in complete(text, len(text), actor=self._actor) if not each.respelt]

    def _respelt(self) -> str:
        """Returns the query with its words that no session has spelt as some session has them; "" if there are none."""
        words = [node for node in self._nodes[-_CONDITIONS:] if isinstance(node, tree.Text)]
        other: dict[tree.Node, str] = {node: word for node in words if (word := nearest(node.text, actor=self._actor))}
        return self._but(other) if other else ""


def _key(node: tree.State) -> str:
    """Returns the key of a condition as it is typed: state.step, was.step, user:tier."""
    key = tree.write(replace(node, op="exists", values=())).removesuffix(" exists")
    return key.replace("was.state.", "was.", 1)


def _had(names: list[int]) -> Iterator[tuple[str, str]]:
    """Yields values that events gave to a key, by one look-up for each: it may be written very often."""
    for name, kind in itertools.product(names, "snbz"):
        after = ""
        for _turn in range(_TRIED):
            row = rows(
                """SELECT v.text FROM sessions_app_searchwrite AS v
                WHERE v.name_id = %s AND v.kind = %s AND v.text > %s ORDER BY v.text LIMIT 1""",
                [name, kind, after],
            )
            if not row:
                break
            ((after,),) = row
            yield kind, after


def _has(names: list[int]) -> list[tuple[str, str]]:
    """Returns values that a key has somewhere, the most frequent first: of very many sessions, those of some."""
    values: list[Any] = []
    some = f"""SELECT v.kind, v.text FROM sessions_app_searchvalue AS v
        WHERE {is_one_of("v.name_id", names, values)} LIMIT {_SAMPLE}"""
    return [
        (kind, text)
        for kind, text, _count in rows(
            f"SELECT kind, text, count(*) FROM ({some}) AS v GROUP BY kind, text ORDER BY 3 DESC, 1, 2 LIMIT {_TRIED}",
            values,
        )
    ]
