"""A token is made, copied and used; a session leaves adkweb as a file and comes back through the import page."""

from __future__ import annotations

import json
import re
import sqlite3
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, FilePayload, Page, StorageState, expect

from tests.browser.conftest import Visit, Watch, serve, watched
from tests.browser.looks import barriers, check
from tests.browser.places import SEOUL, path
from tests.browser.seed import LONG
from tests.browser.serving import Adkweb

BULK_SESSIONS, BULK_EVENTS = 150, 100


def bulk(folder: Path) -> Path:
    """A file whose import takes seconds."""
    file = folder / "bulk.jsonl"
    lines = [{"adkweb": "jsonl", "version": 1}]
    for number in range(BULK_SESSIONS):
        row = {"app": "bulk", "user": "u", "session": f"s{number:04}", "created": 1.0, "updated": 2.0, "state": {}}
        lines.append({"type": "session", **row, "events": BULK_EVENTS})
        for event in range(BULK_EVENTS):
            data = {"id": f"e{event}", "invocation_id": "i", "author": "a", "timestamp": 2.0}
            lines.append({"type": "event", "data": data})
    end = {"apps": 0, "users": 0, "sessions": BULK_SESSIONS, "events": BULK_SESSIONS * BULK_EVENTS}
    lines.append({"type": "end", **end})
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return file


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Adkweb]:
    """adkweb on a fresh copy of the demo, for those tests here that do not stand in each other's way."""
    yield from serve(tmp_path_factory.mktemp("transfer"))


@pytest.fixture(scope="module")
def somebody(browser: Browser, shared: Adkweb) -> StorageState:
    """The cookies of somebody who opened its link."""
    with browser.new_context() as context:
        context.new_page().goto(shared.link)
        return context.storage_state()


@pytest.fixture
def page(shared: Adkweb, somebody: StorageState, visitor: Visit) -> Page:
    """A page of that person's."""
    copies = ["clipboard-read", "clipboard-write"]
    return visitor(shared, storage_state=somebody, permissions=copies, reduced_motion="reduce")


class Patient(Adkweb):
    """Its imports wait for a database that somebody holds as long as it takes, where users wait twenty seconds."""

    def command(self, *words: str, **variables: str) -> list[str]:
        if words[0] == "serve":
            program = "from sessions_app.writes import commits; commits.PATIENCE_SECONDS = 600.0; import adkweb.cli"
            words = ("-c", f"{program}; adkweb.cli.manage()", *words)
        return super().command(*words, **variables)


@pytest.fixture
def patient_server(tmp_path: Path) -> Iterator[Adkweb]:
    """One on a fresh copy of the demo."""
    yield from watched(Patient(tmp_path))


@contextmanager
def held(file: Path) -> Iterator[None]:
    """Nobody else writes to a database meanwhile: an import into it is under way for as long as a test looks at it."""
    with closing(sqlite3.connect(file, timeout=30, isolation_level=None)) as database:
        database.execute("BEGIN IMMEDIATE")
        yield
        database.execute("ROLLBACK")


def choose(page: Page, file: Path | FilePayload, into: str = "demo") -> None:
    """Sends a file to be looked through."""
    page.goto("/import/")
    page.get_by_label("Into").select_option(into)
    page.get_by_label("File", exact=True).set_input_files(file)
    page.get_by_role("button", name="Preview import").click()


