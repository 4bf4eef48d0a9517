"""State at any event equals a naive fold of everything that was written, in whatever order it is read."""

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import psycopg
import pytest
from hypothesis import given

from sessions_app.access.actor import SYSTEM
from sessions_app.domain.errors import AlreadyExists, Behind, Invalid, NotFound
from sessions_app.domain.json_values import equal
from sessions_app.domain.session_ref import SessionRef
from sessions_app.domain.state import ABSENT, UNKNOWN, Scoped
from sessions_app.edits.edit import Entry, edit_state
from sessions_app.history import key_history, moments
from sessions_app.history.index import build, query
from sessions_app.reads import timeline
from sessions_app.sources import database
from sessions_app.writes.append import append_event
from sessions_app.writes.copies import ImportedEvent, ImportedSession, import_session
from sessions_app.writes.sessions import create_session, delete_session
from tests.support.bulk import fill
from tests.support.fold import ALICE, KEYS, Fold, histories
from tests.support.stored import execute

pytestmark = pytest.mark.django_db(transaction=True)


def same_state(state: Scoped, wanted: Scoped) -> None:
    for scope in ("app", "user", "session"):
        assert state.scope(scope).keys() == wanted.scope(scope).keys(), scope
        for name, value in state.scope(scope).items():
            assert equal(value, wanted.scope(scope)[name]), (scope, name, value, wanted.scope(scope)[name])


def replacing(source: str) -> str:
    """A source whose file tells that deltas replace: it has a value of which merging would have kept a part."""
    ref = SessionRef(source, "evidence", "ana", "s1")
    with suppress(AlreadyExists):
        create_session(*ref[:3], session_id=ref.session_id, actor=ALICE)
        for value in ({"a": 1}, {"b": 2}):
            append_event(ref, {"author": "agent", "actions": {"state_delta": {"cfg": value}}}, actor=ALICE)
    return source


@pytest.mark.guarantee("History", "The state shown at an event always matches the events up to it.")
@given(history=histories)
def test_state_at_every_event_equals_a_naive_fold(source: str, history: list[tuple[Any, ...]]) -> None:
    fold = Fold(replacing(source))
    for what, *rest in history:
        if what == "look":
            build.catch_up(source)
        else:
            getattr(fold, what)(*rest)
    for ref, event_id, before, after in fold.seen:
        same_state(moments.state_at(ref, event_id, actor=SYSTEM).state, after)
        same_state(moments.state_at(ref, event_id, before=True, actor=SYSTEM).state, before)
    for ref in fold.session:
        same_state(moments.state_now(ref, actor=SYSTEM).state, fold.state(ref))


@given(history=histories)
def test_what_is_read_piece_by_piece_is_what_is_read_at_once(source: str, history: list[tuple[Any, ...]]) -> None:
    fold = Fold(replacing(source))
    for what, *rest in history:
        build.catch_up(source)
        if what != "look":
            getattr(fold, what)(*rest)
    pieces = [moments.state_at(ref, event_id, actor=SYSTEM) for ref, event_id, _before, _after in fold.seen]
    number = build.rebuild(source)
    assert [moments.state_at(ref, event_id, actor=SYSTEM) for ref, event_id, _before, _after in fold.seen] == pieces
    assert build.rebuild(source) == number


@given(history=histories)
def test_a_keys_history_is_every_value_that_it_had(source: str, history: list[tuple[Any, ...]]) -> None:
    fold = Fold(replacing(source))
    for what, *rest in history:
        if what != "look":
            getattr(fold, what)(*rest)
    for ref, event_id, before, after in fold.seen:
        for name in KEYS[:6]:
            writes = [w for w in key_history.history(ref, name, actor=SYSTEM).rows if w.event_id == event_id]
            for write in writes:
                assert equal_or_absent(write.change.old, before.get(name))
                assert equal_or_absent(write.change.new, after.get(name))
            if not equal_or_absent(before.get(name), after.get(name)):
                assert writes, name


def equal_or_absent(a: Any, b: Any) -> bool:
    return a is b if ABSENT in (a, b) else equal(a, b)


