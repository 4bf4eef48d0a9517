"""What google-adk's GcsArtifactService saved in a bucket is read as it loads it; no other session's file ever is.

The bucket is that of gcp-storage-emulator. test_artifacts.py shows the same pages for folders and for buckets."""

from __future__ import annotations

import http.server
import json
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import requests
from pytest_django import Settings

from sessions_app.access.actor import SYSTEM, Actor
from sessions_app.artifacts import buckets, comparing, contents
from sessions_app.artifacts.contents import Content, Unavailable
from sessions_app.domain.errors import NotFound
from sessions_app.domain.session_ref import SessionRef
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session
from tests.artifacts.saving import PNG, Saving, cloud
from tests.servers import free_port
from tests.support.people import ALICE
from tests.web.conftest import Browser

pytestmark = pytest.mark.django_db


@pytest.fixture
def saving(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Saving]:
    with cloud(settings, monkeypatch) as bucket:
        yield Saving(bucket)


@pytest.fixture
def ref(new_store: Callable[..., str], open_source: Callable[[str], str]) -> SessionRef:
    return create_session(open_source(new_store("sqlite")), "booking", "ana", session_id="s1", actor=ALICE)


@pytest.fixture
def requested(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The requests to the bucket."""
    sent: list[str] = []
    sends = requests.Session.send

    def counting(self: Any, request: Any, **how: Any) -> Any:
        sent.append(request.url)
        return sends(self, request, **how)

    monkeypatch.setattr(requests.Session, "send", counting)
    return sent


def tell(ref: SessionRef, name: str, version: int = 0) -> None:
    """Has an event of a session say that it saved an artifact."""
    event = {"author": "billing", "content": {"parts": [{"text": "Saved"}]}, "timestamp": 1.0 + version}
    append_event(ref, {**event, "actions": {"artifact_delta": {name: version}}}, actor=ALICE)


def about(ref: SessionRef, name: str, version: int = 0) -> Content:
    return contents.about(ref, name, version, actor=SYSTEM)


def whole(ref: SessionRef, name: str, version: int = 0) -> bytes:
    return b"".join(contents.pieces(ref, name, version, 0, 2**40, actor=SYSTEM))


# --- What is there ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "plan.txt",
        "a/b/c.txt",
        "user:logo.png",
        "user:a/b",
        "a\\b.txt",
        " x ",
        "é 日本 🌍",
        "",
        "-v",
        "user:",
        "<b>",
        "0",
    ],
)
def test_each_name_is_read_where_adk_saves_it(ref: SessionRef, saving: Saving, name: str) -> None:
    for number in range(2):
        assert saving.save(ref, name, f"version {number}") == number
        tell(ref, name, number)
    saving.save(ref, f"{name}/1", "nested")
    for number in range(2):
        assert whole(ref, name, number) == f"version {number}".encode()
    assert contents.stored_versions(ref, name, actor=SYSTEM) == saving.versions(ref, name)[::-1] == [1, 0]
    assert about(ref, name, 2) == Content("missing", storage="gs://kept")


def test_what_the_agent_said_of_a_content_is_told(ref: SessionRef, saving: Saving) -> None:
    saving.save(ref, "file", PNG, "text/html", display_name="../Été.png")
    there = about(ref, "file")
    assert (there.state, there.size, there.mime_type, there.image) == ("here", len(PNG), "text/html", "image/png")
    assert (there.file_name, there.storage, there.changed) == ("Été.png", "gs://kept", 0.0)
    saving.save(ref, "note", "")
    saving.save(ref, "note", b"", "application/octet-stream")  # as google-adk's rewind does
    assert [about(ref, "note", number).state for number in range(2)] == ["here", "taken_back"]


@pytest.mark.parametrize("address", ["gs://other/secret", "https://example.com/x", "artifact"])
def test_a_reference_is_told_and_not_followed(
    ref: SessionRef, saving: Saving, maria: Browser, requested: list[str], address: str
) -> None:
    saving.save(ref, "secret", "text")
    if address == "artifact":
        address = "artifact://apps/booking/users/ana/sessions/s1/artifacts/secret/versions/0"
    saving.refer(ref, "link", address)
    tell(ref, "link")
    requested.clear()
    assert about(ref, "link") == Content("reference", storage="gs://kept", reference=address)
    assert len(requested) == 1
    with pytest.raises(Unavailable):
        whole(ref, "link")
    page = maria.open("artifacts", **ref._asdict())
    assert page.one("main").texts("h3") == ["Link only, no content"]
    assert address in page.one(class_="artifactfault").text
    assert not page.all("a", href=address)


# --- What is another's ------------------------------------------------------------------------------------------------


@pytest.mark.guarantee(
    "Safety", "Nothing in an artifact can run, and no name, link or id gives access to other people's files."
)
@pytest.mark.parametrize(
    ("names", "name"),
    [
        (("booking", "ana/s1", "x"), "secret"),  # the ids of a user and a session move along the slashes
        (("booking", "ana", "s1/x"), "secret"),
        (("booking", "ana", "user"), "user_x"),  # what the user shares is kept as that of a session `user`
        (("booking/ana", "s1", "x"), "secret"),
        (("booking", "", "s1"), "secret"),
    ],
)
def test_ids_that_lead_to_another_session_have_no_files(
    ref: SessionRef, saving: Saving, requested: list[str], names: tuple[str, str, str], name: str
) -> None:
    saving.save(ref, "x/secret", "text")
    requested.clear()
    other = SessionRef(ref.source, *names)
    assert contents.stored_versions(other, name, actor=SYSTEM) == []
    assert about(other, name).state == "name"
    assert requested == []


def test_a_name_with_a_slash_may_be_of_a_session_with_one_and_is_read_only_if_an_event_has_it(
    ref: SessionRef, saving: Saving, maria: Browser, requested: list[str]
) -> None:
    saving.save(ref._replace(session_id="s1/x"), "secret", "of session s1/x")
    requested.clear()
    assert about(ref, "x/secret").state == "missing"
    assert contents.stored_versions(ref, "x/secret", actor=SYSTEM) == []
    maria.open("artifacts", **ref._asdict(), query={"name": "x/secret"}, status=404)
    assert requested == []


@pytest.mark.parametrize(
    "name", ["x/../plan.txt", "..", "../s2/plan.txt", "a\0b", "a\nb", "\ud800", "x" * 2000, "plan.txt/0"]
)
def test_hostile_names_are_names_like_any_other(
    ref: SessionRef, saving: Saving, requested: list[str], name: str
) -> None:
    saving.save(ref, "plan.txt", "text")
    saving.save(ref._replace(session_id="s2"), "plan.txt", "another's")
    if name not in ("\ud800", "a\0b", "a\nb"):
        tell(ref, name)
    requested.clear()
    assert about(ref, name).state in ("missing", "name", "away")  # the emulator breaks on two dots
    assert contents.stored_versions(ref, name, actor=SYSTEM) == []
    assert all("booking%2Fana%2Fs1%2F" in url for url in requested)  # the dots stay a part of the object's name


def test_who_may_not_see_the_app_asks_the_bucket_nothing(ref: SessionRef, saving: Saving, requested: list[str]) -> None:
    saving.save(ref, "plan.txt", "text")
    requested.clear()
    for ask in (contents.about, contents.glance, contents.excerpt):
        with pytest.raises(NotFound):
            ask(ref, "plan.txt", 0, actor=Actor.holding("bob", "read", "weather*"))
    with pytest.raises(NotFound):
        contents.stored_versions(ref, "plan.txt", actor=Actor.holding("bob", "read", "weather*"))
    assert requested == []


# --- What it costs ----------------------------------------------------------------------------------------------------


def test_a_page_asks_a_bucket_a_few_times_however_many_artifacts_it_lists(
    ref: SessionRef, saving: Saving, maria: Browser, requested: list[str]
) -> None:
    for number in range(8):
        saving.save(ref, f"plan{number}.txt", "text " * 50_000)
        tell(ref, f"plan{number}.txt")
    requested.clear()
    assert maria.open("artifacts", **ref._asdict()).texts(class_="artifactfacts") == ["v0"] * 8
    assert len(requested) == 4  # its versions, what it is, its first bytes, what is shown
    requested.clear()
    maria.open("chat", **ref._asdict())
    maria.open("session", **ref._asdict())
    assert requested == []


def test_versions_are_compared_by_what_the_bucket_knows_of_them(
    ref: SessionRef, saving: Saving, requested: list[str]
) -> None:
    for content in (b"%PDF\0a", b"%PDF\0b", b"%PDF\0b"):
        saving.save(ref, "x.pdf", content, "application/pdf")
    requested.clear()
    same = [comparing.compare(ref, "x.pdf", *pair, actor=SYSTEM).same for pair in ((0, 1), (1, 2))]
    assert same == [False, True]
    assert len(requested) == 2 * 2 * 2


def test_a_large_file_is_read_in_ranges_and_listed_versions_are_bounded(
    ref: SessionRef, saving: Saving, requested: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    saving.save(ref, "log.txt", "x" * 10_000_000)
    read: list[int] = []
    with contents.opened(ref, "log.txt", 0, actor=SYSTEM) as (content, file):
        assert (content.size, file.read(9_999_998, 50), file.read(10_000_000, 5)) == (10_000_000, b"xx", b"")
    requested.clear()
    for piece in contents.pieces(ref, "log.txt", 0, 1, content.size, actor=SYSTEM):
        read.append(len(piece))
    assert sum(read) == 9_999_999
    assert max(read) <= 4 << 20
    assert len(requested) == 5
    monkeypatch.setattr(buckets, "MOST_VERSIONS", 1)
    saving.save(ref, "log.txt", "again")
    assert len(contents.stored_versions(ref, "log.txt", actor=SYSTEM)) == 1


# --- A bucket that cannot be read -------------------------------------------------------------------------------------


@contextmanager
def answering(status: int, message: str) -> Iterator[str]:
    """A server that answers each request with an error, as Google does."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps({"error": {"code": status, "message": message}}).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture
def look(
    ref: SessionRef, maria: Browser, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[str], tuple[str, str]]]:
    """Opens the page of an artifact in a bucket at an address. Returns what it says."""
    tell(ref, "plan.txt")
    settings.ARTIFACTS = {"*": "gs://kept"}

    def opened(address: str) -> tuple[str, str]:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", address)
        buckets.forget()
        page = maria.open("artifacts", **ref._asdict())
        head = page.one("main").one("h3").text
        status = 503 if head == "The bucket isn't answering" else 404  # a program may ask again
        maria.open("artifact-file", **ref._asdict(), artifact="plan.txt", version=0, status=status)
        return head, page.one(class_="artifactfault").text

    yield opened
    buckets.forget()


