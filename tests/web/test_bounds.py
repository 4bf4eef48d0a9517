"""No request costs more than it shows, whatever one writer put into a database: two seconds of CPU, 200 MB."""

from __future__ import annotations

from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from sessions_app.access.actor import SYSTEM
from sessions_app.domain import differences
from sessions_app.domain.errors import Invalid
from sessions_app.domain.session_ref import SessionRef
from sessions_app.domain.state import ABSENT, UNKNOWN
from sessions_app.history import drift, key_history, moments
from sessions_app.reads import statistics, stored_sessions, timeline, views, whole_session
from sessions_app.reads.size_limits import LARGE
from sessions_app.transfer.formats import adk_json
from sessions_app.web.html.state_panel import MOST_ROWS
from tests.costs import ACTS, APP, PAGES, READS, SESSION, USER, delta, measure, parts, write
from tests.shapes import SHAPES
from tests.web.conftest import Browser
from tests.web.test_export import body


@pytest.mark.guarantee(
    "Live pages", "The cost of loading a page depends on the page's content, not on the amount of stored data."
)
@pytest.mark.long
@pytest.mark.parametrize("shape", SHAPES)
def test_no_page_costs_more_than_it_shows(tmp_path: Path, shape: str) -> None:
    costs = measure(write(tmp_path / "store.db", **SHAPES[shape]()), *PAGES, *READS)
    assert len(costs) == len(PAGES) + len(READS)
    assert [cost for cost in costs if not cost.fits or (cost.content > 3_000_000 and cost.address in PAGES)] == []


@pytest.mark.long
@pytest.mark.parametrize("shape", SHAPES)
def test_no_act_costs_more_than_two_seconds(tmp_path: Path, shape: str) -> None:
    costs = measure(write(tmp_path / "store.db", **SHAPES[shape]()), *ACTS)
    assert [cost for cost in costs if not cost.fits] == []
    assert {cost.status for cost in costs} <= {200, 201, 400, 404}
    assert costs[0].status == 201


@pytest.mark.django_db
def test_what_is_too_large_is_a_line_with_its_size_and_can_be_downloaded_as_it_is(
    tmp_path: Path, open_source: Any, maria: Browser
) -> None:
    text = '{"author": "agent", "content": {"parts": [{"text": "' + "é" * LARGE + '"}]}}'
    file = write(tmp_path / "store.db", [parts({"text": "Hello"}), text], state={"k": "x" * LARGE})
    source = open_source(str(file))
    ref = SessionRef(source, APP, USER, SESSION)
    page = maria.open("session", **ref._asdict())
    line = page.one("li", id="event-e1").text.replace("\xa0", " ")
    assert "éééé" in line
    assert "15.3 MB, partly shown" in line
    assert "Hello" in page.one("li", id="event-e0").text
    (link,) = [link["href"] for link in page.all("a") if link.text == "Download"]
    assert body(maria.get(link)).decode() == '{"k": "' + "x" * LARGE + '"}'
    event = maria.open("event", **ref._asdict(), event_id="e1")
    assert "15.3 MB): long values truncated" in event.one("main").text.replace("\xa0", " ")
    assert body(maria.get(event.links()["Download"])).decode() == text
    with pytest.raises(Invalid, match="too large"):
        views.session(ref, actor=SYSTEM)


@pytest.mark.django_db
def test_parts_and_changes_come_a_page_at_a_time(ref: SessionRef, maria: Browser, add: Any) -> None:
    values = {f"k{number:03}": number for number in range(450)}
    event_id = add(ref, *[{"text": f"part {n}."} for n in range(450)], actions={"state_delta": values})
    seen: list[str] = []
    asked: dict[str, str] = {"parts": "0"}
    for _page in range(3):
        page = maria.open("event", **ref._asdict(), event_id=event_id, query=asked)
        seen += [each.text for each in page.all("div", "md")]
        later = [link["href"] for link in page.all("a") if link.text == "Later" and "parts=" in link["href"]]
        asked = {"parts": later[0].partition("parts=")[2]} if later else {}
    assert seen == [f"part {n}." for n in range(450)]
    assert asked == {}
    changes = maria.open("event", **ref._asdict(), event_id=event_id, query={"changes": 400}).all("div", "beforeafter")
    assert len(changes) == 50


def test_a_page_of_events_ends_by_what_they_weigh_and_leads_on(ref: SessionRef, add: Any) -> None:
    ids = [add(ref, {"text": "x" * 1_500_000}) for _ in range(12)]
    found: list[str] = []
    before = None
    pages = 0
    while before or not pages:
        page = timeline.events(ref, before=before, actor=SYSTEM)
        found = [view.id for view in page.rows] + found
        before, pages = page.next, pages + 1
    assert found == ids
    assert pages == 3
    after = timeline.events_after(ref, 0, actor=SYSTEM)
    assert 0 < len(after.rows) < 12
    assert after.next


