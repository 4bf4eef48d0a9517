"""The cards of a session's calls that wait: what each kind shows, to whom, and what is refused."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.urls import reverse
from pytest_django import Settings

from sessions_app.access import approval, roles
from sessions_app.access.actor import SYSTEM
from sessions_app.checks import mask_rules
from sessions_app.domain.answers import sign_in_link
from sessions_app.domain.description import AUTH_CALL, INPUT_CALL
from sessions_app.domain.errors import Held
from sessions_app.domain.mask_patterns import DOTS
from sessions_app.domain.session_ref import SessionRef
from sessions_app.edits import proposal_job, proposals
from sessions_app.jobs import runner
from sessions_app.models import Answer, Job
from sessions_app.reads import timeline
from sessions_app.running import answers, proposed, runs
from sessions_app.running.answers import Given
from sessions_app.running.questions import asked_by
from sessions_app.search import inbox
from sessions_app.sources import registry
from sessions_app.sources.finding import in_shell
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session
from tests.search.finding import feed
from tests.search.test_inbox import session
from tests.support.people import ALICE, somebody
from tests.web.conftest import Browser
from tests.web.html import Element, page_of

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("forked_agents")]


@pytest.fixture(autouse=True)
def _agents(ref: SessionRef, settings: Settings) -> None:
    settings.AGENTS, settings.RUN_AGENTS = {ref.source: str(Path("examples/agents").absolute())}, True


def cards(browser: Browser, ref: SessionRef) -> list[Element]:
    return browser.open("session", **ref._asdict()).one(id="waits").all("form", class_="card")


def asks_alone(ref: SessionRef) -> SessionRef:
    """The session, whose agent asks for one confirmation."""
    args = {
        "originalFunctionCall": {"name": "refund", "args": {"eur": 4}},
        "toolConfirmation": {"hint": "Refund 4 EUR?"},
    }
    part = {"function_call": {"id": "c1", "name": "adk_request_confirmation", "args": args}}
    append_event(ref, {"author": "agent", "content": {"parts": [part]}, "long_running_tool_ids": ["c1"]}, actor=ALICE)
    feed(ref.source)
    return ref


def waits(ref: SessionRef, name: str) -> SessionRef:
    """A recorded session whose agent waits."""
    asks = session(ref.source, name)
    feed(ref.source)
    return asks


CODE = "code-of-the-sign-in"


def signed_in(ref: SessionRef) -> None:
    """Answers a credential request as someone who signed in."""
    (event,) = [
        each
        for each in timeline.events(ref, actor=ALICE).rows
        if any(call.name == AUTH_CALL for call in each.description.calls)
    ]
    (question,) = asked_by(ref, event.id, actor=ALICE)
    link = sign_in_link(question.call)
    assert link
    came_back = Given(value=f"{link.redirect_uri}?code={CODE}&state={link.state}")
    answers.answer(ref, event.id, {question.of.call_id: came_back}, actor=ALICE)


def test_each_kind_of_question_has_its_form(ref: SessionRef, maria: Browser) -> None:
    (confirm,) = cards(maria, asks_alone(ref))
    assert [button.text for button in confirm.one(class_="decide").all("button")[:-1]] == ["Approve", "Decline"]
    (form,) = cards(maria, waits(ref, "input_workflow"))
    assert form.one(class_="decide").all("button")[0].text == "Answer"
    assert form.all("input", type="hidden") != form.all("input")
    (job,) = cards(maria, waits(ref, "longrunning"))
    assert "Result of the tool, as JSON or text" in job.text
    (sign_in,) = cards(maria, waits(ref, "credential"))
    link = sign_in.one("a", class_="btn")
    assert (link["rel"], link["target"]) == ("noopener noreferrer nofollow", "_blank")
    assert link.text.startswith("Sign in at ")
    assert "secret" not in sign_in.text.casefold()


def test_all_that_one_event_asks_is_one_form(ref: SessionRef, maria: Browser) -> None:
    # ag-ui#1935: the calls of a turn were answered one by one.
    (card,) = cards(maria, waits(ref, "confirm"))
    assert [each.text for each in card.all("legend")] == ["buy(n=1)", "buy(n=2)"]
    assert [button.text for button in card.one(class_="decide").all("button")[:-1]] == ["Answer"]


def test_a_viewer_sees_the_question_and_who_may_answer(ref: SessionRef, guest: Browser) -> None:
    guest.force_login(somebody("vera", "viewer"))
    (card,) = cards(guest, asks_alone(ref))
    assert not card.all("button")
    assert "An operator of booking can answer this." in card.text


def test_says_why_no_agent_can_be_started(ref: SessionRef, maria: Browser, settings: Settings) -> None:
    settings.AGENTS = {}
    asks = asks_alone(ref)
    (card,) = cards(maria, asks)
    assert not card.all("button")
    assert f"--agents {ref.source}=FOLDER, or enter the address" in card.text
    assert maria.get(card.all("a")[-1]["href"]).status_code == 200
    settings.RUN_AGENTS = None
    assert "ADKWEB_RUN_AGENTS=true" in cards(maria, asks)[0].text


def test_says_that_nothing_can_be_sent_where_adkweb_only_reads(
    ref: SessionRef, maria: Browser, guest: Browser, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    asks = asks_alone(ref)
    settings.READ_ONLY = True
    guest.force_login(somebody("otto", "operator"))
    assert "start it without" not in cards(guest, asks)[0].text  # it names a path
    (card,) = cards(maria, asks)
    assert not card.all("button")
    assert "--read-only" in card.text
    source = registry.sources[ref.source]
    agents = in_shell(f"{ref.source}={settings.AGENTS[ref.source]}")
    assert f"To answer, start it without: adkweb {in_shell(source.where)} --agents {agents}" in card.text
    with monkeypatch.context() as patch:
        patch.setitem(registry.sources, ref.source, replace(source, where="agents/helper/.adk/session.db?mode=ro"))
        assert "start it without: adkweb agents/helper --agents" in cards(maria, asks)[0].text
    assert not maria.open("session", **asks._asdict()).all("form", class_="composer")


def test_an_answer_that_a_rule_holds_leads_to_its_proposal_and_a_second_person_applies_it(
    ref: SessionRef, maria: Browser, guest: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "start", lambda job, **_: True)
    approval.make(by=ALICE, tools="refund*")
    asks = asks_alone(ref)
    (card,) = cards(maria, asks)
    assert "needs a second person" in card.text
    yes, given = card.all("button")[0], {"event": card.one("input", name="event")["value"]}
    assert "/proposals/" in maria.send("answer", given | {yes["name"]: "yes"}, **asks._asdict())["Location"]
    (row,) = maria.open("proposals").all("tr", id=f"proposal-{Job.objects.get(kind='proposal').pk}")
    assert "refund" in row.text
    (card,) = cards(maria, asks)
    assert not card.all("button")
    assert card.links()["Open the proposal"] == f"/proposals/#{row['id']}"
    guest.force_login(somebody("ben", "operator"))
    guest.send("proposal", {"action": "apply"}, proposal_id=row["id"].removeprefix("proposal-"))
    assert "Answered. The agent continues." in guest.open("proposals").text
    assert Job.objects.get(kind="run").actor == "maria, ben"


def test_a_message_says_that_it_passes_over_what_waits(ref: SessionRef, maria: Browser) -> None:
    says = maria.open("session", **ref._asdict()).one("form", class_="composer")
    assert not says.all(id="message-passes")
    says = maria.open("session", **asks_alone(ref)._asdict()).one("form", class_="composer")
    assert says.one("textarea")["aria-describedby"] == says.one(class_="passes")["id"]


def test_what_is_proposed_takes_the_place_of_the_fields(ref: SessionRef, maria: Browser) -> None:
    approval.make(by=ALICE, tools=INPUT_CALL)
    (card,) = cards(maria, asks_for(ref, {"properties": {"days": {"type": "integer"}}, "required": ["days"]}))
    typed = {card.one("input", id=card.one("label")["for"])["name"]: "4173"}
    maria.send("answer", typed | {"event": card.one("input", name="event")["value"]}, **ref._asdict())
    (card,) = cards(maria, ref)
    assert {each["type"] for each in card.all("input")} == {"hidden"}
    assert "{days: 4173}" in card.text


def test_a_proposed_answer_is_not_opened_as_an_event(ref: SessionRef, maria: Browser) -> None:
    approval.make(by=ALICE, tools="refund*")
    asks = asks_alone(ref)
    (question,) = asked_by(asks, timeline.events(asks, actor=ALICE).rows[-1].id, actor=ALICE)
    with pytest.raises(Held) as held:
        answers.answer(asks, question.of.event_id, {"c1": Given(confirmed=True)}, actor=ALICE)
    address = f"{reverse('add-event', kwargs=asks._asdict())}?proposal={held.value.detail['proposal']}"
    assert maria.get(address).status_code == 404


def test_an_operator_decides_on_the_page_about_an_answer_of_another(
    ref: SessionRef, guest: Browser, settings: Settings
) -> None:
    approval.make(by=ALICE, tools="refund*")
    asks, olga = asks_alone(ref), somebody("olga", "operator")
    (question,) = asked_by(asks, timeline.events(asks, actor=ALICE).rows[-1].id, actor=ALICE)
    with pytest.raises(Held):
        answers.answer(asks, question.of.event_id, {"c1": Given(confirmed=True)}, actor=roles.actor_of(olga))

    def buttons() -> list[str]:
        return [each.text for each in guest.open("proposals").one("td", class_="do").all("button")]

    guest.force_login(olga)
    assert buttons() == ["Cancel"]
    guest.force_login(somebody("omar", "operator"))
    assert buttons() == ["Apply and send", "Decline"]
    settings.READ_ONLY = True
    assert buttons() == []


@pytest.mark.guarantee("Agents", "Where a rule names its tool, a sign-in for it needs a second person, too.")
def test_a_sign_in_is_held_by_the_name_of_the_tool_that_needs_it(ref: SessionRef) -> None:
    approval.make(by=ALICE, tools="mail")
    with pytest.raises(Held, match="mail: an answer needs a second person"):
        signed_in(waits(ref, "credential"))


@pytest.mark.guarantee("Safety", "adkweb keeps the address that a sign-in comes back with only until it is sent.")
@pytest.mark.parametrize("how", ["sent", "refused", "declined", "applied"])
def test_the_code_of_a_sign_in_is_kept_no_longer_than_it_is_needed(
    ref: SessionRef, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setattr(runner, "start", lambda job, **_: True)
    monkeypatch.setattr(runs, "server_of", lambda ref, **_: None)
    asks = waits(ref, "credential")
    if how in ("declined", "applied"):
        approval.make(by=ALICE, tools="mail")
        with pytest.raises(Held) as held:
            signed_in(asks)
        assert CODE in Job.objects.get().task
        if how == "declined":
            proposal_job.decline(held.value.detail["proposal"], actor=roles.actor_of(somebody("ben", "operator")))
        else:
            proposed.apply(held.value.detail["proposal"], actor=roles.actor_of(somebody("ben", "operator")))
    else:
        signed_in(asks)
    if how != "declined":
        run = Job.objects.get(kind="run")
        assert CODE in run.task  # which isn't sent yet
        run.result = json.dumps({"sent": how == "sent"})
        runs.close_claims(run)
    kept = [*Job.objects.values_list("task", flat=True), *Answer.objects.values_list("response", flat=True)]
    assert "redirectUri" in "".join(kept)
    assert CODE not in "".join(kept)


def test_several_calls_are_approved_at_once_and_the_page_says_which_were_not(
    ref: SessionRef, maria: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "start", lambda job, **_: True)
    asks_alone(ref)
    asks_alone(create_session(ref.source, "booking", "ben", session_id="s2", actor=ALICE))
    page = maria.open("inbox")
    names = [box["value"] for box in page.all("input", name="ref")]
    assert len(names) == 2
    assert page.one("form", id="chosen")["action"] == reverse("decide")
    maria.send("decide", {"ref": names[:1], "confirmed": "yes"})
    maria.send("decide", {"ref": names, "confirmed": "yes"})
    shown = maria.open("inbox").text
    assert Job.objects.filter(kind="run").count() == 2
    assert "1 call answered." in shown
    assert "maria has approved this already." in shown
    assert maria.send("decide", {"confirmed": "yes"}).status_code == 400


def test_masked_arguments_stay_masked(ref: SessionRef, maria: Browser) -> None:
    mask_rules.create("booking", "tool", "refund:eur", actor=ALICE)
    (card,) = cards(maria, asks_alone(ref))
    assert f"refund(eur={DOTS})" in card.text.replace('"', "")


def test_an_unsafe_link_is_no_link(ref: SessionRef, maria: Browser) -> None:
    oauth: dict[str, Any] = {"authUri": "javascript:alert(1)", "redirectUri": "https://a.example/", "state": "x"}
    config = {"exchangedAuthCredential": {"oauth2": oauth}}
    part = {"function_call": {"id": "c1", "name": "adk_request_credential", "args": {"authConfig": config}}}
    append_event(ref, {"author": "agent", "content": {"parts": [part]}, "long_running_tool_ids": ["c1"]}, actor=ALICE)
    feed(ref.source)
    (card,) = cards(maria, ref)
    assert "no safe link" in card.text
    assert not card.all("a", class_="btn")


def test_what_was_typed_comes_back_with_what_is_wrong(ref: SessionRef, maria: Browser) -> None:
    asks = waits(ref, "payload")
    (card,) = cards(maria, asks)
    (name,) = [each["name"] for each in card.all("textarea")]
    answer = maria.post(
        reverse("answer", kwargs=asks._asdict()),
        {**card.fields(), name: "{oops", name.replace("payload", "confirmed"): "yes"},
        headers={"HX-Request": "true"},
    )
    assert answer.status_code == 400
    assert "{oops" in answer.content.decode()
    assert not Job.objects.exists()


def test_a_page_that_has_them_gets_nothing_again(ref: SessionRef, maria: Browser) -> None:
    asks = asks_alone(ref)
    have = maria.open("session", **asks._asdict()).one("input", name="have")["value"]
    address = reverse("waits", kwargs=asks._asdict())
    assert maria.get(address, {"have": have}, headers={"HX-Request": "true"}).status_code == 204
    assert maria.get(address, {"have": "other"}, headers={"HX-Request": "true"}).status_code == 200


def asks_for(ref: SessionRef, schema: dict[str, Any]) -> SessionRef:
    """The session, whose agent asks for an answer that fits a schema."""
    args = {"message": "Which?", "response_schema": {"type": "object", **schema}}
    part = {"function_call": {"id": "c1", "name": "adk_request_input", "args": args}}
    append_event(ref, {"author": "agent", "content": {"parts": [part]}, "long_running_tool_ids": ["c1"]}, actor=ALICE)
    feed(ref.source)
    return ref


def test_the_calls_with_which_adk_asks_are_told_in_words(ref: SessionRef, maria: Browser) -> None:
    asks_for(ref, {})
    response = {"id": "c1", "name": INPUT_CALL, "response": {"days": 2}}
    answer = {"event_id": "e1", "parts": [{"functionResponse": response}], "tools": [INPUT_CALL]}
    proposals.keep_sent(ref, "answer", answer, tools=[INPUT_CALL], actor=ALICE)
    chat = maria.open("chat", **ref._asdict())
    assert chat.one(id="status").text.startswith("waiting for an answer · input · ")
    assert "input Which? is waiting for an answer" in chat.one(id="events").text
    pages = (chat, *(maria.open(name) for name in ("proposals", "inbox", "home")))
    assert [INPUT_CALL in page.text for page in pages] == [False] * 4


def test_only_what_the_list_can_approve_is_answered_from_it(ref: SessionRef, maria: Browser) -> None:
    asks = waits(ref, "longrunning")
    (call,) = inbox.waiting(actor=ALICE, ref=asks).rows
    maria.send("decide", {"ref": f"{reverse('session', kwargs=asks._asdict())}#{call.key}", "confirmed": "yes"})
    assert not Job.objects.filter(kind="run")
    assert "doesn't wait for an answer any longer" in maria.open("inbox").text


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The responses of the runs that are started, in place of an agent."""
    said: list[Any] = []
    monkeypatch.setattr(
        runner,
        "start",
        lambda job, **_: said.extend(part["functionResponse"]["response"] for part in json.loads(job.task)["parts"]),
    )
    return said


