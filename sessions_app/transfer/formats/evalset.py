"""Writes and reads `evalset`: sessions as cases of ADK's evaluation, in a file `*.evalset.json`. It is not lossless.

`adk web` writes such a file when a session is added to a set of cases. `eval_case` makes a case's conversation.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, BinaryIO, Final

from ...domain.errors import Invalid
from ...domain.event import ID_LENGTH, Event
from ...domain.json_values import check_name
from ...domain.state import split
from ..items import EventItem, Item, SessionItem, canonical, named, parse, read_with, without_secrets
from .adk_json import begun, checked_event, load, piece, stored_event
from .eval_case import Events, as_object, conversation, field, time_of

NAMES: Final = ({"eval_set_id", "eval_cases"}, {"evalSetId", "evalCases"})


# --- Writing ----------------------------------------------------------------------------------------------------------


def write(items: Iterable[Item], secrets: bool = False, left_out: Sequence[str] = ()) -> Iterator[bytes]:
    """Writes a set with a case for each session. The set is named after the first session's app. Sets are committed and
    shared, so they never hold `secrets`; they have no place for what was `left_out`."""
    name, newest = "adkweb", 0.0
    session: SessionItem | None = None
    events: list[Event] = []
    ids: set[str] = set()
    yield b'{"eval_cases":['
    for item in map(without_secrets, items):
        if isinstance(item, EventItem):
            events.append(stored_event(item))
        elif isinstance(item, SessionItem):
            if session is None:
                name = item.app
            else:
                yield _case(session, events, ids)
            session, events = item, []
            newest = max(newest, item.updated)
    if session is not None:
        yield _case(session, events, ids)
    # ADK uses a set's id as a file name.
    rest = {"creation_timestamp": newest, "eval_set_id": re.sub(r"[^a-zA-Z0-9_]", "_", name), "name": name}
    yield f"],{canonical(rest)[1:]}\n".encode()


def _case(session: SessionItem, events: list[Event], ids: set[str]) -> bytes:
    eval_id = session.session
    if eval_id in ids:  # another user has a session with this id
        eval_id = f"{session.app}/{session.user}/{session.session}"
    comma = "," if ids else ""
    ids.add(eval_id)
    case = {
        "eval_id": eval_id,
        "conversation": conversation(events),
        "session_input": {
            "app_name": session.app,
            "user_id": session.user,
            "state": parse(session.initial_state or "{}"),
        },
        "creation_timestamp": session.created,
    }
    return f"{comma}\n{canonical(case)}".encode()


# --- Reading ----------------------------------------------------------------------------------------------------------


class _Cases:
    """Reads the items of a set, case by case."""

    def __init__(self, file: BinaryIO, size: int, strict: bool) -> None:
        self.done, self.total, self.where = 0, size, ""
        self.secrets = True  # as far as such a file tells
        self._file, self._strict = file, strict
        self._seen: set[tuple[str, ...]] = set()

    def __iter__(self) -> Iterator[Item]:
        """Reads from the file's start, once."""
        cases = field(as_object(load(self._file)), "eval_cases")
        if not isinstance(cases, list):
            raise Invalid("this is not an ADK evaluation set: eval_cases is not a list")
        for number, case in enumerate(cases):
            self.where = f"eval_cases[{number}]"
            yield from self._case(as_object(case))
            self.done = self.total * (number + 1) // len(cases)

    def _case(self, case: dict[str, Any]) -> Iterator[Item]:
        where = self.where
        given = field(case, "session_input")
        if given is None:
            raise Invalid("session_input is missing, and with it the names of app and user")
        session, said = as_object(given), field(case, "conversation")
        if not isinstance(said, list):
            raise Invalid("it has no conversation that could be imported")
        eval_id = field(case, "eval_id")
        names = [
            check_name(field(session, "app_name"), "app_name", ID_LENGTH),
            check_name(field(session, "user_id"), "user_id", ID_LENGTH),
            check_name(field(session, "session_id") or eval_id, "eval_id", ID_LENGTH),
        ]
        if tuple(names) in self._seen:
            raise Invalid(f"the session {'/'.join(names)} is there twice")
        self._seen.add(tuple(names))
        with named("/".join(names)):
            state = split(as_object(piece(field(session, "state") or {}, self._strict)))
        made = time_of(case)
        events = Events([names[0], names[2]], made)  # generated ids are readable, and the id of a user may be hidden
        for number, invocation in enumerate(said):
            self.where = f"{where}.conversation[{number}]"
            events.add(as_object(invocation), number)
        items = []
        for event, path in events.made:
            items.append(checked_event(event, f"{where}.{path}", self._strict, "/".join(names)))
        first, updated = (items[0].timestamp, items[-1].timestamp) if items else (made, made)
        created = min(made or first, first)  # adk web creates a case later than its session
        self.where = where
        yield from begun(names, state, state.session, (created, updated), len(items))
        yield from items


read = read_with(_Cases)
