"""Files that enter through the browser: looked through, confirmed, brought in, with progress that outlives the page."""

from __future__ import annotations

import json
import re
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.conf import settings
from django.core.files.uploadedfile import SimpleUploadedFile

from sessions_app.access.actor import SYSTEM, Actor
from sessions_app.domain.session_ref import SessionRef
from sessions_app.http.limits import Limited
from sessions_app.models import Job
from sessions_app.reads import lists, views
from sessions_app.sources import database as sources_database
from sessions_app.sources import registry
from sessions_app.transfer import imports, uploads
from sessions_app.writes.append import append_event
from sessions_app.writes.incomplete import IMPORTING
from tests.support.at_work import settle, until
from tests.support.people import somebody
from tests.support.stored import execute, query
from tests.transfer.files import event_line, exported, file_of, furnish, session_line
from tests.web.conftest import Browser, names_of
from tests.web.html import Element, page_of

# The work is done by threads, which see only what is committed.
pytestmark = pytest.mark.django_db(transaction=True)

ANA = Actor.holding("ana", "admin")
FOLDER = Path(settings.DATA_DIR) / "uploads"
STATE = {"type": "app", "app": "booking", "state": {"plan": "pro", "new": 1}, "updated": 1.0}


@pytest.fixture(autouse=True)
def _no_files_are_left() -> Iterator[None]:
    yield
    settle("import")
    for path in FOLDER.glob("*"):
        path.unlink()


@pytest.fixture
def file(tmp_path: Path, open_source: Callable[[str], str]) -> bytes:
    """The export of a store that is hard to carry."""
    (tmp_path / "full.db").touch()
    full = open_source(str(tmp_path / "full.db"))
    furnish(full)
    return exported(full)


def send(maria: Browser, source: str, content: bytes, name: str = "a.jsonl", *, htmx: bool = False) -> Any:
    """The answer to a file that is sent."""
    return maria.send("imports", {"source": source, "file": SimpleUploadedFile(name, content)}, htmx=htmx)


def sent(maria: Browser, source: str, content: bytes, name: str = "a.jsonl") -> str:
    """The page of a file that was sent and looked through."""
    address = send(maria, source, content, name)["Location"]
    settled(address)
    return str(address)


def settled(address: str) -> imports.Import:
    """An import that does nothing any more."""
    number = re.findall(r"[0-9a-f-]{36}", address)[0]
    until(lambda: not imports.get(number, actor=SYSTEM).working)
    return imports.get(number, actor=SYSTEM)


def confirm(maria: Browser, address: str, **fields: str) -> Element:
    """The page after the button Import."""
    form = maria.open(address).one("form", "importform")
    assert form.one("button", "primary").text == "Import"
    response = maria.send(address, {**form.fields(), **fields} if fields else _unchecked(form))
    assert response["Location"] == address
    settled(address)
    return maria.open(address)


def _unchecked(form: Element) -> dict[str, str]:
    return {name: value for name, value in form.fields().items() if name != "state"}


def tally(page: Element) -> dict[str, str]:
    """What an import would do, in numbers."""
    return dict(zip(page.one("dl", "tally").texts("dt"), page.one("dl", "tally").texts("dd"), strict=True))


# --- The way of a file ------------------------------------------------------------------------------------------------


def test_a_file_is_sent_looked_at_and_imported(maria: Browser, store: str, file: bytes) -> None:
    form = maria.open("imports", query={"source": store}).one("form", data_upload="")
    assert form["enctype"] == "multipart/form-data"
    assert form.fields()["source"] == store
    address = sent(maria, store, file, "backup.jsonl")

    page = maria.open(address)
    assert page.one("h1").text == "backup.jsonl"
    assert page.one("p", "what").text == "jsonl adkweb's own format: 4 sessions, 7 events"
    assert tally(page) == {
        "new sessions": "4",
        "events to write": "7",
        "already there": "0",
        "will be skipped": "0",
        "app and user states to create": "3",
    }
    assert lists.apps(store, actor=SYSTEM).rows == []
    assert "name" not in page.one("form", "importform").one("button", "primary")

    page = confirm(maria, address)
    assert page.one(role="status").text == "4 sessions were imported. 7 events were imported."
    assert "You can't undo an entire import at once" in page.text
    links = page.one("ul", "feed").links()
    assert len(links) > 4
    for link in links.values():
        maria.open(link)
    assert exported(store) == file
    assert list(FOLDER.glob("*")) == []


