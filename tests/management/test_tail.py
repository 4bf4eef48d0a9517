"""`adkweb tail` shows what an agent writes while it writes, and survives what happens to a store."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path

import psycopg
import pytest

from sessions_app.sources import database, online
from tests.adk.services import Adk
from tests.management.conftest import PROGRAM, SECONDS, Tailing, environment, run
from tests.servers import PostgreSQL
from tests.support import warm
from tests.web.conftest import DEMO

Tail = Callable[..., Tailing]
Agent = Callable[[str, str], Adk]
CLOCK = r"(?:\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d"
FORMS = ["sqlite", pytest.param("sqlite-database", marks=pytest.mark.long), "postgresql", "postgresql-adopted"]


@pytest.fixture(params=FORMS)
def store(
    request: pytest.FixtureRequest, new_database: Callable[[str], str], agent: Agent, open_source: Callable[[str], str]
) -> tuple[str, Adk]:
    """A store of each format, adopted or not, in which an agent has written one session; and that agent."""
    form = request.param.removesuffix("-adopted")
    place = new_database(form)
    adk = agent(form, place)
    session = adk.create("s1", {"n": 0})
    for number in range(3):
        adk.append(session, f"before {number}", n=number)
    if request.param.endswith("-adopted"):
        open_source(place)
    return place, adk


def test_the_newest_events_come_first_and_then_each_new_one_within_a_second(store: tuple[str, Adk], tail: Tail) -> None:
    place, adk = store
    tailing = tail(place, "--lines", "2")
    assert re.fullmatch(rf"{CLOCK}  booking/ana/s1  booking  message  before 1  n 0 → 1", tailing.line())
    assert re.fullmatch(rf"{CLOCK}  booking/ana/s1  booking  message  before 2  n 1 → 2", tailing.line())
    session = adk.get("s1")
    for number in range(3):
        adk.append(session, f"after {number}", n=number, user__x=1)
        written = time.monotonic()
        line = tailing.line()
        assert time.monotonic() - written < 1
        old = number - 1 if number else 2
        assert line.endswith(f"booking/ana/s1  booking  message  after {number}  n {old} → {number}  user:x → 1")
    other = adk.create("s2", user="지우")
    adk.append(other, "elsewhere")
    assert tailing.line().endswith("booking/지우/s2  booking  message  elsewhere")
    adk.append(other, "the end")
    assert tailing.says_next("the end")
    assert tailing.interrupt() == 0


def test_times_are_those_of_the_machine(tmp_path: Path, tail: Tail) -> None:
    demo = shutil.copy(DEMO, tmp_path / "demo.db")
    utc, seoul = (
        datetime.fromisoformat(tail(demo, "--lines", "1", TZ=zone).line()[:19]) for zone in ("UTC", "Asia/Seoul")
    )
    assert seoul - utc == timedelta(hours=9)


def test_a_burst_over_several_sessions_comes_whole_and_once_in_each_ones_order(
    store: tuple[str, Adk], tail: Tail
) -> None:
    place, adk = store
    tailing = tail(place, "--lines", "1")
    assert tailing.line().endswith("n 1 → 2")  # it is there
    sessions = [adk.create(f"b{number}") for number in range(3)]
    for number in range(40):
        for session in sessions:
            adk.append(session, f"burst {number}")
    lines = [tailing.line() for _ in range(120)]
    adk.append(sessions[0], "the end")
    assert tailing.says_next("the end")
    for session in sessions:
        told = [line.rpartition(" ")[2] for line in lines if f"/{session.id} " in line]
        assert told == [str(number) for number in range(40)]


def test_only_what_was_asked_for_is_shown_and_its_name_left_out(store: tuple[str, Adk], tail: Tail) -> None:
    place, adk = store
    other = adk.create("s2")
    adk.append(other, "first")
    tailing = tail(place, "--app", "booking", "--session", "s2")
    assert re.fullmatch(rf"{CLOCK}  ana  booking  message  first", tailing.line())
    adk.append(adk.get("s1"), "not this")
    adk.append(other, "this")
    assert re.fullmatch(rf"{CLOCK}  ana  booking  message  this", tailing.line())
    adk.append(other, "the end")
    assert tailing.says_next("the end")


def test_nothing_is_adopted_or_written(
    tmp_path: Path, new_database: Callable[[str], str], agent: Agent, tail: Tail
) -> None:
    place = new_database("sqlite")
    adk = agent("sqlite", place)
    adk.append(adk.create("s1"), "only")
    before = Path(place).read_bytes()
    tailing = tail(place)
    assert tailing.line().endswith("only")
    assert tailing.silent()
    assert tailing.interrupt() == 0
    assert Path(place).read_bytes() == before
    assert sorted(path.name for path in tmp_path.glob("*.db*")) == [Path(place).name]


# --- What a sequence does not tell ------------------------------------------------------------------------------------


@pytest.mark.parametrize("adopted", [True, False])
def test_an_event_that_is_committed_late_is_not_missed(
    adopted: bool, new_database: Callable[[str], str], agent: Agent, open_source: Callable[[str], str], tail: Tail
) -> None:
    place = new_database("postgresql")
    adk = agent("postgresql", place)
    adk.append(adk.create("s1"), "first")
    second = adk.create("s2")
    if adopted:
        open_source(place)
    insert = """INSERT INTO events (id, app_name, user_id, session_id, invocation_id, timestamp, event_data) VALUES
        ('late', 'booking', 'ana', 's1', 'i', now() - interval '1 hour', '{"author": "late"}')"""
    with psycopg.connect(place) as late:
        late.execute("UPDATE sessions SET update_time = now() WHERE id = 's1'")
        late.execute("SAVEPOINT inner_one")
        late.execute(insert)
        late.execute("RELEASE SAVEPOINT inner_one")
        tailing = tail(place, "--lines", "1")
        tailing.line()
        for number in range(3):
            adk.append(second, f"meanwhile {number}")
            assert tailing.line().endswith(f"meanwhile {number}")
        late.commit()
        assert "s1  late  empty" in tailing.line()
    adk.append(second, "after")
    assert tailing.line().endswith("after")
    adk.append(second, "the end")
    assert tailing.says_next("the end")


def test_on_sqlite_deleting_and_vacuum_repeat_and_lose_nothing(
    new_database: Callable[[str], str], agent: Agent, tail: Tail
) -> None:
    place = new_database("sqlite")
    adk = agent("sqlite", place)
    keep, gone = adk.create("keep"), adk.create("gone")
    for number in range(3):
        adk.append(keep, f"kept {number}")
    for number in range(5):
        adk.append(gone, f"gone {number}")
    tailing = tail(place, "--lines", "1")
    assert tailing.line().endswith("gone 4")
    with closing(sqlite3.connect(place)) as db:  # at one moment: delete, and give rowids again
        db.execute("DELETE FROM events WHERE session_id = 'gone'")
        db.execute(
            """INSERT INTO events (id, app_name, user_id, session_id, invocation_id, timestamp, event_data)
            VALUES ('new', 'booking', 'ana', 'keep', 'i', 5, '{"author": "again"}')"""
        )
        db.commit()
        assert "again" in tailing.line()
        db.execute("DELETE FROM events WHERE id IN (SELECT id FROM events WHERE session_id = 'keep' LIMIT 2)")
        db.commit()
        db.execute("VACUUM")
    adk.append(keep, "last")
    assert tailing.line().endswith("last")
    adk.append(keep, "the end")
    assert tailing.says_next("the end")


# --- Sources that go and come -----------------------------------------------------------------------------------------


def test_a_replaced_file_is_said_once_and_followed_from_its_beginning(tmp_path: Path, agent: Agent, tail: Tail) -> None:
    place = tmp_path / "agent.db"
    first = agent("sqlite", str(place))
    first.append(first.create("s1"), "old")
    tailing = tail(place)
    assert tailing.line().endswith("old")
    first.close()
    place.unlink()
    assert tailing.complaint() == "agent.db: the file no longer exists."
    assert tailing.silent(3)
    second = agent("sqlite", str(place))
    second.append(second.create("s1"), "new")
    assert tailing.line().endswith("new")
    while (said := tailing.complaint()) != "agent.db is back.":
        assert "no agent has written" in said or "ADK" in said  # the moment between the file and its tables
    assert tailing.interrupt() == 0


def test_a_server_that_goes_away_is_followed_on_when_it_is_back(agent: Agent, tail: Tail) -> None:
    with PostgreSQL() as server:
        place = server.create_database("tailed")
        adk = agent("postgresql", place)
        adk.append(adk.create("s1"), "before")
        tailing = tail(place)
        assert tailing.line().endswith("before")
        adk.close()
        server.stop()
        assert "tailed" in tailing.complaint()
        assert tailing.silent(3)
        server.start()
        assert tailing.complaint().endswith("is back.")
        again = agent("postgresql", place)
        again.append(again.get("s1"), "after")
        assert tailing.line().endswith("after")
        again.append(again.get("s1"), "the end")
        assert tailing.says_next("the end")
        again.close()


def test_every_store_of_a_folder_is_followed_and_those_that_come_later(
    tmp_path: Path, agent: Agent, tail: Tail
) -> None:
    places = [tmp_path / "agents" / name / ".adk" / "session.db" for name in ("one", "two")]
    for place in places:
        place.parent.mkdir(parents=True)
    one = agent("sqlite", str(places[0]))
    session = one.create("s1")
    one.append(session, "first")
    tailing = tail(tmp_path / "agents")
    assert re.fullmatch(rf"{CLOCK}  one/booking/ana/s1  booking  message  first", tailing.line())
    two = agent("sqlite", str(places[1]))
    two.append(two.create("s2"), "second")
    assert tailing.line().endswith("two/booking/ana/s2  booking  message  second")
    one.append(session, "third")
    assert tailing.line().endswith("one/booking/ana/s1  booking  message  third")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["missing.db"], "No such file or folder: missing.db"),
        (["text.db"], "this isn't a SQLite database."),
        (["postgresql://nobody@127.0.0.1:1/x"], "no server is listening there"),
        (["x.db", "--lines", "-1"], "-1 is not a number from 0 to 10,000"),
        (["x.db", "--lines", "many"], "many is not a number"),
    ],
)
def test_what_cannot_be_followed_ends_with_2(tmp_path: Path, words: list[str], message: str) -> None:
    (tmp_path / "text.db").write_text("this is no database, but some text" * 100)
    code, out, errors = run(tmp_path, "tail", *words)
    assert (code, out) == (2, "")
    assert message in errors


# --- Pipes and terminals ----------------------------------------------------------------------------------------------


def test_a_reader_that_has_enough_ends_it_quietly(tmp_path: Path) -> None:
    command = f"'{sys.executable}' -c '{PROGRAM}' tail '{DEMO}' --lines 50 | head -n 3; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", command],
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.stderr == ""
    assert len(done.stdout.splitlines()) == 4
    assert done.stdout.splitlines()[-1] == "0"


HOSTILE = (
    "\x1b[2J\x1b]0;owned\x07 \u202eright\u2066 \x9b31m line\nbreak\r\u2028 [red]x[/red] :smile: \ud800 👩‍👩‍👧 한국어"
)


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A store in which every text is hostile."""
    place = Path(shutil.copy(DEMO, tmp_path / "hostile.db"))
    name = HOSTILE.replace("\ud800", "")
    with closing(sqlite3.connect(place)) as db:
        db.execute("DELETE FROM events")
        db.execute("DELETE FROM sessions")
        db.execute(
            "INSERT INTO sessions (app_name, user_id, id, state, create_time, update_time) VALUES (?, ?, ?, '{}', 1, 1)",
            [name] * 3,
        )
        for number, event in enumerate(_hostile_events()):
            db.execute(
                "INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?)",
                [f"e{number}{name}", name, name, name, name, 1e300 if number else 5, event],
            )
        db.commit()
    return place


