"""What google-adk's FileArtifactService saved is read as it loads it; nothing outside of its folder ever is."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pytest_django import Settings

from sessions_app.access import shown
from sessions_app.access.actor import SYSTEM, Actor
from sessions_app.artifacts import contents
from sessions_app.artifacts.contents import Content, Unavailable
from sessions_app.domain.errors import NotFound
from sessions_app.domain.session_ref import SessionRef
from sessions_app.sources import registry
from sessions_app.writes.sessions import create_session
from tests.artifacts.saving import PNG, Saving, beside
from tests.support.masking import Hiding
from tests.support.people import ALICE

HTML = b"<script>window.injected = 1</script>"
SVG = b'<svg xmlns="http://www.w3.org/2000/svg"><script>injected = 1</script></svg>'


@pytest.fixture
def kept(tmp_path: Path, new_store: Callable[..., str], open_source: Callable[[str], str]) -> tuple[str, Path]:
    """A source beside an agent, and the folder of its artifacts."""
    return beside(new_store("sqlite"), tmp_path, open_source)


@pytest.fixture
def ref(kept: tuple[str, Path]) -> SessionRef:
    return create_session(kept[0], "booking", "ana", session_id="s1", actor=ALICE)


@pytest.fixture
def folder(kept: tuple[str, Path]) -> Path:
    return kept[1]


@pytest.fixture
def saving(folder: Path) -> Saving:
    return Saving(folder)


def about(ref: SessionRef, name: str, version: int | None = 0) -> Content:
    return contents.about(ref, name, version, actor=SYSTEM)


def whole(ref: SessionRef, name: str, version: int = 0) -> bytes:
    return b"".join(contents.pieces(ref, name, version, 0, 2**40, actor=SYSTEM))


# --- What is there ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        *("plan.txt", "a/b/c.txt", "user:logo.png", "user:a/b", "a\\b.txt", " x ", "é 日本 🌍", "a//b", "./a", ".", ""),
        *("-v", "a%2fb", "user:", "<b>"),
    ],
)
def test_each_name_is_read_where_adk_saves_it(ref: SessionRef, saving: Saving, name: str) -> None:
    for number in range(3):
        assert saving.save(ref, name, f"version {number}") == number
    for number in range(3):
        assert whole(ref, name, number) == f"version {number}".encode()
    assert contents.stored_versions(ref, name, actor=SYSTEM) == saving.versions(ref, name)[::-1] == [2, 1, 0]
    assert about(ref, name, 3).state == "missing"


@pytest.mark.parametrize("session", ["s1", "a/b", "a.b", "~", "user", "é", "a\\b"])
def test_each_session_is_read_where_adk_saves_it(ref: SessionRef, saving: Saving, session: str) -> None:
    other = SessionRef(ref.source, "booking", "ana@example.com", session)
    create_session(*other[:3], session_id=session, actor=ALICE)
    saving.save(other, "plan.txt", session)
    assert whole(other, "plan.txt") == session.encode()


def test_what_a_user_shares_is_the_same_in_each_of_their_sessions(ref: SessionRef, saving: Saving) -> None:
    other, stranger = ref._replace(session_id="s2"), ref._replace(user_id="bob")
    saving.save(ref, "user:logo", "from s1")
    saving.save(other, "user:logo", "from s2")
    saving.save(ref, "logo", "another")
    assert [whole(other, "user:logo", number) for number in (0, 1)] == [b"from s1", b"from s2"]
    assert about(other, "logo").state == "missing"
    assert about(stranger, "user:logo").state == "missing"


@pytest.mark.parametrize(
    ("content", "mime_type", "image", "is_text"),
    [
        (PNG, "image/png", "image/png", False),
        (PNG, "text/html", "image/png", False),
        (b"\xff\xd8\xff\xe0rest", "image/jpeg", "image/jpeg", False),
        (b"GIF89a...", "image/gif", "image/gif", False),
        (b"RIFF\0\0\0\0WEBPVP8 ", "image/webp", "image/webp", False),
        (HTML, "image/png", "", True),
        (HTML, "text/html", "", True),
        (SVG, "image/svg+xml", "", True),
        (b"%PDF-1.7\0", "application/pdf", "", False),
        (b"\xfe\xff\0a", "text/plain", "", False),
        ("é".encode() * 3000, "text/plain", "", True),
        (b"x" + "é".encode() * 3000, "text/plain", "", True),
        (b"\xc3" * 5000, "text/plain", "", False),
    ],
)
def test_a_content_is_known_by_its_bytes_and_not_by_what_the_agent_says(
    ref: SessionRef, saving: Saving, content: bytes, mime_type: str, image: str, is_text: bool
) -> None:
    saving.save(ref, "file", content, mime_type, display_name="../Été.txt")
    there = about(ref, "file")
    assert there == Content("here", len(content), mime_type, image, is_text, 0.0, "Été.txt", there.storage)
    assert whole(ref, "file") == content


def test_what_a_rewind_left_in_place_of_an_artifact_is_no_empty_file(ref: SessionRef, saving: Saving) -> None:
    saving.save(ref, "note", "")
    saving.save(ref, "note", "hello")
    saving.save(ref, "note", b"", "application/octet-stream")  # as google-adk's rewind does
    assert [about(ref, "note", number).state for number in range(3)] == ["here", "here", "taken_back"]
    assert (about(ref, "note").mime_type, about(ref, "note").is_text) == ("text/plain", True)
    with pytest.raises(Unavailable):
        whole(ref, "note", 2)


def test_who_changed_a_file_later_is_noticed(ref: SessionRef, saving: Saving, folder: Path) -> None:
    saving.save(ref, "plan.txt", "first")
    (file,) = folder.rglob("plan.txt/versions/0/plan.txt")
    assert not about(ref, "plan.txt").changed
    file.write_text("second")
    os.utime(file, (2_000_000_000, 2_000_000_000))
    assert about(ref, "plan.txt").changed == 2_000_000_000
    assert whole(ref, "plan.txt") == b"second"


@pytest.mark.parametrize("metadata", ["", "[]", "{", '{"mimeType": 5, "displayName": []}', "x" * 70_000, None])
def test_a_file_without_readable_metadata_is_read_by_its_own_name(
    ref: SessionRef, saving: Saving, folder: Path, metadata: str | None
) -> None:
    saving.save(ref, "a/plan.txt", "text")
    (file,) = folder.rglob("metadata.json")
    file.unlink()
    if metadata is not None:
        file.write_text(metadata)
    there = about(ref, "a/plan.txt")
    assert (there.state, there.mime_type, there.file_name) == ("here", "text/plain", "plan.txt")


def test_files_of_older_releases_are_read_beside_the_agent_that_wrote_them(
    ref: SessionRef, saving: Saving, folder: Path
) -> None:
    saving.save(ref, "plan.txt", "old")
    (folder / "apps" / "booking" / "users").rename(folder / "users")
    assert whole(ref, "plan.txt") == b"old"


def test_a_folder_that_a_person_names_is_read_for_one_source_or_for_all(
    ref: SessionRef,
    tmp_path: Path,
    settings: Settings,
    new_store: Callable[..., str],
    open_source: Callable[[str], str],
) -> None:
    other = create_session(open_source(new_store("sqlite", "plain")), *ref[1:3], session_id="s1", actor=ALICE)
    assert about(other, "plan.txt").state == "nowhere"
    Saving(tmp_path / "elsewhere").save(ref, "plan.txt", "kept elsewhere")
    settings.ARTIFACTS = {"*": str(tmp_path / "elsewhere")}
    assert whole(ref, "plan.txt") == whole(other, "plan.txt") == b"kept elsewhere"
    settings.ARTIFACTS = {other.source: str(tmp_path / "elsewhere")}
    assert about(ref, "plan.txt").state == "missing"
    assert whole(other, "plan.txt") == b"kept elsewhere"


@pytest.mark.parametrize("searched", [True, False])
def test_what_adk_once_kept_for_all_agents_is_read_where_a_person_named_their_folder(
    ref: SessionRef, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, searched: bool
) -> None:
    Saving(tmp_path / "agents" / ".adk" / "artifacts").save(ref, "plan.txt", "shared")
    monkeypatch.setattr(registry, "searched_folders", [tmp_path / "agents"] if searched else [])
    assert about(ref, "plan.txt").state == ("here" if searched else "missing")


# --- What is not ------------------------------------------------------------------------------------------------------


@pytest.mark.guarantee(
    "Safety", "Nothing in an artifact can run, and no name, link or id gives access to other people's files."
)
@pytest.mark.parametrize(
    "name",
    [
        *(
            "../x",
            "a/../../x",
            "user:../x",
            "/etc/passwd",
            "//etc/passwd",
            "C:\\x",
            "C:x",
            "\\\\host\\x",
            "..\\x",
            "..",
        ),
        *("user:/etc/passwd", "a\0b", "\ud800", "user: ../x"),
    ],
)
def test_a_name_that_leads_out_is_refused(ref: SessionRef, saving: Saving, folder: Path, name: str) -> None:
    saving.save(ref, "plan.txt", "text")
    saving.save(ref, "user:plan.txt", "text")
    for outside in (folder, folder.parent, *folder.rglob("artifacts")):
        (outside / "x").mkdir(exist_ok=True)
    assert about(ref, name).state == "name"
    assert contents.stored_versions(ref, name, actor=SYSTEM) == []


@pytest.mark.parametrize("session", ["..", ".", "../s1", "/s1", "a/../../s1", "s1/artifacts/x", " ", "x/../s1", "s1\0"])
def test_a_session_whose_name_leads_out_has_no_files(ref: SessionRef, saving: Saving, session: str) -> None:
    saving.save(ref, "plan.txt", "text")
    for at in range(1, 4):
        asked = SessionRef(*(session if number == at else name for number, name in enumerate(ref)))
        assert about(asked, "plan.txt").state in ("name", "missing")


@pytest.mark.guarantee(
    "Safety", "Nothing in an artifact can run, and no name, link or id gives access to other people's files."
)
@pytest.mark.parametrize("step", ["payload", "version", "versions", "name", "session", "users", "root"])
def test_no_link_is_followed(ref: SessionRef, saving: Saving, folder: Path, tmp_path: Path, step: str) -> None:
    saving.save(ref, "plan.txt", "text")
    (payload,) = folder.rglob("plan.txt/versions/0/plan.txt")
    up = {"payload": 0, "version": 1, "versions": 2, "name": 3, "session": 5, "users": 8, "root": 11}[step]
    target = payload if up == 0 else payload.parents[up - 1]
    assert (target == folder) == (step == "root")
    target.rename(tmp_path / "away")
    target.symlink_to(tmp_path / "away")
    assert payload.read_text() == "text"
    assert about(ref, "plan.txt").state == "link"
    with pytest.raises(Unavailable):
        whole(ref, "plan.txt")


def test_a_link_in_place_of_metadata_is_not_followed(
    ref: SessionRef, saving: Saving, folder: Path, tmp_path: Path
) -> None:
    saving.save(ref, "plan.txt", "text")
    (file,) = folder.rglob("metadata.json")
    file.unlink()
    (tmp_path / "away").write_text('{"mimeType": "secret"}')
    file.symlink_to(tmp_path / "away")
    assert about(ref, "plan.txt").mime_type == "text/plain"


def test_pipes_and_folders_are_no_files_and_hold_nobody_up(ref: SessionRef, saving: Saving, folder: Path) -> None:
    for make in (os.mkfifo, os.mkdir):
        number = saving.save(ref, "plan.txt", "text")
        (payload,) = folder.rglob(f"plan.txt/versions/{number}/plan.txt")
        payload.unlink()
        make(payload)
        assert about(ref, "plan.txt", number).state == "missing"


def test_what_adkweb_may_not_open_is_said(ref: SessionRef, saving: Saving, monkeypatch: pytest.MonkeyPatch) -> None:
    saving.save(ref, "plan.txt", "text")
    opens = os.open

    def denied(path: Any, *how: Any, **more: Any) -> int:
        if path == "versions":
            raise PermissionError(13, "denied")
        return opens(path, *how, **more)

    monkeypatch.setattr(os, "open", denied)
    assert about(ref, "plan.txt").state == "denied"


def test_a_huge_file_is_never_read_whole(
    ref: SessionRef, saving: Saving, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saving.save(ref, "log.txt", "x" + "é" * 200_000)
    (payload,) = folder.rglob("log.txt/versions/0/log.txt")
    os.truncate(payload, 50 << 30)
    read, reads = 0, os.pread

    def counting(handle: int, length: int, offset: int) -> bytes:
        nonlocal read
        read += length
        return reads(handle, length, offset)

    monkeypatch.setattr(os, "pread", counting)
    assert about(ref, "log.txt").size == 50 << 30
    _content, text, cut = contents.excerpt(ref, "log.txt", 0, actor=SYSTEM)
    assert (text, cut) == ("x" + "é" * 49_999, True)  # the half of a last character is left out
    assert b"".join(contents.pieces(ref, "log.txt", 0, 1 << 30, (1 << 30) + 10, actor=SYSTEM)) == b"\0" * 10
    assert read < 600_000


def test_nothing_stays_open(ref: SessionRef, saving: Saving) -> None:
    saving.save(ref, "plan.txt", "text")
    before = len(os.listdir("/proc/self/fd"))
    for name in ("plan.txt", "none.txt", "../x"):
        for _ in range(20):
            about(ref, name)
            contents.stored_versions(ref, name, actor=SYSTEM)
            pieces = contents.pieces(ref, "plan.txt", 0, 0, 4, actor=SYSTEM)
            next(pieces)
            del pieces
    assert len(os.listdir("/proc/self/fd")) == before


def test_who_may_not_see_the_app_or_the_artifact_gets_nothing(
    ref: SessionRef, saving: Saving, monkeypatch: pytest.MonkeyPatch
) -> None:
    saving.save(ref, "plan.txt", "text")
    with pytest.raises(NotFound):
        contents.about(ref, "plan.txt", 0, actor=Actor.holding("bob", "read", "weather*"))
    with pytest.raises(NotFound):
        contents.stored_versions(ref, "plan.txt", actor=Actor.holding("bob", "read", "weather*"))
    monkeypatch.setattr(shown, "mask_of", lambda actor, app: Hiding(lambda values: {"actions": {"artifact_delta": {}}}))
    assert contents.about(ref, "plan.txt", 0, actor=ALICE).state == "nowhere"
    assert contents.stored_versions(ref, "plan.txt", actor=ALICE) == []
