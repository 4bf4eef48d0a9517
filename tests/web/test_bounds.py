"""No request costs more than it shows, whatever one writer put into a database: two seconds of CPU, 200 MB."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sessions_app import reads, writes
from sessions_app.access import Actor
from sessions_app.errors import Invalid
from sessions_app.keys import SessionKey
from sessions_app.weights import LARGE
from tests.costs import APP, PAGES, READS, SESSION, USER, measure, parts, write
from tests.shapes import SHAPES

from .conftest import Browser
from .test_export import body


@pytest.mark.long
@pytest.mark.parametrize("shape", SHAPES)
def test_no_page_costs_more_than_it_shows(tmp_path: Path, shape: str) -> None:
    costs = measure(write(tmp_path / "store.db", **SHAPES[shape]()), *PAGES, *READS)
    assert len(costs) == len(PAGES) + len(READS)
    assert [cost for cost in costs if not cost.fits or (cost.content > 3_000_000 and cost.address in PAGES)] == []


def test_what_is_written_is_bounded_where_it_is_written(key: SessionKey, actor: Actor) -> None:
    event = {"author": "agent", "invocation_id": "i1", "actions": {"state_delta": {"k" * 1_025: 1}}}
    with pytest.raises(Invalid, match="1024"):
        writes.append_event(key, event, actor=actor)
    with pytest.raises(Invalid, match="1024"):
        writes.create_session(*key[:3], state={"k" * 1_025: 1}, actor=actor)
    event["actions"] = {"state_delta": {"k" * 1_024: 1, "l" * 2_000: None}}  # one that is there may be taken out
    writes.append_event(key, event, actor=actor)


@pytest.mark.django_db
def test_what_is_too_large_is_a_line_with_its_size_and_can_be_downloaded_as_it_is(
    tmp_path: Path, open_source: Any, maria: Browser
) -> None:
    text = '{"author": "agent", "content": {"parts": [{"text": "' + "é" * LARGE + '"}]}}'
    file = write(tmp_path / "store.db", [parts({"text": "Hello"}), text], state={"k": "x" * LARGE})
    source = open_source(str(file))
    key = SessionKey(source, APP, USER, SESSION)
    page = maria.open("session", **key._asdict())
    assert "7.6" in page.one("li", id="event-e1").text.replace("\xa0", " ")
    assert "Hello" in page.one("li", id="event-e0").text
    (link,) = [link["href"] for link in page.all("a") if link.text == "Download"]
    assert body(maria.get(link)).decode() == '{"k": "' + "x" * LARGE + '"}'
    event = maria.open("event", **key._asdict(), event_id="e1")
    assert "too large to be shown here" in event.one("main").text
    assert body(maria.get(event.links()["Download"])).decode() == text
    with pytest.raises(Invalid, match="too large"):
        reads.session(key)


@pytest.mark.django_db
def test_parts_and_changes_come_a_page_at_a_time(key: SessionKey, maria: Browser, add: Any) -> None:
    values = {f"k{number:03}": number for number in range(450)}
    event_id = add(key, *[{"text": f"part {n}."} for n in range(450)], actions={"state_delta": values})
    seen: list[str] = []
    asked: dict[str, str] = {"parts": "0"}
    for _page in range(3):
        page = maria.open("event", **key._asdict(), event_id=event_id, query=asked)
        seen += [each.text for each in page.all("div", "text")]
        later = [link["href"] for link in page.all("a") if link.text == "Later" and "parts=" in link["href"]]
        asked = {"parts": later[0].partition("parts=")[2]} if later else {}
    assert seen == [f"part {n}." for n in range(450)]
    assert asked == {}
    changes = maria.open("event", **key._asdict(), event_id=event_id, query={"changes": 400}).all("div", "beforeafter")
    assert len(changes) == 50


def test_a_page_of_events_ends_by_what_they_weigh_and_leads_on(key: SessionKey, add: Any) -> None:
    ids = [add(key, {"text": "x" * 1_500_000}) for _ in range(12)]
    found: list[str] = []
    before = None
    pages = 0
    while before or not pages:
        page = reads.events(key, before=before)
        found = [view.id for view in page.rows] + found
        before, pages = page.next, pages + 1
    assert found == ids
    assert pages == 3
    after = reads.events_after(key, 0)
    assert 0 < len(after.rows) < 12
    assert after.next