def test_a_keys_history_pages_by_place_and_ends_with_the_initial_value(source: str) -> None:
    ref = create_session(source, "booking", "ana", state={"n": 0, "user:tier": "basic"}, actor=ALICE)
    fill(ref, 120)
    first = key_history.history(ref, "n", actor=SYSTEM)
    assert [write.change.new for write in first.rows] == list(range(120, 70, -1))
    assert [write.change.old for write in first.rows] == list(range(119, 69, -1))
    second = key_history.history(ref, "n", first.next, actor=SYSTEM)
    third = key_history.history(ref, "n", second.next, actor=SYSTEM)
    assert third.next is None
    assert [write.change.new for write in third.rows][-3:] == [2, 1, 0]
    assert (third.rows[-1].event_id, third.rows[-1].change.old) == ("", ABSENT)
    assert third.rows[-2].change.old == 0
    (tier,) = key_history.history(ref, "user:tier", actor=SYSTEM).rows
    assert (tier.event_id, tier.change.new, tier.ref) == ("", "basic", ref)
    with pytest.raises(Invalid, match="temp"):
        key_history.history(ref, "temp:x", actor=SYSTEM)
    assert key_history.history(ref, "never", actor=SYSTEM).rows == []


def append(ref: SessionRef, delta: dict[str, Any], **more: Any) -> str:
    event = {"author": "agent", "actions": {"state_delta": delta}, **more}
    return str(append_event(ref, event, actor=ALICE).event["id"])


def test_other_sessions_writes_count_up_to_that_moment(source: str) -> None:
    one = create_session(source, "booking", "ana", state={"app:limit": 1}, actor=ALICE)
    two = create_session(source, "booking", "ana", actor=ALICE)
    first = append(one, {"user:tier": "silver"})
    append(two, {"user:tier": "gold", "app:limit": 2})
    second = append(one, {"n": 1})
    at_first, at_second = moments.state_at(one, first, actor=SYSTEM), moments.state_at(one, second, actor=SYSTEM)
    assert (at_first.state.user, at_first.state.app) == ({"tier": "silver"}, {"limit": 1})
    assert (at_second.state.user, at_second.state.app) == ({"tier": "gold"}, {"limit": 2})
    assert at_second.writers["user:tier"].ref == two
    assert at_first.initial == {"app:limit"}
    assert {c.key for c in moments.compare(at_first, at_second)} == {"user:tier", "app:limit", "n"}


def test_what_a_deleted_session_wrote_is_unknown_and_not_the_value_before(source: str) -> None:
    one = create_session(source, "booking", "ana", actor=ALICE)
    two = create_session(source, "booking", "ana", actor=ALICE)
    append(one, {"user:tier": "silver"})
    append(two, {"user:tier": "gold"})
    last = append(one, {"n": 1})
    assert moments.state_at(one, last, actor=SYSTEM).state.user == {"tier": "gold"}
    delete_session(two, actor=ALICE)
    assert moments.state_at(one, last, actor=SYSTEM).state.user == {"tier": UNKNOWN}
    build.rebuild(source)
    assert moments.state_at(one, last, actor=SYSTEM).state.user == {"tier": UNKNOWN}, (
        "the stored value is not what is left of its writes"
    )


def test_a_place_that_is_given_again_is_noticed(source: str) -> None:
    one = create_session(source, "booking", "ana", actor=ALICE)
    append(one, {"n": 1})
    for number in range(3):
        # Other keys and other seqs each time, or what is left of the time before would pass for this one's.
        own, user = f"m{number}", f"x{number}"
        two = create_session(source, "booking", "ana", session_id="again", state={own: 0}, actor=ALICE)
        ids = [append(two, {own: n, f"user:{user}": n}) for n in range(5 + number)]
        last = len(ids) - 1
        assert moments.state_at(two, ids[-1], actor=SYSTEM).state.session == {own: last}
        assert moments.state_at(two, ids[2], actor=SYSTEM).state.user[user] == 2
        assert moments.state_at(two, ids[0], before=True, actor=SYSTEM).state.session == {own: 0}
        assert [write.change.new for write in key_history.history(two, own, actor=SYSTEM).rows] == [
            *range(last, -1, -1),
            0,
        ]
        delete_session(two, actor=ALICE)


