"""A database that adk-js made and goes on using: its milliseconds, and adkweb's indexes, which it drops at each start."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest
from pytest_django import Settings

from sessions_app.access.actor import SYSTEM, Actor
from sessions_app.domain.errors import NotFound, SourceError, StaleSession
from sessions_app.domain.session_ref import SessionRef
from sessions_app.domain.state import ABSENT
from sessions_app.edits import edit as edits
from sessions_app.edits import fork, fork_tree
from sessions_app.edits.edit import Entry
from sessions_app.history import drift, moments
from sessions_app.live.source_finder import Searcher
from sessions_app.reads import lists, newest, timeline, views, whole_session
from sessions_app.sources import adopt_job, online
from sessions_app.sources import adoption as sources_adoption
from sessions_app.sources import schema as sources_schema
from sessions_app.transfer import FORMATS, exporting, uploads
from sessions_app.transfer.items import EventItem
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session
from tests.adk.services import Adk
from tests.api.program import Program, address
from tests.management.conftest import Tailing, run
from tests.servers import PostgreSQL
from tests.web.conftest import Browser, names_of

pytestmark = pytest.mark.django_db(transaction=True)

HERE: Final = Path(__file__).parent
NODE: Final = Path(sys.executable).with_name("node")
STATE: Final = {"step": "search", "user:tier": "gold", "app:limit": 10, "camelCase": {"innerKey": 1}}
Open = Callable[..., str]


@cache
def _node() -> subprocess.Popen[str]:
    """A Node.js that has imported adk-js, which takes seconds."""
    return subprocess.Popen([NODE, HERE / "agent.js"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


@pytest.fixture(scope="module", autouse=True)
def _ended() -> Iterator[None]:
    yield
    with _node() as process:
        assert process.stdin
        process.stdin.close()
    _node.cache_clear()


def js(place: str, command: str, *given: Any, session: str = "s1") -> dict[str, Any] | None:
    """What adk-js has, after a command."""
    node = _node()
    assert node.stdin
    assert node.stdout
    node.stdin.write(json.dumps([place, session, command, *given]) + "\n")
    node.stdin.flush()
    line = next((line for line in node.stdout if line.startswith("ANSWER ")), None)
    assert line, node.wait()
    told = json.loads(line.removeprefix("ANSWER "))
    assert "error" not in told, told["error"]
    answer: dict[str, Any] | None = told["session"]
    return answer


@pytest.fixture(scope="session")
def template(postgresql_server: PostgreSQL, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """Makes databases in which adk-js has had a session with a turn: once of each kind, to be copied."""

    @cache
    def make(form: str) -> str:
        sqlite = str(tmp_path_factory.mktemp("js") / "js.db")
        found = sqlite if form == "sqlite" else postgresql_server.create_database("made_by_js")
        js(found, "create", STATE)
        js(found, "say", "hello", {"step": "choose"})
        return found

    return make


@pytest.fixture(params=["sqlite", "postgresql"])
def place(
    request: pytest.FixtureRequest, template: Callable[[str], str], new_database: Callable[..., str], tmp_path: Path
) -> str:
    """Such a database."""
    made = template(request.param)
    if request.param == "sqlite":
        return str(shutil.copy(made, tmp_path / "js.db"))
    return new_database("postgresql", template="made_by_js")


@pytest.fixture
def ref(place: str, open_source: Open) -> SessionRef:
    """That session, in a source that adkweb adopted."""
    return SessionRef(open_source(place), "booking", "ana", "s1")


def is_now(seconds: float) -> bool:
    return 0 <= time.time() - seconds < 600


def schema(place: str) -> list[Any]:
    """The database's tables with their columns, indexes, triggers and functions."""
    if "://" not in place:
        with closing(sqlite3.connect(place)) as db:
            return sorted(db.execute("SELECT type, name, sql FROM sqlite_master"), key=repr)
    with psycopg.connect(place) as db:
        return db.execute(
            """SELECT relname, relkind::text, attname, format_type(atttypid, atttypmod) FROM pg_class
            LEFT JOIN pg_attribute ON attrelid = pg_class.oid AND attnum > 0 AND NOT attisdropped
            WHERE relnamespace = 'public'::regnamespace UNION ALL
            SELECT tgname, 't', NULL, NULL FROM pg_trigger WHERE NOT tgisinternal UNION ALL
            SELECT proname, 'f', NULL, NULL FROM pg_proc WHERE pronamespace = 'public'::regnamespace ORDER BY 1, 2, 3"""
        ).fetchall()


