"""Follows each source that someone watches, in one thread: reads what is new once and hands it to all watchers.

The thread ends when no one is watching. It polls, so it also finds what other programs write, and what it missed
because a message was lost. A message only makes it look at once.
"""

import logging
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Final

from django.db import DatabaseError, connections

from .. import broadcast
from ..access import masking
from ..access.actor import SYSTEM
from ..broadcast import Move
from ..domain.errors import Error, NotFound
from ..domain.positions import Seq
from ..domain.session_ref import SessionRef
from ..jobs.ticker import Ticker
from ..reads import newest
from ..reads.changes import Tail
from ..sources.dialect import Either
from .room import PRESENCE_SECONDS, Room, Seat

log = logging.getLogger("adkweb.live")

LOOK_SECONDS: Final = Either(sqlite=0.1, postgresql=0.2)
# Between checks for changes without an event: a deleted session, a user's state that was written elsewhere.
SWEEP_SECONDS: Final = 2.0
SIGN_IN_SECONDS: Final = 30.0
LINGER_SECONDS: Final = 5.0  # someone who goes from page to page is back within this time
AWAY_SECONDS: Final = 0.5  # between the first two tries of a source that does not answer
LONGEST_AWAY_SECONDS: Final = 8.0


class Follower(Ticker):
    """The thread of a source. It serves those who watch its sessions, and tells `hearers` that something changed."""

    def __init__(self, source: str) -> None:
        super().__init__(f"live-{source}", AWAY_SECONDS)
        self.source = source
        self.hearers: set[Callable[[], None]] = set()
        self.away = False  # whether the source did not answer the last time
        self.looked = time.monotonic()  # when it last saw what is new
        self._rooms: dict[SessionRef, Room] = {}
        self._failures = 0  # one after the other
        self._lock = threading.Lock()
        self._wishes: list[Callable[[], None]] = []
        self._told: set[SessionRef] = set()
        self._tail: Tail | None = None
        self._last: dict[str, float] = {}  # when each recurring task was done last
        self._used = time.monotonic()
        self._mask = 0  # the masking rules when everyone was served last

    # --- From any thread ---------------------------------------------------------------------------------------------

    def do(self, wish: Callable[[], None]) -> None:
        """Does something in the follower's own thread, soon."""
        with self._lock:
            self._wishes.append(wish)
        self.wake()

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
        """Moves a watcher to the place that it reports."""

        def move() -> None:
            seat.seq, seat.fresh, seat.behind, seat.lost = seq, True, True, False
            if ref in self._rooms:
                self._rooms[ref].due = 0.0

        self.do(move)

    def tell(self, move: Move) -> None:
        """Makes the thread look at once, because something changed."""
        if move.what == "events":
            with self._lock:
                self._told.add(move.ref)
            self.wake()
        elif room := self._rooms.get(move.ref):
            if move.what == "queued":
                self.do(lambda: room.say("queued", str(time.time())))
            elif move.what == "spoken" and move.process == broadcast.PROCESS:
                room.speak()  # at once, in the thread that hears the agent
            elif move.what == "spoken":
                self.do(lambda: room.speak(move.said))
            elif move.what == "at work":
                self.do(room.look_at_work)
            elif move.process != broadcast.PROCESS:
                self.do(lambda: self._meet(room, move))

    # --- In its own thread -------------------------------------------------------------------------------------------

    def tick(self) -> float | None:
        """Looks at the source. Ends the thread when no one has watched for LINGER_SECONDS."""
        with _lock:
            if self._rooms or self.hearers or self._wishes:
                self._used = time.monotonic()
            elif time.monotonic() - self._used > LINGER_SECONDS:
                del followers[self.source]
                self.end()
                return None
        try:
            wait = self._look()
            self._failures = 0
            self.looked = time.monotonic()
            self._note_away(False)
            return wait
        except (Error, DatabaseError) as error:
            if not self.away:
                log.warning("%s does not answer: %s", self.source, error)
            self._note_away(True)
            self._be_away()
            wait = min(LONGEST_AWAY_SECONDS, AWAY_SECONDS * 2.0**self._failures)
            self._failures = min(self._failures + 1, 10)
            return wait
        except Exception:
            for room in self._rooms.values():
                room.dismiss()
            raise

    def _look(self) -> float:
        """Looks once and serves what is new. Returns how many seconds to wait before the next look."""
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
        if masked := masking.changed_since(self._mask):
            self._mask = masking.digest()
        if moved is not None or told or masked or self._is_time("sweep", SWEEP_SECONDS) or self._due() <= now:
            self._serve((moved or set()) | told)
        look = now + LOOK_SECONDS.on(self.source)
        return max(0.0, min(look, self._due()) - time.monotonic())

    def _serve(self, moved: set[SessionRef]) -> None:
        revisions = newest.revisions(self.source, self._rooms.keys(), actor=SYSTEM)
        check = self._is_time("sign-ins", SIGN_IN_SECONDS)
        repeat = self._is_time("presence", PRESENCE_SECONDS)
        for ref, room in self._rooms.items():  # events first, to everyone: they are what people wait for
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
        except Exception:  # a fault in adkweb: these watchers come back, and other sessions are not disturbed
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

    def _be_away(self) -> None:
        """Tells all watchers that the source does not answer. They get everything when it is back."""
        self._tail = None
        for connection in connections.all(initialized_only=True):
            connection.close_if_unusable_or_obsolete()
        for room in self._rooms.values():
            room.be_away()

    def _note_away(self, away: bool) -> None:
        if away != self.away:
            self.away = away
            self._tell_hearers()

    def _tell_hearers(self) -> None:
        for hear in list(self.hearers):
            hear()

    def _meet(self, room: Room, move: Move) -> None:
        if room.meet(move.process, move.people):
            self._announce(room)  # a process that has just joined doesn't know yet who is here

    def _announce(self, room: Room) -> None:
        room.told_people = room.people()
        room.meet(broadcast.PROCESS, room.told_people)
        broadcast.tell("watching", room.ref, room.told_people)


_lock = threading.Lock()
followers: dict[str, Follower] = {}


def follow(source: str, use: Callable[[Follower], None]) -> Follower:
    """Returns the follower of a source, and starts it if no one was watching. `use` is called before it can end."""
    with _lock:
        follower = followers.get(source)
        if follower is None:
            follower = followers[source] = Follower(source)
            follower.start()
        use(follower)
        return follower


def tell(move: Move) -> None:
    """Passes a message on to the follower of its source. This is a listener of broadcast.py."""
    follower = followers.get(move.ref.source)
    if follower:
        follower.tell(move)
