"""Notices which sessions begin to match the views that people watch. The process that feeds the index does it."""

import logging
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, tzinfo
from typing import Final
from zoneinfo import ZoneInfo

from django.conf import settings
from django.db import DatabaseError, transaction

from ... import broadcast
from ...access import masking
from ...access.actor import PEOPLE, Actor
from ...access.roles import actor_of
from ...domain.session_ref import SessionRef
from ...models import SearchSession, SearchSource
from ...sources import registry
from .. import damage, tree
from ..index.tables import ref_of
from ..language import parse
from ..selecting import among
from ..sql import rows
from . import views, watching
from .views import ViewWatch

log = logging.getLogger("adkweb.saved")

MOST: Final = 100  # queries that are watched: each is asked before and after some sessions are stored
SECONDS: Final = 1.0  # for all queries, before some sessions are stored, and about as long afterwards
LOOK_SECONDS: Final = 10.0  # between two looks at what becomes true by time alone
_CANDIDATES: Final = 1_000  # sessions for which time went by between two looks
_first = 0  # the group that is asked first


@dataclass(slots=True)
class _Group:
    """Those who watch the same query in the same time zone, and whom it finds the same users: as `actor` may see them."""

    query: tree.Query
    actor: Actor
    watches: list[ViewWatch] = field(default_factory=list)

    @property
    def depends_on_silence(self) -> bool:
        """Tells whether a session can begin to match because it falls silent."""
        return any(isinstance(leaf, tree.Status) and leaf.value in ("running", "stuck") for leaf in self._leaves)

    @property
    def waits(self) -> set[float]:
        """Returns how long a call has waited, in seconds, when its session can begin to match."""
        return {
            seconds
            for leaf in self._leaves
            if isinstance(leaf, tree.Number) and leaf.name == "waiting"
            for seconds in (leaf.value, leaf.upto)
            if seconds is not None
        }

    @property
    def _leaves(self) -> Iterator[tree.Leaf]:
        return iter(()) if self.query.tree is None else tree.leaves(self.query.tree)


@contextmanager
def noticing(source: int, digests: Collection[str]) -> Iterator[None]:
    """Notices which of some sessions of a source begin to match while the block stores them. Both are one transaction.

    `source` is the number that the index has for it, and `digests` stand for the sessions."""
    groups = _groups()
    if not groups:
        yield
        return
    with transaction.atomic():
        now = time.time()
        asked: list[tuple[_Group, set[int]]] = []
        with _without_harm():
            asked += _asked_in_time(groups, _numbers(source, digests), now)
        yield
        with _without_harm():
            some = [group for group, _before in asked]
            after = _matching(some, _numbers(source, digests), now)
            _note(some, [before for _group, before in asked], after, source)


def notice_time(source: int) -> None:
    """Notices which sessions began to match because time went by since the last look. The first one begins with that."""
    groups = [group for group in _groups() if group.depends_on_silence or group.waits]
    at = SearchSource.objects.filter(pk=source)
    last = at.values_list("looked", flat=True).first()
    now = time.time()
    if not groups or not last:
        if last or groups:
            at.update(looked=now if groups else 0.0)
        return
    with transaction.atomic():
        numbers = _changed(source, groups, last, now)
        _note(groups, _matching(groups, numbers, last), _matching(groups, numbers, now), source)
        at.update(looked=now)


def _changed(source: int, groups: Sequence[_Group], last: float, now: float) -> set[int]:
    """Returns which sessions fell silent between two times, and which have a call that had then waited as long as a query
    says."""
    silent = SearchSession.objects.filter(
        source=source,
        phase="open",
        last__gte=last - settings.SILENCE_SECONDS,
        last__lt=now - settings.SILENCE_SECONDS,
    )
    numbers = {*silent.order_by("-last").values_list("pk", flat=True)[:_CANDIDATES]}
    for seconds in {each for group in groups for each in group.waits}:
        waiting = rows(
            f"""SELECT s.id FROM sessions_app_searchsession AS s WHERE +s.source_id = %s AND s.id IN (
                SELECT p.session_id FROM sessions_app_searchpending AS p
                WHERE p.passed_over = FALSE AND p.at BETWEEN %s AND %s) LIMIT {_CANDIDATES}""",
            [source, last - seconds, now - seconds],
        )
        numbers |= {number for (number,) in waiting}
    return numbers


@contextmanager
def _without_harm() -> Iterator[None]:
    """Keeps a query that a database refuses from stopping the index. If words are damaged, it has to be mended first."""
    try:
        with transaction.atomic():
            yield
    except DatabaseError as error:
        if damage.is_of_words(error):
            raise
        log.exception("what begins to match is not noticed")


def _groups() -> list[_Group]:
    """Returns who watches what, the oldest watches first. A query with a mistake selects nothing, nor does one
    that has got more conditions than can be watched."""
    groups: dict[tuple[str, str, Actor], _Group] = {}
    now, ids = time.time(), masking.mask_of_all().hides_ids
    for watch in ViewWatch.objects.select_related("view", "person").order_by("pk"):
        actor = PEOPLE
        if ids and (who := actor_of(watch.person)).reveals:
            actor = Actor(PEOPLE.name, who.grants)
        key = watch.view.query, watch.zone, actor
        if key not in groups:
            if len(groups) == MOST:
                continue
            groups[key] = _Group(parse(watch.view.query, now=now, zone=_zone(watch.zone)), actor)
        groups[key].watches.append(watch)
    return [group for group in groups.values() if not group.query.problems and views.is_simple(group.query)]


def _zone(name: str) -> tzinfo:
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # this machine does not know it any more
        return UTC


def _numbers(source: int, digests: Collection[str]) -> list[int]:
    return list(SearchSession.objects.filter(source=source, digest__in=digests).values_list("pk", flat=True))


def _matching(groups: Sequence[_Group], numbers: Collection[int], now: float) -> list[set[int]]:
    """Returns for each group which of some sessions its query selects at a time."""
    return [among(numbers, group.query, now=now, actor=group.actor) for group in groups]


def _asked_in_time(groups: Sequence[_Group], numbers: Collection[int], now: float) -> list[tuple[_Group, set[int]]]:
    """Returns as many groups as can be asked in SECONDS, each with the sessions that its query selects.

    The others are the first ones the next time."""
    global _first
    start = _first % len(groups)
    until = time.monotonic() + SECONDS
    asked: list[tuple[_Group, set[int]]] = []
    for group in (*groups[start:], *groups[:start]):
        if asked and time.monotonic() > until:
            log.warning(
                "watched queries take too long: %s of %s are not asked now", len(groups) - len(asked), len(groups)
            )
            break
        asked.append((group, among(numbers, group.query, now=now, actor=group.actor)))
    _first = (start + len(asked)) % len(groups)
    return asked


def _note(groups: Collection[_Group], before: list[set[int]], after: list[set[int]], source: int) -> None:
    where = SearchSource.objects.values_list("where", flat=True).get(pk=source)
    for group, did, does in zip(groups, before, after, strict=True):
        if begun := does - did:
            news = watching.note(group.watches, SearchSession.objects.filter(pk__in=begun).order_by("pk"), where)
            if news and (alias := registry.alias_of(where)):
                ref = ref_of(alias, news[-1].names)
                transaction.on_commit(lambda ref=ref: _tell(ref))  # type: ignore[misc]


def _tell(ref: SessionRef) -> None:
    broadcast.tell("begun", ref)