# --- Reading ----------------------------------------------------------------------------------------------------------


def test_everything_is_read_in_seconds(ref: SessionRef) -> None:
    (row,) = lists.sessions(ref.source, "booking", actor=SYSTEM).rows
    assert is_now(row.create_time)
    assert is_now(row.update_time)
    (app,) = lists.apps(ref.source, actor=SYSTEM).rows
    assert app.last_activity == row.update_time
    said, answered = timeline.events(ref, actor=SYSTEM).rows
    assert [view.timestamp for view in (said, answered)] == [view.data["timestamp"] for view in (said, answered)]
    assert is_now(answered.timestamp)
    assert said.timestamp <= answered.timestamp == row.update_time
    loaded = whole_session.load(ref, actor=SYSTEM)
    assert loaded is not None
    assert [json.loads(event.text) for event in loaded.events] == [said.data, answered.data]
    assert [event.text for event in loaded.events] == [
        event.text
        for page in whole_session.stream(ref, actor=SYSTEM)[1]
        for event in page  # type: ignore[index]
    ]
    since = whole_session.load(ref, since=answered.timestamp, actor=SYSTEM)
    assert since is not None
    assert [event.id for event in since.events] == [answered.id]
    exported = list(exporting.items(ref.source, exporting.Filter(), actor=SYSTEM))
    assert [item.timestamp for item in exported if hasattr(item, "timestamp")] == [said.timestamp, answered.timestamp]
    assert all("at" not in getattr(item, "extra", {}) for item in exported)


def test_states_are_what_adk_js_reads_and_every_event_has_one(place: str, ref: SessionRef) -> None:
    session = views.session(ref, actor=SYSTEM)
    theirs = js(place, "read")
    assert theirs is not None
    assert session.state.merged() == theirs["state"]
    said, answered = timeline.events(ref, actor=SYSTEM).rows
    assert moments.state_at(ref, said.id, actor=SYSTEM).state.session["step"] == "choose"
    assert moments.state_at(ref, answered.id, actor=SYSTEM).state.session["last"] == "You said: hello"
    assert timeline.in_flight(ref, actor=SYSTEM) is None
    assert newest.happening(ref.source, actor=SYSTEM).running == []


def test_pages_and_routes_show_it(ref: SessionRef, maria: Browser, program: Program) -> None:
    assert "booking" in maria.open("home").text
    assert "You said: hello" in maria.open("session", **ref._asdict()).text
    maria.open("app", **names_of(ref, 2))
    answered = timeline.events(ref, actor=SYSTEM).rows[-1]
    page = maria.open("event", **ref._asdict(), event_id=answered.id).text
    assert not re.search(r"\b58861\b", page)
    adks = program.get(f"/apps/booking/users/ana/sessions/s1?source={ref.source}").json()
    ours = program.get(address(ref)).json()
    for session in (adks, ours):
        assert session["events"][-1]["timestamp"] == answered.timestamp
    assert adks["lastUpdateTime"] == answered.timestamp


def test_read_only_it_is_shown_and_left_as_it_is(place: str, open_source: Open, settings: Settings) -> None:
    settings.READ_ONLY = True
    before = schema(place)
    ref = SessionRef(open_source(place), "booking", "ana", "s1")
    assert [view.description.text for view in timeline.events(ref, actor=SYSTEM).rows] == ["hello", "You said: hello"]
    assert all(is_now(view.timestamp) for view in timeline.events(ref, actor=SYSTEM).rows)
    assert (
        timeline.events(ref, before=timeline.events(ref, actor=SYSTEM).rows[-1].cursor, actor=SYSTEM)
        .rows[-1]
        .description.text
        == "hello"
    )
    assert schema(place) == before


def test_commands_know_it(place: str, tmp_path: Path) -> None:
    code, out, _errors = run(tmp_path, "doctor", place)
    assert code == 0, out
    assert "as adk-js writes it" in out
    assert not re.search(r"\b58861\b", out)
    _code, exported, _errors = run(tmp_path, "export", place)
    assert all(is_now(float(each)) for each in re.findall(r'"timestamp":([\d.]+)', exported))
    assert exported.count('"timestamp":') == 2
    assert run(tmp_path, "create", "new.db")[0] == 0
    code, out, errors = run(tmp_path, "import", place, "--into", "new.db")
    assert code == 0, errors
    with closing(sqlite3.connect(tmp_path / "new.db")) as db:
        for at, said in db.execute("SELECT timestamp, json_extract(event_data, '$.timestamp') FROM events"):
            assert is_now(at)
            assert said == at


