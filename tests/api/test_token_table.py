"""Every operation for programs against every kind of token, in one table (table.py): a new operation without a row fails."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import httpx
import pytest
from django.contrib.auth.models import User
from django.test import override_settings
from django.utils import timezone
from pytest_django import DjangoDbBlocker

from sessions_app.access import rates, tokens
from sessions_app.access.actor import SYSTEM
from sessions_app.access.tokens import ApiToken, OldTokenText
from sessions_app.api.openapi import PERMISSION
from sessions_app.api.routes import document
from sessions_app.domain.roles import PERMISSIONS
from sessions_app.domain.session_ref import SessionRef
from sessions_app.edits import proposals
from sessions_app.live import commands
from sessions_app.models import Job
from sessions_app.sources import database, registry
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session
from tests.api.both import AdkwebServer
from tests.api.table import BODIES, ELSEWHERE, KINDS, OPERATIONS, QUERY, REFUSED, Operation, addresses
from tests.browser.seed import keep_artifact
from tests.support.at_work import settle
from tests.support.own import migrated, own_database
from tests.support.people import as_admin
from tests.support.stored import everything, execute
from tests.transfer.files import file_of, session_line

EACH: Final = pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
DOCUMENTED: Final = {
    f"{method.upper()} {path}": told
    for path, operations in document()["paths"].items()
    for method, told in operations.items()
}
METHODS: Final = ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "NONSENSE")
SECRET: Final = "window-seat-12a"  # a value of the app that strangers ask for
STATE: Final = {"step": "choose", "seat": SECRET, "user:tier": "gold", "app:limit": 10}
CREATE: Final = "POST /apps/{app_name}/users/{user_id}/sessions/{session_id}"
NAMES: Final = {
    **dict.fromkeys(("source", "app_name", "user_id", "session_id", "event_id", "number", "file"), "1"),
    **dict.fromkeys(("expiry_id", "proposal_id", "run_id"), str(UUID(int=1))),
}
STATE_OF: Final = "/api/apps/booking/users/ana/sessions/{}/state"


@dataclass
class World:
    """Two sources, with the app “booking” in one and “support” in the other, and a token of each kind."""

    source: str
    tokens: dict[str, str]
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def ask(self, kind: str, operation: Operation, names: dict[str, str]) -> httpx.Response:
        """Sends a request as it is meant, with a kind of token."""
        number = str(next(self.numbers))
        query = {name: value.format(**names) for name, value in QUERY.get(operation.path, {}).items()}
        sent: dict[str, Any] = {"params": query} if query else {}
        if operation.path == "/api/import":
            sent["content"] = file_of(session_line(f"brought{number}", app=names["app_name"]))
        elif body := BODIES.get(operation.bare):
            sent["content"] = body.replace("NUMBER", number)
            sent["headers"] = {"content-type": "application/json"}
        return AdkwebServer(self.tokens[kind]).ask(operation.method, operation.path.format(**names), **sent)

    def names(self, operation: Operation, kind: str = "admin", *, new: bool = False) -> dict[str, str]:
        """Returns the names of what an operation is about, in a session that is there, or in a new one."""
        session, creates = f"s{next(self.numbers)}" if new else "s1", operation.bare == CREATE
        if new and not creates:
            make(SessionRef(self.source, "booking", "ana", session))
        given = {"source": self.source, "app_name": "booking", "user_id": "ana", "session_id": session}
        given |= {"event_id": "e1", "file": "0"}
        asking, state = AdkwebServer(self.tokens[kind]), STATE_OF.format(session)
        if "{expiry_id}" in operation.path:
            body = {"set": {"b": next(self.numbers)}, "lasts": 3600}
            event = asking.ask("PATCH", state, json=body).json()["event"]["id"]
            waiting = asking.ask("GET", "/api/expiring-edits").json()["items"]
            (given["expiry_id"],) = (each["id"] for each in waiting if each["event_id"] == event)
        elif "{proposal_id}" in operation.path:
            answer = {"event_id": f"e{next(self.numbers)}", "parts": [], "tools": []}
            ref, who = SessionRef(self.source, "booking", "ana", session), tokens.actor_of(self.tokens[kind])
            given["proposal_id"] = proposals.keep_sent(ref, "answer", answer, actor=who or SYSTEM).detail["proposal"]
        elif "{run_id}" in operation.path:
            of = {"app_name": "booking", "user_id": "ana", "session_id": session, "actor": "maria"}
            run = Job.objects.make("run", registry.identity(self.source), {"parts": []}, **of)
            given["run_id"] = str(run.pk)
        elif "{number}" in operation.path:
            rule = {"condition": "step exists", "title": f"Rule {next(self.numbers)}"}
            given["number"] = str(asking.ask("POST", "/api/apps/booking/rules", json=rule).json()["number"])
        elif operation.bare.startswith("POST") and operation.path.endswith("/drift"):
            sql = "UPDATE sessions SET state = json_set(state, '$.step', 'lost') WHERE id = %s"
            execute(self.source, sql, [session])
        return given


def make(ref: SessionRef) -> None:
    """Makes a session whose events can be taken back."""
    create_session(*ref[:3], session_id=ref.session_id, state=STATE, actor=SYSTEM)
    for number, delta in ((1, {"step": "pay"}), (2, {"later": True})):
        actions = {"state_delta": delta, "artifact_delta": {"plan.txt": 0}}
        content = {"parts": [{"inline_data": {"mime_type": "text/plain", "data": "Rmx5"}}]}
        event = {"id": f"e{number}", "author": "agent", "invocation_id": f"i{number}", "actions": actions}
        event["content"] = content
        append_event(ref, event, actor=SYSTEM)


def new_tokens() -> dict[str, str]:
    """Makes a token of each kind. Those that are refused could do everything."""
    leo = User.objects.create_user("leo", is_active=False)
    made = {
        permission: tokens.create(permission, permission, "*", by=as_admin("maria"))[1] for permission in PERMISSIONS
    }
    made["companion"] = tokens.create("companion", "companion", "*", by=as_admin("maria"))[1]
    made |= {"no token": "", "unknown": tokens.PREFIX + "x" * 43}
    made["stranger"] = tokens.create("stranger", "admin", "support*", by=as_admin("maria"))[1]
    made["deactivated"] = tokens.create("deactivated", "admin", "*", by=as_admin("leo", leo.pk))[1]
    for kind in ("expired", "revoked", "renewed"):
        made[kind] = tokens.create(kind, "admin", "*", by=as_admin("maria"), days=1)[1]
    ApiToken.objects.filter(name="expired").update(expires=timezone.now())
    ApiToken.objects.named("revoked").revoke(by=as_admin("maria"))
    ApiToken.objects.named("renewed").renew(by=as_admin("maria"), hours=1)
    OldTokenText.objects.update(until=timezone.now())
    return made


@pytest.fixture(scope="module")
def world(
    tmp_path_factory: pytest.TempPathFactory, django_db_setup: None, django_db_blocker: DjangoDbBlocker
) -> Iterator[World]:
    """The world of all tests of this module."""
    folder: Path = tmp_path_factory.mktemp("tokens")
    with django_db_blocker.unblock(), own_database(f"sqlite:///{migrated(folder / 'own.db')}"):
        for name in ("store", "other"):
            (folder / f"{name}.db").touch()
            (source,) = registry.add(str(folder / f"{name}.db"))
            database.open_source(source, adopting=True)
        ref = SessionRef("store", "booking", "ana", "s1")
        make(ref)
        create_session("other", "support", "ben", actor=SYSTEM)
        keep_artifact(folder, ref, "plan.txt", 0, b"Fly", "text/plain")
        with override_settings(ARTIFACTS={"*": str(folder / "files")}):
            yield World("store", new_tokens())
        settle("rule")
        for name in ("store", "other"):
            database.forget(name)


@pytest.fixture(autouse=True)
def _as_often_as_they_like() -> None:
    rates.forget()


@pytest.fixture(autouse=True)
def _no_command_to_wait_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "WAIT_SECONDS", 0.0)


# --- The table --------------------------------------------------------------------------------------------------------


@pytest.mark.guarantee(
    "Safety",
    "A program can do only what its token permits in the apps that the token covers, and learns nothing about other apps.",
)
def test_every_operation_has_a_row_and_every_row_a_cell_for_each_kind_of_token(world: World) -> None:
    registered = set()
    for path in addresses():
        refused = AdkwebServer(world.tokens["admin"]).ask("NONSENSE", path.format(**NAMES))
        assert refused.status_code == (404 if path == ELSEWHERE else 405), path
        has = {name.strip() for name in refused.headers.get("allow", "GET").split(",")} - {"HEAD"}
        registered |= {f"{method} {path}" for method in has}
    names = [operation.name for operation in OPERATIONS]
    assert set(names) == registered
    assert len(set(names)) == len(names)
    cells = [operation.status(kind) for operation in OPERATIONS for kind in KINDS]
    print(f"\n{len(OPERATIONS)} operations, {len(KINDS)} kinds of token, {len(cells)} cells")
    assert len(cells) == len(registered) * len(KINDS) >= 700


@pytest.mark.guarantee(
    "Safety",
    "A program can do only what its token permits in the apps that the token covers, and learns nothing about other apps.",
)
def test_the_document_names_the_rights_of_the_table() -> None:
    rows = {operation.name: operation.permission for operation in OPERATIONS}
    assert {name: told[PERMISSION] for name, told in DOCUMENTED.items()}.items() <= rows.items()


def kinds_of(operation: Operation, each: bool) -> tuple[str, ...]:
    """Returns the kinds of token that an operation is asked with. One kind that is refused is enough: all operations
    refuse them in one place, and each kind has operations that it is tried on."""
    if each:
        return KINDS
    return (list(REFUSED)[OPERATIONS.index(operation) % len(REFUSED)], *KINDS[len(REFUSED) :])


@pytest.mark.guarantee(
    "Safety", "Every program needs a token, and a table in the tests lists what each kind of token can do."
)
@EACH
@pytest.mark.parametrize("each", [False, pytest.param(True, marks=pytest.mark.long)], ids=["some", "each"])
def test_an_operation_answers_each_kind_of_token_as_its_row_says(
    world: World, operation: Operation, each: bool
) -> None:
    kinds = kinds_of(operation, each)
    given, granted = world.names(operation), {kind for kind in kinds if operation.writes and operation.grants(kind)}
    before, problems = everything(world.source), []
    for kind in kinds:
        if kind not in granted:
            problems += wrong(operation, kind, world.ask(kind, operation, given))
    if everything(world.source) != before:
        problems.append("something was written")
    for kind in kinds:
        if kind in granted:
            problems += wrong(operation, kind, world.ask(kind, operation, world.names(operation, kind, new=True)))
    there, gone = (world.ask("stranger", operation, {**given, "app_name": app}) for app in ("booking", "atlantis"))
    if said(there) != said(gone):
        problems.append(f"stranger: {there.text} of an app that is there, {gone.text} of one that is not")
    assert problems == []


def wrong(operation: Operation, kind: str, answer: httpx.Response) -> list[str]:
    """Returns what is wrong with a cell's answer."""
    status, text, problems = operation.status(kind), answer.text, []
    refused, told = status in (401, 403), DOCUMENTED.get(operation.name)
    if answer.status_code != status:
        problems.append(f"{answer.status_code} instead of {status}")
    if status == 401 and operation.path != "/metrics" and REFUSED[kind] not in text:
        problems.append("it does not say why")
    if status == 401 and answer.headers.get("www-authenticate") != 'Bearer realm="adkweb"':
        problems.append("it does not say how to sign in")
    if status == 403 and kind != "stranger" and told and operation.permission not in text:
        problems.append("it does not name the permission")
    if (refused or kind == "stranger") and SECRET in text:
        problems.append("it has a value of the app")
    if kind == "stranger" and not operation.about_an_app and "booking" in text:
        problems.append("it names the app")
    if operation.grants(kind) and told and answer.status_code == status:
        headers = told["responses"][str(status)].get("headers", {})
        problems += [name for name in ("ETag", "Location") if (name.lower() in answer.headers) != (name in headers)]
    return [f"{kind}: {each}: {text[:300]}" for each in problems]


