"""A page of one session holds its export: what is read out of it is the session, or a fault that says what is wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from sessions_app.access.actor import SYSTEM, TERMINAL, Actor
from sessions_app.domain.errors import Invalid, NotFound
from sessions_app.domain.session_ref import SessionRef
from sessions_app.sources import database
from sessions_app.transfer import export, exporting, recognise, single_file
from sessions_app.transfer.formats import html
from sessions_app.transfer.items import Fault
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session
from tests.conftest import FORMATS
from tests.support.stored import counts, query
from tests.transfer.conftest import Make
from tests.transfer.files import ANA, checked, exported, imported

pytestmark = pytest.mark.django_db
HOSTILE: Final = "</script><script>alert(1)</script><!-- <![CDATA[ \u2028\u2029 </style></title> & \\u003c -->"


def page_of(ref: SessionRef) -> bytes:
    """A session as a page."""
    return b"".join(export("html", ref.source, exporting.Filter(*ref[1:]), actor=TERMINAL))


def plain(ref: SessionRef) -> bytes:
    """A session in adkweb's own format, with the states that it sees."""
    return exported(ref.source, app=ref.app_name, user=ref.user_id, session=ref.session_id)


@pytest.fixture
def hostile(source: str) -> SessionRef:
    """A session in which everything wants out of its element."""
    ref = create_session(
        source, "app", "ana", session_id="s1", state={HOSTILE: HOSTILE, f"user:{HOSTILE}": 1, "app:n": 2}, actor=ANA
    )
    for number in range(3):
        event: dict[str, Any] = {
            "id": f"{HOSTILE[:40]}{number}",
            "author": HOSTILE,
            "content": {"parts": [{"text": HOSTILE}]},
            "actions": {"state_delta": {HOSTILE: [HOSTILE, number]}},
        }
        append_event(ref, event, actor=ANA)
    return ref


@pytest.mark.guarantee(
    "Databases and files", "A session stays the same if you export it as HTML and import it into an empty source."
)
@pytest.mark.parametrize("other", FORMATS)
def test_a_page_brought_into_an_empty_source_is_the_same_session(hostile: SessionRef, make: Make, other: str) -> None:
    into = make(other)
    report = imported(into, page_of(hostile), "html")
    assert (report.new, report.events, report.skipped) == (1, 3, [])
    again = hostile._replace(source=into)
    assert plain(again) == plain(hostile)
    assert imported(into, page_of(hostile), "html").same == 1


def test_the_data_of_a_page_are_the_lines_of_the_export_and_nothing_can_end_them(hostile: SessionRef) -> None:
    page = page_of(hostile)
    data = page.split(b'id="adkweb-export">\n')[1].split(b"</script>")[0]
    assert b"<" not in data
    assert "\u2028".encode() not in data
    there, wanted = ([json.loads(line) for line in text.decode().split("\n")[:-1]] for text in (data, plain(hostile)))
    assert there[0] == wanted[0] | {"secrets": False}
    assert there[1:] == wanted[1:]
    assert page.count(b"<script") == page.count(b"</script>") == 3  # states, data, and the page's own
    assert b"alert(1)</script>" not in page.replace(html.inert(b"</script>"), b"")


def test_a_session_of_every_kind_goes_round(full: str, make: Make) -> None:
    rows = query(full, "SELECT app_name, user_id, id FROM sessions")
    into = make("sqlite")
    for names in rows:
        imported(into, page_of(SessionRef(full, *names)), "html")
    assert sorted(query(into, "SELECT app_name, user_id, id FROM sessions")) == sorted(rows)
    for names in rows:
        assert plain(SessionRef(into, *names)) == plain(SessionRef(full, *names))