def _hostile_events() -> list[str]:
    text = HOSTILE
    state = {text: text, f"user:{text}": {text: [text]}}
    call = {"name": text, "args": {text: text}}
    response = {"name": text, "response": {"error": text}}
    shapes = [
        {"content": {"parts": [{"text": text}]}, "actions": {"state_delta": state, "artifact_delta": {text: 1}}},
        {"content": {"parts": [{"function_call": call}]}},
        {"content": {"parts": [{"function_response": response}]}},
        {"error_code": text, "error_message": text},
        {"actions": {"transfer_to_agent": text, "transfer_reason": text}},
        {"custom_metadata": {"adkweb": {"actor": text, "reason": text}}},
        {"output": {text: text}},
        {"input_transcription": {"text": text}},
        {text: 1},
        {"error_message": {"no": "text"}, "usage_metadata": {"total_token_count": 10**40}},
        {"actions": {"compaction": 5, "rewind_before_invocation_id": ["x"]}},
    ]
    return [*(json.dumps({"author": text, "timestamp": 1e308, **shape}) for shape in shapes), "no json", "[1]"]


def test_hostile_text_reaches_no_terminal(hostile: Path, tail: Tail) -> None:
    tailing = tail(hostile, "--lines", "100")
    lines = [tailing.line() for _ in range(len(_hostile_events()))]
    assert tailing.silent()
    for line in lines:
        assert all(c.isprintable() or c == "\u200d" for c in line), ascii(line)
    assert "한국어" in lines[0]
    assert "[red]x[/red] :smile:" in lines[0]
    assert tailing.interrupt() == 0


