"""Defines the bodies and answers about the past: history, the agent's view, undo and its like."""

from typing import Any

from ninja import Field, Schema

from .schemas import Change, State


class Writer(Schema):
    """The event that last wrote a key, in whichever session."""

    user_id: str
    session_id: str
    event_id: str
    seq: int | None
    author: str
    actor: str = Field(description="who made the edit; empty if it is not an edit")
    timestamp: float


class Moment(Schema):
    """State by scope at a moment. In the lists, keys have their prefix."""

    event_id: str | None = Field(description="null for now")
    seq: int | None = Field(description="its number in append order; null if events have none")
    state: State = Field(description="without the keys whose value cannot be known")
    unknown: list[str] = Field(description="keys whose value at that moment cannot be known")
    initial: list[str] = Field(description="keys that still have the value from a session's creation")
    writers: dict[str, Writer]
    unrecorded: bool = Field(description="the session's initial state was never recorded")


class Difference(Change):
    """A key that changed, or differs."""

    unknown: list[str] = Field([], description="`old`, `new`: the sides whose value cannot be known")


class KeyWrite(Difference):
    """One write of a key. There is no event if a session was created with it."""

    user_id: str
    session_id: str
    event_id: str | None
    seq: int | None
    timestamp: float
    author: str
    actor: str = Field(description="who made the edit; empty if it is not an edit")
    reason: str


class History(Schema):
    """Writes of a key, the newest first. The last page ends with the initial value, if it is known."""

    items: list[KeyWrite]
    next: str | None = Field(description="`before` of the page with earlier items")


class Comparison(Schema):
    """The keys that differ between two moments."""

    items: list[Difference]


class Drifted(Difference):
    """A key that drifted: `old` is what the events say, `new` what is stored."""

    user_id: str | None = Field(description="the user of the session whose event, or whose creation, wrote it last")
    session_id: str | None
    event_id: str | None
    seq: int | None
    lost: bool = Field(description="the stored value is the one from before that event")
    stray: bool = Field(description="it is stored in another scope than its prefix says, where no event can change it")


class Drift(Schema):
    """The keys whose stored value is not what the events say, and those for which that cannot be known."""

    events: int = Field(description="how many events were replayed")
    items: list[Drifted]
    unknown: list[str]
    untold: str = Field(description="why drift cannot be determined: `places`, `importing`, `size`; else empty")


class Piece(Schema):
    """A part of an instruction, as it is written and as the model gets it (null if ADK raises an error)."""

    kind: str
    written: str
    shown: str | None
    name: str
    optional: bool
    fault: str = Field(description="missing, unrecorded, temp, unsaved, unread; else empty")
    writer: Writer | None


class Instruction(Schema):
    """An instruction filled in. `text` is null if ADK raises an error, or if a value cannot be known."""

    text: str | None
    pieces: list[Piece]


class LeftOut(Schema):
    """Why the model is not given an event, and which event is the reason."""

    kind: str
    by: str
    seq: int | None


class Line(Schema):
    """A content of the model's request with the events that it comes from, or an event that is left out."""

    event_id: str
    seq: int | None
    role: str | None
    parts: list[Any] = Field(description="as ADK stores them")
    quoted: bool = Field(description="another agent's event, which the model gets as a text of the user, for context")
    summary: bool = Field(description="it replaces the events that it covers")
    events: list[str]
    left_out: LeftOut | None


class Conversation(Schema):
    """A page of what an agent's model is given, in the order of the request."""

    agent: str
    branch: str
    task: str | None = Field(description="what an agent with a scope of its own is given first, as JSON text")
    items: list[Line]
    next: str | None = Field(description="`before` of the page with earlier items")


class Undo(Schema):
    """Undoing an event's state delta, by another event."""

    overwrite: bool = Field(
        False, description="also overwrite keys that somebody has written since; else 409 and nothing is written"
    )
    reason: str = Field("", max_length=1000)


class Restore(Schema):
    """Restoring the state just after an event, by another event."""

    to: str = Field(description="the event's id")
    keys: list[str] = Field([], description="only these keys, with their prefix; by default, whole scopes")
    scopes: list[str] = Field(["session", "user", "app"], description="session, user, app")
    reason: str = Field("", max_length=1000)


class Rewind(Schema):
    """Rewinding the conversation to before an invocation, by an event that ADK understands."""

    before: str = Field(description="the invocation's id")
    reason: str = Field("", max_length=1000)
    once: str = Field(
        "", description="any text; the same rewind sent again by the same program with the same text is stored once"
    )


class Fork(Schema):
    """Copying a session up to an event."""

    user_id: str | None = Field(None, description="the user of the fork; by default, the user of the session")
    session_id: str = Field("", description="generated if it is missing")
    reason: str = Field("", max_length=1000)


class Repair(Schema):
    """Repairing keys that drifted: which ones, and how."""

    keep: list[str] = Field([], description="keys whose stored value stays; an event then says so, too")
    put_back: list[str] = Field([], description="keys that get the value that the events say")
    reason: str = Field("", max_length=1000)


class Template(Schema):
    """An instruction to fill in."""

    template: str
