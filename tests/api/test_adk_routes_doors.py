"""ADK's own routes: which addresses there are, who may ask them, which source they mean."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from django.test import override_settings
from google.adk.cli.conformance.adk_web_server_client import AdkWebServerClient

from sessions_app.access.actor import Actor
from sessions_app.domain.roles import PERMISSIONS
from sessions_app.domain.session_ref import SessionRef
from sessions_app.sources import database, registry
from sessions_app.writes.sessions import create_session
from tests.adk.services import APP, USER, Adk
from tests.api.both import JSON, SESSIONS, AdkServer, AdkwebServer, differences, said
from tests.browser.serving import Adkweb
from tests.support import warm

pytestmark = pytest.mark.django_db(databases="__all__")
S1 = SESSIONS + "/s1"


@pytest.fixture
def adks(tmp_path: Path) -> Iterator[AdkServer]:
    """google-adk's own server."""
    adk = Adk("sqlite", str(tmp_path / "adk.db"))
    adk.create("s1")
    yield AdkServer(adk)
    adk.close()


@pytest.fixture
def ours(ref: SessionRef, new_token: Callable[..., str]) -> AdkwebServer:
    """adkweb with one session."""
    return AdkwebServer(new_token())


ELSEWHERE = [
    ("GET", "/health"),
    ("GET", "/version"),
    ("GET", "/list-apps"),
    ("GET", "/list-apps?detailed=false"),
    ("GET", "/list-apps?detailed=maybe"),
    ("POST", "/health"),
    ("HEAD", "/version"),
    ("DELETE", "/list-apps"),
    ("PUT", S1),
    ("HEAD", S1),
    ("OPTIONS", SESSIONS),
    ("DELETE", SESSIONS),
    ("GET", "/apps"),
    ("GET", "/apps/"),
    ("GET", "/apps/booking"),
    ("GET", "/apps/booking/users/ana"),
    ("GET", S1 + "/more"),
    ("POST", "/apps/a%2Fb/users/ana/sessions"),
    ("GET", "/apps//users//sessions/"),
]


@pytest.mark.parametrize(("method", "path"), ELSEWHERE, ids=str)
def test_every_address_answers_as_google_adks(adks: AdkServer, ours: AdkwebServer, method: str, path: str) -> None:
    told, theirs = ours.ask(method, path), adks.ask(method, path)
    assert told.status_code == theirs.status_code
    if method == "HEAD":
        assert told.content == b""
    else:
        assert differences(said(told), said(theirs)) == []


@pytest.mark.parametrize(
    "path", ["/health/", SESSIONS + "/", S1 + "/?a=b", "/list-apps/?detailed=false", "/apps/ñ/users/x%20y/sessions/"]
)
def test_a_slash_too_many_leads_to_the_address_without(adks: AdkServer, ours: AdkwebServer, path: str) -> None:
    told, theirs = ours.ask("GET", path), adks.ask("GET", path)
    assert (told.status_code, told.headers["location"]) == (
        307,
        urlsplit(theirs.headers["location"])._replace(scheme="", netloc="").geturl(),
    )


def test_apps_in_detail_have_the_fields_of_google_adks(ours: AdkwebServer) -> None:
    (app,) = ours.ask("GET", "/list-apps?detailed=true").json()["apps"]
    assert app["name"] == app["rootAgentName"] == APP
    assert app.keys() == {"name", "rootAgentName", "description", "language", "isComputerUse", "agents"}


def test_the_session_that_holds_edits_of_a_users_state_is_listed_when_it_is_asked_for(ours: AdkwebServer) -> None:
    sessions = "/apps/hidden/users/ana/sessions"
    ours.ask("POST", f"{sessions}/trip", json={})
    ours.ask("PATCH", "/api/apps/hidden/users/ana/state", json={"set": {"user:tier": "gold"}}).raise_for_status()
    for query, names in (("", ["trip"]), ("?hidden=true", ["trip", "adkweb"])):
        for path, key in ((sessions, None), (f"/api{sessions}", "items"), ("/api/apps/hidden/sessions", "items")):
            told = ours.ask("GET", path + query).json()
            assert sorted(each["id"] for each in (told[key] if key else told)) == sorted(names), path + query
        states = ours.ask("GET", f"/api/apps/hidden/sessions/states{query}").json()
        assert [each["id"] for each in states["items"]] == names
    assert ours.ask("GET", f"{sessions}/adkweb").json()["state"] == {"user:tier": "gold"}


