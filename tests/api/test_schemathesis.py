"""Every address against requests that nobody would think of, as the OpenAPI document describes them and as it does not.

schemathesis makes them; here stands what it cannot know: a token, and names of what is there, so that requests reach what
is behind the first “not found”. Whatever happens, an answer is one that the document names, and never a fault.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis import checks

from sessions_app.api.routes import document
from tests.api.conftest import STATE
from tests.browser.serving import Adkweb
from tests.servers import PostgreSQL
from tests.support import warm

NAMES: Final = {"app_name": "booking", "user_id": "ana", "session_id": "s1", "event_id": "e1", "number": "1"}
DOOMED: Final = "doomed"
LONG: Final = os.environ.get("HYPOTHESIS_PROFILE") == "long"
EXAMPLES: Final = int(os.environ.get("SCHEMATHESIS_EXAMPLES", "60" if LONG else "2"))

# Without its sign-in, which every request here has: tokens are test_token_table.py's.
SCHEMA: Final = schemathesis.openapi.from_dict(
    {
        **document(),
        "paths": {
            path: {method: {**operation, "security": []} for method, operation in operations.items()}
            for path, operations in document()["paths"].items()
        },
    }
)


@SCHEMA.hook
def map_path_parameters(context: Any, path_parameters: Any) -> Any:
    """Three of four names are those of something."""
    for name, value in (path_parameters or {}).items():
        if name in NAMES and len(str(value)) % 4 != 1:
            doomed = name == "session_id" and context.operation.method == "delete"
            path_parameters[name] = DOOMED if doomed else NAMES[name]
    return path_parameters


@SCHEMA.hook
def map_query(context: Any, query: Any) -> Any:
    """A source that is none would be the end of nearly every request."""
    if query and "source" in query and len(str(query["source"])) % 4 != 1:
        del query["source"]
    return query


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Adkweb]:
    """adkweb with one source, in which something is."""
    folder: Path = tmp_path_factory.mktemp("schemathesis")
    (folder / "data").mkdir()
    place = str(folder / "store.db")
    if request.param == "postgresql":
        postgresql: PostgreSQL = request.getfixturevalue("postgresql_server")
        place = postgresql.create_database("schemathesis")
        (folder / "none").mkdir()
    started = Adkweb(folder, *([place] if request.param == "postgresql" else []))
    started.demo = folder / "store.db"  # nothing else to look at
    if request.param == "sqlite":
        started.run("create", place)
    else:
        started.demo = folder
    started.start()
    try:
        yield started
    finally:
        started.close()


@pytest.fixture(scope="module")
def token(server: Adkweb) -> str:
    """Of a program that may do everything."""
    command = server.command("token", "create", "schemathesis", "--permission", "admin")
    made = warm.run(command, cwd=server.folder, capture_output=True, text=True, check=True)
    return made.stdout.strip()


@pytest.fixture(scope="module")
def ask(server: Adkweb, token: str) -> Callable[..., requests.Response]:
    """Asks the server; something is there by now."""
    session = requests.Session()
    session.headers["Authorization"] = f"Bearer {token}"

    def ask(method: str, path: str, body: Any = None) -> requests.Response:
        return session.request(method, server.address + path, json=body, timeout=30)

    sessions = "/api/apps/booking/users/ana/sessions"
    assert ask("POST", sessions, {"session_id": "s1", "state": STATE}).status_code == 201
    for number in range(5):
        event = {"id": f"e{number}", "author": "agent", "actions": {"state_delta": {"n": number}}}
        assert ask("POST", f"{sessions}/s1/events", event).status_code == 201
    return ask


@SCHEMA.parametrize()
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    derandomize=not LONG,
    database=None,
)
def test_no_request_gets_an_answer_that_the_document_does_not_name(
    case: Any, server: Adkweb, token: str, ask: Callable[..., requests.Response]
) -> None:
    """One request, and whether its answer keeps to the document."""
    if case.method == "DELETE":
        ask("POST", "/api/apps/booking/users/ana/sessions", {"session_id": DOOMED})
    before = len(server.log)
    case.call_and_validate(
        base_url=server.address,
        headers={"Authorization": f"Bearer {token}"},
        # The document cannot say what a cursor is: one that was made up is refused.
        excluded_checks=[checks.positive_data_acceptance],
    )
    assert "Traceback" not in server.log[before:], server.log[before:]
