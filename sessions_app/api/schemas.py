"""Defines the bodies and answers, for the OpenAPI document. Times are seconds since 1970, in UTC."""

from typing import Any

from ninja import Field, Schema

Json = dict[str, Any]


class Problem(Schema):
    """A problem: what went wrong (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str = Field(description="a sentence for the person who has to act")
    errors: list[Json] | None = Field(
        None, description="what is not valid in the address or the query, each with its path"
    )
    place: str | None = Field(None, description="where in the imported file")
    current: Json | None = Field(None, description="the current values of the keys that differ from `expected`")
    retry_after: int | None = Field(None, description="seconds to wait, after too many requests")
    proposal: str | None = Field(None, description="the proposal that waits for a second person")
    request_id: str | None = Field(None, description="the id of the request in the server's log")


class Source(Schema):
    """A database that holds ADK's tables. `copy_of` is the address of the source that it is a copy of."""

    source: str
    where: str | None
    vendor: str
    copy_of: str | None


class App(Schema):
    """An app of a source. Counts stop above 10 000."""

    source: str
    app_name: str
    sessions: int
    users: int
    last_activity: float | None


class Apps(Schema):
    """A page of apps, by source and name, and the errors of sources that could not be read."""

    items: list[App]
    next: str | None = Field(description="`after` of the page that follows; null on the last page")
    problems: list[str]


class User(Schema):
    """A user of an app. The count of sessions stops above 10 000."""

    user_id: str
    sessions: int
    last_activity: float


class Users(Schema):
    """A page of users, by id."""

    items: list[User]
    next: str | None = Field(description="`after` of the page that follows; null on the last page")


class SessionRow(Schema):
    """A session in a list. `events` stops above 1 000; `errors` counts within the newest 100 events."""

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
    next: str | None = Field(description="`before` of the page that follows; null on the last page")


class MatchedLine(Schema):
    """A line of an event that has the words, or a key with the value that it got, in three parts: `text` is what matched.
    `seq` is null in a PostgreSQL database that is not adopted."""

    seq: int | None
    kind: str
    before: str
    text: str
    after: str


class Result(Schema):
    """A session that a query selects, in numbers. `took` is the seconds of its turns together, or, with the `took_sign`
    “≥”, the least that is known."""

    source: str
    app_name: str
    user_id: str
    id: str
    title: str = Field(description="its name, else the first words of the first user message, else its id")
    status: str = Field(description="running, waiting, failed, stopped, idle or stuck")
    created: float
    last: float
    took: float
    took_sign: str
    turns: int
    events: int
    tokens: int
    error: str = Field(description="the last error; empty without one")
    error_seq: int | None
    tags: list[str]
    columns: Json = Field(description="the values of `columns`, without keys that the session does not have")
    match: MatchedLine | None


class SourceBehind(Schema):
    """A source of which only a share (from 0 to 1) can be found yet."""

    source: str
    share: float


class Results(Schema):
    """A page of sessions that a query selects."""

    items: list[Result]
    next: str | None = Field(description="`cursor` of the page that follows; null on the last page")
    count: int = Field(description="how many sessions the query selects; it stops at 10 000")
    more: bool = Field(description="whether there are more than `count`")
    broad: list[str] = Field(description="parts of so many words that only words that start with them were searched")
    behind: list[SourceBehind]


class WaitingCall(Schema):
    """A call that waits for an answer. `since` is when it was made."""

    id: str = Field(description="one word that names the call, its event, session and source")
    kind: str = Field(description="confirmation, input, credential or long-running")
    tool: str = Field(description="the tool that is to be confirmed, or that needs a sign-in or a result")
    args: Any = Field(description="the tool's arguments, or what a request for input comes with; null if unknown")
    hint: str = Field(description="the agent's own words; empty without any")
    source: str
    app_name: str
    user_id: str
    session_id: str
    event_id: str
    since: float
    answerable: bool
    why: str = Field(description="why it can't be answered, in a sentence; empty if it can")


class Inbox(Schema):
    """A page of calls that wait for an answer, the oldest first."""

    items: list[WaitingCall]
    next: str | None = Field(description="`cursor` of the page that follows; null on the last page")
    behind: list[SourceBehind]


