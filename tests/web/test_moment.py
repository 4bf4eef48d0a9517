"""Time travel on the session page: the state at an event as page and as panel, the way there, and what cannot be told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from sessions_app.access.actor import Actor
from sessions_app.checks import mask_rules
from sessions_app.domain.session_ref import SessionRef
from sessions_app.domain.state import ABSENT
from sessions_app.edits.edit import Entry, edit_state
from sessions_app.history.index import build
from sessions_app.sources import online, registry
from sessions_app.writes.sessions import create_session, delete_session
from tests.support.bulk import fill
from tests.support.people import ALICE
from tests.support.stored import execute
from tests.web.conftest import Browser
from tests.web.html import Element

pytestmark = pytest.mark.django_db

Add = Callable[..., str]


def change(**delta: Any) -> dict[str, Any]:
    """What an event that writes these keys has; `user__x` stands for `user:x`."""
    return {"actions": {"state_delta": {name.replace("__", ":"): value for name, value in delta.items()}}}


def at(maria: Browser, ref: SessionRef, event_id: str, status: int = 200, **query: str) -> Element:
    """The panel at an event."""
    query = {"at": event_id, **query}
    return maria.open("state-at", query=query, htmx=True, status=status, **ref._asdict())


def rows(panel: Element) -> dict[str, str]:
    """What the panel says of each key: its value, and who wrote it."""
    shown = {}
    for row in panel.all("div", "kv", data_row="") + panel.all("summary", "kv", data_row=""):
        name = row.one("span", "key")["title"]
        by = row.all("span", "by")
        shown[name] = f"{row.one('span', 'value').text} | {by[0].text if by else ''}".strip()
    return shown


def session_at(maria: Browser, ref: SessionRef, status: int = 200, **query: str) -> Element:
    return maria.open("session", query=query, status=status, **ref._asdict())


def ids(page: Element) -> list[str]:
    return [event["id"].removeprefix("event-") for event in page.all("li", "ev")]


# --- The state at an event --------------------------------------------------------------------------------------------


def test_the_panel_shows_all_scopes_as_they_were_after_the_event(
    ref: SessionRef, maria: Browser, add: Add, actor: Actor
) -> None:
    other = create_session(*ref[:3], session_id="other session", actor=actor)
    add(other, **change(user__tier="silver", app__limit=11))
    first = add(ref, **change(step="pay", count=4))
    add(other, **change(user__tier="bronze"))
    edit_state(ref, [Entry("user:tier", "iron", "bronze")], actor=actor)
    second = add(ref, **change(step="done"))
    assert rows(at(maria, ref, first)) == {
        "app:limit": "11 | other session ↗",
        "user:tier": '"silver" | other session ↗',
        "count": "4 | event",
        "nothing": "null | created",
        "step": '"pay" | event',
    }
    assert rows(at(maria, ref, second))["user:tier"] == '"iron" | maria'


def test_of_many_keys_those_that_the_event_wrote_and_the_first_ones_are_shown(
    ref: SessionRef, maria: Browser, add: Add
) -> None:
    add(ref, **change(**{f"key{number:04}": number for number in range(1_000)}))
    event_id = add(ref, **change(key0999="last", zzz=1))
    panel = at(maria, ref, event_id)
    names = [name for name in rows(panel) if ":" not in name]
    assert len(names) == 300
    assert names[-2:] == ["key0999", "zzz"]
    assert names == sorted(names)
    assert "704 more keys" in panel.text
    whole = panel.links()["show all"]
    assert set(parse_qs(urlsplit(whole).query)) == {"at", "show", "all"}
    assert len(rows(maria.open(whole).one(id="moment"))) == 1_006
    changes = add(ref, **change(**{f"key{number:04}": 0 for number in range(400)}))
    assert "100 more keys" in at(maria, ref, changes, show="changes").text


def test_of_many_keys_now_those_that_were_written_last_are_shown(ref: SessionRef, maria: Browser, add: Add) -> None:
    add(ref, **change(**{f"key{number:04}": number for number in range(1_000)}))
    add(ref, **change(key0999="last"))
    page = session_at(maria, ref)
    shown = rows(page.one(id="groups"))
    assert (len([name for name in shown if ":" not in name]), "key0999" in shown, "key0998" in shown) == (
        300,
        True,
        False,
    )
    assert page.one(id="key-count").text == "1005 keys"
    pushed = maria.get(reverse("news", kwargs=ref._asdict()), {"after": "0"}).json()["state"]
    assert pushed.count("data-key-row") == len(shown)
    assert "703 more keys" in pushed
    whole = maria.open(page.links()["show all"])
    assert not whole.all(id="groups")  # a push would shorten it
    assert len(rows(whole)) == 1_005


UUID: Final = "3f2a9c1e-44d2-4b6e-9a57-0c1f2e3d91cc"


@pytest.mark.parametrize(
    ("session_id", "title", "shown"), [("other", "", "other"), ("other", "Trip", "Trip"), (UUID, "", "3f2a…91cc")]
)
def test_a_writer_leads_to_the_state_just_after_it_in_whichever_session(
    ref: SessionRef, maria: Browser, add: Add, actor: Actor, session_id: str, title: str, shown: str
) -> None:
    state = {"__session_metadata__": {"displayName": title}} if title else {}
    other = create_session(*ref[:3], session_id=session_id, state=state, actor=actor)
    theirs = add(other, **change(user__tier="silver"))
    mine = add(ref, **change(step="pay"))
    for page in (at(maria, ref, mine), maria.open("session", **ref._asdict()).one("div", id="groups")):
        link = page.links()[f"{shown} ↗"]
        assert link == reverse("session", kwargs=other._asdict()) + f"?at={theirs}"
    assert at(maria, ref, mine).links()["event"] == reverse("session", kwargs=ref._asdict()) + f"?at={mine}"


def test_what_the_event_changed_is_marked_with_the_value_before(
    ref: SessionRef, maria: Browser, add: Add, actor: Actor
) -> None:
    other = create_session(*ref[:3], session_id="other", actor=actor)
    add(other, **change(user__tier="silver"))
    event_id = add(ref, **change(step="pay", fresh=[1], count=3, user__tier="iron"))
    panel = at(maria, ref, event_id)
    marked = {row["data-key-row"] for row in panel.all("div", "written")}
    assert marked == {"step", "fresh", "count", "user:tier"}
    before = [row.one("span", "value").text for row in panel.all("div", "was")]
    assert before == ["same value", "no such key", '"choose"', '"silver"']
    assert "Changes 3" in panel.links()
    alone = at(maria, ref, event_id, show="changes")
    assert rows(alone).keys() == marked
    told = {row["data-key-row"]: row.one("div", "changed-to").text for row in alone.all("div", "staterow")}
    assert told == {
        "user:tier": '"silver"→"iron"',
        "count": "3as before",
        "fresh": "new[1]",
        "step": '"choose"→"pay"',
    }
    assert alone.texts("h3") == ["Session only this session", "User shared by all of ana's sessions"]


def test_a_key_that_the_event_removed_is_shown_once_more(ref: SessionRef, maria: Browser, actor: Actor) -> None:
    edited = edit_state(ref, [Entry("step", ABSENT, "choose")], actor=actor, reason="stuck").event["id"]
    assert rows(at(maria, ref, edited))["step"].startswith('"choose" removed')
    assert at(maria, ref, edited).one("div", "removed").one("span", "key").text == "step"


def test_an_event_that_changed_nothing_says_so(ref: SessionRef, maria: Browser, add: Add) -> None:
    event_id = add(ref, {"text": "hello"})
    assert "This event changed nothing" in at(maria, ref, event_id, show="changes").texts("h3")
    assert rows(at(maria, ref, event_id))["step"] == '"choose" | created'


def test_the_event_itself_is_a_part_of_the_panel(ref: SessionRef, maria: Browser, add: Add) -> None:
    event_id = add(ref, {"text": "hello from the event"}, **change(step="pay"))
    panel = at(maria, ref, event_id, show="event")
    assert "hello from the event" in panel.one(id="detail").text
    assert panel.links()["Open as a page"] == reverse("event", kwargs={**ref._asdict(), "event_id": event_id})
    assert panel.one("div", "then").text.startswith("Event 1")


def test_temp_keys_are_said_to_be_never_stored(ref: SessionRef, maria: Browser, add: Add) -> None:
    event_id = add(ref, **change(step="pay"))
    execute(
        ref.source,
        "UPDATE events SET event_data = json_set(event_data, '$.actions.state_delta.\"temp:draft\"', 'a draft')",
    )
    panel = at(maria, ref, event_id)
    assert "never stored" in panel.one("h3", "temp").text
    assert rows(panel)["temp:draft"] == '"a draft" |'


def test_what_cannot_be_known_is_said_where_its_value_would_stand(ref: SessionRef, maria: Browser, add: Add) -> None:
    first = add(ref, {"text": "before"})
    add(ref, **change(step="pay", user__tier="silver"))
    execute(ref.source, "UPDATE sessions SET initial_state = NULL, initial_place = NULL")  # adopted late
    panel = at(maria, ref, first)
    shown = rows(panel)
    folded = panel.one("details", "unknowns")
    assert folded.one("summary").text == "3 keys unknown at this point"
    assert {"step", "user:tier"} <= set(folded.texts("span", "key"))
    told = {"unknown at this point", "the session started before adkweb adopted this database"}
    assert set(folded.texts("span", "value")) == told
    assert shown["count"] == "3 | –"  # no event ever wrote it, and nobody knows whether it stands since the beginning


def test_a_value_that_may_have_been_merged_or_not_is_said_to_be_so_and_counts_as_changed(
    ref: SessionRef, maria: Browser, add: Add
) -> None:
    add(ref, **change(cfg={"a": 1}))
    event_id = add(ref, **change(cfg={"b": 2}))
    add(ref, **change(cfg=3))
    panel = at(maria, ref, event_id)
    assert "may have merged it or replaced it" in rows(panel)["cfg"]
    execute(ref.source, "UPDATE sessions SET initial_state = NULL")  # of neither side anything is known then
    assert "Changes 1" in at(maria, ref, event_id).text


def test_a_long_value_leads_to_all_of_it_as_it_was(ref: SessionRef, maria: Browser, add: Add) -> None:
    long = {f"k{number}": number for number in range(1_000)}
    event_id = add(ref, **change(step=long))
    add(ref, **change(step="short"))
    address = at(maria, ref, event_id).links()["show all"]
    answer = maria.get(address)
    assert answer["Content-Type"].startswith("text/plain")
    assert '"k999": 999' in answer.content.decode()
    assert maria.get(address.replace("key=step", "key=gone")).status_code == 404


def differing(panel: Element) -> dict[str, tuple[str, bool]]:
    """Of each key that differs from now, what is stored now, and whether the filter alone shows it."""
    told = {
        row["data-key-row"]: (row.one(class_="isnow").one(class_="value").text, "hidden" in row)
        for row in panel.all(class_="staterow", data_differs="")
    }
    assert panel.one("label", "chip").one(class_="n").text == str(len(told))
    return told


def test_what_differs_from_now_is_marked_with_the_value_now(
    ref: SessionRef, maria: Browser, add: Add, actor: Actor
) -> None:
    first = add(ref, **change(step="pay", count=4, brief=1))
    second = add(ref, **change(step="done", late=True))
    edit_state(ref, [Entry("brief", ABSENT, 1), Entry("late", ABSENT, True)], actor=actor)
    third = add(ref, **change(late=False))
    assert differing(at(maria, ref, first)) == {
        "step": ('"done"', False),
        "brief": ("no such key", False),
        "late": ("false", True),
    }
    assert differing(at(maria, ref, second)) == {"brief": ("no such key", False), "late": ("false", False)}
    assert differing(at(maria, ref, third)) == {}


def test_masked_values_do_not_tell_whether_they_differ(ref: SessionRef, maria: Browser, add: Add) -> None:
    first = add(ref, **change(pin="1234", card={"number": "1111", "name": "ana"}))
    add(ref, **change(pin="9876", card={"number": "2222", "name": "ana"}))
    for pattern in ("pin", "number"):
        mask_rules.create("*", "key", pattern, actor=ALICE)
    panel = at(maria, ref, first)
    assert {"1234", "9876", "1111", "2222"}.isdisjoint(panel.raw.split('"'))
    assert differing(panel) == {}


# --- The page at an event ---------------------------------------------------------------------------------------------


def test_a_link_to_an_event_is_a_whole_page_with_the_state_then(ref: SessionRef, maria: Browser, add: Add) -> None:
    event_id = add(ref, **change(step="pay"))
    add(ref, **change(step="done"))
    page = session_at(maria, ref, at=event_id)
    assert page.one("li", "selected")["id"] == f"event-{event_id}"
    assert rows(page.one(id="moment"))["step"] == '"pay" | event'
    assert "hidden" in page.one(id="state")
    assert rows(page.one(id="state"))["step"] == '"done" | event'  # which is live
    assert page.one("a", id="travel-back")["href"] == reverse("session", kwargs=ref._asdict())
    assert page.one("a", id="show-event")["href"].endswith(f"?at={event_id}&show=event")


def test_filters_stay_on_the_way_through_time(ref: SessionRef, maria: Browser, add: Add) -> None:
    event_id = add(ref, **change(step="pay"))
    page = session_at(maria, ref, at=event_id, kind="state")
    assert parse_qs(urlsplit(page.one("a", id="show-changes")["href"]).query)["kind"] == ["state"]
    assert "kind=state" in page.one("a", id="travel-back")["href"]


@pytest.mark.parametrize("htmx", [True, False])
def test_the_timeline_holds_the_event_and_goes_on_in_both_directions(
    ref: SessionRef, maria: Browser, htmx: bool
) -> None:
    fill(ref, 400)
    page = session_at(maria, ref, at="e150")
    shown = ids(page)
    assert shown == [f"e{number}" for number in range(121, 171)]
    first = page
    while earlier := page.links().get("Earlier events"):
        page = maria.open(earlier, htmx=htmx)
        shown = ids(page) + shown
    page = first
    while later := page.links().get("Later events"):
        page = maria.open(later, htmx=htmx)
        assert bool(page.all("html")) != htmx
        shown += ids(page)
    assert shown == [f"e{number}" for number in range(1, 401)]


def test_what_arrives_below_a_gap_has_a_list_of_its_own(ref: SessionRef, maria: Browser) -> None:
    fill(ref, 300)
    assert len(session_at(maria, ref, at="e10").one(id="events").all("ol", "timeline")) == 2
    assert len(session_at(maria, ref, at="e290").one(id="events").all("ol", "timeline")) == 1
    assert len(session_at(maria, ref).one(id="events").all("ol", "timeline")) == 1
    around = maria.open("events", query={"around": "e10"}, htmx=True, **ref._asdict())
    assert len(around.all("ol", "timeline")) == 2
    assert around.one("li", "selected")["id"] == "event-e10"


def test_an_event_is_found_however_far_back_it_is(ref: SessionRef, maria: Browser) -> None:
    fill(ref, 30_000)
    build.catch_up(ref.source, 60)
    page = session_at(maria, ref, at="e77")
    assert "event-e77" in {row["id"] for row in page.all("li", "selected")}
    assert rows(page.one(id="moment"))["n"] == "77 | event"


def test_steps_without_scripts_lead_to_the_page_of_the_next_event(ref: SessionRef, maria: Browser, add: Add) -> None:
    names = [add(ref, **(change(step=number) if number in (0, 3) else {})) for number in range(4)]
    page = session_at(maria, ref, at=names[1])
    for name, expected in (("step-back", 0), ("step-on", 2), ("change-back", 0), ("change-on", 3)):
        answer = maria.get(page.one("a", id=name)["href"])
        assert (answer.status_code, answer["Location"]) == (
            302,
            reverse("session", kwargs=ref._asdict()) + f"?at={names[expected]}",
        )


def test_the_panels_address_leads_to_the_page_where_there_are_no_scripts(
    ref: SessionRef, maria: Browser, add: Add
) -> None:
    event_id = add(ref)
    answer = maria.get(reverse("state-at", kwargs=ref._asdict()), {"at": event_id, "show": "event"})
    assert answer["Location"] == reverse("session", kwargs=ref._asdict()) + f"?at={event_id}&show=event"


# --- The strip --------------------------------------------------------------------------------------------------------


def bars_of(strip: Element) -> list[Element]:
    """The bars themselves, without the legend."""
    return [rect for rect in strip.one(role="slider").all("rect") if rect.classes[0] == "bar"]


def test_the_strip_has_a_bar_for_each_event_and_the_place_that_each_begins_at(
    ref: SessionRef, maria: Browser, add: Add
) -> None:
    add(ref, {"text": "x"})
    add(ref, **change(step="pay"))
    add(ref, error_code="429")
    strip = maria.open("strip", htmx=True, **ref._asdict())
    assert [bar.classes[2:] for bar in bars_of(strip)] == [[], ["state"], ["error"]]
    slider = strip.one(role="slider")
    assert slider["data-seqs"] == "1 2 3 3"
    assert (slider["aria-valuemin"], slider["aria-valuemax"]) == ("0", "2")


def test_the_strip_pales_what_a_rewind_took_back(ref: SessionRef, maria: Browser, add: Add) -> None:
    add(ref, **change(step="pay"))
    add(ref, invocation_id="r1", actions={"rewind_before_invocation_id": "i1", "state_delta": {"step": "choose"}})
    strip = maria.open("strip", htmx=True, **ref._asdict())
    assert [bar.classes[2:] for bar in bars_of(strip)] == [["state", "gone"], ["rewind"]]


def test_no_language_writes_a_number_into_the_picture(ref: SessionRef, maria: Browser, add: Add) -> None:
    add(ref, **change(step="pay"))
    add(ref)
    maria.cookies["django_language"] = "es"
    strip = maria.open("strip", htmx=True, **ref._asdict())
    assert strip.one(role="slider")["aria-label"]
    assert not [bar for bar in strip.all("rect") if "," in bar["x"] + bar["y"] + bar["width"] + bar["height"]]


def test_a_session_without_events_has_no_strip(ref: SessionRef, maria: Browser) -> None:
    assert maria.open("strip", htmx=True, **ref._asdict()).all("div") == []


# --- What goes wrong --------------------------------------------------------------------------------------------------


def test_an_event_that_is_gone_is_said_with_the_way_out(ref: SessionRef, maria: Browser, add: Add) -> None:
    add(ref)
    for page in (session_at(maria, ref, 404, at="gone"), at(maria, ref, "gone", 404)):
        assert "This event no longer exists" in page.texts("h3")
        assert page.links()["Back to now"] == reverse("session", kwargs=ref._asdict())
    assert len(ids(session_at(maria, ref, 404, at="gone"))) == 1


@pytest.mark.parametrize("query", [{"seq": "x"}, {"seq": "-1"}, {"seq": "1", "step": "x"}, {"seq": str(2**70)}])
def test_a_place_that_is_none_is_refused(ref: SessionRef, maria: Browser, add: Add, query: dict[str, str]) -> None:
    add(ref)
    assert "The event number in this link isn't valid" in session_at(maria, ref, 400, **query).one("main").text
    answer = maria.get(reverse("state-at", kwargs=ref._asdict()), query, headers={"HX-Request": "true"})
    assert answer.status_code == 400


@pytest.mark.parametrize("query", [{"place": "2", "step": "-1"}, {"place": "1", "show": "changes"}])
def test_a_link_with_the_earlier_name_of_a_number_leads_to_its_event(
    ref: SessionRef, maria: Browser, add: Add, query: dict[str, str]
) -> None:
    event_id = add(ref, {"text": "one"})
    add(ref, {"text": "two"})
    for name in ("session", "state-at"):
        answer = maria.get(reverse(name, kwargs=ref._asdict()), query, follow=True)
        assert (answer.status_code, answer.redirect_chain[0][1]) == (200, 302)
        assert parse_qs(urlsplit(answer.redirect_chain[-1][0]).query)["at"] == [event_id]
    panel = maria.get(reverse("state-at", kwargs=ref._asdict()), query, headers={"HX-Request": "true"})
    assert "place" not in parse_qs(urlsplit(panel["Location"]).query)
    assert parse_qs(urlsplit(panel["Location"]).query) == {
        "seq" if name == "place" else name: [value] for name, value in query.items()
    }


def test_time_travel_works_in_a_file_that_was_never_adopted(
    ref: SessionRef, maria: Browser, add: Add, settings: Any
) -> None:
    event_id = add(ref, {"text": "still here"}, actions={"state_delta": {"n": 1}})
    add(ref, actions={"state_delta": {"n": 2}})
    online.release(ref.source)
    registry.opened_files.pop(ref.source, None)
    settings.READ_ONLY = True
    page = session_at(maria, ref, at=event_id)
    assert page.one(class_="at").text.startswith("Event 1 of 2 ")
    assert rows(page.one(id="moment"))["n"] == "1 | event"
    assert page.all(id="strip")
    assert not page.all(id="past")


def test_while_the_source_is_being_read_each_part_says_how_far_it_is_and_asks_again(
    ref: SessionRef, maria: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(ref, 12_000)
    monkeypatch.setattr(build, "SECONDS", -1.0)  # nobody waits: a batch at a time
    panel = at(maria, ref, "e50", 202)
    waiting = panel.one("div", "behind")
    assert (waiting["hx-trigger"], waiting["hx-target"], waiting["hx-swap"]) == (
        "load delay:1s",
        "#moment",
        "innerHTML",
    )
    first = int(panel.one("progress")["value"])
    page = session_at(maria, ref, at="e50")  # a page of its own, whose panel waits
    assert 0 < first < int(page.one("div", "behind").one("progress")["value"]) < 100
    assert "event-e50" in {row["id"] for row in page.all("li", "ev")}
    build.catch_up(ref.source, 60)
    assert rows(maria.open(waiting["hx-get"], htmx=True))["n"] == "50 | event"


def test_a_page_that_waits_is_loaded_again_and_a_program_is_told_when(
    ref: SessionRef, maria: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(ref, 12_000)
    monkeypatch.setattr(build, "SECONDS", -1.0)
    address = reverse("session", kwargs=ref._asdict())
    answer = maria.get(address, {"seq": "70", "step": "-1", "writes": "1"})
    assert (answer.status_code, answer["Refresh"], answer["Retry-After"]) == (503, "1", "1")
    strip = maria.open("strip", htmx=True, status=202, **ref._asdict())
    assert strip.one("div", "behind")["hx-get"] == reverse("strip", kwargs=ref._asdict())
    build.catch_up(ref.source, 60)
    assert maria.open("strip", htmx=True, **ref._asdict()).one(role="slider")


# --- Cost -------------------------------------------------------------------------------------------------------------


def test_a_moment_of_a_long_session_costs_as_many_queries_as_of_a_short_one(
    ref: SessionRef, maria: Browser, actor: Actor
) -> None:
    counts: dict[str, list[int]] = {}
    for session, size in (("short", 150), ("long", 20_000)):
        other = create_session(*ref[:3], session_id=session, actor=actor)
        execute(ref.source, "UPDATE events SET id = 's' || id")
        fill(other, size)
        build.catch_up(ref.source, 60)
        for name in ("state-at", "strip", "session"):
            address = reverse(name, kwargs=other._asdict())
            maria.get(address, {"at": "e100"}, headers={"HX-Request": "true"})
            with CaptureQueriesContext(connections[ref.source]) as captured:
                assert maria.get(address, {"at": "e100"}, headers={"HX-Request": "true"}).status_code == 200
            counts.setdefault(name, []).append(len(captured))
    assert {name: of for name, of in counts.items() if not of[1] <= of[0] <= 40} == {}


def test_an_error_within_a_session_leads_back_to_it(ref: SessionRef, maria: Browser) -> None:
    page = maria.open("rewind", status=404, query={"before": "never"}, **ref._asdict())
    assert page.links()["Back to the session"] == reverse("session", kwargs=ref._asdict())


@pytest.mark.parametrize("part", ["news/", "state/"])
def test_a_session_that_was_deleted_while_its_page_is_open_is_not_found(
    ref: SessionRef, maria: Browser, actor: Actor, part: str
) -> None:
    address = reverse("session", kwargs=ref._asdict()) + part
    assert maria.get(address).status_code == 400
    delete_session(ref, actor=actor)
    assert maria.get(address).status_code == 404