def test_a_page_that_is_cut_anywhere_is_a_fault_and_nothing_is_written(hostile: SessionRef, make: Make) -> None:
    page, into = page_of(hostile), make("sqlite")
    before = counts(into)
    end = page.index(b'<data id="adkweb-digest"') + 80
    begun = page.index(b'id="adkweb-export"')
    for length in (*range(0, begun, begun // 7), *range(begun, end, 97), end - 1):
        with pytest.raises(Fault, match=r"truncated|not a page|missing"):
            imported(into, page[:length], "html")
    assert counts(into) == before


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (b'"state_delta"', b'"state_dalta"', "was changed since adkweb wrote it"),
        (b'"type":"event"}\n', b'"type":"event"}\r\n', "was changed since adkweb wrote it"),
        (b'{"adkweb":"jsonl"', b'{"adkweb":"jsonp"', "its first line is not the header"),
        (b'{"apps":1,"events":3', b'{"apps":1,"events":2', "lines are missing"),
        (b'value="sha256-', b'value="sha256-0', "the digest of its data is missing"),
        (b'data-adkweb-session="1"', b'data-adkweb-session="2"', "not a page of version 1"),
    ],
)
def test_a_page_that_was_altered_is_a_fault_and_nothing_is_written(
    hostile: SessionRef, make: Make, old: bytes, new: bytes, why: str
) -> None:
    page, into = page_of(hostile), make("sqlite")
    assert old in page
    before = counts(into)
    with pytest.raises(Fault, match=why):
        imported(into, page.replace(old, new), "html")
    assert counts(into) == before


def test_a_fault_in_the_data_names_the_line_of_the_page(hostile: SessionRef) -> None:
    page = page_of(hostile).replace(b'"type":"session"', b'"type":"cession"')
    line = page[: page.index(b"cession")].count(b"\n") + 1
    with pytest.raises(Fault) as caught:
        checked(page, "html")
    assert caught.value.detail["place"] == f"line {line}"


def test_a_page_is_known_by_what_is_in_it(hostile: SessionRef, tmp_path: Path) -> None:
    file = tmp_path / "bug report.txt"
    file.write_bytes(page_of(hostile))
    assert recognise(str(file)) == "html"
    saved = page_of(hostile).replace(b"<!doctype html>", b"<!DOCTYPE html>\n<!-- saved from url=(0014) -->")
    file.write_bytes(saved)  # as a browser saves it
    assert recognise(str(file)) == "html"
    assert checked(saved, "html").events == 3
    file.write_bytes(b"<!doctype html><html><body>Hello")
    with pytest.raises(Fault, match="it is a page, but none that adkweb wrote"):
        recognise(str(file))


def test_a_session_that_is_too_long_for_a_page_says_so(hostile: SessionRef, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(single_file, "MOST_EVENTS", 2)
    with pytest.raises(Invalid, match="has 3 events, but a file can hold only 2"):
        page_of(hostile)
    monkeypatch.setattr(single_file, "MOST_EVENTS", 3)
    monkeypatch.setattr(single_file, "MOST_LENGTH", 500)
    with pytest.raises(Invalid, match="larger than 0 MB"):
        page_of(hostile)


def test_a_page_holds_one_session_that_is_named(hostile: SessionRef) -> None:
    with pytest.raises(Invalid, match="name it by --app"):
        export("html", hostile.source, exporting.Filter("app"), actor=SYSTEM)
    with pytest.raises(NotFound):
        page_of(hostile._replace(session_id="gone"))
    with pytest.raises(NotFound):
        export("html", hostile.source, exporting.Filter(*hostile[1:]), actor=Actor.holding("bob", "read", ("other",)))


def test_a_page_without_events_shows_what_is_stored(source: str, make: Make) -> None:
    ref = create_session(source, "app", "ana", session_id="s1", state={"n": 1}, actor=ANA)
    page = page_of(ref)
    assert b'<span class="key">n</span><span class="value">1</span>' in page
    into = make("sqlite")
    assert imported(into, page, "html").new == 1
    assert plain(ref._replace(source=into)) == plain(ref)
    database.get(into)
