"""The session page: the timeline, its filters, its pages; the merged state; every kind of event in words."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest
from django.urls import reverse
from pytest_django import Settings

from sessions_app.access.actor import SYSTEM, Actor
from sessions_app.domain.kinds import KINDS
from sessions_app.domain.session_ref import SessionRef
from sessions_app.domain.state import ABSENT
from sessions_app.edits.edit import Entry, edit_app_state, edit_state, edit_user_state
from sessions_app.reads import filters, lists, timeline, views
from sessions_app.sources import online, registry
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import delete_session
from tests.parts import long_but
from tests.search.finding import feed
from tests.support.bulk import fill
from tests.support.stored import execute, query
from tests.web.conftest import DEMO, Browser
from tests.web.html import Element

pytestmark = pytest.mark.django_db

SEOUL = ("booking", "ana", "seoul-trip")


def lines(page: Element) -> list[str]:
    """What the timeline says, an event a line."""
    return [line.text for line in page.all("a", "line")]


def ids(page: Element) -> list[str]:
    """The events of the timeline."""
    return [event["id"].removeprefix("event-") for event in page.all("li", "ev")]


def open_session(maria: Browser, ref: SessionRef, **query: str) -> Element:
    return maria.open("session", query=query, **ref._asdict())


# --- The timeline -----------------------------------------------------------------------------------------------------


def test_the_newest_event_stands_at_the_bottom(ref: SessionRef, maria: Browser) -> None:
    fill(ref, 250)
    feed(ref.source)
    page = open_session(maria, ref)
    assert ids(page) == [f"e{n}" for n in range(201, 251)]
    assert [seq.text for seq in page.all("span", "seq")][-1] == "250"


def test_the_browser_keeps_the_density_that_is_chosen_and_not_that_of_older_rows(
    ref: SessionRef, maria: Browser
) -> None:
    """Two tabs show two densities: who scrolls in one does not choose for the other."""
    rows, chosen = (
        maria.get(reverse("events", kwargs=ref._asdict()), {"density": "trace", **more}, headers={"HX-Request": "true"})
        for more in ({}, {"chosen": "1"})
    )
    assert ("density" in rows.cookies, "density" in chosen.cookies) == (False, True)
    assert maria.open("session", **ref._asdict()).one(id="events")["data-density"] == "trace"


@pytest.mark.parametrize("htmx", [True, False])
def test_earlier_events_come_page_by_page_until_the_first(ref: SessionRef, maria: Browser, htmx: bool) -> None:
    fill(ref, 250)
    page = open_session(maria, ref)
    found = ids(page)
    while earlier := page.links().get("Earlier events"):
        page = maria.open(earlier, htmx=htmx)
        assert bool(page.all("html")) != htmx
        found = ids(page) + found
    assert found == [f"e{n}" for n in range(1, 251)]


def test_events_of_an_invocation_stand_under_it(ref: SessionRef, maria: Browser, add: Callable[..., str]) -> None:
    for number, invocation in enumerate(["a", "a", "b"]):
        add(ref, {"text": f"m{number}"}, invocation_id=invocation, timestamp=1000.0 + 2 * number)
    page = open_session(maria, ref)
    heads = [head.text for head in page.all("li", "inv")]
    assert heads == ["a · 00:16:40 · ≈ 2.0 s · 2 events", "b · 00:16:44"]
    assert [event.one("span", "meta").text for event in page.all("li", "ev")] == ["00:16:40", "≈ 2.0 s", "00:16:44"]


def test_a_line_tells_what_changed_in_the_state(ref: SessionRef, maria: Browser, add: Callable[..., str]) -> None:
    add(ref, actions={"state_delta": {"step": "pay", "fresh": [1], "app:limit": 11}})
    deltas = open_session(maria, ref).one("div", "deltas").texts("span", "delta")
    assert deltas == ['step "choose" "pay"', "fresh [1]", "app:limit → 11"]


def test_an_edit_tells_who_and_why(ref: SessionRef, maria: Browser, actor: Actor) -> None:
    edit_state(ref, [Entry("step", ABSENT, "choose")], actor=actor, reason="It was stuck.")
    page = open_session(maria, ref)
    assert f"by {actor.name} — “It was stuck.”" in page.one("li", "inv").text
    assert page.one("div", "deltas").text == 'step "choose" removed'


def test_a_session_without_events_says_when_there_will_be_some_and_offers_to_add_one(
    ref: SessionRef, maria: Browser
) -> None:
    empty = open_session(maria, ref).one(id="no-events")
    assert "No events yet" in empty.texts("h2")
    assert empty.links() == {"Add event": reverse("add-event", kwargs=ref._asdict())}


# --- The status -------------------------------------------------------------------------------------------------------

ASKS = {"parts": [{"function_call": {"id": "c", "name": "ask"}}]}


@pytest.mark.parametrize(
    ("newest", "status", "words"),
    [
        ({"author": "user"}, "running", "running"),
        ({"author": "user", "timestamp": 1000.0}, "stuck", "stuck"),
        ({"content": ASKS, "long_running_tool_ids": ["c"]}, "waiting", "waiting for an answer"),
        ({"error_code": "429"}, "failed", "failed"),
        ({}, "none", "no turns yet"),
    ],
)
def test_the_head_says_the_status_as_the_list_of_sessions_does(
    ref: SessionRef, add: Callable[..., str], maria: Browser, newest: dict[str, Any], status: str, words: str
) -> None:
    add(ref, **{"timestamp": time.time(), "content": {"parts": [{"text": "Pay"}]}, **newest})
    feed(ref.source)
    head = open_session(maria, ref).one(id="status")
    assert head.one("span", "status")["class"] == f"status {status}"
    assert words in head.text
    assert maria.open("search").one("td", "statuscell").text == words


def test_a_session_isn_t_stuck_for_good_after_a_run_that_was_killed(
    ref: SessionRef, add: Callable[..., str], maria: Browser
) -> None:
    add(ref, {"text": "Pay"}, author="user", invocation_id="i1", timestamp=1000.0)
    add(ref, {"text": "Again"}, author="user", invocation_id="i2", timestamp=2000.0)
    add(ref, {"text": "Paid"}, invocation_id="i2", timestamp=2001.0)
    feed(ref.source)
    assert open_session(maria, ref).one(id="status").one("span", "status")["class"] == "status idle"
    assert maria.open("search").one("td", "statuscell").text == "done"


def test_a_failed_session_leads_to_its_last_error_until_the_next_turn(
    ref: SessionRef, add: Callable[..., str], maria: Browser, actor: Actor
) -> None:
    add(ref, {"text": "Pay"}, author="user")
    add(ref, id="first", error_code="402")
    add(ref, id="last", error_code="429")
    edit_state(ref, [Entry("step", ABSENT, "choose")], actor=actor)
    failed = open_session(maria, ref).one(id="status").one("a", "bad")
    assert (failed.text.split(" · ")[0], failed["href"]) == (
        "failed",
        f"{reverse('session', kwargs=ref._asdict())}?at=last",
    )
    add(ref, {"text": "Again"}, author="user")
    add(ref, {"text": "Paid"})
    edit_state(ref, [Entry("step", "choose", ABSENT)], actor=actor)
    feed(ref.source)
    head = open_session(maria, ref).one(id="status")
    assert head.one("span", "status")["class"] == "status idle erred"
    assert head.text.startswith(maria.open("search").one("td", "statuscell").text + " · ")


# --- Filters ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def mixed(ref: SessionRef, add: Callable[..., str], actor: Actor) -> SessionRef:
    """A session with one event of each filter, by two authors."""
    add(ref, {"text": "hello"}, id="messages", author="user")
    add(ref, {"function_call": {"name": "find", "id": "c"}}, id="tools")
    add(ref, id="state", actions={"state_delta": {"step": "pay"}})
    add(ref, id="errors", error_code="429")
    edit_state(ref, [Entry("step", "done", "pay")], actor=actor)
    return ref


def test_there_is_a_chip_for_each_filter(mixed: SessionRef, maria: Browser) -> None:
    toolbar = open_session(maria, mixed).one("nav", "toolbar")
    chips = [chip.text for chip in toolbar.all("a", "chip") if "scaled" not in (chip["class"] or "")]
    assert chips == ["All", "Messages", "Tools", "State", "Errors", "Edits"]
    assert toolbar.one("a", aria_current="true").text == "All"


@pytest.mark.parametrize("kind", filters.FILTERS)
def test_a_filter_shows_its_events_alone(mixed: SessionRef, maria: Browser, kind: str) -> None:
    chip = open_session(maria, mixed).one("nav", "toolbar").one("span", id=f"count-{kind}")
    page = open_session(maria, mixed, kind=kind)
    found = ids(page)
    expected = {"state": 2, "edits": 1}.get(kind, 1)  # an edit changes state, too
    assert len(found) == expected
    assert kind == "edits" or found[0] == kind
    assert page.one("nav", "toolbar").one("a", aria_current="true").one("span", "n")["id"] == chip["id"]


def test_an_author_is_a_filter_that_can_be_taken_away(mixed: SessionRef, maria: Browser) -> None:
    page = open_session(maria, mixed, author="user", kind="messages")
    assert ids(page) == ["messages"]
    away = page.one("a", aria_label="Show every author")
    assert away.text == "author: user"
    assert away["href"] == reverse("session", kwargs=mixed._asdict()) + "?kind=messages"


def test_an_author_without_events_says_so_and_leads_back(mixed: SessionRef, maria: Browser) -> None:
    page = open_session(maria, mixed, author="nobody & <b>")
    assert "No such events" in page.texts("h2")
    assert page.links()["Show all events"] == reverse("session", kwargs=mixed._asdict())


def test_a_filter_stays_on_the_way_to_earlier_events(ref: SessionRef, maria: Browser) -> None:
    fill(ref, 100)
    page = open_session(maria, ref, kind="messages", author="agent")
    earlier = maria.open(page.links()["Earlier events"])
    assert ids(earlier) == [f"e{n}" for n in range(1, 51)]
    assert earlier.one("nav", "toolbar").one("a", aria_current="true").text.startswith("Messages")


@pytest.mark.parametrize("name", ["session", "events"])
@pytest.mark.parametrize("kind", ["nonsense", "<b>", "errors'--"])
def test_an_unknown_filter_is_refused_in_words(mixed: SessionRef, maria: Browser, name: str, kind: str) -> None:
    page = maria.open(name, query={"kind": kind}, status=400, **mixed._asdict())
    assert page.one("main").text.startswith(f"That didn't work There's no filter “{kind}”.")
    fragment = maria.get(reverse(name, kwargs=mixed._asdict()), {"kind": kind}, headers={"HX-Request": "true"})
    assert (fragment.status_code, fragment["Content-Type"]) == (400, "text/plain; charset=utf-8")


def test_the_numbers_of_a_session_come_as_a_fragment(
    mixed: SessionRef, maria: Browser, add: Callable[..., str]
) -> None:
    add(mixed, {"text": "x"}, usage_metadata={"total_token_count": 2100})
    page = open_session(maria, mixed)
    numbers = maria.open(page.one("span", id="stats")["hx-get"], htmx=True)
    assert [span.text for span in numbers.all("span") if "id" not in span] == [
        "1 turn",
        "6 events",
        "2.1k tokens",
    ]
    counts = {span["id"]: span.text for span in numbers.all("span", hx_swap_oob="true")}
    assert counts == {
        "count-messages": "2",
        "count-tools": "1",
        "count-state": "2",
        "count-errors": "1",
        "count-edits": "1",
    }
    assert counts.keys() <= {element.attributes.get("id") for element in page.every()}


# --- State ------------------------------------------------------------------------------------------------------------


def scopes(page: Element) -> dict[str, dict[str, str]]:
    """The state panel: keys by scope, each with its value."""
    found: dict[str, dict[str, str]] = {}
    for element in page.one(id="state").every():
        if element.tag == "h3":
            rows = found.setdefault(element.classes[1], {})
        elif "data-row" in element:
            rows[element.one("span", "key").text] = element.one("span", "value").text
    return found


def written_by(page: Element) -> dict[str, Element]:
    """The state panel: what stands at the end of each key's row."""
    rows = page.one(id="state").all("div", "kv")
    return {row.one("span", "key").text: row.one("span", "by") for row in rows if row.all("span", "key")}


