"""Sessions as cases of google-adk's evaluation: its own models load what is written, and what they write is read."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from google.adk.cli.utils.evals import convert_session_to_eval_invocations
from google.adk.evaluation.eval_case import EvalCase, IntermediateData, Invocation, SessionInput, get_all_tool_calls
from google.adk.evaluation.eval_set import EvalSet
from google.adk.evaluation.local_eval_sets_manager import LocalEvalSetsManager, load_eval_set_from_file
from google.adk.events import Event, EventActions
from google.adk.sessions import Session
from google.genai import types

from sessions_app.access.actor import SYSTEM
from sessions_app.domain.session_ref import SessionRef
from sessions_app.domain.state import ABSENT
from sessions_app.edits import edit
from sessions_app.reads import views
from sessions_app.transfer import recognise
from sessions_app.transfer.items import Fault
from tests.adk.services import APP, USER, Adk
from tests.support.stored import counts, events_of, everything
from tests.transfer.conftest import Make
from tests.transfer.files import ANA, checked, exported, furnish, imported, opening

EMPTY = {"app_states": 0, "user_states": 0, "sessions": 0, "events": 0}
STATE = {"step": 0, "city": {"aB": None}}


@pytest.fixture
def service() -> Iterator[Callable[[str, str], Adk]]:
    """google-adk's service of a format on a database."""
    started: list[Adk] = []

    def start(form: str, place: str) -> Adk:
        started.append(Adk(form, place))
        return started[-1]

    yield start
    for adk in started:
        adk.close()


def said(author: str, invocation: str, *parts: types.Part, **fields: Any) -> Event:
    role = "user" if author == "user" else "model"
    return Event(invocation_id=invocation, author=author, content=types.Content(role=role, parts=list(parts)), **fields)


def call(name: str, call_id: str | None = None, **args: Any) -> types.Part:
    return types.Part(function_call=types.FunctionCall(id=call_id, name=name, args=args))


def answer(name: str, call_id: str | None = None, **response: Any) -> types.Part:
    return types.Part(function_response=types.FunctionResponse(id=call_id, name=name, response=response))


TEXT = types.Part(text="Where to?")
SOUND = types.Part(inline_data=types.Blob(data=b"\0", mime_type="audio/pcm"))
USAGE = types.GenerateContentResponseUsageMetadata(total_token_count=7)
INVOCATIONS = {
    "tools and an answer": [
        said("user", "i1", types.Part(text="a flight")),
        said("agent", "i1", call("find", "c1", from_city="a"), usage_metadata=USAGE, model_version="m"),
        said("agent", "i1", answer("find", "c1", state_delta={"aB": 1}), actions=EventActions(state_delta={"step": 1})),
        said("agent", "i1", TEXT, usage_metadata=USAGE),
    ],
    "several agents": [
        said("user", "i1", TEXT),
        said("a", "i1", types.Part(text="from a")),
        said("b", "i1", types.Part(text="thinking", thought=True), TEXT),
    ],
    "a call that waits": [
        said("USER", "i1", TEXT),
        said("agent", "i1", call("ask", "c1"), long_running_tool_ids={"c1"}),
        said("agent", "i1", answer("ask", "c1")),
    ],
    "a summary skipped": [
        said("user", "i1", TEXT),
        said("agent", "i1", call("f", "c1")),
        said("agent", "i1", answer("f", "c1"), actions=EventActions(skip_summarization=True)),
    ],
    "an error": [said("user", "i1", TEXT), said("agent", "i1", answer("f"), error_code="500")],
    "sound after its transcript": [said("user", "i1", SOUND), said("agent", "i1", TEXT), said("agent", "i1", SOUND)],
    "sound before its transcript": [said("user", "i1", SOUND), said("agent", "i1", SOUND), said("agent", "i1", TEXT)],
    "code": [
        said("user", "i1", TEXT),
        said("agent", "i1", TEXT, types.Part(executable_code=types.ExecutableCode(code="1", language="PYTHON"))),
        said(
            "agent", "i1", types.Part(code_execution_result=types.CodeExecutionResult(output="1", outcome="OUTCOME_OK"))
        ),
    ],
    "sources without content": [
        said("user", "i1", TEXT),
        said("agent", "i1", TEXT),
        Event(invocation_id="i1", author="agent", grounding_metadata=types.GroundingMetadata(web_search_queries=["q"])),
    ],
    "two turns and no answer": [
        said("user", "i1", TEXT),
        said("agent", "i1", TEXT),
        said("user", "i2", types.Part(text="hello?")),
    ],
}


