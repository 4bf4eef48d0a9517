"""An app, a user, and the lists of sessions and users, page by page."""

from __future__ import annotations

import time
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.db import connections
from django.urls import reverse

from sessions_app.access.actor import SYSTEM, Actor
from sessions_app.domain.session_ref import SessionRef
from sessions_app.domain.state import ABSENT
from sessions_app.edits.edit import Entry, edit_app_state, edit_user_state
from sessions_app.reads import lists, timeline, views
from sessions_app.search import results, sharing
from sessions_app.search.tree import STATUSES
from sessions_app.writes.sessions import create_session, delete_session
from tests.search.finding import feed, ids, query_of, rows
from tests.support.stored import execute
from tests.web.conftest import Browser, names_of
from tests.web.html import Element

pytestmark = pytest.mark.django_db

MANY = 2 * lists.PAGE + 7
INSERT = (
    "INSERT INTO sessions (app_name, user_id, id, state, create_time, update_time) VALUES (%s, %s, %s, '{}', 1, %s)"
)


@pytest.fixture
def crowd(store: str) -> str:
    """A source with many sessions of one user, and many users with one session."""
    with connections[store].cursor() as cursor:
        cursor.executemany(INSERT, [("booking", "ana", f"s{n:03}", n // 3) for n in range(MANY)])
        cursor.executemany(INSERT, [("support", f"u{n:03}", "s", 1) for n in range(MANY)])
    return store


def names(page: Element) -> list[str]:
    """What the rows of a table are about."""
    return [link.text for link in page.all("a", "rowlink")]


def every_page(maria: Browser, first: str, more: str, *, htmx: bool) -> list[str]:
    """The rows of a list, followed to its end."""
    page = maria.open(first)
    found = names(page)
    while address := page.links().get(more):
        button = next(a for a in page.all("a") if a.text == more)
        assert button["hx-get"] == address
        page = maria.open(address, htmx=htmx)
        assert bool(page.all("html")) != htmx
        assert len(names(page)) <= lists.PAGE
        found += names(page)
    return found


@pytest.mark.parametrize("htmx", [True, False])
@pytest.mark.parametrize("first", ["sessions", "user-sessions"])
def test_sessions_come_page_by_page_until_the_oldest(crowd: str, maria: Browser, first: str, htmx: bool) -> None:
    kwargs = {"source": crowd, "app_name": "booking", **({"user_id": "ana"} if "user" in first else {})}
    found = every_page(maria, reverse(first, kwargs=kwargs), "Older sessions", htmx=htmx)
    assert found == [f"s{n:03}" for n in reversed(range(MANY))]


@pytest.mark.parametrize("first", ["app", "user"])
def test_an_app_and_a_user_show_their_newest_sessions_and_lead_to_all(crowd: str, maria: Browser, first: str) -> None:
    kwargs = {"source": crowd, "app_name": "booking", **({"user_id": "ana"} if first == "user" else {})}
    page = maria.open(first, **kwargs)
    assert [name for name in names(page) if name != "ana"] == [f"s{n:03}" for n in range(MANY - 1, MANY - 11, -1)]
    query = parse_qs(urlsplit(page.links()["All sessions"]).query)["q"]
    assert query == ['app:"booking"' + (' user:"ana"' if first == "user" else "")]


@pytest.mark.parametrize("htmx", [True, False])
@pytest.mark.parametrize("first", ["app", "users"])
def test_users_come_page_by_page(crowd: str, maria: Browser, first: str, htmx: bool) -> None:
    address = reverse(first, kwargs={"source": crowd, "app_name": "support"})
    found = [name for name in every_page(maria, address, "More users", htmx=htmx) if name != "s"]
    assert found == [f"u{n:03}" for n in range(MANY)]


@pytest.mark.parametrize("name", ["sessions", "users", "edits", "events"])
def test_an_address_that_answers_a_page_or_a_fragment_says_so_to_caches(
    ref: SessionRef, maria: Browser, name: str
) -> None:
    wanted = {"sessions": 2, "users": 2, "edits": 0, "events": 4}[name]
    address = reverse(name, kwargs=names_of(ref, wanted))
    for headers in ({}, {"HX-Request": "true"}):
        response = maria.get(address, headers=headers)
        assert "HX-Request" in response["Vary"]
        assert ("<html" in response.content.decode()) == (not headers)


@pytest.mark.parametrize("cursor", ["x", "e30", "W10", "WzEsMl0", "é", "bnVsbA", "W05hTiwiYSIsImIiXQ", "=" * 9, "\0"])
@pytest.mark.parametrize("name", ["sessions", "users", "edits", "events"])
def test_a_place_in_a_list_that_is_none_is_refused_in_words(
    ref: SessionRef, maria: Browser, name: str, cursor: str
) -> None:
    wanted = {"sessions": 2, "users": 2, "edits": 0, "events": 4}[name]
    query = {"after" if name == "users" else "before": cursor}
    kwargs = names_of(ref, wanted)
    page = maria.open(name, query=query, status=400, **kwargs)
    assert "The page in this link isn't valid." in page.one("main").text
    assert maria.open(name, query=query, status=400, htmx=True, **kwargs).raw.endswith("isn't valid.")


def test_an_app_shows_its_state_sessions_and_users(demo: str, maria: Browser) -> None:
    page = maria.open("app", source=demo, app_name="booking")
    assert page.one("header", "pagehead").one("h1").text == "booking"
    assert "7 users" in page.one("div", "sub").text
    assert "11 sessions" in page.one("div", "sub").text
    assert {"omar@example.com", "지우"} <= page.links().keys()
    assert [key.text for key in page.one("aside").all("span", "key")] == ["app:total_searches", "app:version"]
    assert "shared by all users of booking" in page.one("aside").text


def test_a_user_shows_their_state_and_sessions_alone(demo: str, maria: Browser) -> None:
    page = maria.open("user", source=demo, app_name="booking", user_id="지우")
    assert page.one("h1").text == "지우"
    assert len(names(page)) == 1
    assert [key.text for key in page.one("aside").all("span", "key")] == [
        "user:name",
        "user:seat",
        "user:tier",
        "user:visits",
    ]


def test_a_session_without_a_title_is_named_by_its_id(ref: SessionRef, maria: Browser) -> None:
    assert names(maria.open("user", **names_of(ref, 3))) == ["s1"]


def test_a_session_with_a_title_shows_both(ref: SessionRef, maria: Browser) -> None:
    state = '{"__session_metadata__": {"displayName": "A trip"}}'
    execute(ref.source, "UPDATE sessions SET state = %s", [state])
    row = maria.open("sessions", source=ref.source, app_name=ref.app_name).one("tr", data_row="")
    assert row.one("a", "rowlink").text == "A trip"
    assert "s1" in row.text


def test_the_sessions_of_an_app_and_a_user_look_as_in_the_list_of_sessions(
    ref: SessionRef, maria: Browser, add: Any
) -> None:
    def seen() -> tuple[str, ...]:
        feed(ref.source)
        listed = maria.open("search").one("tr", data_row="")
        for name, parts in (("app", 2), ("user", 3), ("sessions", 2), ("user-sessions", 3)):
            row = maria.open(name, **names_of(ref, parts)).all("tr", data_row="")[0]
            looks = [(each.one("span", "status")["class"], each.texts("span", "matched")) for each in (row, listed)]
            assert looks[0] == looks[1]
        return row.one("span", "status")["class"], row.one("span", "status")["title"]

    new = maria.open("user", **names_of(ref, 3)).one("tr", data_row="")
    assert new.all("span", "status") == [], "the index doesn't know it yet"
    assert seen() == ("status none", "no turns yet")
    add(ref, {"text": "Pay"}, author="user")
    add(ref, error_code="429")
    assert seen() == ("status failed", "failed")
    add(ref, {"text": "Again"}, author="user")
    add(ref, {"text": "Paid"})
    assert seen() == ("status idle erred", "done, with errors")


def test_a_session_whose_run_was_stopped_has_not_failed_and_is_done_after_the_next(
    ref: SessionRef, maria: Browser, add: Any
) -> None:
    def seen() -> tuple[str, list[str]]:
        """Returns the status on the session's page, and the statuses of the list, of the filter and of the count."""
        feed(ref.source)
        statuses = [each for each in STATUSES if rows(f"status:{each}")]
        counted = results.by_status(query_of(""), actor=SYSTEM)
        return timeline.status_of(ref, actor=SYSTEM).name, [rows()[0].status, *statuses, *counted]

    add(ref, {"text": "Pay"}, author="user")
    add(ref, {"function_call": {"id": "c", "name": "pay", "args": {}}})
    aborted = {"function_response": {"id": "c", "name": "pay", "response": {"error": "Invocation was aborted."}}}
    add(ref, aborted, error_code="INVOCATION_ABORTED", error_message="Invocation was aborted.")
    assert seen() == ("stopped", ["stopped"] * 3)
    assert (ids("kind:stopped"), ids("error:any"), ids("aborted")) == (["s1"], [], ["s1"])
    assert timeline.events(ref, kind="errors", actor=SYSTEM).rows == []
    assert sharing.sharing(ref, "app", actor=SYSTEM).active == 0
    badge = maria.open("session", **ref._asdict()).one("span", data_say="stopped")
    assert badge.one("span", "status").classes == ["status", "stopped"]
    add(ref, {"text": "Paid"})
    assert seen() == ("idle", ["idle"] * 3)
    assert (rows()[0].turns, rows()[0].error) == (1, "")


@pytest.mark.parametrize(
    ("name", "kwargs", "up"),
    [
        ("app", {"app_name": "nobody"}, ""),
        ("user", {"app_name": "booking", "user_id": "nobody"}, "Back to the app"),
        ("session", {"app_name": "booking", "user_id": "ana", "session_id": "nobody"}, "Back to the user"),
        ("context", {"app_name": "booking", "user_id": "nobody", "session_id": "nobody"}, "Back to the app"),
        ("app-edit", {"app_name": "nobody"}, ""),
        ("state-health", {"app_name": "nobody"}, ""),
        ("user-edit", {"app_name": "booking", "user_id": "nobody"}, "Back to the app"),
    ],
)
def test_what_does_not_exist_is_not_found_and_leads_to_what_does(
    ref: SessionRef, maria: Browser, name: str, kwargs: dict[str, Any], up: str
) -> None:
    page = maria.open(name, status=404, source=ref.source, **kwargs)
    assert page.one("h1").text == "Not found"
    assert "nobody" in page.one("main").text
    ways = {link.text: link["href"] for link in page.one("main").all("a")}
    assert list(ways) == [*filter(None, [up]), "Find sessions", "Home"]
    for address in ways.values():
        maria.open(address)


@pytest.mark.parametrize("source", ["gone", "default"])  # Django's name of adkweb's own database is no source either
def test_a_source_that_does_not_exist_is_not_found(maria: Browser, source: str) -> None:
    assert f"There's no source “{source}”." in maria.open("app", status=404, source=source, app_name="a").text


def test_an_app_without_sessions_says_what_to_do(ref: SessionRef, maria: Browser, actor: Actor) -> None:
    delete_session(ref, actor=actor)
    page = maria.open("app", source=ref.source, app_name=ref.app_name)
    assert "No sessions yet" in page.texts("h3")
    assert "No users have sessions yet." in page.text


def test_a_form_is_not_accepted_by_a_page_that_only_shows(ref: SessionRef, maria: Browser) -> None:
    for name, wanted in (("home", 0), ("app", 2), ("sessions", 2), ("user", 3), ("session", 4), ("stats", 4)):
        assert maria.send(name, {}, **names_of(ref, wanted)).status_code == 405


def test_a_value_is_shown_whole_as_json(ref: SessionRef, maria: Browser) -> None:
    state = '{"long": "' + "x" * 50_000 + '", "nothing": null}'
    execute(ref.source, "UPDATE sessions SET state = %s", [state])
    response = maria.get(reverse("session-value", kwargs=ref._asdict()), {"key": "long"})
    assert (response["Content-Type"], len(response.content)) == ("text/plain; charset=utf-8", 50_002)
    assert maria.open("session-value", query={"key": "nothing"}, **ref._asdict()).text == "null"
    user = names_of(ref, 3)
    assert maria.open("user-value", query={"key": "user:tier"}, **user).text == '"gold"'
    assert (
        "There's no key “none”" in maria.open("session-value", query={"key": "none"}, status=400, **ref._asdict()).text
    )


# --- Edits of a user's and an app's state -----------------------------------------------------------------------------


def test_edits_of_a_users_and_an_apps_state_are_a_link_below_that_state_and_no_session(
    store: str, maria: Browser, actor: Actor
) -> None:
    create_session(store, "booking", "ana", session_id="trip", actor=actor)
    for _ in range(2):
        edit_user_state(store, "booking", "ana", [Entry("user:seen", time.time(), _seen(store))], actor=actor)
    edit_app_state(store, "booking", [Entry("app:version", 2, ABSENT)], actor=actor)
    user = maria.open(reverse("user", args=[store, "booking", "ana"]))
    app = maria.open(reverse("app", args=[store, "booking"]))
    assert names(user) == ["trip"]
    assert names(app) == ["trip", "ana"]
    assert app.one("header", "pagehead").texts("span")[1] == "1 session"
    (link,) = user.one("p", "changes").all("a")
    assert "2 events" in user.one("p", "changes").text
    own = maria.open(link["href"])
    assert own.one("h1").text == link.text == "Changes to user state"
    assert [crumb.text for crumb in own.one("nav", "crumbs").all("li")] == [store, "booking", "ana", link.text]
    (link,) = app.one("p", "changes").all("a")
    own = maria.open(link["href"])
    assert [crumb.text for crumb in own.one("nav", "crumbs").all("li")] == [store, "booking", "Changes to app state"]
    home = maria.open(reverse("home"))
    assert "adkweb" not in home.one("div", id="sources").text + home.one("aside").text
    rows = maria.open(reverse("edits")).all("td", **{"data-label": "Where"})
    assert [row.text for row in rows] == ["booking", "booking / ana", "booking / ana"]


def test_crumbs_lead_to_whose_state_is_edited(store: str, maria: Browser, actor: Actor) -> None:
    state = {"__session_metadata__": {"displayName": "Trip to Seoul"}, "user:tier": 1, "app:version": 1}
    names = {"source": store, "app_name": "booking", "user_id": "ana", "session_id": "trip"}
    create_session(store, "booking", "ana", session_id="trip", state=state, actor=actor)
    trails = {"session-edit": ["ana", "Trip to Seoul"], "user-edit": ["ana"], "app-edit": []}
    for name, trail in trails.items():
        taken = dict(list(names.items())[: {"session-edit": 4, "user-edit": 3, "app-edit": 2}[name]])
        page = maria.open(reverse(name, kwargs=taken))
        crumbs = [crumb.text for crumb in page.one("nav", "crumbs").all("li")]
        assert crumbs == [store, "booking", *trail, "Edit state"]


def _seen(store: str) -> Any:
    return views.user_state(store, "booking", "ana", actor=SYSTEM).get("seen", ABSENT)
