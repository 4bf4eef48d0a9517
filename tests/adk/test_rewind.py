"""After a rewind and in a fork, google-adk's Runner goes on and its model gets what it should, whoever did it.

The same conversation is held in sessions of one database; what the model was sent and the state that its instruction shows
are compared between a rewind of ADK's own and one of ours.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from google.adk.agents import LlmAgent
from google.adk.apps import App
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import BaseSessionService, Session
from google.adk.tools import ToolContext
from google.genai import types
from pydantic import PrivateAttr

from sessions_app.access.actor import SYSTEM, Actor
from sessions_app.adk import DjangoSessionService
from sessions_app.domain.session_ref import SessionRef
from sessions_app.edits import edit, fork, rewind, undo
from sessions_app.edits.edit import Entry
from sessions_app.reads import timeline, views
from tests.adk.services import APP, USER, Adk, key_of

MARIA = Actor.holding("maria", "admin")
SAID = ["go to Lisbon", "go to Seoul", "go to Oslo"]

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning"),
]


class Model(BaseLlm):
    """Calls the tool with the user's words, then says what it was sent; keeps every request."""

    model: str = "recorder"
    _sent: list[tuple[str, list[str]]] = PrivateAttr(default_factory=list)

    @property
    def sent(self) -> list[tuple[str, list[str]]]:
        """The instruction and the contents of each request."""
        return self._sent

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        contents = [_words(content) for content in llm_request.contents]
        self._sent.append((str(llm_request.config.system_instruction), contents))
        last = (llm_request.contents[-1].parts or [types.Part()])[-1]
        part = types.Part(text="there")
        if last.text:
            part = types.Part(function_call=types.FunctionCall(name="go", args={"to": last.text}))
        yield LlmResponse(content=types.Content(role="model", parts=[part]))


def _words(content: types.Content) -> str:
    found = [part.text or str((part.function_call or part.function_response or part).model_dump(exclude={"id"}))
             for part in content.parts or []]  # fmt: skip
    return f"{content.role}: {' '.join(found)}"


def go(to: str, tool_context: ToolContext) -> dict[str, Any]:
    """Goes somewhere: writes state of every scope."""
    state = tool_context.state
    state["at"], state["limit"] = to, state.get("limit", 0) + 1
    state[f"been {to}"] = True
    state["user:trips"] = state.get("user:trips", 0) + 1
    return {"at": to}


class Agent:
    """An agent's process on a service: what it was told, and what its model was sent."""

    def __init__(self, service: BaseSessionService) -> None:
        self.service, self.model = service, Model()
        agent = LlmAgent(name="guide", model=self.model, instruction="at {at?} limit {limit?}", tools=[go])
        self.runner = Runner(app=App(name=APP, root_agent=agent), session_service=service)

    async def say(self, session_id: str, text: str, user: str = USER) -> tuple[str, list[str]]:
        """One turn; what the model was sent first."""
        before = len(self.model.sent)
        content = types.Content(role="user", parts=[types.Part(text=text)])
        async for _event in self.runner.run_async(user_id=user, session_id=session_id, new_message=content):
            pass
        return self.model.sent[before]

    async def talk(self, session_id: str, state: dict[str, Any]) -> list[str]:
        """The conversation, in a new session; its invocations."""
        await self.service.create_session(app_name=APP, user_id=USER, session_id=session_id, state=state)
        for text in SAID:
            await self.say(session_id, text)
        return list(dict.fromkeys(event.invocation_id for event in (await self.load(session_id)).events))

    async def load(self, session_id: str) -> Session:
        """The session as an agent loads it."""
        found = await self.service.get_session(app_name=APP, user_id=USER, session_id=session_id)
        assert found is not None
        return found

    async def rewind(self, session_id: str, invocation_id: str) -> None:
        """ADK's own rewind."""
        await self.runner.rewind_async(user_id=USER, session_id=session_id, rewind_before_invocation_id=invocation_id)


@pytest.fixture
def source(create: Callable[[], str]) -> str:
    """A database in the form of ADK's service under test, open in adkweb."""
    return create()


