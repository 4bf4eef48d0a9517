"""Every edit in every session of every source, the newest first."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from sessions_app.access.actor import SYSTEM, Actor
from sessions_app.domain.errors import Behind
from sessions_app.domain.session_ref import SessionRef
from sessions_app.domain.state import ABSENT
from sessions_app.edits import rewind
from sessions_app.edits.edit import Entry, add_event, edit_app_state, edit_state
from sessions_app.history import edit_log
from sessions_app.history.edit_log import edits
from sessions_app.history.index import build
from sessions_app.reads import lists
from sessions_app.search import labels
from sessions_app.sources import registry
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session, delete_session
from tests.search.finding import feed
from tests.support.people import as_admin
from tests.web.conftest import DEMO, Browser
from tests.web.html import Element

pytestmark = pytest.mark.django_db


def cells(row: Element) -> dict[str, str]:
    """The words of a row by the name of their column."""
    return {cell["data-label"]: cell.text for cell in row.all("td")}


def changes_of(page: Element) -> list[str]:
    return [cells(row)["Change"] for row in page.all("tr", data_row="")]


@pytest.mark.guarantee("Edits", "Every edit records who made it, why, and what it replaced.")
def test_an_edit_tells_who_what_why_and_where(ref: SessionRef, maria: Browser, actor: Actor) -> None:
    edit = edit_state(ref, [Entry("step", "pay", "choose"), Entry("count", ABSENT, 3)], actor=actor, reason="Stuck")
    row = maria.open("edits").one("tr", data_row="")
    found = cells(row)
    assert found.pop("When")
    assert found == {
        "Who": actor.name,
        "Change": 'step "choose" "pay" count 3 removed',
        "Why": "Stuck",
        "Where": "booking / ana / s1",
        "Outcome": "",  # the source is not indexed yet
        "Undo": "Undo",
    }
    links = [link["href"] for link in row.all("a")]
    assert links == [
        reverse("session", kwargs=ref._asdict()),
        reverse("event", kwargs={**ref._asdict(), "event_id": edit.event["id"]}),
        reverse("undo", kwargs={**ref._asdict(), "event_id": edit.event["id"]}),
    ]


def test_a_session_with_a_title_is_named_by_it_and_by_its_id_on_pointing(
    ref: SessionRef, maria: Browser, actor: Actor
) -> None:
    feed(ref.source)
    labels.rename(ref, "Trip to Seoul", actor=actor)
    edit_state(ref, [Entry("step", "pay", "choose")], actor=actor)
    link = maria.open("edits").one("tr", data_row="").one("a", href=reverse("session", kwargs=ref._asdict()))
    assert (link.text, link["title"]) == ("booking / ana / Trip to Seoul", "booking / ana / s1")


def test_a_key_that_already_had_its_value_is_not_named(ref: SessionRef, maria: Browser, actor: Actor) -> None:
    add_event(ref, {"author": "user", "actions": {"state_delta": {"step": "choose", "count": 4}}}, actor=actor)
    add_event(ref, {"author": "user", "actions": {"state_delta": {"step": "choose"}}}, actor=actor)
    page = maria.open("edits")
    assert changes_of(page) == ["unchanged", "count 3 4"]
    assert [cells(row)["Undo"] for row in page.all("tr", data_row="")] == ["", "Undo"]


def test_an_event_by_hand_is_an_edit(ref: SessionRef, maria: Browser, actor: Actor) -> None:
    add_event(ref, {"author": "user", "content": {"parts": [{"text": "hello"}]}}, actor=actor)
    assert changes_of(maria.open("edits")) == ["event added manually"]


def test_what_takes_back_is_said_to_and_what_was_taken_back_is_not_offered_again(
    ref: SessionRef, maria: Browser, add: Callable[..., str], actor: Actor
) -> None:
    told = add(ref, invocation_id="told", actions={"state_delta": {"step": "told"}})
    first = edit_state(ref, [Entry("step", "pay", "told"), Entry("count", 4, 3)], actor=actor).event["id"]
    of = {"undoes": first}
    edit_state(ref, [Entry("step", "told", "pay")], actor=actor, of=of)
    assert [cells(row)["Undo"] for row in maria.open("edits").all("tr", data_row="")] == ["Undo", "Undo"]
    rest = edit_state(ref, [Entry("count", 3, 4)], actor=actor, of=of).event["id"]
    edit_state(ref, [Entry("step", "done", "told")], actor=actor, of={"restores": told})
    back = rewind.rewind(ref, "told", actor=actor).event["invocation_id"]
    rewind.rewind(ref, back, actor=actor)
    rows = [cells(row) for row in maria.open("edits").all("tr", data_row="")]
    assert [row["Outcome"] for row in rows] == ["", "undone", "", "", "", "undone"]
    assert [row["Undo"] for row in rows] == ["Undo", "", "Undo", "Undo", "Undo", ""]
    assert [row["Change"].partition(" step")[0].partition(" count")[0] for row in rows[1:5]] == [
        "Rewound to before told",
        "State restored to an earlier event",
        "Undo of an earlier event",
        "Undo of an earlier event",
    ]
    # What is undone by an edit that is undone itself stands again.
    edit_state(ref, [Entry("step", "x", "done"), Entry("count", 4, 3)], actor=actor, of={"undoes": rest})
    rows = [cells(row) for row in maria.open("edits").all("tr", data_row="")]
    assert [row["Outcome"] for row in rows[-3:]] == ["undone", "", ""]


def test_an_edit_tells_whether_an_agent_has_read_it_since(
    ref: SessionRef, maria: Browser, add: Callable[..., str], actor: Actor
) -> None:
    other = create_session(ref.source, "booking", "ana", actor=actor)
    edit_state(ref, [Entry("step", "pay", "choose"), Entry("user:tier", "silver", "gold")], actor=actor)
    edit_state(ref, [Entry("count", 4, 3)], actor=actor)
    edit_app_state(ref.source, "booking", [Entry("app:n", 1, ABSENT)], actor=actor)
    append_event(other, {"author": "user", "content": {"parts": [{"text": "Hi"}]}}, actor=actor)
    edit_state(other, [Entry("user:tier", "gold", "silver")], actor=actor)
    feed(ref.source)
    outcomes = [cells(row)["Outcome"] for row in maria.open("edits").all("tr", data_row="")]
    assert outcomes == ["not read yet", "read by the agent", "not read yet", "read by the agent"]


def test_a_temporary_edit_that_is_over_has_expired(ref: SessionRef, maria: Browser, actor: Actor) -> None:
    first = edit_state(ref, [Entry("step", "pay", "choose")], actor=actor).event["id"]
    edit_state(ref, [Entry("step", "choose", "pay")], actor=actor, of={"undoes": first, "expired": 5.0})
    assert [cells(row)["Outcome"] for row in maria.open("edits").all("tr", data_row="")] == ["", "expired"]


def test_what_became_of_many_edits_is_asked_for_at_once(ref: SessionRef, maria: Browser, actor: Actor) -> None:
    def queries(first: int, after: int) -> int:
        for n in range(first, after):
            edit_state(ref, [Entry("count", n, n - 1)], actor=actor)
        feed(ref.source)
        maria.open("edits")
        with CaptureQueriesContext(connection) as sent:
            maria.open("edits")
        return len(sent)

    few, many = queries(4, 12), queries(12, 30)
    assert many < few + 9  # of 18 more


def test_edits_are_filtered_by_app_person_and_key(ref: SessionRef, demo: str, maria: Browser, actor: Actor) -> None:
    nina = as_admin("nina")
    first = edit_state(ref, [Entry("step", "pay", "choose")], actor=nina).event["id"]
    edit_state(ref, [Entry("step", "choose", "pay")], actor=actor, of={"undoes": first})
    edit_state(ref, [Entry("count", 4, 3)], actor=actor)
    edit_app_state(demo, "support", [Entry("app:n", 1, ABSENT)], actor=actor)

    def found(query: str) -> list[str]:
        return changes_of(maria.open(reverse("edits") + query))

    assert found("?app=support") == ["app:n 1"]
    assert found("?app=booking&by=NIN") == ['step "choose" "pay"']
    assert found("?key=cou") == ["count 3 4"]
    assert found("?key=count&by=nina") == []
    page = maria.open(reverse("edits") + "?by=nina")
    assert page.one("input", name="by")["value"] == "nina"
    assert cells(page.one("tr", data_row=""))["Outcome"] == "undone"  # by somebody who is not asked for
    assert "Nothing matches" in maria.open(reverse("edits") + "?key=nowhere").texts("h2")
    maria.open(reverse("edits") + "?key=" + "k" * 201, status=400)


def test_a_page_of_rare_edits_ends_after_some_and_goes_on(
    ref: SessionRef, maria: Browser, actor: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(edit_log, "LOOKED_AT", 50)
    edit_state(ref, [Entry("step", "pay", "choose")], actor=actor)
    for n in range(lists.PAGE + 5):
        edit_state(ref, [Entry("count", n, n - 1 if n else 3)], actor=actor)
    page = maria.open(reverse("edits") + "?key=step")
    assert changes_of(page) == []
    assert changes_of(maria.open(page.links()["Older edits"])) == ['step "choose" "pay"']


def test_what_an_agent_writes_is_none(ref: SessionRef, maria: Browser, add: Callable[..., str]) -> None:
    add(ref, actions={"state_delta": {"step": "pay"}})
    page = maria.open("edits")
    assert "No edits yet" in page.texts("h2")
    assert page.one("table", "sample").one("tbody").one("span", "name").text == "user:tier"


@pytest.mark.parametrize("htmx", [True, False])
def test_edits_of_all_sources_come_page_by_page(
    ref: SessionRef, demo: str, maria: Browser, actor: Actor, htmx: bool
) -> None:
    number = lists.PAGE + 5
    for n in range(number):
        if n % 2:
            edit_state(ref, [Entry("count", n, n - 2 if n > 1 else 3)], actor=actor)
        else:
            edit_app_state(demo, "booking", [Entry("app:n", n, n - 2 if n else ABSENT)], actor=actor)
    page = maria.open("edits")
    found = changes_of(page)
    assert len(found) == lists.PAGE
    page = maria.open(page.links()["Older edits"], htmx=htmx)
    assert bool(page.all("html")) != htmx
    found += changes_of(page)
    assert "Older edits" not in page.links()
    assert [int(change.rsplit(" ", 1)[1]) for change in found] == list(reversed(range(number)))


def test_a_broken_source_is_named_and_the_others_edits_are_shown(
    ref: SessionRef, maria: Browser, actor: Actor, tmp_path: Path, open_source: Callable[[str], str]
) -> None:
    edit_state(ref, [Entry("step", "pay", "choose")], actor=actor)
    broken = open_source(str(shutil.copy(DEMO, tmp_path / "broken.db")))
    (tmp_path / "broken.db").write_bytes(b"no database" * 500)
    registry.opened_files.pop(broken, None)
    page = maria.open("edits")
    assert all("broken.db" in each.text for each in page.all("p", "bad"))
    assert page.all("p", "bad") != []
    assert len(changes_of(page)) == 1


def test_edits_of_a_session_that_was_deleted_are_gone_with_it(ref: SessionRef, maria: Browser, actor: Actor) -> None:
    edit_state(ref, [Entry("step", "pay", "choose")], actor=actor)
    delete_session(ref, actor=actor)
    assert "No edits yet" in maria.open("edits").texts("h2")


def test_while_a_source_is_read_the_list_says_so_and_asks_again(
    ref: SessionRef, maria: Browser, actor: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    edit_state(ref, [Entry("step", "pay", "choose")], actor=actor)
    edits(actor=SYSTEM)

    def behind(*_asked: object) -> None:
        raise Behind("still being indexed: about 20 s left.", share=0.5, left="about 20 s left")

    monkeypatch.setattr(build, "catch_up", behind)
    page = maria.open("edits")
    told = page.one("div", "behind")
    assert "about 20 s left" in told.text
    assert (told["hx-get"], told["hx-target"]) == (reverse("edits"), "#edits")
    assert len(changes_of(page)) == 1