def test_the_state_panel_shows_the_merged_state_by_scope(ref: SessionRef, maria: Browser) -> None:
    assert scopes(open_session(maria, ref)) == {
        "app": {"app:limit": "10"},
        "user": {"user:tier": '"gold"'},
        "session": {"count": "3", "nothing": "null", "step": '"choose"'},
    }


def test_a_sessions_own_keys_come_first_and_those_with_an_underscore_last_among_them(
    ref: SessionRef, maria: Browser, add: Callable[..., str]
) -> None:
    at = add(ref, actions={"state_delta": {"_adk": 1, "__meta__": 2, "zoo": 3}})
    now, then = open_session(maria, ref), open_session(maria, ref, at=at).one(id="moment")
    assert list(scopes(now)) == ["session", "user", "app"]
    assert list(scopes(now)["session"]) == ["count", "nothing", "step", "zoo", "__meta__", "_adk"]
    keys = [row["data-key-row"] for row in then.all("div", "staterow")]
    assert keys == ["count", "nothing", "step", "zoo", "__meta__", "_adk", "user:tier", "app:limit"]


def test_each_key_names_the_event_that_last_wrote_it(
    ref: SessionRef, maria: Browser, add: Callable[..., str], actor: Actor
) -> None:
    written = add(ref, actions={"state_delta": {"step": "pay", "user:tier": "silver"}})
    edit_state(ref, [Entry("user:tier", "gold", "silver")], actor=actor)
    by = written_by(open_session(maria, ref))
    assert by["step"].links()["event"] == reverse("session", kwargs=ref._asdict()) + f"?at={written}"
    assert by["user:tier"].text == "maria"
    assert by["count"].text == "created"
    assert by["nothing"].text == "created"