def test_the_same_file_again_is_nothing_to_import(maria: Browser, store: str, file: bytes) -> None:
    confirm(maria, sent(maria, store, file))
    page = maria.open(sent(maria, store, file))
    assert "Everything in this file already exists." in page.text
    assert tally(page)["already there"] == "4"
    assert page.one("form", "importform").texts("button") == ["Discard the file"]


def test_a_file_is_recognised_by_what_is_in_it(maria: Browser, store: str, tmp_path: Path, file: bytes) -> None:
    database = tmp_path / "copy.db"
    with closing(sqlite3.connect(tmp_path / "full.db")) as full, closing(sqlite3.connect(database)) as copy:
        full.backup(copy)  # what was written last stands in the log beside the file
    page = maria.open(sent(maria, store, Path(database).read_bytes(), "x.jsonl"))
    assert page.one("p", "what").one("span", "badge").text == "adk-database"
    session = json.dumps({"id": "s", "appName": "a", "userId": "u", "state": {}, "events": [], "lastUpdateTime": 1.0})
    page = maria.open(sent(maria, store, session.encode(), "export"))
    assert "adk-json a session exported by adk web: 1 session, 0 events" in page.text


def test_state_that_is_there_is_shown_old_and_new_and_set_only_when_asked(maria: Browser, ref: SessionRef) -> None:
    append_event(ref, {"author": "a", "actions": {"state_delta": {"app:plan": "free"}}}, actor=ANA)
    address = sent(maria, ref.source, file_of(STATE))
    page = maria.open(address)
    assert page.texts("span", "delta") == ["app:new 1", 'app:plan "free" "pro"']
    assert "checked" not in page.one("input", name="state")
    confirm(maria, address)
    assert views.app(ref.source, "booking", actor=SYSTEM)[1] == {"limit": 10, "plan": "free"}
    confirm(maria, sent(maria, ref.source, file_of(STATE)), state="1")
    assert views.app(ref.source, "booking", actor=SYSTEM)[1] == {"limit": 10, "plan": "pro", "new": 1}


def test_a_session_that_is_there_otherwise_is_skipped_with_the_reason(maria: Browser, ref: SessionRef) -> None:
    line = session_line("s1", app="booking", user="ana")
    address = sent(maria, ref.source, file_of(line, session_line("s9", app="booking", user="ana")))
    page = maria.open(address)
    assert tally(page)["will be skipped"] == "1"
    (item,) = page.one("ul", "differing").all("li")
    assert item.text.startswith("booking / ana / s1")
    assert "it is there with another state" in item.text
    page = confirm(maria, address)
    assert page.one(role="status").text.startswith("1 session was imported.")
    assert views.session(ref, actor=SYSTEM).state.session["step"] == "choose"
    assert "s1" not in page.one("ul", "feed").links()


def test_an_import_that_stopped_goes_on(maria: Browser, store: str) -> None:
    lines = [session_line("s1", 700), *(event_line(f"e{n}") for n in range(700))]
    confirm(maria, sent(maria, store, file_of(*lines)))
    # As a crash between two transactions leaves it.
    execute(store, "DELETE FROM events WHERE rowid > (SELECT rowid FROM events WHERE id = 'e499')", [])
    execute(store, "UPDATE sessions SET state = %s", [json.dumps(IMPORTING)])
    address = sent(maria, store, file_of(*lines))
    page = maria.open(address)
    assert tally(page)["partly imported, to be completed"] == "1"
    assert tally(page)["events to write"] == "200"
    assert "1 session was imported. 200 events were imported." in confirm(maria, address).text


