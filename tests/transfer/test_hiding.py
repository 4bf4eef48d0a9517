"""What somebody shares outside has dots in place of values, says so, and is no session that an import would take."""

from __future__ import annotations

import re
from typing import Any, Final

import pytest
from google.adk.evaluation.eval_set import EvalSet
from google.adk.sessions import Session

from sessions_app.access.actor import TERMINAL
from sessions_app.domain.masks import KEY, Rule
from sessions_app.domain.session_ref import SessionRef
from sessions_app.transfer import export, exporting
from sessions_app.transfer.hiding import Hiding
from sessions_app.transfer.items import Fault
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session
from tests.transfer.conftest import Make
from tests.transfer.files import ANA, checked, imported, lines

pytestmark = pytest.mark.django_db
WRITTEN: Final = ("jsonl", "html", "adk-json", "evalset")
VALUES: Final = ("v-own", "v-user", "v-app", "v-inner", "v-arg", "v-answer", "v-payload", "v-agent", "v-old", "v-title")
ANYWHERE: Final = ("ana@example.com", "4111 1111 1111 1111")
KEPT: Final = ("k-own", "user:k-user", "app:k-app", "charge_card", "what was said")


@pytest.fixture
def told(source: str) -> SessionRef:
    """A session with a value in each place that has any."""
    state = {"k-own": "v-old", "user:k-user": "v-user", "app:k-app": "v-app"}
    titled = {"__session_metadata__": {"displayName": "v-title"}}
    ref = create_session(source, "app", "ana@example.com", session_id="s1", state=state | titled, actor=ANA)
    call: dict[str, Any] = {"name": "charge_card", "id": "c1"}
    parts = [
        {"text": "what was said by ana@example.com about 4111 1111 1111 1111"},
        {"function_call": {**call, "args": {"number": "v-arg", "deep": [{"er": "v-arg"}]}}},
        {"function_response": {**call, "response": {"error": "v-answer"}}},
    ]
    event = {
        "id": "e1",
        "author": "agent",
        "content": {"role": "model", "parts": parts},
        "actions": {
            "state_delta": {"k-own": {"k-inner": "v-inner"}, "k-other": "v-own"},
            "agent_state": {"step": "v-agent"},
            "requested_tool_confirmations": {"c1": {"payload": "v-payload"}},
        },
    }
    append_event(ref, {"id": "e0", "author": "user", "content": {"role": "user", "parts": parts[:1]}}, actor=ANA)
    append_event(ref, event, actor=ANA)
    return ref


def shared(ref: SessionRef, form: str, *keys: str) -> bytes:
    """A session as a file, without all values, or without those of some keys."""
    hiding = Hiding([Rule(KEY, key) for key in keys])
    return b"".join(export(form, ref.source, exporting.Filter(*ref[1:]), actor=TERMINAL, hiding=hiding))


@pytest.mark.guarantee(
    "Databases and files",
    "A file exported with “Hide values” contains no state or tool values, says that they are hidden, and can't be imported.",
)
@pytest.mark.parametrize("form", WRITTEN)
def test_a_file_that_hides_values_has_none_and_says_so_and_is_never_imported(
    told: SessionRef, make: Make, form: str
) -> None:
    file = shared(told, form)
    text = file.decode()
    assert [value for value in (*VALUES, *ANYWHERE) if value in text] == []
    kept = [key for key in KEPT if form != "evalset" or not key.endswith(("user", "app"))]  # it has no shared state
    assert [key for key in kept if key not in text and key.partition(":")[2] not in text] == []
    assert "adkweb:hidden" in text
    assert re.search(r"user-[0-9a-f]{16}", text)
    with pytest.raises(Fault, match="values were hidden when this file was shared"):
        checked(file, form)
    into = make("adk-sqlite")
    with pytest.raises(Fault, match="values were hidden"):
        imported(into, file, form)


def test_what_google_adk_writes_can_still_be_read_by_it(told: SessionRef) -> None:
    session = Session.model_validate_json(shared(told, "adk-json"))
    assert session.state["k-own"] == session.state["app:k-app"] == "••••"
    assert session.events[1].get_function_calls()[0].args == {"number": "••••", "deep": "••••"}
    [case] = EvalSet.model_validate_json(shared(told, "evalset")).eval_cases
    assert case.session_input
    assert case.session_input.state["adkweb:hidden"] is True


def test_only_the_values_of_named_keys_are_hidden_and_what_looks_personal(told: SessionRef) -> None:
    text = shared(told, "jsonl", "k-inner", "*user*").decode()
    assert [value for value in (*VALUES, *ANYWHERE) if value not in text] == ["v-user", "v-inner", *ANYWHERE]
    text = shared(told, "html", "__session_*").decode()
    assert "v-title" not in text
    assert "v-own" in text


def test_a_value_that_is_absent_or_unknown_is_still_said_to_be(told: SessionRef) -> None:
    gone = {"id": "e2", "author": "agent", "actions": {"state_delta": {"k-own": None}}}
    append_event(told, {**gone, "custom_metadata": {"adkweb": {"removed": ["k-own"]}}}, actor=ANA, origin="person")
    states = shared(told, "html").split(b'id="adkweb-states">\n')[1].split(b"</script>")[0]
    assert ["k-own", None, 1] in lines(states)[-1]
    assert ["k-other", '"••••"', 1] in lines(states)[-2]