def test_a_session_adopted_late_says_what_it_cannot_know(
    form: str, new_database: Callable[[str], str], open_source: Callable[[str, str], str]
) -> None:
    source = open_source(new_database(form), form)
    ref = create_session(source, "booking", "ana", state={"n": 0, "kept": 1}, actor=ALICE)
    first = append(ref, {"other": 1})
    second = append(ref, {"n": 1})
    with database.using(source) as db, db.cursor() as cursor:
        cursor.execute("UPDATE sessions SET initial_state = NULL, initial_place = NULL")
    moment = moments.state_at(ref, first, actor=SYSTEM)
    assert moment.unrecorded
    assert moment.state.session == {"n": UNKNOWN, "kept": 1, "other": 1}
    assert moments.state_at(ref, second, actor=SYSTEM).state.session == {"n": 1, "kept": 1, "other": 1}
    (write,) = key_history.history(ref, "n", actor=SYSTEM).rows
    assert write.change.old is UNKNOWN


def test_before_an_edit_a_shared_key_had_the_value_that_the_edit_notes_whatever_was_written_last(source: str) -> None:
    ref = create_session(source, "booking", "ana", actor=ALICE)
    append_event(ref, {"author": "agent", "actions": {"state_delta": {"user:tier": "silver"}}}, actor=ALICE)
    execute(source, "UPDATE user_states SET state = %s", ['{"tier": "put there"}'])  # past every event
    edit_state(ref, [Entry("user:tier", "gold", "put there")], actor=ALICE)
    rows = key_history.history(ref, "user:tier", actor=SYSTEM).rows
    assert [(row.change.old, row.change.new) for row in rows] == [("put there", "gold"), (ABSENT, "silver")]


def test_an_edits_note_tells_the_value_before_it(source: str) -> None:
    ref = create_session(source, "booking", "ana", actor=ALICE)
    with database.using(source) as db, db.cursor() as cursor:
        cursor.execute("UPDATE sessions SET initial_place = NULL")
    first = append(ref, {"n": 1})
    edit_state(ref, [Entry("user:tier", "gold", ABSENT)], actor=ALICE)
    assert moments.state_at(ref, first, actor=SYSTEM).state.user == {}, "nothing stood there when it was edited"
    (write,) = key_history.history(ref, "user:tier", actor=SYSTEM).rows
    assert (write.change.old, write.change.new, write.actor) == (ABSENT, "gold", "alice")


def test_an_event_that_is_gone(source: str) -> None:
    ref = create_session(source, "booking", "ana", actor=ALICE)
    with pytest.raises(NotFound, match="event"):
        moments.state_at(ref, "gone", actor=SYSTEM)
    with pytest.raises(NotFound):
        moments.state_at_seq(ref, 7, actor=SYSTEM)
    event_id = append(ref, {"n": 1})
    seq = timeline.event(ref, event_id, actor=SYSTEM).seq
    assert seq is not None
    assert moments.state_at_seq(ref, seq + 100, actor=SYSTEM).event == timeline.event(ref, event_id, actor=SYSTEM)


def test_what_takes_long_says_how_far_it_is_and_goes_on(source: str) -> None:
    ref = create_session(source, "booking", "ana", actor=ALICE)
    fill(ref, 12_000)
    with pytest.raises(Behind) as behind:
        build.catch_up(source, seconds=0)
    assert 0 < behind.value.detail["share"] < 1
    rounds = 1
    while True:
        try:
            build.catch_up(source, seconds=0)
            break
        except Behind:
            rounds += 1
    assert rounds > 10, "each time it goes on from where it was"
    assert moments.state_at(ref, "e9000", actor=SYSTEM).state.session == {"n": 9000}
    assert len(query.highlights(ref, ["state"], after=0, limit=20_000)) == 12_000


