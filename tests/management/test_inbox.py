"""`adkweb inbox` lists what waits for an answer, and brings the index up to date first."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sessions_app.domain.pending import pending
from sessions_app.search.inbox import read_id
from tests.domain.test_invocations import call_part, event, user
from tests.domain.test_pending import recorded
from tests.management.conftest import in_terminal, run
from tests.search.test_inbox import session

pytestmark = pytest.mark.usefixtures("ready")

NAMES = ["id", "kind", "tool", "args", "hint", "source", "app_name", "user_id", "session_id", "event_id", "since"]
HOSTILE = "pay\x1b]0;x\x07\x1b[2Jnow\n\u202eevil\ttab" + "W" * 300


@pytest.fixture
def url(form: str, new_store: Callable[..., str]) -> str:
    """An empty source of each format."""
    return new_store(form, "agent")


@pytest.fixture
def path(new_store: Callable[..., str]) -> str:
    """An empty SQLite source."""
    return new_store("sqlite", "agent")


def hostile() -> dict[str, Any]:
    call = call_part("c1", "tool\x1b[31m", text=HOSTILE)
    return event("agent", call, long_running_tool_ids=["c1"])


def test_what_waits_is_listed_the_oldest_first_also_what_is_new(
    tmp_path: Path, url: str, open_source: Callable[[str], str]
) -> None:
    assert run(tmp_path, "inbox", url) == (0, "", "Nothing waits for an answer.\n")
    alias = open_source(url)
    for name in ("payload", "longrunning", "credential"):
        session(alias, name)
    code, out, errors = run(tmp_path, "inbox", url, TZ="UTC")
    assert (code, errors) == (0, "")
    fields = [line.split("\t") for line in out.splitlines()]
    assert sorted(line[1] for line in fields) == [line[1] for line in fields]
    assert sorted((*line[2:5], *line[6:]) for line in fields) == [
        ("confirmation", "ask", "How many days?", "booking", "ana", "payload"),
        ("credential", "mail", "Sign in for mail", "booking", "ana", "credential"),
        ("long-running", "approve", '{"what":"trip"}', "booking", "ana", "longrunning"),
    ]
    assert all(read_id(line[0])[0][1:] == (*line[6:],) for line in fields)


def test_json_has_what_the_api_has(tmp_path: Path, path: str, open_source: Callable[[str], str]) -> None:
    session(open_source(path), "confirm")
    agents = Path("examples/agents").absolute()
    code, out, errors = run(tmp_path, "inbox", path, "--json", "--agents", f"agent={agents}")
    assert (code, errors) == (0, "")
    told = [json.loads(line) for line in out.splitlines()]
    assert [[*each] for each in told] == [[*NAMES, "answerable", "why"]] * 2
    wanted = [
        (each.event_id, each.call_id, each.since, {"n": n + 1}) for n, each in enumerate(pending(recorded("confirm")))
    ]
    assert [(*read_id(each["id"])[1:], each["since"], each["args"]) for each in told] == wanted
    assert [(each["answerable"], each["why"]) for each in told] == [(True, "")] * 2


@pytest.mark.parametrize(
    ("address", "environment", "why"),
    [
        ("sqlite:///{}?mode=ro", {}, "opened read-only"),
        ("{}", {"ADKWEB_READ_ONLY": "true"}, "started with --read-only"),
    ],
)
def test_it_says_why_a_call_cannot_be_answered(
    tmp_path: Path, path: str, open_source: Callable[[str], str], address: str, environment: dict[str, str], why: str
) -> None:
    session(open_source(path), "payload")
    _code, out, _errors = run(tmp_path, "inbox", address.format(path), "--json", **environment)
    told = json.loads(out)
    assert (told["answerable"], why in told["why"]) == (False, True)


def test_what_was_passed_over_is_counted_and_listed_when_asked_for(
    tmp_path: Path, path: str, open_source: Callable[[str], str]
) -> None:
    session(open_source(path), "longrunning", *recorded("longrunning"), user(run="later"))
    code, out, errors = run(tmp_path, "inbox", path)
    assert (code, out) == (0, "")
    note = "1 passed over (the user said something else); --passed-over lists them"
    assert errors.splitlines() == ["Nothing waits for an answer.", note]
    code, out, errors = run(tmp_path, "inbox", path, "--passed-over")
    assert (code, out.split("\t")[3], errors) == (0, "approve", "")


def test_only_the_sources_that_are_named_are_listed(
    tmp_path: Path, path: str, new_store: Callable[..., str], open_source: Callable[[str], str]
) -> None:
    session(open_source(path), "confirm")
    empty = new_store("sqlite", "empty")
    sources = json.dumps([path, empty])
    assert len(run(tmp_path, "inbox", ADKWEB_SOURCES=sources)[1].splitlines()) == 2
    assert run(tmp_path, "inbox", empty, ADKWEB_SOURCES=sources)[1] == ""
    code, _out, errors = run(tmp_path, "inbox")
    assert (code, errors) == (2, "Name a source at the end, or set ADKWEB_SOURCES.\n")
    assert run(tmp_path, "inbox", "./ghost.db")[0] == 2


def test_nothing_that_is_stored_breaks_a_line(tmp_path: Path, path: str, open_source: Callable[[str], str]) -> None:
    session(open_source(path), "s\u202e1", hostile(), user="ana\x1b[2J")
    (line,) = run(tmp_path, "inbox", path)[1].splitlines()
    assert not set("\x1b\x07\u202e") & set(line)
    assert len(line.split("\t")) == 9
    *_before, heading, above, below = in_terminal(tmp_path, "inbox", path, columns=64)
    assert heading.split() == ["since", "kind", "tool", "asks"]
    assert above.startswith("1970-01-01 00:16  long-running  tool�[31m  ")
    assert below == "  booking/ana�[2J/s�1"
    assert max(map(len, (heading, above, below))) <= 64