def post(browser: Browser, ref: SessionRef, fields: dict[str, str]) -> Any:
    return browser.post(reverse("answer", kwargs=ref._asdict()), fields, headers={"HX-Request": "true"})


def test_what_nobody_decided_is_not_declined(ref: SessionRef, maria: Browser, sent: list[Any]) -> None:
    asks = waits(ref, "confirm")
    page = maria.open("inbox")
    assert not page.all("form", action=reverse("answer", kwargs=asks._asdict()))
    (card,) = cards(maria, asks)
    first = card.all("input", type="radio")[0]
    refused = post(maria, asks, {**card.fields(), first["name"]: "yes"})
    assert (refused.status_code, sent) == (400, [])
    assert "Approve or decline this call." in page_of(refused).text


def test_a_dismissed_call_is_answered_with_the_rest_of_its_event(ref: SessionRef, maria: Browser) -> None:
    asks = waits(ref, "confirm")
    dismissing = reverse("dismiss", kwargs=asks._asdict())
    for left in (2, 0):
        form = maria.open("inbox").all("form", action=dismissing)[0]
        maria.send("dismiss", {**form.fields(), "reason": "Closed"}, **asks._asdict())
        assert sum(len(card.all("legend")) for card in cards(maria, asks)) == left


def test_who_answers_too_late_reads_why(ref: SessionRef, maria: Browser, sent: list[Any]) -> None:
    asks = asks_alone(ref)
    (card,) = cards(maria, asks)
    part = {"function_response": {"id": "c1", "name": "adk_request_confirmation", "response": {"confirmed": False}}}
    append_event(asks, {"author": "user", "content": {"parts": [part]}}, actor=ALICE)
    feed(ref.source)
    late = post(maria, asks, {**card.fields(), card.all("button")[0]["name"]: "yes"})
    assert (late.status_code, sent) == (409, [])
    assert "doesn't wait for an answer any longer" in json.loads(late["HX-Trigger"])["adkweb:toast"]["text"]


