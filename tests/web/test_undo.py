"""Undo, restore and rewind in the browser: the form comes filled in, says what it leaves alone, and loses nobody's write."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.urls import reverse

from sessions_app.access import approval
from sessions_app.access.actor import SYSTEM, TERMINAL, Actor
from sessions_app.domain.session_ref import SessionRef
from sessions_app.domain.state import ABSENT, State
from sessions_app.edits import queue
from sessions_app.edits.edit import Entry, edit_state
from sessions_app.edits.rewind import rewind
from sessions_app.trying import whatif
from sessions_app.web.templatetags.terms import TERMS
from sessions_app.writes.append import append_event
from tests.support.stored import events_of, everything, execute, overwrite_event, state_of
from tests.web.conftest import NAME, Browser
from tests.web.html import Element, page_of

pytestmark = pytest.mark.django_db

Add = Callable[..., str]


@pytest.fixture
def write(add: Add) -> Callable[..., str]:
    """Appends an agent's state change in an invocation; its id."""
    return lambda key, delta, invocation="i1": add(
        key, invocation_id=invocation, actions={"state_delta": delta, "end_of_agent": True}
    )


@pytest.fixture
def runs(add: Add) -> Callable[[SessionRef], None]:
    """Makes an invocation run: a user has spoken, and the agent calls a tool."""

    def begin(ref: SessionRef) -> None:
        add(ref, {"text": "hello"}, author="user", invocation_id="running")
        add(ref, {"function_call": {"id": "c", "name": "look"}}, invocation_id="running")

    return begin


def form_of(page: Element) -> Element:
    return page.one("form", "editbox")


def undo_form(maria: Browser, ref: SessionRef, event_id: str) -> Element:
    return form_of(maria.open("undo", event_id=event_id, **ref._asdict()))


def restore_form(maria: Browser, ref: SessionRef, /, **query: Any) -> Element:
    return form_of(maria.open("restore", query=query, **ref._asdict()))


def apply(maria: Browser, ref: SessionRef, sent: State, action: str = "apply") -> Any:
    return maria.send("session-edit", {**sent, "action": action}, **ref._asdict())


def note(ref: SessionRef) -> dict[str, Any]:
    found: dict[str, Any] = events_of(ref)[-1][1]["custom_metadata"]["adkweb"]
    return found


# --- Undo -------------------------------------------------------------------------------------------------------------


def test_an_undo_comes_filled_in_and_is_written_as_an_edit_of_that_event(
    ref: SessionRef, maria: Browser, write: Add
) -> None:
    event_id = write(ref, {"step": "pay", "new": 1, "user:tier": None})
    page = maria.open("undo", event_id=event_id, **ref._asdict())
    assert page.one("h1").text == "Undo event 1"
    fields = form_of(page).json_fields()
    assert [fields[f"key-{n}"] for n in range(3)] == ["new", "step", "user:tier"]
    assert [fields[f"operation-{n}"] for n in range(3)] == ["remove", "set", "set"]
    assert (fields["value-1"], fields["undoes"], fields["reason"]) == ('"choose"', event_id, "Undo of event #1")
    response = apply(maria, ref, fields)
    assert (response.status_code, response["Location"]) == (302, reverse("session", kwargs=ref._asdict()))
    assert state_of(ref)["session"] == {"step": "choose", "count": 3, "nothing": None}
    assert state_of(ref)["user"] == {"tier": "gold"}
    assert {"undoes": event_id, "actor": NAME, "reason": "Undo of event #1"}.items() <= note(ref).items()
    status = maria.open("session", **ref._asdict()).one(role="status")
    assert status.one(class_="words").text == "Saved as event #2. View Undo u"
    written = events_of(ref)[-1][1]["id"]
    assert status.links() == {"View": f"{reverse('session', kwargs=ref._asdict())}#event-{written}"}
    assert status.one("form")["action"] == reverse("undo", kwargs={**ref._asdict(), "event_id": written})


def undo_at_once(maria: Browser, ref: SessionRef, event_id: str, **more: str) -> Any:
    """What the button of a message answers."""
    return maria.send("undo", {"once": "a form", **more}, event_id=event_id, **ref._asdict())


