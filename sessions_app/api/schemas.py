"""What answers look like and bodies hold, for the OpenAPI document; moments are seconds since 1970, in UTC."""

from typing import Any

from ninja import Field, Schema

Json = dict[str, Any]


class Problem(Schema):
    """What went wrong (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str = Field(description="a sentence for the person who has to act")
    errors: list[Json] | None = Field(None, description="by place, what is not valid in the address or the query")
    place: str | None = Field(None, description="where in a file that is imported")
    current: Json | None = Field(None, description="the values by now of the keys that differ from `expected`")


class Source(Schema):
    """A database that holds ADK's tables."""

    source: str
    where: str | None
    vendor: str


class App(Schema):
    """An app of a source; counts stop above 10 000."""

    source: str
    app_name: str
    sessions: int
    users: int
    last_activity: float | None


class Apps(Schema):
    """Every app, and what is wrong with sources that could not be read."""

    items: list[App]
    problems: list[str]


class User(Schema):
    """A user of an app; sessions stop above 10 000."""

    user_id: str
    sessions: int
    last_activity: float


class Users(Schema):
    """A page of users, by id."""

    items: list[User]
    next: str | None = Field(description="`after` of the page that follows; null where this is the last")


class SessionRow(Schema):
    """A session in a list; `events` stops above 1 000, `errors` looks at the newest 100 events."""

    source: str
    app_name: str
    user_id: str
    id: str
    title: str
    created: float
    revision: float
    events: int
    errors: int


class Sessions(Schema):
    """A page of sessions, the last active first."""

    items: list[SessionRow]
    next: str | None = Field(description="`before` of the page that follows; null where this is the last")


class SessionState(Schema):
    """A session in a list, with its own state; keys without prefix."""

    user_id: str
    id: str
    created: float
    revision: float
    state: Json


class States(Schema):
    """A page of sessions with their state, the one updated longest ago first."""

    items: list[SessionState]
    app: Json = Field(description="state of the app, for all of them; keys without prefix")
    users: dict[str, Json] = Field(description="state of each user of the page who has any; keys without prefix")
    next: str | None = Field(description="`after` of the page that follows; null where this is the last")


class State(Schema):
    """State by scope; keys without prefix."""

    app: Json
    user: Json
    session: Json


class Event(Schema):
    """An event and its place; the columns beside the event decide where the two differ."""

    seq: int | None = Field(description="its place in append order; null in a database that was not adopted")
    id: str
    invocation_id: str
    timestamp: float
    event: Any = Field(description="as it is stored: ADK's JSON in snake_case")


class Session(Schema):
    """A session with its state and events, of one moment; `ETag` is its revision."""

    source: str
    app_name: str
    user_id: str
    id: str
    created: float
    revision: float = Field(description="when it was last written; If-Match compares with it")
    seq: int | None = Field(description="the place of its newest event, listed or not; 0 for none")
    state: State
    events: list[Event]


class Standing(Schema):
    """Where a session stands."""

    created: float
    revision: float
    newest: str | None = Field(description="the id of its newest event")
    seq: int | None = Field(description="the place of the event that was asked about; null where it is not there")


class Created(Schema):
    """A session that was created."""

    source: str
    app_name: str
    user_id: str
    id: str


class Change(Schema):
    """A key that an event changed; no `old` where it is not known, or was not there; no `new` where it was removed."""

    key: str
    old: Any = None
    new: Any = None


class EventView(Event):
    """An event, with what it is and the state that it changed."""

    kind: str
    changes: list[Change]


class Events(Schema):
    """A page of events in append order."""

    items: list[EventView]
    next: str | None = Field(description="`before` of the page with earlier ones, or with `after` its next value")


class Edits(Schema):
    """A page of edits in every session, the newest first."""

    items: list[Json]
    next: str | None
    problems: list[str]


class Appended(Schema):
    """What was stored, now or already; all three are null where nothing had to change."""

    seq: int | None = Field(description="its place in append order")
    revision: float | None = Field(description="the session's after it; null for what was stored already")
    event: Any = Field(description="as it is stored")


class NewSession(Schema):
    """A session to create."""

    session_id: str | None = Field(None, description="made up where it is missing")
    state: Json = Field({}, description="initial state, keys with prefix")


class Edit(Schema):
    """An edit of state, which becomes one event."""

    set: Json = Field({}, description="keys, with prefix, and their new values")
    remove: list[str] = Field([], description="keys that leave the state")
    expected: Json = Field(
        {}, description="keys with the values that they must still have; else 409 and nothing is written"
    )
    absent: list[str] = Field([], description="keys that must not be there")
    reason: str = Field("", max_length=1000)
    once: str = Field("", description="any text: a program's same edit with the same text is stored once")


class Imported(Schema):
    """What an import did, or would do."""

    format: str
    new: int
    resumed: int
    same: int
    events: int
    states_made: int
    skipped_count: int
    differing_count: int
    skipped: list[Json]
    differing: list[Json]


# --- Time -------------------------------------------------------------------------------------------------------------


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