def test_what_is_wrong_names_nothing_that_is_hidden(ref: SessionRef, maria: Browser) -> None:
    mask_rules.create("booking", "form", "email", actor=ALICE)
    (card,) = cards(maria, asks_for(ref, {"properties": {"to": {"enum": ["ana@example.com", "bob@example.com"]}}}))
    (field,) = [each["name"] for each in card.all("textarea")]
    refused = post(maria, ref, {**card.fields(), field: '"eve"'})
    assert refused.status_code == 400
    assert "The answer isn't what the agent asks for." in page_of(refused).text
    assert "example.com" not in refused.content.decode()


def test_a_hidden_field_of_several_lines_is_sent_as_stored(ref: SessionRef, maria: Browser, sent: list[Any]) -> None:
    mask_rules.create("booking", "form", "email", actor=ALICE)
    lines = {"type": "array", "items": {"type": "string"}, "default": ["ana@example.com", "bob@example.com"]}
    (card,) = cards(maria, asks_for(ref, {"properties": {"to": lines}}))
    as_browsers_do = {name: text.replace("\n", "\r\n") for name, text in card.fields().items()}
    assert post(maria, ref, as_browsers_do).status_code == 200
    assert sent == [{"result": {"to": ["ana@example.com", "bob@example.com"]}}]