def test_a_message_undoes_its_event_at_once_and_does_it_again(ref: SessionRef, maria: Browser, write: Add) -> None:
    event_id = write(ref, {"step": "pay", "new": 1, "user:tier": None})
    before = state_of(ref)
    home = reverse("session", kwargs=ref._asdict())
    assert undo_at_once(maria, ref, event_id, undo="1")["Location"] == home
    assert state_of(ref)["session"] == {"step": "choose", "count": 3, "nothing": None}
    assert {"undoes": event_id, "actor": NAME, "reason": "Undo of event #1"}.items() <= note(ref).items()
    said = maria.open("session", **ref._asdict()).one(role="status")
    assert said.one(class_="words").text == "Undone. View Redo"
    assert (said["data-about"], said.one("form")["action"]) == ("saved", undo_address(ref, events_of(ref)[-1][1]["id"]))
    undo_at_once(maria, ref, events_of(ref)[-1][1]["id"], redo="1")
    assert state_of(ref) == before
    assert "Redone. View Undo" in maria.open("session", **ref._asdict()).one(role="status").text
    assert len(events_of(ref)) == 3


def undo_address(ref: SessionRef, event_id: str) -> str:
    return reverse("undo", kwargs={**ref._asdict(), "event_id": event_id})


def test_an_undo_at_once_that_is_sent_twice_is_written_once(ref: SessionRef, maria: Browser, write: Add) -> None:
    event_id = write(ref, {"step": "pay"})
    assert [undo_at_once(maria, ref, event_id).status_code for _sending in range(2)] == [302, 302]
    assert len(events_of(ref)) == 2


@pytest.mark.parametrize("why", ["written since", "running", "unknown", "approval", "undone already"])
def test_what_is_to_be_decided_is_asked_and_nothing_is_written(
    ref: SessionRef, maria: Browser, write: Add, runs: Callable[[SessionRef], None], why: str
) -> None:
    if why == "unknown":
        execute(ref.source, "UPDATE sessions SET initial_state = NULL")
    event_id = write(ref, {"step": "pay"})
    said = {
        "written since": "changed in the meantime",
        "running": "Agent running",
        "unknown": "can't be undone",
        "approval": "Needs approval",
        "undone already": "This has already been undone by event",
    }
    if why == "written since":
        write(ref, {"step": "done"})
    elif why == "running":
        runs(ref)
    elif why == "approval":
        approval.make(keys="step", by=TERMINAL)
    elif why == "undone already":
        undo_at_once(maria, ref, event_id, once="another form")
    stored = everything(ref.source)
    answer = undo_at_once(maria, ref, event_id)
    assert (answer["Location"], everything(ref.source)) == (undo_address(ref, event_id), stored)
    status = 400 if why in ("unknown", "undone already") else 200
    page = maria.open("undo", event_id=event_id, status=status, **ref._asdict())
    assert said[why] in page.text


@pytest.mark.guarantee("Edits", "An undo writes exactly what its preview shows.")
def test_the_preview_of_an_undo_is_what_is_written(ref: SessionRef, maria: Browser, write: Add) -> None:
    event_id = write(ref, {"step": "pay"})
    sent = undo_form(maria, ref, event_id).json_fields()
    page = page_of(apply(maria, ref, sent, "preview"))
    shown = json.loads(page.one("div", "preview-event").one("pre").raw)
    assert shown["custom_metadata"]["adkweb"]["undoes"] == event_id
    apply(maria, ref, form_of(page).json_fields())
    assert events_of(ref)[-1][1]["actions"] == shown["actions"]
    assert note(ref) == shown["custom_metadata"]["adkweb"]


def test_what_was_written_since_is_shown_beside_both_and_one_is_chosen(
    ref: SessionRef, maria: Browser, write: Add
) -> None:
    event_id = write(ref, {"step": "pay", "count": 4})
    write(ref, {"step": "done"})
    form = undo_form(maria, ref, event_id)
    (conflict,) = form.all("div", "conflict")
    assert conflict.texts("pre") == ['"pay"', '"done"', '"choose"']
    assert conflict.texts("h3") == ["The event wrote", "Current value", "Before"]
    sent = form.json_fields()
    number = next(name[-1] for name, value in sent.items() if name.startswith("key-") and value == "step")
    apply(maria, ref, {**sent, f"choice-{number}": "theirs"})
    assert state_of(ref)["session"] == {"step": "done", "count": 3, "nothing": None}
    # The other choice: the value from before the event, over what stands.
    sent = undo_form(maria, ref, event_id).json_fields()
    apply(maria, ref, {**sent, "choice-0": "mine"})
    assert state_of(ref)["session"]["step"] == "choose"
    assert note(ref)["replaced"] == {"step": "done"}