@pytest.fixture
def store(new_database: Callable[[str], str], service: Callable[[str, str], Adk], open_source: Any) -> Any:
    """A source with sessions that google-adk made, and these as google-adk loads them."""

    def make(form: str) -> tuple[str, dict[str, Session]]:
        place = new_database(form)
        source, agent = open_source(place, form), service(form, place)
        for name, events in INVOCATIONS.items():
            session = agent.create(name, state=STATE)
            for event in events:
                agent.run(agent.service.append_event(session, event.model_copy(deep=True)))
        return source, {name: agent.get(name) for name in INVOCATIONS}

    return make


def test_a_case_has_what_google_adk_itself_makes_of_the_session(store: Any, form: str, tmp_path: Path) -> None:
    source, sessions = store(form)
    file = tmp_path / "x.evalset.json"
    file.write_bytes(exported(source, "evalset"))
    assert recognise(str(file)) == "evalset"
    found = load_eval_set_from_file(str(file), "x")
    assert [case.eval_id for case in found.eval_cases] == sorted(sessions)
    for case in found.eval_cases:
        assert case.conversation is not None
        theirs = convert_session_to_eval_invocations(sessions[case.eval_id])
        for ours, adks in zip(case.conversation, theirs, strict=True):
            assert ours.creation_timestamp == pytest.approx(adks.creation_timestamp, abs=2e-6, rel=0)
            adks.creation_timestamp = ours.creation_timestamp
        assert case.conversation == theirs
        assert case.session_input == SessionInput(app_name=APP, user_id=USER, state=STATE)
    assert (found.eval_set_id, found.name) == (APP, APP)


def test_an_exported_set_comes_in_as_sessions_that_are_exported_the_same(store: Any, make: Make, form: str) -> None:
    source, sessions = store("sqlite")
    file = exported(source, "evalset")
    into = make(form)
    assert imported(into, file, "evalset").new == len(sessions)
    before = everything(into)
    assert imported(into, file, "evalset").same == len(sessions)
    assert everything(into) == before
    first, again = (EvalSet.model_validate_json(x) for x in (file, exported(into, "evalset")))
    assert [case.conversation for case in again.eval_cases] == [case.conversation for case in first.eval_cases]
    assert [case.session_input for case in again.eval_cases] == [case.session_input for case in first.eval_cases]
    for name in sessions:
        seen = views.session(SessionRef(into, APP, USER, name), actor=SYSTEM)
        assert seen.state.session == STATE
        times = [event["timestamp"] for _seq, event in events_of(SessionRef(into, APP, USER, name))]
        assert times == sorted(set(times))


def test_an_agent_goes_on_with_an_imported_case(
    store: Any, form: str, new_database: Callable[[str], str], open_source: Any, service: Callable[[str, str], Adk]
) -> None:
    source, sessions = store("sqlite")
    place = new_database(form)
    into = open_source(place, form)
    imported(into, exported(source, "evalset"), "evalset")
    agent = service(form, place)
    copy, original = agent.get("tools and an answer"), sessions["tools and an answer"]
    assert [event.content for event in copy.events] == [event.content for event in original.events]
    assert [event.author for event in copy.events] == [event.author for event in original.events]
    agent.append(copy, "and on", step=9)
    assert agent.get("tools and an answer").state["step"] == 9


def test_what_a_person_did_between_turns_is_no_turn(make: Make) -> None:
    source = make("sqlite")
    furnish(source)
    ref = SessionRef(source, "app", "ana", "s1")
    edit.edit_state(ref, [edit.Entry("edited", 1, ABSENT)], actor=ANA)
    found = EvalSet.model_validate_json(exported(source, "evalset"))
    assert {case.eval_id for case in found.eval_cases} == {"👍", "empty", "s1", "S2"}
    assert not any(
        inv.invocation_id.startswith("edit-") for case in found.eval_cases for inv in case.conversation or []
    )


