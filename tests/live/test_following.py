"""Whoever writes, and however: each event reaches each page once, in order, and the parts beside it are as they are now."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from sessions_app.domain.session_ref import SessionRef
from sessions_app.web.session.updates import BATCH, CATCH_UP
from sessions_app.writes.sessions import create_session, delete_session
from tests.adk.services import key_of
from tests.live.conftest import WRITER, Stage
from tests.live.pages import browser, ids_in, ids_of, page_path, post, sign_in
from tests.support.at_work import until
from tests.support.bulk import fill
from tests.support.stored import execute

# --- Writers ----------------------------------------------------------------------------------------------------------


@pytest.mark.guarantee(
    "Live pages",
    "An open page shows every event exactly once and in order, no matter who writes it, even if PostgreSQL commits it late.",
)
def test_what_google_adk_appends_in_another_process_arrives_once_and_in_order(stage: Stage, form: str) -> None:
    adk = stage.adk(form)
    try:
        session = adk.create(f"adk-{form}", user=f"adk-{form}")
        ref = key_of(stage.aliases[form], session.id, session.user_id)
        early = stage.page(ref)
        ids = [adk.append(session, f"message {number}", count=number).id for number in range(20)]
        late = stage.page(ref)
        ids += [adk.append(session, f"message {number}", count=number).id for number in range(20, 25)]
        for page in (early, late):
            assert page.until_all().seen == ids
            page.until(lambda page: ">24<" in page.parts.get("state", ""), "the newest state")
    finally:
        adk.close()


def test_what_pages_of_adkweb_write_arrives(stage: Stage, form: str) -> None:
    ref = stage.new_session(form, events=1, city="Rome")
    page = stage.page(ref).until_all()
    with browser(stage.server, stage.me) as client:
        answer = post(client, page_path(ref, "add"), event='{"author": "user"}', reason="by hand")
        assert answer.status_code == 302, answer.text
    assert len(page.until_all().seen) == 2
    assert "by hand" in "".join(message.get("events", "") for message in page.messages)


def test_a_value_that_a_program_writes_into_the_table_itself_arrives_marked(stage: Stage, form: str) -> None:
    ref = stage.new_session(form, events=1, price=412)
    page = stage.page(ref).until_all()
    execute(ref.source, "UPDATE sessions SET state = %s WHERE id = %s", ['{"price": 999}', ref.session_id])
    page.until(lambda page: "according to its events" in page.parts.get("state", ""), "the mark")
    assert ">999<" in page.parts["state"], page.parts["state"]
    assert ">412<" in page.parts["state"]


def test_a_page_begins_where_it_says_and_misses_nothing_wherever_that_is(stage: Stage, form: str) -> None:
    ref = stage.new_session(form, events=6)
    ids, page = ids_of(ref), stage.page(ref)
    places = [0]
    while len(page.seen) < 6:
        page.read(1)
    first, *_ = [message["seq"] for message in page.messages if "seq" in message]
    assert first == page.place
    newest = int(page.place or 0)
    places = range(max(0, newest - 6), newest + 1)
    pages = {place: stage.page(ref, after=place) for place in places}
    last = stage.append(ref)
    got = {place: found.until_event(last).seen for place, found in pages.items()}
    assert all(seen == [*ids, last][-len(seen) :] for seen in got.values())
    assert len(got[places[0]]) >= 2
    assert got[newest] == [last]
    assert all(0 <= len(a) - len(b) <= 1 for a, b in pairwise(got.values()))


def test_a_page_that_was_away_again_and_again_has_everything_once(stage: Stage, form: str) -> None:
    ref = stage.new_session(form)
    page = stage.page(ref)
    for number in range(12):
        page.close()
        for more in range(number % 4 + 1):
            stage.append(ref, f"while away {number}.{more}")
        page.open()
        if number % 3:
            page.until_all()
            stage.append(ref, f"while there {number}")
    page.until_all()
    assert page.resets == 0


@pytest.mark.parametrize("form", ["sqlite", "postgresql"])
def test_who_missed_no_more_than_the_limit_catches_up_and_who_missed_more_loads_anew(stage: Stage, form: str) -> None:
    ref = stage.new_session(form)
    fill(ref, CATCH_UP)
    limit = stage.page(ref).until_all()
    assert limit.resets == 0
    stage.append(ref)
    beyond = stage.page(ref).until(lambda page: page.resets, "a reset")
    last = stage.append(ref)
    assert limit.until_all().seen[-1] == last
    beyond.until_event(last)
    assert beyond.seen == ids_of(ref)[-len(beyond.seen) :]
    assert len(beyond.seen) > 2
    assert beyond.resets == 1


@pytest.mark.parametrize("form", ["sqlite", "postgresql"])
def test_a_burst_arrives_whole_in_order_and_in_several_messages(stage: Stage, form: str) -> None:
    """From a writer that touches nothing but the events' table."""
    ref = stage.new_session(form)
    page = stage.page(ref, after=0)
    page.until(lambda page: "status" in page.parts, "the first message")
    fill(ref, 3_000)
    assert len(page.until_all(seconds=60).seen) == 3_000
    sizes = [len(ids_in(message["events"])) for message in page.messages if "events" in message]
    assert max(sizes) == BATCH
    assert len(sizes) >= 3_000 // BATCH
    assert page.resets == 0


