"""The artifacts of a session on pages: listed, shown, downloaded, and never run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.conf import settings as configured
from django.urls import reverse
from pytest_django import Settings

from adkweb import settings as wiring
from sessions_app.access.actor import Actor
from sessions_app.artifacts import contents
from sessions_app.domain.session_ref import SessionRef
from sessions_app.search import outline
from sessions_app.writes.sessions import create_session
from tests.artifacts.saving import PNG, Saving, beside, cloud
from tests.search.finding import feed
from tests.web.conftest import Browser
from tests.web.html import Element

pytestmark = pytest.mark.django_db
HTML = "<script>window.injected = 1</script>"
Add = Callable[..., str]
STORAGES = pytest.mark.parametrize("kept", ["folder", "bucket"], indirect=True)


@pytest.fixture
def kept(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    new_store: Callable[..., str],
    open_source: Callable[[str], str],
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[tuple[str, Path | str]]:
    """A source beside an agent, and the folder of its artifacts, or a bucket that ADKWEB_ARTIFACTS names."""
    source, folder = beside(new_store("sqlite"), tmp_path, open_source)
    if getattr(request, "param", "folder") == "folder":
        yield source, folder
    else:
        with cloud(settings, monkeypatch) as bucket:
            yield source, bucket


@pytest.fixture
def ref(kept: tuple[str, Path], actor: Actor) -> SessionRef:
    return create_session(kept[0], "booking", "ana", session_id="s1", actor=actor)


@pytest.fixture
def save(kept: tuple[str, Path], ref: SessionRef, add: Add) -> Callable[..., str]:
    """Saves a version as an agent does: the file, and the event that tells of it. Returns the event's id."""
    saving = Saving(kept[1])

    def keep(name: str, content: bytes | str, mime_type: str = "", session: SessionRef | None = None) -> str:
        version = saving.save(session or ref, name, content, mime_type)
        delta = {"artifact_delta": {name: version}}
        return add(session or ref, {"text": f"Saved {version}"}, author="billing", actions=delta)

    return keep


def look(maria: Browser, ref: SessionRef, status: int = 200, **query: Any) -> Element:
    return maria.open("artifacts", **ref._asdict(), query=query, status=status)


def fetched(
    maria: Browser, ref: SessionRef, name: str, version: int = 0, page: str = "artifact-file", **headers: str
) -> Any:
    address = reverse(page, kwargs={**ref._asdict(), "artifact": name, "version": version})
    return maria.get(address, headers=headers)


def content_of(answer: Any) -> bytes:
    async def gathered() -> bytes:
        return b"".join([piece async for piece in answer.streaming_content])

    return async_to_sync(gathered)() if answer.streaming else bytes(answer.content)


def folder_of(ref: SessionRef) -> Path:
    (folder,) = contents.storages_of(ref.source)
    return folder.path


def rows(page: Element) -> list[str]:
    return page.texts(class_="artifacttitle")


# --- The page ---------------------------------------------------------------------------------------------------------


def test_a_session_without_artifacts_says_how_there_come_to_be_some(ref: SessionRef, maria: Browser) -> None:
    page = look(maria, ref)
    assert page.one("main").texts("h2") == ["No artifacts"]
    assert reverse("artifacts", kwargs=ref._asdict()) in maria.open("session", **ref._asdict()).links().values()


def test_artifacts_are_listed_the_newest_first_with_their_versions_and_who_saved_them(
    ref: SessionRef, maria: Browser, save: Callable[..., str], add: Add
) -> None:
    add(ref, {"text": "Hello"}, author="user")
    first = save("plan.txt", "one")
    save("logo.png", PNG, "image/png")
    second = save("plan.txt", "two")
    for _ in range(2):
        page = look(maria, ref)
        assert rows(page) == ["plan.txt", "logo.png"]
        assert page.texts(class_="artifactfacts") == ["v1 · 3 bytes", "v0 · 70 bytes"]
        assert page.one("pre", class_="artifacttext").text == "two"
        assert page.one(class_="artifactversions").texts("a") == ["v1", "v0"]
        assert "billing · turn 1 · event 4" in page.one(class_="facts").text
        assert second in page.links()["event 4"]
        older = look(maria, ref, name="plan.txt", version=0)
        assert older.one("pre", class_="artifacttext").text == "one"
        assert first in older.links()["event 2"]
        image = look(maria, ref, name="logo.png").one(class_="artifactimage").one("img")
        assert content_of(maria.get(image["src"])) == PNG
        feed(ref.source)
    assert maria.open("session", **ref._asdict()).links()["Artifacts 2"]


