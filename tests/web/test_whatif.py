"""What-if in pages: what is different is chosen at an event, and what the agent then does is shown beside the recording."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.urls import reverse

from sessions_app.access import approval
from sessions_app.access.actor import SYSTEM
from sessions_app.checks import mask_rules
from sessions_app.domain.session_ref import SessionRef
from sessions_app.jobs.lease import WAITING
from sessions_app.models import Job, Trial
from sessions_app.reads import timeline
from sessions_app.sources import agents
from sessions_app.trying import whatif
from tests.support.at_work import until_worked
from tests.support.people import somebody
from tests.support.stored import everything
from tests.trying.conftest import AGENTS, bread_in
from tests.web.conftest import Browser
from tests.web.html import Element, page_of

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("forked_agents")]


@pytest.fixture
def bread(ref: SessionRef, settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SessionRef:
    """A session in which ana had bread baked."""
    settings.RUN_AGENTS = True
    monkeypatch.setenv("BAKED", str(tmp_path / "baked"))
    monkeypatch.setattr(agents, "agent_of", lambda _source, app: agents.Agent(AGENTS, AGENTS / app))
    return bread_in(ref.source)


def event(ref: SessionRef, number: int) -> str:
    return timeline.events(ref, actor=SYSTEM).rows[number].id


def form_at(maria: Browser, ref: SessionRef, number: int, **query: str) -> Element:
    """The form at an event."""
    page = maria.open("what-if", query={"at": event(ref, number), **query}, **ref._asdict())
    return page.one("form", id="whatif")


def fields_of(form: Element) -> dict[str, str]:
    """What a browser sends of a form that nobody has touched."""
    boxes = [each for each in form.all("input") if each.attributes.get("type") in ("radio", "checkbox")]
    others = [each for each in form.all("input") if each not in boxes and "name" in each]
    sent = {each["name"]: each.attributes.get("value", "") for each in others}
    sent |= {each["name"]: each.attributes.get("value", "on") for each in boxes if "checked" in each}
    return sent | {each["name"]: each.raw.removeprefix("\n") for each in form.all("textarea")}


def tried(maria: Browser, ref: SessionRef, number: int, **changed: str) -> Job:
    """The what-if that the form starts, with some fields changed."""
    form = form_at(maria, ref, number)
    answer = maria.send(form["action"], fields_of(form) | changed)
    assert answer.status_code == 302, page_of(answer).text
    return Job.objects.get(kind=whatif.KIND)


def result(maria: Browser, job: Job, ref: SessionRef) -> Element:
    """The page of the result, when it has ended."""
    until_worked(lambda: not Job.objects.filter(pk=job.pk, state=WAITING).exists())
    return maria.open("tried", what_if_id=job.pk, **ref._asdict())


def key(name: str, value: str) -> dict[str, str]:
    """The fields of a row of state."""
    return {"rows": "0", "key-0": name, "seen-0": '"small"', "operation-0": "set", "type-0": "string", "value-0": value}


def test_what_nobody_changed_is_no_change(bread: SessionRef, maria: Browser) -> None:
    job = tried(maria, bread, 2)
    change = whatif.of(job, actor=SYSTEM).change
    assert (change.state, change.message, change.results, change.instructions, change.models) == ({}, "", {}, {}, {})


def test_the_result_is_beside_the_recording(bread: SessionRef, maria: Browser) -> None:
    before = everything(bread.source)
    added = maria.send(form_at(maria, bread, 0)["action"], {"action": "add", "new-key": "size"}, htmx=True)
    assert page_of(added).one("textarea", name="value-0").raw.strip() == "small"
    page = result(maria, tried(maria, bread, 0, **key("size", "large")), bread)
    assert "size large" in page.one("h1").text.replace('"', "")
    (first,) = page.all(id="first-divergence")
    assert [cell.one(class_="line").text for cell in first.all(class_="cell")] == [
        "{'baked': 'bread'} in small by obeys",
        "{'baked': 'bread'} in large by obeys",
    ]
    assert not first.all(class_="cell")[1].all("a")  # its events have no page
    keys = {row.one(class_="name").text for row in page.all(class_="endkey")}
    assert keys == {"size", "said"}
    assert everything(bread.source) == before
    (keep,) = [form for form in page.all("form") if "/keep/" in form["action"]]
    kept = maria.send(keep["action"], {})
    assert "in large by obeys" in maria.open(kept.headers["Location"]).text
    again = maria.open(page.links()["Try again with a change"]).one("form", id="whatif")
    assert again.one("textarea", name="value-0").raw.strip() == "large"
    assert (
        "in large by obeys" in maria.open("what-if", query={"at": event(bread, 0)}, **bread._asdict()).one("aside").text
    )


def test_what_cannot_be_tried_says_only_why(bread: SessionRef, maria: Browser) -> None:
    page = result(maria, tried(maria, bread, 0, **{"model-0": "no-such-model"}), bread)
    assert "no-such-model not found" in page.one("p", class_="bad").text
    assert page.one("header", class_="pagehead").one("span", role="status").text == "failed"
    assert not page.all(class_="endkey")  # its agent didn't run, and so removed nothing
    assert not page.all(class_="runs")


def test_what_cannot_be_kept_is_said_on_its_page(bread: SessionRef, maria: Browser) -> None:
    page = result(maria, tried(maria, bread, 0, **key("size", "large")), bread)
    (keep,) = [form for form in page.all("form") if "/keep/" in form["action"]]
    approval.make(keys="said", by=SYSTEM)
    answer = maria.send(keep["action"], {})
    assert answer.status_code == 403
    assert "said: a rule asks a second person" in page_of(answer).one("p", role="alert").text


def test_what_cannot_be_read_is_said_beside_its_field_and_stays(bread: SessionRef, maria: Browser) -> None:
    form = form_at(maria, bread, 2)
    sent = fields_of(form) | {"result-0": "{burnt", "message": "cake"}
    answer = maria.send(form["action"], sent)
    assert answer.status_code == 400
    page = page_of(answer)
    field = page.one("textarea", name="result-0")
    assert (field.raw.strip(), page.one("textarea", name="message").raw.strip()) == ("{burnt", "cake")
    assert page.one(id="result-0_error").text
    assert not Job.objects.filter(kind=whatif.KIND).exists()
    nothing = form_at(maria, bread, 3)
    answer = maria.send(nothing["action"], fields_of(nothing))
    assert (
        page_of(answer).one(id="message_error").text
        == "Nothing comes after this event. Type what the user writes next."
    )


def test_a_call_that_waits_is_decided_on_the_page(bread: SessionRef, maria: Browser, tmp_path: Path) -> None:
    job = tried(maria, bread, 0, message="cake")
    until_worked(lambda: Trial.objects.filter(job=job).exclude(question="").exists())
    where = {"what_if_id": job.pk, **bread._asdict()}
    card = maria.open("tried", **where).one("form", id="decide")
    assert card.one("h2").text == "baker calls bake. The recording has no result for this call."
    refused = maria.send(card["action"], {"way": "result", "result": "{half"})
    assert refused.status_code == 400
    assert page_of(refused).one("textarea", name="result").raw == "{half"
    assert maria.send(card["action"], {"way": "result", "result": '{"baked": "by hand"}'}).status_code == 302
    assert "{'baked': 'by hand'} in small" in result(maria, job, bread).one(class_="runs").text
    assert not (tmp_path / "baked").exists()


def test_a_page_that_has_all_gets_nothing_new(bread: SessionRef, maria: Browser) -> None:
    job = tried(maria, bread, 0, message="cake")
    until_worked(lambda: Trial.objects.filter(job=job).exclude(question="").exists())
    page = maria.open("tried", what_if_id=job.pk, **bread._asdict())
    (asks,) = [each["hx-get"] for each in page.all("div") if "hx-get" in each and "have=" in each["hx-get"]]
    assert maria.get(asks, headers={"HX-Request": "true"}).status_code == 204
    whatif.stop(job, actor=SYSTEM)
    result(maria, job, bread)
    new = page_of(maria.get(asks, headers={"HX-Request": "true"}))
    assert "Stopped by adkweb." in new.text
    assert not new.all("form")


def test_hidden_values_are_dots_unless_someone_who_may_reveal_gives_a_reason(
    bread: SessionRef, maria: Browser, guest: Browser
) -> None:
    assert not form_at(maria, bread, 0).all(name="reason")
    mask_rules.create("*", "key", "size", actor=SYSTEM)
    guest.force_login(somebody("otto", "operator"))
    form = form_at(guest, bread, 0)
    assert "The agent gets dots in their place." in form.text
    assert not form.all(name="reason")
    page = result(guest, tried(guest, bread, 0), bread)
    assert "The agent got dots in the place of hidden values" in page.text
    assert "small" not in page.one(class_="runs").text.replace("in small by obeys", "")


def test_the_menu_says_why_it_cannot_be_tried(bread: SessionRef, maria: Browser, guest: Browser, settings: Any) -> None:
    where = {"event_id": event(bread, 0), **bread._asdict()}
    menu = maria.open("event", **where).one("nav", class_="takeback")
    assert reverse("what-if", kwargs=bread._asdict()) in menu.links()["What if… try it"]
    settings.RUN_AGENTS = False
    menu = maria.open("event", **where).one("nav", class_="takeback")
    (entry,) = [each for each in menu.all("a") if "What if" in each.text]
    assert ("href" in entry, "doesn't start agents" in entry["title"]) == (False, True)
    assert "doesn't start agents" in maria.open("what-if", query={"at": where["event_id"]}, **bread._asdict()).text
    settings.RUN_AGENTS = True
    guest.force_login(somebody("otto", "operator"))
    assert [each.text for each in guest.open("event", **where).one("nav", class_="takeback").all("a")] == [
        "What if… try it"
    ]
    guest.force_login(somebody("vera", "viewer"))
    assert not guest.open("event", **where).all("nav", class_="takeback")
