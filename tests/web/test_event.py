"""One event: its page, its neighbours, its data as it is; nothing in it can act in the browser."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest
from django.urls import reverse

from sessions_app.access.actor import SYSTEM, Actor
from sessions_app.domain.session_ref import SessionRef
from sessions_app.domain.state import ABSENT
from sessions_app.edits.edit import Entry, edit_state
from sessions_app.reads import timeline
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session
from tests.support.stored import as_they_happened, execute, overwrite_event
from tests.web.conftest import Browser
from tests.web.html import Element

pytestmark = pytest.mark.django_db

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
)
SVG = b'<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"><script>alert(1)</script></svg>'

NOW = 1_794_000_000.0

Add = Callable[..., str]


def open_event(maria: Browser, ref: SessionRef, event_id: str, **options: Any) -> Element:
    return maria.open("event", event_id=event_id, **ref._asdict(), **options)


def address(ref: SessionRef, event_id: str, name: str = "event", **more: Any) -> str:
    return reverse(name, kwargs={**ref._asdict(), "event_id": event_id, **more})


def test_an_event_has_its_parts_facts_and_raw_json(ref: SessionRef, maria: Browser, add: Add) -> None:
    event_id = add(
        ref,
        {"text": "Thinking", "thought": True},
        {"text": "Hello"},
        usage_metadata={"prompt_token_count": 5, "candidates_token_count": 2, "total_token_count": 7},
        model_version="gemini-x",
        finish_reason="STOP",
        branch="root.booking",
    )
    page = open_event(maria, ref, event_id)
    assert [part.one("header").text for part in page.one("ol", "parts").all("li")] == ["Thought", "Text"]
    facts = {row.one("dt").text: row.one("dd").text for row in page.one("dl", "facts").all("div")}
    assert facts["Tokens"] == "5 in · 2 out · 7 total"
    assert (facts["Author"], facts["Model"], facts["Finish reason"]) == ("agent", "gemini-x", "STOP")
    assert (facts["Event id"], facts["Invocation"], facts["Branch"]) == (event_id, "i1", "root.booking")
    assert json.loads(page.one("pre", "jsonraw").raw)["content"]["parts"][1]["text"] == "Hello"


def test_texts_are_rendered_or_raw_and_the_choice_needs_no_script(ref: SessionRef, maria: Browser, add: Add) -> None:
    event_id = add(ref, {"text": "**Three** <b>"}, {"text": "_Hm_", "thought": True})
    page = open_event(maria, ref, event_id)
    assert (page.one("strong").text, page.one("em").text) == ("Three", "Hm")
    links = page.one("nav", "textform").links()
    assert links == {"Rendered": address(ref, event_id), "Raw": address(ref, event_id) + "?text=raw"}
    raw = maria.open(links["Raw"])
    assert raw.texts("div", "plaintext") == ["**Three** <b>", "_Hm_"]
    assert raw.one("nav", "textform").one("a", aria_current="true").text == "Raw"
    beside = maria.open("state-at", query={"at": event_id, "show": "event"}, htmx=True, **ref._asdict())
    choice = beside.one("nav", "textform").all("a")[1]
    assert maria.open(choice["hx-get"], htmx=True).one(data_content="").texts("div", "plaintext")[0] == "**Three** <b>"


def test_further_parts_of_a_raw_event_are_raw(ref: SessionRef, maria: Browser, add: Add) -> None:
    event_id = add(ref, *[{"text": f"**{number}**"} for number in range(201)])
    page = open_event(maria, ref, event_id, query={"text": "raw"})
    assert maria.open(page.links()["Later"]).texts("div", "plaintext") == ["**200**"]


def test_an_event_without_texts_offers_no_choice(ref: SessionRef, maria: Browser, add: Add) -> None:
    event_id = add(ref, actions={"state_delta": {"step": "pay"}})
    assert open_event(maria, ref, event_id).all("nav", "textform") == []


def test_a_summary_and_the_reason_of_a_transfer_are_rendered(ref: SessionRef, maria: Browser, add: Add) -> None:
    told = {"compacted_content": {"parts": [{"text": "**short**"}]}, "start_timestamp": 1, "end_timestamp": 2}
    event_id = add(ref, actions={"compaction": told, "transfer_to_agent": "a", "transfer_reason": "_busy_"})
    page = open_event(maria, ref, event_id)
    assert (page.one("strong").text, page.one("em").text) == ("short", "busy")
    assert page.all("nav", "textform")


def test_the_values_before_are_told_in_every_scope_and_never_guessed(
    ref: SessionRef, maria: Browser, add: Add, actor: Actor
) -> None:
    wrote = {"step": "choose", "count": 4, "user:tier": "silver", "app:limit": 11, "app:new": 1, "temp:x": 2}
    event_id = add(ref, actions={"state_delta": wrote})
    shown = {
        "app:limit": "1011",
        "app:new": "1",
        "count": "34",
        "step": 'as before: "choose"',
        "user:tier": '"gold""silver"',
    }
    for page in (
        open_event(maria, ref, event_id),
        maria.open("state-at", query={"at": event_id, "show": "event"}, htmx=True, **ref._asdict()),
    ):
        told = {each.one("span", "name")["title"]: each.one("pre").text for each in page.all("div", "beforeafter")}
        told.pop("temp:x", None)
        assert told == shown
    (step,) = [
        each for each in maria.open("session", **ref._asdict()).texts("span", "delta") if each.startswith("step")
    ]
    assert step == 'step "choose" as before'
    execute(ref.source, "UPDATE sessions SET initial_state = NULL, initial_place = NULL")  # adopted late
    page = open_event(maria, ref, event_id)
    told = {each.one("span", "name")["title"]: each.one("pre").text for each in page.all("div", "beforeafter")}
    assert told["user:tier"] == 'before: unknown at this point"silver"'


def test_an_event_leads_to_its_neighbours_and_back(ref: SessionRef, maria: Browser, add: Add) -> None:
    first, middle, last = (add(ref, {"text": str(n)}) for n in range(3))
    links = open_event(maria, ref, middle).one("div", "actions").links()
    assert links == {
        "Earlier k": address(ref, first),
        "Later j": address(ref, last),
        "State at this event t": reverse("session", kwargs=ref._asdict()) + f"?at={middle}",
        "Back to the session esc": reverse("session", kwargs=ref._asdict()) + f"#event-{middle}",
    }
    assert list(open_event(maria, ref, first).one("div", "actions").links()) == [
        "Later j",
        "State at this event t",
        "Back to the session esc",
    ]
    assert list(open_event(maria, ref, last).one("div", "actions").links()) == [
        "Earlier k",
        "State at this event t",
        "Back to the session esc",
    ]


def test_a_call_leads_to_its_response_and_back(ref: SessionRef, maria: Browser, add: Add) -> None:
    call = add(ref, *({"function_call": {"id": i, "name": i, "args": {"items": [1]}}} for i in ("a", "b", "c")))
    add(ref, {"text": "in between"})
    response = add(ref, *({"function_response": {"id": i, "name": i, "response": {"x": 1}}} for i in ("b", "a")))
    parts = open_event(maria, ref, call).all("li", "part")
    heads = [part.all("header")[0] for part in parts]
    assert [head.one("span", "meta").text for head in heads] == ["answered #3", "answered #3", "no answer found"]
    assert heads[0].one("a")["href"] == address(ref, response)
    back = open_event(maria, ref, response).all("li", "part")[0].one("header")
    assert back.one("span", "meta").text == "called #1"
    assert back.one("a")["href"] == address(ref, call)


def test_below_a_call_is_what_became_of_it_and_how_long_it_took(ref: SessionRef, maria: Browser, add: Add) -> None:
    def outcome(call: str) -> list[str]:
        (part,) = open_event(maria, ref, call).all("li", "part")
        assert "LIS" in part.text
        head = part.all("header")[-1].text
        return [head, part.text.split(head)[1].strip()]

    def called(name: str, at: float) -> str:
        return add(ref, {"function_call": {"id": name, "name": name, "args": {"to": "LIS"}}}, timestamp=at)

    def answer(name: str, at: float, **response: Any) -> None:
        add(ref, {"function_response": {"id": name, "name": name, "response": response}}, timestamp=at)

    add(ref, {"text": "To Lisbon"}, author="user", timestamp=NOW - 2)
    worked = called("works", NOW)
    answer("works", NOW + 3, price=68)
    failed = called("fails", NOW + 4)
    answer("fails", NOW + 5, error="declined")
    raised = called("raises", NOW + 6)
    add(ref, error_code="ConnectionError", error_message="unreachable", timestamp=NOW + 36)
    as_they_happened(ref.source)
    assert outcome(worked) == ["response3.0 s", "price68"]
    assert outcome(failed) == ["error1.0 s", 'error"declined"']
    assert outcome(raised) == ["error30 s", "ConnectionError unreachable"]


def test_a_response_belongs_to_the_nearest_call_before_it(ref: SessionRef, maria: Browser, add: Add) -> None:
    calls = [add(ref, {"function_call": {"id": "again", "name": "f"}}) for _ in range(2)]
    response = add(ref, {"function_response": {"id": "again", "name": "f", "response": {}}})
    add(ref, {"function_call": {"id": "again", "name": "f"}})
    assert open_event(maria, ref, response).links()["called #2"] == address(ref, calls[1])


def test_calls_without_an_id_are_paired_with_nothing(ref: SessionRef, maria: Browser, add: Add) -> None:
    call = add(ref, {"function_call": {"name": "f"}})
    add(ref, {"function_response": {"name": "f", "response": {}}})
    assert "no answer found" in open_event(maria, ref, call).text


def test_a_long_running_call_waits_for_its_answer(ref: SessionRef, maria: Browser, add: Add) -> None:
    call = add(ref, {"function_call": {"id": "a", "name": "f"}}, long_running_tool_ids=["a"])
    assert "is waiting for an answer" in open_event(maria, ref, call).text


def test_a_state_change_shows_before_and_after(ref: SessionRef, maria: Browser, add: Add, actor: Actor) -> None:
    event_id = add(ref, actions={"state_delta": {"step": "pay"}})
    diff = open_event(maria, ref, event_id).one("pre", "diff")
    assert (diff.one("del").text, diff.one("ins").text) == ('"choose"', '"pay"')
    removed = edit_state(ref, [Entry("step", ABSENT, "pay")], actor=actor, reason="Why not").event["id"]
    page = open_event(maria, ref, removed)
    assert page.one("pre", "diff").text == '"pay"removed'
    facts = {row.one("dt").text: row.one("dd").text for row in page.one("dl", "facts").all("div")}
    assert (facts["Edited by"], facts["Reason"]) == (actor.name, "Why not")


def test_the_raw_event_is_a_download_of_what_is_stored(ref: SessionRef, maria: Browser, add: Add) -> None:
    event_id = add(ref, {"text": "</script> 👩 é"}, tomorrow={"x": [1, None]})
    response = maria.get(address(ref, event_id, "event-json"))
    assert json.loads(response.content) == timeline.event(ref, event_id, actor=SYSTEM).data
    assert response["Content-Type"] == "application/json"
    assert response["Content-Disposition"] == 'attachment; filename="event.json"'
    assert response["Content-Security-Policy"] == "default-src 'none'; sandbox"


def test_a_large_event_is_cut_on_its_page_and_whole_in_its_download(ref: SessionRef, maria: Browser, add: Add) -> None:
    event_id = add(ref, {"text": "x" * 300_000}, output=[list(range(1000)), "y" * 10_000])
    response = maria.get(address(ref, event_id))
    assert len(response.content) < 250_000
    assert len(maria.get(address(ref, event_id, "event-json")).content) > 300_000


@pytest.mark.parametrize("name", ["event", "event-json", "event-data"])
def test_an_event_that_does_not_exist_is_not_found(ref: SessionRef, maria: Browser, name: str) -> None:
    more = {"number": 0} if name == "event-data" else {}
    page = maria.open(address(ref, "gone", name, **more), status=404)
    assert "There's no event “gone” in this session" in page.one("main").text


# --- Inline data ------------------------------------------------------------------------------------------------------


def with_data(ref: SessionRef, add: Add, mime_type: str, data: bytes | str, **more: Any) -> str:
    text = base64.urlsafe_b64encode(data).decode() if isinstance(data, bytes) else data
    return add(ref, {"inline_data": {"mime_type": mime_type, "data": text, **more}})


@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
@pytest.mark.parametrize("padded", [True, False])
def test_an_image_is_shown_as_what_it_is(
    ref: SessionRef, maria: Browser, add: Add, encode: Callable[[bytes], bytes], padded: bool
) -> None:
    text = encode(PNG).decode()
    event_id = with_data(ref, add, "image/png", text if padded else text.rstrip("="), display_name="A plan")
    image = open_event(maria, ref, event_id).one("img")
    assert image["alt"] == "A plan"
    response = maria.get(image["src"])
    assert (response["Content-Type"], response.content) == ("image/png", PNG)
    assert "Content-Disposition" not in response


def test_base64_may_be_broken_into_lines(ref: SessionRef, maria: Browser, add: Add) -> None:
    event_id = with_data(ref, add, "image/png", base64.encodebytes(PNG * 3).decode())
    assert maria.get(address(ref, event_id, "event-data", number=0)).content == PNG * 3


@pytest.mark.parametrize(
    "mime_type",
    [
        "image/svg+xml",
        "text/html",
        "application/pdf",
        "IMAGE/PNG",
        "image/png; x",
        "text/html\r\nX-Evil: 1",
        "",
        "image/x",
    ],
)
def test_anything_else_is_a_download_that_no_browser_opens(
    ref: SessionRef, maria: Browser, add: Add, mime_type: str
) -> None:
    event_id = with_data(ref, add, mime_type, SVG)
    page = open_event(maria, ref, event_id)
    assert page.all("img") == []
    link = page.links()["Download"]
    assert link == address(ref, event_id, "event-data", number=0)
    response = maria.get(link)
    assert response.content == SVG
    assert response["Content-Type"] == "application/octet-stream"
    assert response["Content-Disposition"].startswith("attachment; ")
    assert response["Content-Security-Policy"] == "default-src 'none'; sandbox"
    assert response["X-Content-Type-Options"] == "nosniff"
    assert "X-Evil" not in response


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ("plan.svg", 'attachment; filename="plan.svg"'),
        ('a"b.svg', 'attachment; filename="a\\"b.svg"'),
        ("../../etc/x…html", "attachment; filename*=utf-8''x%E2%80%A6html"),
        ("..\\..\\x.bat", 'attachment; filename="x.bat"'),
        ("plans/", 'attachment; filename="data-0"'),
        ("a/..", 'attachment; filename="data-0"'),
        ("a\x1b[2J\u202egnp.exe", 'attachment; filename="a[2Jgnp.exe"'),
        ("x" * 5_000, f'attachment; filename="{"x" * 200}"'),
        ("계획.svg", "attachment; filename*=utf-8''%EA%B3%84%ED%9A%8D.svg"),
        ("a\r\nX-Evil: 1", 'attachment; filename="aX-Evil: 1"'),
        ("", 'attachment; filename="data-0"'),
        (5, 'attachment; filename="5"'),
        ("\n", 'attachment; filename="data-0"'),
    ],
)
def test_a_download_keeps_its_name(ref: SessionRef, maria: Browser, add: Add, given: Any, sent: str) -> None:
    event_id = with_data(ref, add, "image/svg+xml", SVG, display_name=given)
    assert maria.get(address(ref, event_id, "event-data", number=0))["Content-Disposition"] == sent


@pytest.mark.parametrize("text", ["a", "not base64!", "AAAA====AAAA", "é", "AAA$", "\x00"[:0] + "A=AA"])
def test_broken_base64_is_said(ref: SessionRef, maria: Browser, add: Add, text: str) -> None:
    event_id = with_data(ref, add, "image/png", text)
    page = maria.open(address(ref, event_id, "event-data", number=0), status=400)
    assert "The data in this event isn't valid base64." in page.one("main").text
    open_event(maria, ref, event_id)


def test_several_pieces_have_their_numbers(ref: SessionRef, maria: Browser, add: Add) -> None:
    pieces = [
        {"inline_data": {"mime_type": "image/png", "data": base64.b64encode(PNG + b"%d" % n).decode()}}
        for n in range(2)
    ]
    reply = {"function_response": {"name": "draw", "response": {}, "parts": [pieces[1]]}}
    event_id = add(ref, {"text": "first"}, pieces[0], reply)
    images = open_event(maria, ref, event_id).all("img")
    assert [maria.get(image["src"]).content for image in images] == [PNG + b"0", PNG + b"1"]


@pytest.mark.parametrize("number", [1, 10**30])
def test_a_piece_that_does_not_exist_is_not_found(ref: SessionRef, maria: Browser, add: Add, number: int) -> None:
    event_id = with_data(ref, add, "image/png", PNG)
    maria.open(address(ref, event_id, "event-data", number=number), status=404)


def test_a_file_elsewhere_is_named_and_not_linked(ref: SessionRef, maria: Browser, add: Add) -> None:
    event_id = add(ref, {"file_data": {"file_uri": "gs://bucket/plan.png", "mime_type": "image/png"}})
    page = open_event(maria, ref, event_id)
    assert "gs://bucket/plan.png" in page.text
    assert "Download" not in page.one("ol", "parts").links()
    assert "only its location" in maria.open(address(ref, event_id, "event-data", number=0), status=404).text


@pytest.mark.parametrize("form", ["sqlite", "postgresql"])
def test_a_time_in_milliseconds_among_seconds_is_marked(source: str, maria: Browser, actor: Actor) -> None:
    ref = create_session(source, "booking", "ana", actor=actor, session_id="s1")
    for number in range(3):
        append_event(ref, {"id": f"e{number}", "author": "a", "timestamp": 1_790_000_000.0 + number}, actor=actor)
    overwrite_event(ref, {"id": "e1", "author": "a", "timestamp": 1_790_000_001_000.0})
    page = maria.open("session", **ref._asdict())
    marked = ["time in milliseconds?" in page.one("li", id=f"event-e{number}").text for number in range(3)]
    assert marked == [False, True, False]
    assert [view.timestamp for view in timeline.events(ref, actor=SYSTEM).rows] == [
        1_790_000_000.0 + n for n in range(3)
    ]
    assert "time in milliseconds?" in open_event(maria, ref, "e1").one("dl", "facts").text
