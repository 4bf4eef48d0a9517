"""docs/api.md says what is true: its examples run, its table has every route, its statuses are those of the document."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator

import pytest

from sessions_app.api.routes import document
from tests.api_docs import PAGE, written

from .program import Answer, Program

pytestmark = pytest.mark.django_db

BASE = "http://127.0.0.1:8000"


def examples() -> Iterator[tuple[str, str | None]]:
    """Every curl command, and the answer that stands below it."""
    for block, _below, told in re.findall(r"```sh\n(curl .*?)```\n(\n```json\n(.*?)```)?", PAGE.read_text(), re.DOTALL):
        yield block, told or None


def curl(program: Program, command: str) -> Answer:
    """What curl would be answered; of its options those that the page uses."""
    words = iter(shlex.split(command.replace("\\\n", " "))[1:])
    method, body, address, headers = "GET", None, "", {}
    for word in words:
        if word == "-X":
            method = next(words)
        elif word == "-d":
            body = next(words).encode()
        elif word == "-H":
            name, _colon, value = next(words).partition(": ")
            headers[name] = value.replace("$TOKEN", program.token or "")
        else:
            assert word.startswith(BASE), f"curl {word}: not known here"
            address = word.removeprefix(BASE)
    sent = {} if body is None else {"body": body, "media_type": "application/x-www-form-urlencoded"}
    return Program().ask(method, address, headers=headers, **sent)


def test_the_examples_run_one_after_the_other(program: Program, store: str) -> None:
    count = 0
    for command, told in examples():
        answer = curl(program, command)
        assert answer.status < 300, (command, answer)
        if told is not None:
            shown, found = json.loads(told), answer.json()
            assert shown.keys() == found.keys()
            assert all(shown[name] == found[name] for name in shown.keys() - {"source", "seq", "revision", "event"})
        count += 1
    assert count == 5
    (edit,) = program.get("/api/edits").json()["items"]
    assert edit["reason"] == "she asked"


def test_the_table_has_every_route_as_the_document_has_it() -> None:
    page = PAGE.read_text()
    assert page == written(page), "python -m tests.api_docs"


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
    assert program.patch("/api/apps/booking/users/ana/sessions/s1/state", edit).json() == shown