def test_the_number_of_artifacts_stands_beside_the_state_and_follows_the_session(
    ref: SessionRef, maria: Browser, save: Callable[..., str]
) -> None:
    assert maria.open("session", **ref._asdict()).one(id="count-artifacts").text == ""
    assert not maria.open("stats", htmx=True, **ref._asdict()).all(id="count-artifacts")
    for number, name in enumerate(("plan.txt", "plan.txt", "logo.png"), 1):
        save(name, "text")
        if number == 1:
            feed(ref.source)
    assert maria.open("stats", htmx=True, **ref._asdict()).one(id="count-artifacts").text == "2"
    assert "hx-swap-oob" in maria.open("stats", htmx=True, **ref._asdict()).one(id="count-artifacts")


@STORAGES
def test_versions_that_another_session_of_the_user_saved_are_offered_without_its_event(
    ref: SessionRef, maria: Browser, save: Callable[..., str], actor: Actor
) -> None:
    other = create_session(*ref[:3], session_id="s2", actor=actor)
    save("user:notes", "mine")
    save("user:notes", "of s2", session=other)
    page = look(maria, ref, name="user:notes")
    assert page.one(class_="artifactversions").texts("a") == ["v1", "v0"]
    assert page.one("pre", class_="artifacttext").text == "of s2"
    assert "another of this user's sessions" in page.one(class_="facts").text
    assert "by all of ana's sessions" in page.one(class_="facts").text


def test_what_cannot_be_read_is_said_with_what_to_do(
    ref: SessionRef, maria: Browser, save: Callable[..., str], add: Add, kept: tuple[str, Path], tmp_path: Path
) -> None:
    add(ref, actions={"artifact_delta": {"memory.txt": 0, "../../x": 1, "user:/etc/passwd": 2}})
    save("gone.txt", b"", "application/octet-stream")
    save("link.txt", "text")
    (file,) = kept[1].rglob("link.txt/versions/0/link.txt")
    file.rename(tmp_path / "away")
    file.symlink_to(tmp_path / "away")
    heads = {
        name: look(maria, ref, name=name).one("main").texts("h3")
        for name in ("memory.txt", "../../x", "gone.txt", "link.txt")
    }
    assert heads == {
        "memory.txt": ["File not found"],
        "../../x": ["Invalid file name"],
        "gone.txt": ["Removed by a rewind"],
        "link.txt": ["This is a link"],
    }
    assert "ADKWEB_ARTIFACTS" in look(maria, ref, name="memory.txt").one(class_="artifactfault").text
    assert fetched(maria, ref, "../../x", 1).status_code == 404
    assert fetched(maria, ref, "link.txt").status_code == 404
    look(maria, ref, name="never.txt", status=404)
    look(maria, ref, name="link.txt", version=2**40, status=404)
    look(maria, ref, name="link.txt", version="x", status=400)


def test_a_source_without_a_folder_of_artifacts_says_how_to_name_one(
    maria: Browser,
    add: Add,
    actor: Actor,
    settings: Settings,
    tmp_path: Path,
    new_store: Callable[..., str],
    open_source: Callable[[str], str],
) -> None:
    ref = create_session(open_source(new_store("sqlite", "plain")), "booking", "ana", session_id="s1", actor=actor)
    add(ref, actions={"artifact_delta": {"plan.txt": 0}})
    page = look(maria, ref)
    assert "Can't read the content here" in page.texts("h3")
    assert "ADKWEB_ARTIFACTS=/srv/artifacts" in page.one(class_="artifactfault").text
    settings.ARTIFACTS = {ref.source: str(tmp_path / "files")}
    Saving(tmp_path / "files").save(ref, "plan.txt", "text")
    assert look(maria, ref).one("pre", class_="artifacttext").text == "text"


