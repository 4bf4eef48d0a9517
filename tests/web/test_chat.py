"""A session as a conversation: who said what, and in a line each what was done."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.urls import reverse

from sessions_app.access.actor import SYSTEM, Actor
from sessions_app.domain.session_ref import SessionRef
from sessions_app.domain.state import ABSENT
from sessions_app.edits.edit import Entry, edit_state
from sessions_app.reads import timeline
from sessions_app.web.html.markdown import LIMIT, Texts
from sessions_app.web.session.chat import PLAIN, Message, messages
from tests.support.bulk import fill
from tests.web.conftest import Browser
from tests.web.html import Element

pytestmark = pytest.mark.django_db

Add = Callable[..., str]


def told(ref: SessionRef) -> list[Message]:
    """The messages of a session."""
    return messages(timeline.events(ref, actor=SYSTEM).rows)


def rows(ref: SessionRef, maria: Browser) -> list[Element]:
    """The messages on the session's page "Chat"."""
    return maria.open("chat", **ref._asdict()).all("li", "message")


def call(name: str, call_id: str = "c", **arguments: Any) -> dict[str, Any]:
    return {"function_call": {"id": call_id, "name": name, "args": arguments}}


def answer(name: str, response: Any, call_id: str = "c") -> dict[str, Any]:
    return {"function_response": {"id": call_id, "name": name, "response": response}}


def test_messages_are_rendered_under_the_name_of_who_said_them(ref: SessionRef, maria: Browser, add: Add) -> None:
    add(ref, {"text": "Which is **cheapest**?"}, author="user")
    add(ref, {"text": "# One\n\n- `TP431`"}, author="booking")
    add(ref, {"text": "And another."}, author="booking")
    asked, first, second = rows(ref, maria)
    assert asked.one("span", "who").text == "ana"  # the session's user
    assert "asks" in asked.classes
    assert asked.one("strong").text == "cheapest"
    assert first.one("span", "who").text == "booking"
    assert (first.one("h3").text, first.one("code").text) == ("One", "TP431")
    assert second.all("span", "who") == []  # the same author goes on
    assert second.one("p").text == "And another."


def test_a_call_and_its_answer_are_one_line_that_opens(ref: SessionRef, maria: Browser, add: Add) -> None:
    asked = add(ref, call("search", to="ICN", days=[1, 2]), timestamp=1_793_000_000)
    given = add(
        ref, answer("search", {"result": ["TP431"]}), timestamp=1_793_000_002, actions={"state_delta": {"n": 1}}
    )
    (row,) = rows(ref, maria)
    line = row.one("details", "fold").all("summary")[0]
    assert line.text == 'search (to="ICN", days=[1, 2]) → ["TP431"]'
    assert row.one("a", "when").text == "≤ 2.0 s"  # when the call's row was stored contradicts its time
    address = {name: reverse("event", kwargs={**ref._asdict(), "event_id": name}) for name in (asked, given)}
    links = row.one("div", "inner").links()
    assert (links["Arguments"], links["Answer"]) == (address[asked], address[given])
    assert [each["title"] for each in row.one("div", "inner").all("span", "key")] == [
        "to",
        "days",
        "0",
        "1",
        "result",
        "0",
    ]
    assert row.one("span", "delta").text == "n 1"


def test_a_failed_call_says_why(ref: SessionRef, maria: Browser, add: Add) -> None:
    add(ref, call("pay", amount=5))
    add(ref, answer("pay", {"error": "card declined"}))
    (row,) = rows(ref, maria)
    assert "failed" in row.classes
    assert row.one("span", "answered").text == "→ failed card declined"


def test_a_call_that_a_stop_ended_has_not_failed(ref: SessionRef, maria: Browser, add: Add) -> None:
    add(ref, call("pay", amount=5))
    add(ref, answer("pay", {"error": "Invocation was aborted by client."}), error_code="INVOCATION_ABORTED")
    pay, stop = rows(ref, maria)
    assert "failed" not in pay.classes
    assert pay.one("span", "answered").text == "→ stopped"
    assert stop.text.startswith("Run stopped · pay")


def test_a_call_that_an_error_ended_has_failed(ref: SessionRef, maria: Browser, add: Add) -> None:
    add(ref, call("look", call_id="a"), timestamp=1_793_000_000)
    add(ref, answer("look", {"seats": 2}, call_id="a"), timestamp=1_793_000_001)
    add(ref, call("pay"), timestamp=1_793_000_002)
    ended = add(ref, error_code="CardError", error_message="declined", timestamp=1_793_000_004)
    _, pay, _ = rows(ref, maria)
    assert "failed" in pay.classes
    assert pay.one("summary").text == "pay () failed"
    assert pay["data-ends"] == ended
    assert pay.one("a", "when").text == "≈ 2.0 s"
    answered, called, error = timeline.events(ref, actor=SYSTEM).rows[1:]
    assert messages([error], after=called)[0].stops is called  # the call's line stands on the page already
    assert messages([error], after=answered)[0].stops is None


