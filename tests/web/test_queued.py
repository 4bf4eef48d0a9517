"""Edits while an invocation runs: the form offers to wait, the session shows what waits, the author hears of it."""

from __future__ import annotations

import json
import time
import uuid
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from sessions_app.access.actor import SYSTEM, Actor
from sessions_app.domain.errors import SourceError
from sessions_app.domain.session_ref import SessionRef
from sessions_app.domain.state import ABSENT
from sessions_app.edits import edit
from sessions_app.edits import queue as queued
from sessions_app.edits.edit import Entry
from sessions_app.edits.queue import Queued
from sessions_app.history.edit_log import edits
from sessions_app.reads import timeline
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session, delete_session
from tests.support.people import an_admin
from tests.support.stored import events_of, everything, state_of
from tests.web.conftest import NAME, Browser
from tests.web.html import Element, page_of

pytestmark = pytest.mark.django_db

LONG_AGO = 60.0
WARNING = "the agent's next append fails with StaleSessionError"


@pytest.fixture
def bo(db: None) -> Browser:
    """Somebody else who signed in."""
    browser = Browser()
    browser.force_login(an_admin("bo"))
    return browser


def say(ref: SessionRef, author: str, ago: float = 0.0, **event: Any) -> None:
    """Appends a word of a run."""
    content = {"role": "user" if author == "user" else "model", "parts": [{"text": "…"}]}
    said = {"author": author, "invocation_id": "i1", "timestamp": time.time() - ago, "content": content, **event}
    append_event(ref, said, actor=Actor.holding("agent", "admin"))


@pytest.fixture
def running(ref: SessionRef) -> SessionRef:
    """A session in which an invocation runs."""
    say(ref, "user")
    return ref


def end(ref: SessionRef, **event: Any) -> None:
    """The invocation has ended, some time ago."""
    say(ref, "agent", ago=LONG_AGO, **event)


def form_of(page: Element) -> Element:
    return page.one("form", "editbox")


def open_form(maria: Browser, ref: SessionRef, *names: str, **query: str) -> Element:
    return form_of(maria.open("session-edit", query={"key": list(names), **query}, **ref._asdict()))


def send(maria: Browser, ref: SessionRef, sent: dict[str, str], action: str, *, htmx: bool = False) -> Any:
    return maria.send("session-edit", {**sent, "action": action}, htmx=htmx, **ref._asdict())


def queue(maria: Browser, ref: SessionRef, **values: str) -> Queued:
    """An edit that was queued by the form; keys with `_` for `:`."""
    sent = open_form(maria, ref, *(name.replace("_", ":") for name in values)).json_fields()
    sent |= {f"value-{number}": text for number, text in enumerate(values.values())}
    assert send(maria, ref, {**sent, "reason": "by phone"}, "queue").status_code == 302
    return queued.of_session(ref, actor=SYSTEM)[0]


def listed(browser: Browser, ref: SessionRef) -> list[Element]:
    """The queued edits that the session's page shows beside the state."""
    page = browser.open("session", **ref._asdict())
    fragment = browser.open("queued", htmx=True, **ref._asdict())
    shown = page.one(id="queued").all("article", "queued")
    assert [each.text for each in fragment.all("article", "queued")] == [each.text for each in shown]
    return shown


def told(browser: Browser) -> list[Element]:
    """What stands on top of any page."""
    notices = browser.open("home").one(id="outcomes").all("article", "queued")
    fragment = browser.open("queued-outcomes", htmx=True).all("article", "queued")
    assert [each.text for each in fragment] == [each.text for each in notices]
    return notices


# --- The form ---------------------------------------------------------------------------------------------------------


def test_while_an_invocation_runs_the_form_warns_and_offers_to_wait(running: SessionRef, maria: Browser) -> None:
    form = open_form(maria, running, "step")
    warning = form.one("p", "warn")
    assert WARNING in warning.text
    assert "data-elapsed" in warning.one("time")
    assert [b.text for b in form.one("div", "buttons").all("button")] == [
        "Preview",
        "Apply now",
        "Apply when idle Ctrl ⏎",
    ]
    assert [b["value"] for b in form.one("div", "buttons").all("button")] == ["preview", "apply-now", "queue"]
    assert form.all("button")[0]["value"] == "queue"  # what Enter does