def test_a_payload_that_was_emptied_is_not_sent_as_it_was(ref: SessionRef, maria: Browser, sent: list[Any]) -> None:
    asks = waits(ref, "payload")
    (card,) = cards(maria, asks)
    (name,) = [each["name"] for each in card.all("textarea")]
    for typed in ("", " null "):
        refused = post(maria, asks, {**card.fields(), name: typed, name.replace("payload", "confirmed"): "yes"})
        assert (refused.status_code, sent) == (400, [])
        assert "Payload is missing." in page_of(refused).text
        assert page_of(refused).one("textarea", name=name).text.strip() == typed.strip()  # to be filled in again


def test_of_two_calls_with_one_id_the_one_that_is_answered_is_shown(ref: SessionRef, maria: Browser) -> None:
    parts = [
        {"function_call": {"id": "c1", "name": "adk_request_input", "args": {"message": words}}}
        for words in ("Harmless?", "Pay it all?")
    ]
    append_event(ref, {"author": "agent", "content": {"parts": parts}, "long_running_tool_ids": ["c1"]}, actor=ALICE)
    feed(ref.source)
    asked = asked_by(ref, timeline.events(ref, limit=1, actor=ALICE).rows[-1].id, actor=ALICE)
    assert [each.call.value["message"] for each in asked] == ["Pay it all?"]
    assert [card.one("legend").text for card in cards(maria, ref)] == ["Pay it all?"]