@pytest.mark.parametrize(
    ("status", "head", "words"),
    [
        (403, "No permission to read this bucket", "Storage Object Viewer role on gs://kept"),
        (400, "No permission to read this bucket", "adkweb doctor"),
        (401, "No permission to read this bucket", "Storage Object Viewer"),
        (404, "This bucket doesn't exist", "gs://kept in ADKWEB_ARTIFACTS doesn't exist"),
        (429, "The bucket isn't answering", "gs://kept didn't answer"),
        (503, "The bucket isn't answering", "adkweb doctor"),
    ],
)
def test_a_bucket_that_refuses_is_told_on_the_page(
    look: Callable[[str], tuple[str, str]], status: int, head: str, words: str
) -> None:
    with answering(status, "<b>no</b>") as address:
        told = look(address)
    assert told[0] == head
    assert words in told[1]


def test_a_bucket_that_is_away_is_asked_once_and_again_after_a_pause(
    look: Callable[[str], tuple[str, str]], ref: SessionRef, requested: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = f"http://127.0.0.1:{free_port()}"
    assert look(closed)[0] == "The bucket isn't answering"
    assert len(requested) == 1
    monkeypatch.setattr(buckets, "PAUSE", -1.0)
    buckets.forget()
    requested.clear()
    assert {about(ref, "plan.txt").state for _ in range(3)} == {"away"}
    assert len(requested) == 3


def test_a_bucket_that_says_nothing_is_not_waited_for(
    look: Callable[[str], tuple[str, str]], requested: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sessions_app.artifacts.buckets._ASK", {"timeout": (1, 0.3), "retry": None})
    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert look(f"http://127.0.0.1:{silent.getsockname()[1]}")[0] == "The bucket isn't answering"
    assert len(requested) == 1


def test_without_the_extra_the_page_says_what_to_install(
    look: Callable[[str], tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "google.cloud", None)
    monkeypatch.setitem(sys.modules, "google.cloud.storage", None)
    head, words = look("http://127.0.0.1:9")
    assert head == "The Google Cloud library isn't installed"
    assert "pip install 'adkweb[gcs]'" in words


def test_without_credentials_the_machine_is_searched_for_them_once(
    ref: SessionRef, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    from google.auth.exceptions import DefaultCredentialsError

    searched = []

    def search(**_: Any) -> Any:
        searched.append(1)
        raise DefaultCredentialsError("none")  # type: ignore[no-untyped-call]

    monkeypatch.delenv("STORAGE_EMULATOR_HOST", raising=False)
    monkeypatch.setattr("google.auth.default", search)
    settings.ARTIFACTS = {"*": "gs://kept"}
    buckets.forget()
    assert [about(ref, "plan.txt").state for _ in range(3)] == ["denied"] * 3
    assert len(searched) == 1
    buckets.forget()
