"""Numbers events, and everything that writes state, in order (pure).

A `Seq` is an event's number in its source: 313. If a database's events have no numbers, they are ordered by time:
there, a seq is a time in microseconds, and is greater than any number. A `Position` orders everything that writes
state: events, and the sessions that are created with initial state between two events.
"""

from typing import Final, NewType

Seq = NewType("Seq", int)
Position = NewType("Position", int)
SeqRange = tuple[Seq, Seq]  # the first and the last one, both included

NO_SEQ: Final = Seq(0)  # less than the seq of any event

# Seqs that are times. JavaScript is exact up to 2**53.
SEQ_OF_1970: Final = Seq(2**50)
FIRST_TIME_SEQ: Final = Seq(2**41)
LAST_TIME_SEQ: Final = Seq(2**53 - 1)

BETWEEN: Final = 2**20  # positions for each seq: the first ones are for new sessions, the last one is the event's
POSITIONS_OF_TIMES: Final = 2**61  # from here on, the positions of events without numbers


def stands_for_time(seq: int) -> bool:
    """Returns whether a seq is a time instead of an event's number."""
    return seq >= FIRST_TIME_SEQ


def number_of(seq: int | None) -> int | None:
    """Returns the number that people and programs see for an event, or None if the seq is a time."""
    return None if seq is None or stands_for_time(seq) else seq


def seq_at(seconds: float) -> Seq:
    """Returns the seq for a time."""
    return Seq(min(max(SEQ_OF_1970 + round(seconds * 1_000_000), FIRST_TIME_SEQ), LAST_TIME_SEQ))


def time_of(seq: Seq) -> float:
    """Returns the time of a seq, in seconds. For an event's number, it is before any real time."""
    return (min(max(seq, FIRST_TIME_SEQ), LAST_TIME_SEQ) - SEQ_OF_1970) / 1_000_000


def position_of(seq: Seq) -> Position:
    """Returns the position of the event with this seq: 2_097_151 for event 1.

    Events without numbers leave no room for new sessions between them: their position is their time, after all others.
    """
    return Position(seq + POSITIONS_OF_TIMES if stands_for_time(seq) else seq * BETWEEN + BETWEEN - 1)


def first_position(seq: int) -> Position:
    """Returns the first position that belongs to a seq. Sessions created just before its event get it."""
    return Position(seq * BETWEEN)


def seq_of(position: Position) -> Seq:
    """Returns the seq that a position belongs to."""
    return Seq(position - POSITIONS_OF_TIMES if position >= POSITIONS_OF_TIMES else position // BETWEEN)


def is_creation(position: Position) -> bool:
    """Returns whether a position is that of a session's initial state, not of an event."""
    return position != position_of(seq_of(position))