def test_tail_says_the_time_of_day(place: str, tail: Callable[..., Tailing]) -> None:
    tailing = tail(place, "--lines", "1")
    assert re.match(r"\d\d:\d\d:\d\d  booking/ana/s1  parrot  message  You said: hello", tailing.line())


# --- Writing ----------------------------------------------------------------------------------------------------------


def test_adk_js_sees_an_edit_with_its_time_and_goes_on(place: str, ref: SessionRef, actor: Actor) -> None:
    before = views.session(ref, actor=SYSTEM).revision
    edits.edit_state(
        ref,
        [Entry("step", "pay", "choose"), Entry("user:tier", "silver", "gold"), Entry("app:limit", ABSENT, 10)],
        actor=actor,
    )
    theirs = js(place, "read")
    assert theirs is not None
    assert theirs["state"]["step"] == "pay"
    assert theirs["state"]["user:tier"] == "silver"
    assert "app:limit" not in theirs["state"]
    edit = theirs["events"][-1]
    assert isinstance(edit["timestamp"], int)
    assert is_now(edit["timestamp"] / 1000)
    assert theirs["lastUpdateTime"] == edit["timestamp"]
    ours = timeline.events(ref, actor=SYSTEM).rows[-1]
    assert (ours.timestamp, ours.data["timestamp"]) == (edit["timestamp"] / 1000,) * 2
    assert before < ours.timestamp == views.session(ref, actor=SYSTEM).revision
    js(place, "say", "and now?", {})
    texts = [view.description.text for view in timeline.events(ref, actor=SYSTEM).rows]
    assert texts[-2:] == ["and now?", "You said: and now?"]
    assert views.session(ref, actor=SYSTEM).state.session["last"] == "You said: and now?"
    assert drift.own(ref, actor=SYSTEM).drifted == []


def test_a_revision_advances_by_what_adk_js_can_see_and_is_compared(ref: SessionRef, actor: Actor) -> None:
    past = {"author": "agent", "timestamp": 1_700_000_000.123456, "actions": {"state_delta": {"n": 1}}}
    revisions = [views.session(ref, actor=SYSTEM).revision]
    for number in range(3):
        appended = append_event(ref, {**past, "id": f"e{number}"}, actor=actor, revision=None, expected=revisions[-1])
        assert appended.revision is not None
        revisions.append(appended.revision)
    steps = [later - earlier for earlier, later in pairwise(revisions)]
    assert steps == [pytest.approx(0.001, abs=1e-5)] * 3
    with pytest.raises(StaleSession):
        append_event(ref, past, actor=actor, expected=revisions[-2])


def test_an_event_that_is_sent_again_is_the_one_that_is_there(ref: SessionRef, actor: Actor) -> None:
    event = {"id": "e1", "author": "agent", "timestamp": time.time() + 0.0001234}
    first = append_event(ref, event, actor=actor)
    assert first.seq
    again = append_event(ref, event, actor=actor)
    assert (again.seq, again.event) == (None, first.event)


def test_what_is_imported_twice_is_there_once(ref: SessionRef, demo: str, actor: Actor) -> None:
    upload = uploads.receive(FORMATS["jsonl"].write(exporting.items(demo, exporting.Filter(), actor=SYSTEM)))
    first, second = (uploads.bring(upload, ref.source, actor) for _time in range(2))
    uploads.discard(upload)
    assert (first.skipped, second.skipped, second.new) == ([], [], 0)
    source = [
        item.timestamp
        for item in exporting.items(demo, exporting.Filter(), actor=SYSTEM)
        if isinstance(item, EventItem)
    ]
    ours = [
        item.timestamp
        for item in exporting.items(ref.source, exporting.Filter(), actor=SYSTEM)
        if isinstance(item, EventItem) and item.id not in {view.id for view in timeline.events(ref, actor=SYSTEM).rows}
    ]
    assert ours == pytest.approx(source, abs=0.001)


def test_a_fork_has_the_times_of_its_origin(ref: SessionRef, actor: Actor) -> None:
    answered = timeline.events(ref, actor=SYSTEM).rows[-1]
    into = fork.fork(ref, answered.id, user_id="ana", session_id="s2", actor=actor)
    copies = timeline.events(into, actor=SYSTEM).rows
    assert [view.timestamp for view in copies[:2]] == [
        view.timestamp for view in timeline.events(ref, actor=SYSTEM).rows
    ]
    assert is_now(fork_tree.forks_of(ref, actor=SYSTEM)[0].created)


# --- adk-js starts again ----------------------------------------------------------------------------------------------


