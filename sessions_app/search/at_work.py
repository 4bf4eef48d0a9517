"""Selects the sessions of the index that are known to run, or to run no more, whatever their events say."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from ..models import SearchSession
from ..reads import at_work
from .folding import Summary

# The words of the partial index search_phase. Without these very words, SQLite would look at every session.
BUSY: Final = "NOT (s.phase = 'idle')"


@dataclass(frozen=True, slots=True)
class Numbers:
    """The numbers that sessions have in the index: those whose agents run, of these the ones that pause at a breakpoint, and
    those whose last invocation is over though its events don't say so. Mostly there are none."""

    running: frozenset[int] = frozenset()
    paused: frozenset[int] = frozenset()
    over: frozenset[int] = frozenset()

    @classmethod
    def now(cls) -> "Numbers":
        """Reads them from adkweb's own database."""
        known = at_work.everywhere()
        if not known:
            return cls()
        digests = {digest for _where, digest in known}
        rows = SearchSession.objects.filter(digest__in=digests).values_list(
            "pk", "source__where", "digest", "phase", "last", "summary"
        )
        running, paused, over = set(), set(), set()
        for number, where, digest, phase, last, summary in rows:
            of = known.get((where, digest))
            if of and of.at_work:
                running.add(number)
                if of.at_work.paused:
                    paused.add(number)
            elif of and phase == "open" and of.is_over(Summary.stored(summary).invocation, last):
                over.add(number)
        return cls(frozenset(running), frozenset(paused), frozenset(over))

    def status(self, number: int, otherwise: str) -> str:
        """Returns the status of a session, which is `otherwise` if nothing is known."""
        return "running" if number in self.running else "stuck" if number in self.over else otherwise

    def narrowed(self, status: str, condition: str) -> str:
        """Returns the condition for a status, from the one by the events."""
        if self.over:
            joined = "OR" if status == "stuck" else "AND NOT"
            condition = f"({condition} {joined} s.id IN ({_listed(self.over)}))"
        if self.running:
            joined = "OR" if status == "running" else "AND NOT"
            condition = f"({condition} {joined} s.id IN ({_listed(self.running)}))"
        return condition

    @property
    def apart(self) -> str:
        """Returns the number of a session about which something is known, in SQL; NULL for any other."""
        return f"CASE WHEN s.id IN ({_listed(self.running | self.over or {-1})}) THEN s.id END"

    @property
    def active(self) -> str:
        """Returns the condition for sessions that run or wait, which has the time since when events count."""
        return self.narrowed("running", f"({BUSY} AND (s.phase = 'waiting' OR s.phase = 'open' AND s.last >= %s))")


def _listed(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(numbers)))
