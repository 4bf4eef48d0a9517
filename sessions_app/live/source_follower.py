"""One thread for each source that somebody watches: sees what is new, reads it once, hands it to all who watch.

It ends when nobody watches any more. What it does not hear about (a writer that is not adkweb, a message that was lost) it
finds by looking; being told only makes it look at once.
"""

import logging
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Final

from django.db import DatabaseError, connections

from .. import broadcast
from ..broadcast import PROCESS, Move
from ..domain.positions import Seq
from ..domain.session_ref import SessionRef
from ..errors import Error, NotFound
from ..reads import newest
from ..reads.tail import Tail
from .room import PRESENCE_SECONDS, Room, Seat

log = logging.getLogger("adkweb.live")

LOOK_SECONDS: Final = {"sqlite": 0.1, "postgresql": 0.2}
SWEEP_SECONDS: Final = 2.0  # between looks at what no event tells: a session deleted, a user's state written elsewhere
SIGN_IN_SECONDS: Final = 30.0
LINGER_SECONDS: Final = 5.0  # somebody who goes from page to page is back at once
AWAY_SECONDS: Final = 0.5  # between two tries of a source that does not answer, at first
LONGEST_AWAY_SECONDS: Final = 8.0


class Follower(threading.Thread):
    """Follows a source for those who watch its sessions, and for `hearers`, who are told that something moved."""

    def __init__(self, source: str) -> None:
        super().__init__(name=f"adkweb-live-{source}", daemon=True)
        self.source = source
        self.hearers: set[Callable[[], None]] = set()
        self.away = False  # the source did not answer when it was asked last
        self.ended = False
        self._rooms: dict[SessionRef, Room] = {}
        self._wake = threading.Event()
        self._lock = threading.Lock()
        self._wishes: list[Callable[[], None]] = []
        self._told: set[SessionRef] = set()
        self._tail: Tail | None = None
        self._last: dict[str, float] = {}  # when what is done now and then was done last
        self._used = time.monotonic()

    # --- From any thread ---------------------------------------------------------------------------------------------

    def do(self, wish: Callable[[], None]) -> None:
        """Has something done in the follower's own thread, soon."""
        with self._lock:
            self._wishes.append(wish)
        self._wake.set()

    def enter(self, ref: SessionRef, seat: Seat) -> None:
        """Serves a watcher from now on."""

        def enter() -> None:
            room = self._rooms.setdefault(ref, Room(ref))
            room.seats.append(seat)
            room.due = 0.0

        self.do(enter)

    def leave(self, ref: SessionRef, seat: Seat) -> None:
        """Forgets a watcher."""

        def leave() -> None:
            room = self._rooms.get(ref)
            if room and seat in room.seats:
                room.seats.remove(seat)
                self._announce(room)
                if not room.seats:
                    del self._rooms[ref]

        self.do(leave)

    def move(self, ref: SessionRef, seat: Seat, seq: Seq) -> None:
        """A watcher says anew where it is."""

        def move() -> None:
            seat.seq, seat.fresh, seat.behind, seat.lost = seq, True, True, False
            if ref in self._rooms:
                self._rooms[ref].due = 0.0

        self.do(move)

    def tell(self, move: Move) -> None:
        """Something moved: look at once."""
        if move.what == "events":
            with self._lock:
                self._told.add(move.ref)
            self._wake.set()
        elif room := self._rooms.get(move.ref):
            if move.what == "queued":
                self.do(lambda: room.say("queued", str(time.time())))
            elif move.process != PROCESS:
                self.do(lambda: self._meet(room, move))

    # --- In its own --------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Until nobody has watched for LINGER_SECONDS."""
        failures = 0
        while not self._has_ended():
            self._wake.clear()
            try:
                wait = self._look()
                failures = 0
                self._note_away(False)
            except (Error, DatabaseError) as error:
                self._note_away(True)
                self._be_away(error)
                wait = min(LONGEST_AWAY_SECONDS, AWAY_SECONDS * 2**failures)
                failures = min(failures + 1, 10)
            except Exception:
                log.exception("following %s", self.source)
                for room in self._rooms.values():
                    room.dismiss()
                wait = AWAY_SECONDS
            self._wake.wait(wait)
        connections.close_all()

    def _has_ended(self) -> bool:
        with _lock:
            if self._rooms or self.hearers or self._wishes:
                self._used = time.monotonic()
            elif time.monotonic() - self._used > LINGER_SECONDS:
                self.ended = True
                del _followers[self.source]
        return self.ended

    def _look(self) -> float:
        """One look; returns how long to wait for the next."""
        with self._lock:
            wishes, self._wishes = self._wishes, []
            told, self._told = self._told, set()
        for wish in wishes:
            wish()
        if not self._rooms and not self.hearers:
            return 1.0
        if self._tail is None:
            self._tail = Tail(self.source)
        now = time.monotonic()
        moved = self._tail.moved()
        if moved or told:
            self._tell_hearers()
        if moved is not None or told or self._is_time("sweep", SWEEP_SECONDS) or self._due() <= now:
            self._serve((moved or set()) | told)
        look = now + LOOK_SECONDS[connections[self.source].vendor]
        return max(0.0, min(look, self._due()) - time.monotonic())

    def _serve(self, moved: set[SessionRef]) -> None:
        revisions = newest.revisions(self.source, self._rooms.keys())
        check = self._is_time("sign-ins", SIGN_IN_SECONDS)
        repeat = self._is_time("presence", PRESENCE_SECONDS)
        for ref, room in self._rooms.items():  # events first, to all: they are what is waited for
            self._try(room, partial(room.follow, revisions.get(ref), moved=ref in moved))
        for ref, room in list(self._rooms.items()):
            if check:
                room.check_sign_ins()
            if repeat or room.told_people != room.people():
                self._announce(room)
            self._try(room, room.refresh)
            if not room.seats:
                self._announce(room)
                del self._rooms[ref]

    def _try(self, room: Room, serve: Callable[[], None]) -> None:
        try:
            serve()
        except NotFound:  # deleted a moment ago
            room.follow(None, moved=True)
        except (Error, DatabaseError):
            raise
        except Exception:  # a fault of adkweb's own: these watchers come back, and other sessions are not disturbed
            log.exception("following %s", "/".join(room.ref))
            room.dismiss()

    def _due(self) -> float:
        return min((room.due for room in self._rooms.values()), default=time.monotonic() + SWEEP_SECONDS)

    def _is_time(self, what: str, seconds: float) -> bool:
        now = time.monotonic()
        due = now - self._last.setdefault(what, now) >= seconds
        if due:
            self._last[what] = now
        return due

    def _be_away(self, error: Error | DatabaseError) -> None:
        """The source does not answer: who watches is told, and given everything when it is back."""
        self._tail = None
        text = error.message if isinstance(error, Error) else str(error)
        for connection in connections.all(initialized_only=True):
            connection.close_if_unusable_or_obsolete()
        for room in self._rooms.values():
            room.be_away(text)

    def _note_away(self, away: bool) -> None:
        if away != self.away:
            self.away = away
            self._tell_hearers()

    def _tell_hearers(self) -> None:
        for hear in list(self.hearers):
            hear()

    def _meet(self, room: Room, move: Move) -> None:
        if room.meet(move.process, move.people):
            self._announce(room)  # who has just come does not know yet who is here

    def _announce(self, room: Room) -> None:
        room.told_people = room.people()
        room.meet(PROCESS, room.told_people)
        broadcast.tell("watching", room.ref, room.told_people)


_lock = threading.Lock()
_followers: dict[str, Follower] = {}


def follow(source: str, use: Callable[[Follower], None]) -> Follower:
    """The follower of a source, begun where nobody watched yet; `use` is called before it can end."""
    with _lock:
        follower = _followers.get(source)
        if follower is None:
            follower = _followers[source] = Follower(source)
            follower.start()
        use(follower)
        return follower


def tell(move: Move) -> None:
    """Passes on what moved to whom it concerns; a listener of broadcast.py."""
    follower = _followers.get(move.ref.source)
    if follower:
        follower.tell(move)
