"""Batches in the browser: what is selected, the form, the dry run, the confirmation, the progress and the undo."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from django.urls import reverse
from pytest_django import Settings

from sessions_app.access import approval
from sessions_app.access.actor import TERMINAL, Actor
from sessions_app.batches import batch, reading, working
from sessions_app.batches.acts import event_id_of
from sessions_app.domain.session_ref import SessionRef
from sessions_app.sources import database
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session
from tests.search.finding import feed
from tests.support.at_work import settle
from tests.support.people import somebody
from tests.support.stored import state_of
from tests.transfer.files import imported
from tests.web.conftest import Browser
from tests.web.html import Element, page_of
from tests.web.test_shown import whole

# The work is done by threads, which see only what is committed.
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.parametrize("form", ["sqlite"])]

HOSTILE = "<script>alert(1)</script>"


@pytest.fixture
def refs(source: str, actor: Actor) -> list[SessionRef]:
    """Three sessions, which are indexed."""
    state = {"step": "choose", "user:tier": "silver"}
    refs = [create_session(source, "booking", "ana", session_id=f"s{n}", state=state, actor=actor) for n in range(3)]
    feed(source)
    return refs


@pytest.fixture(autouse=True)
def _no_thread_is_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(working, "LOOK_AGAIN", 0.05)
    yield
    settle("batch")


def path_of(ref: SessionRef) -> str:
    return reverse("session", kwargs=ref._asdict())


def select(maria: Browser, act: str, *refs: SessionRef, **more: str) -> Any:
    """What a button below the table answers."""
    return maria.send("chosen", {"act": act, "ref": [path_of(ref) for ref in refs], **more})


def row(key: str, text: str, operation: str = "set", number: int = 0) -> dict[str, str]:
    """The fields of a key in the form."""
    return {f"key-{number}": key, f"value-{number}": text, f"operation-{number}": operation, "rows": str(number)}


def send(maria: Browser, address: str, action: str, **more: str) -> Element:
    """The page after a button is pressed."""
    answer = maria.send(address, {"action": action, **more})
    settle("batch")
    return maria.open(answer["Location"]) if answer.status_code == 302 else page_of(answer)


def tally(page: Element) -> dict[str, str]:
    """What the page counts."""
    return {each.one("dt").text: each.one("dd").text for each in page.one("dl", "tally").all("div")}


def test_an_edit_of_many_is_tried_done_and_undone(maria: Browser, refs: list[SessionRef]) -> None:
    address = select(maria, "edit", *refs)["Location"]
    typed = {**row("step", '"pay"'), "reason": "by phone"}
    page = send(maria, address, "try", **typed)
    assert tally(page) == {"will change": "3", "already have these values": "0", "running now": "0"}
    assert "choose" in page.one("ul", "differing").text
    assert [state_of(ref)["session"]["step"] for ref in refs] == ["choose"] * 3
    assert page.one("input", id="reason")["value"] == "by phone"
    page = send(maria, address, "do", reason="by phone, again")
    assert "3 sessions were changed." in page.text
    assert [state_of(ref)["session"]["step"] for ref in refs] == ["pay"] * 3
    page = send(maria, address, "undo", reason="wrong list")
    assert "The edits to 3 sessions were undone." in page.text
    assert [state_of(ref)["session"]["step"] for ref in refs] == ["choose"] * 3
    assert "Undone" in maria.open(address).text
    listed = maria.open("batches")
    assert [each.text for each in listed.all("a", "rowlink")] == ["Undo of a batch", "Edit many sessions"]
    assert "by phone, again" in listed.text
    assert listed.texts("td", "num") == ["3", "3"]


def test_the_form_begins_in_the_type_that_its_key_has_in_the_chosen_sessions(
    maria: Browser, refs: list[SessionRef]
) -> None:
    address = select(maria, "edit", *refs)["Location"]
    form = send(maria, address, "add", **{"new-key": "step"}).one("form", "editbox")
    assert (form.fields()["type-0"], form.one("p", "held").text) == ("string", 'Now: "choose" × 3')
    assert "will change" in send(maria, address, "try", **form.fields() | {"value-0": "pay"}).text
    form = send(maria, address, "add", **{"new-key": "unheard"}).one("form", "editbox")
    assert form.one("p", "held").text == "Now: no such key × 3"
    assert "type-0" not in form.fields()


def test_the_form_looks_at_the_first_sessions_of_a_query_before_the_dry_run_has_selected_them(
    maria: Browser, refs: list[SessionRef]
) -> None:
    address = select(maria, "edit", refs[0], all="1", q="user:ana")["Location"]
    form = send(maria, address, "add", **{"new-key": "user:tier"}).one("form", "editbox")
    assert form.fields()["type-0"] == "string"
    assert form.one("p", "held").text == 'Now, in the first 3: "silver" × 3'


def test_an_edit_of_shared_state_says_whom_it_reaches(maria: Browser, refs: list[SessionRef]) -> None:
    address = select(maria, "edit", *refs[:2])["Location"]
    page = send(maria, address, "try", **row("user:tier", '"gold"'))
    assert tally(page) == {
        "selected": "2",
        "users": "1",
        "sessions would change": "3",
        "already have these values": "0",
        "running now": "0",
    }
    assert "ana" in page.one("ul", "differing").text
    assert page.one("button", value="do").text.startswith("Edit 1 user")
    page = send(maria, address, "do")
    assert "Changed the state of 1 user, shared by 3 sessions." in page.text
    assert tally(page) == {"changed": "1"}  # not also the user's other session
    said = "The edit to the state of 1 user, shared by 3 sessions, was undone."
    assert said in send(maria, address, "undo").text


def test_sessions_are_told_where_keys_of_their_own_are_changed_too(maria: Browser, refs: list[SessionRef]) -> None:
    address = select(maria, "edit", *refs)["Location"]
    typed = {**row("user:tier", '"gold"'), **row("step", '"pay"', number=1), "rows": "0 1"}
    send(maria, address, "try", **typed)
    assert "3 sessions were changed." in send(maria, address, "do").text
    assert "The edits to 3 sessions were undone." in send(maria, address, "undo").text


def test_the_users_that_have_the_values_already_are_counted_the_same_before_and_after(
    maria: Browser, refs: list[SessionRef], source: str, actor: Actor
) -> None:
    others = [
        create_session(source, "booking", "ben", session_id=f"b{n}", state={"user:tier": "gold"}, actor=actor)
        for n in range(2)
    ]
    feed(source)
    address = select(maria, "edit", *refs, *others)["Location"]
    page = send(maria, address, "try", **row("user:tier", '"gold"'))
    assert tally(page)["users"] == tally(page)["already have these values"] == "1"
    assert tally(send(maria, address, "do")) == {"changed": "1", "already had these values": "1"}


def test_sessions_that_may_be_missing_are_selected_again(
    maria: Browser, refs: list[SessionRef], actor: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(working, "INDEX_SECONDS", 0.0)
    address = select(maria, "delete", refs[0], all="1", q="user:ana")["Location"]
    page = maria.open(address)
    assert f"{refs[0].source} wasn't fully indexed" in page.text
    monkeypatch.undo()
    assert "may be missing" not in send(maria, address, "again").text


def test_all_that_match_are_meant_if_that_is_ticked(maria: Browser, refs: list[SessionRef]) -> None:
    address = select(maria, "edit", refs[0], all="1", q="user:ana")["Location"]
    assert tally(send(maria, address, "try", **row("step", '"pay"')))["will change"] == "3"
    assert "user:ana" in maria.open(address).one("div", "sub").text


@pytest.mark.parametrize("name", ["josé", "日本 a/b", "%41", "..", ";x", "?"])
def test_sessions_of_any_name_can_be_selected(name: str, maria: Browser, source: str, actor: Actor) -> None:
    ref = create_session(source, "booking", name, session_id=name, state={"step": "choose"}, actor=actor)
    feed(source)
    (named,) = maria.open("search").all("input", name="ref")
    address = maria.send("chosen", {"act": "edit", "ref": named["value"]})["Location"]
    send(maria, address, "try", **row("step", '"pay"'))
    send(maria, address, "do")
    assert state_of(ref)["session"]["step"] == "pay"


def test_what_somebody_tries_meanwhile_is_not_done_unseen(maria: Browser, refs: list[SessionRef]) -> None:
    address = select(maria, "edit", *refs)["Location"]
    seen = send(maria, address, "try", **row("step", '"pay"')).one("form", "batchdo").fields()
    send(maria, address, "try", **row("step", '"lost"'))
    answer = maria.send(address, {**seen, "action": "do"})
    settle("batch")
    page = page_of(answer)
    assert (answer.status_code, state_of(refs[0])["session"]["step"]) == (409, "choose")
    assert "Someone ran this batch's dry run again" in page.one(role="alert").text
    send(maria, address, "do", **page.one("form", "batchdo").fields())
    assert state_of(refs[0])["session"]["step"] == "lost"


def test_keys_are_added_to_the_form_and_taken_out(maria: Browser, refs: list[SessionRef]) -> None:
    address = select(maria, "edit", *refs)["Location"]
    page = send(maria, address, "try", **{"new-key": "step", "rows": ""})
    assert [each["value"] for each in page.all("input", name="key-0")] == ["step"]
    page = send(maria, address, "add", **row("step", '"pay"'), **{"new-key": "step"})
    assert "step is already in this edit." in page.text
    page = send(maria, address, "try", **row("step", '"pay"'), drop="0")
    assert page.all("input", name="key-0") == []


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (row("step", "pay"), "Use “pay” as a string"),
        ({"rows": ""}, "Nothing would change."),
        (row("temp:x", "1"), "temp: keys"),
        ({**row("step", "1"), **row("step", "2", number=1), "rows": "0 1"}, "A key appears twice"),
    ],
)
def test_a_wrong_edit_comes_back_with_what_was_typed(
    typed: dict[str, str], said: str, maria: Browser, refs: list[SessionRef]
) -> None:
    address = select(maria, "edit", *refs)["Location"]
    answer = maria.send(address, {"action": "try", **typed, "reason": "why"})
    assert answer.status_code == 400
    page = page_of(answer)
    assert said.lower() in page.text.lower()
    assert page.one("input", name="reason")["value"] == "why"
    assert [each["value"] for each in page.all("input", name="key-0")] == [v for k, v in typed.items() if k == "key-0"]


def test_sessions_are_deleted_after_their_number_is_typed(maria: Browser, refs: list[SessionRef]) -> None:
    address = select(maria, "delete", *refs[:2])["Location"]
    settle("batch")
    form = maria.open(address).one("form", "batchdo")
    assert form["data-confirm-text"] == "2"
    page = send(maria, address, "do", confirm="3")
    assert "Nothing was deleted" in page.text
    assert "2 sessions were deleted." in send(maria, address, "do", confirm=" 2 ").text
    assert [bool(state_of(ref)["session"]) for ref in refs] == [False, False, True]
    assert not maria.open(address).all("button", value="undo")


def test_a_batch_that_waits_for_an_agent_says_so_and_can_be_stopped(
    maria: Browser, refs: list[SessionRef], settings: Settings
) -> None:
    event = {"author": "user", "invocation_id": "i1", "content": {"role": "user", "parts": [{"text": "…"}]}}
    append_event(refs[0], event, actor=Actor.holding("agent", "admin"))
    address = select(maria, "edit", *refs)["Location"]
    page = send(maria, address, "try", **row("step", '"pay"'))
    assert tally(page)["running now"] == "1"
    assert page.all("details", "again")[1].links()["booking / ana / s0"] == path_of(refs[0])
    maria.send(address, {"action": "do"})
    while "1 session left" not in (page := maria.open(address, htmx=True)).text:
        pass
    assert "Waiting: an agent is running in this session." in page.text
    assert page.one(id="batch")["hx-trigger"] == "load delay:700ms"  # a small one that works asks sooner
    page = send(maria, address, "stop")
    assert "Stopped after 2, with 1 session left. maria stopped it." in page.text
    assert page.one("button", value="do").text == "Continue"
    settings.SETTLE_SECONDS = 0.0
    event = {"author": "agent", "invocation_id": "i1", "content": {"role": "model", "parts": [{"text": "Done"}]}}
    append_event(refs[0], event, actor=Actor.holding("agent", "admin"))
    assert tally(send(maria, address, "do")) == {"changed": "3", "had a running agent": "1"}
    assert maria.open("batches").one("tbody").one("span", "delta").text == "step"


def test_a_draft_is_discarded(maria: Browser, refs: list[SessionRef]) -> None:
    address = select(maria, "edit", *refs)["Location"]
    assert maria.send(address, {"action": "discard"})["Location"] == reverse("search")
    maria.open(address, status=404)
    assert "No batches yet" in maria.open("batches").text


def test_two_sessions_are_compared_and_no_other_number(maria: Browser, refs: list[SessionRef]) -> None:
    page = maria.open(select(maria, "compare", *refs[:2])["Location"])
    assert refs[1].session_id in page.text
    assert page.one("h1").text == "Compare two runs"
    assert select(maria, "compare", *refs).status_code == 400


@pytest.mark.parametrize("all_of_them", [False, True])
def test_what_is_selected_is_exported_and_can_be_imported(
    all_of_them: bool, maria: Browser, refs: list[SessionRef], new_store: Any, open_source: Any
) -> None:
    answer = select(maria, "export", *refs[:2], **({"all": "1", "q": "user:ana"} if all_of_them else {}))
    assert answer["Content-Disposition"] == 'attachment; filename="sessions.jsonl"'
    other = open_source(new_store("sqlite", "other"))
    assert imported(other, whole(answer)).new == (3 if all_of_them else 2)
    assert state_of(refs[0]._replace(source=other)) == state_of(refs[0])


def test_what_is_selected_is_tagged_and_untagged(maria: Browser, refs: list[SessionRef]) -> None:
    back = reverse("search") + "?q=app%3Abooking"
    assert select(maria, "tag", *refs[:2], tag="vip", back=back)["Location"] == back
    assert "2 sessions were tagged “vip”." in maria.open(back).text
    select(maria, "tag", all="1", q="user:ana", tag="vip")
    assert "1 session was tagged “vip”." in maria.open("search").text
    assert maria.open("search", query={"q": "tag:vip"}).all("a", "rowlink") != []
    assert maria.open("search").one("datalist", id="chosen-tags").one("option")["value"] == "vip"
    select(maria, "untag", refs[0], tag="vip", back="https://elsewhere.example/")
    assert "Removed the tag “vip” from 1 session." in maria.open("search").text
    assert select(maria, "tag", refs[1], tag="gold", back="nonsense")["Location"] == reverse("search")
    select(maria, "tag", *refs, tag="")
    assert maria.open("search").all(role="alert") != []


def test_tags_of_many_are_taken_back_from_the_message_about_them(maria: Browser, refs: list[SessionRef]) -> None:
    def undo() -> str:
        form = maria.open("search").one("div", "toast").one("form", action=reverse("chosen"))
        fields: dict[str, list[str]] = {}
        for each in form.all("input", type="hidden"):
            fields.setdefault(each["name"], []).append(each["value"])
        maria.send("chosen", {**fields, "undo": "1"})
        return maria.open("search").text

    def tagged() -> list[str]:
        return [each["href"] for each in maria.open("search", query={"q": "tag:vip"}).all("a", "rowlink")]

    select(maria, "tag", refs[0], tag="vip")
    maria.open("search")
    before = tagged()
    select(maria, "tag", *refs[:3], tag="vip")
    assert "Removed the tag “vip” from 2 sessions." in undo()  # the first one had it
    assert tagged() == before
    select(maria, "untag", refs[0], tag="vip")
    assert "1 session was tagged “vip”." in undo()
    assert tagged() == before


def test_an_event_of_a_batch_leads_to_it(maria: Browser, refs: list[SessionRef], actor: Actor) -> None:
    made = batch.begin("edit", actor=actor, refs=refs)
    batch.try_(made, {"step": "pay"}, actor=actor)
    settle("batch")
    batch.do(made, actor=actor)
    settle("batch")
    event_id = event_id_of(str(made), refs[0])
    page = maria.open("event", **refs[0]._asdict(), event_id=event_id)
    assert page.links()[str(made)] == reverse("batch", args=[made])
    for name in ("edits", "home"):
        assert maria.open(name).links()["same edit in many sessions"] == reverse("batch", args=[made])


def test_nothing_or_nonsense_that_is_selected_is_told(maria: Browser, refs: list[SessionRef]) -> None:
    assert select(maria, "edit")["Location"] == reverse("search")
    for path in ("/tokens/", "nonsense", "/s/x/booking/ana/", "http://[x", HOSTILE):
        assert maria.send("chosen", {"act": "edit", "ref": path}).status_code == 400
    assert select(maria, "explode", *refs).status_code == 400
    assert select(maria, "edit", all="1", q="usr:ana").status_code == 400
    assert select(maria, "edit", refs[0]._replace(source="gone")).status_code == 404


def test_who_may_not_write_gets_no_batch(maria: Browser, refs: list[SessionRef], settings: Settings) -> None:
    settings.READ_ONLY = True
    assert [select(maria, act, *refs, tag="vip").status_code for act in ("edit", "delete", "tag")] == [403] * 3
    assert select(maria, "compare", *refs[:2]).status_code == 302
    page = maria.open("search")
    assert [each["value"] for each in page.one("form", "chosenbar").all("button", name="act")] == ["compare", "export"]


def test_hostile_keys_values_and_reasons_are_texts(maria: Browser, source: str, actor: Actor) -> None:
    ref = create_session(source, HOSTILE, HOSTILE, session_id=HOSTILE, state={HOSTILE: HOSTILE}, actor=actor)
    made = batch.begin("edit", actor=Actor.holding(HOSTILE, "admin"), refs=[ref])
    batch.try_(made, {HOSTILE: [HOSTILE]}, actor=Actor.holding(HOSTILE, "admin"), reason=HOSTILE)
    settle("batch")
    page = maria.open("batch", batch_id=made)
    assert HOSTILE in page.text
    assert "".join(page.texts("script")) == ""
    batch.do(made, actor=actor)
    settle("batch")
    maria.open("batch", batch_id=made)
    maria.open("batches")


def test_a_batch_that_is_not_there_is_not_found(form: str, maria: Browser) -> None:
    maria.open("batch", batch_id=uuid.uuid4(), status=404)


def test_a_session_whose_source_is_away_stops_the_dry_run_with_the_reason(
    maria: Browser, refs: list[SessionRef], actor: Actor
) -> None:
    made = batch.begin("edit", actor=actor, refs=refs[:1])
    database.forget(refs[0].source)
    batch.try_(made, {"step": 1}, actor=actor)
    settle("batch")
    assert reading.get(made, actor=actor).stage == "stopped"
    page = maria.open("batch", batch_id=made)
    assert "One of this batch's sources isn't open" in page.text
    assert page.one("button", value="again").text == "Continue"


def test_a_batch_that_needs_a_second_person_waits_on_its_page(maria: Browser, refs: list[SessionRef]) -> None:
    approval.make(by=TERMINAL, sessions=2)
    address = select(maria, "edit", *refs)["Location"]
    send(maria, address, "try", **row("step", '"pay"'), reason=HOSTILE)
    page = send(maria, address, "do")
    assert "This batch needs a second person" in page.text
    assert [button.text for button in page.one("section", "batch").all("button")] == ["Cancel"]
    assert maria.send(address, {"action": "apply"}).status_code == 403
    ben = Browser()
    ben.force_login(somebody("ben", "editor", "booking"))
    assert ben.open("proposals").all("a", href=address)
    before = ben.open(address)
    assert "choose" in before.one("ul", "differing").text
    declined = send(ben, address, "decline", why="not all of them")
    assert "ben declined it. not all of them" in declined.text
    send(maria, address, "again")
    send(maria, address, "do")
    old, new = (page.one("input", name="dry_run")["value"] for page in (before, ben.open(address)))
    assert "Someone ran this batch's dry run again" in send(ben, address, "apply", dry_run=old).text
    done = send(ben, address, "apply", dry_run=new)
    assert ("applied by ben" in done.text, [state_of(ref)["session"]["step"] for ref in refs]) == (True, ["pay"] * 3)


def test_who_only_looks_at_a_batch_gets_no_buttons(maria: Browser, refs: list[SessionRef]) -> None:
    address = select(maria, "edit", *refs)["Location"]
    vera = Browser()
    vera.force_login(somebody("vera", "viewer"))
    assert vera.open(address).one("section", "batch").all("button") == []
    send(maria, address, "try", **row("step", '"pay"'))
    assert vera.open(address).one("section", "batch").all("button") == []
    assert vera.send(address, {"action": "do"}).status_code == 403
    send(maria, address, "do")
    assert vera.open(address).one("section", "batch").all("button") == []