@pytest.mark.parametrize("newest", [0, 1, 5, 12, 10**9])
def test_so_many_of_the_newest_events_are_the_same_by_page_as_at_once(ref: SessionRef, add: Any, newest: int) -> None:
    ids = [add(ref, {"text": "x" * 1_500_000}) for _ in range(8)]
    found = whole_session.stream(ref, newest=newest, actor=SYSTEM)
    assert found
    pages = list(found[1])
    assert [event.id for page in pages for event in page] == (ids[-newest:] if newest else [])
    assert all(sum(len(event.text) for event in page) < 2 * LARGE for page in pages)


@pytest.fixture
def storing(tmp_path: Path, open_source: Any) -> Any:
    """Opens a database of these events and states; its session."""

    def opened(*events: Any, **states: Any) -> SessionRef:
        # Threads that send downloads keep connections by a source's name.
        source = open_source(str(write(tmp_path / f"{tmp_path.name}.db", events, **states)))
        return SessionRef(source, APP, USER, SESSION)

    return opened


HUGE = delta(k="x" * LARGE, other=2)


@pytest.mark.django_db
def test_a_moment_tells_what_it_can_and_no_value_that_an_event_too_large_wrote(storing: Any) -> None:
    key = storing(delta(k=1, stays="a"), HUGE, delta(late=3), state={"k": 5, "stays": "a", "other": 2, "late": 3})
    then = moments.state_at(key, "e1", actor=SYSTEM).state.session
    assert then["stays"] == "a"
    assert then["k"] is then["other"] is UNKNOWN
    written = [(write.event_id, write.change.new) for write in key_history.history(key, "k", actor=SYSTEM).rows]
    assert written == [("e1", UNKNOWN), ("e0", 1)]


@pytest.mark.django_db
def test_a_session_that_is_too_large_to_be_replayed_says_so(storing: Any, maria: Browser) -> None:
    ref = storing(delta(k=1), HUGE, state={"k": 5})
    assert drift.own(ref, actor=SYSTEM) == drift.Report(untold="size")
    assert "too large to replay" in maria.open("drift", **ref._asdict()).one("main").text


@pytest.mark.django_db
def test_the_history_of_a_key_in_a_state_that_is_too_large_is_told_without_the_value_that_stands(storing: Any) -> None:
    key = storing(delta(k={"a": 1}), delta(k={"b": 2}), state={"k": {"b": 2}, "huge": "x" * LARGE})
    assert [write.event_id for write in key_history.history(key, "k", actor=SYSTEM).rows] == ["e1", "e0"]


