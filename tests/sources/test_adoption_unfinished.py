"""A database that was adopted but for the last steps, such as `sessions.initial_place`, is as good as any."""

from collections.abc import Callable
from urllib.parse import urlsplit

import psycopg
import pytest
from django.db import connections
from pytest_django import Settings

from sessions_app.access.actor import SYSTEM
from sessions_app.domain.session_ref import SessionRef
from sessions_app.domain.state import UNKNOWN
from sessions_app.history import moments
from sessions_app.sources import adopt_job, database, registry
from sessions_app.sources import adoption as sources_adoption
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session
from tests.support.people import ALICE

pytestmark = pytest.mark.django_db(transaction=True)
NEW = ("adkweb_sessions_place", "adkweb_sessions_unplaced")


@pytest.fixture
def unfinished(source: str) -> SessionRef:
    """A session in such a database, with an event."""
    ref = create_session(source, "booking", "ana", state={"user:tier": "gold", "n": 0}, actor=ALICE)
    append_event(ref, {"id": "e1", "author": "agent", "actions": {"state_delta": {"n": 1}}}, actor=ALICE)
    with connections[source].cursor() as cursor:
        postgresql = cursor.db.vendor == "postgresql"
        for name in ("adkweb_keep_deleted", "adkweb_keep_truncated" if postgresql else "adkweb_follow_rowids"):
            cursor.execute(f"DROP TRIGGER {name} {'ON sessions' if postgresql else ''}")
        cursor.execute("DROP TABLE adkweb_deleted")
        cursor.execute("DROP TABLE adkweb_deleted_writes")
        for name in NEW:
            cursor.execute(f"DROP INDEX {name}")
        cursor.execute("ALTER TABLE sessions DROP COLUMN initial_place")
    return ref


def again(open_source: Callable[[str, str], str], ref: SessionRef) -> None:
    connections.databases[ref.source]["ADKWEB"].pop("creations")
    registry.opened_files.pop(ref.source)
    database.get(ref.source)
    adopt_job.go_on()
    adopt_job.wait(ref.source)


@pytest.mark.guarantee(
    "Databases and files",
    "If a database was only partly adopted, adkweb finishes the adoption the next time it opens the database.",
)
def test_it_is_completed_when_it_is_opened(unfinished: SessionRef, open_source: Callable[[str, str], str]) -> None:
    again(open_source, unfinished)
    assert sources_adoption.missing(unfinished.source) == []
    ref = create_session(unfinished.source, "booking", "ben", state={"user:tier": "new"}, actor=ALICE)
    event = append_event(ref, {"author": "agent"}, actor=ALICE).event
    assert moments.state_at(ref, event["id"], actor=SYSTEM).state.user == {"tier": "new"}


def test_read_only_it_is_left_as_it_is(
    unfinished: SessionRef, open_source: Callable[[str, str], str], settings: Settings
) -> None:
    settings.READ_ONLY = True
    again(open_source, unfinished)
    assert "sessions.initial_place" in sources_adoption.missing(unfinished.source)
    found = moments.state_at(unfinished, "e1", actor=SYSTEM)
    assert (found.state.session, found.state.user) == ({"n": 1}, {"tier": UNKNOWN})


def test_where_this_user_may_not_change_it_it_serves_without(
    new_database: Callable[[str], str], open_source: Callable[[str, str], str]
) -> None:
    url = new_database("postgresql")
    owner = open_source(url, "")
    create_session(owner, "booking", "ana", actor=ALICE)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("ALTER TABLE sessions DROP COLUMN initial_place")
        connection.execute("CREATE ROLE writer LOGIN PASSWORD 'w'")
        connection.execute("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO writer")
    database.forget(owner)
    parts = urlsplit(url)
    source = open_source(parts._replace(netloc=f"writer:w@{parts.hostname}:{parts.port}").geturl(), "")
    assert "sessions.initial_place" in sources_adoption.missing(source)
    ref = create_session(source, "booking", "ben", state={"user:tier": "new"}, actor=ALICE)
    event = append_event(ref, {"author": "agent", "actions": {"state_delta": {"n": 1}}}, actor=ALICE).event
    found = moments.state_at(ref, event["id"], actor=SYSTEM)
    assert (found.state.session, found.state.user) == ({"n": 1}, {"tier": UNKNOWN})