def in_terminal(tmp_path: Path, *words: str | Path, **more: str) -> tuple[str, int]:
    """What a terminal of 100 columns is sent until it has been silent, and the exit code after Ctrl+C."""
    main, side = pty.openpty()
    process = warm.Popen(
        [sys.executable, "-c", PROGRAM, *map(str, words)],
        cwd=tmp_path,
        env={**environment(tmp_path, TERM="xterm-256color", COLUMNS="100", **more)},
        stdin=side,
        stdout=side,
        stderr=side,
        start_new_session=True,
    )
    os.close(side)
    sent = b""
    while select.select([main], [], [], 3 if sent else SECONDS)[0]:
        sent += os.read(main, 65536)
    process.send_signal(signal.SIGINT)
    code = process.wait(SECONDS)
    os.close(main)
    return sent.decode(), code


def test_a_terminal_gets_colours_and_lines_no_wider_than_it(tmp_path: Path, hostile: Path) -> None:
    sent, code = in_terminal(tmp_path, "tail", hostile, "--lines", "100")
    assert code == 0
    assert "\x1b[2m" in sent
    assert set(re.findall(r"\x1b(?!\[[\d;]*m)", sent)) == set()
    lines = [re.sub(r"\x1b\[[\d;]*m", "", line) for line in sent.replace("\r\n", "\n").split("\n")][:-1]
    assert len(lines) == len(_hostile_events())
    assert all(len(line) <= 100 for line in lines)


def test_no_color_is_respected(tmp_path: Path) -> None:
    sent, _code = in_terminal(tmp_path, "tail", DEMO, "--lines", "50", NO_COLOR="1")
    assert "message" in sent
    assert not re.search(r"\x1b\[(?:\d+;)*[39]\d", sent)


def test_adopting_while_it_is_followed_repeats_nothing(
    new_database: Callable[[str], str], agent: Agent, open_source: Callable[[str], str], tail: Tail
) -> None:
    place = new_database("postgresql")
    adk = agent("postgresql", place)
    session = adk.create("s1")
    for number in range(5):
        adk.append(session, f"before {number}")
    tailing = tail(place, "--lines", "1")
    assert tailing.line().endswith("before 4")
    alias = open_source(place)
    assert tailing.silent(2)
    adk.append(adk.get("s1"), "adopted")
    assert tailing.line().endswith("adopted")
    with database.connected(database.get(alias)):
        online.release(alias)
    adk.append(adk.get("s1"), "released")
    assert tailing.line().endswith("released")
    adk.append(adk.get("s1"), "the end")
    assert tailing.line().endswith("the end")