@pytest.mark.parametrize(
    ("more", "said"), [({}, "no answer"), ({"long_running_tool_ids": ["c"]}, "is waiting for an answer")]
)
def test_a_call_without_an_answer_says_so(
    ref: SessionRef, maria: Browser, add: Add, more: dict[str, Any], said: str
) -> None:
    add(ref, call("pay"), **more)
    (row,) = rows(ref, maria)
    assert row.one("summary").text == f"pay () {said}"


def test_answers_find_their_calls_by_id_or_else_by_name_and_order(ref: SessionRef, add: Add) -> None:
    add(ref, call("f", "a"), call("f", "b"), call("f", ""))
    add(ref, answer("f", {"n": 1}, "b"), answer("f", {"n": 2}, ""), answer("f", {"n": 3}, "of an earlier page"))
    shown = [(bool(each.call), each.answered) for each in told(ref)]
    assert shown == [(True, ""), (True, "{n: 1}"), (True, "{n: 2}"), (False, "{n: 3}")]


def test_what_was_understood_so_far_gives_way_to_the_whole(ref: SessionRef, maria: Browser, add: Add) -> None:
    add(ref, author="user", input_transcription={"text": "two lamps please", "finished": True})
    add(ref, author="clerk", output_transcription={"text": "Two ", "finished": False})
    add(ref, author="clerk", output_transcription={"text": "Two lamps, yes", "finished": True})
    add(ref, author="clerk", output_transcription={"text": "Anything", "finished": False})
    assert [row.one("div", "what").text for row in rows(ref, maria)] == [
        "two lamps please",
        "Two lamps, yes",
        "Anything",
    ]


def test_sources_are_links_and_an_answer_that_was_cut_says_so(ref: SessionRef, maria: Browser, add: Add) -> None:
    web = {"web": {"uri": "https://example.com/a?b=<c>", "title": "<b>Fares</b>"}}
    bad = {"web": {"uri": "javascript:alert(1)", "title": "x"}}
    event_id = add(
        ref,
        {"text": "From 412 EUR"},
        author="clerk",
        finish_reason="MAX_TOKENS",
        grounding_metadata={"grounding_chunks": [web, bad]},
    )
    said, links, cut = rows(ref, maria)
    assert said.one("p").text == "From 412 EUR"
    assert links.one("ul").links() == {"<b>Fares</b>": "https://example.com/a?b=<c>"}
    assert cut.one("p").text == "cut off: MAX_TOKENS"
    page = maria.open("event", event_id=event_id, **ref._asdict())
    assert page.one("ul", "sources").links() == {"<b>Fares</b>": "https://example.com/a?b=<c>"}
    assert "cut off: MAX_TOKENS" in page.text


def test_the_answer_after_a_confirmation_is_the_one_that_stays(ref: SessionRef, add: Add) -> None:
    add(ref, call("pay", "p"))
    add(
        ref,
        answer("pay", {"error": "This tool call requires confirmation"}, "p"),
        actions={"requested_tool_confirmations": {"p": {"hint": "Pay?"}}},
    )
    add(ref, call("adk_request_confirmation", "q", originalFunctionCall={"name": "pay"}), long_running_tool_ids=["q"])
    add(ref, answer("adk_request_confirmation", {"confirmed": True}, "q"), author="user")
    add(ref, answer("pay", {"paid": True}, "p"))
    assert [(each.kind, each.answered) for each in told(ref)] == [
        ("tool", "{paid: true}"),
        ("note", ""),  # asks for a confirmation
        ("tool", "{confirmed: true}"),
    ]


def test_a_transfer_is_told_once(ref: SessionRef, maria: Browser, add: Add) -> None:
    add(ref, call("transfer_to_agent", agent_name="billing"))
    add(ref, answer("transfer_to_agent", {}), actions={"transfer_to_agent": "billing"})
    (row,) = rows(ref, maria)
    assert row.one("div", "aside").text == "Transfer to billing"


def test_an_edit_is_one_line_with_who_what_and_why(ref: SessionRef, maria: Browser, actor: Actor) -> None:
    edit_state(ref, [Entry("user:tier", "silver", "gold")], actor=actor, reason="moved by **phone**")
    edit_state(ref, [Entry("step", ABSENT, "choose")], actor=actor)
    changed, removed = rows(ref, maria)
    assert changed.one("span", "who").text == actor.name
    assert changed.one("div", "aside").text == 'set user:tier "gold" "silver" — moved by **phone**'
    assert removed.one("div", "aside").text == 'set step "choose" removed'


