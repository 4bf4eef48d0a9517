"""docs/api.md says what is true: its examples run, its table has every route, its statuses are those of the document."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from urllib.parse import urlencode

import pytest

from sessions_app.agent_view.instructions import LONGEST, MOST
from sessions_app.api.routes import document
from sessions_app.domain.session_ref import SessionRef
from sessions_app.search.index.feed import Feeder
from tests.api.program import Answer, Program, address
from tests.api_docs import PAGE, written
from tests.support.stored import execute, state_of

pytestmark = pytest.mark.django_db

BASE = "http://127.0.0.1:8000"


def examples() -> Iterator[tuple[str, str | None]]:
    """Every curl command, and the answer that stands below it."""
    for block, _below, told in re.findall(r"```sh\n(curl .*?)```\n(\n```json\n(.*?)```)?", PAGE.read_text(), re.DOTALL):
        yield block, told or None


def curl(program: Program, command: str) -> Answer:
    """What curl would be answered; of its options those that the page uses."""
    words = iter(shlex.split(command.replace("\\\n", " "))[1:])
    method, headers = "GET", {}
    address, body, query = "", None, []
    for word in words:
        if word == "-X":
            method = next(words)
        elif word == "-G":
            query = [""]
        elif word in ("-d", "--data-urlencode") and query:
            name, _equal, value = next(words).partition("=")
            query.append(urlencode({name: value}))
        elif word == "-d":
            body = next(words).encode()
        elif word == "-H":
            name, _colon, value = next(words).partition(": ")
            headers[name] = value.replace("$TOKEN", program.token or "")
        else:
            assert word.startswith(BASE), f"curl {word}: not known here"
            address = word.removeprefix(BASE)
    sent = {} if body is None else {"body": body, "media_type": "application/x-www-form-urlencoded"}
    return Program().ask(method, f"{address}{'?' * bool(query)}{'&'.join(query[1:])}", headers=headers, **sent)


def test_the_examples_run_one_after_the_other(program: Program, store: str) -> None:
    count = 0
    for command, told in examples():
        while "-G" in command and Feeder(store).feed():
            pass
        answer = curl(program, command)
        assert answer.status < 300, (command, answer)
        if told is not None:
            shown, found = json.loads(told), answer.json()
            assert shown.keys() == found.keys()
            parts = {"source", "seq", "revision", "event", "items"}
            assert all(shown[name] == found[name] for name in shown.keys() - parts)
            for item, whole in zip(shown.get("items", ()), found.get("items", ()), strict=True):
                assert {**whole, **item, "match": {**whole["match"], **item["match"]}} == whole
        count += 1
    assert count == 6
    (edit,) = program.get("/api/edits").json()["items"]
    assert edit["reason"] == "she asked"


def test_the_bodies_for_the_past_run_one_after_the_other(program: Program, store: str) -> None:
    ref = SessionRef(store, "booking", "ana", "s1")
    program.post(
        "/api/apps/booking/users/ana/sessions", {"session_id": "s1", "state": {"step": 1, "user:tier": "gold"}}
    )
    for number, delta in enumerate(({"city": "Paris"}, {"city": "Rome", "user:tier": None}, {"city": "Oslo"}), 1):
        event = {"id": f"e{number}", "invocation_id": f"i{number}", "actions": {"state_delta": delta}}
        assert program.post(address(ref, "/events"), event).status == 201
    lines = re.findall(r"^POST …(\S+) +(\{.*\})$", PAGE.read_text(), re.MULTILINE)
    for tail, body in lines:
        if tail == "/drift":
            execute(store, "UPDATE sessions SET state = '{\"city\": \"Bergen\"}' WHERE id = 's1'")
        answer = program.post(address(ref, tail), json.loads(body))
        assert answer.status == (200 if "instruction" in tail else 201), (tail, answer)
    assert answer.json()["text"] == "You help gold guests in Paris."
    assert state_of(ref)["session"] == {"step": 1, "city": "Bergen"}
    assert len(lines) == 7


def test_the_bounds_of_a_template_are_those_of_the_code() -> None:
    (told,) = re.findall(
        r"A template can be up to ([\d,]+) characters long, or up to ([\d,]+) once it is filled in\.", PAGE.read_text()
    )
    assert [int(number.replace(",", "")) for number in told] == [LONGEST, MOST]


def test_the_table_has_every_route_as_the_document_has_it() -> None:
    page = PAGE.read_text()
    assert page == written(page), "make docs"


def test_the_statuses_are_those_of_the_document() -> None:
    told = set(re.findall(r"^\| (\d{3}) \|", PAGE.read_text(), re.MULTILINE))
    named = {
        status
        for operations in document()["paths"].values()
        for operation in operations.values()
        for status in operation["responses"]
    }
    assert told == {status for status in named if status >= "400"}


def test_the_problem_that_it_shows_is_the_problem_that_is_sent(program: Program, store: str) -> None:
    blocks = re.findall(r"```json\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (shown,) = [told for told in map(json.loads, blocks) if "status" in told]
    program.post("/api/apps/booking/users/ana/sessions", {"session_id": "s1", "state": {"user:tier": "gold"}})
    edit = {"set": {"user:tier": 1}, "expected": {"user:tier": 2}}
    told = program.patch("/api/apps/booking/users/ana/sessions/s1/state", edit).json()
    assert told | {"request_id": shown["request_id"]} == shown
