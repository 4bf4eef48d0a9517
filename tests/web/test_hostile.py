"""Whatever stands in a database, every page shows it, escaped: other programs write there, and people name things."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import product
from typing import Any, Final

import pytest
from django.urls import reverse
from hypothesis import example, given

from sessions_app.access.actor import Actor
from sessions_app.domain.session_ref import SessionRef
from sessions_app.domain.state import ABSENT
from sessions_app.edits.edit import Entry, edit_app_state, edit_state, edit_user_state
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session
from tests.parts import long_but
from tests.strategies import hostile_events
from tests.support.stored import execute
from tests.web.conftest import Browser

INSERT: Final = """INSERT INTO events (id, app_name, user_id, session_id, invocation_id, timestamp, event_data)
    VALUES (%s, %s, %s, %s, %s, %s, %s)"""
pytestmark = pytest.mark.django_db

NAMES: Final = (
    "a/b/../c",
    "..",
    ".",
    "50% %2F %",
    "~",
    "~2f",
    "line\nbreak\r\n\ttab",
    "👩‍👩‍👧‍👦 e\u0301 𝕬",
    "‏שלום ‮gnorw",
    "'\"`\\",
    "<script>alert(1)</script>",
    "</title></textarea></script><img src=x onerror=alert(1)>",
    "{{ 7|add:7 }}{% debug %}${7*7}",
    "javascript:alert(1)",
    "?a=b&c=d#e",
    " ",
    "x" * 128,
)
TEXTS: Final = (*NAMES, "\" onmouseover=alert(1) x='", "<!-- ", "]]>", "&lt;b&gt;&amp;", "\x01\x7f\u2028")


def pages(ref: SessionRef, event_ids: list[str]) -> Iterator[str]:
    """Every page on which something of a session stands."""
    session = ref._asdict()
    app, user = dict(list(session.items())[:2]), dict(list(session.items())[:3])
    yield from (reverse("home"), reverse("edits"))
    yield from (reverse(name, kwargs=app) for name in ("app", "app-edit", "schema", "state-health"))
    yield from (reverse(name, kwargs=user) for name in ("user", "user-edit"))
    yield from (
        reverse(name, kwargs=session) for name in ("session", "session-edit", "add-event", "delete-session", "drift")
    )
    yield from (f"{reverse('session', kwargs=session)}?density={density}" for density in ("chat", "trace"))
    yield from (reverse("event", kwargs={**session, "event_id": event_id}) for event_id in event_ids)


def fill(ref: SessionRef, actor: Actor, hostile: str) -> list[str]:
    """Puts a text wherever a text may stand; the ids of the events that hold it."""
    create_session(*ref[:3], session_id=ref.session_id, actor=actor, state={hostile: hostile})
    entries = [Entry(hostile + "e", {hostile: [hostile]}, ABSENT)]
    edit_state(ref, entries, actor=Actor.holding(hostile, "admin"), reason=hostile)
    edit_app_state(
        ref.source, ref.app_name, [Entry("app:" + hostile, hostile, ABSENT)], actor=Actor.holding(hostile, "admin")
    )
    edit_user_state(
        *ref[:3], [Entry("user:" + hostile, hostile, ABSENT)], actor=Actor.holding(hostile, "admin"), reason=hostile
    )
    title = {"__session_metadata__": {"displayName": hostile}}
    events: list[dict[str, Any]] = [
        {"id": hostile[:128], "author": hostile, "branch": hostile, "content": {"parts": [{"text": hostile}]}},
        {"content": {"parts": [{"text": hostile, "thought": True}]}, "model_version": hostile},
        {"content": {"parts": [{"function_call": {"id": hostile, "name": hostile, "args": {hostile: hostile}}}]}},
        {
            "content": {
                "parts": [
                    {"function_response": {"id": hostile, "name": hostile, "response": {"error": hostile}}},
                    {hostile: hostile},
                    {"executable_code": {"code": hostile, "language": hostile}},
                    {"code_execution_result": {"outcome": hostile, "output": hostile}},
                    {"inline_data": {"mime_type": hostile, "data": hostile, "display_name": hostile}},
                    {"inline_data": {"mime_type": "image/png", "data": "AAAA", "display_name": hostile}},
                    {"file_data": {"file_uri": hostile, "mime_type": hostile}},
                ]
            }
        },
        {"error_code": hostile, "error_message": hostile, "finish_reason": hostile},
        {"actions": {"transfer_to_agent": hostile, "transfer_reason": hostile, "artifact_delta": {hostile: 1}}},
        {"actions": {"compaction": {"compacted_content": {"parts": [{"text": hostile}]}, "start_timestamp": hostile}}},
        {"actions": {"rewind_before_invocation_id": hostile, "agent_state": {hostile: hostile}}},
        {"input_transcription": {"text": hostile}},
        {"output": hostile, "node_info": {"path": hostile}},
        {"invocation_id": hostile[:256], "actions": {"state_delta": title}},
        {hostile: hostile},
    ]
    return [str(append_event(ref, {"author": "a", **event}, actor=actor).event["id"]) for event in events]


def states(ref: SessionRef, hostile: str) -> dict[str, list[str]]:
    """The keys for the edit form."""
    return {"key": [hostile, hostile + "e", "user:" + hostile, "app:" + hostile, hostile + "new"]}


# Of those that break the same things, make test tries one.
PATHS: Final = (NAMES[0], NAMES[1], NAMES[3], NAMES[5], NAMES[7], NAMES[10], NAMES[14], NAMES[15])
SIGNS: Final = (NAMES[3], NAMES[6], NAMES[8], TEXTS[-1], NAMES[11], NAMES[12], TEXTS[-5])
# Signs in one text: a page that writes any of them as it is has another tag or attribute, or another heading.
TOGETHER: Final = (" ".join(SIGNS[:4]), " ".join(SIGNS[4:]))


@pytest.mark.guarantee("Safety", "Whatever the text in a session contains, it can't run code on any page.")
@pytest.mark.parametrize("hostile", long_but((*TOGETHER, *TEXTS), *TOGETHER))
def test_a_hostile_text_is_a_text_on_every_page(store: str, maria: Browser, actor: Actor, hostile: str) -> None:
    ref = SessionRef(store, "app", "user", "session")
    ids = fill(ref, actor, hostile)
    for page in pages(ref, ids):
        assert maria.get(page, states(ref, hostile)).status_code == 200, page
    shown = maria.open("session", **ref._asdict())
    assert shown.one("h1").text == " ".join(hostile.split())


@pytest.mark.parametrize("hostile", long_but(NAMES, *PATHS))
def test_a_hostile_name_has_its_pages(store: str, maria: Browser, actor: Actor, hostile: str) -> None:
    if hostile != hostile.strip():  # ADK and adkweb strip a session's id; another program may not
        execute(store, "INSERT INTO app_states VALUES (%s, '{}', 1)", [hostile])
        execute(store, "INSERT INTO user_states VALUES (%s, %s, '{}', 1)", [hostile, hostile])
        execute(store, "INSERT INTO sessions VALUES (%s, %s, %s, '{}', 1, 1, NULL, NULL)", [hostile] * 3)
    else:
        create_session(store, hostile, hostile, session_id=hostile, actor=actor)
    ref = SessionRef(store, hostile, hostile, hostile)
    append_event(ref, {"id": hostile, "author": hostile, "invocation_id": hostile}, actor=actor)
    page = maria.open("home")
    names = list({**ref._asdict(), "event_id": hostile}.items())
    for there, length in (("app", 2), ("user", 3), ("session", 4), ("event", 5)):  # as a person goes, by the links
        address = reverse(there, kwargs=dict(names[:length]))
        assert address in [link["href"] for link in page.all("a")], there
        page = maria.open(address)
    assert " ".join(hostile.split()) in page.one("nav", "crumbs").text
    for rest in ("users", "sessions", "app-edit", "state-health"):
        maria.open(rest, source=store, app_name=hostile)
    for rest in ("session-edit", "add-event", "delete-session", "stats", "drift"):
        maria.open(rest, **ref._asdict())


UNREADABLE: Final = {
    "levels that can be read": "[" * 700 + "]" * 700,
    "objects that can be read": '{"a":' * 700 + "1" + "}" * 700,
    "levels that can hardly be read": "[" * 900 + "]" * 900,
    "levels that cannot be read": "[" * 20_000 + "]" * 20_000,
    "an integer that Python refuses": "9" * 5_000,
}


WHERE: Final = ("delta", "content", "state", "initial_state")


@pytest.mark.parametrize(
    "what", long_but(product(UNREADABLE, WHERE), *zip(UNREADABLE, (*WHERE, "content"), strict=True)), ids=" in ".join
)
def test_what_another_program_stored_too_deep_or_too_large_breaks_no_page(
    ref: SessionRef, maria: Browser, what: tuple[str, str]
) -> None:
    value, where = what
    deep = UNREADABLE[value]
    delta = '{"deep": %s, "x": 1}' % (deep if where == "delta" else 1)
    parts = '[{"text": "first"}, {"function_call": {"args": {"a": %s}}}]' % (deep if where == "content" else 1)
    first = f'{{"author": "a", "content": {{"parts": {parts}}}, "actions": {{"state_delta": {delta}}}}}'
    execute(ref.source, INSERT, ["e1", *ref[1:], "i1", 1.0, first])
    second = '{"author": "a", "content": {"parts": [{"text": "second"}]}, "actions": {"state_delta": {"deep": 2}}}'
    execute(ref.source, INSERT, ["e2", *ref[1:], "i1", 2.0, second])
    if where in ("state", "initial_state"):
        execute(ref.source, f"UPDATE sessions SET {where} = %s", [f'{{"deep": {deep}, "x": 1}}'])
    elif where == "delta":
        for table in ("app_states", "user_states"):
            execute(ref.source, f"UPDATE {table} SET state = %s", [f'{{"deep": {deep}}}'])
    told = {}
    for page, query in [
        ("session", {}),
        *(("session", {"at": event, "show": show}) for event in ("e1", "e2") for show in ("state", "changes", "event")),
        ("session-history", {"key": "deep"}),
        ("compare", {"a": "e1", "b": "e2"}),
        ("compare", {"a": "e2", "b": "now"}),
        ("compare", {"with": reverse("session", kwargs=ref._asdict())}),
        ("compare", {}),
        ("drift", {}),
        ("context", {}),
        ("session-edit", {"key": "deep"}),
        ("session", {"density": "chat"}),
        ("session", {"density": "trace"}),
        ("artifacts", {}),
        ("stats", {}),
        ("strip", {}),
    ]:
        told[page] = maria.get(reverse(page, kwargs=ref._asdict()), query)
        assert told[page].status_code in (200, 302, 400), (page, query)
    for event in ("e1", "e2"):
        assert maria.get(reverse("event", kwargs={**ref._asdict(), "event_id": event})).status_code in (200, 400)
    for page, length in (("home", 0), ("app", 2), ("user", 3)):
        assert maria.get(reverse(page, kwargs=dict(list(ref._asdict().items())[:length]))).status_code in (200, 400)
    if where == "content" or "can be read" in value:  # what can be shown is
        assert "second" in maria.open("session", query={"density": "events"}, **ref._asdict()).text


@given(event=hostile_events)
@example(event={"content": {"parts": [{"function_call": {"name": "f", "args": {"items": [1, 2], "keys": 3}}}]}})
@example(event={"actions": {"artifact_delta": {"items": 1}, "state_delta": {"items": 1}}})
@example(event={"actions": {"compaction": {"start_timestamp": [1], "compacted_content": 5}}})
@example(event={"actions": {"transfer_to_agent": [1], "transfer_reason": {"a": 1}}})
@example(event={"custom_metadata": {"adkweb": {"actor": 5, "reason": [5], "replaced": 5, "removed": 5}}})
@example(event={"actions": {"state_delta": {"step": 1}}, "custom_metadata": {"adkweb": {"actor": 5}}, "author": 5})
@example(event={"actions": {"state_delta": {"gone": None}}, "custom_metadata": {"adkweb": {"removed": ["gone"]}}})
@example(event={"input_transcription": {"text": "heard"}, "author": "\ud800", "branch": "\ud800"})
@example(event={"actions": {"state_delta": {"\ud800": "\udfff", "nan": float("nan"), "inf": float("-inf")}}})
@example(event={"usage_metadata": {"total_token_count": 10**400, "prompt_token_count": "x"}, "timestamp": 1e300})
@example(event={"timestamp": 10**400})
@example(event={"timestamp": float("nan")})
@example(
    event={"content": {"parts": [{"inline_data": {"data": "\ud800", "display_name": 5, "mime_type": "image/png"}}]}}
)
@example(event={"output": {"items": float("nan")}, "node_info": {"path": ["\ud800"]}, "error_message": ["a", {}]})
def test_an_event_of_any_shape_has_its_line_and_its_page(
    ref: SessionRef, maria: Browser, event: dict[str, Any]
) -> None:
    execute(ref.source, "DELETE FROM events")
    execute(ref.source, INSERT, ["e1", *ref[1:], "i1", 1.0, json.dumps(event)])
    for page in ("event", "session", "chat", "trace"):
        names = {**ref._asdict(), **({"event_id": "e1"} if page == "event" else {})}
        maria.open(page, **names)
    maria.open("stats", **ref._asdict())
    maria.open("stretch", query={"at": "e1"}, **ref._asdict())


WRITTEN_BY_HAND: Final = (
    '{"\\ud83d": "\\ud83d", "nan": NaN, "big": [1e999, -Infinity, NaN], "step": "choose", "items": {"items": 1}}'
)
KEYS: Final = ("nan", "big", "items")


@pytest.fixture
def broken(ref: SessionRef) -> SessionRef:
    """A session with what JSON cannot hold, as SQLite keeps it, in every scope and in its title."""
    for table in ("sessions", "user_states", "app_states"):
        execute(ref.source, f"UPDATE {table} SET state = %s", [WRITTEN_BY_HAND])
    event = '{"author": "\\ud83d", "actions": {"state_delta": {"\\ud83d": NaN, "user:nan": NaN, "big": "\\ud83d"}}}'
    execute(ref.source, INSERT, ["e1", *ref[1:], "i1", 1.0, event])
    return ref


def test_what_json_cannot_hold_is_shown_on_every_page(broken: SessionRef, maria: Browser) -> None:
    for page in pages(broken, ["e1"]):
        wanted = [prefix + key for prefix in ("", "user:", "app:") for key in KEYS]
        assert maria.get(page, {"key": wanted}).status_code == 200, page
    assert "NaN" in maria.open("session", **broken._asdict()).one(id="state").text


def test_half_an_emoji_in_a_title_keeps_no_list_from_opening(ref: SessionRef, maria: Browser) -> None:
    state = '{"__session_metadata__": {"displayName": "Trip \\ud83d"}}'
    execute(ref.source, "UPDATE sessions SET state = %s", [state])
    app: dict[str, Any] = {"source": ref.source, "app_name": ref.app_name}
    for page in (maria.open("sessions", **app), maria.open("app", **app), maria.open("session", **ref._asdict())):
        assert any(link.startswith("Trip") for link in (*page.links(), *page.texts("h1"))), page.text


@pytest.mark.parametrize("name", ["nan", "big"])
def test_a_value_that_is_not_json_can_be_edited(broken: SessionRef, maria: Browser, name: str) -> None:
    form = maria.open("session-edit", query={"key": name}, **broken._asdict()).one("form", class_="editbox")
    sent = {**form.fields(), "value-0": "1"}
    assert maria.send("session-edit", sent, **broken._asdict()).status_code == 302
    assert maria.open("session-value", query={"key": name}, **broken._asdict()).text == "1"