def test_an_edit_minutes_after_another_stands_under_a_name_and_a_time_of_its_own(ref: SessionRef, actor: Actor) -> None:
    for number in range(3):
        edit_state(ref, [Entry("n", number, number - 1 if number else ABSENT)], actor=actor)
    events = timeline.events(ref, actor=SYSTEM).rows
    events[0].timestamp -= 420
    assert [each.follows for each in messages(events)] == [False, False, True]


def test_thoughts_and_code_are_folded(ref: SessionRef, maria: Browser, add: Add) -> None:
    add(ref, {"text": "**Fares**\n\nTwo of them", "thought": True})
    add(
        ref, {"executable_code": {"code": "1 + 1"}}, {"code_execution_result": {"outcome": "OUTCOME_OK", "output": "2"}}
    )
    folded = [row.one("details", "fold") for row in rows(ref, maria)]
    assert [each.one("summary").text for each in folded] == ["Thought Fares Two of them", "Code 1 + 1", "Code result 2"]
    assert not any("open" in each for each in folded)
    assert folded[0].one("strong").text == "Fares"


def test_images_are_small_and_files_have_their_sizes(ref: SessionRef, maria: Browser, add: Add) -> None:
    png = {"inline_data": {"mime_type": "image/png", "data": "AAAA", "display_name": "pass.png"}}
    pdf = {"inline_data": {"mime_type": "application/pdf", "data": "A" * 4096, "display_name": "fares.pdf"}}
    there = {"file_data": {"mime_type": "video/mp4", "file_uri": "gs://bucket/film.mp4"}}
    event_id = add(ref, {"text": "Here"}, png, pdf, there, author="user")
    text, media = rows(ref, maria)
    assert text.one("p").text == "Here"
    image = media.one("a", "thumbnail").one("img")
    address = reverse("event-data", kwargs={**ref._asdict(), "event_id": event_id, "number": 0})
    assert (image["src"], image["alt"], image["width"], image["height"]) == (address, "pass.png", "24", "24")
    assert media.one("a", "thumbnail")["href"] == address
    assert [each.text for each in media.all("a", "piece")] == ["fares.pdf3.0 KB", "gs://bucket/film.mp4"]


def test_an_error_is_told_in_words(ref: SessionRef, maria: Browser, add: Add) -> None:
    add(ref, error_code="RESOURCE_EXHAUSTED", error_message="try again in 41 s")
    (row,) = rows(ref, maria)
    assert "failed" in row.classes
    assert row.one("p", "aside").text == "RESOURCE_EXHAUSTED try again in 41 s"


def test_a_text_that_is_too_long_is_shown_as_it_is_with_a_link_to_all(
    ref: SessionRef, maria: Browser, add: Add
) -> None:
    event_id = add(ref, {"text": "**a** " * LIMIT})
    (row,) = rows(ref, maria)
    shown = row.one("div", "plaintext")
    assert shown.raw == ("**a** " * LIMIT)[:PLAIN] + "… show all"
    assert shown.links() == {"show all": reverse("event", kwargs={**ref._asdict(), "event_id": event_id})}


def test_one_page_renders_only_so_much_however_many_turns_it_has(ref: SessionRef, add: Add) -> None:
    add(ref, {"text": "**a** " * 3_000})
    events = timeline.events(ref, actor=SYSTEM).rows
    texts = Texts()
    turns = [messages(events, texts)[0].text for _ in range(7)]
    assert [bool(text and text.formatted) for text in turns] == [True] * 5 + [False] * 2


def test_a_long_session_is_read_page_by_page(ref: SessionRef, maria: Browser) -> None:
    fill(ref, 250)
    names = ref._asdict()
    page, seen = maria.open("chat", **names), []
    while True:
        seen.append([row["data-event"] for row in page.all("li", "message")])
        if "Earlier events" not in (links := page.one(id="events").links()):
            break
        page = maria.open(links["Earlier events"])
    everything = [each for part in reversed(seen) for each in part]
    assert len(seen) == 5
    assert len(everything) == len(set(everything))
    assert everything == sorted(everything, key=lambda name: int(name[1:]))


def test_an_empty_session_says_so(ref: SessionRef, maria: Browser) -> None:
    assert maria.open("chat", **ref._asdict()).one("div", "empty").one("h2").text == "No events yet"


def test_only_who_may_see_the_app_reads_it(ref: SessionRef, guest: Browser) -> None:
    assert guest.get(reverse("chat", kwargs=ref._asdict())).status_code == 302
