"""What answers look like and bodies hold that are about the past: history, what the agent sees, what is taken back."""

from typing import Any

from ninja import Field, Schema

from .schemas import Change, State


class Writer(Schema):
    """The event that wrote a key last, of whichever session."""

    user_id: str
    session_id: str
    event_id: str
    seq: int | None
    author: str
    actor: str = Field(description="of an edit, else empty")
    timestamp: float


class Moment(Schema):
    """State by scope at a moment; keys in the lists have their prefix."""

    event_id: str | None = Field(description="null for now")
    seq: int | None = Field(description="its place in append order; null where events have none")
    state: State = Field(description="without the keys whose value cannot be known")
    unknown: list[str] = Field(description="keys whose value then cannot be known")
    initial: list[str] = Field(description="keys that stand since a session was created")
    writers: dict[str, Writer]
    unrecorded: bool = Field(description="the session's initial state was never recorded")


class Difference(Change):
    """A key that changed, or differs."""

    unknown: list[str] = Field([], description="`old`, `new`: the sides whose value cannot be known")


class KeyWrite(Difference):
    """One write of a key; no event where a session was created with it."""

    user_id: str
    session_id: str
    event_id: str | None
    seq: int | None
    timestamp: float
    author: str
    actor: str = Field(description="of an edit, else empty")
    reason: str


class History(Schema):
    """Writes of a key, the newest first; the last page ends with the initial value, where it is known."""

    items: list[KeyWrite]
    next: str | None = Field(description="`before` of the page with earlier ones")


class Comparison(Schema):
    """What differs from one moment to another."""

    items: list[Difference]


class Drifted(Difference):
    """A key that differs: `old` is what the events make of it, `new` what is stored."""

    user_id: str | None = Field(description="of the session whose event, or whose creation, wrote it last")
    session_id: str | None
    event_id: str | None
    seq: int | None
    lost: bool = Field(description="stored is what stood there before that event")
    stray: bool = Field(description="it stands in another scope than its prefix says, where no event reaches it")


class Drift(Schema):
    """Which keys are stored otherwise than the events say, and of which that cannot be known."""

    events: int = Field(description="replayed")
    items: list[Drifted]
    unknown: list[str]
    untold: str = Field(description="why nothing can be told: `places`, `importing`, `size`; else empty")


class Piece(Schema):
    """A stretch of an instruction: as it is written, and as the model gets it (null where ADK raises an error)."""

    kind: str
    written: str
    shown: str | None
    name: str
    optional: bool
    fault: str = Field(description="missing, unrecorded, temp, unsaved, unread; else empty")
    writer: Writer | None


class Instruction(Schema):
    """An instruction filled in; `text` is null where ADK raises an error, or where something cannot be known."""

    text: str | None
    pieces: list[Piece]


class LeftOut(Schema):
    """Why an event is not given to the model, and the event that did it."""

    kind: str
    by: str
    seq: int | None


class Line(Schema):
    """A content of the model's request and the events that are in it, or an event that is left out."""

    event_id: str
    seq: int | None
    role: str | None
    parts: list[Any] = Field(description="as ADK stores them")
    quoted: bool = Field(description="what another agent did: the model gets it as text, told by the user for context")
    summary: bool = Field(description="it stands for the events that it covers")
    events: list[str]
    left_out: LeftOut | None


class Conversation(Schema):
    """A page of what an agent's model is given, in its order."""

    agent: str
    branch: str
    task: str | None = Field(description="what an agent with a scope of its own is told first, as JSON text")
    items: list[Line]
    next: str | None = Field(description="`before` of the page with earlier ones")


class Undo(Schema):
    """Taking an event's state delta back, by another event."""

    overwrite: bool = Field(False, description="also where somebody wrote a key since; else 409 and nothing is written")
    reason: str = Field("", max_length=1000)


class Restore(Schema):
    """State as it was just after an event, by another event."""

    to: str = Field(description="the event's id")
    keys: list[str] = Field([], description="only these, with prefix; without any, whole scopes")
    scopes: list[str] = Field(["session", "user", "app"], description="session, user, app")
    reason: str = Field("", max_length=1000)


class Rewind(Schema):
    """The conversation as it was before an invocation, by an event that ADK understands."""

    before: str = Field(description="the invocation's id")
    reason: str = Field("", max_length=1000)
    once: str = Field("", description="any text: a program's same rewind with the same text is stored once")


class Fork(Schema):
    """A copy of a session up to an event."""

    user_id: str | None = Field(None, description="whose it is; without one, the session's own user")
    session_id: str = Field("", description="made up where it is missing")
    reason: str = Field("", max_length=1000)


class Repair(Schema):
    """Which keys that drifted are repaired, and how."""

    keep: list[str] = Field([], description="keys that stay as they are stored, which an event then says")
    put_back: list[str] = Field([], description="keys that become what the events say")
    reason: str = Field("", max_length=1000)


class Template(Schema):
    """An instruction to fill in."""

    template: str