def test_an_id_with_blanks_around_it_means_the_session_without(ours: AdkwebServer, adks: AdkServer) -> None:
    for method, tail in (("POST", ""), ("GET", "/%20s2%20"), ("PATCH", "/%20s2"), ("DELETE", "/s2%20"), ("GET", "/s2")):
        sent = {"json": {"sessionId": " s2 ", "stateDelta": {"a": 1}}} if method in ("POST", "PATCH") else {}
        told, theirs = (server.ask(method, f"/apps/new/users/x/sessions{tail}", **sent) for server in (ours, adks))
        assert differences(said(told), said(theirs)) == [], (method, tail)


# --- Who may ask ------------------------------------------------------------------------------------------------------

REQUESTS = [
    ("GET", "/list-apps", "read"),
    ("GET", SESSIONS, "read"),
    ("GET", S1, "read"),
    ("POST", SESSIONS, "append"),
    ("POST", SESSIONS + "/s2", "append"),
    ("PATCH", S1, "append"),
    ("DELETE", S1, "admin"),
]


def is_problem(answer: httpx.Response, status: int) -> bool:
    """Whether it says what is wrong, for google-adk's clients in `detail`."""
    told = answer.json()
    assert answer.headers["content-type"] == "application/problem+json"
    return answer.status_code == status == told["status"] and bool(told["detail"])


@pytest.mark.parametrize("below", ["", "/sources/store"])
@pytest.mark.parametrize(("method", "path", "permission"), REQUESTS)
def test_a_token_must_have_the_right(
    ref: SessionRef, new_token: Callable[..., str], method: str, path: str, permission: str, below: str
) -> None:
    sent = {"content": b'{"stateDelta":{}}', "headers": JSON} if method == "PATCH" else {}
    for token in ("", "wrong"):
        refused = AdkwebServer(token, below).ask(method, path, **sent)
        assert is_problem(refused, 401)
        assert refused.headers["www-authenticate"].startswith("Bearer")
    for each in PERMISSIONS:
        answer = AdkwebServer(new_token(each), below).ask(method, path, **sent)
        if PERMISSIONS.index(each) < PERMISSIONS.index(permission):
            assert is_problem(answer, 403)
        else:
            assert answer.status_code in (200, 409)
    elsewhere = AdkwebServer(new_token("admin", "other*"), below).ask(method, path, **sent)
    if path == "/list-apps":
        assert elsewhere.json() == []
    else:
        assert (elsewhere.status_code, elsewhere.json().keys()) == (404, {"detail"})


@pytest.mark.parametrize(("method", "path", "permission"), REQUESTS)
def test_a_read_only_adkweb_reads(ours: AdkwebServer, method: str, path: str, permission: str) -> None:
    sent = {"content": b'{"stateDelta":{}}', "headers": JSON} if method == "PATCH" else {}
    with override_settings(READ_ONLY=True):
        answer = ours.ask(method, path, **sent)
    assert answer.status_code == 200 if permission == "read" else is_problem(answer, 403)


@pytest.mark.parametrize("below", ["", "/sources/store"])
def test_health_needs_no_token_and_the_version_one(below: str, store: str, new_token: Callable[..., str]) -> None:
    assert AdkwebServer(below=below).ask("GET", "/health").json() == {"status": "ok"}
    assert AdkwebServer(below=below).ask("GET", "/version").status_code == 401
    version = AdkwebServer(new_token("read"), below=below).ask("GET", "/version").json()
    assert version.keys() == {"version", "language", "language_version"}


# --- Which source -----------------------------------------------------------------------------------------------------