def test_an_event_that_becomes_visible_late_is_not_passed_over(
    new_database: Callable[[str], str], open_source: Callable[[str, str], str]
) -> None:
    url = new_database("postgresql")
    source = open_source(url, "")
    ref = create_session(source, "booking", "ana", actor=ALICE)
    other = create_session(source, "booking", "ben", actor=ALICE)
    append(ref, {"app:n": 0})
    with psycopg.connect(url) as connection:  # takes a number, and commits later
        connection.execute(
            """INSERT INTO events (app_name, user_id, session_id, id, invocation_id, timestamp, event_data)
            VALUES (%s, %s, %s, 'late', 'i', now()::timestamp, '{"author": "x", "actions": {"state_delta": {"k": 1}}}')""",
            other[1:],
        )
        connection.execute("UPDATE sessions SET state = '{\"k\": 1}' WHERE id = %s", [other.session_id])
        last = append(ref, {"app:n": 1})
        assert moments.state_at(ref, last, actor=SYSTEM).state.app == {"n": 1}
    assert moments.state_at(other, "late", actor=SYSTEM).state.session == {"k": 1}


def test_many_keys_are_found_by_the_index(source: str) -> None:
    ref = create_session(source, "booking", "ana", actor=ALICE)
    for start in range(0, 1000, 100):
        event_id = append(ref, {f"k{number:04}": number for number in range(start, start + 100)})
    assert len(moments.state_at(ref, event_id, actor=SYSTEM).state.session) == 1000


# --- What a review found ----------------------------------------------------------------------------------------------


def test_a_place_that_two_sessions_had_tells_nobody_anothers_value(source: str) -> None:
    main = create_session(source, "a", "ana", session_id="main", actor=ALICE)
    gone = create_session(source, "a", "ana", state={"user:tier": "basic"}, actor=ALICE)
    assert moments.state_now(main, actor=SYSTEM).state.user == {"tier": "basic"}
    delete_session(gone, actor=ALICE)
    theirs = create_session(source, "b", "ben", state={"user:tier": "secret"}, actor=ALICE)
    event_id = append(main, {"n": 1})
    assert moments.state_at(main, event_id, actor=SYSTEM).state.user == {"tier": UNKNOWN}
    assert key_history.history(main, "user:tier", actor=SYSTEM).rows == []
    assert moments.state_now(theirs, actor=SYSTEM).initial == {"user:tier"}


def test_what_a_deleted_session_began_with_is_unknown_also_to_who_looks_later(source: str) -> None:
    gone = create_session(source, "a", "ana", state={"app:limit": 1}, actor=ALICE)
    other = create_session(source, "a", "ben", actor=ALICE)
    first = append(other, {"n": 1})
    delete_session(gone, actor=ALICE)
    append(other, {"app:limit": 2})
    assert moments.state_at(other, first, actor=SYSTEM).state.app == {"limit": UNKNOWN}
    assert key_history.history(other, "app:limit", actor=SYSTEM).rows[0].change.old is UNKNOWN


def test_a_deleted_event_makes_its_keys_unknown_and_not_what_they_were_before(source: str) -> None:
    ref = create_session(source, "a", "ana", state={"name": "?"}, actor=ALICE)
    written = append(ref, {"name": "Ana", "n": 1})
    second, third = append(ref, {"n": 2}), append(ref, {"n": 3})
    for look_first in (True, False):
        if look_first:
            moments.state_now(ref, actor=SYSTEM)
        with database.using(source) as db, db.cursor() as cursor:
            cursor.execute("DELETE FROM events WHERE id = %s", [written])
        if not look_first:
            build.rebuild(source)
        assert moments.state_at(ref, third, actor=SYSTEM).state.session == {"name": UNKNOWN, "n": 3}
        assert moments.state_at(ref, second, actor=SYSTEM).state.session == {"name": UNKNOWN, "n": 2}
    history = key_history.history(ref, "n", actor=SYSTEM).rows
    assert next((w.change.old, w.change.new) for w in history) == (2, 3)