def test_two_writers_at_once_are_shown_in_the_order_in_which_they_are_stored(stage: Stage, form: str) -> None:
    ref = stage.new_session(form)
    pages = [stage.page(ref) for _ in range(3)]
    adk = stage.adk(form)
    try:
        with browser(stage.server, stage.me) as client:
            for number in range(8):
                session = adk.get(ref.session_id, ref.user_id)
                adk.append(session, f"agent {number}")
                answer = post(client, page_path(ref, "add"), event=f'{{"author": "user", "id": "page-{number}"}}')
                assert answer.status_code == 302, answer.text
                stage.append(ref, f"third {number}")
    finally:
        adk.close()
    for page in pages:
        assert len(page.until_all().seen) == 24


def test_a_second_page_of_the_same_browser_is_served_at_once_too(stage: Stage) -> None:
    """Not only when something moves, or is looked at by the way: that is every two seconds."""
    ref = stage.new_session(events=1)
    stage.page(ref).until_all()
    waits = []
    for _ in range(5):
        page = stage.page(ref)
        before = _now()
        page.until_all()
        waits.append(_now() - before)
    assert min(waits) < 1.0, waits


def _now() -> float:
    import time

    return time.monotonic()


# --- Filters and languages --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["sqlite", "postgresql"])
def test_a_filtered_page_gets_what_passes_its_filter_and_nothing_else(stage: Stage, form: str) -> None:
    ref = stage.new_session(form)
    error = {"error_code": "500", "error_message": "no seats"}
    for number in range(3):
        stage.append(ref, author="user", invocation_id=f"i{number}")
        stage.append(ref, author="booking", invocation_id=f"i{number}", **(error if number % 2 else {}))
    whole, users, errors = stage.page(ref), stage.page(ref, author="user"), stage.page(ref, kind="errors")
    for number in range(3, 6):
        stage.append(ref, author="user", invocation_id=f"i{number}")
        stage.append(ref, author="booking", invocation_id=f"i{number}", **(error if number % 2 else {}))
    assert len(whole.until_all().seen) == 12
    assert len(users.until_all(author="user").seen) == 6
    assert len(errors.until_all(kind="errors").seen) == 3
    # A place moves on although nothing was shown: who comes back is not given the session's whole past.
    errors.close()
    stage.append(ref)
    errors.open()
    errors.until(lambda page: page.place == whole.until_all().place, "the newest place")
    assert errors.resets == 0
    last = stage.append(ref, **error)
    errors.until_event(last)
    assert len(errors.seen) == 4


def test_each_page_is_told_in_its_own_language(stage: Stage) -> None:
    ref = stage.new_session(city="Rome")
    pages = {language: stage.page(ref, language=language) for language in ("en", "es", "ko")}
    last = stage.append(ref)
    words = set()
    for page in pages.values():
        page.until_event(last)
        page.until(lambda page: page.parts.get("status"), "the status")
        words.add(page.parts["status"].partition("<time")[0].strip())
    assert len(words) == 3, words