def test_while_nothing_runs_or_it_waits_for_a_person_the_form_is_as_ever(ref: SessionRef, maria: Browser) -> None:
    def plain() -> bool:
        form = open_form(maria, ref, "step")
        return not form.all("p", "warn") and [b["value"] for b in form.one("div", "buttons").all("button")] == [
            "preview",
            "apply",
        ]

    assert plain()
    say(ref, "user", LONG_AGO)
    say(ref, "agent", LONG_AGO)
    assert plain()
    call = {"parts": [{"function_call": {"id": "c", "name": "ask", "args": {}}}]}
    say(ref, "agent", LONG_AGO, invocation_id="i2", content=call, long_running_tool_ids=["c"])
    assert plain()


def test_an_apps_and_a_users_state_are_edited_at_once_whatever_runs(running: SessionRef, maria: Browser) -> None:
    for name, count in (("app-edit", 2), ("user-edit", 3)):
        names = dict(list(running._asdict().items())[:count])
        form = form_of(maria.open(name, query={"key": name.replace("-edit", ":x")}, **names))
        assert form.all("p", "warn") == []
        assert maria.send(name, {**form.json_fields(), "value-0": "1", "action": "apply"}, **names).status_code == 302


@pytest.mark.parametrize("htmx", [True, False])
def test_an_edit_that_is_queued_is_not_written_until_the_invocation_has_ended(
    running: SessionRef, maria: Browser, htmx: bool
) -> None:
    before = everything(running.source)
    sent = open_form(maria, running, "step").json_fields() | {"value-0": '"pay"', "reason": "by phone"}
    response = send(maria, running, sent, "queue", htmx=htmx)
    page = reverse("session", kwargs=running._asdict())
    assert (response["HX-Redirect"] if htmx else response["Location"]) == page
    assert everything(running.source) == before
    messages = maria.open("session", **running._asdict()).one("div", "toasts")
    assert messages.text == "The edit is queued until the agent is idle."
    end(running)
    assert queued.apply_due() == 1
    assert state_of(running)["session"]["step"] == "pay"


def test_apply_now_writes_at_once(running: SessionRef, maria: Browser) -> None:
    sent = open_form(maria, running, "step").json_fields() | {"value-0": '"pay"'}
    assert send(maria, running, sent, "apply-now").status_code == 302
    assert state_of(running)["session"]["step"] == "pay"
    assert not queued.any_waiting()


def test_apply_now_ends_the_invocation_in_the_page_at_once_unless_it_goes_on(
    running: SessionRef, maria: Browser
) -> None:
    def shown() -> tuple[str, str]:
        page = maria.open("session", **running._asdict())
        return page.one(id="status").text, " ".join(head.text for head in page.all("li", "inv"))

    sent = open_form(maria, running, "step").json_fields() | {"value-0": '"pay"'}
    assert "running" in shown()[0]
    send(maria, running, sent, "apply-now")
    status, heads = shown()
    assert "ended by maria's edit" in status
    assert "ended invocation i1" in heads
    say(running, "agent", content={"parts": [{"function_call": {"id": "c", "name": "pay", "args": {}}}]})
    status, heads = shown()
    assert "running" in status
    assert "received by invocation i1, which continued" in heads
    assert "ended invocation" not in heads
    end(running)
    assert "done" in shown()[0]


@pytest.mark.parametrize("htmx", [True, False])
def test_an_invocation_that_began_after_the_form_was_opened_brings_it_back_filled(
    ref: SessionRef, maria: Browser, htmx: bool
) -> None:
    sent = open_form(maria, ref, "step", "fresh").json_fields() | {"value-0": '"pay"', "value-1": "[1", "reason": "why"}
    sent["value-1"] = "[1]"
    say(ref, "user")
    before = everything(ref.source)
    response = send(maria, ref, sent, "apply", htmx=htmx)
    assert response.status_code == 409
    form = form_of(page_of(response))
    assert WARNING in form.one("p", "warn").text
    fields = form.json_fields()
    assert [fields[name] for name in ("value-0", "value-1", "reason", "once")] == ['"pay"', "[1]", "why", sent["once"]]
    assert (everything(ref.source), queued.any_waiting()) == (before, False)
    assert send(maria, ref, fields, "queue").status_code == 302
    assert queued.any_waiting()


def test_queued_when_the_invocation_has_ended_by_now_it_is_written_at_once(running: SessionRef, maria: Browser) -> None:
    sent = open_form(maria, running, "step").json_fields() | {"value-0": '"pay"'}
    end(running)
    assert send(maria, running, sent, "queue").status_code == 302
    assert state_of(running)["session"]["step"] == "pay"
    page = maria.open("session", **running._asdict())
    assert page.one("div", "toasts").text == f"Saved as event #{len(events_of(running))}. View Undo u"
    assert told(maria) == []


