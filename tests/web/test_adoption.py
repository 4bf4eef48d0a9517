"""A PostgreSQL database that nobody adopted: read at once, changed only after its owner was asked."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from django.urls import reverse
from pytest_django import Settings

from sessions_app.access.actor import SYSTEM, Actor
from sessions_app.domain.errors import NotAllowed
from sessions_app.domain.session_ref import SessionRef
from sessions_app.reads import newest, timeline, views
from sessions_app.sources import adopt_job, database, online, schema
from sessions_app.sources import adoption as sources_adoption
from sessions_app.sources.steps import Progress
from sessions_app.writes.append import append_event
from sessions_app.writes.copies import import_state
from sessions_app.writes.sessions import create_session, delete_session
from tests.adk.services import APP, USER, Adk, key_of
from tests.support.stored import execute
from tests.web.conftest import Browser

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def ref(new_database: Callable[[str], str], open_unadopted: Callable[[str], str]) -> SessionRef:
    """A session of google-adk's own in a database that adkweb never changed."""
    url = new_database("postgresql")
    adk = Adk("postgresql", url)
    session = adk.create("s1", {"step": "search", "user:tier": "gold"})
    adk.append(session, "Hello", step="pay")
    adk.close()
    return key_of(open_unadopted(url))


@pytest.fixture
def open_unadopted(open_source: Callable[..., str]) -> Callable[[str], str]:
    """Opens a database as `adkweb URL` does."""
    return lambda text: open_source(text, adopting=False)


def adopted_by(maria: Browser, source: str) -> None:
    """Presses the button and waits."""
    assert maria.send("adoption", {}, source=source).status_code == 302
    adopt_job.wait(source)
    assert adopt_job.of(source) is None


def test_what_was_never_adopted_is_shown_and_not_changed(ref: SessionRef, maria: Browser) -> None:
    before = sources_adoption.missing(ref.source)
    session = maria.open("session", **ref._asdict())
    assert "isn't adopted" in session.text
    assert "Hello" in session.text
    assert "pay" in session.text
    assert not [link for link in session.all("a") if "/edit/" in link["href"]]
    assert sources_adoption.missing(ref.source) == before
    assert "events.seq" in before


def test_the_preview_of_what_was_never_adopted_finds_its_event_by_its_time(ref: SessionRef, maria: Browser) -> None:
    (event,) = [each for each in timeline.events(ref, actor=SYSTEM).rows if "pay" in str(each.data)]
    pane = maria.open("preview", query={"seq": event.seq}, htmx=True, **ref._asdict())
    assert pane.one("li", "selected")["id"] == f"event-{event.id}"
    opened = maria.get(reverse("session", kwargs=ref._asdict()), {"seq": event.seq})
    assert opened["Location"].endswith(f"?at={event.id}")


def test_the_owner_is_asked_and_told_what_is_added_how_long_it_takes_and_how_it_is_undone(
    ref: SessionRef, maria: Browser
) -> None:
    home = maria.open("home")
    assert home.one("a", href=f"/adopt/{ref.source}/").text == "Adopt to edit"
    asked = maria.open("adoption", source=ref.source).text
    for said in ("events.seq", "initial_state", "adkweb_deleted", "roughly 1.0 s", "adkweb release postgresql://"):
        assert said in asked
    assert not database.is_begun(ref.source)


def test_a_version_that_adkweb_does_not_know_has_a_warning_of_its_own_and_needs_a_yes(
    ref: SessionRef, maria: Browser, actor: Actor
) -> None:
    execute(ref.source, "UPDATE adk_internal_metadata SET value = '2' WHERE key = 'schema_version'")
    database.due[ref.source] = 0.0  # it looks again
    asked = maria.open("adoption", source=ref.source)
    assert "version 2 of ADK's schema, which this version of adkweb doesn't recognise" in asked.text
    assert "required" in asked.one("input", name="agreed")
    assert maria.send("adoption", {}, source=ref.source).status_code == 400
    assert maria.send("adoption", {"agreed": "1"}, source=ref.source).status_code == 302
    adopt_job.wait(ref.source)
    assert "Database adopted" in maria.open("adoption", source=ref.source).text
    append_event(ref, {"author": "x"}, actor=actor)


def test_one_button_adopts_and_the_session_can_be_edited(ref: SessionRef, maria: Browser, actor: Actor) -> None:
    adopted_by(maria, ref.source)
    assert sources_adoption.missing(ref.source) == []
    assert "Database adopted" in maria.open("adoption", source=ref.source).text
    assert "isn't adopted" not in maria.open("session", **ref._asdict()).text
    append_event(ref, {"author": "x", "actions": {"state_delta": {"step": "done"}}}, actor=actor)
    assert [view.seq for view in timeline.events(ref, actor=SYSTEM).rows] == [1, 2]
    assert maria.send("adoption", {}, source=ref.source).status_code == 400  # nothing is left to do