@pytest.mark.parametrize("language", ["en", "es"])
def test_who_comes_back_in_a_language_of_their_own_sees_the_state_as_it_is_now(stage: Stage, language: str) -> None:
    ref = stage.new_session(city="Rome")
    other = stage.page(ref, language="en")
    page = stage.page(ref, language=language)
    for both in (page, other):
        both.until(lambda page: "Rome" in page.parts.get("state", ""), "the state as it began")
    page.close()
    stage.append(ref, actions={"state_delta": {"city": "Paris"}})
    other.until(lambda page: "Paris" in page.parts["state"], "the state as it is now")
    page.parts.clear()
    page.open()
    page.until(lambda page: "Paris" in page.parts.get("state", ""), "the state as it is now", seconds=8)


def test_a_second_reader_in_another_language_is_given_the_state_too(stage: Stage) -> None:
    ref = stage.new_session(city="Rome")
    stage.page(ref).until(lambda page: "Rome" in page.parts.get("state", ""), "the state")
    page = stage.page(ref, language="es")
    page.until(lambda page: "Rome" in page.parts.get("state", ""), "the state", seconds=8)


# --- What stands beside the events ------------------------------------------------------------------------------------


@pytest.mark.parametrize("scope", ["user", "app"])
def test_state_that_another_session_wrote_for_the_user_or_the_app_is_shown(stage: Stage, form: str, scope: str) -> None:
    ref = stage.new_session(form, events=1)
    other = create_session(ref.source, ref.app_name, ref.user_id, session_id="other", actor=WRITER)
    page = stage.page(ref).until_all()
    page.until(lambda page: "state" in page.parts, "the state")
    name = f"tier{ref.session_id}"
    assert name not in page.parts["state"]
    stage.append(other, actions={"state_delta": {f"{scope}:{name}": "gold"}})
    page.until(lambda page: name in page.parts["state"] and "gold" in page.parts["state"], "the other's state")
    assert len(page.seen) == 1


def test_an_event_in_an_invocation_that_is_shown_says_its_heading_again(stage: Stage, form: str) -> None:
    ref = stage.new_session(form)
    page = stage.page(ref)
    first = stage.append(ref, invocation_id="i1")
    page.until_event(first)
    for text in ("2 events", "3 events"):
        page.until_event(stage.append(ref, invocation_id="i1"))
        html = page.messages[-1]["events"]
        assert f'<li class="inv" id="inv-{first}" data-again>' in html
        assert text in html
    page.until_event(stage.append(ref, invocation_id="i2"))
    assert "data-again" not in page.messages[-1]["events"]
    # Who comes later is told the same, although nobody remembers for them.
    late = stage.page(ref, after=page.place)
    late.until(lambda found: "state" in found.parts, "the first message")
    assert late.seen == []
    for found in (page, late):
        found.seen = []
    last = stage.append(ref, invocation_id="i2")
    for found in (page, late):
        found.until_event(last)
        assert "data-again" in _message_with(found, last)
        assert "2 events" in _message_with(found, last)


def _message_with(page: Any, event_id: str) -> str:
    (found,) = [message["events"] for message in page.messages if f"event-{event_id}" in message.get("events", "")]
    return str(found)


def test_the_status_says_that_an_invocation_runs_and_ended_and_failed(stage: Stage, form: str) -> None:
    ref = stage.new_session(form)
    page = stage.page(ref)
    page.until(lambda page: "status" in page.parts, "the status")
    for number in range(2):
        stage.append(ref, author="user", invocation_id=f"i{number}")
        page.until(lambda page: "data-running" in page.parts["status"], "that it runs")
        stage.append(ref, author="booking", invocation_id=f"i{number}")
        page.until(lambda page: "data-running" not in page.parts["status"], "that it ended")
    stage.append(ref, author="booking", invocation_id="i1", error_code="429")
    page.until(lambda page: "status failed" in page.parts["status"], "that it failed")


def test_the_numbers_of_a_session_follow(stage: Stage) -> None:
    ref = stage.new_session(events=1)
    page = stage.page(ref).until_all()
    page.until(lambda page: page.parts.get("stats"), "the numbers")
    before = page.parts["stats"]
    for _ in range(20):
        stage.append(ref)
    page.until(lambda page: page.parts["stats"] != before and "21" in page.parts["stats"], "the new numbers")