def test_a_deleted_event_between_two_writes_is_a_gap_in_the_history(source: str) -> None:
    ref = create_session(source, "a", "ana", state={"n": 0}, actor=ALICE)
    append(ref, {"n": 1})
    middle = append(ref, {"n": 2})
    append(ref, {"n": 3})
    moments.state_now(ref, actor=SYSTEM)
    with database.using(source) as db, db.cursor() as cursor:
        cursor.execute("DELETE FROM events WHERE id = %s", [middle])
    rows = key_history.history(ref, "n", actor=SYSTEM).rows
    assert [(w.change.old, w.change.new) for w in rows] == [(UNKNOWN, 3), (0, 1), (ABSENT, 0)]


def test_rowids_that_are_given_again_leave_sessions_where_they_were_made(source: str) -> None:
    gone = create_session(source, "a", "x", actor=ALICE)
    for number in range(10):
        append(gone, {"n": number})
    made = create_session(source, "a", "ana", session_id="made", state={"user:t": "basic"}, actor=ALICE)
    other = create_session(source, "a", "ana", session_id="other", actor=ALICE)
    delete_session(gone, actor=ALICE)
    gold = append(other, {"user:t": "gold"})
    later = [append(other, {"n": number}) for number in range(12)]
    append(made, {"user:t": "platinum"})
    assert {str(moments.state_at(other, each, actor=SYSTEM).state.user) for each in [gold, *later]} == {"{'t': 'gold'}"}
    rows = key_history.history(other, "user:t", actor=SYSTEM).rows
    assert [w.change.new for w in rows] == ["platinum", "gold", "basic"]


def test_what_was_imported_is_in_no_order_with_what_others_wrote(source: str) -> None:
    here = create_session(source, "a", "ana", actor=ALICE)
    first = append(here, {"user:tier": "gold"})
    there = SessionRef(source, "a", "ana", "imported")
    session = ImportedSession(there, 1.0, 2.0, '{"n": 1}', "{}")
    text = '{"author": "x", "actions": {"state_delta": {"n": 1, "user:tier": "silver"}}}'
    event = ImportedEvent("i1", "e-1", 2.0, text)
    import_session(session, [event], actor=ALICE, after=None, last=True)
    second = append(here, {"n": 1})
    last = append(there, {"user:tier": "platinum"})
    assert moments.state_at(here, first, actor=SYSTEM).state.user == {"tier": "gold"}
    assert moments.state_at(here, second, actor=SYSTEM).state.user == {"tier": UNKNOWN}
    assert moments.state_at(there, "i1", actor=SYSTEM).state.session == {"n": 1}
    assert moments.state_at(there, last, actor=SYSTEM).state.user == {"tier": "platinum"}
    assert [w.change.new for w in key_history.history(here, "user:tier", actor=SYSTEM).rows] == [
        "platinum",
        "silver",
        "gold",
    ]


def test_a_page_of_history_of_which_every_event_is_gone_leads_on(source: str) -> None:
    here = create_session(source, "a", "ana", actor=ALICE)
    append(here, {"user:n": "kept"})
    gone = create_session(source, "a", "ana", actor=ALICE)
    for number in range(60):
        append(gone, {"user:n": number})
    moments.state_now(here, actor=SYSTEM)
    append(here, {"n": 1})
    delete_session(gone, actor=ALICE)
    assert [w.change.new for w in key_history.history(here, "user:n", actor=SYSTEM).rows] == ["kept"]


@pytest.mark.parametrize("form", ["sqlite", "sqlite-database"])
def test_keys_that_sqlites_own_functions_spoil(source: str) -> None:
    ref = create_session(source, "a", "ana", actor=ALICE)
    append(ref, {"plain": 0})
    with database.using(source) as db, db.cursor() as cursor:
        cursor.execute(
            "UPDATE events SET event_data = %s",
            ['{"author": "x", "actions": {"state_delta": {"a\\u0000b": 1, "\\ud83d": 2, "\\ud83d\\ude00": 3}}}'],
        )
        cursor.execute("UPDATE sessions SET state = %s", ['{"a\\u0000b": 1, "\\ud83d": 2, "\\ud83d\\ude00": 3}'])
    assert moments.state_now(ref, actor=SYSTEM).writers.keys() == {"a\0b", "\ud83d", "😀"}