def test_a_write_after_the_form_was_opened_is_not_lost(ref: SessionRef, maria: Browser, write: Add) -> None:
    sent = undo_form(maria, ref, write(ref, {"step": "pay", "count": 4})).json_fields()
    write(ref, {"count": 5})
    before = everything(ref.source)
    response = apply(maria, ref, sent)
    assert response.status_code == 409
    form = form_of(page_of(response))
    assert (form.json_fields()["undoes"], form.json_fields()["reason"]) == (sent["undoes"], sent["reason"])
    (conflict,) = form.all("div", "conflict")
    assert conflict.texts("pre") == ["4", "5", "3"]  # what the event wrote, what stands now, what stood before
    assert everything(ref.source) == before


def test_undone_already_leads_to_the_event_that_did_it(ref: SessionRef, maria: Browser, write: Add) -> None:
    event_id = write(ref, {"step": "pay"})
    apply(maria, ref, undo_form(maria, ref, event_id).json_fields())
    page = maria.open("undo", event_id=event_id, status=400, **ref._asdict())
    assert "This has already been undone by event" in page.one(role="alert").text
    assert page.links()["Event 2"] == reverse(
        "event", kwargs={**ref._asdict(), "event_id": events_of(ref)[-1][1]["id"]}
    )


def test_an_undo_sent_twice_is_written_once(ref: SessionRef, maria: Browser, write: Add) -> None:
    sent = undo_form(maria, ref, write(ref, {"step": "pay"})).json_fields()
    assert [apply(maria, ref, sent).status_code for _sending in range(2)] == [302, 302]
    assert len(events_of(ref)) == 2


@pytest.mark.parametrize(
    ("delta", "message"),
    [
        ({}, "didn't change any state"),
        ({"step": "choose"}, "This event wrote the values that were already there, so there is nothing to undo"),
    ],
)
def test_an_event_that_changed_nothing_says_so(
    ref: SessionRef, maria: Browser, write: Add, delta: State, message: str
) -> None:
    page = maria.open("undo", event_id=write(ref, delta), status=400, **ref._asdict())
    assert message in page.one(role="alert").text


def test_what_was_never_recorded_is_named(ref: SessionRef, maria: Browser, write: Add) -> None:
    execute(ref.source, "UPDATE sessions SET initial_state = NULL")
    write(ref, {"new": 1})
    form = undo_form(maria, ref, write(ref, {"new": 2, "step": "pay"}))
    assert "(earlier value unknown): step" in form.one("p", "leftalone").text
    assert "key-1" not in form.json_fields()


def test_a_rewind_is_taken_back_by_a_rewind(ref: SessionRef, maria: Browser, write: Add, actor: Actor) -> None:
    write(ref, {"step": "pay"})
    event = rewind(ref, "i1", actor=actor).event
    response = maria.get(reverse("undo", kwargs={**ref._asdict(), "event_id": event["id"]}))
    assert response["Location"] == reverse("rewind", kwargs=ref._asdict()) + f"?before={event['invocation_id']}"


def test_a_rewind_is_undone_at_once_if_nothing_came_after_it(
    ref: SessionRef, maria: Browser, write: Add, actor: Actor
) -> None:
    write(ref, {"mood": "good"})
    event = rewind(ref, "i1", actor=actor).event
    assert "mood" not in state_of(ref)["session"]
    names = {"event_id": event["id"], **ref._asdict()}
    assert maria.send("undo", {"once": "o"}, **names)["Location"] == reverse("session", kwargs=ref._asdict())
    assert state_of(ref)["session"]["mood"] == "good"
    later = rewind(ref, "i1", actor=actor).event
    write(ref, {"mood": "bad"}, "i2")
    names["event_id"] = later["id"]
    assert maria.send("undo", {"once": "p"}, **names)["Location"].startswith(reverse("rewind", kwargs=ref._asdict()))