def test_everybody_sees_who_else_watches_and_that_they_went(stage: Stage, form: str) -> None:
    ref = stage.new_session(form, events=1)
    joe = sign_in(stage.server, "joe")
    page = stage.page(ref)
    page.until(lambda page: page.parts.get("watching") == "maria", "only me")
    second, third = stage.page(ref, joe), stage.page(ref, joe)
    for both in (page, second, third):
        both.until(lambda page: page.parts.get("watching") == "joe\nmaria", "two browsers, three pages")
    third.close()
    second.close()
    page.until(lambda page: page.parts["watching"] == "maria", "only me again")


def test_names_and_texts_of_strangers_are_escaped_in_what_is_pushed(stage: Stage, form: str) -> None:
    attack = "<script>alert(1)</script>"
    ref = stage.new_session(form, **{attack: attack})
    page = stage.page(ref, sign_in(stage.server, attack))
    last = stage.append(ref, attack, author=attack, id=f"e-{attack}", invocation_id=attack)
    assert last
    page.until(lambda page: any("events" in m for m in page.messages) and page.parts.get("stats"), "everything")
    html = "".join(m.get("events", "") + m.get("state", "") + m.get("stats", "") for m in page.messages)
    assert "&lt;script&gt;" in html
    assert "<script" not in html


# --- Home -------------------------------------------------------------------------------------------------------------


def test_home_shows_the_newest_event_of_any_source_and_what_runs(stage: Stage, form: str) -> None:
    ref, page = stage.new_session(form), stage.feed()
    page.until(lambda page: "feed" in page.parts and "running" in page.parts, "home as it was")
    first = stage.append(ref, author="user", invocation_id="i1")
    page.until(lambda page: f'#event-{first}"' in page.parts["feed"], "the event")
    page.until(lambda page: f"running {ref.session_id}" in page.parts["running"], "that it runs")
    last = stage.append(ref, author="booking", invocation_id="i1")
    page.until(lambda page: f'#event-{last}"' in page.parts["feed"], "the event")
    page.until(lambda page: f"running {ref.session_id}" not in page.parts["running"], "that it ended")
    assert f'data-feed="{first}"' in page.parts["feed"], "both are one turn"


def test_home_is_told_in_each_readers_language(stage: Stage) -> None:
    pages = [stage.feed(language=language) for language in ("en", "es", "ko")]
    for page in pages:
        page.until(lambda page: "feed" in page.parts, "home")
    assert len({page.parts["feed"].partition("</h2>")[0] for page in pages}) == 3


# --- Databases that are made anew -------------------------------------------------------------------------------------


def test_a_session_that_is_deleted_and_created_again_is_loaded_anew_or_gone(stage: Stage, form: str) -> None:
    """Its numbers begin anew on SQLite: a page that went on from its old place would show nothing more, for ever."""
    ref = stage.new_session(form, events=5)
    page = stage.page(ref).until_all()
    delete_session(ref, actor=WRITER)
    create_session(*ref[:3], session_id=ref.session_id, actor=WRITER)
    only = stage.append(ref, "in the new one")
    page.until(lambda page: page.end or only in page.seen, "the end, or the new session's event", seconds=8)
    if page.end:
        assert page.end == (4404, "no such session")
    else:
        page.until_all()


def test_a_source_whose_file_is_made_anew_goes_on(stage: Stage) -> None:
    """Developers delete an agent's database to begin again, with the page open."""
    from pathlib import Path

    from django.db import connections

    from sessions_app.sources import database

    place = Path(stage.places["sqlite"])
    ref = stage.new_session(events=5)
    page = stage.page(ref).until_all()
    connections[ref.source].close()
    for file in place.parent.glob(f"{place.name}*"):
        file.unlink()
    place.touch()
    database.get(ref.source)
    create_session(*ref[:3], session_id=ref.session_id, actor=WRITER)
    only = stage.append(ref, "in the new file")
    page.until(lambda page: page.end or only in page.seen, "the end, or the new file's event", seconds=10)
    if page.end is None:
        page.until_all()


def test_a_page_of_a_session_without_events_gets_the_first(stage: Stage, form: str) -> None:
    ref: SessionRef = stage.new_session(form)
    page = stage.page(ref)
    page.until(lambda page: "status" in page.parts, "the first message")
    stage.append(ref)
    page.until_all()
    assert until(lambda: page.resets == 0, "no reset", 1)
