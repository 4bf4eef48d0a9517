"""Sessions: by page, whole and streamed, created, deleted."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import unquote

import pytest
from django.db import connections
from pytest_django import DjangoDbBlocker, Settings

from sessions_app.access.actor import SYSTEM, Actor
from sessions_app.domain.errors import NotFound
from sessions_app.domain.session_ref import SessionRef
from sessions_app.reads import stored_sessions, whole_session
from sessions_app.reads.size_limits import LARGE
from sessions_app.sources import adoption, database, online, registry
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session, delete_session
from tests.api.both import AdkwebServer
from tests.api.conftest import fill
from tests.api.program import Answer, Program, address
from tests.support.stored import counts, execute

pytestmark = pytest.mark.django_db

HARD_NAMES = [
    "a/b",
    "..",
    ".",
    "~",
    "~2f",
    "100%",
    "%2F",
    "한 국",
    "a?b#c",
    "",
    "é",
    "\u202e",
    "a\\b",
    "-",
    "x" * 128,
    "😀;",
]
USER = "/api/apps/booking/users/ana"


def pages_of(program: Program, path: str, cursor: str = "before", **query: Any) -> list[list[dict[str, Any]]]:
    """The items of every page, from the first on."""
    found, following = [], None
    while not found or following:
        page = program.get(path, **query, **({cursor: following} if following else {}))
        assert page.status == 200, page
        found.append(page.json()["items"])
        following = page.json()["next"]
        assert len(found) < 50, "the pages do not end"
    return found


# --- Lists ------------------------------------------------------------------------------------------------------------


def test_pages_cover_every_session_once_though_many_were_active_at_the_same_moment(
    program: Program, source: str, actor: Actor
) -> None:
    keys = [
        create_session(source, "booking", f"u{number % 3}", session_id=f"s{number:02}", actor=actor)
        for number in range(25)
    ]
    at = "1767225600.0" if connections[source].settings_dict["ADKWEB"]["real_times"] else "'2026-01-01 00:00:00.000000'"
    execute(source, f"UPDATE sessions SET update_time = {at} WHERE id < 's20'")
    pages = pages_of(program, "/api/apps/booking/sessions", limit=4)
    assert [len(page) for page in pages] == [4, 4, 4, 4, 4, 4, 1]
    rows = [row for page in pages for row in page]
    assert {(row["user_id"], row["id"]) for row in rows} == {(ref.user_id, ref.session_id) for ref in keys}
    assert len(rows) == 25
    assert [row["revision"] for row in rows] == sorted((row["revision"] for row in rows), reverse=True)
    mine = [row for page in pages_of(program, "/api/apps/booking/users/u1/sessions", limit=3) for row in page]
    assert [row["id"] for row in mine] == [row["id"] for row in rows if row["user_id"] == "u1"]


def test_a_row_says_what_a_table_of_sessions_shows(
    program: Program, each_ref: SessionRef, add: Callable[..., str]
) -> None:
    state = {"__session_metadata__": {"displayName": "Paris"}}
    add(each_ref, timestamp=1_800_000_000, actions={"state_delta": state})
    add(each_ref, timestamp=1_800_000_001, error_code="500")
    (row,) = program.get(USER + "/sessions").json()["items"]
    assert row["created"] < row["revision"] == 1_800_000_001
    assert {name: row[name] for name in row.keys() - {"created", "revision"}} == {
        "source": each_ref.source,
        "app_name": "booking",
        "user_id": "ana",
        "id": "s1",
        "title": "Paris",
        "events": 2,
        "errors": 1,
    }


@pytest.mark.parametrize("query", ["limit=0", "limit=501", "limit=x", "limit=", "before=x", "before=W10"])
def test_a_page_that_cannot_be_is_refused(program: Program, ref: SessionRef, query: str) -> None:
    assert program.get(f"{USER}/sessions?{query}").status == 400
    assert query.partition("=")[0] in program.get(f"{USER}/sessions?{query}").content.decode() or "before" in query


# --- Names ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", HARD_NAMES)
def test_any_name_has_an_address(program: Program, source: str, actor: Actor, name: str) -> None:
    ref = create_session(source, name or "app", name or "user", session_id=name or "s", actor=actor)
    append_event(ref, {"id": name or "e"}, actor=actor)
    whole = program.get(address(ref))
    assert whole.status == 200, (address(ref), whole)
    assert (whole.json()["app_name"], whole.json()["id"]) == (ref.app_name, ref.session_id)
    event_name = address(SessionRef("", "", "", name or "e")).rpartition("/")[2]
    assert program.get(address(ref, f"/events/{event_name}")).json()["id"] == (name or "e")


def test_the_empty_name_is_a_tilde(program: Program, store: str, actor: Actor) -> None:
    create_session(store, "", "", session_id="s", actor=actor)
    assert program.get("/api/apps/~/users/~/sessions/s").json()["user_id"] == ""


@pytest.mark.parametrize("name", ["~ff", "~c3", "%00", "~00", "%ff", "x" * 129])
def test_a_name_that_no_session_has_is_not_found(program: Program, each_ref: SessionRef, name: str) -> None:
    for tail in ("", "/standing", "/state", "/events", "/events/e"):
        assert program.get(f"{USER}/sessions/{name}{tail}").status in (400, 404), tail
    assert program.post(f"{USER}/sessions/{name}/events", {"author": "a"}).status in (400, 404)
    assert program.patch(f"{USER}/sessions/{name}/state", {"set": {"a": 1}}).status in (400, 404)
    assert program.delete(f"{USER}/sessions/{name}").status in (400, 404)
    assert program.get(f"/api/apps/{name}/users/{name}/state").status in (400, 404)
    assert counts(each_ref.source)["sessions"] == 1


# --- Create and delete ------------------------------------------------------------------------------------------------


def test_a_session_is_created_with_state_by_scope(program: Program, source: str) -> None:
    state = {"step": 1, "user:tier": "gold", "app:limit": 2.5, "temp:x": 1, "none": None}
    made = program.post(USER + "/sessions", {"session_id": "s 1/2", "state": state}, source=source)
    assert made.status == 201
    assert made.json() == {"source": source, "app_name": "booking", "user_id": "ana", "id": "s 1/2"}
    assert made.headers["location"] == USER + "/sessions/s%201~2f2"
    found = program.get(made.headers["location"]).json()
    assert found["state"] == {
        "app": {"limit": 2.5},
        "user": {"tier": "gold"},
        "session": {"step": 1, "none": None},
    }
    assert found["events"] == []
    assert found["seq"] == 0


@pytest.mark.parametrize("options", [{}, {"body": b""}, {"body": {}}, {"body": {"session_id": None, "state": {}}}])
def test_a_session_without_an_id_gets_one(program: Program, source: str, options: dict[str, Any]) -> None:
    made = program.post(USER + "/sessions", **options)
    assert made.status == 201
    assert len(made.json()["id"]) == 36


def test_an_id_that_is_taken_is_a_conflict(program: Program, each_ref: SessionRef) -> None:
    refused = program.post(USER + "/sessions", {"session_id": "s1", "state": {"app:limit": 11}})
    assert refused.status == 409
    assert "s1" in refused.detail
    assert program.get("/api/apps/booking/state").json() == {"limit": 10}


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ({"session_id": 5}, "session_id"),
        ({"session_id": "x" * 129}, "129"),
        ({"session_id": "a\0b"}, "U+0000"),
        ({"state": []}, "state"),
        ({"state": None}, "state"),
        ({"sessionId": "camel"}, "sessionId"),
        ({"events": []}, "events"),
        ([], "object"),
        ("text", "object"),
        (b"{", "line 1, column 2"),
        (b'{"state": {"a": NaN}}', "NaN"),
        (b'{"state": {"\\ud800": 1}}', "surrogate"),
    ],
)
def test_what_no_session_can_be_made_of_is_refused_with_its_place(
    program: Program, source: str, body: Any, place: str
) -> None:
    refused = program.post(USER + "/sessions", body)
    assert refused.status == 400
    assert place in refused.detail
    assert counts(source)["sessions"] == 0


def test_in_which_source_a_new_app_begins_must_be_said(program: Program, store: str, other_store: str) -> None:
    refused = program.post(USER + "/sessions", {})
    assert refused.status == 409
    assert store in refused.detail
    assert program.post(USER + "/sessions", {}, source=store).status == 201
    assert program.post(USER + "/sessions", {}).json()["source"] == store  # the only one that has this app by now
    assert counts(other_store)["sessions"] == 0


def test_a_session_that_moved_is_not_deleted_where_if_match_says_so(program: Program, each_ref: SessionRef) -> None:
    tag = program.get(address(each_ref)).headers["etag"]
    moved = program.post(address(each_ref, "/events"), {"author": "a"}, if_match=tag)
    before = counts(each_ref.source)
    assert program.delete(address(each_ref), if_match=tag).status == 412
    assert counts(each_ref.source) == before
    assert program.delete(address(each_ref), if_match=moved.headers["etag"]).status == 204


@pytest.mark.parametrize("query", [{}, {"since": 1}])
def test_a_session_that_is_deleted_while_it_is_read_never_looks_whole(
    each_ref: SessionRef, actor: Actor, query: dict[str, Any]
) -> None:
    fill(each_ref, whole_session.PAGE + 1)
    found = whole_session.stream(each_ref, **query, actor=SYSTEM)
    assert found
    _session, pages = found
    assert len(next(pages)) == whole_session.PAGE
    delete_session(each_ref, actor=actor)
    with pytest.raises(NotFound, match="The session was deleted while it was being read"):
        next(pages)


def test_a_list_of_sessions_ends_by_what_the_states_of_their_users_weigh(each_ref: SessionRef, actor: Actor) -> None:
    for n in range(6):
        state = {"user:k": "x" * (LARGE // 2), "n": n} if n % 2 else {"n": n}
        create_session(each_ref.source, each_ref.app_name, f"user {n}", actor=actor, state=state)
    selection = stored_sessions.Selection(each_ref.source, each_ref.app_name)
    seen: dict[str, int] = {}
    after, pages = None, 0
    while after or not pages:
        page = stored_sessions.load_page(selection, after=after, actor=SYSTEM)
        seen |= {found.ref.user_id: len(found.state.user.get("k", "")) for found in page.rows}
        after, pages = page.next, pages + 1
    assert {name: size for name, size in seen.items() if name.startswith("user ")} == {
        f"user {n}": LARGE // 2 if n % 2 else 0 for n in range(6)
    }
    assert pages > 1


def test_a_fault_in_a_file_is_told_with_its_place(program: Program, store: str) -> None:
    refused = program.post("/api/import", b'{"adkweb":"jsonl","version":1}\nnothing\n')
    assert refused.status == 400
    assert refused.json()["place"] == "line 2"


def test_a_deleted_session_is_gone_with_its_events_and_nothing_else(
    program: Program, each_ref: SessionRef, add: Callable[..., str]
) -> None:
    add(each_ref)
    answer = program.delete(address(each_ref))
    assert (answer.status, answer.content) == (204, b"")
    assert program.get(address(each_ref)).status == 404
    assert program.delete(address(each_ref)).status == 404
    assert counts(each_ref.source) == {"app_states": 1, "user_states": 1, "sessions": 0, "events": 0}


# --- Whole ------------------------------------------------------------------------------------------------------------


def test_the_etag_is_the_revision_and_moves_with_every_write(
    program: Program, each_ref: SessionRef, add: Callable[..., str]
) -> None:
    seen = set()
    for _ in range(3):
        tags = {program.get(address(each_ref, tail)).headers["etag"] for tail in ("", "/standing", "/state", "/events")}
        assert len(tags) == 1
        assert tags == {f'"{program.get(address(each_ref)).json()["revision"]!r}"'}
        seen |= tags
        add(each_ref)
    assert len(seen) == 3


def test_events_are_given_as_they_are_stored(program: Program, each_ref: SessionRef, add: Callable[..., str]) -> None:
    add(each_ref, id="e1", timestamp=1_800_000_000.25, later_field={"camelCase": [1.5, None, 10**25, "é😀"]})
    (event,) = program.get(address(each_ref)).json()["events"]
    assert event.keys() == {"seq", "id", "invocation_id", "timestamp", "event"}
    assert (event["id"], event["invocation_id"], event["timestamp"]) == ("e1", "i1", 1_800_000_000.25)
    assert event["event"]["later_field"] == {"camelCase": [1.5, None, 10**25, "é😀"]}
    assert program.get(address(each_ref)).json()["seq"] == event["seq"]


def test_a_long_session_comes_in_pieces_and_in_order(program: Program, each_ref: SessionRef) -> None:
    fill(each_ref, 3_000)
    whole = program.get(address(each_ref))
    ids = [event["id"] for event in whole.json()["events"]]
    assert ids == [f"e{number}" for number in range(1, 3_001)]
    assert whole.pieces > 1
    assert "content-length" not in whole.headers


@pytest.mark.guarantee(
    "History",
    "The API's responses stay valid even if a row is damaged: they name the damaged event and contain all the others.",
)
@pytest.mark.parametrize(
    "stored",
    ['{"content": {"role": "mod', '\ufeff{"author": "x"}', "[]", "null", '"a text"', "42", "{'a': 1}", "[" * 9_000],
)
def test_a_damaged_event_is_named_and_the_others_are_there(
    program: Program, ref: SessionRef, add: Callable[..., str], stored: str
) -> None:
    ids = [add(ref, text) for text in ("first", "damaged", "last")]
    execute(ref.source, "UPDATE events SET event_data = %s WHERE id = %s", [stored, ids[1]])
    whole = program.get(address(ref), newest=10)
    first, damaged, last = whole.json()["events"]
    assert [first["id"], damaged["id"], last["id"]] == ids
    assert (damaged["event"], bool(damaged["damage"])) == ({}, True)
    assert "damage" not in first
    assert last["event"]["content"]["parts"] == [{"text": "last"}]
    route = f"/apps/{ref.app_name}/users/{ref.user_id}/sessions/{ref.session_id}"
    adk = AdkwebServer(program.token).ask("GET", route)  # which says what is wrong as google-adk does
    assert adk.status_code == 400
    assert ids[1] in adk.json()["detail"]


@pytest.mark.parametrize("stored", ['{"a": NaN, "author": "x"}', '{"a": "\\ud83d", "author": "x"}', '{"a": 1e400}'])
def test_what_adk_stores_though_it_is_no_strict_json_is_not_damaged(
    program: Program, ref: SessionRef, add: Callable[..., str], stored: str
) -> None:
    event_id = add(ref, "x")
    execute(ref.source, "UPDATE events SET event_data = %s WHERE id = %s", [stored, event_id])
    (only,) = program.get(address(ref), newest=10).json()["events"]
    assert "damage" not in only
    assert "a" in only["event"]
    assert program.get(f"/apps/{ref.app_name}/users/{ref.user_id}/sessions/{ref.session_id}").status == 200


def test_only_so_many_only_after_a_place_only_since_a_moment(program: Program, each_ref: SessionRef) -> None:
    fill(each_ref, 1_500)

    def ids(**query: Any) -> list[str]:
        return [event["id"] for event in program.get(address(each_ref), **query).json()["events"]]

    places = {event["id"]: event["seq"] for event in program.get(address(each_ref)).json()["events"]}
    assert ids(newest=2) == ["e1499", "e1500"]
    assert ids(newest=0) == []
    assert ids(newest=5_000) == list(places)
    assert ids(after=places["e1498"]) == ["e1499", "e1500"]
    assert ids(after=places["e1500"]) == []
    assert ids(since=1767225600.0 + 1499) == ["e1499", "e1500"]
    assert ids(since=1767225600.0 + 1499, newest=1) == ["e1500"]
    assert ids(since=1767225600.0 + 10, after=places["e1499"]) == ["e1500"]
    assert program.get(address(each_ref), newest=0).json()["seq"] == places["e1500"]


@pytest.mark.parametrize(
    "query", ["newest=-1", "newest=99999999999", "after=-1", f"after={2**63}", "since=nan", "since=x"]
)
def test_events_that_nobody_can_mean_are_refused(program: Program, each_ref: SessionRef, query: str) -> None:
    refused = program.get(address(each_ref, "?" + query))
    assert refused.status == 400
    assert query.partition("=")[0] in refused.detail
    assert refused.json()["errors"][0]["place"].endswith(query.partition("=")[0])


def test_what_adk_stored_although_it_is_no_json_is_null(program: Program, ref: SessionRef) -> None:
    stored = '{"id": "e1", "author": "NaN", "x": [NaN, -Infinity, "Infinity", 1e999]}'
    execute(
        ref.source,
        "INSERT INTO events (id, app_name, user_id, session_id, invocation_id, timestamp, event_data)"
        " VALUES ('e1', 'booking', 'ana', 's1', 'i1', 1, %s)",
        [stored],
    )
    execute(ref.source, """UPDATE sessions SET state = '{"a": NaN}'""")
    execute(ref.source, """UPDATE app_states SET state = '{"b": [Infinity]}'""")
    found = program.get(address(ref)).json()
    assert found["state"]["session"] == {"a": None}
    assert found["state"]["app"] == {"b": [None]}
    (event,) = found["events"]
    assert event["event"]["author"] == "NaN"
    assert event["event"]["x"][:3] == [None, None, "Infinity"]
    assert program.get(address(ref, "/state")).json()["session"] == {"a": None}
    assert program.get("/api/apps/booking/state").json() == {"b": [None]}
    (listed,) = program.get(address(ref, "/events")).json()["items"]
    assert listed["event"]["x"] == [None, None, "Infinity", None]
    refused = program.patch(address(ref, "/state"), {"set": {"a": 1}, "expected": {"a": 2}})
    assert (refused.status, refused.json()["current"]) == (409, {"a": None})


def test_half_of_a_surrogate_pair_does_not_break_an_answer(program: Program, ref: SessionRef) -> None:
    execute(ref.source, r"""UPDATE sessions SET state = '{"a": "\ud83d"}'""")
    for tail in ("", "/state", "/events"):
        assert program.get(address(ref, tail)).status == 200
    assert program.get(address(ref)).json()["state"]["session"].keys() == {"a"}


@pytest.fixture
def unadopted(
    form: str, new_database: Callable[[str], str], settings: Settings, actor: Actor, django_db_blocker: DjangoDbBlocker
) -> Iterator[SessionRef]:
    """A session of 3 000 events in a database of each format that adkweb only reads, and never wrote to."""
    place = new_database(form)
    with django_db_blocker.unblock():
        (source,) = registry.add(place)
        if form == "sqlite-database":
            adoption.create(source.alias, "database")
        database.open_source(source)
        ref = create_session(source.alias, "booking", "ana", session_id="s1", actor=actor)
        fill(ref, 3_000)
        online.release(source.alias)
        database.forget(source.alias)
        settings.READ_ONLY = True
        (source,) = registry.add(place)
        yield SessionRef(source.alias, *ref[1:])
        database.forget(source.alias)


def test_a_database_that_is_only_read_gives_all_its_events(program: Program, unadopted: SessionRef) -> None:
    found = program.get(address(unadopted)).json()
    assert [event["id"] for event in found["events"]] == [f"e{number}" for number in range(1, 3_001)]
    newest = program.get(address(unadopted), newest=2).json()
    assert [event["id"] for event in newest["events"]] == ["e2999", "e3000"]
    listed = program.get(address(unadopted, "/events"), limit=2).json()
    assert [item["id"] for item in listed["items"]] == ["e2999", "e3000"]
    earlier = program.get(address(unadopted, "/events"), limit=2, before=listed["next"]).json()
    assert [item["id"] for item in earlier["items"]] == ["e2997", "e2998"]
    standing = program.get(address(unadopted, "/standing"), event="e3000").json()
    assert standing["newest"] == "e3000"


@pytest.mark.parametrize("tail", ["", "/events"])
def test_events_after_a_place_where_none_has_one_are_refused_and_not_forgotten(
    program: Program, unadopted: SessionRef, form: str, tail: str
) -> None:
    answer = program.get(address(unadopted, tail), after=2_998)
    if form == "postgresql":  # SQLite has places of its own
        assert answer.status == 400
        assert "after" in answer.detail
        assert program.get(address(unadopted, tail)).status == 200
    else:
        items = answer.json()["events" if tail == "" else "items"]
        assert [item["id"] for item in items] == ["e2999", "e3000"]


@pytest.mark.django_db(transaction=True)
def test_a_session_is_of_one_moment_while_somebody_appends(
    program: Program, each_ref: SessionRef, add: Callable[..., str]
) -> None:
    fill(each_ref, 1_200)
    done = threading.Event()

    def write() -> None:
        number = 1_200
        while not done.is_set():
            number += 1
            add(each_ref, id=f"e{number}", actions={"state_delta": {"n": number, "app:n": number}})
        connections.close_all()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        answers: list[Answer] = [program.get(address(each_ref)) for _ in range(8)]
    finally:
        done.set()
        writer.join(60)
    for answer in answers:
        found = answer.json()
        last = found["events"][-1]
        assert [event["id"] for event in found["events"]] == [f"e{n}" for n in range(1, len(found["events"]) + 1)]
        assert found["seq"] == last["seq"]
        if len(found["events"]) > 1_200:
            assert found["state"]["session"]["n"] == found["state"]["app"]["n"] == len(found["events"])
            assert found["revision"] >= last["timestamp"]
    assert len(answers[-1].json()["events"]) > len(answers[0].json()["events"])


def test_where_a_session_stands(program: Program, each_ref: SessionRef, add: Callable[..., str]) -> None:
    empty = program.get(address(each_ref, "/standing")).json()
    assert (empty["newest"], empty["seq"]) == (None, None)
    first, second = add(each_ref), add(each_ref)
    standing = program.get(address(each_ref, "/standing"), event=first).json()
    events = {event["id"]: event["seq"] for event in program.get(address(each_ref)).json()["events"]}
    assert (standing["newest"], standing["seq"]) == (second, events[first])
    assert program.get(address(each_ref, "/standing"), event="ghost").json()["seq"] is None


def test_addresses_in_answers_are_percent_encoded(program: Program, store: str) -> None:
    made = program.post("/api/apps/%ED%95%9C/users/a~2fb/sessions", {"session_id": "..é%"})
    assert made.status == 201
    assert made.headers["location"].isascii()
    assert unquote(made.headers["location"]).endswith("..é%")
    assert program.get(made.headers["location"]).json()["user_id"] == "a/b"


# --- Title and tags ---------------------------------------------------------------------------------------------------


def test_a_program_names_and_tags_a_session_and_finds_it_so(program: Program, each_ref: SessionRef) -> None:
    named = program.patch(address(each_ref), {"title": "Refund", "tags": ["vip", "to check", "VIP"]})
    assert (named.status, named.json()) == (200, {"title": "Refund", "tags": ["to check", "vip"]})
    assert program.patch(address(each_ref), {"tags": ["vip", "done"]}).json()["tags"] == ["done", "vip"]
    assert program.patch(address(each_ref), {}).json() == {"title": "Refund", "tags": ["done", "vip"]}
    assert program.patch(address(each_ref), {"title": "", "tags": []}).json() == {"title": "", "tags": []}


def test_title_and_tags_are_changed_together_or_not_at_all(program: Program, reader: Program, ref: SessionRef) -> None:
    for wrong in ({"title": "Refund", "tags": ["ok", " "]}, {"title": "Refund", "tags": [f"t{n}" for n in range(51)]}):
        assert program.patch(address(ref), wrong).status == 400
    assert reader.patch(address(ref), {"title": "Refund"}).status == 403
    assert program.patch(address(ref._replace(session_id="gone")), {"title": "Refund"}).status == 404
    assert program.patch(address(ref), {}).json() == {"title": "", "tags": []}


# --- A new app --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("permission", "apps", "status"),
    [
        ("append", "booking*", 403),
        ("append", "*", 403),
        ("append", "booking-eu", 201),
        ("admin", "booking*", 201),
    ],
)
def test_a_token_for_a_pattern_of_apps_makes_no_new_app_but_sessions_of_those_that_exist(
    new_token: Callable[..., str], source: str, actor: Actor, permission: str, apps: str, status: int
) -> None:
    program = Program(new_token(permission, apps))
    answers = [
        program.post("/api/apps/booking-eu/users/ana/sessions", {}),
        program.post("/apps/booking-eu/users/ana/sessions", {}),
        program.patch("/api/apps/booking-eu/state", {"set": {"app:limit": 1}}),
    ]
    assert [answer.status in (200, 201) for answer in answers] == [status == 201] * 3, answers
    assert (counts(source)["sessions"] > 0) == (status == 201)
    if status == 403:
        assert "--apps booking-eu" in answers[0].detail
        create_session(source, "booking-eu", "ben", actor=actor)
        assert program.post("/api/apps/booking-eu/users/ana/sessions", {}).status == 201
