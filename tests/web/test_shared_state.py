"""The pages of an app and of a user: their state, who wrote it in whichever session, and only some of very many keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.urls import reverse

from sessions_app.access.actor import Actor
from sessions_app.domain.errors import Behind
from sessions_app.domain.session_ref import SessionRef
from sessions_app.domain.state import ABSENT
from sessions_app.edits import edit
from sessions_app.edits.edit import Entry
from sessions_app.history.index import build
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session
from tests.search.finding import feed
from tests.web.conftest import Browser
from tests.web.html import Element
from tests.web.test_moment import rows

pytestmark = pytest.mark.django_db


def add(ref: SessionRef, actor: Actor, delta: dict[str, Any]) -> str:
    """Appends an event as an agent would; its id."""
    event = {"author": "agent", "invocation_id": "i1", "actions": {"state_delta": delta}}
    return str(append_event(ref, event, actor=actor).event["id"])


def app_page(maria: Browser, ref: SessionRef, **query: str) -> Element:
    return maria.open("app", query=query, source=ref.source, app_name=ref.app_name)


def user_page(maria: Browser, ref: SessionRef, **query: str) -> Element:
    return maria.open("user", query=query, source=ref.source, app_name=ref.app_name, user_id=ref.user_id)


def addresses(page: Element) -> list[str]:
    """Lists the addresses to which the writers of keys lead."""
    return [link["href"] for row in page.all("span", "wrote") for link in row.all("a")]


def test_each_key_tells_who_wrote_it_last_and_leads_to_the_state_just_after(
    ref: SessionRef, maria: Browser, actor: Actor
) -> None:
    bob = create_session(*ref[:2], "bob", session_id="bobs", actor=actor, state={"user:tier": "his", "app:new": 1})
    theirs = add(bob, actor, {"app:limit": 11, "user:tier": "black"})
    mine = add(ref, actor, {"user:tier": "silver", "step": "pay"})
    edit.edit_app_state(*ref[:2], [Entry("app:notice", "hi", ABSENT)], actor=actor)
    page = app_page(maria, ref)
    told = rows(page)
    assert told["app:limit"] == "11 | bobs ↗"
    assert told["app:new"] == "1 | created"
    assert told["app:notice"] == '"hi" | maria'
    assert set(told) == {"app:limit", "app:new", "app:notice"}
    assert reverse("session", kwargs=bob._asdict()) + f"?at={theirs}" in addresses(page)
    page = user_page(maria, ref)
    assert rows(page) == {"user:tier": '"silver" | s1 ↗'}
    assert reverse("session", kwargs=ref._asdict()) + f"?at={mine}" in addresses(page)


def test_a_user_sees_nothing_of_what_another_user_wrote(ref: SessionRef, maria: Browser, actor: Actor) -> None:
    bob = create_session(*ref[:2], "bob", session_id="bobs", actor=actor)
    add(bob, actor, {"user:tier": "black", "user:secret": 1})
    told = rows(user_page(maria, ref))
    assert "user:secret" not in told
    assert "bobs" not in told["user:tier"]


def test_while_the_source_is_being_read_state_shows_without_writers(
    ref: SessionRef, maria: Browser, actor: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(ref, actor, {"user:tier": "silver"})

    def behind(source: str, ask: object) -> None:
        raise Behind(share=0.5)

    monkeypatch.setattr("sessions_app.history.moments.consult", behind)
    assert rows(user_page(maria, ref)) == {"user:tier": '"silver" | –'}
    monkeypatch.undo()
    assert rows(user_page(maria, ref)) == {"user:tier": '"silver" | s1 ↗'}


@pytest.mark.parametrize(("scope", "opened"), [("app", app_page), ("user", user_page)])
def test_of_very_many_keys_those_written_last_are_shown_and_all_on_demand(
    ref: SessionRef, maria: Browser, actor: Actor, scope: str, opened: Any
) -> None:
    add(ref, actor, {f"{scope}:k{number:04}": number for number in range(1_000)})
    build.catch_up(ref.source)
    add(ref, actor, {f"{scope}:k0999": "last"})
    shown = opened(maria, ref)
    names = list(rows(shown))
    assert len(names) == 300
    assert names == sorted(names)
    assert f"{scope}:k0999" in names
    whole = maria.open(shown.links()["show all"])
    stored = len(rows(whole))
    assert stored == 1_001  # with the one that the session began with
    assert f"{stored - 300} more keys" in shown.text
    assert whole.links()["Back to now"] == shown.links()["show all"].partition("?")[0]


# --- Whom an edit reaches ---------------------------------------------------------------------------------------------


def reached(page: Element) -> list[str]:
    """What the form says of the sessions that share a scope."""
    return [notice.text for notice in page.one("form", "editbox").all("div", "reach")]


def test_before_an_edit_of_shared_state_the_form_says_whom_it_reaches(
    ref: SessionRef, maria: Browser, actor: Actor
) -> None:
    create_session(*ref[:2], "bob", session_id="bobs", actor=actor)
    busy = create_session(*ref[:3], session_id="busy", actor=actor)
    append_event(busy, {"author": "user", "invocation_id": "i", "content": {"parts": [{"text": "Go"}]}}, actor=actor)
    feed(ref.source)
    page = maria.open("app-edit", source=ref.source, app_name=ref.app_name)
    (told,) = reached(page)
    assert told == "3 sessions share this app's state. Running now: Go · ana · running"
    assert page.links()["3 sessions share this app's state."] == "/sessions/?q=app%3A%22booking%22"
    assert page.links()["Go"] == reverse("session", kwargs=busy._asdict())
    of_key = maria.open("session-edit", query={"key": "app:limit"}, **ref._asdict())
    assert of_key.all("button", value="apply")[-1].text == "Apply to 3 sessions Ctrl ⏎"
    listed = maria.open(page.links()["3 sessions share this app's state."])
    assert len(listed.one("table", "sessions").all("tr")) == 1 + 3
    page = maria.open("user-edit", source=ref.source, app_name=ref.app_name, user_id="bob")
    assert reached(page) == ["1 session shares this user's state."]
    assert "user%3A%22bob%22" in page.links()["1 session shares this user's state."]


def test_where_two_sources_have_an_app_its_links_name_the_source(
    ref: SessionRef, maria: Browser, actor: Actor, new_store: Callable[[str], str], open_source: Callable[[str], str]
) -> None:
    other = open_source(new_store("sqlite"))
    create_session(other, *ref[1:3], session_id="theirs", actor=actor)
    for source in (ref.source, other):
        feed(source)
    for page in ("app-edit", "app"):
        opened = maria.open(page, source=ref.source, app_name=ref.app_name)
        links = {link["href"] for link in opened.one("main").all("a") if "?q=" in link["href"]}
        listed = [row["data-preview"] for each in links for row in maria.open(each).all("tr") if "data-row" in row]
        assert {each.split("/")[2] for each in listed} == {ref.source}


def test_the_form_of_a_session_says_so_once_a_key_of_its_user_or_app_is_in_it(ref: SessionRef, maria: Browser) -> None:
    feed(ref.source)
    keys = {"key": ["step", "user:tier"]}
    assert reached(maria.open("session-edit", query={"key": "step"}, **ref._asdict())) == []
    assert reached(maria.open("session-edit", query=keys, **ref._asdict())) == ["1 session shares this user's state."]


def test_the_form_says_if_not_every_session_is_indexed_yet(ref: SessionRef, maria: Browser) -> None:
    page = maria.open("app-edit", source=ref.source, app_name=ref.app_name)
    assert reached(page) == [
        "0 sessions share this app's state. 0% of the sessions have been indexed so far. There may be more."
    ]
