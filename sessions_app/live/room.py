"""Serves a session that is watched: who watches it, what each watcher has seen, and what is pushed to whom."""

import math
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from django.db import DatabaseError
from django.utils import translation
from django.utils.translation import gettext as _

from ..access import masking, roles, sign_in
from ..access.actor import PEOPLE
from ..access.shown import shown_words
from ..domain.invocations import Running
from ..domain.positions import Seq
from ..domain.session_ref import SessionRef
from ..reads import newest, timeline, views
from ..running import runs
from ..sources.errors import unusable
from ..web.session import updates
from ..web.session.timeline import TurnRows
from .client import FAULT, GONE, SIGNED_OUT, Watcher, push, rest_after

# The shortest time between two updates of each part of the page, in seconds. It is longer for slow parts: see
# `rest_after`.
INTERVALS: Final = {"status": 0.0, "state": 0.25, "stats": 2.0}
RUNNING_SECONDS: Final = 5.0  # how often to check whether a running invocation has fallen silent
UNSURE: Final = 64  # characters at the end of a text that isn't complete: they may be the start of what a rule hides
PRESENCE_SECONDS: Final = 20.0  # how often a process repeats who watches; the others forget it after three times this


@dataclass(eq=False)
class Seat:
    """A watcher in a room: where it is in the timeline, and which other parts it was given.

    `mask` is the digest of the rules by which its page hides values, if known (masking.digest)."""

    watcher: Watcher
    chosen: updates.Filter
    seq: Seq
    mask: str = ""
    fresh: bool = True  # it has just reported where it is
    behind: bool = True
    lost: bool = False  # it was told to reload the timeline, and has not reported where it is since
    parts: dict[str, str] = field(default_factory=dict)
    spoken: str = ""  # what it has of the text that the agent says