def test_the_indexes_that_it_drops_come_back_and_nothing_is_wrong_without(
    place: str, ref: SessionRef, actor: Actor
) -> None:
    js(place, "say", "again", {})
    missing = set(sources_adoption.missing(ref.source))
    assert missing
    assert missing <= sources_schema.INDEXES
    created = create_session(ref.source, "booking", "ana", state={"user:tier": "new"}, actor=actor)
    append_event(created, {"author": "agent", "actions": {"state_delta": {"n": 1}}}, actor=actor)
    assert timeline.events(ref, actor=SYSTEM).rows[-1].description.text == "You said: again"
    assert (
        moments.state_now(created, actor=SYSTEM).state.merged() == views.session(created, actor=SYSTEM).state.merged()
    )
    adopt_job.go_on()
    adopt_job.wait(ref.source)
    assert sources_adoption.missing(ref.source) == []
    adopt_job.go_on()
    assert adopt_job.of(ref.source) is None
    assert js(place, "delete") is None
    with pytest.raises(NotFound):
        views.session(ref, actor=SYSTEM)


def test_the_server_puts_them_back(place: str, ref: SessionRef) -> None:
    js(place, "read")
    assert sources_adoption.missing(ref.source)
    searcher = Searcher()
    searcher.start()
    try:
        ends = time.monotonic() + 30
        while sources_adoption.missing(ref.source):
            assert time.monotonic() < ends, "the indexes stay away"
            time.sleep(0.05)
    finally:
        searcher.end()
        searcher.join(30)
        adopt_job.wait(ref.source)
    assert adopt_job.of(ref.source) is None


def test_a_source_that_was_released_is_not_adopted_again_by_this(ref: SessionRef) -> None:
    online.release(ref.source)
    adopt_job.go_on()
    assert adopt_job.of(ref.source) is None
    assert "sessions.initial_state" in sources_adoption.missing(ref.source)


def test_release_takes_everything_away_and_adk_js_goes_on(place: str, open_source: Open, actor: Actor) -> None:
    before = schema(place)
    ref = SessionRef(open_source(place), "booking", "ana", "s1")
    edits.edit_state(ref, [Entry("step", "pay", "choose")], actor=actor)
    js(place, "say", "with adkweb", {})
    online.release(ref.source)
    assert schema(place) == before
    theirs = js(place, "say", "without", {})
    assert theirs is not None
    assert theirs["state"]["step"] == "pay"


# --- Both write -------------------------------------------------------------------------------------------------------


def test_on_postgresql_it_may_write_beside_google_adk(
    new_database: Callable[[str], str], open_source: Open, actor: Actor
) -> None:
    url = new_database("postgresql")
    adk = Adk("postgresql", url)
    adk.append(adk.create(), "from Python")
    adk.close()
    js(url, "create", {}, session="s2")
    js(url, "say", "from JavaScript", {}, session="s2")
    alias = open_source(url)
    for ref in (SessionRef(alias, "booking", "ana", name) for name in ("s1", "s2")):
        edits.edit_state(ref, [Entry("step", "pay", ABSENT)], actor=actor)
        assert all(is_now(view.timestamp) for view in timeline.events(ref, actor=SYSTEM).rows)
        assert all(is_now(view.data["timestamp"]) for view in timeline.events(ref, actor=SYSTEM).rows)
        loaded = whole_session.load(ref, actor=SYSTEM)
        assert loaded is not None
        assert all(is_now(json.loads(event.text)["timestamp"]) for event in loaded.events)
    adk = Adk("postgresql", url)
    assert is_now(adk.get().events[-1].timestamp)  # these tables are google-adk's
    adk.close()


def test_a_file_that_both_wrote_is_refused_and_can_be_imported(
    new_database: Callable[[str], str], open_source: Open, tmp_path: Path
) -> None:
    file = new_database("sqlite-database")
    adk = Adk("sqlite-database", file)
    adk.append(adk.create(), "from Python")
    adk.close()
    js(file, "create", {}, session="s2")
    js(file, "say", "from JavaScript", {}, session="s2")
    before = Path(file).read_bytes()
    with pytest.raises(SourceError, match=r"several formats \(milliseconds, text\).*adkweb import"):
        open_source(file)
    assert Path(file).read_bytes() == before
    assert run(tmp_path, "create", "new.db")[0] == 0
    assert run(tmp_path, "import", file, "--into", "new.db")[0] == 0
    with closing(sqlite3.connect(tmp_path / "new.db")) as db:
        assert all(is_now(row[0]) for row in db.execute("SELECT timestamp FROM events"))