def begun(ref: SessionRef) -> str:
    """A turn in the session; returns the id of the user's message."""
    for author, text in (("user", "Book a flight"), ("agent", "Which one?")):
        part = {"author": author, "invocation_id": "i1", "content": {"parts": [{"text": text}]}}
        appended = append_event(ref, part, actor=ALICE)
    return timeline.events(ref, actor=ALICE).rows[-2].id if appended else ""


def test_a_message_is_opened_with_what_sending_it_again_hides(
    ref: SessionRef, maria: Browser, guest: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "start", lambda job, **_fields: True)
    again = begun(ref)
    composer = maria.open("session", **ref._asdict(), query={"again": again}).one("form", class_="composer")
    assert composer.fields() == {**composer.fields(), "text": "Book a flight", "again": again}
    assert "The agent will no longer get 2 events." in composer.text
    runs.say(ref, "Unsent", actor=ALICE)
    Job.objects.update(state="stopped", message="away", finished=time.time(), result='{"sent": false}')
    assert maria.open("session", **ref._asdict()).one("form", class_="composer").fields()["text"] == "Unsent"
    composer = maria.open("session", **ref._asdict(), query={"again": again}).one("form", class_="composer")
    assert composer.fields()["text"] == "Book a flight"
    Job.objects.all().delete()
    guest.force_login(somebody("olga", "operator"))
    page = guest.open("session", **ref._asdict(), query={"again": again})
    assert page.one("form", class_="composer").fields()["text"] == ""
    assert "data-may-send" not in page.one(id="events")


def test_a_message_to_be_sent_again_stays_if_the_session_has_changed(
    ref: SessionRef, maria: Browser, sent: list[Any]
) -> None:
    again = begun(ref)
    form = maria.open("session", **ref._asdict(), query={"again": again}).one("form", class_="composer").fields()
    append_event(ref, {"author": "agent", "content": {"parts": [{"text": "Well?"}]}}, actor=ALICE)
    address = reverse("say", kwargs=ref._asdict())
    refused = maria.post(address, {**form, "text": "Book a train"}, headers={"HX-Request": "true"})
    composer = page_of(refused).one("form", class_="composer")
    assert (refused.status_code, sent) == (409, [])
    assert "Review the changes again." in composer.text
    assert "no longer get 3 events." in composer.text
    assert composer.fields()["text"] == "Book a train"


def test_a_new_conversation_opens_where_its_first_message_is_written(
    ref: SessionRef, maria: Browser, settings: Settings
) -> None:
    names = {"source": ref.source, "app_name": ref.app_name}
    form = maria.open(maria.open("app", **names).links()["New conversation"]).one("form", class_="form").fields()
    created = maria.send("new-session", {**form, "user_id": "zoe", "session_id": "s9"})
    assert created["Location"].endswith("/booking/zoe/s9/?density=chat#message")
    assert maria.open(created["Location"]).one("form", class_="composer").one(id="message")
    settings.AGENTS = {}
    assert "New session" in maria.open("app", **names).links()
    created = maria.send("new-session", {**form, "user_id": "zoe", "session_id": "s8"})
    assert created["Location"].endswith("/booking/zoe/s8/")