class Room:
    """Serves the watchers of a session. Everything runs in the thread of the session's source."""

    def __init__(self, ref: SessionRef) -> None:
        self.ref = ref
        self.seats: list[Seat] = []
        self.due = 0.0  # in time.monotonic()
        self.told_people: tuple[str, ...] = ()
        self._revision: newest.Revision | None = None
        self._created: Any = None
        self._running: Running | None = None
        self._mask = ""  # the rules by which everything below was made
        self._speaking = threading.Lock()
        self._stale: set[str] = set()
        self._earliest: dict[str, float] = {}
        self._parts: dict[str, dict[str, str]] = defaultdict(dict)  # by language
        self._last: dict[tuple[updates.Filter, Seq], TurnRows] = {}  # the end of a timeline, by filter and seq
        self._present: dict[
            str, tuple[float, tuple[str, ...]]
        ] = {}  # by process: who watches there, and until when that is valid

    def follow(self, revision: newest.Revision | None, *, moved: bool) -> None:
        """Gives every watcher the events that it has not seen.

        `revision` is the session's, or None if it was deleted. `moved` says whether it has new events.
        """
        if revision is None:
            self._end()
            return
        self._be_back()
        if self._created is not None and revision.created != self._created:
            self._begin_anew()
        self._created = revision.created
        if moved or revision != self._revision:
            self._revision = revision
            self._stale |= INTERVALS.keys()
            self._fall_behind()
        self._heed_masks()
        for seat in [seat for seat in self.seats if seat.fresh]:
            self._welcome(seat)
        groups: dict[Any, list[Seat]] = defaultdict(list)
        for seat in self.seats:
            if seat.behind:
                groups[seat.chosen, seat.seq, seat.watcher.language].append(seat)
        for (chosen, seq, language), seats in groups.items():
            with translation.override(language):
                following = updates.following(self.ref, seq, chosen, PEOPLE, self._last.get((chosen, seq)))
            if following.last:
                self._last[chosen, following.seq] = following.last
            message = {"events": following.html, "seq": following.seq} if following.html else {"seq": following.seq}
            for seat in self._push(seats, message if following.seq != seq else {}):
                seat.seq, seat.behind = following.seq, following.more
        taken = {(seat.chosen, seat.seq) for seat in self.seats}
        self._last = {seen: last for seen, last in self._last.items() if seen in taken}

    def refresh(self) -> None:
        """Gives every watcher its missing parts, and sets `due`: when to call this again if nothing changes."""
        self.seats = [seat for seat in self.seats if not seat.watcher.closed]
        languages = {seat.watcher.language for seat in self.seats}
        for language in self._parts.keys() - languages:
            del self._parts[language]  # they would not be kept up to date
        self._heed_masks()
        self._make()
        groups: dict[Any, list[Seat]] = defaultdict(list)
        for seat in self.seats:
            parts = self._parts[seat.watcher.language]
            lacks = tuple(name for name, text in parts.items() if seat.parts.get(name) != text)
            if lacks:
                groups[seat.watcher.language, lacks].append(seat)
        for (language, lacks), seats in groups.items():
            parts = {name: self._parts[language][name] for name in lacks}
            for seat in self._push(seats, parts):
                seat.parts.update(parts)
        self.due = time.monotonic() + self._rest()

    def say(self, part: str, text: str) -> None:
        """Sets a part that is the same in every language, for the next push: `away`, `queued` or `watching`."""
        for language in {seat.watcher.language for seat in self.seats}:
            if self._parts[language].get(part) != text:
                self._parts[language][part] = text
                self.due = 0.0

    def speak(self, elsewhere: str = "") -> None:
        """Gives every watcher what the agent has said so far, in this process or as another one told, masked as a whole:
        what is new of it. It may be called from any thread. While adkweb's own database doesn't say who may hear it, no one
        does: it comes again as an event."""
        with self._speaking, suppress(DatabaseError):
            if (said := runs.said_in(self.ref, elsewhere)) is None:
                return
            text = shown_words(said.text, PEOPLE, self.ref.app_name)
            if masking.mask(self.ref.app_name).hides_forms:
                text = text[:-UNSURE]
            groups: dict[str, list[Seat]] = defaultdict(list)
            for seat, why in self._may_watch(list(self.seats)).items():
                if not why:
                    groups[seat.spoken].append(seat)
            for had, seats in groups.items():
                same = len(had) if text.startswith(had) else 0
                units = len(text[:same].encode("utf-16-le", "surrogatepass")) // 2  # as JavaScript counts
                message = {"author": said.author, "from": units, "more": text[same:]}
                push([seat.watcher for seat in seats], {"spoken": message})
                for seat in seats:
                    seat.spoken = text

    def look_at_work(self) -> None:
        """Makes the status again, because the agent does something else now."""
        self._stale.add("status")
        self.due = 0.0

    def people(self) -> tuple[str, ...]:
        """Returns the names of those who watch in this process, each browser once."""
        return tuple(sorted({seat.watcher.sign_in: seat.watcher.name for seat in self.seats}.values()))

    def meet(self, process: str, people: tuple[str, ...]) -> bool:
        """Records who watches in a process, this one or another.

        Returns whether it is the first report of that process.
        """
        now = time.monotonic()
        before = self._present.get(process)
        self._present[process] = (now + 3 * PRESENCE_SECONDS, people)
        names = [name for until, names in self._present.values() if until > now for name in names]
        self.say("watching", "\n".join(sorted(names)))
        return bool(people) and (before is None or before[0] <= now or not before[1])

    def _begin_anew(self) -> None:
        """Makes everyone reload, because the session was deleted and another one with its name was created."""
        self._last = {}
        for seat in self.seats:
            seat.seq, seat.fresh = Seq(-1), True  # nothing follows this seq, so they reload the timeline

    def _heed_masks(self) -> None:
        """Forgets what was made with other masking rules than the current ones, and makes such pages reload.

        Their pending messages are dropped: they get everything again."""
        mask = str(masking.digest())
        if mask != self._mask:
            self._mask, self._last = mask, {}
            for parts in self._parts.values():
                for part in INTERVALS:
                    parts.pop(part, None)
            self._stale |= INTERVALS.keys()
            self._earliest.clear()
        others = [seat for seat in self.seats if seat.mask not in ("", mask)]
        for seat in others:
            seat.watcher.forget()
            seat.parts, seat.behind, seat.lost, seat.spoken = {}, False, True, ""
        self._push(others, {"reset": True, "mask": mask})
        for seat in self.seats:
            seat.mask = mask

    def _welcome(self, seat: Seat) -> None:
        """Receives a watcher who has just reported where they are. If they are too far behind, they reload the
        timeline."""
        seat.fresh = False
        with translation.override(seat.watcher.language):
            if "state" not in self._parts[seat.watcher.language]:
                self._stale |= INTERVALS.keys()
                self._earliest.clear()
            if updates.must_reset(self.ref, seat.seq, PEOPLE):
                seat.behind, seat.lost = False, True
                push([seat.watcher], {"reset": True})

    def _make(self) -> None:
        """Updates the outdated parts whose time has come."""
        now = time.monotonic()
        if self._running and now >= self._earliest.get("status", 0) + RUNNING_SECONDS:
            self._stale.add("status")
        due = [part for part in INTERVALS if part in self._stale and self._earliest.get(part, 0) <= now]
        if not due:
            return
        view = views.session(self.ref, partly=True, actor=PEOPLE)
        status = timeline.status_of(self.ref, actor=PEOPLE)
        if status.running != self._running and "status" not in due:
            due.append("status")
        self._running = status.running
        makers: dict[str, Callable[[], str]] = {
            "status": lambda: updates.status(self.ref, view.revision, PEOPLE, status),
            "state": lambda: updates.state(view, PEOPLE),
            "stats": lambda: updates.stats(self.ref, PEOPLE),
        }
        for part in due:
            began = time.monotonic()
            for language in {seat.watcher.language for seat in self.seats}:
                with translation.override(language):
                    self._parts[language][part] = makers[part]()
            ended = time.monotonic()
            self._earliest[part] = ended + max(INTERVALS[part], rest_after(ended - began) if INTERVALS[part] else 0)
            self._stale.discard(part)

    def _push(self, seats: list[Seat], message: dict[str, Any]) -> list[Seat]:
        """Sends a message, unless it is empty, to those who may still watch, and returns them.

        Their sign-ins are checked on every push, after reading what is pushed.
        """
        if not message or not seats:
            return seats
        kept = self._allowed(seats)
        push([seat.watcher for seat in kept], message)
        return kept

    def _rest(self) -> float:
        if any(seat.behind for seat in self.seats):
            return 0.0
        now = time.monotonic()
        waits = [max(0.0, self._earliest.get(part, 0) - now) for part in self._stale]
        return min(waits, default=RUNNING_SECONDS if self._running else math.inf)

    def _end(self) -> None:
        for seat in list(self.seats):
            with translation.override(seat.watcher.language):
                push([seat.watcher], {"gone": _("This session was deleted.")})
            self.leave(seat, GONE, "no such session")

    def leave(self, seat: Seat, code: int, reason: str) -> None:
        """Removes a watcher and closes its socket."""
        self.seats.remove(seat)
        seat.watcher.end(code, reason)

    def dismiss(self) -> None:
        """Closes every socket, because of a fault in adkweb."""
        for seat in list(self.seats):
            self.leave(seat, FAULT, "fault")

    def check_sign_ins(self) -> None:
        """Closes the sockets of watchers whose sign-in ended while nothing happened."""
        self._allowed(self.seats)

    def _allowed(self, seats: list[Seat]) -> list[Seat]:
        """Returns those who may still watch. People who signed out, or may no longer see the app, are removed."""
        may = self._may_watch(list(seats))
        for seat, why in may.items():
            if why:
                self.leave(seat, *why)
        return [seat for seat, why in may.items() if not why]

    def _may_watch(self, seats: list[Seat]) -> dict[Seat, tuple[int, str] | None]:
        """Returns why each watcher may no longer watch: the code and the reason with which its socket is closed."""
        people = sign_in.signed_in({seat.watcher.sign_in for seat in seats})
        may: dict[Seat, tuple[int, str] | None] = {}
        for seat in seats:
            person = people.get(seat.watcher.sign_in)
            if person is None:
                may[seat] = SIGNED_OUT, "signed out"
            elif not roles.actor_of(person).may_see(self.ref.source, self.ref.app_name):
                may[seat] = GONE, "no such session"
            else:
                may[seat] = None
        return may

    def be_away(self) -> None:
        """Tells everyone once that the source does not answer. From now on, everyone is behind."""
        for language in {seat.watcher.language for seat in self.seats}:
            with translation.override(language):
                text = unusable()
            self._parts[language]["away"] = text
            seats = [seat for seat in self.seats if seat.watcher.language == language]
            for seat in self._push([seat for seat in seats if seat.parts.get("away") != text], {"away": text}):
                seat.parts["away"] = text
        self._revision = None
        self.due = 0.0
        self._fall_behind()

    def _be_back(self) -> None:
        """Tells those who were told that the source doesn't answer that it does again, before anything else."""
        self.say("away", "")
        for seat in self._push([seat for seat in self.seats if seat.parts.get("away")], {"away": ""}):
            seat.parts["away"] = ""

    def _fall_behind(self) -> None:
        for seat in self.seats:
            seat.behind = not seat.lost