Run = Callable[[Any], Any]


@pytest.fixture(params=["adk", "ours"])
def agent(request: pytest.FixtureRequest, source: str) -> Iterator[tuple[Agent, Run]]:
    """An agent on ADK's own service for this database, or on ours; and what waits for it."""
    if request.param == "adk":
        adk: Adk = request.getfixturevalue("adk")
        yield Agent(adk.service), adk.run
        return
    with _loop() as run:
        service = DjangoSessionService(source)
        run(service.__aenter__())
        yield Agent(service), run
        run(service.__aexit__(None, None, None))


@contextmanager
def _loop() -> Iterator[Run]:
    with asyncio.Runner() as runner:
        yield runner.run


def present(session: Session) -> dict[str, Any]:
    """The session's own state as an agent in Python sees it: ADK writes null where a key is to be gone."""
    return {k: v for k, v in session.state.items() if v is not None and not k.startswith(("user:", "app:"))}


@pytest.mark.guarantee(
    "Edits", "After a rewind in adkweb, the model gets the same conversation as after a rewind in ADK."
)
def test_after_adks_rewind_and_ours_the_model_gets_the_same(source: str, agent: tuple[Agent, Run]) -> None:
    guide, run = agent
    theirs, ours = run(guide.talk("theirs", {})), run(guide.talk("ours", {}))
    run(guide.rewind("theirs", theirs[1]))
    rewind.rewind(key_of(source, "ours"), ours[1], actor=MARIA)
    assert present(run(guide.load("ours"))) == present(run(guide.load("theirs"))) == {
        "at": "go to Lisbon", "limit": 1, "been go to Lisbon": True
    }  # fmt: skip
    sent = run(guide.say("ours", "go home"))
    assert sent == run(guide.say("theirs", "go home"))
    assert "at go to Lisbon limit 1" in sent[0]
    assert [words for words in sent[1] if "Seoul" in words or "Oslo" in words] == []
    assert present(run(guide.load("ours"))) == present(run(guide.load("theirs")))
    assert run(guide.load("ours")).state["user:trips"] == 8  # neither rewinds it


def test_ours_keeps_the_initial_state_which_adks_loses(source: str, agent: tuple[Agent, Run]) -> None:
    guide, run = agent
    theirs, ours = (run(guide.talk(name, {"limit": 40, "kept": [1]})) for name in ("theirs", "ours"))
    run(guide.rewind("theirs", theirs[0]))
    rewind.rewind(key_of(source, "ours"), ours[0], actor=MARIA)
    assert present(run(guide.load("theirs"))) == {}
    assert run(guide.load("ours")).state.items() >= {"limit": 40, "kept": [1]}.items()
    assert views.session(key_of(source, "ours"), actor=SYSTEM).state.session == {"limit": 40, "kept": [1]}
    instruction, contents = run(guide.say("ours", "go on"))
    assert "limit 40" in instruction
    assert contents == ["user: go on"]


def test_a_rewind_taken_back_shows_the_model_everything_again(source: str, agent: tuple[Agent, Run]) -> None:
    guide, run = agent
    left, invocations = run(guide.talk("left", {})), run(guide.talk("s1", {}))
    ref = key_of(source)
    before = present(run(guide.load("s1")))
    first = rewind.rewind(ref, invocations[0], actor=MARIA)
    rewind.rewind(ref, first.event["invocation_id"], actor=MARIA)
    assert present(run(guide.load("s1"))) == before
    assert run(guide.say("s1", "go on")) == run(guide.say("left", "go on"))
    assert len(left) == 3


def test_rewinds_of_both_kinds_follow_each_other(source: str, agent: tuple[Agent, Run]) -> None:
    guide, run = agent
    invocations = run(guide.talk("s1", {"limit": 40}))
    ref = key_of(source)
    rewind.rewind(ref, invocations[2], actor=MARIA)
    run(guide.say("s1", "go to Porto"))
    run(guide.rewind("s1", invocations[1]))
    rewind.rewind(ref, invocations[1], actor=MARIA)
    instruction, contents = run(guide.say("s1", "go on"))
    assert "at go to Lisbon limit 41" in instruction
    assert [words for words in contents if "Lisbon" not in words] == ["model: there", "user: go on"]