def test_that_the_newest_events_are_not_read_yet_is_said(
    ref: SessionRef, maria: Browser, add: Add, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outline, "UNREAD", 2)
    for number in range(4):
        add(ref, actions={"artifact_delta": {"plan.txt": number}})
    assert "still being indexed" in look(maria, ref).one("main").text
    feed(ref.source)
    assert "still being indexed" not in look(maria, ref).one("main").text


def test_a_file_that_was_changed_since_is_marked(
    ref: SessionRef, maria: Browser, save: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    save("plan.txt", "text")
    monkeypatch.setattr("sessions_app.artifacts.folders._CHANGED_SECONDS", -60.0)
    assert "changed this file after it was saved" in look(maria, ref).one(class_="warn").text


@STORAGES
def test_a_long_text_is_cut_and_anything_else_is_only_downloaded(
    ref: SessionRef, maria: Browser, save: Callable[..., str]
) -> None:
    save("log.txt", "x" * 300_000)
    page = look(maria, ref)
    assert len(page.one("pre", class_="artifacttext").text) == contents.EXCERPT + 1
    assert "Download the file to see the rest" in page.one("main").text
    save("film.mp4", b"\0" * 100, "video/mp4")
    page = look(maria, ref)
    assert page.one("main").texts("h3") == ["No preview"]
    assert not page.all("video")
    save("empty", "")
    assert "This file is empty" in look(maria, ref).one("main").text


def test_many_artifacts_and_versions_are_cut_and_lead_on(
    ref: SessionRef, maria: Browser, add: Add, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sessions_app.artifacts.saved.NAMES", 3)
    for number in range(60):
        add(ref, actions={"artifact_delta": {f"f{number % 5}": number, "log": number}})
    feed(ref.source)
    page = look(maria, ref)
    assert len(rows(page)) == 3
    following = maria.open(page.links()["Saved earlier"])
    assert not set(rows(page)) >= set(rows(following))
    assert following.links()["Newest"] == reverse("artifacts", kwargs=ref._asdict())
    versions = look(maria, ref, name="log").one(class_="artifactversions")
    assert (len(versions.all("a")), versions.texts("span")) == (50, ["+10"])


# --- In an event and in the chat --------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", ["event", "chat", "session"])
def test_an_event_shows_what_it_saved_and_leads_to_that_version(
    ref: SessionRef, maria: Browser, save: Callable[..., str], add: Add, page: str
) -> None:
    save("a/logo.png", b"GIF89a", "image/gif")
    version = Saving(folder_of(ref)).save(ref, "a/logo.png", PNG, "image/png")
    call = {"function_response": {"name": "draw", "response": {"ok": True}}}
    event = add(ref, call, id="e9", actions={"artifact_delta": {"a/logo.png": version, "memory.txt": 3, HTML: 0}})
    names = {"event_id": event} if page == "event" else {}
    query = {"at": event, "show": "event"} if page == "session" else {}
    shown = maria.open(page, **ref._asdict(), **names, query=query).all(class_="pieces")[-1]
    assert shown.texts("a") == ["a/logo.pngv1 · 70 bytes", "memory.txtv3", f"{HTML}v0"]
    image, *rest = shown.all("img")
    assert not rest
    assert content_of(maria.get(image["src"])) == PNG
    there = maria.open(shown.all("a")[0]["href"])
    assert there.one(class_="artifactversions").one("a", aria_current="true").text == "v1"


def test_an_event_that_saved_many_artifacts_shows_some_of_them(ref: SessionRef, maria: Browser, add: Add) -> None:
    delta = {f"f{number}": number for number in range(60)}
    add(ref, id="e9", actions={"artifact_delta": {**delta, "x" * 2000: 1}})
    shown = maria.open("event", **ref._asdict(), event_id="e9").one(class_="pieces")
    assert (len(shown.all("a")), shown.texts("span")[-1]) == (50, "+11")
    shown = maria.open("chat", **ref._asdict()).one(class_="pieces")
    assert (len(shown.all("a")), shown.texts("span")[-1]) == (12, "+49")


# --- Two versions -----------------------------------------------------------------------------------------------------


@STORAGES
def test_two_versions_are_compared_line_by_line(ref: SessionRef, maria: Browser, save: Callable[..., str]) -> None:
    for text in ("Monday\n" + HTML, "Tuesday\n" + HTML, "Tuesday\nmore"):
        save("plan.txt", text)
    page = maria.open(look(maria, ref).links()["Compare with v1 c"])
    assert page.one(class_="difflines").texts("tr") == ["11Tuesday", f"2removed−{HTML}", "2added+more"]
    assert page.texts("nav", class_="artifactversions") == ["v2v1v0"] * 2
    page = maria.open("artifact-versions", **ref._asdict(), query={"name": "plan.txt", "a": 0, "b": 2})
    assert len(page.all("tr", class_="diffremoved")) == 2
    for query in ({"name": "plan.txt", "a": 7}, {"name": "none"}, {}):
        maria.open("artifact-versions", **ref._asdict(), query=query, status=404)


@STORAGES
def test_two_versions_of_an_image_stand_side_by_side_and_other_files_are_the_same_or_not(
    ref: SessionRef, maria: Browser, save: Callable[..., str], add: Add
) -> None:
    def compared(name: str) -> Element:
        return maria.open("artifact-versions", **ref._asdict(), query={"name": name}).one("main")

    save("logo.png", PNG, "image/png")
    assert "both versions are identical" in compared("logo.png").text
    save("logo.png", PNG[:-1] + b"x", "image/png")
    page = compared("logo.png")
    assert [content_of(maria.get(each["src"])) for each in page.all("img")] == [PNG, PNG[:-1] + b"x"]
    assert not page.all("table")
    for content in (b"%PDF\0a", b"%PDF\0bc"):
        save("x.pdf", content, "application/pdf")
    assert "The bytes differ" in compared("x.pdf").text
    add(ref, actions={"artifact_delta": {"memory.txt": 4}})
    assert "Can't read the content here" in compared("memory.txt").text
    assert "can't tell whether" in compared("memory.txt").text


# --- Files ------------------------------------------------------------------------------------------------------------


@pytest.mark.guarantee(
    "Safety", "Nothing in an artifact can run, and no name, link or id gives access to other people's files."
)
@STORAGES
@pytest.mark.parametrize(
    ("name", "content", "mime_type"),
    [
        ("page.html", HTML.encode(), "text/html"),
        ("logo.svg", f'<svg xmlns="http://www.w3.org/2000/svg">{HTML}</svg>'.encode(), "image/svg+xml"),
        ("logo.png", HTML.encode(), "image/png"),
        ("script.js", b"alert(1)", "text/javascript"),
        ("x.pdf", b"%PDF-1.7\0", "application/pdf"),
    ],
)
def test_nothing_that_could_run_is_given_to_the_browser_to_show(
    ref: SessionRef, maria: Browser, save: Callable[..., str], name: str, content: bytes, mime_type: str
) -> None:
    save(name, content, mime_type)
    page = look(maria, ref)  # Browser checks that no foreign tag is on the page
    assert not page.one("main").all("img")
    assert fetched(maria, ref, name, page="artifact-image").status_code == 404
    answer = fetched(maria, ref, name)
    assert content_of(answer) == content
    assert answer.headers["Content-Type"] == "application/octet-stream"
    assert answer.headers["Content-Disposition"] == f'attachment; filename="{name}"'
    assert answer.headers["Content-Security-Policy"] == "default-src 'none'; sandbox"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


@STORAGES
def test_an_image_is_shown_with_the_type_of_its_bytes_and_asked_for_once(
    ref: SessionRef, maria: Browser, save: Callable[..., str]
) -> None:
    save("logo", PNG, "text/html")
    answer = fetched(maria, ref, "logo", page="artifact-image")
    assert (answer.headers["Content-Type"], answer.content) == ("image/png", PNG)
    assert "sandbox" in answer.headers["Content-Security-Policy"]
    assert answer.headers["Content-Disposition"].startswith("inline")
    again = {"If-None-Match": answer.headers["ETag"]}
    assert fetched(maria, ref, "logo", page="artifact-image", **again).status_code == 304


@STORAGES
def test_an_image_that_is_too_large_to_show_is_only_downloaded(
    ref: SessionRef, maria: Browser, save: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contents, "LARGEST_IMAGE", 50)
    save("logo.png", PNG, "image/png")
    assert look(maria, ref).one("main").texts("h3") == ["No preview"]
    assert fetched(maria, ref, "logo.png", page="artifact-image").status_code == 404
    assert content_of(fetched(maria, ref, "logo.png")) == PNG


@STORAGES
@pytest.mark.parametrize(
    ("asked", "status", "part"),
    [
        ("bytes=0-3", 206, slice(0, 4)),
        ("bytes=4-", 206, slice(4, None)),
        ("bytes=-3", 206, slice(-3, None)),
        ("bytes=0-999999", 200, slice(None)),
        ("bytes=999999-", 416, slice(0, 0)),
        ("bytes=5-2", 416, slice(0, 0)),
        ("bytes=-0", 416, slice(0, 0)),
        ("bytes=-", 200, slice(None)),
        ("bytes=0-1,3-4", 200, slice(None)),
        ("lines=0-1", 200, slice(None)),
        ("bytes=" + "9" * 50 + "-", 200, slice(None)),
        ("", 200, slice(None)),
    ],
)
def test_a_download_goes_on_where_it_was_cut_off(
    ref: SessionRef, maria: Browser, save: Callable[..., str], asked: str, status: int, part: slice
) -> None:
    save("plan.txt", "0123456789")
    answer = fetched(maria, ref, "plan.txt", Range=asked)
    got = content_of(answer)
    assert (answer.status_code, got) == (status, b"0123456789"[part])
    if status == 206:
        first = b"0123456789".index(got)
        assert answer.headers["Content-Range"] == f"bytes {first}-{first + len(got) - 1}/10"
    if status != 416:
        assert int(answer.headers["Content-Length"]) == len(got)
    changed = fetched(maria, ref, "plan.txt", **{"Range": "bytes=0-3", "If-Range": '"another"'})
    assert (changed.status_code, content_of(changed)) == (200, b"0123456789")


@STORAGES
def test_files_of_a_session_that_is_not_there_are_not_given(
    ref: SessionRef, maria: Browser, guest: Browser, save: Callable[..., str], kept: tuple[str, Path]
) -> None:
    other = ref._replace(session_id="never")
    Saving(kept[1]).save(other, "plan.txt", "text")
    assert fetched(maria, other, "plan.txt").status_code == 404
    assert fetched(maria, other, "plan.txt", page="artifact-image").status_code == 404
    save("plan.txt", "text")
    assert fetched(guest, ref, "plan.txt").status_code == 302


# --- The setting ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "folders"),
    [
        ("", {}),
        ("/srv/a", {"*": "/srv/a"}),
        ("file:///srv/my%20files", {"*": "/srv/my files"}),
        ('{"prod": "/srv/a", "*": "file:///srv/b"}', {"prod": "/srv/a", "*": "/srv/b"}),
        ('{"prod": "gs://my-bucket/", "*": "/srv/b"}', {"prod": "gs://my-bucket", "*": "/srv/b"}),
        ("gs://my.bucket_1", {"*": "gs://my.bucket_1"}),
    ],
)
def test_the_setting_names_a_folder_for_all_sources_or_one_for_each(text: str, folders: dict[str, str]) -> None:
    assert wiring.artifacts_in(text) == folders
    assert configured.ARTIFACTS == {}


@pytest.mark.parametrize("text", ["{", "gs://", "gs://a/b", "gs://../x", '{"a": 5}', '{"a": "s3://b"}'])
def test_a_setting_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(SystemExit, match="ADKWEB_ARTIFACTS"):
        wiring.artifacts_in(text)
