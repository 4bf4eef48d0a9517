"""What an import does to what is there: nothing twice, nothing mixed, and it goes on where it stopped."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.db import connections

from sessions_app.access.actor import SYSTEM
from sessions_app.domain.errors import Conflict, NotAllowed
from sessions_app.domain.session_ref import SessionRef
from sessions_app.domain.state import ABSENT
from sessions_app.reads import timeline, views
from sessions_app.transfer import exporting, import_job
from sessions_app.transfer.items import Fault
from sessions_app.writes.append import append_event
from sessions_app.writes.copies import ImportedEvent, ImportedSession, import_session
from sessions_app.writes.incomplete import IMPORTING
from sessions_app.writes.sessions import create_session, delete_session
from tests.support.stored import counts, everything, execute
from tests.transfer.conftest import Make
from tests.transfer.files import ANA, drifted, event_line, exported, file_of, imported, session_line

COUNT = 9


@pytest.fixture
def file(monkeypatch: pytest.MonkeyPatch) -> bytes:
    """A session of several batches, one of none, one of exactly one."""
    monkeypatch.setattr(import_job, "BATCH", 2)
    return file_of(
        {"type": "app", "app": "app", "state": {"plan": "x"}, "updated": 3.0},
        {"type": "user", "app": "app", "user": "u", "state": {"lang": "ko"}, "updated": 3.25},
        session_line("a", COUNT, state={"n": [1]}, initial_state={"n": 0}),
        *(event_line(f"e{COUNT - n}") for n in range(COUNT)),
        session_line("b"),
        session_line("c", 2),
        event_line("e1"),
        event_line("e2"),
    )


def cut_off(monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    """Lets the n-th write of sessions die before it happens."""
    real, calls = import_session, 0

    def dying(*args: Any, **options: Any) -> None:
        nonlocal calls
        calls += 1
        if calls > at:
            raise KeyboardInterrupt
        real(*args, **options)

    monkeypatch.setattr(import_job, "import_session", dying)


@pytest.mark.guarantee("Databases and files", "Importing the same file a second time changes nothing.")
def test_importing_twice_changes_nothing(source: str, file: bytes) -> None:
    first = imported(source, file)
    assert (first.new, first.events, first.states_made) == (3, COUNT + 2, 2)
    before = everything(source)
    again = imported(source, file)
    assert (again.new, again.resumed, again.events, again.states_made, again.same) == (0, 0, 0, 0, 3)
    assert (again.skipped, again.differing) == ([], [])
    assert imported(source, file, state=True).same == 3
    assert everything(source) == before


@pytest.mark.guarantee("Databases and files", "An interrupted import resumes where it left off.")
@pytest.mark.parametrize("at", range(7))
def test_an_import_cut_off_before_any_batch_goes_on_there(
    source: str, make: Make, file: bytes, at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as dying:
        cut_off(dying, at)
        with pytest.raises(KeyboardInterrupt):
            imported(source, file)
    written = counts(source)["events"]
    ref = SessionRef(source, "app", "u", "a")
    if 0 < at < 5:
        # Who looks meanwhile sees the events so far and a state that says why there are no more.
        assert views.session(ref, actor=SYSTEM).state.session == IMPORTING
        assert len(timeline.events(ref, actor=SYSTEM).rows) == written == at * 2
        assert imported(source, file, preview=True).resumed == 1
    report = imported(source, file)
    assert report.resumed == (0 < at < 5)
    assert report.events == COUNT + 2 - written
    whole = make("sqlite")
    imported(whole, file)
    assert exported(source) == exported(whole)
    assert imported(source, file).same == 3


def test_a_session_whose_last_batch_alone_is_missing_is_finished(source: str, file: bytes) -> None:
    imported(source, file)
    drifted(SessionRef(source, "app", "u", "a"), json.dumps(IMPORTING))
    report = imported(source, file)
    assert (report.resumed, report.events, report.same) == (1, 0, 2)
    assert views.session(SessionRef(source, "app", "u", "a"), actor=SYSTEM).state.session == {"n": [1]}


def test_a_session_that_exists_otherwise_is_skipped_and_reported(source: str, file: bytes) -> None:
    imported(source, file)
    original = everything(source)
    changes = {
        "other events: 10": lambda ref: append_event(ref, {"id": "more"}, actor=ANA),
        "another state": lambda key: drifted(key, "{}"),
        "other times": lambda key: execute(source, "UPDATE sessions SET update_time = create_time WHERE id = 'a'"),
        "initial state": lambda key: execute(source, "UPDATE sessions SET initial_state = '{}' WHERE id = 'a'"),
        "with other events": lambda key: execute(
            source, "UPDATE events SET event_data = '{\"timestamp\": 2.5}' WHERE id = 'e5'"
        ),
        "half-imported, with other": lambda key: (
            drifted(key, json.dumps(IMPORTING)),
            execute(source, "UPDATE events SET invocation_id = 'x' WHERE id = 'e1' AND session_id = 'a'"),
        ),
        "partly imported, and someone": lambda key: drifted(key, json.dumps({**IMPORTING, "z": 1})),
        "half-imported, with more": lambda ref: (
            append_event(ref, {"id": "more"}, actor=ANA),
            drifted(ref, json.dumps(IMPORTING)),
        ),
    }
    ref = SessionRef(source, "app", "u", "a")
    for why, change in changes.items():
        change(ref)
        before = everything(source)
        report = imported(source, file)
        assert [(left.ref, why in left.why) for left in report.skipped] == [(ref, True)], report.skipped
        assert (report.same, report.skipped_count, everything(source)) == (2, 1, before)
        delete_session(ref, actor=ANA)
        assert imported(source, file).new == 1
        assert {t: len(r) for t, r in everything(source).items()} == {t: len(r) for t, r in original.items()}


@pytest.mark.parametrize("preview", [True, False])
def test_a_file_with_a_session_that_is_half_imported_there_is_refused(source: str, preview: bool) -> None:
    marked = file_of(session_line("a", 1, state={**IMPORTING, "n": 1}), event_line("e1"))
    with pytest.raises(Fault, match="partly imported there") as raised:
        imported(source, marked, preview=preview)
    assert (raised.value.detail["place"], counts(source)["sessions"]) == ("line 2", 0)


def test_a_copy_of_a_state_with_the_mark_is_refused(source: str) -> None:
    row = ImportedSession(SessionRef(source, "app", "u", "a"), 1.0, 1.0, json.dumps({**IMPORTING, "n": 1}), None)
    with pytest.raises(Conflict, match="being copied or imported"):
        import_session(row, [], actor=ANA, after=None, last=True)
    assert counts(source)["sessions"] == 0


def as_google_adk_does(ref: SessionRef) -> None:
    """Appends an event past adkweb, which would refuse it."""
    with connections[ref.source].cursor() as cursor:
        cursor.execute(
            """INSERT INTO events (app_name, user_id, session_id, id, invocation_id, timestamp, event_data)
            SELECT app_name, user_id, id, 'agent', 'i', update_time, '{"actions": {"state_delta": {"mine": 1}}}'
            FROM sessions WHERE app_name = %s AND user_id = %s AND id = %s""",
            ref[1:],
        )


def test_a_session_that_somebody_writes_to_while_it_is_imported_is_left_to_them(
    source: str, file: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = import_session, 0
    ref = SessionRef(source, "app", "u", "a")

    def slow(*args: Any, **options: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == 3:
            with pytest.raises(Conflict):
                append_event(ref, {"id": "ours", "actions": {"state_delta": {"mine": 1}}}, actor=ANA)
            as_google_adk_does(ref)
        real(*args, **options)

    monkeypatch.setattr(import_job, "import_session", slow)
    report = imported(source, file)
    assert [(left.ref, "wrote" in left.why) for left in report.skipped] == [(ref, True)]
    assert report.new == 3
    assert counts(source)["events"] == 4 + 1 + 2
    assert [left.ref for left in imported(source, file).skipped] == [ref]


def test_a_batch_that_does_not_follow_what_is_there_is_refused(source: str) -> None:
    ref = SessionRef(source, "app", "u", "s")
    row = ImportedSession(ref, 1.0, 2.0, "{}", None)
    event = ImportedEvent("e1", "i", 1.0, "{}")
    import_session(row, [event], actor=ANA, after=None, last=False)
    before = everything(source)
    for after, events in (("", [event]), ("e0", []), ("e1", [event])):
        with pytest.raises(Conflict):
            import_session(row, events, actor=ANA, after=after, last=True)
    assert everything(source) == before
    import_session(row, [], actor=ANA, after="e1", last=True)
    with pytest.raises(Conflict):
        import_session(row, [], actor=ANA, after="e1", last=True)


def test_a_preview_writes_nothing_and_says_what_the_import_does(source: str, file: bytes) -> None:
    before = everything(source)
    seen = imported(source, file, preview=True)
    assert everything(source) == before
    done = imported(source, file)
    assert seen == done


def test_state_of_apps_and_users_that_is_there_changes_only_when_asked_for(source: str, file: bytes) -> None:
    create_session(
        source, "app", "u", actor=ANA, session_id="own", state={"app:plan": "mine", "app:kept": 1, "user:mine": 2}
    )
    for options in ({"preview": True, "state": True}, {"preview": True}, {}):
        report = imported(source, file, **options)
        told = {(d.app, d.user, c.key, c.old, c.new) for d in report.differing for c in d.changes}
        assert told == {("app", None, "app:plan", "mine", "x"), ("app", "u", "user:lang", ABSENT, "ko")}
        state = views.session(SessionRef(source, "app", "u", "own"), actor=SYSTEM).state
        assert (state.app, state.user) == ({"plan": "mine", "kept": 1}, {"mine": 2})
    assert imported(source, file, state=True).differing_count == 2
    state = views.session(SessionRef(source, "app", "u", "own"), actor=SYSTEM).state
    assert (state.app, state.user) == ({"plan": "x", "kept": 1}, {"mine": 2, "lang": "ko"})
    before = everything(source)
    assert imported(source, file, state=True).differing == []
    assert everything(source) == before


def test_rows_that_adk_needs_are_made_even_where_the_file_has_no_state(source: str) -> None:
    imported(source, file_of(session_line()))
    assert counts(source) == {"app_states": 1, "user_states": 1, "sessions": 1, "events": 0}


def test_nobody_imports_into_a_read_only_adkweb(source: str, file: bytes, settings: Any) -> None:
    settings.READ_ONLY = True
    with pytest.raises(NotAllowed):
        imported(source, file)
    assert counts(source)["sessions"] == 0


def test_a_session_deleted_while_it_is_exported_is_an_error_and_no_short_session(source: str, file: bytes) -> None:
    imported(source, file)
    found = exporting.items(source, exporting.Filter(), actor=SYSTEM)
    while not isinstance(next(found), exporting.SessionItem):
        pass
    delete_session(SessionRef(source, "app", "u", "a"), actor=ANA)
    with pytest.raises(Conflict, match="was deleted while it was read"):
        list(found)
