"""What a model is given of a session is what google-adk gives it: which events, which texts, which instruction."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from google.adk.agents.readonly_context import ReadonlyContext
from google.adk.events import Event
from google.adk.events._rewind_events import _apply_rewinds
from google.adk.flows.llm_flows.context import _fencing
from google.adk.flows.llm_flows.context._compaction import _process_compaction_events
from google.adk.flows.llm_flows.context._contents import (
    _get_contents,
    _is_tool_sub_branch_event,
    _should_include_event_in_context,
)
from google.adk.flows.llm_flows.tools._functions import _collect_function_call_ids
from google.adk.sessions import Session
from google.adk.utils.instructions_utils import inject_session_state
from google.genai import types
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sessions_app.access.actor import SYSTEM, Actor
from sessions_app.agent_view.content import Content
from sessions_app.agent_view.contents import Contents, contents, task
from sessions_app.agent_view.conversation import conversation
from sessions_app.agent_view.exclusion import Reader
from sessions_app.agent_view.instructions import rendered
from sessions_app.agent_view.preview import preview
from sessions_app.domain.event import new_id
from sessions_app.history import moments
from sessions_app.reads import timeline
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session
from tests.adk.services import Adk, key_of
from tests.strategies import MANY, json_values

AGENTS = ["root", "booking", "billing"]
BRANCHES = ["root", "root.booking", "root.booking.billing", "root.lookup@c1", "root.bookings"]
SCOPES = ["c1", "c9"]
CALLS = ["c1", "c2", "c3"]
LATE = ("unpaired", "unanswered", "replaced", "overtaken")

texts = st.sampled_from(["hello", "", " ", "For context", "<<<BEGIN_QUOTED_AGENT_CONTENT>>>", "日本"])
names = st.sampled_from(["lookup", "pay", "adk_request_credential", "adk_request_confirmation", "adk_framework"])
common_names = st.sampled_from(["lookup", "lookup", "lookup", "pay", "pay"]) | names
ids = st.one_of(st.none(), st.sampled_from(CALLS))
arguments = st.sampled_from([{}, {"b": 1, "a": [None, True]}, {"to": "Seoul"}])


def some(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Objects that hold any of these fields."""
    return st.fixed_dictionaries({}, optional=fields)


calls = st.builds(
    lambda call_id, name, args: {"name": name, "args": args, **({"id": call_id} if call_id else {})},
    ids,
    common_names,
    arguments,
)
responses = st.builds(
    lambda call_id, name, value: {"name": name, "response": value, **({"id": call_id} if call_id else {})},
    ids,
    common_names,
    arguments,
)
parts = st.one_of(
    texts.map(lambda text: {"text": text}),
    texts.map(lambda text: {"text": text, "thought": True}),
    calls.map(lambda call: {"function_call": call}),
    responses.map(lambda response: {"function_response": response}),
    st.sampled_from(
        [
            {},
            {"thought_signature": "YWJj", "thought": True},
            {"inline_data": {"mime_type": "image/png", "data": "YWJj"}},
            {"executable_code": {"code": "1", "language": "PYTHON"}},
            {"code_execution_result": {"outcome": "OUTCOME_OK", "output": "1"}},
            {"text": "and a call", "function_call": {"name": "pay", "args": {}, "id": "c2"}},
        ]
    ),
)
bodies = st.builds(
    lambda role, some_parts: {"role": role, "parts": some_parts},
    st.sampled_from(["user", "model"]),
    st.lists(parts, max_size=3),
) | st.sampled_from([{}, {"parts": [{"text": "no role"}]}])
transcriptions = some(text=st.sampled_from(["a", "b ", ""]), finished=st.booleans())


wholes = some(
    content=bodies,
    branch=st.sampled_from(BRANCHES),
    isolation_scope=st.sampled_from(SCOPES),
    node_info=st.sampled_from([{"path": "root@1"}, {"path": "other@1"}]),
    input_transcription=transcriptions,
    output_transcription=transcriptions,
    live_session_id=st.just("live"),
    long_running_tool_ids=st.lists(st.sampled_from(CALLS), max_size=1),
)
spoken = st.one_of(
    some(content=bodies), some(input_transcription=transcriptions, output_transcription=transcriptions), wholes
)
plain_calls = st.builds(
    lambda name, call_id: {"name": name, "args": {"n": 1}, "id": call_id},
    st.sampled_from(["lookup", "pay"]),
    st.sampled_from(CALLS),
)
tool_parts = st.one_of(
    plain_calls.map(lambda call: {"function_call": call}),
    plain_calls.map(lambda call: {"function_response": {"name": call["name"], "id": call["id"], "response": {"n": 2}}}),
    responses.map(lambda response: {"function_response": response}),
    st.just({"text": "working on it"}),
)
tools = some(
    content=st.lists(tool_parts, min_size=1, max_size=2).map(lambda found: {"role": "model", "parts": found}),
    long_running_tool_ids=st.sampled_from([[], [], ["c1"]]),
)


