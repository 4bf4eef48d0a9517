"""Records what was refused, without letting anyone fill the disk with it.

    note("refused", "bob", "POST delete-session", ref)

The first refusal makes a row at once. The same refusal of the same actor within SECONDS is only counted; one more row
says how often it was repeated.
"""

import threading
import time
from dataclasses import dataclass
from typing import Final

from ...domain.session_ref import SessionRef
from .record import record

SECONDS: Final = 60.0
MOST: Final = 10  # different refusals of one actor at a time; further ones are counted together
_NOTHING: Final = SessionRef("", "", "", "")


@dataclass(slots=True)
class Counted:
    """Counts how often a refusal was repeated until a moment. `ref` is what the first one was about."""

    until: float
    ref: SessionRef
    again: int = 0


_lock = threading.Lock()
known: dict[tuple[str, str, str], Counted] = {}  # by act, actor and what was tried


def note(act: str, by: str, what: str, ref: SessionRef = _NOTHING) -> None:
    """Records a refusal, or counts it if the same one was recorded just now."""
    record_ended()
    with _lock:
        key = (act, by, what)
        if key not in known and sum(each[1] == by for each in known) >= MOST:
            key = (act, by, "")
        counted = known.get(key)
        if counted:
            counted.again += 1
        else:
            known[key] = Counted(time.monotonic() + SECONDS, ref)
    if not counted:
        record(act, by, ref=ref, what=key[2])


def record_ended(*, all_of_them: bool = False) -> None:
    """Records how often refusals were repeated: those whose time is over, or all when the process ends."""
    now = time.monotonic()
    with _lock:
        ended = [(key, known.pop(key)) for key, each in list(known.items()) if all_of_them or each.until <= now]
    for (act, by, what), each in ended:
        if each.again:
            record(act, by, ref=each.ref, what=what, again=each.again)