def test_the_same_form_sent_twice_waits_once(running: SessionRef, maria: Browser) -> None:
    sent = open_form(maria, running, "step").json_fields() | {"value-0": '"pay"'}
    for _ in range(2):
        assert send(maria, running, sent, "queue").status_code == 302
    assert len(listed(maria, running)) == 1
    maria.send("cancel-queued", {}, queued_id=queued.of_session(running, actor=SYSTEM)[0].id)
    send(maria, running, sent, "queue")
    messages = maria.open("session", **running._asdict()).one("div", "toasts").text
    assert "This edit was queued earlier and is no longer waiting" in messages
    assert listed(maria, running) == []


def test_a_key_that_changed_is_a_conflict_when_it_is_queued(running: SessionRef, maria: Browser) -> None:
    sent = open_form(maria, running, "step").json_fields() | {"value-0": '"pay"'}
    say(running, "agent", content={"parts": [{"function_call": {"name": "f"}}]}, actions={"state_delta": {"step": 7}})
    response = send(maria, running, sent, "queue")
    assert response.status_code == 409
    form = form_of(page_of(response))
    assert form.one("section", "theirs").one("pre").text == "7"
    assert form.one("section", "yours").one("pre").text == '"pay"'
    fields = form.json_fields() | {"choice-0": "mine"}
    assert send(maria, running, fields, "queue").status_code == 302
    assert len(listed(maria, running)) == 1


@pytest.mark.parametrize(("text", "status"), [("{", 400), ('"choose"', 400)])
def test_what_is_not_valid_is_not_queued(running: SessionRef, maria: Browser, text: str, status: int) -> None:
    sent = open_form(maria, running, "step").json_fields() | {"value-0": text}
    response = send(maria, running, sent, "queue")
    assert (response.status_code, queued.any_waiting()) == (status, False)
    assert form_of(page_of(response)).json_fields()["value-0"] == text


