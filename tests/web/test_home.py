"""Home: every source with its apps and what happened last; one that is broken does not take the others with it."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from django.db import connections
from django.urls import reverse
from pytest_django import Settings

from sessions_app.access.actor import Actor
from sessions_app.domain.session_ref import SessionRef
from sessions_app.domain.state import ABSENT
from sessions_app.edits.edit import Entry, edit_state
from sessions_app.search.drift_looks import Looker
from sessions_app.sources import registry
from sessions_app.web.templatetags.links import session_url
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session, delete_session
from tests.search.finding import feed
from tests.support.people import somebody
from tests.support.stored import execute
from tests.web.conftest import DEMO, Browser
from tests.web.html import Element

pytestmark = pytest.mark.django_db


def section(page: Element, source: str) -> Element:
    """What home says of a source."""
    return next(s for s in page.all("section") if s.texts("h2") == [source])


def rows(page: Element) -> list[list[str]]:
    """The app, its users and its sessions in each row of a table of apps."""
    return [[cells[0], *cells[5:7]] for row in page.one("tbody").all("tr") for cells in [row.texts("td")]]


def test_home_lists_apps_with_their_users_and_sessions(demo: str, maria: Browser) -> None:
    page = maria.open("home")
    assert rows(section(page, demo)) == [["booking", "7", "11"], ["claims", "1", "1"], ["support", "5", "6"]]
    assert page.links()["booking"] == f"/a/{demo}/booking/"
    assert page.one(id="running").text.startswith("No agent is running. Last turn:")
    assert page.one(id="running").one("a")["href"] == page.one(id="feed").all("a")[0]["href"].partition("#")[0]


def test_home_lists_the_first_apps_and_leads_to_all_of_them(demo: str, maria: Browser) -> None:
    execute(
        demo,
        """INSERT INTO sessions (app_name, user_id, id, state, create_time, update_time)
        WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 60)
        SELECT 'many' || n, user_id, id, state, create_time, update_time FROM n, (SELECT * FROM sessions LIMIT 1)""",
    )
    page = maria.open("home")
    assert len(rows(section(page, demo))) == 50
    address = page.links()["All apps"]
    first = maria.open(address)
    assert first.links()["booking"] == f"/a/{demo}/booking/"
    assert "support" not in first.links()
    assert maria.open(first.links()["More apps"]).links()["support"] == f"/a/{demo}/support/"
    nobody = Browser()
    nobody.force_login(somebody("nina"))
    nobody.open(address, status=404)


def test_home_names_the_newest_turns_and_edits(demo: str, maria: Browser, actor: Actor) -> None:
    ref = SessionRef(demo, "booking", "ana", "seoul-trip")
    for author, part in (
        ("user", {"text": "Change my seat"}),
        ("agent", {"function_call": {"name": "seats", "id": "c1"}}),
        ("agent", {"function_response": {"name": "seats", "id": "c1", "response": {"error": "no seat is free"}}}),
        ("agent", {"text": "I am sorry."}),
        ("user", {"text": "Thank you"}),
    ):
        told = append_event(ref, {"author": author, "content": {"parts": [part]}}, actor=actor)
    edit_state(ref, [Entry("x", 1, ABSENT)], actor=actor, reason="a test")
    page = maria.open("home")
    thanks, seat, *_others = page.one(id="feed").all("li")
    assert thanks.one("a")["href"] == f"{reverse('session', kwargs=ref._asdict())}#event-{told.event['id']}"
    assert thanks.one("a").text.startswith("Thank you working")
    assert "Change my seat" in seat.one("b").text
    assert "no seat is free" in seat.one("span", "outcome").text
    assert "bad" in seat["class"]
    edits = page.one("aside").all("section")[-1].all("ul", "feed")[0]
    assert edits.all("a")[0].text.split() == [actor.name, "x", "1"]
    assert edits.texts("p")[0].startswith("a test")


def test_panels_say_which_time_they_are_about(demo: str, ref: SessionRef, maria: Browser, actor: Actor) -> None:
    edit_state(ref, [Entry("x", 1, ABSENT)], actor=actor)
    page = maria.open("home", query={"from": 1_000, "to": 9_000})
    told = {head.one("h2").text: head.texts("span")[:1] for head in page.all("header") if head.all("h2")}
    assert told["Newest turns"] == told["Latest edits"] == ["any time"]


def test_a_broken_source_says_what_is_wrong_and_the_others_still_work(
    demo: str, maria: Browser, tmp_path: Path, open_source: Callable[[str], str]
) -> None:
    broken = open_source(str(shutil.copy(DEMO, tmp_path / "broken.db")))
    (tmp_path / "broken.db").write_bytes(b"this is no database, but some other file" * 100)
    registry.opened_files.pop(broken, None)
    page = maria.open("home")
    assert "this isn't a SQLite database" in section(page, broken).one(role="alert").text
    assert section(page, broken).texts("a") == ["Try again"]
    assert section(page, demo).all(role="alert") == []
    assert rows(section(page, demo)) != []
    assert maria.open("app", source=demo, app_name="booking").one("h1").text == "booking"
    refused = maria.open("app", status=503, source=broken, app_name="booking")
    assert refused.one("h1").text == "Can't use the database"
    assert "broken.db" in refused.one("main").text


def test_only_an_admin_of_everything_learns_where_a_broken_source_is(
    demo: str, maria: Browser, tmp_path: Path, open_source: Callable[[str], str]
) -> None:
    broken = open_source(str(shutil.copy(DEMO, tmp_path / "broken.db")))
    (tmp_path / "broken.db").write_bytes(b"this is no database, but some other file" * 100)
    registry.opened_files.pop(broken, None)
    vera = Browser()
    vera.force_login(somebody("vera", "viewer"))
    pages = [vera.open("home"), vera.open("edits"), vera.open("app", status=503, source=broken, app_name="booking")]
    for page in pages:
        assert str(tmp_path) not in page.text
        assert "this isn't a SQLite database" not in page.text
        assert "An admin can see why" in page.text


def test_a_source_whose_file_is_gone_says_so_and_works_again_once_it_is_back(
    demo: str, maria: Browser, tmp_path: Path
) -> None:
    registry.opened_files.pop(demo, None)
    connections[demo].close()
    (tmp_path / "demo.db").rename(tmp_path / "moved.db")
    assert "the file no longer exists" in section(maria.open("home"), demo).one(role="alert").text
    (tmp_path / "moved.db").rename(tmp_path / "demo.db")
    assert len(rows(section(maria.open("home"), demo))) == 3


def test_a_database_that_is_not_adks_is_named_as_such(
    maria: Browser, tmp_path: Path, named: Callable[[Path], object]
) -> None:
    with sqlite3.connect(tmp_path / "other.db") as db:
        db.execute("CREATE TABLE recipes (name TEXT)")
    db.close()
    named(tmp_path / "other.db")
    assert "This isn't an ADK database" in section(maria.open("home"), "other").one(role="alert").text


def test_a_source_without_sessions_says_what_to_do(store: str, maria: Browser) -> None:
    page = section(maria.open("home"), store)
    assert page.one("h3").text == "No sessions yet"
    assert page.links()["New session"] == f"/sessions/new/?source={store}"


def test_an_empty_home_names_the_folder_that_is_watched(folder: Path, maria: Browser) -> None:
    page = maria.open("home")
    assert "No database yet" in page.texts("h2")
    assert page.texts("pre") == [str(folder), f"adk web {folder}"]


def test_the_first_conversation_with_an_agent_can_start_here(folder: Path, maria: Browser, settings: Settings) -> None:
    (folder / "helper").mkdir()
    (folder / "helper" / "agent.py").touch()
    (folder / "later").mkdir()
    for package in (folder, folder / "notes"):
        package.mkdir(exist_ok=True)
        (package / "__init__.py").touch()
    assert not maria.open("home").all("form", action=reverse("start-sessions"))
    settings.RUN_AGENTS = True
    (form,) = maria.open("home").all("form", action=reverse("start-sessions"))
    assert form.text == "New conversation with helper"
    assert maria.open("home").texts("h2")[0] == "No sessions yet"
    for unknown in (folder / "notes", folder / "helper" / "..", folder.parent):
        assert maria.send("start-sessions", {"folder": str(unknown)})["Location"] == reverse("home")
    assert not [*folder.rglob("session.db")]
    sent = {"folder": form.one("input", name="folder")["value"]}
    to = maria.send("start-sessions", sent)["Location"]
    assert to == f"{reverse('new-session')}?source=helper&app_name=helper"
    assert maria.get(to).status_code == 200
    given = {"source": "helper", "app_name": "helper", "user_id": "ana", "session_id": "s1", "state": "{}"}
    session = maria.send("new-session", given)["Location"]
    assert "#message" in session
    assert maria.get(session).status_code == 200
    (folder / "later" / "__init__.py").write_text("from .flow import root_agent")
    assert [form.text for form in maria.open("home").all("form", action=reverse("start-sessions"))] == [
        "New conversation with later"
    ]
    assert maria.send("start-sessions", sent)["Location"] == reverse("home")


def test_a_database_that_an_agent_makes_shows_up(folder: Path, maria: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    assert maria.open("home").all("table") == []
    (folder / "booking" / ".adk").mkdir(parents=True)
    shutil.copy(DEMO, folder / "booking" / ".adk" / "session.db")
    monkeypatch.setattr(registry, "RESCAN_SECONDS", 0)
    assert len(rows(section(maria.open("home"), "booking"))) == 3


def test_read_only_home_offers_no_new_session(demo: str, maria: Browser, read_only: None) -> None:
    page = maria.open("home")
    assert "New session" not in page.links()
    assert "read-only" in page.one("header", "topbar").text


def test_an_app_with_state_and_no_session_is_listed(ref: SessionRef, maria: Browser, actor: Actor) -> None:
    delete_session(ref, actor=actor)
    assert rows(section(maria.open("home"), ref.source)) == [["booking", "0", "0"]]
    assert maria.open("app", source=ref.source, app_name="booking").one("h1").text == "booking"


def test_what_needs_attention_says_what_it_is_and_leads_there(ref: SessionRef, maria: Browser, actor: Actor) -> None:
    call = {"function_call": {"name": "cancel_booking", "id": "c1", "args": {}}}
    for author, part in (("user", {"text": "Cancel it"}), ("agent", call)):
        event = {"author": author, "content": {"parts": [part]}, "long_running_tool_ids": ["c1"]}
        append_event(ref, event, actor=actor)
    execute(ref.source, "UPDATE sessions SET state = %s", ['{"count": 412}'])
    feed(ref.source)
    Looker(ref.source).look(5.0)
    drifted, waits = maria.open("home").one("ul", "attention").all("li")  # the newest first
    assert waits.all("a")[0].text == "cancel_booking is waiting for an answer · Cancel it · booking · ana"
    assert [link["href"] for link in waits.all("a")] == [f"{session_url(ref)}#waits"] * 2
    assert drifted.all("a")[0].text.startswith("count is 412 in the table, but 3 ")
    assert [link["href"] for link in drifted.all("a")] == [session_url(ref, "drift")] * 2
    assert [waits.all("a")[1].text, drifted.all("a")[1].text] == ["Answer…", "Repair"]


def test_a_call_with_a_question_is_named_by_it_and_who_may_not_answer_opens_it(demo: str, maria: Browser) -> None:
    feed(demo)
    lines = [line.text for line in maria.open("home").all("ul", "attention")]
    assert "TP761 was 5 hours late. What do we do for these passengers? · My flight" in " ".join(lines)
    guest = Browser()
    guest.force_login(somebody("vera", "viewer", "claims"))
    (waits,) = guest.open("home").one("ul", "attention").all("li")
    assert waits.all("a")[1].text == "Open the call"


def test_where_nothing_needs_attention_one_line_says_so(ref: SessionRef, maria: Browser, actor: Actor) -> None:
    feed(ref.source)
    page = maria.open("home").one(id="attention")
    assert page.texts("h2") == ["Nothing needs attention"]
    assert page.all("ul") == []


def test_until_all_is_indexed_home_is_still_looking_and_asks_again(ref: SessionRef, maria: Browser) -> None:
    page = maria.open("home").one(id="figures")
    assert page.texts("h2") == ["Looking for what needs attention…"]
    assert page.one("header").one("span", "muted").text == f"{ref.source}: indexing 0%"
    assert [figure.all("span", "aside")[0].text for figure in page.all("span", "figure")] == ["so far"] * 4
    assert page["hx-get"] == reverse("home")
    feed(ref.source)
    page = maria.open("home").one(id="figures")
    assert ("so far" in page.text, "hx-get" in page.attributes) == (False, False)


def test_of_much_that_needs_attention_the_rest_unfolds(ref: SessionRef, maria: Browser, actor: Actor) -> None:
    for number in range(9):
        told = create_session(ref.source, "booking", "ana", actor=actor)
        append_event(told, {"author": "user", "content": {"parts": [{"text": "Pay"}]}}, actor=actor)
        error = {"author": "agent", "error_code": "E", "error_message": f"{'abcdefghi'[number] * 8} broke"}
        append_event(told, error, actor=actor)
        call = {"function_call": {"name": "ask", "id": f"c{number}", "args": {}}}
        event = {"author": "agent", "content": {"parts": [call]}, "long_running_tool_ids": [f"c{number}"]}
        append_event(told, event, actor=actor)
    feed(ref.source)
    page = maria.open("home").one(id="attention")
    shown, rest = page.all("ul", "attention")
    number = int(page.one("header").one("span", "muted").text)
    assert (len(shown.all("li")), len(rest.all("li"))) == (6, number - 6)
    assert page.one("summary").text == f"{number - 6} more"


def test_a_failure_names_its_session_and_a_call_that_a_person_rejected_has_not_failed(
    ref: SessionRef, maria: Browser, actor: Actor
) -> None:
    def say(author: str, **part: object) -> None:
        append_event(ref, {"author": author, "content": {"parts": [part]}}, actor=actor)

    for error in ("card declined", "This tool call is rejected."):
        call = {"name": "charge", "id": error}
        say("user", text="Pay")
        say("agent", function_call=call)
        say("agent", function_response={**call, "response": {"error": error}})
    say("user", text="Print it")
    say("agent", function_call={"name": "print", "id": "c2"})
    append_event(ref, {"author": "agent", "error_code": "CheckInError", "error_message": "no ticket"}, actor=actor)
    say("user", text="Hold it")
    say("agent", function_call={"name": "hold", "id": "c3"})
    feed(ref.source)
    rows = maria.open("home").one("table", "tools").one("tbody").all("tr")
    assert [row.texts("a") + row.texts("td")[:2] for row in rows] == [
        ["charge", "2", "100%"],
        ["print", "1", "100%"],
        ["hold", "1", "–"],  # nobody knows what became of a call without an answer
    ]
    assert [len(row.all("td", "failed")) for row in rows] == [1, 1, 0]
    failures = {item.all("a")[0].text for item in maria.open("home").one("ul", "attention").all("li")}
    assert failures == {
        "charge failed: card declined · Pay · booking · ana",
        "charge was rejected · Pay · booking · ana",
        "CheckInError no ticket · Pay · booking · ana",
    }
    mine = maria.open("user", source=ref.source, app_name="booking", user_id="ana")
    assert "charge was rejected · Pay" in {item.all("a")[0].text for item in mine.one("ul", "attention").all("li")}