def test_the_plan_counts_what_the_model_does_not_get(source: str, agent: tuple[Agent, Run]) -> None:
    guide, run = agent
    invocations = run(guide.talk("s1", {}))
    ref = key_of(source)
    plan = rewind.plan(ref, invocations[1], actor=SYSTEM)
    # The same contents are sent but for the rewound events, each of which is one content.
    all_of_it = run(guide.say("s1", "go on"))[1]
    rewind.rewind(ref, rewind.plan(ref, invocations[1], actor=SYSTEM).invocation_id, actor=MARIA)
    assert len(all_of_it) - len(run(guide.say("s1", "go on"))[1]) == plan.gone.events


def test_a_running_agent_reads_an_undo_in_its_next_turn(source: str, agent: tuple[Agent, Run]) -> None:
    guide, run = agent
    run(guide.talk("s1", {}))
    ref = key_of(source)
    wrote = next(view for view in timeline.events(ref, actor=SYSTEM).rows[::-1] if "limit" in view.description.delta)
    edit.edit_state(ref, undo.undo(ref, wrote.id, actor=SYSTEM).entries, actor=MARIA, of={"undoes": wrote.id})
    assert "at go to Seoul limit 2" in run(guide.say("s1", "go on"))[0]
    assert "been go to Oslo" not in views.session(ref, actor=SYSTEM).state.session


# --- Forks ------------------------------------------------------------------------------------------------------------


def test_in_a_fork_the_agent_goes_on_as_the_first_session_would_have(source: str, agent: tuple[Agent, Run]) -> None:
    guide, run = agent
    invocations = run(guide.talk("s1", {"limit": 40}))
    ref = key_of(source)
    last = [view for view in timeline.events(ref, actor=SYSTEM).rows if view.invocation_id == invocations[1]][-1]
    into = fork.fork(ref, last.id, user_id=USER, session_id="fork", actor=MARIA)
    rewind.rewind(ref, invocations[2], actor=MARIA)  # the first session, brought to the same moment
    assert present(run(guide.load("fork"))) == present(run(guide.load("s1")))
    assert run(guide.say("fork", "go on")) == run(guide.say("s1", "go on"))
    run(guide.rewind("fork", invocations[1]))
    rewind.rewind(into, invocations[1], actor=MARIA)
    instruction, contents = run(guide.say("fork", "go back"))
    assert "at go to Lisbon limit 41" in instruction
    assert not any("Seoul" in words or "go on" in words for words in contents)
    assert len(timeline.events(ref, actor=SYSTEM).rows) > 0


def test_the_agent_goes_on_in_a_fork_of_another_user(source: str, agent: tuple[Agent, Run]) -> None:
    guide, run = agent
    run(guide.talk("s1", {}))
    ref = key_of(source)
    first = timeline.events(ref, actor=SYSTEM).rows[0]
    into = fork.fork(ref, first.id, user_id="ben", session_id="s1", actor=MARIA)
    assert into == SessionRef(source, APP, "ben", "s1")
    _instruction, contents = run(guide.say("s1", "go on", user="ben"))
    assert contents == [f"user: {SAID[0]}", "user: go on"]
    assert views.user_state(source, APP, "ben", actor=SYSTEM) == {"trips": 1}
    assert views.user_state(source, APP, USER, actor=SYSTEM) == {"trips": 3}


def test_a_fork_is_edited_while_no_agent_runs(source: str, agent: tuple[Agent, Run]) -> None:
    guide, run = agent
    run(guide.talk("s1", {}))
    ref = key_of(source)
    into = fork.fork(ref, timeline.events(ref, actor=SYSTEM).rows[-1].id, user_id=USER, session_id="fork", actor=MARIA)
    edit.edit_state(into, [Entry("limit", 7, 3)], actor=MARIA)
    assert "limit 7" in run(guide.say("fork", "go on"))[0]
    assert "limit 3" in run(guide.say("s1", "go on"))[0]