CASE = EvalCase(
    eval_id="case1",
    conversation=[
        Invocation(
            invocation_id="",
            user_content=types.Content(parts=[types.Part(text="hi")]),
            final_response=types.Content(role="model", parts=[types.Part(text="done")]),
            intermediate_data=IntermediateData(
                tool_uses=[
                    types.FunctionCall(id="c1", name="a", args={"from_city": 1}),
                    types.FunctionCall(name="b", args={}),
                ],
                tool_responses=[
                    types.FunctionResponse(name="b", response={"x": 1}),
                    types.FunctionResponse(id="c1", name="a", response={"aB": 1}),
                ],
                intermediate_responses=[("helper", [types.Part(text="working")])],
            ),
        )
    ],
    session_input=SessionInput(app_name="app", user_id="u", state={"n": 1, "app:plan": "x", "user:lang": "ko"}),
    creation_timestamp=5.0,
)


def test_a_case_with_many_tools_is_read_in_a_time_that_grows_with_them() -> None:
    many = 10_000
    case = json.loads(CASE.model_dump_json(exclude_none=True))
    case["conversation"][0]["intermediate_data"] = {
        "tool_uses": [{"id": "c", "name": "a", "args": {}}] * many,
        "tool_responses": [{"id": f"d{number}", "name": "a", "response": {}} for number in range(many)],
    }
    file = json.dumps({"eval_set_id": "s", "eval_cases": [case]}).encode()
    begun = time.process_time()
    with opening(file, "evalset") as opened, opened() as reader:
        assert sum(1 for _item in reader) > 2 * many
    assert time.process_time() - begun < 10


@pytest.mark.parametrize("alias", [True, False])
def test_the_older_form_with_tools_apart_is_read_in_both_spellings(make: Make, alias: bool) -> None:
    source = make("sqlite")
    file = EvalSet(eval_set_id="s", eval_cases=[CASE]).model_dump_json(by_alias=alias, exclude_none=True).encode()
    imported(source, file, "evalset")
    ref = SessionRef(source, "app", "u", "case1")
    state = views.session(ref, actor=SYSTEM).state
    assert (state.session, state.app, state.user) == ({"n": 1}, {"plan": "x"}, {"lang": "ko"})
    events = [Event.model_validate(event) for _seq, event in events_of(ref)]
    told = [
        (
            event.author,
            [p.text for p in event.content.parts if p.text]
            + [c.name for c in event.get_function_calls()]
            + [r.response for r in event.get_function_responses()],
        )
        for event in events
        if event.content and event.content.parts
    ]
    assert told == [
        ("user", ["hi"]),
        ("agent", ["a"]),
        ("agent", [{"aB": 1}]),
        ("agent", ["b"]),
        ("agent", [{"x": 1}]),
        ("helper", ["working"]),
        ("agent" if told[-1][0] == "agent" else "helper", ["done"]),
    ]
    assert events[0].timestamp == 5.0
    (again,) = EvalSet.model_validate_json(exported(source, "evalset")).eval_cases
    assert again.conversation
    assert CASE.conversation
    calls = get_all_tool_calls(again.conversation[0].intermediate_data)
    assert calls == get_all_tool_calls(CASE.conversation[0].intermediate_data)
    assert again.conversation[0].final_response == CASE.conversation[0].final_response


def test_what_google_adks_own_manager_wrote_is_read(tmp_path: Path, make: Make) -> None:
    (tmp_path / "app").mkdir()
    manager = LocalEvalSetsManager(agents_dir=str(tmp_path))
    manager.create_eval_set("app", "mine")
    manager.add_eval_case("app", "mine", CASE)
    (file,) = (tmp_path / "app").glob("*.evalset.json")
    assert recognise(str(file)) == "evalset"
    assert imported(make("sqlite"), file.read_bytes(), "evalset").events == 7


def test_sessions_of_one_id_are_different_cases(make: Make) -> None:
    source, other = make("sqlite"), {**json.loads(CASE.model_dump_json(exclude_none=True)), "eval_id": "second"}
    other["session_input"] |= {"session_id": "case1", "user_id": "v"}
    first = json.loads(CASE.model_dump_json(exclude_none=True))
    imported(source, json.dumps({"eval_set_id": "s", "eval_cases": [first, other]}).encode(), "evalset")
    found = EvalSet.model_validate_json(exported(source, "evalset"))
    assert [case.eval_id for case in found.eval_cases] == ["case1", "app/v/case1"]