def test_of_several_sources_the_one_that_has_the_app_is_meant_or_the_one_in_the_address(
    ref: SessionRef, other_store: str, new_token: Callable[..., str]
) -> None:
    token = new_token()
    anywhere, here, there, nowhere = (
        AdkwebServer(token, below) for below in ("", f"/sources/{ref.source}", f"/sources/{other_store}", "/sources/no")
    )
    assert anywhere.ask("GET", S1).json() == here.ask("GET", S1).json()
    assert there.ask("GET", S1).status_code == 404
    assert there.ask("GET", SESSIONS).json() == there.ask("GET", "/list-apps").json() == []
    assert anywhere.ask("GET", "/apps/none/users/x/sessions").json() == []
    assert anywhere.ask("GET", "/apps/none/users/x/sessions/y").json() == {"detail": "Session not found"}
    assert anywhere.ask("DELETE", "/apps/none/users/x/sessions/y").json() is None
    assert anywhere.ask("POST", "/apps/none/users/x/sessions").status_code == 409
    assert nowhere.ask("GET", S1).status_code == 404
    assert there.ask("POST", SESSIONS + "/s1").status_code == 200
    unclear = anywhere.ask("GET", S1)
    assert (unclear.status_code, other_store in unclear.json()["detail"]) == (409, True)
    assert here.ask("GET", S1).json()["state"] != there.ask("GET", S1).json()["state"]
    assert anywhere.ask("GET", "/list-apps").json() == [APP]


def test_a_source_that_is_away_takes_no_other_with_it(
    ours: AdkwebServer, other_store: str, tmp_path: Path, new_token: Callable[..., str]
) -> None:
    database.open_source(next(source for source in registry.listed() if source.alias == other_store))
    (tmp_path / "other.db").unlink()
    assert ours.ask("GET", "/list-apps").json() == [APP]
    assert ours.ask("GET", S1).status_code == 200
    away = AdkwebServer(new_token(), f"/sources/{other_store}")
    for method, path, _right in REQUESTS:
        sent = {"content": b'{"stateDelta":{}}', "headers": JSON} if method == "PATCH" else {}
        assert is_problem(away.ask(method, path, **sent), 503), (method, path)


# --- google-adk's own client ------------------------------------------------------------------------------------------


@pytest.mark.guarantee(
    "Agents",
    "To connect google-adk's own `adk api_server` client to adkweb, all you need is adkweb's address and a token.",
)
def test_google_adks_own_client_needs_another_base_url_and_a_token_and_nothing_else(tmp_path: Path) -> None:
    with Adkweb(tmp_path) as adkweb:
        words = adkweb.command("token", "create", "client", "--permission", "admin")
        token = warm.run(words, cwd=tmp_path, capture_output=True, text=True, check=True).stdout.split()[-1]
        asyncio.run(_talk(adkweb.address, token))


async def _talk(address: str, token: str) -> None:
    client = AdkWebServerClient()
    client._client = httpx.AsyncClient(base_url=address, headers={"Authorization": f"Bearer {token}"})
    async with client:
        assert (await client.get_version_data())["language"] == "python"
        session = await client.create_session(app_name="new", user_id=USER, state={"step": 1, "user:tier": "gold"})
        names = {"app_name": "new", "user_id": USER, "session_id": session.id}
        updated = await client.update_session(**names, state_delta={"step": None, "app:limit": 2})
        assert updated.state == {"step": None, "user:tier": "gold", "app:limit": 2}
        found = await client.get_session(**names)
        assert found == updated
        assert found.events[0].actions.state_delta == {"step": None, "app:limit": 2}
        await client.delete_session(**names)
        with pytest.raises(httpx.HTTPStatusError, match="404"):
            await client.get_session(**names)


def test_a_slash_in_a_name_may_be_written_as_every_client_does(
    ref: SessionRef, ours: AdkwebServer, actor: Actor
) -> None:
    create_session(ref.source, "a/b", "patients/42", actor=actor, session_id="s/1 ü")
    told = ours.ask("GET", "/api/apps/a%2Fb/users/patients%2f42/sessions/s%2F1%20%C3%BC")
    assert (told.status_code, told.json()["user_id"], told.json()["id"]) == (200, "patients/42", "s/1 ü")