def test_keys_to_set_first_are_added_to_the_message_which_is_not_sent_by_that(
    ref: SessionRef, maria: Browser, guest: Browser, sent: list[Any]
) -> None:
    append_event(ref, {"author": "agent", "actions": {"state_delta": {"step": "pay"}}}, actor=ALICE)
    address = reverse("say", kwargs=ref._asdict())
    form = maria.open("session", **ref._asdict()).one("form", class_="composer").fields()
    for key in ("step", "new"):
        added = maria.post(address, {**form, "text": "go", "new-key": key}, headers={"HX-Request": "true"})
        form = page_of(added).one("form", class_="composer").fields()
    keys = [form[f"key-{number}"] for number in form["rows"].split()]
    assert (added.status_code, sent, form["text"], keys) == (200, [], "go", ["step", "new"])
    first, second = form["rows"].split()
    dropped = maria.post(address, {**form, "drop": second}, headers={"HX-Request": "true"})
    assert len(page_of(dropped).one("form", class_="composer").fields()["rows"].split()) == 1
    append_event(ref, {"author": "agent", "actions": {"state_delta": {"step": "done"}}}, actor=ALICE)
    changed = {**form, f"value-{first}": "choose", f"value-{second}": "5"}
    refused = maria.post(address, changed, headers={"HX-Request": "true"})
    assert refused.status_code == 409
    now = page_of(refused).one("form", class_="composer").fields()
    assert (now[f"seen-{first}"], now[f"value-{first}"], Job.objects.count()) == ('"done"', "choose", 0)
    guest.force_login(somebody("olga", "operator"))
    page = guest.open("session", **ref._asdict())
    assert not page.all("details", class_="first")
    assert "read-only" not in page.text
    assert guest.post(address, {"text": "go", "new-key": "step"}, headers={"HX-Request": "true"}).status_code == 403


@pytest.mark.parametrize(("choice", "said"), [("yes", "approved"), ("no", "declined")])
def test_who_answers_at_the_same_moment_reads_what_the_other_person_said(
    choice: str, said: str, ref: SessionRef, maria: Browser, sent: list[Any]
) -> None:
    # The index doesn't know of the first answer yet, so there is a card, but the page doesn't show it any longer.
    asks = asks_alone(ref)
    (card,) = cards(maria, asks)
    name = card.all("button")[0]["name"]
    assert post(maria, asks, {**card.fields(), name: choice}).status_code == 200
    late = post(maria, asks, {**card.fields(), name: "yes"})
    assert (late.status_code, len(sent)) == (409, 1)
    assert not page_of(late).all("form", class_="card")
    assert f"has {said} this already" in json.loads(late["HX-Trigger"])["adkweb:toast"]["text"]
    (calls,) = [json.loads(job.task)["calls"] for job in Job.objects.all()]
    part = {"function_response": {"id": calls[0][1], "name": "adk_request_confirmation", "response": {}}}
    append_event(asks, {"author": "user", "content": {"parts": [part]}}, actor=SYSTEM)
    feed(ref.source)  # now it does
    late = post(maria, asks, {**card.fields(), name: "yes"})
    assert f"has {said} this already" in json.loads(late["HX-Trigger"])["adkweb:toast"]["text"]


def test_a_long_running_tool_gets_an_update_or_its_result(ref: SessionRef, maria: Browser, sent: list[Any]) -> None:
    asks = waits(ref, "longrunning")
    (card,) = cards(maria, asks)
    (final,) = [name for name, value in card.fields().items() if name.endswith(".interim") and value == "no"]
    json_ = final.replace("interim", "json")
    answer = post(maria, asks, {**card.fields(), final: "yes", json_: '{"percent": 50}'})
    assert "still waits" in json.loads(answer["HX-Trigger"])["adkweb:toast"]["text"]
    job = Job.objects.get()
    assert (sent, len(json.loads(job.task)["updates"])) == ([{"percent": 50}], 1)


def test_a_message_for_which_there_is_no_field_any_longer_says_why_it_was_not_sent(
    ref: SessionRef, maria: Browser, settings: Settings
) -> None:
    settings.RUN_AGENTS = False
    answer = maria.post(reverse("say", kwargs=ref._asdict()), {"text": "Pay"}, headers={"HX-Request": "true"})
    assert "ADKWEB_RUN_AGENTS" in json.loads(answer["HX-Trigger"])["adkweb:toast"]["text"]


