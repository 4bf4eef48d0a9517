"""Forking in the browser: one form, a fork that says where it comes from, and the tree of forks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.urls import reverse

from sessions_app.access.actor import SYSTEM, Actor
from sessions_app.domain.session_ref import SessionRef
from sessions_app.edits import fork, fork_jobs, fork_tree
from sessions_app.edits.edit import Entry, edit_state
from sessions_app.writes.copies import ImportedEvent, ImportedSession, import_session
from sessions_app.writes.sessions import delete_session
from tests.support.at_work import until
from tests.support.bulk import fill
from tests.support.stored import events_of, everything, state_of
from tests.web.conftest import NAME, Browser
from tests.web.html import Element, page_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def event_id(ref: SessionRef, add: Callable[..., str]) -> str:
    """An event of the session, with another after it."""
    found = add(ref, actions={"state_delta": {"step": "pay", "user:tier": "silver"}})
    add(ref, actions={"state_delta": {"step": "done"}})
    return found


def open_form(maria: Browser, ref: SessionRef, event_id: str) -> Element:
    return maria.open("fork", event_id=event_id, **ref._asdict()).one("form", "form", method="post")


def send(maria: Browser, ref: SessionRef, event_id: str, sent: dict[str, str]) -> Any:
    return maria.send("fork", sent, event_id=event_id, **ref._asdict())


def test_a_fork_is_made_and_shown(ref: SessionRef, event_id: str, maria: Browser) -> None:
    form = open_form(maria, ref, event_id)
    assert "the session state at that point (3 keys)" in form.text
    before = (events_of(ref), state_of(ref))
    response = send(maria, ref, event_id, {**form.json_fields(), "session_id": "try", "reason": "what if"})
    into = ref._replace(session_id="try")
    assert (response.status_code, response["Location"]) == (302, reverse("session", kwargs=into._asdict()))
    assert state_of(into)["session"] == {"step": "pay", "count": 3, "nothing": None}
    assert (events_of(ref), state_of(ref)) == before
    page = maria.open("session", **into._asdict())
    assert "Fork created from " in page.one(role="status").text
    assert page.texts("a", "line")[-1] == "Forked from s1"
    line = maria.open("forks", htmx=True, **into._asdict())
    assert line.text.startswith("fork of s1 · " + NAME)
    assert "“what if”" in line.text
    assert maria.open("forks", htmx=True, **ref._asdict()).text == "1 fork"


def test_a_fork_begins_with_another_value_as_one_edit_of_its_own(
    ref: SessionRef, event_id: str, maria: Browser
) -> None:
    page = maria.open("fork", query={"key": ["step", "user:tier", "new"]}, event_id=event_id, **ref._asdict())
    form = page.one("form", "form", method="post")
    sent = form.json_fields()
    assert (sent["key-0"], sent["value-0"].strip(), sent["key-1"]) == (
        "step",
        '"pay"',
        "new",
    )  # shared state is not offered
    before = everything(ref.source)
    for wrong, message in (("{", "line 1"), ("", "A value is missing.")):
        response = send(maria, ref, event_id, {**sent, "value-0": wrong, "session_id": "try"})
        assert response.status_code == 400
        assert message in page_of(response).one("form", "form", method="post").text
    sent |= {"value-0": '"refund"', "value-1": "[1]", "session_id": "try", "reason": "what if"}
    response = send(maria, ref, event_id, {**sent, "key-1": "user:tier"})
    assert response.status_code == 400
    assert "can only start with different values for its own keys" in page_of(response).one(role="alert").text
    assert everything(ref.source) == before  # nothing is half done
    into = ref._replace(session_id="try")
    for _sent_twice in range(2):
        assert send(maria, ref, event_id, sent).status_code == 302
        assert state_of(into)["session"] == {"step": "refund", "new": [1], "count": 3, "nothing": None}
        assert state_of(ref)["session"]["step"] == "done"
    *_copies, noted, edited = [event for _seq, event in events_of(into)]
    assert "forked" in noted["custom_metadata"]["adkweb"]
    assert edited["actions"]["state_delta"] == {"step": "refund", "new": [1]}
    note = edited["custom_metadata"]["adkweb"]
    assert (note["actor"], note["reason"], note["replaced"]) == (NAME, "what if", {"step": "pay"})


def test_a_value_that_stays_as_it_was_is_no_edit_of_a_fork(ref: SessionRef, event_id: str, maria: Browser) -> None:
    page = maria.open("fork", query={"key": "step"}, event_id=event_id, **ref._asdict())
    sent = {**page.one("form", "form", method="post").json_fields(), "session_id": "try"}
    left = page_of(send(maria, ref, event_id, {**sent, "drop": "0"}))
    assert not left.all(name="key-0")
    assert send(maria, ref, event_id, sent).status_code == 302
    _seq, newest = events_of(ref._replace(session_id="try"))[-1]
    assert "forked" in newest["custom_metadata"]["adkweb"]


def test_a_session_without_forks_says_nothing_on_its_page_and_a_word_on_theirs(ref: SessionRef, maria: Browser) -> None:
    assert maria.open("forks", htmx=True, **ref._asdict()).text == ""
    assert "No forks yet" in maria.open("forks", **ref._asdict()).one("main").text


def test_the_tree_shows_every_fork_and_what_was_deleted(
    ref: SessionRef, event_id: str, maria: Browser, actor: Actor
) -> None:
    for name, of in (("one", ref), ("two", ref._replace(session_id="one"))):
        fork.fork(of, event_id, user_id="ana", session_id=name, actor=actor, reason=f"because {name}")
    delete_session(ref, actor=actor)
    page = maria.open("forks", **ref._replace(session_id="two")._asdict())
    tree = page.one("ul", "forktree")
    assert list(tree.links()) == ["one", "two"]
    assert "s1 deleted" in tree.text
    assert "“because two”" in tree.text
    assert "two" in tree.one("li", aria_current="true").text


@pytest.mark.long
def test_a_chain_of_a_hundred_and_fifty_forks_is_a_page_that_says_each_ones_level(
    ref: SessionRef, event_id: str, maria: Browser, actor: Actor
) -> None:
    of = ref
    for number in range(150):
        of = fork.fork(of, event_id, user_id="ana", session_id=f"f{number}", actor=actor)
    tree = maria.open("forks", **of._asdict()).one("ul", "forktree")
    rows = tree.all("li")
    assert [row["aria-level"] for row in rows] == [str(level) for level in range(1, 152)]
    assert list(tree.links()) == ["s1", *(f"f{number}" for number in range(150))]
    assert "level 151" in rows[-1].text
    assert "fork of f148" in rows[-1].text
    assert rows[-1]["aria-current"] == "true"
    assert not tree.all("ul")


def test_a_half_made_fork_says_so_on_its_pages_and_takes_no_edit(
    ref: SessionRef, event_id: str, maria: Browser, actor: Actor
) -> None:
    into = ref._replace(session_id="half")
    session = ImportedSession(into, 1.0, 1.0, "{}", "{}")
    event = ImportedEvent("x", "i1", 1.0, '{"actions": {"state_delta": {"step": "pay"}}}')
    import_session(session, [event], actor=actor, after=None, last=False)
    before = everything(ref.source)
    for name in ("session", "forks", "session-edit", "add-event"):
        assert "This session is being copied or imported." in maria.open(name, **into._asdict()).one("main").text
    response = maria.send(
        "session-edit",
        {"rows": "0", "key-0": "step", "seen-0": "", "operation-0": "set", "value-0": "1", "action": "apply"},
        **into._asdict(),
    )
    assert response.status_code == 409
    assert "This session is being copied or imported" in page_of(response).text
    for address in (
        reverse("undo", kwargs={**into._asdict(), "event_id": "x"}),
        reverse("restore", kwargs=into._asdict()) + "?to=x",
        reverse("rewind", kwargs=into._asdict()) + "?before=i1",
    ):
        response = maria.get(address)
        assert response.status_code == 409
        assert "This session is being copied or imported" in page_of(response).text
    assert everything(ref.source) == before


def test_a_fork_without_a_name_gets_one_and_is_made_once(ref: SessionRef, event_id: str, maria: Browser) -> None:
    sent = open_form(maria, ref, event_id).json_fields()
    first, again = (send(maria, ref, event_id, sent) for _sending in range(2))
    assert first["Location"] == again["Location"]
    assert len(fork_tree.forks_of(ref, actor=SYSTEM)) == 1


def test_a_fork_for_another_user_writes_nothing_of_theirs(ref: SessionRef, event_id: str, maria: Browser) -> None:
    send(maria, ref, event_id, {**open_form(maria, ref, event_id).json_fields(), "user_id": "ben", "session_id": "try"})
    assert state_of(ref._replace(user_id="ben", session_id="try")) == {
        "session": {"step": "pay", "count": 3, "nothing": None},
        "user": {},
        "app": {"limit": 10},
    }


@pytest.mark.parametrize(
    ("field", "value", "status", "message"),
    [
        ("session_id", "s1", 409, "There's already a session “s1”."),
        ("user_id", "", 400, "Enter a user for the session."),
        ("session_id", "x" * 129, 400, "has 129 characters"),
        ("reason", "x" * 1001, 400, "The reason is longer"),
        ("user_id", "a\0b", 400, "U+0000"),
    ],
)
def test_a_refused_fork_makes_nothing_and_keeps_what_was_typed(
    ref: SessionRef, event_id: str, maria: Browser, field: str, value: str, status: int, message: str
) -> None:
    before = everything(ref.source)
    sent = {**open_form(maria, ref, event_id).json_fields(), "reason": "why", field: value}
    response = send(maria, ref, event_id, sent)
    assert response.status_code == status
    form = page_of(response).one("form", "form", method="post")
    assert message in form.text
    assert form.json_fields()["reason"] == sent["reason"]
    assert everything(ref.source) == before


@pytest.mark.django_db(transaction=True)
def test_a_long_fork_shows_how_far_it_is_and_where_it_stopped_goes_on(
    ref: SessionRef, maria: Browser, actor: Actor
) -> None:
    fill(ref, 2_200)

    class Stop(Exception):
        pass

    def told(copied: int, total: int) -> None:
        raise Stop

    with pytest.raises(Stop):
        fork.fork(ref, "e2200", user_id="ana", session_id="try", actor=actor, told=told)
    into = ref._replace(session_id="try")
    where = {"event_id": "e2200", **ref._asdict()}
    page = maria.open("fork", query={"user": "ana", "session": "try", "reason": "what if"}, **where)
    assert page.one("progress")["value"] == "45"
    assert "1,000 / 2,200" in page.one("section", id="forking").text
    part = page
    for _look in range(30):
        part = maria.open(part.one("section", id="forking")["hx-get"], htmx=True)
        if part.all("form"):
            break
    assert "Copying was interrupted" in part.text
    response = send(maria, ref, "e2200", part.one("form").json_fields())
    assert response.status_code == 302
    until(lambda: fork_jobs.progress(ref, "e2200", into, actor=SYSTEM).done, seconds=30)
    assert maria.open("session", **into._asdict()).texts("a", "line")[-1] == "Forked from s1"
    noted = fork_tree.origin(into, actor=SYSTEM)
    assert noted is not None
    assert noted.reason == "what if"
    found = maria.get(reverse("fork", kwargs=where), {"user": "ana", "session": "try"})
    assert found["Location"] == reverse("session", kwargs=into._asdict())


def test_copied_edits_say_so_in_the_list_of_edits(ref: SessionRef, maria: Browser, actor: Actor) -> None:
    edit = edit_state(ref, [Entry("step", "pay", "choose")], actor=actor)
    fork.fork(ref, edit.event["id"], user_id="ana", session_id="try", actor=actor)
    changes = [row.one("td", "main").text for row in maria.open("edits").all("tr", data_row="")]
    assert sorted(changes) == ["forked from s1", 'step "choose" "pay"', 'step "choose" "pay" copied by a fork']