# --- While it works ---------------------------------------------------------------------------------------------------


def row_of(address: str) -> Any:
    """The row of an import, to set it as another process left it."""
    return Job.objects.filter(pk=re.findall(r"[0-9a-f-]{36}", address)[0])


def hold(address: str, step: str, seconds: float = 60.0, **fields: Any) -> None:
    """Lets another process have an import, for so long; or lets it have died, so long ago."""
    where = row_of(address).get().where
    lane = f"import {where}" if step == "importing" else ""
    row_of(address).update(state="waiting", step=step, lane=lane, claimed_until=time.time() + seconds, **fields)


def test_progress_is_shown_and_asked_for_again_until_it_is_done(maria: Browser, store: str, file: bytes) -> None:
    address = sent(maria, store, file)
    hold(address, "importing", done=427, total=1000)
    page = maria.open(address)
    section = page.one("section", id="import")
    assert (section["hx-get"], section["hx-trigger"]) == (address, "load delay:700ms")
    assert page.one("progress")["value"] == "42"
    assert maria.open("imports").one("ul", "feed").one("span", "meta").text.startswith("42% · ")
    fragment = maria.open(address, htmx=True)
    assert fragment.all("h1") == []
    row_of(address).update(state="ready")
    assert "hx-get" not in maria.open(address, htmx=True).one("section", id="import")


def test_an_import_whose_process_died_is_shown_as_stopped_and_goes_on(maria: Browser, store: str, file: bytes) -> None:
    address = sent(maria, store, file)
    hold(address, "importing", -3600)
    page = maria.open(address)
    assert "The import was interrupted." in page.one(role="alert").text
    assert page.one("button", "primary").text == "Continue"
    assert maria.send(address, {})["Location"] == address
    assert settled(address).stage == "done"
    assert exported(store) == file


def test_a_check_whose_process_died_begins_again(maria: Browser, store: str, file: bytes) -> None:
    address = sent(maria, store, file)
    hold(address, "checking", -3600, result="")
    assert "The file check was interrupted" in maria.open(address).one(role="alert").text
    maria.send(address, {})
    assert settled(address).stage == "ready"
    assert lists.apps(store, actor=SYSTEM).rows == []


def test_into_one_source_goes_one_import_at_a_time(maria: Browser, store: str, file: bytes) -> None:
    first, second = sent(maria, store, file), sent(maria, store, file)
    hold(first, "importing")
    response = maria.send(second, {"state": "1"})
    assert response.status_code == 409
    assert "Another import into this source is running" in page_of(response).one(role="alert").text
    row_of(first).update(state="done")
    maria.send(second, {})
    assert settled(second).stage == "done"


def test_a_second_click_imports_once(maria: Browser, store: str, file: bytes) -> None:
    address = sent(maria, store, file)
    for _click in range(3):
        assert maria.send(address, {})["Location"] == address
    assert settled(address).preview.report.new == 4  # type: ignore[union-attr]
    assert exported(store) == file


def test_to_stop_an_import_that_is_done_shows_what_came_of_it(maria: Browser, store: str, file: bytes) -> None:
    address = sent(maria, store, file)
    confirm(maria, address)
    assert maria.send(address, {"discard": "1"})["Location"] == address
    assert "4 sessions were imported." in maria.open(address).text


def test_a_discarded_file_is_gone(maria: Browser, store: str, file: bytes) -> None:
    address = sent(maria, store, file)
    assert maria.send(address, {"discard": "1"})["Location"] == "/import/"
    assert list(FOLDER.glob("*")) == []
    assert maria.get(address).status_code == 404
    assert lists.apps(store, actor=SYSTEM).rows == []