def test_taking_a_rewind_back_says_that_it_does_and_what_no_agent_sees_then(
    ref: SessionRef, maria: Browser, write: Add, actor: Actor
) -> None:
    for number in range(1, 4):
        write(ref, {"count": number}, f"i{number}")
    event = rewind(ref, "i2", actor=actor).event
    link = maria.open("event", event_id=event["id"], **ref._asdict()).one("nav", "takeback").one("a", data_key="U")
    assert link.text == "Undo… this rewind"
    write(ref, {"count": 9}, "on")
    page = rewind_page(maria, ref, event["invocation_id"])
    assert page.one("h1").text == "Undo the rewind of event 4"
    said = page.one("form", "rewindform").text
    assert "This undoes an earlier rewind" in said
    assert "Hidden from the agent 1 event, event 5." in said
    assert "2 rewound events" in said
    back = rewind(ref, event["invocation_id"], actor=actor).event
    write(ref, {"count": 10}, "on2")
    said = rewind_page(maria, ref, back["invocation_id"]).one("form", "rewindform").text
    assert "3 events, event 2 – event 7. Other events between these two were already hidden." in said
    assert "1 rewound event" in said


@pytest.mark.parametrize("name", ["undo", "fork", "event"])
def test_an_event_that_is_gone_is_said(ref: SessionRef, maria: Browser, name: str) -> None:
    assert "may have been deleted" in maria.open(name, event_id="gone", status=404, **ref._asdict()).one("main").text


def test_an_event_that_went_away_meanwhile_is_said_and_nothing_is_written(
    ref: SessionRef, maria: Browser, write: Add
) -> None:
    sent = undo_form(maria, ref, write(ref, {"step": "pay"})).json_fields()
    before = everything(ref.source)
    response = apply(maria, ref, {**sent, "undoes": "gone"})
    assert response.status_code == 404
    assert "may have been deleted" in page_of(response).one("p", "formerror").text
    assert everything(ref.source) == before


@pytest.mark.parametrize("action", ["apply", "queue", "preview"])
@pytest.mark.parametrize(
    ("forged", "status", "message"),
    [
        ({"undoes": "no-such-event"}, 404, "There's no event"),
        ({"undoes": "", "restores": "no-such-event"}, 404, "There's no event"),
        ({"restores": "e1"}, 400, "not both"),
    ],
)
def test_what_an_edit_says_it_takes_back_is_looked_up_however_it_is_sent(
    ref: SessionRef, maria: Browser, write: Add, action: str, forged: State, status: int, message: str
) -> None:
    event_id = write(ref, {"step": "pay"})
    sent = undo_form(maria, ref, event_id).json_fields() | {k: event_id if v == "e1" else v for k, v in forged.items()}
    before = everything(ref.source)
    response = apply(maria, ref, sent, action)
    assert (response.status_code, message in page_of(response).one("p", "formerror").text) == (status, True)
    assert everything(ref.source) == before
    assert queue.of_session(ref, actor=SYSTEM) == []


# --- While an invocation runs -----------------------------------------------------------------------------------------


def test_while_an_invocation_runs_an_undo_waits_and_keeps_what_it_undoes(
    ref: SessionRef, maria: Browser, write: Add, runs: Callable[[SessionRef], None], person: Any
) -> None:
    event_id = write(ref, {"step": "pay"})
    runs(ref)
    form = undo_form(maria, ref, event_id)
    assert "Agent running" in form.text
    assert apply(maria, ref, form.json_fields()).status_code == 409
    assert apply(maria, ref, form.json_fields(), "queue").status_code == 302
    (waiting,) = queue.of_session(ref, actor=SYSTEM)
    assert (waiting.state, waiting.of) == ("waiting", {"undoes": event_id})
    again = form_of(maria.open("session-edit", query={"queued": str(waiting.id)}, **ref._asdict()))
    assert again.json_fields()["undoes"] == event_id
    assert apply(maria, ref, form.json_fields(), "apply-now").status_code == 302
    assert note(ref)["undoes"] == event_id


def test_a_queued_undo_notes_what_it_undoes_once_it_is_applied(
    ref: SessionRef, write: Add, person: Any, settings: Any
) -> None:
    settings.SETTLE_SECONDS = 0
    event_id = write(ref, {"step": "pay"})
    entries = [Entry("step", "choose", "pay")]
    queue.queue_edit(ref, entries, person=person, of={"undoes": event_id})
    assert queue.apply_due([ref]) == 1
    assert note(ref)["undoes"] == event_id