@pytest.mark.django_db
def test_of_more_keys_than_can_be_looked_at_together_the_past_is_not_told_and_the_page_says_so(
    storing: Any, maria: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sessions_app.history.index.query.MOST_KEYS", 3)
    ref = storing(delta(**{f"k{n}": n for n in range(4)}), state={f"k{n}": n for n in range(4)})
    page = maria.open("session", **ref._asdict(), query={"at": "e0"})
    assert "more than 3 keys" in page.one("main").text
    assert "k3" in maria.open("session", **ref._asdict()).one("main").text


@pytest.mark.django_db
def test_nor_of_keys_that_more_events_wrote_than_are_read_together(
    storing: Any, maria: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sessions_app.history.moments.MOST_POSITIONS", 4)
    ref = storing(*[delta(**{f"k{n}": n}) for n in range(5)], state={f"k{n}": n for n in range(5)})
    page = maria.open("session", **ref._asdict(), query={"at": "e4"})
    assert "more than 2 keys" in page.one("main").text
    assert "k3" in maria.open("session", **ref._asdict()).one("main").text


@pytest.mark.django_db
def test_all_of_a_state_is_as_much_as_a_page_holds_and_the_rest_is_downloaded(storing: Any, maria: Browser) -> None:
    ref = storing(parts({"text": "Hello"}), state={f"k{n:04}": n for n in range(MOST_ROWS + 5)})
    page = maria.open("session", **ref._asdict(), query={"all": "1"})
    assert len(page.all("div", "staterow")) <= MOST_ROWS
    assert "5 more keys" in page.text
    assert body(maria.get(page.links()["Download"])).decode().count("k") == MOST_ROWS + 5


@pytest.mark.django_db
def test_numbers_of_a_session_end_by_what_its_events_weigh(storing: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    key = storing(*[parts({"text": "x" * 1_000})] * 30)
    assert statistics.stats(key, actor=SYSTEM).events == 30
    monkeypatch.setattr(statistics, "HEAVIEST", 10_000)
    stats = statistics.stats(key, actor=SYSTEM)
    assert (stats.more, 0 < stats.events < 30) == (True, True)


def test_two_wide_values_are_compared_side_by_side() -> None:
    old, new = list(range(100_000)), [*range(50_000), "new", *range(50_001, 100_000), 1]
    found = differences.places(old, new, 1)
    assert found.rows == [differences.Place((50_000,), 50_000, "new")]
    assert found.more == 0 or found.more >= 1
    wide = {f"k{n}": n for n in range(60_000)}
    assert differences.places(wide, {**wide, "k7": 0, "l": True}).rows == [
        differences.Place(("k7",), 7, 0),
        differences.Place(("l",), ABSENT, True),
    ]
    assert differences.places([1] * 60_000, [True] + [1] * 59_999).rows == [differences.Place((0,), 1, True)]


@pytest.mark.django_db
def test_an_apps_page_shows_its_users_and_sessions_beside_a_state_that_is_too_large(
    storing: Any, maria: Browser
) -> None:
    ref = storing(parts({"text": "Hello"}), app={"k": "x" * LARGE}, user={"k": "x" * LARGE})
    for name, names in (("app", ref[:2]), ("user", ref[:3])):
        page = maria.open(name, **dict(zip(ref._fields, names, strict=False)))
        assert "too large to show" in page.one("main").text
        assert SESSION in page.one("main").text
        assert body(maria.get(page.links()["Download"])).decode() == '{"k": "' + "x" * LARGE + '"}'


@pytest.mark.django_db
def test_drift_shows_as_many_keys_as_a_page_holds(
    storing: Any, maria: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sessions_app.web.drift.LENGTH", 1_000)
    ref = storing(delta(**{f"k{n}": "x" * 300 for n in range(6)}), state={f"k{n}": "y" * 300 for n in range(6)})
    page = maria.open("drift", **ref._asdict())
    assert len(page.all("div", "driftrow")) == 1
    assert "6 keys don't match" in page.one("main").text
    assert "5 more keys" in page.one("main").text


def test_a_file_of_more_values_than_are_read_at_once_is_refused_before_it_is_parsed() -> None:
    file = BytesIO(b'{"id": [' + b"[]," * 2_000_001 + b"1]}")
    with pytest.raises(Invalid, match="more lists, objects and items"):
        adk_json.load(file)


@pytest.mark.django_db
def test_an_event_whose_values_may_have_been_merged_or_replaced_has_a_page(storing: Any, maria: Browser) -> None:
    ref = storing(*[delta(k={f"n{n}": n}) for n in range(3)], state={"k": {"other": 1}})
    page = maria.open("event", **ref._asdict(), event_id="e0")
    assert "unknown at this point" in page.one("pre", "diff").text
    assert maria.open("session-history", **ref._asdict(), query={"key": "k"}).one("main")


def names_of(page: Any) -> list[str]:
    return [found.ref.session_id for found in page]


@pytest.mark.django_db
def test_a_list_of_sessions_ends_by_what_their_states_weigh_and_leads_on(storing: Any) -> None:
    heavy = {"k": "x" * (LARGE // 3)}
    ref = storing(state=heavy, sessions=[heavy] * 8)
    selection = stored_sessions.Selection(ref.source, APP)
    page = stored_sessions.load_page(selection, actor=SYSTEM)
    assert 0 < len(page.rows) < 9
    again = stored_sessions.load_page(selection, after=page.next, actor=SYSTEM)
    assert names_of(again.rows)[0] not in names_of(page.rows)
    assert names_of(stored_sessions.each_session(replace(selection, user_id=USER), actor=SYSTEM)) == names_of(
        stored_sessions.load_all(selection, actor=SYSTEM)
    )
    assert sorted(names_of(stored_sessions.load_all(selection, actor=SYSTEM))) == sorted(
        ["s1", *(f"other{n}" for n in range(1, 9))]
    )


@pytest.mark.django_db
def test_a_history_that_weighs_much_names_all_its_writes_and_has_the_newest_values(
    storing: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sessions_app.history.index.written.HEAVIEST", 10_000)
    key = storing(*[delta(k=str(n) * 2_000) for n in range(8)], state={"k": "7" * 2_000})
    values = [write.change.new for write in key_history.history(key, "k", actor=SYSTEM).rows]
    assert len(values) == 8
    assert values[:2] == ["7" * 2_000, "6" * 2_000]
    assert values[-1] is UNKNOWN
