"""The page that shows what the model got, and the timeline's grey."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args
from unittest.mock import Mock

import pytest
from django.urls import reverse
from pytest_django import Settings

from sessions_app.access.actor import Actor
from sessions_app.agent_view import conversation, instructions
from sessions_app.agent_view.conversation import LeftOut
from sessions_app.agent_view.exclusion import Kind
from sessions_app.domain.errors import Behind
from sessions_app.domain.session_ref import SessionRef
from sessions_app.edits.edit import Entry, edit_state
from sessions_app.history.index import build
from sessions_app.sources import database, online
from sessions_app.web import agent_view
from sessions_app.web.agent_view import Fold
from sessions_app.writes.sessions import create_session
from tests.web.conftest import Browser
from tests.web.html import Element, page_of

pytestmark = pytest.mark.django_db

Add = Callable[..., str]


def opened(browser: Browser, session: SessionRef, **query: str) -> Element:
    return browser.open("context", **session._asdict(), query=query)


def contents(page: Element) -> list[str]:
    """What arrives, and what does not with its reason."""
    lines = [line for line in page.all("li") if {"content", "out"} & set(line.classes)]
    return [line.one(class_="body" if "content" in line.classes else "why").text for line in lines]


def heading(page: Element) -> str:
    """Which moment the page says that it shows."""
    head = page.one("header", "pagehead")
    return f"{head.one('h1').text}; {head.one(class_='sub').all('span')[0].text}"


def text(browser: Browser, ref: SessionRef, template: str) -> Element:
    """The preview of a typed template, as htmx asks for it."""
    response = browser.send(f"{reverse('context', kwargs=ref._asdict())}", {"template": template}, htmx=True)
    assert response.status_code == 200
    return page_of(response)


# --- The moment -------------------------------------------------------------------------------------------------------


def test_an_event_that_a_model_wrote_shows_what_the_model_got(ref: SessionRef, maria: Browser, add: Add) -> None:
    add(ref, {"text": "where to?"}, author="user", actions={"state_delta": {"step": "ask"}})
    said = add(ref, {"text": "to Lisbon"}, actions={"state_delta": {"step": "said", "prompt": "Be at {step}."}})
    page = opened(maria, ref, at=said)
    assert heading(page) == "What the model got · event 2; the state and events just before this event"
    assert contents(page) == ["where to?"]
    assert page.one("textarea").raw == "\n"
    typed = maria.send(page.one("form", id="typed")["action"], {"template": "{step}"}, htmx=True)
    assert page_of(typed).one(class_="filled").raw == "ask"
    after = maria.open(page.links()["After this event"])
    assert heading(after) == "What the model gets next · after event 2; the state and events up to this event"
    assert contents(after) == ["where to?", "to Lisbon"]
    taken = {**after.one("form", "fromkey").fields(), "key": "prompt"}
    assert opened(maria, ref, **taken).one(class_="filled").raw == "Be at said."
    typed = maria.send(after.one("form", id="typed")["action"], {"template": "{step}"}, htmx=True)
    assert page_of(typed).one(class_="filled").raw == "said"
    assert contents(maria.open(after.links()["For this event"])) == ["where to?"]
    assert after.one("nav", "momenttabs").one("a", **{"aria-current": "true"}).text == "After this event"


def test_an_event_that_no_model_wrote_shows_what_the_next_call_gets(
    ref: SessionRef, maria: Browser, add: Add, actor: Actor
) -> None:
    asked = add(ref, {"text": "where to?"}, author="user")
    call = {"function_call": {"id": "c", "name": "f", "args": {}}}
    add(ref, call)
    answer = {"function_response": {"id": "c", "name": "f", "response": {"ok": True}}}
    result = add(ref, content={"role": "user", "parts": [answer]})
    edited = edit_state(ref, [Entry("step", "pay", "choose")], actor=actor, reason="").event["id"]
    for event, number in ((asked, 1), (result, 3), (edited, 4)):
        page = opened(maria, ref, at=event)
        assert (
            heading(page) == f"What the model gets next · after event {number}; the state and events up to this event"
        )
        assert "For this event" not in page.links()
    assert heading(opened(maria, ref)) == "What the model gets next; the state and events as they are now"


def test_tokens_tell_that_a_model_wrote_an_event_without_words(ref: SessionRef, maria: Browser, add: Add) -> None:
    add(ref, {"text": "where to?"}, author="user")
    failed = add(ref, error_code="MAX_TOKENS", usage_metadata={"prompt_token_count": 12})
    assert contents(opened(maria, ref, at=failed)) == ["where to?"]


def test_the_model_of_an_event_reads_as_that_event_says(ref: SessionRef, maria: Browser, add: Add) -> None:
    add(ref, {"text": "hello"}, author="user")
    add(ref, {"text": "on the left"}, author="left", branch="root.left")
    right = add(ref, {"text": "on the right"}, author="right", branch="root.right")
    add(ref, {"text": "again"}, author="right", branch="root.other")
    page = opened(maria, ref, at=right)
    assert contents(page) == ["hello", "from another branch"]
    chosen = page.one("form", "reader").fields()
    assert chosen["agent"] == "right"
    assert contents(opened(maria, ref, **chosen)) == ["hello", "from another branch"]
    assert "its own: root.right" in page.one(id="branch").text
    assert contents(opened(maria, ref, at=right, agent="left")) == ["hello", "on the left"]


def test_the_very_first_call_got_nothing_but_its_instruction(ref: SessionRef, maria: Browser, add: Add) -> None:
    page = opened(maria, ref, at=add(ref, {"text": "hello"}))
    assert contents(page) == []
    assert "No events yet" in page.one(id="conversation").text


def test_an_event_that_a_model_wrote_leads_to_what_it_got(ref: SessionRef, maria: Browser, add: Add) -> None:
    asked = add(ref, {"text": "where to?"}, author="user")
    said = add(ref, {"text": "to Lisbon"})
    for page in (
        maria.open("event", **ref._asdict(), event_id=said),
        maria.open("state-at", **ref._asdict(), query={"at": said, "show": "event"}, htmx=True),
    ):
        assert contents(maria.open(page.links()["What the model got"])) == ["where to?"]
    assert "What the model got" not in maria.open("event", **ref._asdict(), event_id=asked).links()


# --- The instruction --------------------------------------------------------------------------------------------------


def test_the_size_and_the_instruction_are_a_line_each_above_the_messages(
    ref: SessionRef, maria: Browser, add: Add
) -> None:
    add(ref, {"text": "hello"}, author="user")
    page = opened(maria, ref)
    assert page.one(id="instruction-line").text == "Instruction unknown Add it"
    assert [each for each in page.one("main").all("details") if "open" in each] == []
    order = [page.raw.rindex(words) for words in ("About 1 token comes", "Instruction unknown", "hello")]
    assert order == sorted(order)
    typed = page_of(maria.send("context", {"template": "Be kind."}, **ref._asdict()))
    assert typed.one(id="instruction-line").text == "Instruction 8 characters"
    assert "open" in typed.one(id="instruction")


def test_a_typed_template_shows_each_placeholder_with_scope_value_and_writer(
    ref: SessionRef, maria: Browser, add: Add
) -> None:
    by = add(ref, actions={"state_delta": {"step": "pay"}})
    found = text(maria, ref, 'Hi {user:tier}, {step}. {nothing} { "json": 1 } ${step}')
    assert found.one(class_="filled").raw == 'Hi gold, pay.  { "json": 1 } ${step}'
    marked = [(mark.classes[1], mark.raw) for mark in found.all("span", "ph")]
    assert marked == [("user", "gold"), ("session", "pay"), ("session", "")]
    named = found.one(class_="placeholders").all("li")
    assert [each.text for each in named] == [
        'user:tier "gold" at creation',
        'step "pay" #1 agent',
        "nothing null: left empty at creation",
    ]
    assert by in named[1].one("a")["href"]


def test_what_is_missing_is_an_error_in_its_place(ref: SessionRef, maria: Browser) -> None:
    found = text(maria, ref, "a {gone} b {gone?} c {temp:x} d {artifact.a}")
    assert found.one(class_="filled").raw == "a {gone} b  c {temp:x} d {artifact.a}"
    assert [mark.raw for mark in found.all("span", "bad") if "ph" in mark.classes] == [
        "{gone}",
        "{temp:x}",
        "{artifact.a}",
    ]
    assert found.one(id="instruction-line").one(class_="bad").text == (
        "ADK stops here with an error: {gone}, {temp:x}, {artifact.a}"
    )
    assert "missing but optional: left empty" in found.text


def test_an_artifact_is_there_with_its_version_and_without_its_text(ref: SessionRef, maria: Browser, add: Add) -> None:
    add(ref, actions={"artifact_delta": {"notes.md": 2}})
    found = text(maria, ref, "{artifact.notes.md}")
    assert "version 2; its text is not in the session" in found.text
    assert "ADK stops" not in found.text


def test_a_link_takes_the_template_from_the_state_at_an_event(
    ref: SessionRef, maria: Browser, add: Add, actor: Actor
) -> None:
    first = add(ref, actions={"state_delta": {"prompt": "Be at {step}."}})
    edit_state(ref, [Entry("prompt", "{count}!", "Be at {step}.")], actor=actor, reason="")
    now = opened(maria, ref, key="prompt")
    assert now.one("textarea").raw.strip() == "{count}!"
    assert now.one(class_="filled").raw == "3!"
    then = opened(maria, ref, key="prompt", at=first)
    assert then.one(class_="filled").raw == "Be at choose."
    assert then.one("h1").text == "What the model gets next · after event 1"
    assert "open" in then.one(id="instruction")
    assert then.one("option", value="prompt")["selected"] == ""


@pytest.mark.parametrize(
    ("name", "status", "message"),
    [
        ("gone", 404, "There's no key “gone” in this state."),
        ("count", 400, "isn't a string, so it can't be used as a template"),
    ],
)
def test_a_key_that_holds_no_template_is_told(
    ref: SessionRef, maria: Browser, name: str, status: int, message: str
) -> None:
    page = maria.open("context", **ref._asdict(), query={"key": name}, status=status)
    assert message in page.one(id="preview").text


def test_without_scripts_a_button_fills_the_template_in_and_keeps_it(ref: SessionRef, maria: Browser) -> None:
    form = opened(maria, ref).one("form", id="typed")
    assert form.one("noscript").one("button").text == "Fill in"
    response = maria.send(form["action"], {"template": "line\r\n{step}"})
    page = page_of(response)
    assert page.one("textarea").raw == "\nline\n{step}"
    assert page.one(class_="filled").raw == "line\nchoose"


def test_a_template_that_is_too_long_is_kept_and_told(
    ref: SessionRef, maria: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(instructions, "LONGEST", 10)
    response = maria.send("context", {"template": "x" * 11}, **ref._asdict())
    assert response.status_code == 400
    page = page_of(response)
    assert page.one("textarea").raw.strip() == "x" * 11
    assert "A template can have up to 10 characters." in page.one(id="preview").text


def test_a_template_of_100_kb_full_of_placeholders_is_shown_in_part(ref: SessionRef, maria: Browser) -> None:
    found = text(maria, ref, "{step} {step?} {}{{{" * 5_000)
    assert len(found.all("span", "ph")) == agent_view.MARKED
    assert "more placeholders are filled in but not marked" in found.text


def test_a_value_as_large_as_can_be_is_cut(ref: SessionRef, maria: Browser, add: Add) -> None:
    add(ref, actions={"state_delta": {"big": "<b>" * 100_000}})
    found = text(maria, ref, "{big}{big}")
    assert "… 298,000 more characters" in found.one(class_="filled").raw
    assert "600,000 characters" in found.raw


@pytest.mark.parametrize(
    "template", ["<script>alert(1)</script>{step}", "{‮step}", "{" * 50_000, "\\{step} {a.b}", "\0{step}"]
)
def test_a_hostile_template_is_text(ref: SessionRef, maria: Browser, template: str) -> None:
    found = text(maria, ref, template)
    assert found.one(class_="filled").raw == template.replace("script>{step}", "script>choose").replace(
        "\0{step}", "\0choose"
    )


# --- The conversation -------------------------------------------------------------------------------------------------


def test_the_conversation_shows_what_the_model_gets_and_why_not_the_rest(
    ref: SessionRef, maria: Browser, add: Add
) -> None:
    add(ref, {"text": "Hello"}, author="user", invocation_id="i1")
    add(ref, {"text": "Wrong"}, invocation_id="i2")
    by = add(ref, invocation_id="i3", actions={"rewind_before_invocation_id": "i2"})
    add(ref, {"text": "Charged"}, author="billing", branch="agent.billing", invocation_id="i4")
    add(ref, {"text": "Elsewhere"}, author="fares", branch="fares", invocation_id="i4")
    add(ref, {"text": "Right"}, branch="agent.billing", invocation_id="i5")
    page = opened(maria, ref)
    assert contents(page) == [
        "Hello",
        "undone by the rewind #3",
        "the rewind itself",
        "[billing] said: Charged",
        "from another branch",
        "Right",
    ]
    assert by in page.all(class_="why")[0].one("a")["href"]
    assert contents(opened(maria, ref, agent="fares"))[-2:] == ["Elsewhere", "from another branch"]
    form = page.one("form", "reader")
    assert [option.text for option in form.one(id="branch").all("option")] == [
        "its own: agent.billing",
        "none",
        "agent.billing",
        "fares",
    ]
    assert [option.text for option in form.all("option", selected="")] == ["agent"]
    assert "from another branch" not in contents(opened(maria, ref, agent="fares", branch="."))
    assert opened(maria, ref, branch="fares").one("form", "reader").fields()["branch"] == "fares"


def folds(page: Element) -> list[str]:
    return [fold.one("summary").text for fold in page.all("li", "omitted")]


def test_what_the_model_does_not_get_is_folded_with_its_reasons_counted(
    ref: SessionRef, maria: Browser, add: Add
) -> None:
    for number in range(3):
        add(ref, {"text": f"t{number}"}, timestamp=1_790_000_000.0 + number)
    content = {"role": "model", "parts": [{"text": "short"}]}
    times = {"start_timestamp": 1_790_000_000.0, "end_timestamp": 1_790_000_002.0}
    add(ref, author="user", timestamp=1_790_000_003.0, actions={"compaction": {**times, "compacted_content": content}})
    add(ref, {"text": "then"}, author="user", timestamp=1_790_000_004.0, invocation_id="i2")
    add(ref, {"text": "there"}, author="fares", branch="fares", timestamp=1_790_000_005.0, invocation_id="i2")
    add(ref, timestamp=1_790_000_006.0, invocation_id="i2", actions={"state_delta": {"step": "pay"}})
    add(ref, timestamp=1_790_000_007.0, invocation_id="i2", actions={"state_delta": {"step": "paid"}})
    last = add(ref, {"text": "here"}, branch="agent", timestamp=1_790_000_008.0, invocation_id="i2")
    page = opened(maria, ref, at=last)
    assert folds(page) == ["3 events summarised", "3 events left out: 2 without content, 1 from another branch"]
    assert page.texts(class_="body") == ["short", "then"]
    assert all("open" not in fold.one("details") for fold in page.all("li", "omitted"))
    assert page.all("li", "omitted")[0].texts("span", "why") == ["summarised by #4"] * 3


def test_a_conversation_at_an_event_knows_nothing_of_what_came_later(ref: SessionRef, maria: Browser, add: Add) -> None:
    first = add(ref, {"text": "One"}, invocation_id="i1")
    add(ref, {"text": "Two"}, invocation_id="i2")
    add(ref, invocation_id="i3", actions={"rewind_before_invocation_id": "i1"})
    assert contents(opened(maria, ref, at=first, after="1")) == ["One"]
    last = add(ref, {"text": "Three"}, invocation_id="i4")
    assert contents(opened(maria, ref, at=last)) == ["undone by the rewind #3"] * 2 + ["the rewind itself"]


def test_a_long_conversation_is_paged_in_place_and_as_pages(
    ref: SessionRef, maria: Browser, add: Add, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversation, "PAGE", 3)
    for number in range(7):
        add(ref, {"text": f"t{number}"})
    page = opened(maria, ref)
    assert contents(page) == ["t4", "t5", "t6"]
    link = page.one(class_="earlier").one("a")
    earlier = maria.open(link["hx-get"], htmx=True)
    assert contents(earlier) == ["t1", "t2", "t3"]
    whole = maria.open(link["href"].partition("#")[0])
    assert contents(whole) == ["t1", "t2", "t3"]
    assert "Jump to end" in whole.links()


def test_a_session_without_events_says_so(ref: SessionRef, maria: Browser) -> None:
    assert "No events yet" in opened(maria, ref).one(id="conversation").text


def test_an_event_or_session_that_is_gone_is_not_found(ref: SessionRef, maria: Browser) -> None:
    maria.open("context", **ref._asdict(), query={"at": "never"}, status=404)
    maria.open("context", **{**ref._asdict(), "session_id": "never"}, status=404)


def test_a_person_who_may_only_read_sees_it_all(ref: SessionRef, maria: Browser, add: Add, settings: Settings) -> None:
    add(ref, {"text": "Hello"})
    settings.READ_ONLY = True
    assert contents(opened(maria, ref)) == ["Hello"]
    assert text(maria, ref, "{step}").one(class_="filled").raw == "choose"


@pytest.mark.parametrize("form", ["sqlite", "postgresql"])
def test_of_a_database_that_was_never_adopted_the_conversation_is_shown_and_the_state_as_far_as_it_is_known(
    form: str,
    new_database: Callable[[str], str],
    open_source: Callable[[str], str],
    settings: Settings,
    maria: Browser,
    add: Add,
    actor: Actor,
) -> None:
    place = new_database(form)
    ref = create_session(open_source(place), "booking", "ana", session_id="s1", actor=actor)
    first = add(ref, {"text": "One"}, invocation_id="i1")
    add(ref, {"text": "Two"}, invocation_id="i2")
    add(ref, invocation_id="i3", actions={"rewind_before_invocation_id": "i2"})
    online.release(ref.source)
    database.forget(ref.source)
    settings.READ_ONLY = True
    ref = ref._replace(source=open_source(place))
    page = opened(maria, ref)
    assert len(contents(page)) == 3
    then = opened(maria, ref, at=first, after="1")
    assert contents(then) == ["One"]
    assert contents(opened(maria, ref, at=first)) == []
    assert "can't be determined" not in page.text + then.text


def test_while_a_source_is_read_the_page_says_so_and_a_typed_template_is_kept(
    ref: SessionRef, maria: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    def behind(*_args: Any, **_more: Any) -> None:
        raise Behind(share=0.5)

    monkeypatch.setattr(build, "catch_up", behind)
    assert maria.get(reverse("context", kwargs=ref._asdict())).status_code == 503
    response = maria.send("context", {"template": "mine"}, **ref._asdict())
    assert page_of(response).one("textarea").raw.strip() == "mine"


# --- The size ---------------------------------------------------------------------------------------------------------


def rows(page: Element, number: int) -> list[str]:
    return [row.text for row in page.one(id="sizes").all("table")[number].all("tr")]


def test_the_size_is_told_by_part_and_by_turn_beside_what_the_event_reports(
    ref: SessionRef, maria: Browser, add: Add
) -> None:
    add(ref, {"text": "a" * 40}, author="user", actions={"state_delta": {"prompt": "Be at {step}. " * 4}})
    add(ref, {"function_call": {"id": "c", "name": "find", "args": {"to": "x" * 60}}})
    answer = {"function_response": {"id": "c", "name": "find", "response": {"n": 1}}}
    add(ref, content={"role": "user", "parts": [answer, {"inline_data": {"mime_type": "image/png", "data": "AAAA"}}]})
    add(ref, {"text": "b" * 80}, author="user", invocation_id="i2")
    said = add(ref, {"text": "c" * 400}, usage_metadata={"prompt_token_count": 100}, invocation_id="i2")
    page = opened(maria, ref, at=said, key="prompt")
    assert rows(page, 0) == [
        "instruction ≈ 14",
        "messages ≈ 30",
        "tool calls ≈ 18",
        "tool responses ≈ 3",
        "not known here ≈ 35",
    ]
    assert rows(page, 1) == [f"{'a' * 40} ≈ 31", f"{'b' * 59}… ≈ 20"]
    sizes = page.one(id="sizes")
    assert sizes.one("summary").text == (
        "The model reported 100 tokens; about 65 of them come from the session and the instruction. "
        "The rest is tool declarations and files."
    )
    assert "1 file (3 bytes) isn't included" in sizes.one(class_="sizewords").text
    bars = [int(bar["width"]) for bar in page.one(id="sizes").all("table")[0].all("rect", "bar")]
    assert bars == [140, 300, 180, 30, 350]
    after = opened(maria, ref, at=said, after="1")
    assert after.one(id="sizes").one("summary").text == "About 151 tokens come from the session."
    assert "The instruction isn't included in the count" in after.one(class_="sizewords").text


def test_an_estimate_above_what_the_event_reports_is_told(ref: SessionRef, maria: Browser, add: Add) -> None:
    add(ref, {"text": "a" * 400}, author="user")
    said = add(ref, {"text": "b"}, usage_metadata={"prompt_token_count": 60})
    line = opened(maria, ref, at=said).one(id="sizes").one("summary").text
    assert line == "The model reported 60 tokens, 40 fewer than the estimate."


def test_of_many_turns_the_newest_are_listed_and_the_others_summed(ref: SessionRef, maria: Browser, add: Add) -> None:
    for _number in range(23):
        add(ref, {"text": "a" * 40}, author="user")
    page = opened(maria, ref)
    assert rows(page, 1) == ["3 earlier turns ≈ 30", *[f"{'a' * 40} ≈ 10"] * 20]


def test_an_earlier_page_and_an_empty_session_have_no_size(
    ref: SessionRef, maria: Browser, add: Add, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert opened(maria, ref).all(id="sizes") == []
    monkeypatch.setattr(conversation, "PAGE", 1)
    monkeypatch.setattr(conversation, "REACH", 1)
    for number in range(4):
        add(ref, {"text": f"t{number}"})
    page = opened(maria, ref)
    assert "Only the newest events are counted" in page.one(class_="sizewords").text
    assert maria.open(page.one(class_="earlier").one("a")["href"].partition("#")[0]).all(id="sizes") == []


# --- The timeline -----------------------------------------------------------------------------------------------------


def grey(page: Element) -> dict[str, str]:
    rows = [row for row in page.all("li", "ev") if "gone" in row.classes]
    return {row["id"].removeprefix("event-"): row.one(class_="gonewhy").text for row in rows}


def test_the_timeline_greys_what_was_rewound_and_says_why(ref: SessionRef, maria: Browser, add: Add) -> None:
    add(ref, {"text": "Kept"}, invocation_id="i1")
    gone = add(ref, {"text": "Gone"}, invocation_id="i2")
    add(ref, invocation_id="i3", actions={"rewind_before_invocation_id": "i2"})
    words = {gone: "rewound by 3. The agent no longer receives this event."}
    assert grey(maria.open("session", **ref._asdict())) == words
    earlier = maria.open("events", **ref._asdict(), htmx=True)
    assert grey(earlier) == words
    assert [row["id"] for row in earlier.all("li", "ev") if "data-greys" in row] == [earlier.all("li", "ev")[-1]["id"]]


def test_the_timeline_greys_what_was_summarised(ref: SessionRef, maria: Browser, add: Add) -> None:
    gone = add(ref, {"text": "Gone"}, timestamp=1_790_000_000.0)
    content = {"role": "model", "parts": [{"text": "short"}]}
    times = {"start_timestamp": 1_790_000_000.0, "end_timestamp": 1_790_000_000.0}
    add(ref, author="user", actions={"compaction": {**times, "compacted_content": content}})
    assert grey(maria.open("session", **ref._asdict())) == {
        gone: "summarised by 2. The agent no longer receives this event."
    }


def test_a_timeline_is_shown_without_grey_while_a_source_is_read(
    ref: SessionRef, maria: Browser, add: Add, monkeypatch: pytest.MonkeyPatch
) -> None:
    def behind(*_args: Any, **_more: Any) -> None:
        raise Behind(share=0.5)

    add(ref, {"text": "Gone"}, invocation_id="i2")
    add(ref, invocation_id="i3", actions={"rewind_before_invocation_id": "i2"})
    monkeypatch.setattr(build, "catch_up", behind)
    page = maria.open("session", **ref._asdict())
    assert len(page.all("li", "ev")) == 2
    assert grey(page) == {}


def test_the_session_leads_to_what_its_model_gets(ref: SessionRef, maria: Browser) -> None:
    assert reverse("context", kwargs=ref._asdict()) in maria.open("session", **ref._asdict()).links().values()


@pytest.mark.parametrize("kind", get_args(Kind))
def test_every_reason_to_leave_an_event_out_has_words(kind: Kind) -> None:
    ((number, words),) = Fold([Mock(left_out=LeftOut(kind))] * 2).reasons
    assert (number, bool(words)) == (2, True)
