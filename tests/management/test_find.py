"""`adkweb find` lists the sessions that a query selects, and brings the index up to date first."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from sqlite3 import connect

import pytest

from sessions_app.access.actor import Actor
from sessions_app.domain.session_ref import SessionRef
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session
from tests.management.conftest import in_terminal, run

NOON = 1_767_268_800.0  # 2026-01-01 12:00 in UTC
MARIA = Actor.holding("maria", "admin")

pytestmark = pytest.mark.usefixtures("ready")


def say(ref: SessionRef, author: str, text: str, at: float) -> None:
    content = {"parts": [{"text": text}]}
    append_event(ref, {"author": author, "invocation_id": "i", "timestamp": at, "content": content}, actor=MARIA)


@pytest.fixture
def url(form: str, new_database: Callable[[str], str], open_source: Callable[[str, str], str]) -> str:
    """A source of each format with two sessions."""
    url = new_database(form)
    alias = open_source(url, form)
    ref = create_session(alias, "booking", "ana", actor=MARIA, session_id="s1", state={"total": 5})
    say(ref, "user", "Find me\ta flight", NOON)
    say(ref, "billing", "The fare \x1b[31mexpired", NOON + 5)
    say(create_session(alias, "weather", "지우", actor=MARIA, session_id="s2"), "user", "비가 올까요?", NOON + 60)
    return url


def test_a_session_is_found_with_its_line_also_one_that_is_new(
    tmp_path: Path, url: str, open_source: Callable[..., str]
) -> None:
    code, out, errors = run(tmp_path, "find", "user:ana", '"fare"', url, TZ="Asia/Seoul")
    assert (code, errors) == (0, "")
    source, *fields = out.rstrip("\n").split("\t")
    assert source
    assert fields == [
        *("booking", "ana", "s1", "idle", "2026-01-01 21:00:05", "1", "Find me a flight"),
        "The fare �[31mexpired",
    ]
    say(SessionRef(open_source(url), "weather", "지우", "s2"), "agent", "네, 우산을 챙기세요", NOON + 70)
    code, out, _errors = run(tmp_path, "find", "우산", url)
    assert (code, out.split("\t")[3]) == (0, "s2")


@pytest.mark.parametrize("command", ["find", "reindex"])
def test_damaged_words_are_mended_by_who_searches_and_by_reindex(tmp_path: Path, sqlite: str, command: str) -> None:
    assert run(tmp_path, "find", "s1", sqlite)[0] == 0
    with closing(connect(tmp_path / "data" / "adkweb.db", isolation_level=None)) as own:
        own.execute("DELETE FROM sessions_app_searchtitle_data WHERE id = 10")
    if command == "find":
        code, _out, errors = run(tmp_path, "find", "s1", sqlite)
        assert (code, errors.count("\n")) == (2, 1)
        assert "damaged. Run the command again" in errors
    else:
        assert run(tmp_path, "reindex", sqlite)[0] == 0
    code, out, _errors = run(tmp_path, "find", "s1", sqlite)
    assert (code, ids(out)) == (0, ["s1"])


def ids(out: str) -> list[str]:
    return [line.split("\t")[3] for line in out.splitlines()]


@pytest.fixture
def sqlite(new_store: Callable[..., str], open_source: Callable[[str], str]) -> str:
    """A SQLite file with three sessions."""
    url = new_store("sqlite", "agent")
    for number in range(3):
        ref = create_session(
            open_source(url), "booking", "ana", actor=MARIA, session_id=f"s{number}", state={"n": number}
        )
        for turn in range(3 - number):
            say(ref, "user", "hello", NOON + number * 60 + turn)
    return url


def test_the_last_active_come_first_or_what_is_asked_for(tmp_path: Path, sqlite: str) -> None:
    assert ids(run(tmp_path, "find", "hello", sqlite)[1]) == ["s2", "s1", "s0"]
    assert ids(run(tmp_path, "find", "hello", sqlite, "--sort", "turns")[1]) == ["s0", "s1", "s2"]
    assert ids(run(tmp_path, "find", "hello", sqlite, "--sort", "turns", "--reverse")[1]) == ["s2", "s1", "s0"]
    code, out, errors = run(tmp_path, "find", "hello", sqlite, "--limit", "1")
    assert (code, ids(out), errors) == (0, ["s2"], "1 of 3 sessions; --limit N shows more\n")
    assert run(tmp_path, "find", "nobody", sqlite) == (0, "", "no session\n")


def test_the_words_at_the_end_that_are_paths_are_sources(tmp_path: Path, sqlite: str) -> None:
    assert ids(run(tmp_path, "find", "n > 0", "hello", "agent.db")[1]) == ["s2", "s1"]
    other = json.dumps(["nothing.db"])
    assert ids(run(tmp_path, "find", "n > 0", sqlite, ADKWEB_SOURCES=other)[1]) == ["s2", "s1"]
    assert ids(run(tmp_path, "find", "n = 0", ADKWEB_SOURCES=json.dumps([sqlite]))[1]) == ["s0"]


def test_only_the_sources_that_are_named_are_searched(
    tmp_path: Path, sqlite: str, new_store: Callable[..., str]
) -> None:
    empty = new_store("sqlite", "empty")
    sources = json.dumps([sqlite, empty])
    assert len(ids(run(tmp_path, "find", "hello", ADKWEB_SOURCES=sources)[1])) == 3
    assert run(tmp_path, "find", "hello", empty, ADKWEB_SOURCES=sources) == (0, "", "no session\n")


def test_json_has_what_the_api_has(tmp_path: Path, sqlite: str) -> None:
    code, out, errors = run(tmp_path, "find", "n = 1", sqlite, "--json")
    assert (code, errors) == (0, "")
    (row,) = map(json.loads, out.splitlines())
    assert (row["id"], row["turns"], row["title"], row["last"]) == ("s1", 2, "hello", NOON + 61)


def test_nothing_is_adopted_or_written(tmp_path: Path, new_database: Callable[[str], str]) -> None:
    from tests.adk.services import Adk

    url = new_database("sqlite")
    adk = Adk("sqlite", url)
    adk.append(adk.create("s1"), "the fare expired")
    adk.close()
    before = Path(url).read_bytes()
    assert ids(run(tmp_path, "find", "fare", url)[1]) == ["s1"]
    assert Path(url).read_bytes() == before


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (["late usr:nadia", "agent.db"], 1, "Did you mean “user:”?\n  late usr:nadia\n       ^^^^^^^^^\n"),
        (["x" * 200 + " 항공 )", "agent.db"], 1, "x" * 26 + " 항공 )\n" + " " * 34 + "^"),
        (["late", "./ghost.db"], 2, "No such file or folder"),
        (["late"], 2, "Name a source at the end"),
        (["late", "agent.db", "--limit", "0"], 2, "0 is not a number from 1 to 10,000"),
        (["late", "agent.db", "--sort", "id"], 2, "invalid choice"),
        ([], 2, "required: QUERY"),
    ],
)
def test_what_cannot_be_done_is_said(tmp_path: Path, words: list[str], code: int, sentence: str) -> None:
    (tmp_path / "agent.db").touch()
    returned, out, errors = run(tmp_path, "find", *words)
    assert (returned, out) == (code, "")
    assert sentence in errors


def test_without_adkwebs_own_database_it_says_so(tmp_path: Path, sqlite: str) -> None:
    code, out, errors = run(tmp_path, "find", "a", sqlite, ADKWEB_DATABASE_URL="postgresql://nobody@127.0.0.1:1/x")
    assert (code, out, "adkweb's own database" in errors) == (2, "", True)


def test_in_a_terminal_a_session_has_two_lines_no_wider_than_it(tmp_path: Path, sqlite: str) -> None:
    plain = in_terminal(tmp_path, "find", "hello", sqlite, "--limit", "1", columns=64)
    head = next(number for number, line in enumerate(plain) if "turns" in line)
    assert all(len(line) <= 64 for line in plain[head:])
    assert plain[head].split() == ["title", "status", "user", "app", "when", "turns"]
    assert plain[head + 1].split() == ["hello", "stuck", "ana", "booking", "2026-01-01", "12:02", "1"]
    assert plain[head + 2] == "  s2  hello"
    assert plain[head + 3] == "1 of 3 sessions; --limit N shows more"
