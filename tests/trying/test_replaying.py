"""Stored sessions are replayed in a process of their agent's own, which reaches nothing."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sessions_app.access.actor import SYSTEM
from sessions_app.checks import mask_rules
from sessions_app.domain.session_ref import SessionRef
from sessions_app.edits.edit import Entry, edit_state
from sessions_app.transfer import recording
from sessions_app.trying import process, replaying
from sessions_app.trying.replaying import DIVERGED, SAME, UNDECIDED, Replayed
from sessions_app.writes.sessions import create_session
from tests.support.people import ALICE
from tests.support.stored import execute, stored_events
from tests.trying.conftest import AGENTS, say, visit
from tests.web.conftest import ROOT

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("forked_agents")]


def replayed(*refs: SessionRef, folder: Path = AGENTS) -> list[Replayed]:
    """The outcomes, for Alice."""
    return list(replaying.replays(refs, actor=ALICE, folder=folder))


@pytest.mark.parametrize("shop", ["sqlite", "postgresql"], indirect=True)
def test_what_other_sessions_wrote_for_a_user_is_there_again(shop: str) -> None:
    first, second = visit(shop, "s1", 1), visit(shop, "s2", 2)
    other = visit(shop, "s3", 1, user="zoe")
    edit_state(first, [Entry("user:visits", 7, 2)], actor=SYSTEM)
    third = visit(shop, "s4", 8)
    assert recording.of(second, actor=SYSTEM)["state"] == {"user:visits": 1}
    assert [each.result for each in replayed(first, second, other, third)] == [SAME] * 4


def test_between_two_messages_others_may_have_written_for_the_user(shop: str) -> None:
    ref = visit(shop, "s1", 1)
    visit(shop, "s2", 2)
    say(ref, "user", {"text": "Again"}, turn="2")
    say(ref, "shop", {"text": "Yes?"}, turn="2", state_delta={"said": "Yes?"})
    deltas = [each.get("actions", {}).get("state_delta") for each in recording.of(ref, actor=SYSTEM)["events"]]
    assert {"user:visits": 2} in deltas
    assert replayed(ref)[0].result == SAME


def test_a_key_that_no_event_wrote_has_the_value_of_now(shop: str) -> None:
    say(create_session(shop, "shop", "ana", session_id="s0", actor=SYSTEM), "shop", state_delta={"user:a": 1})
    execute(shop, "UPDATE user_states SET state = %s", ['{"tier": "gold", "a": 1}'])
    ref = visit(shop, "s1", 1)
    assert recording.of(ref, actor=SYSTEM)["state"] == {"user:tier": "gold", "user:a": 1}


def test_a_divergence_names_its_event_and_shows_no_hidden_value(shop: str) -> None:
    ref = visit(shop, "s1", 1)
    call = {"function_call": {"id": "c1", "name": "order", "args": {"pin": "4711", "item": "tea"}}}
    say(ref, "user", {"text": "Tea"}, turn="2")
    event = say(ref, "shop", call, turn="2")
    response = {"function_response": {"id": "c1", "name": "order", "response": {"ok": True}}}
    say(ref, "shop", response, turn="2")
    say(ref, "shop", {"text": "Done."}, turn="2", state_delta={"said": "Done."})
    (outcome,) = replayed(ref)
    assert (outcome.result, outcome.what, outcome.event, outcome.tool) == (DIVERGED, "arguments", event, "order")
    assert (outcome.expected, outcome.got) == ({"pin": "4711", "item": "tea"}, "pin is unknown")
    mask_rules.create("*", "key", "pin", actor=SYSTEM)
    assert replayed(ref)[0].expected == {"pin": "••••", "item": "tea"}


def test_where_no_system_calls_can_be_refused_keys_are_overwritten() -> None:
    code = """if True:
        import os, platform, socket
        import closing
        platform.machine = lambda: "another"
        closing.close()
        print(os.environ["SHOP_API_KEY"], os.environ["SHOP_NAME"])
        socket.socket()
    """
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(ROOT / "sessions_app" / "trying"), "SHOP_API_KEY": "k-7", "SHOP_NAME": "tea"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "replay tea\n")
    assert done.stderr.endswith("PermissionError: A replay reaches no network and starts no process.\n")


def test_a_session_that_google_adk_cannot_read_spoils_no_other(shop: str) -> None:
    bad, good = visit(shop, "s1", 1), visit(shop, "s2", 2)
    event = recording.of(bad, actor=SYSTEM)["events"][0]
    execute(shop, "UPDATE events SET event_data = %s WHERE id = %s", ['{"author": 5}', event["id"]])
    outcomes = replayed(bad, good)
    assert [each.result for each in outcomes] == [UNDECIDED, SAME]
    assert outcomes[0].why == "google-adk can't read this session: 1 validation error for Event"


def test_an_agent_that_ends_its_process_spoils_no_other_session(shop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replaying, "PROCESSES", 1)
    bad = visit(shop, "s1", 1, do="exit")
    outcomes = replayed(bad, visit(shop, "s2", 2))
    assert [each.result for each in outcomes] == [UNDECIDED, SAME]
    assert outcomes[0].why == "The process of the agent has ended. The last lines of its output: no more tea"


def test_a_replay_that_takes_too_long_is_undecided(shop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "SECONDS", 4.0)
    (outcome,) = replayed(visit(shop, "s1", 1, do="sleep"))
    assert (outcome.result, outcome.why) == (UNDECIDED, "The agent took longer than 4 seconds.")


def test_an_agent_that_cannot_be_loaded_is_tried_once(shop: str, tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "agent.py").write_text("import nothing_here")
    whys = {each.why for each in replayed(visit(shop, "s1", 1), visit(shop, "s2", 2), folder=tmp_path)}
    (why,) = whys
    assert why.startswith("The agent can't be loaded: ")
    assert "nothing_here" in why


def test_without_a_folder_of_the_agent_nothing_is_started(shop: str, tmp_path: Path) -> None:
    ref = visit(shop, "s1", 1)
    assert replayed(ref, folder=tmp_path)[0].why == "There's no folder of the agent “shop”. Name it with --agents."
    assert next(replaying.replays([ref], actor=ALICE)).result == UNDECIDED


@pytest.mark.parametrize(
    ("file", "old", "new", "what"),
    [
        ("tools.py", "destination: str, date: str", "destination: str, day: str", "arguments"),
        ("agent.py", 'state["visit"] =', 'state["count"] =', "state"),
        ("agent.py", 'output_key="last_answer"', 'output_key="answer"', "state"),
    ],
    ids=["argument", "state", "output_key"],
)
def test_a_change_of_the_agents_of_the_demo_is_named_as_what_it_is(
    own: str, open_source: Callable[[str], str], tmp_path: Path, file: str, old: str, new: str, what: str
) -> None:
    agents = Path(shutil.copytree(ROOT / "examples" / "agents", tmp_path / "agents"))
    code = agents / "booking" / file
    code.write_text(code.read_text().replace(old, new))
    source = open_source(str(shutil.copy(ROOT / "examples" / "demo.db", tmp_path / "demo.db")))
    refs = {ref: None for _seq, ref, _event in stored_events(source, "booking")}
    assert {each.what for each in replayed(*refs, folder=agents) if each.result == DIVERGED} == {what}


def test_a_session_that_is_gone_or_too_long_is_undecided(shop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "MOST", 2)
    outcomes = replayed(visit(shop, "s1", 1))
    assert [each.why for each in outcomes] == ["This session has more than 2 events, too many for a replay."]