def test_a_token_is_made_copied_used_and_revoked(shared: Adkweb, page: Page, watch: Watch) -> None:
    watch.allow(409)
    page.goto("/edits/")
    page.locator(".topbar details.menu > summary").click()
    page.get_by_role("link", name="Settings", exact=True).click()
    page.get_by_role("navigation", name="Settings").get_by_role("link", name="Tokens", exact=True).click()
    expect(page.get_by_text("Tokens let programs use adkweb")).to_be_visible()
    check(page)
    page.get_by_label("Name").fill("report")
    page.get_by_role("radio", name=re.compile("^read")).check()
    page.get_by_label("Apps", exact=True).fill("booking")
    page.get_by_role("button", name="Create token").click()
    expect(page.get_by_role("status")).to_contain_text("Token “report” created")
    page.wait_for_load_state()
    check(page)
    page.get_by_role("button", name="Copy").click()
    expect(page.locator("#copy-status")).to_have_text("Copied")
    token = page.evaluate("navigator.clipboard.readText()")
    assert token == page.locator("#token-text").text_content()
    asked = urllib.request.Request(f"{shared.address}/api/apps", headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(asked) as answer:
        apps = answer.read().decode()
    assert '"booking"' in apps
    assert '"support"' not in apps

    page.goto("/tokens/")
    expect(page.locator("#token-text")).to_have_count(0)
    page.locator("summary", has_text="New token").click()
    page.get_by_label("Name").fill("report")
    page.get_by_role("button", name="Create token").click()
    expect(page.get_by_role("alert")).to_contain_text("There's already a token “report”")
    expect(page.get_by_label("Name")).to_have_value("report")
    check(page)

    page.get_by_role("link", name="Revoke report").click()
    expect(page.get_by_role("button", name="Revoke")).to_be_visible()
    check(page)
    page.get_by_role("button", name="Revoke").click()
    expect(page.get_by_role("status")).to_have_text("Token “report” revoked.")
    expect(page.locator("tr.ended")).to_contain_text("revoked")
    check(page)


def test_a_session_is_downloaded_deleted_and_imported_again(page: Page, tmp_path: Path) -> None:
    page.goto(path("s", *SEOUL))
    page.locator("summary", has_text="Share").click()
    assert barriers(page, within="details[open]") == []
    with page.expect_download() as download:
        page.get_by_role("button", name="jsonl").click()
    assert download.value.suggested_filename == "booking-ana-seoul-trip.jsonl"
    file = tmp_path / download.value.suggested_filename
    download.value.save_as(file)

    page.goto(path("s", *SEOUL, end="delete/"))
    page.get_by_role("textbox").fill(SEOUL.session_id)
    page.get_by_role("main").get_by_role("button", name="Delete").click()
    expect(page.get_by_role("status")).to_contain_text("deleted")

    page.goto("/")
    page.get_by_role("main").get_by_role("link", name="Import").click()
    expect(page.get_by_label("File", exact=True)).to_be_visible()
    check(page)
    page.get_by_label("File", exact=True).set_input_files(file)
    page.get_by_role("button", name="Preview import").click()
    expect(page.get_by_text("adkweb's own format: 1 session, 72 events")).to_be_visible()
    check(page)
    page.get_by_role("button", name="Import").click()
    expect(page.get_by_role("status")).to_have_text("1 session was imported. 72 events were imported.")
    check(page)
    page.get_by_role("link", name=SEOUL.session_id).click()
    expect(page.get_by_role("heading", name="Seoul trip")).to_be_visible()
    expect(page.locator(".ev")).to_have_count(50)

    choose(page, file)
    expect(page.get_by_text("Everything in this file already exists.")).to_be_visible()
    choose(page, {"name": "cut.jsonl", "mimeType": "", "buffer": file.read_bytes()[:-30]})
    expect(page.get_by_role("alert")).to_contain_text(
        re.compile(r"Nothing was written\. line \d+: the file is truncated")
    )
    check(page)


@pytest.mark.long
def test_a_long_import_shows_how_far_it_is_and_outlives_its_page(
    patient_server: Adkweb, visitor: Visit, tmp_path: Path
) -> None:
    page = visitor(patient_server, reduced_motion="reduce")
    page.goto(patient_server.link)
    choose(page, bulk(tmp_path))
    with held(patient_server.demo):
        page.get_by_role("button", name="Import").click()
        expect(page.get_by_role("progressbar", name="Progress")).to_be_visible()
        check(page)
        address = page.url
        page.close()
        other = visitor(patient_server, storage_state=page.context.storage_state())
        other.goto("/import/")
        other.get_by_role("link", name="bulk.jsonl").click()
        assert other.url == address
        expect(other.get_by_role("progressbar", name="Progress")).to_be_visible()
    expect(other.get_by_role("status")).to_contain_text("150 sessions were imported", timeout=60_000)


@pytest.mark.long
def test_an_import_that_is_stopped_goes_on_when_its_file_is_sent_again(
    own_server: Adkweb, visitor: Visit, tmp_path: Path
) -> None:
    page = visitor(own_server)
    page.goto(own_server.link)
    file = bulk(tmp_path)
    choose(page, file)
    with closing(sqlite3.connect(own_server.demo, isolation_level=None)) as agent:
        agent.execute("BEGIN IMMEDIATE")  # for which the import waits: it is still under way when it is stopped
        page.get_by_role("button", name="Import").click()
        page.get_by_role("button", name="Stop").click()
        expect(page.get_by_role("status")).to_contain_text("Import stopped")
        expect(page.get_by_text("No imports yet")).to_be_visible()
    choose(page, file)
    page.get_by_role("button", name="Import").click()
    expect(page.get_by_role("status")).to_contain_text("imported", timeout=60_000)
    page.goto(path("s", "demo", "bulk", "u", f"s{BULK_SESSIONS - 1:04}"))
    expect(page.locator(".ev")).to_have_count(BULK_EVENTS)
    assert not list((own_server.folder / "data" / "uploads").iterdir())


@pytest.mark.long
def test_a_dropped_file_is_taken_and_one_that_is_too_large_is_not_sent(page: Page) -> None:
    page.goto("/import/")
    page.evaluate("document.querySelector('[data-upload]').dataset.max = 10")
    page.evaluate(
        """(name) => {
            const data = new DataTransfer();
            data.items.add(new File(["x".repeat(11)], name));
            const box = document.querySelector("[data-drop]");
            for (const kind of ["dragenter", "dragover", "drop"])
                box.dispatchEvent(new DragEvent(kind, { bubbles: true, cancelable: true, dataTransfer: data }));
        }""",
        "dropped.jsonl",
    )
    assert page.get_by_label("File", exact=True).evaluate("(input) => input.files[0].name") == "dropped.jsonl"
    expect(page.get_by_role("alert")).to_contain_text("that ADKWEB_MAX_UPLOAD allows")
    page.get_by_role("button", name="Preview import").click()
    expect(page.get_by_role("alert")).to_contain_text("that ADKWEB_MAX_UPLOAD allows")
    assert page.url.endswith("/import/")


def test_how_much_of_an_upload_is_sent_is_shown(page: Page, tmp_path: Path) -> None:
    session = page.context.new_cdp_session(page)
    session.send("Network.enable")
    speed = 100_000
    session.send(
        "Network.emulateNetworkConditions",
        {"offline": False, "latency": 0, "downloadThroughput": -1, "uploadThroughput": speed},
    )
    page.goto("/import/")
    page.get_by_label("File", exact=True).set_input_files({"name": "big", "mimeType": "", "buffer": b"x" * speed * 2})
    page.get_by_role("button", name="Preview import").click()
    bar = page.get_by_role("progressbar", name="Upload")
    expect(bar).to_be_visible()
    expect(page.locator("[data-upload-words]")).to_have_text(re.compile(r"^[1-9]\d?%$"))
    expect(page.get_by_role("alert")).to_contain_text("it begins like none of these")


@pytest.mark.long
def test_pages_of_the_import_need_no_scripts(visit: Visit) -> None:
    page = visit(java_script_enabled=False)
    page.goto("/import/")
    page.get_by_label("File", exact=True).set_input_files({"name": "no", "mimeType": "", "buffer": b"nothing"})
    page.get_by_role("button", name="Preview import").click()
    expect(page.get_by_role("alert")).to_contain_text("it begins like none of these")
    page.goto(path("s", *LONG))
    page.locator("summary", has_text="Share").click()
    with page.expect_download() as download:
        page.get_by_role("button", name="jsonl").click()
    assert download.value.suggested_filename == "booking-bea-long.jsonl"