INVOCATION = {"invocation_id": "i", "user_content": {"parts": [{"text": "hi"}]}}
GIVEN = {"app_name": "app", "user_id": "u"}


def case(*invocations: Any, **other: Any) -> bytes:
    """A set whose second case is this one."""
    good = {"eval_id": "good", "conversation": [INVOCATION], "session_input": GIVEN}
    bad = {"eval_id": "bad", "conversation": [INVOCATION, *invocations], "session_input": GIVEN, **other}
    return json.dumps({"eval_set_id": "s", "eval_cases": [good, bad]}).encode()


def steps(*steps: Any, **other: Any) -> dict[str, Any]:
    return {**INVOCATION, "intermediate_data": {"invocation_events": list(steps)}, **other}


SECOND = "eval_cases[1]"
FAULTS = {
    "a list": (b"[]", "", "an object"),
    "no cases": (b'{"eval_set_id": "s"}', "", "not a list"),
    "cut off": (case()[:-20], "line 1", "truncated|not valid"),
    "a case that is none": (b'{"eval_set_id": "s", "eval_cases": [1]}', "eval_cases[0]", "an object"),
    "nobody's session": (case(session_input=None), SECOND, "session_input is missing"),
    "a plan instead of a conversation": (case(conversation=None, conversation_scenario={}), SECOND, "no conversation"),
    "no app": (case(session_input={"user_id": "u"}), SECOND, "app_name isn't a string"),
    "a session twice": (case(eval_id="good"), SECOND, "app/u/good is there twice"),
    "a state that is none": (case(session_input={**GIVEN, "state": [1]}), SECOND, "an object"),
    "a time that is none": (case(creation_timestamp="now"), SECOND, "not a time"),
    "nothing asked": (case({"invocation_id": "x"}), f"{SECOND}.conversation[1]", "user_content is missing"),
    "a wrong type": (case(steps({"author": 1})), f"{SECOND}.conversation[1].author", "str"),
    "an unknown part": (
        case(steps({"author": "a", "content": {"parts": [{"txt": 1}]}})),
        f"{SECOND}.conversation[1].content.parts[0].txt",
        "doesn't recognise",
    ),
    "steps that are none": (case(steps(5)), f"{SECOND}.conversation[1]", "an object"),
    "a pair that is none": (
        case({**INVOCATION, "intermediate_data": {"intermediate_responses": ["a"]}}),
        f"{SECOND}.conversation[1]",
        "an author and a list",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_names_its_place_and_nothing_is_written(name: str, source: str) -> None:
    file, place, words = FAULTS[name]
    with pytest.raises(Fault, match=words) as raised:
        imported(source, file, "evalset")
    assert raised.value.detail["place"].startswith(place)
    assert bool(raised.value.detail["place"]) == bool(place)
    assert counts(source) == EMPTY


def test_the_good_set_has_no_fault() -> None:
    assert checked(case(), "evalset").sessions == 2
    with opening(case(), "evalset") as opened, opened() as reader:
        list(reader)
        assert reader.done == reader.total == len(case())


def test_no_id_that_is_made_has_the_id_of_the_user(source: str) -> None:
    """It would be readable where a rule hides ids."""
    said = {"user_content": {"parts": [{"text": "hi"}], "role": "user"}}
    case = {
        "eval_id": "s1",
        "session_input": {"app_name": APP, "user_id": "ana@example.com"},
        "conversation": [said],
    }
    other = {**case, "session_input": {"app_name": APP, "user_id": "bob@example.com"}}
    imported(source, json.dumps({"eval_set_id": "x", "eval_cases": [case, other]}).encode(), "evalset")
    (_, one), (_, two) = (events_of(SessionRef(source, APP, f"{name}@example.com", "s1"))[0] for name in ("ana", "bob"))
    assert (one["id"], one["invocation_id"]) == (two["id"], two["invocation_id"])
    assert "ana@" not in one["invocation_id"]
