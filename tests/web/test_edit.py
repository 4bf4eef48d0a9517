"""The form that edits state: one event for several keys, errors at the key, and nothing typed is ever lost."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.urls import reverse

from sessions_app.access.actor import SYSTEM, Actor
from sessions_app.domain.errors import SourceError
from sessions_app.domain.session_ref import SessionRef
from sessions_app.domain.state import ABSENT, Scope
from sessions_app.edits import edit
from sessions_app.edits.edit import REASON_LENGTH, Entry, edit_app_state, edit_state
from sessions_app.reads import lists
from sessions_app.web.edits import rows
from sessions_app.writes.sessions import delete_session
from tests.support.people import somebody
from tests.support.stored import events_of, everything, state_of
from tests.web.conftest import NAME, Browser, names_of
from tests.web.html import Element, page_of

pytestmark = pytest.mark.django_db

Sent = dict[str, str]


def open_form(maria: Browser, ref: SessionRef, *names: str, htmx: bool = False) -> Element:
    page = maria.open("session-edit", query={"key": list(names)}, htmx=htmx, **ref._asdict())
    return form_of(page)


def form_of(page: Element) -> Element:
    return page.one("form", "editbox")


def row_of(page: Element, number: int) -> Element:
    """One key of the form."""
    return page.all("div", "editrow")[number]


def apply(maria: Browser, ref: SessionRef, sent: Sent, *, htmx: bool = False) -> Any:
    return maria.send("session-edit", {**sent, "action": "apply"}, htmx=htmx, **ref._asdict())


def last(ref: SessionRef) -> dict[str, Any]:
    """The last stored event."""
    return events_of(ref)[-1][1]


def note(ref: SessionRef) -> dict[str, Any]:
    """What the last edit noted."""
    found: dict[str, Any] = last(ref)["custom_metadata"]["adkweb"]
    return found


# --- The form ---------------------------------------------------------------------------------------------------------


def test_the_form_opens_with_the_values_of_the_keys_it_was_asked_for(ref: SessionRef, maria: Browser) -> None:
    form = open_form(maria, ref, "step", "user:tier", "new")
    fields = form.json_fields()
    assert [fields[f"key-{n}"] for n in range(3)] == ["step", "user:tier", "new"]
    assert [fields[f"value-{n}"] for n in range(3)] == ['"choose"', '"gold"', ""]
    assert [fields[f"operation-{n}"] for n in range(3)] == ["set"] * 3
    assert "new key" in row_of(form, 2).text
    assert row_of(form, 0).texts("option") == ["Set value", "Set to null", "Remove key"]
    assert row_of(form, 2).texts("option") == ["Set value", "Set to null"]


def test_the_form_offers_the_other_keys(ref: SessionRef, maria: Browser) -> None:
    offered = [option["value"] for option in open_form(maria, ref, "step").one("datalist").all("option")]
    assert offered == ["app:limit", "count", "nothing", "user:tier"]


def test_the_form_is_a_page_or_a_fragment(ref: SessionRef, maria: Browser) -> None:
    page = maria.open("session-edit", **ref._asdict())
    assert page.one("h1").text == "Edit state"
    assert maria.open("session-edit", htmx=True, **ref._asdict()).all("html") == []


def test_the_forms_first_button_applies_so_that_enter_does_not_take_a_key_away(ref: SessionRef, maria: Browser) -> None:
    first = open_form(maria, ref, "step").all("button")[0]
    assert (first["name"], first["value"]) == ("action", "apply")


def test_an_empty_form_asks_for_a_key(ref: SessionRef, maria: Browser) -> None:
    assert "required" in open_form(maria, ref).one("input", id="new-key")
    assert "required" not in open_form(maria, ref, "step").one("input", id="new-key")


def test_the_form_begins_in_the_type_of_each_value_and_a_string_is_the_text_itself(
    ref: SessionRef, maria: Browser, add: Callable[..., str]
) -> None:
    values = {
        "text": ('say "hi"\n', "string", 'say "hi"\n'),
        "empty": ("", "string", ""),
        "number": (1.5, "number", "1.5"),
        "truth": (False, "boolean", "false"),
        "nothing": (None, "null", "null"),
        "list": ([1], "json", "[\n  1\n]"),
        "returns": ("a\r\nb", "json", '"a\\r\\nb"'),  # no text field sends this back as it is
    }
    add(ref, actions={"state_delta": {key: value for key, (value, *_) in values.items()}})
    fields = open_form(maria, ref, *values, "unheard").fields()
    begun = [(fields.get(f"type-{n}", ""), fields[f"value-{n}"]) for n in range(len(values) + 1)]
    assert begun == [*(shown for _, *shown_ in values.values() if (shown := tuple(shown_))), ("", "")]
    assert apply(maria, ref, fields | {"value-7": '"x"'}).status_code == 302
    assert last(ref)["actions"]["state_delta"] == {"unheard": "x"}  # nothing else was changed by being shown


@pytest.mark.parametrize("text", ["done", '"quoted"', "", " a\r\nb ", "{", "null"])
def test_a_string_is_stored_as_it_was_typed(ref: SessionRef, maria: Browser, text: str) -> None:
    sent = open_form(maria, ref, "step").fields()
    assert apply(maria, ref, sent | {"value-0": text}).status_code == 302
    assert state_of(ref)["session"]["step"] == text.replace("\r\n", "\n")


def test_a_new_string_is_missing_while_its_field_is_empty(ref: SessionRef, maria: Browser) -> None:
    sent = open_form(maria, ref, "fresh").fields() | {"type-0": "string"}
    answer = apply(maria, ref, sent)
    assert answer.status_code == 400
    assert "choose “string”" in row_of(page_of(answer), 0).one("p", "error").text
    assert apply(maria, ref, sent | {"type-0": "json", "value-0": '""'}).status_code == 302
    assert state_of(ref)["session"]["fresh"] == ""


# --- Applying ---------------------------------------------------------------------------------------------------------


def test_a_value_is_set_with_who_and_why(ref: SessionRef, maria: Browser) -> None:
    sent = open_form(maria, ref, "step").json_fields() | {"value-0": '"pay"', "reason": "  It was stuck. "}
    response = apply(maria, ref, sent)
    assert (response.status_code, response["Location"]) == (302, reverse("session", kwargs=ref._asdict()))
    assert state_of(ref)["session"]["step"] == "pay"
    assert note(ref) == {"actor": NAME, "reason": "It was stuck.", "replaced": {"step": "choose"}, "removed": []}
    page = maria.open("session", **ref._asdict())
    assert page.one(role="status").text == "Saved as event #1. View Undo u"


def test_what_is_wrong_with_a_source_is_said_to_an_admin_of_everything_alone(
    ref: SessionRef, maria: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    ana = Browser()
    ana.force_login(somebody("ana", "editor", "book*"))
    sent = {**open_form(maria, ref, "step").fields(), "value-0": "9"}

    def away(*_given: Any, **_names: Any) -> Any:
        raise SourceError("/srv/agents/session.db: the disk is full")

    monkeypatch.setattr(edit, "append_once", away)
    for who, said in ((maria, "/srv/agents/session.db: the disk is full"), (ana, "An admin can see why.")):
        response = apply(who, ref, sent)
        form = form_of(page_of(response))
        assert said in form.text
        assert ("/srv/agents" in response.content.decode()) == (who is maria)
        assert form.fields()["value-0"] == "9"


def test_htmx_is_led_back_to_the_page(ref: SessionRef, maria: Browser) -> None:
    response = apply(maria, ref, open_form(maria, ref, "step").json_fields() | {"value-0": "1"}, htmx=True)
    assert (response.status_code, response["HX-Redirect"]) == (200, reverse("session", kwargs=ref._asdict()))


def test_several_keys_of_every_scope_are_one_event(ref: SessionRef, maria: Browser) -> None:
    sent = open_form(maria, ref, "step", "count", "user:tier", "app:limit", "fresh", "nothing").json_fields()
    sent |= {"operation-0": "remove", "operation-1": "null", "value-2": '{"a": [1, 2.5]}', "value-3": "11"}
    sent |= {"value-4": "true", "value-5": "false"}
    assert apply(maria, ref, sent).status_code == 302
    assert len(events_of(ref)) == 1
    assert state_of(ref) == {
        "session": {"count": None, "nothing": False, "fresh": True},
        "user": {"tier": {"a": [1, 2.5]}},
        "app": {"limit": 11},
    }
    assert note(ref)["removed"] == ["step"]
    assert note(ref)["replaced"] == {
        "step": "choose",
        "count": 3,
        "user:tier": "gold",
        "app:limit": 10,
        "nothing": None,
    }


def test_keys_that_were_left_as_they_are_are_not_written(ref: SessionRef, maria: Browser) -> None:
    apply(maria, ref, open_form(maria, ref, "step", "count").json_fields() | {"value-1": "4"})
    assert last(ref)["actions"]["state_delta"] == {"count": 4}


@pytest.mark.parametrize(
    "text", ['"a\\nb"', '{\r\n"a": 1\r\n}', "12345678901234567890", "1e-7", '"\\ud83d\\udc69"', "[]"]
)
def test_a_value_is_stored_as_it_was_typed(ref: SessionRef, maria: Browser, text: str) -> None:
    apply(maria, ref, open_form(maria, ref, "fresh").json_fields() | {"value-0": text})
    assert state_of(ref)["session"]["fresh"] == json.loads(text)


@pytest.mark.parametrize("scope", ["app", "user"])
@pytest.mark.parametrize("htmx", [True, False])
def test_the_state_of_an_app_or_user_is_edited_in_a_session_of_adkwebs_own(
    ref: SessionRef, maria: Browser, scope: Scope, htmx: bool
) -> None:
    names = names_of(ref, 2 if scope == "app" else 3)
    name = "app:limit" if scope == "app" else "user:tier"
    form = form_of(maria.open(f"{scope}-edit", query={"key": name}, **names))
    assert form.one("input", id="new-key")["placeholder"] == f"{scope}:key"
    response = maria.send(
        f"{scope}-edit", {**form.json_fields(), "value-0": "1", "reason": "Because"}, htmx=htmx, **names
    )
    assert response["HX-Redirect" if htmx else "Location"] == reverse(scope, kwargs=names)
    own = SessionRef(ref.source, ref.app_name, "adkweb" if scope == "app" else ref.user_id, "adkweb")
    assert last(own)["actions"]["state_delta"] == {name: 1}
    assert note(own)["reason"] == "Because"
    assert state_of(ref)[scope] == {name.partition(":")[2]: 1}
    assert events_of(ref) == []


# --- Preview ----------------------------------------------------------------------------------------------------------


def preview(maria: Browser, ref: SessionRef, sent: Sent, *, htmx: bool = False) -> Any:
    return maria.send("session-edit", {**sent, "action": "preview"}, htmx=htmx, **ref._asdict())


@pytest.mark.parametrize("htmx", [True, False])
def test_the_event_is_shown_before_it_is_written_and_everything_typed_stays(
    ref: SessionRef, maria: Browser, htmx: bool
) -> None:
    sent = open_form(maria, ref, "step", "count").json_fields()
    sent |= {"value-0": '"pay"', "operation-1": "remove", "reason": "Why </pre><b>"}
    response = preview(maria, ref, sent, htmx=htmx)
    page = page_of(response)
    event = json.loads(page.one("div", "preview-event").one("pre").raw)
    assert response.status_code == 200
    assert event["actions"]["state_delta"] == {"step": "pay", "count": None}
    assert event["custom_metadata"]["adkweb"]["reason"] == "Why </pre><b>"
    assert events_of(ref) == []
    fields = form_of(page).json_fields()
    assert fields == fields | {"value-0": '"pay"', "operation-1": "remove", "reason": "Why </pre><b>"}
    apply(maria, ref, fields)
    assert last(ref)["actions"] == event["actions"]
    assert last(ref)["custom_metadata"] == event["custom_metadata"]


@pytest.mark.parametrize(("text", "error"), [("{", "not valid JSON"), ('"choose"', "Nothing would change.")])
def test_what_could_not_be_written_has_no_preview(ref: SessionRef, maria: Browser, text: str, error: str) -> None:
    response = preview(maria, ref, open_form(maria, ref, "step").json_fields() | {"value-0": text})
    page = page_of(response)
    assert response.status_code == 400
    assert error in page.text
    assert page.all("div", "preview-event") == []


# --- Rows -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("htmx", [True, False])
def test_a_key_is_added_to_the_form_and_everything_typed_stays(ref: SessionRef, maria: Browser, htmx: bool) -> None:
    sent = open_form(maria, ref, "step").json_fields()
    sent |= {"value-0": '{"half": ', "operation-0": "null", "reason": "Why", "new-key": "count", "action": "add"}
    response = maria.send("session-edit", sent, htmx=htmx, **ref._asdict())
    fields = form_of(page_of(response)).json_fields()
    assert response.status_code == 200
    assert (fields["value-0"], fields["operation-0"], fields["reason"]) == ('{"half": ', "null", "Why")
    assert (fields["key-1"], fields["value-1"], fields["new-key"]) == ("count", "3", "")
    assert events_of(ref) == []


def test_enter_in_the_field_for_a_key_adds_it_and_applies_nothing(ref: SessionRef, maria: Browser) -> None:
    sent = open_form(maria, ref, "step").json_fields() | {"value-0": "1", "new-key": "count"}
    assert len(form_of(page_of(apply(maria, ref, sent))).all("div", "editrow")) == 2
    assert events_of(ref) == []


def test_a_key_that_stands_in_the_form_already_is_not_added_again(ref: SessionRef, maria: Browser) -> None:
    sent = open_form(maria, ref, "step").json_fields() | {"new-key": "step"}
    page = page_of(apply(maria, ref, sent))
    assert "step is already in this edit." in page.one("p", "formerror").text
    assert len(page.all("div", "editrow")) == 1


def test_a_key_is_taken_out_of_the_form_and_the_others_stay(ref: SessionRef, maria: Browser) -> None:
    sent = open_form(maria, ref, "step", "count").json_fields() | {"value-1": "77", "drop": "0", "reason": "Why"}
    fields = form_of(page_of(maria.send("session-edit", sent, **ref._asdict()))).json_fields()
    assert (fields["rows"], fields["key-0"], fields["value-0"], fields["reason"]) == ("0 ", "count", "77", "Why")
    assert events_of(ref) == []


# --- Refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{'a': 1}", "line 1, column 2: not valid JSON"),
        ('{\n  "a": 1\n  "b": 2\n}', "line 3, column 3: not valid JSON"),
        ("gold", "line 1, column 1: not valid JSON"),
        ("", "A value is missing."),
        (" \n", "A value is missing."),
        ("NaN", "NaN and infinity aren't valid JSON"),
        ('{"a": 1, "a": 2}', 'the key "a" appears twice in one object'),
        ('"\\u0000"', "the character U+0000 can't be stored in a database"),
        ('"\\ud800"', "half a surrogate pair"),
        ("[" * 200 + "]" * 200, "nested deeper than 150 levels"),
    ],
)
def test_an_error_stands_at_its_key_and_the_text_stays(
    ref: SessionRef, maria: Browser, text: str, message: str
) -> None:
    before = everything(ref.source)
    sent = open_form(maria, ref, "step", "count").json_fields() | {"value-0": text, "value-1": "4", "reason": "Why"}
    response = apply(maria, ref, sent)
    page = page_of(response)
    assert response.status_code == 400
    assert message in row_of(page, 0).one("p", "error").text
    area = row_of(page, 0).one("textarea")
    assert area["aria-describedby"] == row_of(page, 0).one("p", "error")["id"]
    assert row_of(page, 1).all("p", "error") == []
    fields = form_of(page).json_fields()
    assert (fields["value-0"], fields["value-1"], fields["reason"]) == (text, "4", "Why")
    assert everything(ref.source) == before


def test_every_wrong_value_has_its_error(ref: SessionRef, maria: Browser) -> None:
    sent = open_form(maria, ref, "step", "count").json_fields() | {"value-0": "a", "value-1": "b"}
    assert len(page_of(apply(maria, ref, sent)).all("p", "error")) == 2


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("temp:x", "temp: keys live for one invocation and are never stored"),
        ("app:", "Enter a name for the key."),
        ("user:", "Enter a name for the key."),
    ],
)
def test_a_key_that_cannot_be_stored_is_refused(ref: SessionRef, maria: Browser, name: str, message: str) -> None:
    response = apply(maria, ref, open_form(maria, ref, name).json_fields() | {"value-0": "1"})
    assert response.status_code == 400
    assert message in page_of(response).one("p", "formerror").text
    assert form_of(page_of(response)).json_fields()["value-0"] == "1"
    assert events_of(ref) == []


def test_nothing_is_written_where_nothing_would_change(ref: SessionRef, maria: Browser) -> None:
    response = apply(maria, ref, open_form(maria, ref, "step").json_fields() | {"value-0": ' "choose" '})
    assert response.status_code == 400
    assert page_of(response).one("p", "formerror").text == "Nothing would change."
    assert events_of(ref) == []


def test_a_key_named_twice_is_refused(ref: SessionRef, maria: Browser) -> None:
    sent = open_form(maria, ref, "step").json_fields() | {
        "rows": "0 1",
        "value-0": "1",
        "key-1": "step",
        "value-1": "2",
    }
    response = apply(maria, ref, sent)
    assert "appears twice in this edit" in page_of(response).one("p", "formerror").text
    assert response.status_code == 400


def test_a_reason_that_is_too_long_is_refused_and_kept(ref: SessionRef, maria: Browser) -> None:
    why = "x" * (REASON_LENGTH + 1)
    response = apply(maria, ref, open_form(maria, ref, "step").json_fields() | {"value-0": "1", "reason": why})
    assert response.status_code == 400
    assert form_of(page_of(response)).json_fields()["reason"] == why


def test_an_app_form_refuses_keys_of_another_scope(ref: SessionRef, maria: Browser) -> None:
    names: dict[str, Any] = {"source": ref.source, "app_name": ref.app_name}
    form = form_of(maria.open("app-edit", query={"key": "user:tier"}, **names))
    response = maria.send("app-edit", {**form.json_fields(), "value-0": "1"}, **names)
    assert response.status_code == 400
    assert "keys here must start with app:" in page_of(response).one("p", "formerror").text
    assert lists.sessions(ref.source, ref.app_name, actor=SYSTEM).rows[0].ref == ref


@pytest.mark.parametrize("name", ["session", "app", "user"])
@pytest.mark.parametrize("method", ["get", "post"])
def test_read_only_refuses_before_anything_is_typed(
    ref: SessionRef, maria: Browser, read_only: None, name: str, method: str
) -> None:
    names = names_of(ref, {"app": 2, "user": 3, "session": 4}[name])
    response = getattr(maria, method)(reverse(f"{name}-edit", kwargs=names))
    assert response.status_code == 403
    assert "adkweb was started with --read-only" in page_of(response).one("main").text


def test_a_session_that_was_deleted_meanwhile_is_said(ref: SessionRef, maria: Browser, actor: Actor) -> None:
    sent = open_form(maria, ref, "step").json_fields() | {"value-0": "1"}
    delete_session(ref, actor=actor)
    response = apply(maria, ref, sent)
    assert response.status_code == 404
    assert "There's no session “s1”." in page_of(response).one("main").text


def test_a_form_has_each_key_and_each_row_once_however_often_they_are_named(ref: SessionRef, maria: Browser) -> None:
    sent = open_form(maria, ref, "step", *["count"] * 50).json_fields()
    assert sent["rows"].split() == ["0", "1"]
    response = preview(maria, ref, sent | {"rows": "0 " * 20_000, "value-0": "1"})
    assert response.status_code == 200
    assert len(form_of(page_of(response)).all("div", "editrow")) == 1


def test_a_form_of_more_keys_than_a_request_has_fields_for_is_refused(
    ref: SessionRef, maria: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "MOST", 2)
    sent = open_form(maria, ref, "step", "count").json_fields()
    refused = page_of(maria.send("session-edit", {**sent, "new-key": "fresh"}, **ref._asdict()))
    assert "An edit can have up to 2 keys." in refused.one("p", "formerror").text
    assert form_of(refused).json_fields()["rows"].split() == ["0", "1"]
    for action in ("apply", "preview"):
        forged = {**sent, "rows": "0 1 2", "action": action}
        assert maria.send("session-edit", forged, **ref._asdict()).status_code == 400
    assert maria.get(reverse("session-edit", kwargs=ref._asdict()), {"key": ["a", "b", "c"]}).status_code == 400
    assert events_of(ref) == []


@pytest.mark.parametrize("seen", ["{", "[" * 100_000, "'"])
def test_a_form_that_was_tampered_with_writes_nothing(ref: SessionRef, maria: Browser, seen: str) -> None:
    response = apply(maria, ref, open_form(maria, ref, "step").json_fields() | {"value-0": "1", "seen-0": seen})
    assert response.status_code == 400
    assert events_of(ref) == []


# --- Conflicts --------------------------------------------------------------------------------------------------------


@pytest.fixture
def conflict(ref: SessionRef, maria: Browser, actor: Actor) -> tuple[int, Element]:
    """Somebody wrote `step` after maria opened her form with `step` and `count`."""
    sent = open_form(maria, ref, "step", "count").json_fields()
    sent |= {"value-0": '"mine"', "value-1": "4", "reason": "Why"}
    edit_state(ref, [Entry("step", "theirs", "choose")], actor=actor)
    response = apply(maria, ref, sent)
    return response.status_code, page_of(response)


def test_a_conflict_shows_both_values_and_who_wrote_the_other(
    ref: SessionRef, conflict: tuple[int, Element], actor: Actor
) -> None:
    status, page = conflict
    assert status == 409
    assert "Nothing was written." in page.one("p", "formerror").text
    shown = row_of(page, 0).one("div", "conflict")
    theirs, mine = shown.one("section", "theirs"), shown.one("section", "yours")
    assert (theirs.one("pre").text, mine.one("pre").text) == ('"theirs"', '"mine"')
    assert actor.name in theirs.text
    assert [radio["value"] for radio in shown.all("input", type="radio")] == ["theirs", "mine"]
    assert row_of(page, 1).all("div", "conflict") == []
    assert state_of(ref)["session"]["step"] == "theirs"
    assert state_of(ref)["session"]["count"] == 3


def test_a_conflict_keeps_everything_that_was_typed(conflict: tuple[int, Element]) -> None:
    fields = form_of(conflict[1]).json_fields()
    assert (fields["value-0"], fields["value-1"], fields["reason"]) == ('"mine"', "4", "Why")


def test_mine_is_written_over_the_value_that_stands_now(
    ref: SessionRef, maria: Browser, conflict: tuple[int, Element]
) -> None:
    assert apply(maria, ref, form_of(conflict[1]).json_fields() | {"choice-0": "mine"}).status_code == 302
    assert state_of(ref)["session"] == {"step": "mine", "count": 4, "nothing": None}
    assert note(ref)["replaced"] == {"step": "theirs", "count": 3}


def test_theirs_stays_and_the_other_keys_are_written(
    ref: SessionRef, maria: Browser, conflict: tuple[int, Element]
) -> None:
    assert apply(maria, ref, form_of(conflict[1]).json_fields() | {"choice-0": "theirs"}).status_code == 302
    assert state_of(ref)["session"] == {"step": "theirs", "count": 4, "nothing": None}


@pytest.mark.parametrize("htmx", [True, False])
def test_where_every_other_value_stays_nothing_is_written_and_that_is_said(
    ref: SessionRef, maria: Browser, conflict: tuple[int, Element], htmx: bool
) -> None:
    sent = form_of(conflict[1]).json_fields() | {"choice-0": "theirs", "choice-1": "theirs"}
    response = apply(maria, ref, sent, htmx=htmx)
    assert response["HX-Redirect" if htmx else "Location"] == reverse("session", kwargs=ref._asdict())
    assert len(events_of(ref)) == 1
    said = maria.open("session", **ref._asdict()).one(role="status").text
    assert said == "Nothing was written. The current values were kept."


def test_a_conflict_that_changes_again_is_a_conflict_again(
    ref: SessionRef, maria: Browser, conflict: tuple[int, Element], actor: Actor
) -> None:
    edit_state(ref, [Entry("step", "again", "theirs")], actor=actor)
    response = apply(maria, ref, form_of(conflict[1]).json_fields() | {"choice-0": "mine"})
    assert response.status_code == 409
    assert row_of(page_of(response), 0).one("section", "theirs").one("pre").text == '"again"'


@pytest.mark.parametrize(
    ("theirs", "operation", "shown"),
    [
        (ABSENT, "set", ("The key was removed.", '"mine"')),
        (None, "remove", ("null", "Remove key")),
        (1, "null", ("1", "null")),
    ],
)
def test_a_conflict_names_what_each_would_do(
    ref: SessionRef, maria: Browser, actor: Actor, theirs: Any, operation: str, shown: tuple[str, str]
) -> None:
    sent = open_form(maria, ref, "step").json_fields() | {"value-0": '"mine"', "operation-0": operation}
    edit_state(ref, [Entry("step", theirs, "choose")], actor=actor)
    page = page_of(apply(maria, ref, sent))
    assert tuple(pre.text for pre in row_of(page, 0).one("div", "conflict").all("pre")) == shown
    assert apply(maria, ref, form_of(page).json_fields() | {"choice-0": "mine"}).status_code == 302


def test_a_key_that_somebody_else_added_is_a_conflict(ref: SessionRef, maria: Browser, actor: Actor) -> None:
    sent = open_form(maria, ref, "fresh").json_fields() | {"value-0": "1"}
    edit_state(ref, [Entry("fresh", 2, ABSENT)], actor=actor)
    assert apply(maria, ref, sent).status_code == 409


def test_a_key_that_became_what_was_wanted_is_still_a_conflict_with_what_was_seen(
    ref: SessionRef, maria: Browser, actor: Actor
) -> None:
    sent = open_form(maria, ref, "step").json_fields() | {"value-0": '"pay"'}
    edit_state(ref, [Entry("step", "pay", "choose")], actor=actor)
    page = page_of(apply(maria, ref, sent))
    response = apply(maria, ref, form_of(page).json_fields() | {"choice-0": "mine"})
    assert "Nothing would change." in page_of(response).one("p", "formerror").text


def test_another_key_that_changed_is_no_conflict(
    ref: SessionRef, maria: Browser, actor: Actor, add: Callable[..., str]
) -> None:
    sent = open_form(maria, ref, "step").json_fields() | {"value-0": '"mine"'}
    edit_state(ref, [Entry("count", 9, 3)], actor=actor)
    add(ref, {"text": "the conversation goes on"})
    assert apply(maria, ref, sent).status_code == 302
    assert state_of(ref)["session"] == {"step": "mine", "count": 9, "nothing": None}


def test_app_state_that_changed_is_a_conflict_that_says_who(ref: SessionRef, maria: Browser, actor: Actor) -> None:
    names: dict[str, Any] = {"source": ref.source, "app_name": ref.app_name}
    form = form_of(maria.open("app-edit", query={"key": "app:limit"}, **names))
    edit_app_state(ref.source, ref.app_name, [Entry("app:limit", 11, 10)], actor=actor)
    response = maria.send("app-edit", {**form.json_fields(), "value-0": "12"}, **names)
    assert response.status_code == 409
    theirs = page_of(response).one("section", "theirs")
    assert theirs.one("pre").text == "11"
    assert actor.name in theirs.text


def test_an_operation_that_the_form_does_not_have_is_refused(ref: SessionRef, maria: Browser) -> None:
    before = everything(ref.source)
    sent = open_form(maria, ref, "step").json_fields() | {"operation-0": "weird"}
    response = apply(maria, ref, sent)
    assert response.status_code == 400
    assert "There's no operation “weird”." in row_of(page_of(response), 0).one("p", "error").text
    assert everything(ref.source) == before


@pytest.mark.parametrize(("typed", "text"), [("KE924", '"KE924"'), (" 007 ", '"007"'), ("it's “so”", '"it\'s “so”"')])
def test_what_is_no_json_is_offered_as_text(ref: SessionRef, maria: Browser, typed: str, text: str) -> None:
    before = everything(ref.source)
    sent = open_form(maria, ref, "step").json_fields() | {"value-0": typed}
    refused = row_of(page_of(apply(maria, ref, sent)), 0)
    (button,) = [each for each in refused.all("button") if each["name"] == "as-string"]
    assert button.text == f"Use “{typed.strip()}” as a string"
    form = page_of(maria.send("session-edit", {**sent, "as-string": button["value"]}, **ref._asdict())).one(
        "form", "editbox"
    )
    assert form.json_fields()["value-0"] == text
    assert everything(ref.source) == before


@pytest.mark.parametrize("typed", ["", "[1,", '"half', '{"a": }'])
def test_what_was_begun_as_json_is_not(ref: SessionRef, maria: Browser, typed: str) -> None:
    sent = open_form(maria, ref, "step").json_fields() | {"value-0": typed}
    refused = row_of(page_of(apply(maria, ref, sent)), 0)
    assert [each for each in refused.all("button") if each["name"] == "as-string"] == []


def test_an_edit_sent_twice_by_one_form_is_written_once(ref: SessionRef, maria: Browser) -> None:
    sent = open_form(maria, ref, "step").json_fields() | {"value-0": '"twice"'}
    assert [apply(maria, ref, sent).status_code for _sending in range(2)] == [302, 302]
    assert "This edit has already been written." in maria.open("session", **ref._asdict()).one("div", "toasts").text