def said(answer: httpx.Response) -> tuple[int, list[str], str]:
    """Returns what an answer is, but for the name of the app and of the request, and for the figures of /metrics. Whether a
    short one is smaller compressed is chance: Django adds a name of random length."""
    text = answer.text.replace(answer.headers["x-request-id"], "")
    if answer.headers["content-type"].startswith("text/plain"):
        text = ""
    return answer.status_code, sorted({*answer.headers} - {"content-encoding"}), text.replace("atlantis", "booking")


def test_an_adkweb_that_only_reads_writes_for_nobody(world: World) -> None:
    problems = []
    given = {operation.name: world.names(operation) for operation in OPERATIONS}
    settle("rule")
    before = everything(world.source)
    with override_settings(READ_ONLY=True):
        for operation in OPERATIONS:
            answer = world.ask("admin", operation, given[operation.name])
            if answer.status_code != (403 if operation.writes else operation.status("admin")):
                problems.append(f"{operation.name}: {answer.status_code}")
            if operation.writes and "--read-only" not in answer.text:
                problems.append(f"{operation.name} does not say why: {answer.text}")
    assert problems == []
    assert everything(world.source) == before


def test_a_method_that_an_address_does_not_have_is_refused_with_those_that_it_has(world: World) -> None:
    asking = AdkwebServer(world.tokens["admin"])
    for path in addresses():
        if path == ELSEWHERE:
            continue
        has = {operation.method for operation in OPERATIONS if operation.path == path}
        for method in {*METHODS} - has:
            refused = asking.ask(method, path.format(**NAMES))
            assert refused.status_code == 405, (method, path)
            assert {name.strip() for name in refused.headers["allow"].split(",")} - {"HEAD"} == has