# --- Restore ----------------------------------------------------------------------------------------------------------


def test_keys_and_scopes_are_restored(ref: SessionRef, maria: Browser, write: Add) -> None:
    event_id = write(ref, {"step": "pay"})
    write(ref, {"step": "done", "late": 1, "user:tier": "black", "app:limit": 11})
    fields = restore_form(maria, ref, to=event_id, key="step").json_fields()
    assert (fields["rows"], fields["key-0"], fields["value-0"]) == ("0 ", "step", '"pay"')
    fields = restore_form(maria, ref, to=event_id, scope=["user", "app"]).json_fields()
    assert [fields["key-0"], fields["key-1"]] == ["app:limit", "user:tier"]
    assert (fields["restores"], fields["reason"]) == (event_id, "Back to event #1")
    apply(maria, ref, fields)
    assert (state_of(ref)["user"], state_of(ref)["app"]) == ({"tier": "gold"}, {"limit": 10})
    apply(maria, ref, restore_form(maria, ref, to=event_id).json_fields())
    assert state_of(ref)["session"] == {"step": "pay", "count": 3, "nothing": None}
    assert note(ref)["restores"] == event_id
    page = maria.open("restore", query={"to": event_id}, status=400, **ref._asdict())
    assert page.one("h1").text == "Restore the state at event 1"
    assert "The state is already the same as it was then" in page.one(role="alert").text


def test_where_the_scope_has_nothing_to_restore_the_others_are_a_click_away(
    ref: SessionRef, maria: Browser, write: Add
) -> None:
    event_id = write(ref, {"step": "pay"})
    write(ref, {"user:tier": "black"})
    page = maria.open("restore", query={"to": event_id, "scope": "session"}, status=400, **ref._asdict())
    assert "The state is already the same as it was then" in page.one(role="alert").text
    form = form_of(maria.open(page.links()["All scopes"]))
    assert form.json_fields()["key-0"] == "user:tier"


def test_hundreds_of_keys_are_rows_to_choose_from(ref: SessionRef, maria: Browser, write: Add) -> None:
    event_id = write(ref, {f"k{n:03}": n for n in range(400)})
    write(ref, {f"k{n:03}": -n for n in range(400)} | {"late": [1, "<b>"]})
    form = restore_form(maria, ref, to=event_id)
    assert form.all("json-editor") == []
    assert len(form.all("div", "compact")) == 400
    sent = {k: v for k, v in form.json_fields().items() if k not in ("take-0", "take-399")}
    page = page_of(apply(maria, ref, sent, "preview"))
    left = [box["name"] for box in page.all("input", type="checkbox") if "checked" not in box]
    assert left == ["take-0", "take-399"]
    sent = {name: value for name, value in form_of(page).json_fields().items() if name not in left}
    assert apply(maria, ref, sent).status_code == 302
    state = state_of(ref)["session"]
    assert (state["k001"], state["k002"], state["k399"], state["late"]) == (-1, 2, 399, [1, "<b>"])
    assert len(note(ref)["replaced"]) == 398


def test_one_of_many_that_was_written_meanwhile_asks_and_nothing_is_half_done(
    ref: SessionRef, maria: Browser, write: Add
) -> None:
    event_id = write(ref, {f"k{n}": n for n in range(10)})
    write(ref, {f"k{n}": -n for n in range(10)})
    sent = restore_form(maria, ref, to=event_id).json_fields()
    write(ref, {"k5": "theirs"})
    before = everything(ref.source)
    response = apply(maria, ref, sent)
    assert response.status_code == 409
    assert everything(ref.source) == before
    form = form_of(page_of(response))
    (conflict,) = form.all("div", "conflict")
    assert conflict.texts("pre") == ['"theirs"', "5"]
    number = conflict.all("input")[0]["name"].removeprefix("choice-")
    apply(maria, ref, {**form.json_fields(), f"choice-{number}": "mine"})
    assert state_of(ref)["session"]["k5"] == 5


def test_nothing_ticked_is_nothing_written(ref: SessionRef, maria: Browser, write: Add) -> None:
    event_id = write(ref, {f"k{n}": n for n in range(10)})
    write(ref, {f"k{n}": -n for n in range(10)})
    fields = restore_form(maria, ref, to=event_id).json_fields()
    sent = {name: value for name, value in fields.items() if not name.startswith("take-")}
    response = apply(maria, ref, sent)
    assert response.status_code == 400
    assert "Nothing would change" in page_of(response).one("p", "formerror").text