def test_lines_are_sent_as_they_were_typed(
    ref: SessionRef, maria: Browser, sent: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    asks = waits(ref, "longrunning")
    (card,) = cards(maria, asks)
    (json_,) = [name for name in card.fields() if name.endswith(".json")]
    post(maria, asks, {**card.fields(), json_: "one\r\ntwo", json_.replace("json", "interim"): "no"})
    assert sent == [{"result": "one\ntwo"}]
    monkeypatch.setattr(runner, "start", lambda job, **_fields: True)
    maria.post(reverse("say", kwargs=ref._asdict()), {"text": "one\r\ntwo"}, headers={"HX-Request": "true"})
    assert json.loads(Job.objects.order_by("created").last().task)["parts"] == [{"text": "one\ntwo"}]


def test_files_that_did_not_arrive_are_kept_until_they_do(
    ref: SessionRef, maria: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "start", lambda job, **_fields: True)
    address = reverse("say", kwargs=ref._asdict())
    many = [SimpleUploadedFile(f"{n}.txt", b"hi") for n in range(6)]
    assert maria.post(address, {"text": "", "files": many}, headers={"HX-Request": "true"}).status_code == 400
    one = SimpleUploadedFile("a.txt", b"hi", "text/plain")
    assert maria.post(address, {"text": "", "files": [one]}, headers={"HX-Request": "true"}).status_code == 200
    Job.objects.update(state="stopped", message="away", finished=time.time(), result='{"sent": false}')
    composer = maria.open("session", **ref._asdict()).one("form", class_="composer")
    assert "a.txt" in composer.one("ul", class_="attached").text
    maria.post(address, composer.fields(), headers={"HX-Request": "true"})
    (part,) = json.loads(Job.objects.order_by("created").last().task)["parts"]
    assert part["inlineData"] == {"displayName": "a.txt", "mimeType": "text/plain", "data": "aGk="}


def test_says_what_continuing_may_do_again(ref: SessionRef, maria: Browser, add: Any) -> None:
    def said() -> str:
        (line,) = maria.open("session", **ref._asdict()).one(id="waits").all("form", "run")
        return line.one("span", "about").text

    ref = create_session(ref.source, "booking", "ana", actor=ALICE)
    hour = time.time() - 3600
    add(ref, {"text": "Pay"}, author="user", timestamp=hour, invocation_id="i1")
    assert said() == "The last run didn't finish. Its open calls may run again."
    add(ref, {"function_call": {"id": "c", "name": "pay", "args": {}}}, timestamp=hour, invocation_id="i1")
    assert said() == "The last run didn't finish. These calls may run again: pay"
    add(ref, error_code="INVOCATION_ABORTED", timestamp=hour, invocation_id="i1")
    assert said() == "The last run was stopped. The model is asked again, and may repeat a call."


def test_a_message_with_a_key_that_a_rule_holds_leads_to_its_proposal_which_the_session_shows(
    ref: SessionRef, maria: Browser, guest: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "start", lambda job, **_: True)
    monkeypatch.setattr(runs, "server_of", lambda ref, **_: None)
    approval.make(by=ALICE, keys="tier")
    mask_rules.create("booking", "form", "email", actor=ALICE)
    form = maria.open("session", **ref._asdict()).one("form", class_="composer").fields()
    row = {"rows": "0", "key-0": "tier", "value-0": "silver", "type-0": "string", "seen-0": "", "reason": "by phone"}
    sent = {**form, **row, "text": "Write to ana@example.com"}
    held = maria.post(reverse("say", kwargs=ref._asdict()), sent, headers={"HX-Request": "true"})
    number = Job.objects.get(kind="proposal").pk
    assert held["HX-Redirect"] == f"/proposals/?own=1#proposal-{number}"
    shown = maria.open("proposals").one("tr", id=f"proposal-{number}")
    guest.force_login(somebody("vera", "viewer"))
    waits = guest.open("session", **ref._asdict()).one(id="waits").one("div", class_="notice")
    for each in (shown, waits):
        assert "silver" in each.text
        assert "Write to" in each.text
        assert "ana@example.com" not in each.text
    assert waits.links()["Open the proposal"] == f"/proposals/#{shown['id']}"
    guest.force_login(somebody("olga", "operator"))
    assert "Apply" not in guest.open("proposals").one("tr", id=f"proposal-{number}").text
    guest.force_login(somebody("ben", "editor"))
    assert "Apply and send" in guest.open("proposals").one("tr", id=f"proposal-{number}").text
    guest.send("proposal", {"action": "apply"}, proposal_id=number)
    assert "Sent to the agent." in guest.open("proposals").text
    (note,) = [each.description.edit for each in timeline.events(ref, actor=ALICE).rows if each.description.edit]
    assert (note["actor"], note["approved_by"], note["reason"]) == ("maria", "ben", "by phone")
    assert Job.objects.get(kind="run").actor == "maria, ben"
    assert not guest.open("session", **ref._asdict()).one(id="waits").all("div", class_="notice")


@pytest.mark.parametrize(("action", "said"), [("decline", "declined"), ("cancel", "cancelled")])
def test_of_a_message_that_was_declined_or_cancelled_the_page_says_that_it_was_not_sent(
    ref: SessionRef, guest: Browser, action: str, said: str
) -> None:
    maria = roles.actor_of(somebody("maria", "editor"))
    proposals.keep_sent(ref, "message", {"parts": [{"text": "look"}]}, actor=maria)
    guest.force_login(somebody("maria" if action == "cancel" else "ben", "editor"))
    guest.send("proposal", {"action": action}, proposal_id=Job.objects.get(kind="proposal").pk)
    assert f"Proposal {said}. Nothing was sent." in guest.open("proposals").text


ALL_KINDS: dict[str, Any] = {
    "newsletter": {"type": "boolean", "default": True},
    "plan": {"enum": ["small", "large"], "default": "large"},
    "card": {"type": "integer", "default": 4111},
    "home": {"type": "object", "properties": {"city": {"type": "string", "default": "Rome"}}},
    "note": {"type": "string", "default": "by phone"},
}
STORED = {"newsletter": True, "plan": "large", "card": 4111}


@pytest.mark.parametrize("kind", ["key", "path"])
def test_a_field_that_is_hidden_is_sent_as_stored_unless_it_is_changed(
    ref: SessionRef, maria: Browser, sent: list[Any], kind: str
) -> None:
    for name in ("newsletter", "plan", "card", "city" if kind == "path" else "home"):
        mask_rules.create("booking", kind, f"{name}.default" if kind == "path" else name, actor=ALICE)
    (card,) = cards(maria, asks_for(ref, {"properties": ALL_KINDS}))
    form = {name.partition(".field.")[2]: name for name in card.fields() if ".field." in name}
    assert list(form) == ["newsletter", "plan", "card", "home" if kind == "key" else "home.city", "note"]
    choice = card.one("select", name=form["newsletter"])
    assert [each.text for each in choice.all("option")] == ["As stored", "Yes", "No"]
    shown = str(card)
    assert not any(each in shown for each in ("4111", "Rome"))
    unchanged = dict.fromkeys(form.values(), DOTS) | {form["note"]: "by e-mail"}
    assert post(maria, ref, {**card.fields(), **unchanged}).status_code == 200
    assert sent == [{"result": {**STORED, "note": "by e-mail"}}]


def test_a_field_that_is_hidden_takes_another_value_but_no_dots(
    ref: SessionRef, maria: Browser, sent: list[Any]
) -> None:
    for name in ("newsletter", "plan", "card"):
        mask_rules.create("booking", "key", name, actor=ALICE)
    (card,) = cards(maria, asks_for(ref, {"properties": ALL_KINDS}))
    form = {name.partition(".field.")[2]: name for name in card.fields() if ".field." in name}
    wrong = post(maria, ref, {**card.fields(), form["card"]: f"1{DOTS}", form["newsletter"]: "false"})
    assert (wrong.status_code, sent) == (400, [])
    again = page_of(wrong).one("select", name=form["newsletter"])
    assert [each["value"] for each in again.all("option") if "selected" in each] == ["false"]
    assert len(again.all("option")) == 3
    changed = {form["newsletter"]: "false", form["plan"]: "small", form["card"]: "7"}
    assert post(maria, ref, {**card.fields(), **changed}).status_code == 200
    assert sent == [{"result": {"newsletter": False, "plan": "small", "card": 7, "note": "by phone"}}]


def test_the_rest_of_a_payload_can_be_changed_while_a_part_of_it_is_hidden(
    ref: SessionRef, maria: Browser, sent: list[Any]
) -> None:
    mask_rules.create("booking", "key", "iban", actor=ALICE)
    payload = {"eur": 4, "to": [{"name": "Ana", "iban": "DE1"}, {"name": "Ben", "iban": "DE2"}]}
    args = {
        "originalFunctionCall": {"name": "refund", "args": {"eur": 4}},
        "toolConfirmation": {"hint": "Refund 4 EUR?", "payload": payload},
    }
    part = {"function_call": {"id": "c1", "name": "adk_request_confirmation", "args": args}}
    append_event(ref, {"author": "agent", "content": {"parts": [part]}, "long_running_tool_ids": ["c1"]}, actor=ALICE)
    feed(ref.source)
    (card,) = cards(maria, ref)
    (field,) = card.all("textarea")
    assert "DE1" not in field.text
    assert "The dots stand for hidden values." in card.text
    yes = {**card.fields(), field["name"].replace("payload", "confirmed"): "yes"}
    shown = json.loads(card.fields()[field["name"]])
    ana, ben = shown["to"]
    for wrong in ({**shown, "to": [ben, ana]}, {**shown, "note": f"was {DOTS}"}, {**shown, "to": [ben]}):
        refused = post(maria, ref, {**yes, field["name"]: json.dumps(wrong)})
        assert (refused.status_code, sent) == (400, [])
    changed = {**shown, "eur": 5, "to": [ana, {**ben, "name": "Ben B."}]}
    assert post(maria, ref, {**yes, field["name"]: json.dumps(changed)}).status_code == 200
    (answered,) = sent
    assert answered["payload"] == {"eur": 5, "to": [payload["to"][0], {"name": "Ben B.", "iban": "DE2"}]}
