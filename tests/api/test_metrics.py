"""`/metrics`: who may read figures, what they count, and that no app, person or session is named in them."""

from __future__ import annotations

import itertools
import subprocess
import sys
import uuid
from collections.abc import Callable
from contextlib import suppress
from ipaddress import ip_network
from pathlib import Path

import pytest
from django.test import Client
from django.urls import resolve
from prometheus_client.parser import text_string_to_metric_families
from pytest_django import Settings

from sessions_app.access import sign_in, tokens
from sessions_app.access.actor import Actor
from sessions_app.domain.errors import Error
from sessions_app.domain.session_ref import SessionRef
from sessions_app.jobs import runner
from sessions_app.models import Job
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session
from tests.api.program import address
from tests.servers import PostgreSQL
from tests.support.own import own_database
from tests.support.people import ALICE, BOB, as_admin
from tests.web.test_commands import ROOT, environment

pytestmark = pytest.mark.usefixtures("own")
on_both_of_adkwebs_own = pytest.mark.parametrize("own", ["sqlite", "postgresql"], indirect=True)
EVENT = {"author": "agent", "invocation_id": "i1"}
_numbers = itertools.count()


@pytest.fixture
def ref(new_store: Callable[..., str], open_source: Callable[[str], str], actor: Actor) -> SessionRef:
    """A session of a source with a name that no other test has."""
    alias = open_source(new_store("sqlite", f"metrics{next(_numbers)}"))
    return create_session(alias, "secret-app", "secret-user", actor=actor, session_id="secret-session")


def token(permission: str = "admin", apps: str = "*") -> str:
    return tokens.create(f"metrics {next(_numbers)}", permission, apps, by=as_admin("maria"))[1]


def figures(text: str | None = None, **environ: str) -> dict[str, float]:
    """Each figure by its name and labels: `adkweb_appends_total source=x outcome=stored`."""
    if text is None:
        answer = Client(**environ).get("/metrics", headers={"Authorization": f"Bearer {token()}"})
        assert (answer.status_code, answer["Cache-Control"]) == (200, "no-store")
        text = answer.content.decode()
    return {
        " ".join([each.name, *(f"{name}={value}" for name, value in each.labels.items())]): each.value
        for family in text_string_to_metric_families(text)
        for each in family.samples
    }


# --- Who reads them ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("permission", "apps", "status"),
    [("admin", "*", 200), ("admin", "booking", 403), ("append", "*", 403), ("read", "*", 403)],
)
def test_only_the_token_of_an_admin_of_everything_reads_figures(permission: str, apps: str, status: int) -> None:
    answer = Client().get("/metrics", headers={"Authorization": f"Bearer {token(permission, apps)}"})
    assert answer.status_code == status


def test_strangers_get_nothing() -> None:
    for answer in (Client().get("/metrics"), Client().get("/metrics", headers={"Authorization": "Bearer adkweb_x"})):
        assert answer.status_code == 401
        assert b"adkweb_watchers" not in answer.content
    assert Client().post("/metrics").status_code == 405


@pytest.mark.parametrize(
    ("asking", "status"), [("10.1.2.3", 200), ("::ffff:10.1.2.3", 200), ("10.2.0.1", 401), ("", 401), ("x", 401)]
)
def test_the_addresses_that_the_operator_names_need_no_token(
    settings: Settings, asking: str, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sign_in, "admin_exists", lambda: True)
    settings.METRICS = [ip_network("10.1.0.0/16")]
    assert Client(REMOTE_ADDR=asking).get("/metrics").status_code == status


# --- What they count --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("outcome", "event", "who", "options"),
    [
        ("stored", EVENT, ALICE, {}),
        ("unchanged", {**EVENT, "partial": True}, ALICE, {}),
        ("refused", {**EVENT, "actions": 5}, ALICE, {}),
        ("refused", EVENT, BOB, {}),
        ("conflict", EVENT, ALICE, {"expected": 1.0}),
        ("conflict", EVENT, ALICE, {"expected": {"step": "paid"}}),
    ],
)
def test_an_append_is_counted_once_by_what_came_of_it(
    ref: SessionRef, outcome: str, event: dict[str, object], who: Actor, options: dict[str, object]
) -> None:
    with suppress(Error):
        append_event(ref, event, actor=who, **options)  # type: ignore[arg-type]
    counted = {name: n for name, n in figures().items() if name.endswith(f"source={ref.source}") and "_total" in name}
    assert counted == {f"adkweb_appends_total outcome={outcome} source={ref.source}": 1.0}


def test_sources_that_there_are_not_make_no_figures(ref: SessionRef) -> None:
    for number in range(3):
        with suppress(Error):
            append_event(ref._replace(source=f"invented{number}"), EVENT, actor=ALICE)
    assert not [name for name in figures() if "invented" in name]


def test_requests_are_counted_by_route_and_no_name_is_in_any_figure(ref: SessionRef) -> None:
    headers = {"Authorization": f"Bearer {token()}"}
    client = Client()
    before = figures()
    for path in (address(ref), "/apps/secret-app/users/secret-user/sessions", "/no/secret/page/", "/health", "/ready"):
        client.get(path, {"source": ref.source} if "api" in path else {}, headers=headers)
    client.get("/s/x/secret-app/secret-user/secret-session/")
    text = client.get("/metrics", headers=headers).content.decode()
    assert "secret" not in text
    counts = figures(text)
    for route, status in (
        (resolve(address(ref)).route, "2xx"),
        ("adk-sessions", "2xx"),
        ("none", "4xx"),
        ("adk-health", "2xx"),
        ("ready", "2xx"),
        ("session", "3xx"),
    ):
        name = f"adkweb_request_seconds_count route={route} status={status}"
        assert counts[name] == before.get(name, 0.0) + 1, name


@on_both_of_adkwebs_own
def test_jobs_and_queued_edits_are_counted(own: str) -> None:
    assert figures()["adkweb_queued_edits"] == 0
    for kind, state in (("edit", "waiting"), ("edit", "waiting"), ("edit", "done"), ("import", "stopped")):
        who = runner.fields_of(ALICE)
        Job.objects.create(id=uuid.uuid4(), kind=kind, state=state, where="x", task="{}", created=1.0, beat=1.0, **who)
    counts = figures()
    assert counts["adkweb_queued_edits"] == counts["adkweb_jobs kind=edit state=waiting"] == 2
    assert counts["adkweb_jobs kind=edit state=done"] == counts["adkweb_jobs kind=import state=stopped"] == 1
    assert counts["adkweb_own_database_up"] == 1


def test_figures_are_told_without_adkwebs_own_database(postgresql_server: PostgreSQL, settings: Settings) -> None:
    settings.METRICS = [ip_network("127.0.0.1")]
    with own_database(postgresql_server.url("there_is_none")):
        counts = figures(Client().get("/metrics").content.decode())
    assert counts["adkweb_own_database_up"] == 0
    assert "adkweb_queued_edits" not in counts
    assert "process_resident_memory_bytes" in counts


@pytest.mark.parametrize("text", ["10.1.2.3/16", "here", "10.0.0.0/40"])
def test_an_address_that_is_none_stops_adkweb_with_the_reason(text: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "manage.py"), "doctor"],
        env={**environment(tmp_path / "data"), "ADKWEB_METRICS": text},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "ADKWEB_METRICS must be a list of addresses" in done.stderr
    assert "Traceback" not in done.stderr