@pytest.mark.parametrize(
    ("query", "status", "message"),
    [
        ({"key": "nope"}, 400, "The key “nope” didn't exist then"),
        ({"scope": "temp"}, 400, "There's no scope “temp”"),
        ({"to": "gone"}, 404, "may have been deleted"),
        ({"to": ""}, 404, "may have been deleted"),
    ],
)
def test_a_restore_of_what_is_not_there_says_so(
    ref: SessionRef, maria: Browser, write: Add, query: State, status: int, message: str
) -> None:
    asked = {"to": write(ref, {"step": "pay"}), **query}
    assert message in maria.open("restore", query=asked, status=status, **ref._asdict()).one("main").text


# --- Rewind -----------------------------------------------------------------------------------------------------------


def rewind_page(maria: Browser, ref: SessionRef, before: str, status: int = 200) -> Element:
    return maria.open("rewind", query={"before": before}, status=status, **ref._asdict())


def send_rewind(maria: Browser, page: Element, **more: str) -> Any:
    form = page.one("form", "rewindform")
    return maria.post(form["action"], {**form.json_fields(), **more})


def test_a_rewind_is_shown_before_it_is_sent(ref: SessionRef, maria: Browser, write: Add, add: Add) -> None:
    write(ref, {"step": "pay"})
    write(ref, {"step": "done", "user:tier": "black"}, "i2")
    add(ref, invocation_id="i2", actions={"artifact_delta": {"plan.txt": 0}})
    before = everything(ref.source)
    page = rewind_page(maria, ref, "i2")
    said = page.one("form", "rewindform").text
    assert "2 events, event 2 – event 3" in said
    assert 'step "done" "pay"' in said
    assert "plan.txt v0" in said
    shown = json.loads(page.one("details", "more").one("pre").raw)
    assert everything(ref.source) == before
    response = send_rewind(maria, page, reason="wrong turn")
    assert (response.status_code, response["Location"]) == (302, reverse("session", kwargs=ref._asdict()))
    event = events_of(ref)[-1][1]
    assert event["actions"] == shown["actions"] == {
        "rewind_before_invocation_id": "i2",
        "state_delta": {"step": "pay"},
    }  # fmt: skip
    assert (note(ref)["actor"], note(ref)["reason"]) == (NAME, "wrong turn")
    assert state_of(ref)["user"] == {"tier": "black"}
    assert "Saved as event #4." in maria.open("session", **ref._asdict()).text


def test_a_rewind_on_a_session_that_moved_is_shown_anew(ref: SessionRef, maria: Browser, write: Add) -> None:
    write(ref, {"step": "pay"})
    page = rewind_page(maria, ref, "i1")
    write(ref, {"late": 1}, "i2")
    before = everything(ref.source)
    response = send_rewind(maria, page, reason="why")
    assert response.status_code == 409
    assert everything(ref.source) == before
    again = page_of(response)
    assert "This session changed after you opened the page" in again.one("p", "formerror").text
    assert again.one("form", "rewindform").json_fields()["reason"] == "why"
    assert send_rewind(maria, again).status_code == 302
    assert state_of(ref)["session"] == {"step": "choose", "count": 3, "nothing": None}


def test_a_rewind_sent_twice_is_written_once(ref: SessionRef, maria: Browser, write: Add) -> None:
    write(ref, {"step": "pay"})
    page = rewind_page(maria, ref, "i1")
    assert [send_rewind(maria, page).status_code for _sending in range(2)] == [302, 302]
    assert len(events_of(ref)) == 2


def test_while_an_invocation_runs_a_rewind_asks_first(
    ref: SessionRef, maria: Browser, write: Add, runs: Callable[[SessionRef], None]
) -> None:
    write(ref, {"step": "pay"})
    page = rewind_page(maria, ref, "i1")
    runs(ref)
    before = everything(ref.source)
    response = send_rewind(maria, page)
    assert response.status_code == 409
    assert everything(ref.source) == before
    asking = page_of(response)
    assert "Agent running" in asking.text
    assert asking.texts("button", value="now") == ["Rewind now"]
    assert send_rewind(maria, asking, action="now").status_code == 302