def test_an_import_is_forgotten_after_a_day(maria: Browser, store: str, file: bytes) -> None:
    address = sent(maria, store, file)
    row_of(address).update(beat=time.time() - uploads.KEPT_SECONDS - 1)
    other = sent(maria, store, file)
    assert maria.get(address).status_code == 404
    assert len(list(FOLDER.glob("*"))) == 1
    assert maria.get(other).status_code == 200


def test_a_source_that_is_closed_since_is_named(maria: Browser, store: str, file: bytes) -> None:
    address = sent(maria, store, file)
    sources_database.forget(store)
    assert "into a source that isn't open" in maria.open(address).text
    assert maria.send(address, {}).status_code == 404


# --- Refused ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "it is empty"),
        (b"hello", "it begins like none of these"),
        (b"PK\x03\x04", "a zip archive: unpack it first"),
        (b"\x1f\x8b", "compressed by gzip"),
        (file_of(session_line())[:-20], "line 3: "),
        (file_of(session_line(events=2), event_line()), "line 4: "),
        (b'{"adkweb":"jsonl","version":1}\n{"type":\n', "line 2: "),
        (b"SQLite format 3\0" + b"\xff" * 4096, ""),
    ],
    ids=["empty", "text", "zip", "gzip", "cut", "event missing", "not JSON", "broken database"],
)
def test_a_bad_file_is_refused_with_the_place_and_not_kept(
    maria: Browser, store: str, content: bytes, message: str
) -> None:
    page = maria.open(sent(maria, store, content))
    alert = page.one(role="alert").text
    assert "Couldn't import this file. Nothing was written." in alert
    assert message in alert
    assert page.one("main").links()["Choose another file"] == f"/import/?source={store}"
    assert lists.apps(store, actor=SYSTEM).rows == []
    assert list(FOLDER.glob("*")) == []


def test_without_a_file_the_form_says_so_and_keeps_the_source(maria: Browser, store: str, demo: str) -> None:
    response = maria.send("imports", {"source": demo})
    page = page_of(response)
    assert response.status_code == 400
    assert page.one(id="upload-error").text == "Choose a file first."
    assert page.one("form", data_upload="").fields()["source"] == demo


def test_an_unknown_source_keeps_no_file(maria: Browser, store: str) -> None:
    response = send(maria, "nowhere", b"x")
    assert response.status_code == 404
    assert "There's no source “nowhere”." in page_of(response).one(id="upload-error").text
    response = send(maria, "nowhere", b"x", htmx=True)
    assert (response.status_code, response["Content-Type"]) == (404, "text/plain; charset=utf-8")
    assert list(FOLDER.glob("*")) == []


def test_a_file_that_scripts_send_leads_to_its_page(maria: Browser, store: str, file: bytes) -> None:
    response = send(maria, store, file, htmx=True)
    assert response.status_code == 200
    assert maria.get(response["HX-Redirect"]).status_code == 200


@pytest.mark.parametrize("name", ["../../../etc/passwd", "/tmp/x", "a\u202eb<script>.jsonl", "x" * 900, "..\\..\\x"])
def test_a_files_name_is_only_shown(maria: Browser, store: str, file: bytes, name: str) -> None:
    page = maria.open(sent(maria, store, file, name))
    assert page.one("h1").text
    assert len(page.one("h1").text) <= 255
    (kept,) = FOLDER.glob("*")
    assert re.fullmatch(r"[0-9a-f]{32}", kept.name)


@pytest.mark.parametrize("method", ["get", "post"])
def test_read_only_takes_no_file(maria: Browser, store: str, read_only: None, method: str) -> None:
    response = getattr(maria, method)("/import/")
    assert response.status_code == 403
    assert "--read-only" in page_of(response).one("main").text
    assert "Import" not in maria.open("home").links()


def test_an_import_that_is_not_there_is_not_found(maria: Browser, store: str) -> None:
    page = maria.open("import", import_id="00000000-0000-4000-8000-000000000000", status=404)
    assert "files are kept for a day" in page.text