def test_a_form_comes_back_filled_when_the_database_goes_away(
    running: SessionRef, maria: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = open_form(maria, running, "step").json_fields() | {"value-0": '"pay"'}

    def away(*_: Any, **__: Any) -> Any:
        raise SourceError("The database is away.")

    monkeypatch.setattr(timeline, "in_danger", away)
    monkeypatch.setattr(queued, "queue_edit", away)
    response = send(maria, running, sent, "queue")
    assert response.status_code == 503
    assert form_of(page_of(response)).json_fields()["value-0"] == '"pay"'


@pytest.mark.parametrize("name", ["add-event", "delete-session"])
def test_what_else_would_end_the_invocation_says_so(running: SessionRef, maria: Browser, name: str) -> None:
    text = " ".join(p.text for p in maria.open(name, **running._asdict()).all("p", "warn"))
    assert "Agent running" in text
    assert "will end the run" in text
    end(running)
    assert "Agent running" not in maria.open(name, **running._asdict()).text


# --- In the session ---------------------------------------------------------------------------------------------------


def test_a_waiting_edit_stands_in_the_session_with_who_and_why_and_what(
    running: SessionRef, maria: Browser, bo: Browser
) -> None:
    queue(maria, running, step='"pay"', user_tier="null")
    for browser in (maria, bo):
        (article,) = listed(browser, running)
        assert "Waiting until the agent is idle" in article.text
        assert article.one("p", "meta").text.startswith(NAME)
        assert "“by phone”" in article.text
        assert article.texts("span", "delta") == ['step "choose" "pay"', 'user:tier "gold" null']
        assert article.texts("button") == ["Cancel"]


@pytest.mark.parametrize("htmx", [True, False])
def test_anybody_can_withdraw_it_and_the_author_is_told_who_did(
    running: SessionRef, maria: Browser, bo: Browser, htmx: bool
) -> None:
    waiting = queue(maria, running, step='"pay"')
    (article,) = listed(bo, running)
    response = bo.send(article.one("form")["action"], {}, htmx=htmx)
    if htmx:
        assert (response.status_code, response["HX-Trigger"]) == (204, "adkweb:queued")
    else:
        assert response["Location"] == reverse("session", kwargs=running._asdict())
        page = bo.open("session", **running._asdict())
        assert page.one("div", "toasts").text == "Edit cancelled. Nothing was written."
    (notice,) = told(maria)
    assert "Queued edit cancelled by bo. Nothing was written." in notice.text
    assert notice.links()["Open the form"].endswith(f"?queued={waiting.id}")
    assert queued.apply_due() == 0


def test_what_cannot_be_withdrawn_any_more_says_what_became_of_it(running: SessionRef, maria: Browser) -> None:
    waiting = queue(maria, running, step='"pay"')
    end(running)
    queued.apply_due()
    refused = maria.send("cancel-queued", {}, queued_id=waiting.id, htmx=True)
    events = json.loads(refused["HX-Trigger"])
    assert (refused.status_code, sorted(events)) == (204, ["adkweb:queued", "adkweb:toast"])
    assert "is no longer waiting" in events["adkweb:toast"]["text"]
    assert maria.send("cancel-queued", {}, queued_id=waiting.id).status_code == 302
    page = maria.open("session", **running._asdict())
    assert "is no longer waiting" in page.all("div", "toasts")[0].text
    assert state_of(running)["session"]["step"] == "pay"


def test_the_list_alone_is_a_fragment(running: SessionRef, maria: Browser) -> None:
    response = maria.get(reverse("queued", kwargs=running._asdict()))
    assert response["Location"] == reverse("session", kwargs=running._asdict())


# --- What became of it ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("htmx", [True, False])
def test_its_author_hears_on_every_page_that_it_was_applied_until_they_know(
    running: SessionRef, maria: Browser, bo: Browser, htmx: bool
) -> None:
    waiting = queue(maria, running, step='"pay"')
    assert told(maria) == []
    end(running)
    queued.apply_due()
    (notice,) = told(maria)
    _seq, event = events_of(running)[-1]
    assert "Queued edit applied" in notice.text
    assert notice.links()["Show"] == reverse("session", kwargs=running._asdict()) + f"#event-{event['id']}"
    assert told(bo) == []
    assert listed(maria, running) == []  # it stands on top of the page
    (article,) = listed(bo, running)
    assert article.all("button") == []
    assert bo.send("queued-dismiss", {}, queued_id=waiting.id).status_code == 404
    response = maria.send(notice.one("form")["action"], {}, htmx=htmx)
    assert response.status_code == (204 if htmx else 302)
    assert (told(maria), listed(bo, running)) == ([], [])


def test_after_a_conflict_the_form_opens_again_with_what_was_typed_beside_what_stands_now(
    running: SessionRef, maria: Browser
) -> None:
    queue(maria, running, step='"pay"', fresh='{"a": [1, 2]}', count="4")
    end(running, actions={"state_delta": {"step": "seats", "fresh": "theirs"}})
    queued.apply_due()
    (notice,) = told(maria)
    assert "Queued edit not applied: step, fresh changed in the meantime" in notice.text
    form = form_of(maria.open(notice.links()["Open the form"]))
    fields = form.json_fields()
    assert [fields[f"value-{n}"] for n in range(3)] == ['"pay"', '{\n  "a": [\n    1,\n    2\n  ]\n}', "4"]
    assert fields["reason"] == "by phone"
    assert form.texts("section", "theirs")[0].startswith("Current value")
    assert len(form.all("section", "theirs")) == 2
    fields |= {"choice-0": "theirs", "choice-1": "mine"}
    assert send(maria, running, fields, "apply").status_code == 302
    assert state_of(running)["session"] == {"step": "seats", "count": 4, "nothing": None, "fresh": {"a": [1, 2]}}
    assert told(maria) == []  # dealt with


def test_a_removal_that_was_queued_opens_again_as_one(running: SessionRef, maria: Browser) -> None:
    person = User.objects.get(username=NAME)
    queued.queue_edit(running, [Entry("count", ABSENT, 3), Entry("step", None, "choose")], person=person)
    end(running, actions={"state_delta": {"count": 5}})
    queued.apply_due()
    fields = form_of(maria.open(told(maria)[0].links()["Open the form"])).json_fields()
    assert (fields["operation-0"], fields["operation-1"], fields["value-1"]) == ("remove", "set", "null")


def test_an_edit_opens_again_in_its_own_session_only(running: SessionRef, maria: Browser) -> None:
    waiting = queue(maria, running, step='"pay"')
    other = create_session(*running[:3], session_id="s2", actor=Actor.holding("x", "admin"))
    for ref, value in ((other, str(waiting.id)), (running, str(uuid.uuid4())), (running, "x' --")):
        maria.open("session-edit", query={"queued": value}, status=404, **ref._asdict())


def test_after_a_failure_what_was_typed_can_still_be_read_whole(running: SessionRef, maria: Browser) -> None:
    queue(maria, running, step='"' + "long" * 5000 + '"')
    delete_session(running, actor=Actor.holding("x", "admin"))
    queued.apply_due()
    (notice,) = told(maria)
    assert "Queued edit not applied: The session was deleted." in notice.text
    text = maria.get(notice.links()["View the edit"])
    assert text["Content-Type"] == "text/plain; charset=utf-8"
    assert "long" * 5000 in text.content.decode()


def test_what_nobody_is_left_to_be_told_anybody_dismisses(running: SessionRef, maria: Browser, bo: Browser) -> None:
    queue(maria, running, step='"pay"')
    User.objects.filter(username=NAME).delete()
    queued.apply_due()
    (article,) = listed(bo, running)
    assert "The person who queued this no longer has an account." in article.text
    assert bo.send(article.one("form")["action"], {}).status_code == 302
    assert listed(bo, running) == []


# --- Who may, and what may stand in it --------------------------------------------------------------------------------


def test_a_guest_sees_and_does_nothing(running: SessionRef, maria: Browser, guest: Browser) -> None:
    waiting = queue(maria, running, step='"pay"')
    pages = [reverse("queued", kwargs=running._asdict()), reverse("queued-outcomes")]
    pages.append(reverse("queued-json", args=[waiting.id]))
    for address in pages:
        assert guest.get(address).status_code == 302
    for name in ("cancel-queued", "queued-dismiss"):
        assert guest.post(reverse(name, args=[waiting.id])).status_code == 302
        assert maria.get(reverse(name, args=[waiting.id])).status_code == 405
    assert queued.get(waiting.id, actor=SYSTEM).state == "waiting"
    assert guest.get(reverse("sign-in")).status_code == 200


def test_a_read_only_adkweb_shows_what_waits_and_offers_nothing(
    running: SessionRef, maria: Browser, read_only: None, settings: Any
) -> None:
    settings.READ_ONLY = False
    waiting = queue(maria, running, step='"pay"')
    settings.READ_ONLY = True
    (article,) = listed(maria, running)
    assert article.all("button") == []
    assert maria.send("cancel-queued", {}, queued_id=waiting.id).status_code == 403
    sent = {"rows": "0", "key-0": "step", "value-0": "1", "seen-0": '"choose"'}
    assert send(maria, running, sent, "queue").status_code == 403
    assert len(listed(maria, running)) == 1


@pytest.mark.parametrize(
    "text", ["<script>alert(1)</script>", "שלום \u202e abc", "{{ 7 }} {% x %}", "' onx=\"y", "👩‍👩‍👧"]
)
def test_hostile_keys_values_and_reasons_are_text(running: SessionRef, maria: Browser, text: str) -> None:
    person = User.objects.get(username=NAME)
    queued.queue_edit(running, [Entry(text, text, ABSENT)], person=person, reason=text)
    (article,) = listed(maria, running)
    assert " ".join(text.split()) in article.text
    end(running, actions={"state_delta": {text: "else"}})
    queued.apply_due()
    (notice,) = told(maria)
    assert f"{text} changed in the meantime" in notice.text
    form = form_of(maria.open(notice.links()["Open the form"]))
    assert form.json_fields()["key-0"] == text


def test_an_edit_of_very_many_and_very_long_keys_is_shown_in_few_words(running: SessionRef, maria: Browser) -> None:
    person = User.objects.get(username=NAME)
    many = [Entry(f"k{n}" + "x" * 1000, ["y" * 1000], ABSENT) for n in range(300)]
    queued.queue_edit(running, many, person=person, reason="z" * 1000)
    (article,) = listed(maria, running)
    assert len(article.all("span", "delta")) == 8
    assert len(article.text) < 2000


def test_a_page_asks_for_outcomes_by_one_query(running: SessionRef, maria: Browser) -> None:
    from django.db import connection

    def count() -> int:
        with CaptureQueriesContext(connection) as captured:
            maria.open("session", **running._asdict())
        return sum("sessions_app_job" in query["sql"] for query in captured)

    # The session's, its last run, what its agent does, what waits to be sent, one's own outcomes, and the proposals and
    # batches that wait.
    assert count() == 7
    for number in range(5):
        queue(maria, running, **{f"k{number}": "1"})
    end(running)
    assert (queued.apply_due(), count()) == (5, 7)


def test_the_edits_page_and_the_timeline_show_a_queued_edit_as_any_other(running: SessionRef, maria: Browser) -> None:
    queue(maria, running, step='"pay"')
    end(running)
    queued.apply_due()
    page, problems = edits(actor=SYSTEM)
    assert (page.rows[0].description.edit["actor"], problems) == (NAME, [])
    assert "by phone" in maria.open("edits").text
    assert "by maria" in maria.open("session", **running._asdict()).text
    assert edit.stored(running, page.rows[0].data) is not None