@pytest.mark.parametrize("before", ["nope", ""])
def test_a_rewind_to_an_unknown_invocation_says_so(ref: SessionRef, maria: Browser, write: Add, before: str) -> None:
    write(ref, {"step": "pay"})
    assert f"no invocation “{before}”" in rewind_page(maria, ref, before, 404).one("main").text


@pytest.mark.parametrize("revision", ["", "x"])
def test_a_rewind_without_what_was_looked_at_is_refused(
    ref: SessionRef, maria: Browser, write: Add, revision: str
) -> None:
    write(ref, {"step": "pay"})
    response = send_rewind(maria, rewind_page(maria, ref, "i1"), revision=revision)
    assert response.status_code == 400
    assert len(events_of(ref)) == 1


# --- Everywhere -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["undo", "restore", "rewind", "fork"])
@pytest.mark.parametrize("method", ["get", "post"])
def test_read_only_refuses_before_anything_is_asked(
    ref: SessionRef, maria: Browser, write: Add, read_only: None, name: str, method: str, settings: Any
) -> None:
    settings.READ_ONLY = False
    event_id = write(ref, {"step": "pay"})
    settings.READ_ONLY = True
    names = {**ref._asdict(), **({"event_id": event_id} if name in ("undo", "fork") else {})}
    response = getattr(maria, method)(reverse(name, kwargs=names) + f"?to={event_id}&before=i1")
    assert response.status_code == (405 if method == "post" and name == "restore" else 403)


def test_what_is_done_at_an_event_keeps_its_place_and_says_what_it_is(
    ref: SessionRef, maria: Browser, add: Callable[..., str], write: Add
) -> None:
    wrote, said = write(ref, {"step": "pay"}), add(ref, {"text": "hello"})
    meanings = [str(TERMS[word][1]) for word in ("undo", "restore", "rewind", "fork")]
    meanings.insert(3, whatif.why_not(ref))
    for event_id, titles in ((wrote, meanings), (said, ["This event changed nothing", *meanings[1:]])):
        page = maria.open("state-at", query={"at": event_id}, htmx=True, **ref._asdict())
        links = page.one("nav", "takeback").all("a")
        assert [link.text.partition("…")[0] for link in links] == ["Undo", "Restore", "Rewind", "What if", "Fork"]
        assert [link["title"] for link in links] == titles
    assert [link.text for link in links if "href" not in link] == ["Undo… this event", "What if… try it"]


def test_an_event_offers_what_can_be_done_and_says_what_it_is(
    ref: SessionRef, maria: Browser, write: Add, actor: Actor
) -> None:
    event_id = write(ref, {"step": "pay"})
    offered = ["Undo… this event", "Restore… these values", "Rewind… forget the rest", "Fork… a copy"]
    links = maria.open("event", event_id=event_id, **ref._asdict()).one("nav", "takeback").links()
    assert list(links) == offered
    apply(maria, ref, undo_form(maria, ref, event_id).json_fields())
    edit_state(ref, [Entry("x", 1, ABSENT)], actor=actor, of={"restores": event_id}, reason="as it was")
    rewind(ref, "i1", actor=actor)
    lines = maria.open("session", **ref._asdict()).texts("a", "line")
    assert lines[-3:] == [
        "Undo of an earlier event",
        "State restored to an earlier event",
        "Rewound to before i1",
    ]
    facts = maria.open("event", event_id=events_of(ref)[1][1]["id"], **ref._asdict()).one("dl", "facts")
    assert facts.links()[event_id] == reverse("event", kwargs={**ref._asdict(), "event_id": event_id})


def test_what_others_noted_under_our_names_breaks_no_page(ref: SessionRef, maria: Browser, actor: Actor) -> None:
    for number, hostile in enumerate([1, [], {"session": 1}, None, "", "<b>", "../..", True]):
        noted = {"undoes": hostile, "restores": hostile, "forked": hostile}
        event = {"id": f"x{number}", "custom_metadata": {"adkweb": noted, "adkweb_origin": hostile}}
        append_event(ref, {"id": event["id"]}, actor=actor)
        overwrite_event(ref, event)
        maria.open("event", event_id=f"x{number}", **ref._asdict())
    maria.open("session", **ref._asdict())
    maria.open("edits")
