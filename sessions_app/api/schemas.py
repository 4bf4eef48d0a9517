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