@pytest.mark.parametrize(
    "write",
    [
        lambda ref, actor: append_event(ref, {"author": "x"}, actor=actor),
        lambda ref, actor: create_session(ref.source, APP, USER, actor=actor),
        lambda key, actor: delete_session(key, actor=actor),
        lambda key, actor: import_state(key, "user", {"a": 1}, actor=actor, updated=1.0, overwrite=True),
    ],
    ids=["append", "create", "delete", "import"],
)
def test_nothing_is_written_before_it_is_adopted(
    ref: SessionRef, actor: Actor, write: Callable[[SessionRef, Actor], object]
) -> None:
    revision = views.session(ref, actor=SYSTEM).revision
    with pytest.raises(NotAllowed, match=r"isn't adopted yet.*adkweb adopt postgresql://"):
        write(ref, actor)
    assert views.session(ref, actor=SYSTEM).revision == revision


def test_what_is_in_the_way_is_said_and_the_same_button_goes_on(
    ref: SessionRef, maria: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setitem(schema.STEPS.postgresql, "adkweb_deleted", ["CREATE TABLE sessions (x int)"])
        maria.send("adoption", {}, source=ref.source)
        adopt_job.wait(ref.source)
        page = maria.open("adoption", source=ref.source)
        assert "already exists" in page.one("p", role="alert").text
        assert page.one("button", "primary").text == "Continue adopting"
    adopted_by(maria, ref.source)
    assert sources_adoption.missing(ref.source) == []


def test_an_adoption_that_was_interrupted_goes_on_by_itself(ref: SessionRef, monkeypatch: pytest.MonkeyPatch) -> None:
    class Killed(Exception):
        pass

    def die(progress: Progress) -> None:
        if progress.step == "events.seq NOT NULL":
            raise Killed

    with pytest.raises(Killed):
        database.adopt_open(ref.source, die)
    monkeypatch.setattr(database, "LOOK_SECONDS", 0.0)
    database.due[ref.source] = 0.0
    database.get(ref.source)
    assert (database.is_begun(ref.source), database.is_adopted(ref.source)) == (True, False)
    adopt_job.go_on()
    adopt_job.wait(ref.source)
    assert sources_adoption.missing(ref.source) == []


def test_indexes_that_another_program_drops_come_back_by_themselves(ref: SessionRef) -> None:
    database.adopt_open(ref.source)
    with database.using(ref.source) as db, db.cursor() as cursor:
        cursor.execute("DROP INDEX adkweb_events_seq")
    assert [view.description.text for view in timeline.events(ref, actor=SYSTEM).rows] == ["Hello"]
    adopt_job.go_on()
    adopt_job.wait(ref.source)
    assert sources_adoption.missing(ref.source) == []


def test_another_process_adopts_and_this_one_notices(ref: SessionRef, monkeypatch: pytest.MonkeyPatch) -> None:
    online.add(ref.source)
    assert not database.is_adopted(ref.source)
    database.due[ref.source] = time.monotonic()
    database.get(ref.source)
    assert database.is_adopted(ref.source)


def test_read_only_offers_no_adoption(ref: SessionRef, maria: Browser, settings: Settings) -> None:
    settings.READ_ONLY = True
    assert not maria.open("home").all("a", href=f"/adopt/{ref.source}/")
    assert "isn't adopted" in maria.open("session", **ref._asdict()).text
    assert maria.send("adoption", {}, source=ref.source).status_code == 403
    adopt_job.go_on()
    assert adopt_job.of(ref.source) is None


def test_home_names_the_newest_turns_and_what_runs(ref: SessionRef, maria: Browser) -> None:
    feed = maria.open("home").one(id="feed")
    assert "No activity yet" not in feed.text
    assert [item.one("b").text for item in feed.all("li")] == [ref.session_id]  # nobody said anything
    assert [session.ref for session in newest.happening(ref.source, actor=SYSTEM).running] in ([ref], [])


def test_time_travel_works_before_it_is_adopted_and_says_how_events_are_ordered(
    ref: SessionRef, maria: Browser
) -> None:
    (event,) = timeline.events(ref, actor=SYSTEM).rows
    page = maria.open("session", query={"at": event.id}, **ref._asdict())
    assert "ordered by time, then by id" in page.text
    panel = page.one(id="moment")
    assert panel.one(class_="at").text.startswith("Event ")
    assert panel.all("time")
    assert "pay" in panel.text
    assert page.all(id="strip")
    assert page.all("button", data_key="t")
    assert not panel.all(class_="acts")
    history = maria.open("session-history", query={"key": "step"}, **ref._asdict())
    assert "pay" in history.text
    assert str(event.seq) not in history.text + page.text, "a time is no number"
    compare = maria.open("compare", query={"a": event.id, "b": "now"}, **ref._asdict())
    assert str(event.seq) not in compare.text
    assert str(event.seq) not in maria.open("event", event_id=event.id, **ref._asdict()).text
    assert str(event.seq) not in maria.open("context", query={"at": event.id}, **ref._asdict()).text


def test_without_an_order_nothing_offers_time_travel(
    ref: SessionRef, maria: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "has_order", lambda alias: False)
    (event,) = timeline.events(ref, actor=SYSTEM).rows
    page = maria.open("session", query={"at": event.id}, **ref._asdict())
    assert "This database isn't adopted and has no time index" in page.text
    assert "can't be determined" in page.one("p", "momentfault").text
    for page in (maria.open("session", **ref._asdict()), maria.open("event", event_id=event.id, **ref._asdict())):
        assert not page.all(data_key="t") + page.all(id="strip")
