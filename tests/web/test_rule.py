"""Rules on pages: written, refused with the reason, broken with the first event, changed, deleted and brought back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.urls import reverse

from sessions_app.checks import rules
from sessions_app.domain.session_ref import SessionRef
from sessions_app.models import Rule
from sessions_app.writes.sessions import create_session
from tests.checks.test_rules import live
from tests.support.at_work import settle
from tests.support.people import ALICE, somebody
from tests.web.conftest import Browser, names_of
from tests.web.html import Element, page_of
from tests.web.test_hostile import TEXTS

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    yield
    settle("rule")


@pytest.fixture
def broken(ref: SessionRef, maria: Browser, add: Callable[..., str]) -> tuple[Element, str]:
    """The page of a rule that one event broke, and the id of that event."""
    add(ref, actions={"state_delta": {"cart": {"total": 5}}})
    first = add(ref, actions={"state_delta": {"cart": {"total": -5}}})
    live(ref.source)
    return written(maria, ref, "cart.total >= 0", "No debts"), first


def send(maria: Browser, ref: SessionRef, text: str, title: str = "") -> Any:
    form = {"condition": text, "title": title}
    return maria.send("state-health", form, **names_of(ref, 2))


def written(maria: Browser, ref: SessionRef, text: str, title: str = "") -> Element:
    """The page of a new rule, once it is checked."""
    address = send(maria, ref, text, title)["Location"]
    settle("rule")
    return maria.open(address)


def test_a_rule_names_the_sessions_that_broke_it_with_the_first_event(
    ref: SessionRef, maria: Browser, broken: tuple[Element, str]
) -> None:
    page, first = broken
    assert page.one("h1").text == "No debts"
    assert page.one(id="breaches").one("p", "summary").one("b").text == "1 session breaks this rule now"
    (row,) = page.one(id="breaches").one("tbody").all("tr")
    cells = row.texts("td")
    assert (*cells[:2], cells[3]) == ("s1", "ana", "broken")
    assert row.all("a")[1]["href"].endswith(f"?at={first}")
    health = maria.open("state-health", **names_of(ref, 2))
    cells = health.one("table", "rulelist").one("tbody").texts("td")
    assert cells[:4] == ["No debts cart.total >= 0", "1 session", "1", "s1"]
    assert health.links()["No debts"] == reverse("rule", args=[*ref[:2], Rule.objects.get().pk])


def test_home_names_a_rule_that_was_broken(ref: SessionRef, maria: Browser, broken: tuple[Element, str]) -> None:
    (item,) = [item for item in maria.open("home").one("ul", "attention").all("li") if "No debts" in item.text]
    assert "No debts didn't hold · 1 session · booking" in item.text
    assert item.all("a")[0]["href"] == reverse("rule", args=[*ref[:2], Rule.objects.get().pk])


def test_alert_when_begins_a_rule_about_a_key_with_what_was_always_so(
    ref: SessionRef, maria: Browser, add: Callable[..., str]
) -> None:
    for step in ("choose", "pay"):
        add(ref, actions={"state_delta": {"step": step}})
    live(ref.source)
    card = maria.open("schema-key", **names_of(ref, 2), query={"key": "step"})
    history = maria.open("session-history", **ref._asdict(), query={"key": "step"})
    assert card.links()["Alert when…"] == history.links()["Alert when…"]
    form = maria.open(card.links()["Alert when…"]).one("form", "newrule")
    assert form.fields()["condition"] == 'state.step in ("choose", "pay")'
    assert "autofocus" in form.one(id="condition")
    assert form.one("label", for_="condition").text == "Must always hold"
    examples = maria.open("state-health", **names_of(ref, 2)).one("p", "examples").links()
    assert examples['state.step in ("choose", "pay")'] == card.links()["Alert when…"]
    rules.create(*names_of(ref, 2).values(), "", "step exists", actor=ALICE)
    assert maria.open("state-health", **names_of(ref, 2)).all("p", "examples") == []
    somebody("maria", "viewer")
    assert "Alert when…" not in maria.open("schema-key", **names_of(ref, 2), query={"key": "step"}).links()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        *(("step = pay", "1 of 2 sessions breaks this now."), ("step = choose", "No sessions break this now.")),
        *(("step exists", "1 of 2 sessions breaks this now."), ("step =", ""), ("error:any", ""), ("", "")),
        ("app:limit <= 5", "The app's state breaks this now. All 2 sessions share it."),
    ],
)
def test_before_a_rule_is_added_it_says_how_many_sessions_break_it_now(
    ref: SessionRef, maria: Browser, text: str, said: str
) -> None:
    create_session(ref.source, ref.app_name, "omar", session_id="s2", actor=ALICE)
    create_session(ref.source, "weather", "omar", session_id="s3", state={"step": "rain"}, actor=ALICE)
    live(ref.source)
    assert maria.open("rule-trial", **names_of(ref, 2), query={"condition": text}).text == said
    assert not Rule.objects.exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cart.total >", "Something is missing"),
        ("error:any", "isn't a condition on state"),
        ("", "Enter a condition on the state, for example"),
    ],
)
def test_what_is_no_rule_is_refused_and_stays_in_the_form(
    ref: SessionRef, maria: Browser, text: str, message: str
) -> None:
    response = send(maria, ref, text, "Mine")
    assert response.status_code == 400
    form = page_of(response).one("form", "newrule")
    assert message in form.one(role="alert").text
    assert {form.fields()[name] for name in ("condition", "title")} == {text, "Mine"}
    assert not Rule.objects.exists()


def test_a_rule_is_changed_checked_again_deleted_and_brought_back(
    ref: SessionRef, maria: Browser, broken: tuple[Element, str]
) -> None:
    address = reverse("rule", args=[*ref[:2], Rule.objects.get().pk])
    assert maria.send(address, {"action": "save", "title": "Debts", "condition": "cart.total <"}).status_code == 400
    maria.send(address, {"action": "save", "title": "Debts", "condition": "cart.total < 0"})
    settle("rule")
    page = maria.open(address)
    assert (page.one("h1").text, page.one("form", "newrule").one(id="condition")["value"]) == (
        "Debts",
        "cart.total < 0",
    )
    assert page.one(id="breaches").one("tbody").texts("td")[3] == "met again"
    maria.send(address, {"action": "again"})
    settle("rule")
    assert maria.open(address).one(id="breaches").one("tbody").texts("td")[3] == "met again"
    gone = maria.send(address, {"action": "delete"})
    page = maria.open(gone["Location"])
    assert "Rule “Debts” deleted." in page.text
    form = maria.open(page.links()["Undo"]).one("form", "newrule")
    assert form.fields()["condition"] == "cart.total < 0"
    maria.open(address, status=404)


def test_read_only_shows_rules_and_changes_none(
    ref: SessionRef, maria: Browser, broken: tuple[Element, str], settings: Any
) -> None:
    settings.READ_ONLY = True
    address = reverse("rule", args=[*ref[:2], Rule.objects.get().pk])
    for page in (maria.open(address), maria.open("state-health", **names_of(ref, 2))):
        assert page.all("form", "newrule") == []
    for action in ("save", "again", "stop", "delete"):
        assert maria.send(address, {"action": action, "condition": "a = 1"}).status_code == 403
    assert send(maria, ref, "a = 1").status_code == 403
    assert Rule.objects.count() == 1


def test_while_a_rule_is_checked_the_pages_ask_again(
    ref: SessionRef, maria: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rules.rule_jobs.runner, "start", lambda job: True)  # as if another process had it
    page = maria.open(send(maria, ref, "step = pay")["Location"])
    assert page.one(id="breaches").one("progress")["value"] == "0"
    assert page.one(id="breaches")["hx-trigger"] == "load delay:1s"
    health = maria.open("state-health", htmx=True, **names_of(ref, 2))
    assert health.one(id="rules-list")["hx-trigger"] == "load delay:1s"
    assert maria.open(page.one("form", "newrule")["action"], htmx=True).one(id="breaches").one("progress")
    maria.send(page.one("form", "newrule")["action"], {"action": "stop"})
    later = maria.open(page.one("form", "newrule")["action"], htmx=True)  # the section's last request
    assert (later.one(id="check").text, later.one(id="check")["hx-swap-oob"]) == ("Check again", "true")
    assert "The check was stopped." in maria.open("state-health", **names_of(ref, 2)).one("table", "rulelist").text


@pytest.mark.parametrize("hostile", TEXTS)
def test_a_hostile_rule_is_shown_as_it_is(ref: SessionRef, maria: Browser, hostile: str) -> None:
    quoted = hostile.replace("\\", "\\\\").replace('"', '\\"')
    number = rules.create(*ref[:2], hostile[:100], f'state."{quoted}" = "{quoted}"', actor=ALICE)
    settle("rule")
    title = " ".join(hostile[:100].split())
    page = maria.open("rule", source=ref.source, app_name=ref.app_name, number=number)
    assert " ".join(title.split()) in page.one("h1").text or not title
    maria.open("state-health", **names_of(ref, 2))