@pytest.mark.parametrize("form", ["sqlite"])
def test_names_of_any_length(source: str) -> None:
    with database.using(source) as db, db.cursor() as cursor:
        for user in ("u" * 3000, "ключ" * 400):
            cursor.execute("INSERT INTO sessions VALUES ('a', %s, 's', '{\"n\": 1}', 1, 1, '{}', NULL)", [user])
            cursor.execute(
                "INSERT INTO events (id, app_name, user_id, session_id, invocation_id, timestamp, event_data) VALUES "
                "('e', 'a', %s, 's', 'i', 1, '{\"author\": \"x\", \"actions\": {\"state_delta\": {\"n\": 1}}}')",
                [user],
            )
    for user in ("u" * 3000, "ключ" * 400):
        assert moments.state_at(SessionRef(source, "a", user, "s"), "e", actor=SYSTEM).state.session == {"n": 1}


def test_a_transaction_of_many_events_that_becomes_visible_late(
    new_database: Callable[[str], str], open_source: Callable[[str, str], str]
) -> None:
    url = new_database("postgresql")
    source = open_source(url, "")
    ref = create_session(source, "booking", "ana", actor=ALICE)
    other = create_session(source, "booking", "ben", actor=ALICE)
    with psycopg.connect(url) as connection:
        connection.execute(
            """INSERT INTO events (app_name, user_id, session_id, id, invocation_id, timestamp, event_data)
            SELECT %s, %s, %s, 'x' || n, 'i', now()::timestamp,
                jsonb_build_object('author', 'x', 'actions', jsonb_build_object('state_delta', jsonb_build_object('k', n)))
            FROM generate_series(1, 1500) AS n""",
            other[1:],
        )
        connection.execute("UPDATE sessions SET state = '{\"k\": 1500}' WHERE id = %s", [other.session_id])
        for number in range(5):
            last = append(ref, {"n": number})
        assert moments.state_at(ref, last, actor=SYSTEM).state.session == {"n": 4}
    for number in (1, 60, 1500):
        assert moments.state_at(other, f"x{number}", actor=SYSTEM).state.session == {"k": number}
    assert len(key_history.history(other, "k", limit=2000, actor=SYSTEM).rows) == 1500


def test_a_session_under_an_id_that_was_used_before_begins_anew(source: str) -> None:
    for step in ("old", "new"):
        ref = create_session(source, "a", "ana", session_id="again", state={"step": step}, actor=ALICE)
        if step == "old":
            append(ref, {"step": "older", "other": 1})
            moments.state_now(ref, actor=SYSTEM)
            append(create_session(source, "a", "ben", actor=ALICE), {"n": 1})
            delete_session(ref, actor=ALICE)
    append(create_session(source, "a", "ben", actor=ALICE), {"n": 2})
    first = append(ref, {"n": 1})
    assert moments.state_at(ref, first, before=True, actor=SYSTEM).state.session == {"step": "new"}
    assert [write.change.new for write in key_history.history(ref, "step", actor=SYSTEM).rows] == ["new"]
    assert key_history.history(ref, "other", actor=SYSTEM).rows == []


def test_two_imported_writes_of_a_shared_key_are_in_no_order(source: str) -> None:
    for number in (1, 2):
        there = SessionRef(source, "a", "ana", f"imported{number}")
        session = ImportedSession(there, 1.0, 2.0, "{}", "{}")
        text = json.dumps({"author": "x", "actions": {"state_delta": {"user:tier": number}}})
        event = ImportedEvent(f"i{number}", "e-1", 2.0, text)
        import_session(session, [event], actor=ALICE, after=None, last=True)
    assert [w.change.old for w in key_history.history(there, "user:tier", actor=SYSTEM).rows] == [UNKNOWN, UNKNOWN]


def test_another_users_deleted_session_leaves_a_users_key_known(source: str) -> None:
    mine = create_session(source, "a", "ana", actor=ALICE)
    theirs = create_session(source, "a", "ben", actor=ALICE)
    append(theirs, {"user:tier": "gold"})
    event_id = append(mine, {"user:tier": "silver"})
    delete_session(theirs, actor=ALICE)
    assert moments.state_at(mine, event_id, before=True, actor=SYSTEM).state.user == {}