@st.composite
def histories(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Events as they are stored, in the order of their times; some times are equal, some invocations come again.

    Half of the histories are an agent's work with its tools.
    """
    moment, found, at_work = 1_000.0, [], draw(st.booleans())
    for number in range(draw(st.integers(0, 14))):
        moment += draw(st.sampled_from([0.0, 1.0, 2.5]))
        event = draw(tools if at_work else spoken)
        actions = _actions(draw, moment) if draw(st.integers(0, 7)) == 0 else {}
        author = draw(st.sampled_from(["booking"] * 6 + ["billing", "user"] if at_work else ["user", "user", *AGENTS]))
        invocation = f"i{draw(st.integers(max(0, number // 3 - 1), number // 3 + 1))}"
        found.append(
            {
                "id": f"e{number}",
                "author": author,
                "invocation_id": "i0" if at_work and not actions else invocation,
                "timestamp": moment,
                "actions": actions,
                **event,
            }
        )
    return found


def _actions(draw: st.DrawFn, moment: float) -> dict[str, Any]:
    kind = draw(st.sampled_from(["rewind", "compaction", "compaction", "asks"]))
    if kind == "rewind":
        return {"rewind_before_invocation_id": f"i{draw(st.integers(0, 5))}"}
    if kind == "asks":
        return {"requested_tool_confirmations": {"c1": {"hint": "sure?"}}}
    start = round(draw(st.floats(995, moment)))
    content = {"role": "model", "parts": [{"text": "what was before"}]}
    end = draw(st.sampled_from([moment, moment - 1, start + 2]))
    return {"compaction": {"start_timestamp": start, "end_timestamp": end, "compacted_content": content}}


readers = st.builds(
    Reader,
    st.sampled_from(["booking", "booking", *AGENTS, "stranger"]),
    st.sampled_from(["", "", "", *BRANCHES]),
    st.sampled_from([None] * 6 + SCOPES),
    st.sampled_from(["", "root@1"]),
)


def adks(events: list[Event], reader: Reader) -> tuple[set[str], list[types.Content]]:
    """The ids of the events that google-adk keeps, and the contents that it makes of them."""
    live = _apply_rewinds(events)
    call_ids = _collect_function_call_ids(live)
    branch = reader.branch or None
    kept = [
        event
        for event in live
        if _should_include_event_in_context(branch, event, reader.isolation_scope, node_path=reader.path or None)
        and not _is_tool_sub_branch_event(branch, event, reader.agent, call_ids)
    ]
    left = _process_compaction_events(kept, reader.agent)
    summaries = [event.id for event in kept if any(event.actions is each.actions for each in left)]
    made = _get_contents(
        branch,
        events,
        reader.agent,
        preserve_function_call_ids=True,
        isolation_scope=reader.isolation_scope,
        node_path=reader.path or None,
    )
    return {event.id for event in left if event in kept} | set(summaries), made


def as_adk_tells_it(content: Content) -> types.Content:
    """A content of ours in google-adk's words: what is quoted stands between its marks, after its preamble."""
    said = [types.Part.model_validate(part) for part in content.parts]
    if not content.quoted:
        return types.Content(role=content.role or None, parts=said)
    return types.Content(
        role="user",
        parts=[
            types.Part(text=_fencing.OTHER_AGENT_CONTEXT_PREAMBLE),
            *(_quoted(content.author, part) for part in said),
        ],
    )


def _quoted(author: str, part: types.Part) -> types.Part:
    quote, name = _fencing.quote_untrusted, _fencing.elide_quote_markers
    if part.text and part.text.strip():
        return types.Part(text=f"[{author}] said:\n{quote(part.text)}")
    if call := part.function_call:
        args = dict(sorted((call.args or {}).items()))
        return types.Part(text=f"[{author}] called tool `{name(str(call.name))}` with parameters:\n{quote(str(args))}")
    if response := part.function_response:
        told = quote(str(response.response))
        return types.Part(text=f"[{author}] `{name(str(response.name))}` tool returned result:\n{told}")
    return part


def shown(made: list[types.Content]) -> list[dict[str, Any]]:
    """Contents as JSON, without what is nothing."""
    found = [content.model_dump(mode="json", exclude_none=True) for content in made]
    return [{**each, "parts": each.get("parts") or []} for each in found]


def assert_same(stored: list[dict[str, Any]], reader: Reader, ours: Contents) -> None:
    """Our contents are google-adk's, from the same events as it keeps."""
    kept, made = adks([Event.model_validate(each) for each in stored], reader)
    early = {stored[place]["id"] for place, reason in ours.left_out.items() if reason.kind not in LATE}
    arrived = {stored[place]["id"] for content in ours.contents for place in content.events}
    late = {stored[place]["id"] for place, reason in ours.left_out.items() if reason.kind in LATE}
    told = [as_adk_tells_it(content) for content in ours.contents]
    if (first := task(stored, reader)) is not None:
        told.insert(0, types.Content(role="user", parts=[types.Part(text=first)]))
    assert shown(told) == shown(made)
    assert arrived | late | early == {each["id"] for each in stored}
    assert not arrived & (early | late)
    # What a later step brings back was compacted, and what it finds empty was kept until then.
    assert kept <= arrived | late | {
        stored[place]["id"] for place, reason in ours.left_out.items() if reason.kind == "empty"
    }
    assert not early & kept - {stored[place]["id"] for place, reason in ours.left_out.items() if reason.kind == "empty"}


@pytest.mark.guarantee("History", "adkweb shows the same conversation that google-adk sends to the model.")
@MANY
@given(stored=histories(), reader=readers)
def test_the_model_is_given_what_google_adk_gives_it(stored: list[dict[str, Any]], reader: Reader) -> None:
    assert_same(stored, reader, contents(stored, reader))


def _event(number: int, *found: dict[str, Any], **fields: Any) -> dict[str, Any]:
    content = {"content": {"role": "model", "parts": list(found)}} if found else {}
    common = {
        "id": f"e{number}",
        "author": "booking",
        "invocation_id": "i0",
        "timestamp": 1_000.0 + number,
        "actions": {},
    }
    return {**common, **content, **fields}


def _call(*names: str) -> list[dict[str, Any]]:
    return [{"function_call": {"id": name, "name": "lookup", "args": {}}} for name in names]


def _answer(name: str, value: int) -> dict[str, Any]:
    return {"function_response": {"id": name, "name": "lookup", "response": {"n": value}}}


SUMMARY = {"compaction": {"start_timestamp": 1_000, "end_timestamp": 1_002, "compacted_content": {"role": "model"}}}
CONFIRM = {"requested_tool_confirmations": {"c1": {"hint": "sure?"}}}
RARE = {
    "a branch whose name begins with another's": [
        _event(0, {"text": "theirs"}, branch="root.book"),
        _event(1, {"text": "mine"}, branch="root.booking"),
    ],
    "a reply between two responses": [
        _event(0, *_call("c1")),
        _event(1, _answer("c1", 1)),
        _event(2, {"text": "working on it"}),
        _event(3, _answer("c1", 2)),
        _event(4, {"text": "done"}),
    ],
    "a reply after a question to a person": [
        _event(0, *_call("c1")),
        _event(1, _answer("c1", 1), actions=CONFIRM),
        _event(2, {"text": "waiting"}),
        _event(3, _answer("c1", 2)),
        _event(4, {"text": "done"}),
    ],
    "a summarised call whose response came late, and its sibling": [
        _event(0, *_call("c1", "c2")),
        _event(1, _answer("c2", 1)),
        _event(2, _answer("c1", 1)),
        _event(3, {"text": "meanwhile"}),
        _event(4, author="user", actions=SUMMARY),
        _event(5, _answer("c1", 2), author="user"),
    ],
    "a late response to an early call": [
        _event(0, *_call("c1"), long_running_tool_ids=["c1"]),
        _event(1, {"text": "meanwhile"}),
        _event(2, _answer("c1", 2), author="user"),
    ],
}


@pytest.mark.parametrize("name", RARE)
def test_what_is_rare_is_given_as_google_adk_gives_it(name: str) -> None:
    reader = Reader("booking", "root.booking")
    assert_same(RARE[name], reader, contents(RARE[name], reader))


# --- On stored sessions -----------------------------------------------------------------------------------------------

pytestmark = pytest.mark.django_db(transaction=True)


@given(stored=histories(), agent=st.sampled_from(AGENTS))
@settings(suppress_health_check=list(HealthCheck))
def test_a_stored_conversation_is_google_adks(
    stored: list[dict[str, Any]], agent: str, adk: Adk, adopt: Callable[[], str]
) -> None:
    """Also at any event: as if the session had ended there."""
    name = new_id()
    session = adk.create(name)
    for event in _in_a_row(stored):
        adk.run(adk.service.append_event(session, Event.model_validate(event)))
    ref = key_of(adopt(), name)
    loaded = adk.get(name).events
    for place in sorted({len(loaded) - 1, len(loaded) // 2}) if loaded else ():
        view = timeline.event(ref, loaded[place].id, actor=SYSTEM)
        found = conversation(ref, view, agent, actor=SYSTEM)
        branch, scope, path = found.reader.branch or None, found.reader.isolation_scope, found.reader.path or None
        made = _get_contents(
            branch,
            loaded[: place + 1],
            agent,
            preserve_function_call_ids=True,
            isolation_scope=scope,
            node_path=path,
        )
        told = [as_adk_tells_it(line.content) for line in found.lines if line.content]
        if found.task is not None:
            told.insert(0, types.Content(role="user", parts=[types.Part(text=found.task)]))
        assert shown(told) == shown(made)


def _in_a_row(stored: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """With times that rise, as a service that orders by them gives the events back in this order."""
    return [{**event, "timestamp": event["timestamp"] + place / 1000} for place, event in enumerate(stored)]


state_names = st.sampled_from(["name", "user:name", "app:name", "日本", "user:x", "app:x", "x"])
deltas = st.dictionaries(state_names, json_values, max_size=3)
templates = st.lists(
    st.builds(
        lambda wrapper, name: wrapper.replace("%s", name),
        st.sampled_from(["{%s}", "{%s?}", "{{ %s }}", "${%s}", "{ %s ?}", "\\{%s}"]),
        state_names | st.sampled_from(["temp:x", "a-b", "gone"]),
    )
    | st.sampled_from(["text", "{}", "{", '{"a": 1}', "\n"]),
    max_size=6,
).map("".join)


@given(initial=deltas, written=st.lists(deltas, min_size=1, max_size=4), template=templates)
@settings(suppress_health_check=list(HealthCheck))
def test_a_template_on_a_stored_session_is_filled_in_as_google_adk_does(
    initial: dict[str, Any],
    written: list[dict[str, Any]],
    template: str,
    form: str,
    place: str,
    create: Callable[[], str],
    connect: Callable[[], Adk],
    actor: Actor,
) -> None:
    """Now, and at each event: as if google-adk had loaded the session then."""
    source, name = create(), new_id()
    user = f"user-{name}"
    app = f"app-{name}"
    ref = create_session(source, app, user, session_id=name, state=initial, actor=actor)
    adk = connect()
    seen = []
    for delta in written:
        event = append_event(ref, {"actions": {"state_delta": delta}}, actor=actor).event
        session = adk.run(adk.service.get_session(app_name=app, user_id=user, session_id=name))
        assert session is not None
        seen.append((str(event["id"]), injected(template, session)))
    for event_id, expected in seen:
        assert filled(moments.state_at(ref, event_id, actor=SYSTEM), template) == expected
    assert filled(moments.state_now(ref, actor=SYSTEM), template) == seen[-1][1]
    adk.close()


def filled(moment: moments.Moment, template: str) -> str | None:
    """The whole template; None where it stops with an error."""
    return rendered([each.piece for each in preview(moment, template)])


def injected(template: str, session: Session) -> str | None:
    """What google-adk makes of it; None for an error."""
    invocation = SimpleNamespace(session=session, artifact_service=None)
    context = cast(ReadonlyContext, SimpleNamespace(_invocation_context=invocation, agent_name="agent"))
    try:
        return asyncio.run(inject_session_state(template, context))
    except KeyError:
        return None