def test_a_value_that_is_not_the_initial_one_is_not_called_initial(
    ref: SessionRef, maria: Browser, actor: Actor
) -> None:
    edit_user_state(*ref[:3], [Entry("user:step", "mine", ABSENT)], actor=actor)
    execute(ref.source, "UPDATE sessions SET state = json_set(state, '$.count', 4)")  # an old ADK, without an event
    by = written_by(open_session(maria, ref))
    assert {name: by[name].text for name in ("step", "count", "user:step")} == {
        "step": "created",
        "count": "–",
        "user:step": "maria",
    }


def test_nothing_is_called_initial_where_nobody_recorded_what_a_session_began_with(
    ref: SessionRef, maria: Browser, add: Callable[..., str]
) -> None:
    add(ref, actions={"state_delta": {"step": "pay"}})
    execute(ref.source, "UPDATE sessions SET initial_state = NULL, initial_place = NULL")  # adopted late
    execute(ref.source, "UPDATE sessions SET state = json_set(state, '$.hand', 1)")
    by = written_by(open_session(maria, ref))
    assert {name: by[name].text for name in ("step", "count", "hand")} == {"step": "event", "count": "–", "hand": "–"}


def test_a_writer_stands_only_beside_the_value_that_it_wrote(
    ref: SessionRef, maria: Browser, add: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    add(ref, actions={"state_delta": {"step": "pay", "user:tier": "silver"}})
    read = views.session

    def then_written(
        asked: SessionRef, **options: Any
    ) -> views.SessionView:  # an agent that writes between two questions of a page
        view = read(asked, **options)
        monkeypatch.setattr(views, "session", read)
        add(ref, actions={"state_delta": {"step": "done", "count": 3, "nothing": 1, "app:limit": 11}})
        return view

    monkeypatch.setattr(views, "session", then_written)
    page = open_session(maria, ref)
    by = {name: cell.text for name, cell in written_by(page).items()}
    assert scopes(page)["session"]["step"] == '"pay"'
    assert by == {"step": "–", "count": "event", "nothing": "–", "user:tier": "event", "app:limit": "–"}


def test_state_that_other_sessions_wrote_is_in_the_panel(ref: SessionRef, maria: Browser, actor: Actor) -> None:
    edit_app_state(*ref[:2], [Entry("app:new", 1, ABSENT)], actor=actor)
    edit_user_state(*ref[:3], [Entry("user:new", 2, ABSENT)], actor=actor)
    found = scopes(open_session(maria, ref))
    assert "app:new" in found["app"]
    assert "user:new" in found["user"]


def test_each_key_has_its_edit_button(ref: SessionRef, maria: Browser) -> None:
    button = open_session(maria, ref).one("a", aria_label="Edit user:tier")
    assert button["href"] == reverse("session-edit", kwargs=ref._asdict()) + "?key=user%3Atier"


def test_read_only_pages_offer_nothing_that_writes(ref: SessionRef, maria: Browser, read_only: None) -> None:
    page = open_session(maria, ref)
    addresses = " ".join(page.links().values())
    assert not any(f"/{end}/" in addresses for end in ("edit", "add", "delete", "new"))
    assert "step" in page.one(id="state").text


# --- Every event ------------------------------------------------------------------------------------------------------


def demo_sessions() -> list[tuple[str, str, str]]:
    """The names of every session of the demo."""
    with closing(sqlite3.connect(f"file:{DEMO}?mode=ro", uri=True)) as db:
        return db.execute("SELECT app_name, user_id, id FROM sessions ORDER BY 1, 2, 3").fetchall()


@pytest.mark.parametrize(
    "names", long_but(demo_sessions(), ("booking", "omar@example.com", "oslo-weekend")), ids="/".join
)
def test_every_event_of_the_demo_has_a_line_that_reads_and_a_page(
    demo: str, maria: Browser, names: tuple[str, ...]
) -> None:
    ref = SessionRef(demo, *names)
    page = open_session(maria, ref)
    assert "Earlier events" not in page.links()
    stored = query(
        demo, "SELECT id FROM events WHERE app_name = %s AND user_id = %s AND session_id = %s ORDER BY rowid", names
    )
    assert ids(page) == [event_id for (event_id,) in stored]
    for line in page.all("li", "ev"):
        words = line.one("a", "line").text
        assert any(c.isalnum() for c in words), line["id"]
        assert "doesn't recognise" not in words, words
        assert line.one("span", "who").text not in ("", "–")
        assert maria.open(line.one("a", "line")["href"]).one("h1").text == f"Event {line.one('span', 'seq').text}"
        beside = maria.open("state-at", query={"at": line.one("a", "line")["data-at"]}, htmx=True, **ref._asdict())
        assert beside.one("div", "then").text.startswith("Event")


def test_the_demo_has_events_of_many_kinds(demo: str) -> None:
    kinds = {
        view.description.kind
        for row in lists.sessions(demo, "booking", actor=SYSTEM).rows
        for view in timeline.events(row.ref, actor=SYSTEM).rows
    }
    assert len(kinds) >= len(KINDS) / 2


# An event of every kind, and what its line says.
KIND_WORDS: dict[str, tuple[dict[str, Any], str]] = {
    "edit": ({"custom_metadata": {"adkweb": {"actor": "x"}}}, "State edit"),
    "rewind": ({"actions": {"rewind_before_invocation_id": "e-1"}}, "Rewound to before e-1"),
    "compaction": (
        {"actions": {"compaction": {"compacted_content": {"parts": [{"text": "In short"}]}}}},
        "Earlier events summarised In short",
    ),
    "stopped": (
        {
            "error_code": "INVOCATION_ABORTED",
            "content": {
                "parts": [{"function_response": {"id": "c", "name": "find", "response": {"error": "Aborted"}}}]
            },
        },
        "Run stopped · find",
    ),
    "error": ({"error_code": "429", "error_message": "Slow down"}, "429 Slow down"),
    "interrupted": ({"interrupted": True, "content": {"parts": [{"text": "I was"}]}}, "Interrupted I was"),
    "auth": (
        {"content": {"parts": [{"function_call": {"name": "adk_request_credential", "id": "a"}}]}},
        "Asks for sign-in",
    ),
    "confirmation": (
        {
            "content": {
                "parts": [
                    {
                        "function_call": {
                            "name": "adk_request_confirmation",
                            "args": {"originalFunctionCall": {"name": "pay"}},
                        }
                    }
                ]
            }
        },
        "Asks for confirmation pay",
    ),
    "long_running": (
        {"content": {"parts": [{"function_call": {"name": "ask", "id": "a"}}]}, "long_running_tool_ids": ["a"]},
        "ask() long-running, waiting for an answer",
    ),
    "transfer": (
        {"actions": {"transfer_to_agent": "billing", "transfer_reason": "money"}},
        "Transfer to billing money",
    ),
    "escalation": ({"actions": {"escalate": True}}, "Escalates to its parent agent"),
    "call": (
        {"content": {"parts": [{"function_call": {"name": "find", "args": {"items": ["a"], "to": "Seoul"}}}]}},
        'find(items=["a"], to="Seoul")',
    ),
    "response": (
        {"content": {"parts": [{"function_response": {"name": "find", "response": {"result": [1, 2]}}}]}},
        "find → [1, 2]",
    ),
    "code": ({"content": {"parts": [{"executable_code": {"code": "print(1)"}}]}}, "Runs code print(1)"),
    "code_result": (
        {"content": {"parts": [{"code_execution_result": {"outcome": "OUTCOME_OK", "output": "1"}}]}},
        "Code result 1",
    ),
    "message": ({"content": {"parts": [{"text": "Hello\n there"}]}}, "Hello there"),
    "media": ({"content": {"parts": [{"inline_data": {"mime_type": "image/png", "data": "AAAA"}}]}}, "image/png"),
    "transcription": ({"output_transcription": {"text": "Hello, I said"}}, "Spoken Hello, I said"),
    "thought": ({"content": {"parts": [{"text": "Hm", "thought": True}]}}, "Thinks Hm"),
    "output": ({"output": {"a": 1}}, "Output {a: 1}"),
    "artifact": ({"actions": {"artifact_delta": {"items": 2}}}, "Saves items v2"),
    "state": ({"actions": {"state_delta": {"a": 1}}}, "State change"),
    "checkpoint": ({"actions": {"end_of_agent": True}}, "Agent finished"),
    "finish": ({"turn_complete": True}, "Turn complete"),
    "remote": (
        {"custom_metadata": {"a2a:task_id": "t-1", "a2a:response": {"status": {"state": "submitted"}}}},
        "remote task t-1: submitted",
    ),
    "live": (
        {"live_session_resumption_update": {"new_handle": "h-1", "resumable": True}},
        "Live session can be resumed h-1",
    ),
    "empty": ({"branch": "a.b"}, "Event without content branch"),
    "unknown": ({"tomorrow": 1, "branch": "b"}, "Unknown event branch, tomorrow"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_event_is_told_in_words(
    ref: SessionRef, maria: Browser, add: Callable[..., str], kind: str
) -> None:
    event, words = KIND_WORDS[kind]
    event_id = add(ref, **event)
    assert timeline.event(ref, event_id, actor=SYSTEM).description.kind == kind
    assert lines(open_session(maria, ref)) == [words]
    maria.open("event", event_id=event_id, **ref._asdict())


def test_a_failed_response_is_told_as_an_error(ref: SessionRef, maria: Browser, add: Callable[..., str]) -> None:
    add(ref, {"function_response": {"name": "find", "response": {"error": "No seats"}}})
    page = open_session(maria, ref)
    assert lines(page) == ["find → error No seats"]
    assert "error" in page.one("li", "ev").classes


def test_what_was_heard_is_told(ref: SessionRef, maria: Browser, add: Callable[..., str]) -> None:
    add(ref, input_transcription={"text": "What they said"})
    add(ref, input_transcription={"text": ""}, output_transcription={"text": "What I said"})
    assert lines(open_session(maria, ref)) == ["Spoken What they said", "Spoken What I said"]


def test_a_session_of_a_file_that_was_never_adopted_is_shown_in_append_order(
    ref: SessionRef, maria: Browser, add: Callable[..., str], settings: Settings
) -> None:
    for number in range(3):
        add(ref, {"text": f"m{number}"}, timestamp=1000.0 - number)
    online.release(ref.source)
    registry.opened_files.pop(ref.source, None)
    settings.READ_ONLY = True
    page = open_session(maria, ref)
    assert lines(page) == ["m0", "m1", "m2"]
    assert page.texts("span", "seq") == ["1", "2", "3"]
    assert maria.open(page.all("a", "line")[1]["href"]).one("h1").text == "Event 2"


def test_a_deleted_session_is_not_found_any_more(ref: SessionRef, maria: Browser, actor: Actor) -> None:
    delete_session(ref, actor=actor)
    page = maria.open("session", status=404, **ref._asdict())
    assert "There's no session “s1”." in page.one("main").text


def test_an_event_that_is_no_json_is_shown_as_unknown(ref: SessionRef, maria: Browser, add: Callable[..., str]) -> None:
    event_id = add(ref, {"text": "x"})
    execute(ref.source, "UPDATE events SET event_data = '{half'")
    assert "Unknown event" in lines(open_session(maria, ref))[0]
    maria.open("event", event_id=event_id, **ref._asdict())
    assert maria.open("stats", **ref._asdict()).texts("span")[0] == "1 event"


def test_a_clock_that_went_backwards_is_shown_as_a_time_and_no_negative_duration(
    ref: SessionRef, maria: Browser, actor: Actor
) -> None:
    for at in (1_000.0, 999.1, 1_002.0):
        append_event(ref, {"author": "a", "invocation_id": "e-1", "timestamp": at}, actor=actor)
    rows = maria.open(reverse("session", kwargs=ref._asdict())).all("li", "ev")
    assert [row.one("span", "meta").text for row in rows] == ["00:16:40", "00:16:39", "+2.0 s"]


@pytest.mark.parametrize("message", ["How many days?", None, 7])
def test_an_input_is_asked_for_in_the_agent_s_words(
    ref: SessionRef, maria: Browser, actor: Actor, message: Any
) -> None:
    asks = {"name": "adk_request_input", "id": "a", "args": {"message": message, "response_schema": {"type": "object"}}}
    event = {"author": "a", "content": {"parts": [{"function_call": asks}]}, "long_running_tool_ids": ["a"]}
    append_event(ref, event, actor=actor)
    page = maria.open(reverse("session", kwargs=ref._asdict()))
    assert lines(page) == [f"Asks for input {message or ''}".strip()]


def test_a_tool_that_waits_for_its_confirmation_does_not_ask_for_it_again(
    ref: SessionRef, maria: Browser, actor: Actor
) -> None:
    asks, _words = KIND_WORDS["confirmation"]
    response = {"function_response": {"name": "pay", "id": "p", "response": {"error": "confirm"}}}
    waits = {"content": {"parts": [response]}, "actions": {"requested_tool_confirmations": {"p": {"hint": "Sure?"}}}}
    for event in (asks, waits):
        append_event(ref, {"author": "a", **event}, actor=actor)
    page = maria.open(reverse("session", kwargs=ref._asdict()))
    assert lines(page) == ["Asks for confirmation pay", "pay waiting for confirmation"]
