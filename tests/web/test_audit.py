"""The page of the audit: who may read it, what it lists, its filters, its pages and its export."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pytest
from asgiref.sync import async_to_sync
from django.db import connections
from django.urls import reverse
from pytest_django import Settings

from sessions_app.access.actor import Actor
from sessions_app.access.audit.acts import ACTS
from sessions_app.access.audit.record import HASHED, record
from sessions_app.domain.session_ref import SessionRef
from sessions_app.domain.state import ABSENT
from sessions_app.edits.edit import Entry, edit_state
from sessions_app.history import audit_log
from sessions_app.history.audit_log import EDIT
from sessions_app.history.index import build
from sessions_app.models import AuditReceiver, AuditRow
from sessions_app.web.audit import SAID
from sessions_app.writes.sessions import create_session
from tests.support.people import somebody
from tests.web.conftest import Browser
from tests.web.html import Element

pytestmark = pytest.mark.django_db
HOSTILE: Final = "<script>alert(1)</script>"


@pytest.fixture
def auditor(db: None) -> Browser:
    """Somebody who reads the audit and nothing else, before anything is recorded."""
    browser = Browser()
    browser.force_login(somebody("olga", "auditor"))
    AuditRow.objects.all().delete()  # a test without a transaction may have left some
    return browser


@pytest.fixture
def days(monkeypatch: pytest.MonkeyPatch) -> None:
    """Five acts on each of three days, by two people, about two apps."""
    for number in range(15):
        monkeypatch.setattr("time.time", lambda number=number: 86_400.0 * (number // 5) + 3_600 * number)
        app = ("booking", "weather")[number % 2]
        record(("exported", "role-given")[number % 2], ("maria", "bob")[number % 3 == 0], app_name=app, n=number)
    monkeypatch.undo()


def acts_of(page: Element) -> list[str]:
    return [row.one("td", data_label="Details").text for row in page.all("tr", data_row="")]


def test_an_empty_audit_says_what_will_be_there(auditor: Browser) -> None:
    page = auditor.open("audit")
    assert page.one("div", class_="empty").one("h2").text == "Nothing recorded yet"
    nothing = auditor.open("audit", query={"by": "nobody"})
    assert nothing.one("div", class_="empty").one("h2").text == "Nothing matches"
    assert nothing.one("a", href=reverse("audit"), class_="btn")


def test_an_act_tells_who_what_about_what_and_from_where(auditor: Browser) -> None:
    record("session-deleted", "maria", ref=SessionRef("agents", "booking", "ana", "s1"), why=HOSTILE)
    (row,) = auditor.open("audit").all("tr", data_row="")
    cells = {cell["data-label"]: cell.text for cell in row.all("td")}
    assert cells.pop("When")
    assert cells == {
        "Action": "Session deleted",
        "Who": "maria",
        "About": "agents / booking / ana / s1",
        "Details": f"why {HOSTILE}",
        "Address": "",
    }


def test_every_act_has_words_by_which_it_is_filtered(auditor: Browser) -> None:
    assert SAID.keys() == {*ACTS, EDIT}
    acts = auditor.open("audit").one("select", name="act").all("option")
    assert {act["value"]: act.text for act in acts} == {"": "all actions", **SAID}


@pytest.mark.parametrize(
    ("asked", "numbers"),
    [
        ({"act": "role-given"}, range(1, 15, 2)),
        ({"by": "bob"}, range(0, 15, 3)),
        ({"app": "weather"}, range(1, 15, 2)),
        ({"day": "1970-01-02"}, range(5, 10)),
        ({"day": "1970-01-02", "by": "bob", "app": "booking"}, [6]),
        ({"day": "1971-01-02"}, []),
        ({"act": "'", "by": "a\0b"}, []),
    ],
)
def test_each_filter_selects_what_a_naive_look_does(
    auditor: Browser, days: None, asked: dict[str, str], numbers: list[int]
) -> None:
    page = auditor.open("audit", query=asked)
    assert acts_of(page) == [f"n {number}" for number in reversed(numbers)]
    kept = page.one("form", class_="formactions").fields()
    assert [kept[name] for name in asked if name in ("by", "app", "day") and "\0" not in asked[name]] == [
        value for name, value in asked.items() if name != "act" and "\0" not in value
    ]


def test_pages_follow_each_other_by_key_and_keep_the_filter(auditor: Browser) -> None:
    for number in range(120):
        record("exported", "maria", app_name="booking", n=number)
        record("exported", "bob", n=number)
    listed, page = [], auditor.open("audit", query={"by": "maria"})
    while True:
        listed += acts_of(page)
        more = page.all("a", hx_swap="outerHTML")
        if not more:
            break
        record("exported", "maria", n=1_000)  # what is new moves no page
        page = auditor.open(more[0]["hx-get"], htmx=True)
    assert listed == [f"n {number}" for number in reversed(range(120))]


def test_a_day_or_a_cursor_that_is_none_is_refused_in_words(auditor: Browser) -> None:
    for asked in ({"day": HOSTILE}, {"day": "2026-13-45"}, {"before": "x"}):
        page = auditor.open("audit", status=400, query=asked)
        assert page.one(role="alert").text
    assert auditor.get(reverse("audit-export"), {"day": "x"}).status_code == 400


async def read(response: object) -> bytes:
    return b"".join([piece async for piece in response.streaming_content])  # type: ignore[attr-defined]


def test_the_export_has_every_selected_row_as_it_was_hashed_and_is_recorded(auditor: Browser, days: None) -> None:
    response = auditor.get(reverse("audit-export"), {"by": "bob"})
    lines = [json.loads(line) for line in async_to_sync(read)(response).splitlines()]
    rows = list(AuditRow.objects.filter(by="bob").order_by("number"))
    assert lines == [{name: getattr(row, name) for name in (*HASHED, "digest")} for row in rows]
    last = AuditRow.objects.latest("number")
    assert (last.act, last.by, json.loads(last.detail)) == ("exported", "olga", {"format": "audit", "only_by": "bob"})


# --- Edits beside them ------------------------------------------------------------------------------------------------


def act_and_edit(ref: SessionRef, number: int, name: str = "maria") -> None:
    """An act, and then an edit."""
    record("exported", name, app_name=ref.app_name, n=number)
    entries = [Entry(f"k{number}", f"value {number}", ABSENT)]
    edit_state(ref, entries, actor=Actor.holding(name, "admin"), reason=f"r{number}")


def cells_of(row: Element) -> dict[str, str]:
    return {cell["data-label"]: cell.text for cell in row.all("td")}


def walked(browser: Browser, query: dict[str, str]) -> list[str]:
    """The details of all rows, page after page."""
    page, listed = browser.open("audit", query=query), []
    while True:
        listed += acts_of(page)
        if not (more := page.all("a", hx_swap="outerHTML")):
            return listed
        page = browser.open(more[0]["hx-get"], htmx=True)


def test_an_edit_stands_between_the_acts_without_its_values_and_a_link_only_for_whoever_may_see_it(
    auditor: Browser, maria: Browser, ref: SessionRef, actor: Actor
) -> None:
    record("exported", "bob", n=1)
    entries = [Entry("step", HOSTILE, "choose"), Entry("user:tier", "gold-secret", "gold")]
    edit = edit_state(ref, entries, actor=actor, reason="Stuck")
    record("exported", "bob", n=2)
    page = auditor.open("audit")
    assert [cells_of(row)["Action"] for row in page.all("tr", data_row="")] == [
        "Sessions exported",
        "State edited",
        "Sessions exported",
    ]
    row = page.all("tr", data_row="")[1]
    assert {name: text for name, text in cells_of(row).items() if name != "When"} == {
        "Action": "State edited",
        "Who": actor.name,
        "About": "store / booking / ana / s1",
        "Details": "keys step, user:tier · reason Stuck",
        "Address": "",
    }
    for value in ("gold-secret", "choose", HOSTILE):
        assert value not in page.one("main").text
    assert row.all("a") == []
    link = reverse("event", kwargs={**ref._asdict(), "event_id": edit.event["id"]})
    assert [each["href"] for each in maria.open("audit").all("tr", data_row="")[1].all("a")] == [link]


def test_filters_select_edits_as_they_select_acts(auditor: Browser, ref: SessionRef, actor: Actor) -> None:
    other = create_session(ref.source, "weather", "ana", session_id="s2", actor=actor)
    for number, of in enumerate((ref, other, ref)):
        act_and_edit(of, number, ("maria", "bob")[number % 2])
    today = f"{datetime.now(UTC):%Y-%m-%d}"
    edits = [f"keys k{number} · reason r{number}" for number in (2, 1, 0)]
    assert walked(auditor, {"act": "edit"}) == edits
    assert walked(auditor, {"act": "edit", "day": today}) == edits
    assert walked(auditor, {"act": "edit", "day": "2001-02-03"}) == []
    assert walked(auditor, {"by": "bob"}) == walked(auditor, {"app": "weather"}) == [edits[1], "n 1"]
    assert walked(auditor, {"act": "exported", "app": "booking"}) == ["n 2", "n 0"]


@pytest.mark.parametrize("slow", [False, True])
def test_pages_of_acts_and_edits_of_several_sources_show_each_once_in_the_order_of_time(
    auditor: Browser, ref: SessionRef, demo: str, actor: Actor, monkeypatch: pytest.MonkeyPatch, *, slow: bool
) -> None:
    other = create_session(demo, "booking", "ana", session_id="s2", actor=actor)
    for number in range(90):
        act_and_edit((ref, other)[number % 2], number, ("maria", "bob")[number % 3 == 0])
    if slow:  # a page gives up looking for the edits of one person at once
        monkeypatch.setattr(build, "SECONDS", 0.0)
        monkeypatch.setattr(audit_log, "LOOK_SECONDS", 0.0)
    for query, numbers in (({"app": "booking"}, range(90)), ({"by": "bob"}, range(0, 90, 3))):
        expected = [text for n in reversed(numbers) for text in (f"keys k{n} · reason r{n}", f"n {n}")]
        assert [text for text in walked(auditor, query) if re.search(r" r?\d+$", text)] == expected


def test_the_export_has_the_edits_in_the_order_of_time_and_no_value(auditor: Browser, ref: SessionRef) -> None:
    for number in range(3):
        act_and_edit(ref, number)
    body = async_to_sync(read)(auditor.get(reverse("audit-export"), {"by": "maria"}))
    lines = [json.loads(line) for line in body.splitlines()]
    assert [line["act"] for line in lines] == ["exported", "edit"] * 3
    assert [line["at"] for line in lines] == sorted(line["at"] for line in lines)
    assert {**lines[1], "at": 0, "event_id": ""} == {
        "act": "edit",
        "at": 0,
        "by": "maria",
        "detail": '{"keys":["k0"],"reason":"r0"}',
        "event_id": "",
        **ref._asdict(),
    }
    assert b"value 0" not in body
    assert async_to_sync(read)(auditor.get(reverse("audit-export"), {"act": "edit", "app": "x"})) == b""


def test_a_source_that_does_not_answer_is_said_to_be_missing_and_its_path_is_not(
    auditor: Browser, ref: SessionRef
) -> None:
    act_and_edit(ref, 1)
    path = Path(connections.databases[ref.source]["ADKWEB"]["path"])
    path.rename(path.with_suffix(".away"))
    page = auditor.open("audit")
    assert [text for text in acts_of(page) if text == "n 1"] == ["n 1"]
    (notice,) = page.all("p", class_="notice")
    assert notice.text.startswith("Edits from the source “store” are missing")
    body = async_to_sync(read)(auditor.get(reverse("audit-export"), {"act": "edit"}))
    assert "“store” are missing" in json.loads(json.loads(body)["detail"])["missing"]
    assert str(path.parent) not in page.text + body.decode()


# --- Who else has them ------------------------------------------------------------------------------------------------


def test_the_page_says_how_far_a_receiver_is_and_what_went_wrong(auditor: Browser, settings: Settings) -> None:
    assert auditor.open("audit").all("p", class_="notice") == []
    settings.AUDIT_SYSLOG = ("udp", "127.0.0.1", 514)
    (notice,) = auditor.open("audit").all("p", class_="notice")
    assert notice.text == "The syslog has received every row."
    record("exported", "maria")
    AuditReceiver.objects.create(name="syslog", message=f"OSError: {HOSTILE}")
    (notice,) = auditor.open("audit").all("p", class_="bad")
    assert re.fullmatch(
        rf"1 row has been waiting to be sent to the syslog since .* · OSError: {re.escape(HOSTILE)}", notice.text
    )


def test_settings_lead_there_whoever_may_read_it_and_nobody_else(auditor: Browser) -> None:
    viewer = Browser()
    viewer.force_login(somebody("vera", "viewer"))
    assert auditor.open("sign-ins").all("a", href=reverse("audit"))
    assert not viewer.open("sign-ins").all("a", href=reverse("audit"))
    viewer.open("audit", status=403)