def test_who_may_not_see_every_app_sees_their_own_imports_alone(maria: Browser, store: str, file: bytes) -> None:
    address = sent(maria, store, file, "backup.jsonl")
    bob = Browser()
    bob.force_login(somebody("bob", "admin", "booking*"))
    somebody("maria", "admin", "booking*")
    for browser, status in ((bob, 404), (maria, 200)):
        assert browser.get(address).status_code == status
        assert ("backup.jsonl" in browser.get("/import/").content.decode()) == (status == 200)
    assert bob.send(address, {"discard": "1"}).status_code == 404
    assert bob.send(address, {}).status_code == 404


def test_where_there_is_no_store_the_page_says_how_to_make_one(maria: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "sources", {})
    monkeypatch.setattr(registry, "searched_folders", [])
    assert "adkweb create sessions.db" in maria.open("imports").texts("pre")


def test_the_pages_of_apps_lead_to_what_was_imported(maria: Browser, store: str, file: bytes) -> None:
    confirm(maria, sent(maria, store, file))
    assert "s1" in maria.open("app", **names_of(SessionRef(store, "app", "", ""), 2)).text


# --- Too large --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("told", [True, False], ids=["length told", "in chunks"])
@pytest.mark.parametrize(
    ("path", "limit", "name"),
    [("/import/", 3000, "ADKWEB_MAX_UPLOAD"), ("/sessions/new/", 1000, "ADKWEB_MAX_BODY")],
)
def test_a_body_that_is_too_large_is_refused_with_a_sentence(
    maria: Browser, settings: Any, path: str, limit: int, name: str, told: bool
) -> None:
    settings.MAX_UPLOAD, settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 3000, 1000
    chunks = [b"x" * 500] * (limit // 500 + 1)
    status, headers, body, read = async_to_sync(_post)(path, chunks, told, maria.cookies.output(header="", sep=";"))
    assert (status, headers[b"content-type"]) == (413, b"text/plain; charset=utf-8")
    assert f"larger than the {limit} bytes that {name} allows" in body
    assert read <= (0 if told else limit + 500)


async def _post(path: str, chunks: list[bytes], told: bool, cookie: str) -> tuple[int, dict[bytes, bytes], str, int]:
    """Status, headers, body, and how many bytes were read."""
    length = [(b"content-length", str(sum(map(len, chunks))).encode())] if told else []
    scope = {"type": "http", "method": "POST", "path": path, "query_string": b""}
    scope["headers"] = [*(length or [(b"transfer-encoding", b"chunked")]), (b"cookie", cookie.strip().encode())]
    waiting = list(chunks)
    answer: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": waiting.pop(0), "more_body": bool(waiting)}

    async def reader(scope: Any, receive: Any, send: Any) -> None:
        while (await receive())["more_body"]:
            pass

    async def send(message: dict[str, Any]) -> None:
        answer.append(message)

    await Limited(reader)(scope, receive, send)
    read = sum(map(len, chunks)) - sum(map(len, waiting))
    return answer[0]["status"], dict(answer[0]["headers"]), answer[1]["body"].decode(), read


@pytest.mark.parametrize("form", ["postgresql"])
def test_a_box_replaces_what_postgresql_cannot_hold(source: str, maria: Browser) -> None:
    content = file_of(session_line("s1", 0, state={"n": "a\0b"}))
    assert maria.open("imports").one("input", name="replace_nul")["type"] == "checkbox"
    assert "app/u/s1: PostgreSQL cannot hold" in maria.open(sent(maria, source, content)).one("main").text
    given = {"source": source, "file": SimpleUploadedFile("a.jsonl", content), "replace_nul": "1"}
    address = maria.send("imports", given)["Location"]
    settled(address)
    maria.post(address)
    assert settled(address).stage == "done"
    assert query(source, "SELECT state ->> 'n' FROM sessions") == [("a�b",)]