class First(Schema):
    """State that is set before something is sent to an agent, with the permission append."""

    state: Json = Field({}, description="keys with their new values, set by an edit before the rest is sent")
    expected: Json = Field(
        {}, description="values that keys of `state` must still have; otherwise 409, and nothing is sent"
    )
    absent: list[str] = Field([], description="keys of `state` that must not exist")
    reason: str = Field("", max_length=1000, description="why the state is set")


class Agent(Schema):
    """How the agent of an app runs."""

    source: str
    app_name: str
    how: str = Field(description="here, in a process that adkweb starts; at an address; or none")
    why: str = Field(description="why it can't be run, in a sentence; empty if it can")
    host: str = Field(description="of the address; empty without one")
    folder: str = Field(description="the folder of agents that runs here; empty if none does")
    python: str = Field(description="the interpreter that runs it here; empty if none does")
    since: float | None = Field(description="when adkweb started the process that is running here; null if none is")
    runs: int = Field(description="how many runs it has now")
    error: str = Field(description="why the last run failed; empty if it didn't")


class Agents(Schema):
    """The agents that the token may operate."""

    items: list[Agent]
    problems: list[str] = Field(description="of sources that can't be read, in sentences")


class Answers(First):
    """The answers to all calls of an event that wait, by the id of the call."""

    event_id: str = Field(description="the event that asks")
    answers: dict[str, Json] = Field(
        description="for a confirmation `confirmed`, and perhaps a `payload`; for any other call its `response`; with "
        "`interim: true`, a long-running tool still waits for its result"
    )


class File(Schema):
    """A file that goes to an agent inside a message."""

    name: str
    mime_type: str = ""
    data: str = Field(description="base64; all files of a message can have 5 MB together")


class Message(First):
    """A message to an agent."""

    text: str
    files: list[File] = Field([], description="at most five")
    instead_of: str = Field(
        "",
        description="the id of an earlier message of the user: the session is rewound to before it first, which needs the "
        "permission append",
    )


class Stopping(Schema):
    """An agent that was asked to stop."""

    stopped_by: str


class Run(Schema):
    """A run of an agent that adkweb started."""

    id: str
    state: str = Field(description="waiting until it ends, then done, refused or stopped")
    sent: bool | None = Field(description="whether the agent got the message; null while that isn't known")
    message: str = Field(description="why it didn't end well, for who may operate; empty if it did")
    started_by: str
    created: float
    finished: float | None


class SessionState(Schema):
    """A session in a list, with its own state. Keys have no prefix."""

    user_id: str
    id: str
    created: float
    revision: float
    state: Json


class States(Schema):
    """A page of sessions with their state, the one updated longest ago first."""

    items: list[SessionState]
    app: Json = Field(description="state of the app; keys have no prefix")
    users: dict[str, Json] = Field(description="state of each user on the page who has any; keys have no prefix")
    next: str | None = Field(description="`after` of the page that follows; null on the last page")


class State(Schema):
    """State by scope. Keys have no prefix."""

    app: Json
    user: Json
    session: Json


class Event(Schema):
    """An event and its seq. If the fields beside `event` differ from those in it, the former count."""

    seq: int | None = Field(description="its number in append order; null in a PostgreSQL database that is not adopted")
    id: str
    invocation_id: str
    timestamp: float
    event: Any = Field(description="as stored: ADK's JSON in snake_case")
    damage: str | None = Field(None, description="why the stored event cannot be read; `event` is {} then")


class Session(Schema):
    """A session with its state and events, all as of one moment. `ETag` is its revision."""

    source: str
    app_name: str
    user_id: str
    id: str
    created: float
    revision: float = Field(description="when it was last written; If-Match compares with it")
    seq: int | None = Field(description="the seq of its newest event, listed or not; 0 without events")
    state: State
    events: list[Event]


class Standing(Schema):
    """The revision of a session, its newest event, and the seq of the requested event."""

    created: float
    revision: float
    newest: str | None = Field(description="the id of its newest event")
    seq: int | None = Field(description="the seq of the requested event; null if there is none")


class Created(Schema):
    """A session that was created."""

    source: str
    app_name: str
    user_id: str
    id: str


class Change(Schema):
    """A key that an event changed. `old` is missing if it is unknown, or if there was no value; `new`, if the key was
    removed."""

    key: str
    old: Any = None
    new: Any = None
    also_written_by: list[str] | None = Field(
        None,
        description="agents that wrote it in the same invocation on parallel branches: the last value counts",
    )


class EventView(Event):
    """An event, with its kind and the keys that it changed."""

    kind: str
    changes: list[Change]
    size: int | None = Field(
        description="characters of an event that is too large to be read whole: in `event`, long texts end with “…”, and "
        "files have no data (`…/events/{event_id}/data/{file}` has it); null for any other"
    )


class Events(Schema):
    """A page of events in append order."""

    items: list[EventView]
    next: str | None = Field(
        description="`before` of the page with earlier events, or `after` of the page with later ones"
    )


class Edits(Schema):
    """A page of edits in every session, the newest first."""

    items: list[Json]
    next: str | None
    problems: list[str]


class Appended(Schema):
    """The event that is stored, now or already. All three fields are null if nothing had to change."""

    seq: int | None = Field(description="its number in append order")
    revision: float | None = Field(
        description="the session's revision after it; null for an event that was stored already"
    )
    event: Any = Field(description="as it is stored")


class NewSession(Schema):
    """A session to create."""

    session_id: str | None = Field(None, description="generated if it is missing")
    state: Json = Field({}, description="initial state; keys have their prefix")


class NewLabels(Schema):
    """A title and tags for a session. Missing fields stay as they are."""

    title: str | None = Field(None, description="empty: its own title again")
    tags: list[str] | None = Field(None, description="all its tags")


class Labels(Schema):
    """The title and tags that people and programs gave to a session."""

    title: str = Field(description="empty if no one gave it one")
    tags: list[str]


class Edit(Schema):
    """An edit of state, which becomes one event."""

    set: Json = Field({}, description="keys, with their prefix, and their new values")
    remove: list[str] = Field([], description="keys to remove")
    expected: Json = Field(
        {}, description="keys with the values that they must still have; otherwise 409, and nothing is written"
    )
    absent: list[str] = Field([], description="keys that must not exist")
    reason: str = Field("", max_length=1000)
    once: str = Field(
        "", description="any text; the same edit sent again by the same program with the same text is stored once"
    )


class Imported(Schema):
    """The result of an import, or of its dry run."""

    format: str
    new: int
    resumed: int
    same: int
    events: int
    states_made: int
    secrets: bool = Field(
        description="false if the file is without the secrets of credentials: agents ask for them again"
    )
    skipped_count: int
    differing_count: int
    skipped: list[Json]
    differing: list[Json]


# --- The past: history, the agent's view, undo and its like -----------------------------------------------------------


class Writer(Schema):
    """The event that last wrote a key, in any session."""

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
    """The keys whose stored value is not what the events say, and the keys for which that can't be known."""

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
    """Why the model did not get an event, and which event is the reason."""

    kind: str
    by: str
    seq: int | None


class Line(Schema):
    """A content of the model's request with the events that it comes from, or an event that is left out."""

    event_id: str
    seq: int | None
    role: str | None
    parts: list[Any] = Field(description="as ADK stores them")
    quoted: bool = Field(description="another agent's event, which the model gets as context, as text from the user")
    summary: bool = Field(description="it replaces the events that it covers")
    events: list[str]
    left_out: LeftOut | None


class Conversation(Schema):
    """A page of what an agent's model got, in the order of the request."""

    agent: str
    branch: str
    task: str | None = Field(description="what an agent with a scope of its own gets first, as JSON text")
    items: list[Line]
    next: str | None = Field(description="`before` of the page with earlier items")


class Undo(Schema):
    """Undoing an event's state delta, with another event."""

    overwrite: bool = Field(
        False, description="also overwrite keys that someone has written since; otherwise 409, and nothing is written"
    )
    reason: str = Field("", max_length=1000)


class Restore(Schema):
    """Restoring the state just after an event, with another event."""

    to: str = Field(description="the event's id")
    keys: list[str] = Field([], description="only these keys, with their prefix; by default, whole scopes")
    scopes: list[str] = Field(["session", "user", "app"], description="session, user, app")
    reason: str = Field("", max_length=1000)


class Rewind(Schema):
    """Rewinding the conversation to before an invocation, with an event that ADK understands."""

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

    keep: list[str] = Field([], description="keys whose stored value stays, recorded in an event")
    put_back: list[str] = Field([], description="keys that get the value from the events")
    reason: str = Field("", max_length=1000)


class Template(Schema):
    """An instruction to fill in."""

    template: str
