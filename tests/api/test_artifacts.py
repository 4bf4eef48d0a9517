"""Artifacts over REST: names, versions and files, for programs that may see the app."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sessions_app.access.actor import Actor
from sessions_app.artifacts import saved
from sessions_app.domain.session_ref import SessionRef
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session
from tests.api.program import Program, address
from tests.artifacts.saving import PNG, Saving, beside
from tests.search.finding import feed

pytestmark = pytest.mark.django_db
HTML = b"<script>alert(1)</script>"


@pytest.fixture
def kept(tmp_path: Path, new_store: Callable[..., str], open_source: Callable[[str], str]) -> tuple[str, Path]:
    return beside(new_store("sqlite"), tmp_path, open_source)


@pytest.fixture
def ref(kept: tuple[str, Path], actor: Actor) -> SessionRef:
    """A session with two artifacts, and one whose file is not there."""
    ref = create_session(kept[0], "booking", "ana", session_id="s1", actor=actor)
    saving = Saving(kept[1])
    files = [
        ("user:a/logo.png", PNG, "image/png"),
        ("page.html", HTML, "text/html"),
        ("page.html", HTML * 2, "text/html"),
    ]
    for number, (name, content, mime_type) in enumerate(files):
        delta = {"artifact_delta": {name: saving.save(ref, name, content, mime_type)}}
        append_event(ref, {"id": f"e{number}", "author": "agent", "timestamp": 5.0, "actions": delta}, actor=actor)
    append_event(ref, {"id": "e9", "author": "agent", "actions": {"artifact_delta": {"gone": 3}}}, actor=actor)
    return ref


def test_artifacts_are_listed_with_their_last_versions(
    ref: SessionRef, reader: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(2):
        answer = reader.get(address(ref, "/artifacts")).json()
        assert (answer["next"], answer["behind"]) == (None, False)
        gone, page, logo = answer["items"]
        assert [each["name"] for each in answer["items"]] == ["gone", "page.html", "user:a/logo.png"]
        assert (gone["last"]["version"], gone["last"]["content"]["state"]) == (3, "missing")
        assert gone["last"]["content"]["size"] is None
        assert page == {
            "name": "page.html",
            "saves": 2,
            "last": {
                "version": 1,
                "event_id": "e2",
                "seq": page["last"]["seq"],
                "author": "agent",
                "timestamp": 5.0,
                "content": {
                    "state": "here",
                    "size": len(HTML) * 2,
                    "type": "text/html",
                    "image": "",
                    "text": True,
                    "changed": None,
                },
            },
        }
        assert logo["last"]["content"]["image"] == "image/png"
        feed(ref.source)
    monkeypatch.setattr(saved, "NAMES", 2)
    first = reader.get(address(ref, "/artifacts")).json()
    rest = reader.get(address(ref, "/artifacts"), before=first["next"]).json()
    assert {each["name"] for each in first["items"] + rest["items"]} == {"gone", "page.html", "user:a/logo.png"}


def test_versions_of_an_artifact_are_listed_and_those_that_are_kept(ref: SessionRef, reader: Program) -> None:
    answer = reader.get(address(ref, "/artifacts/versions"), name="page.html").json()
    assert [(each["version"], each["event_id"]) for each in answer["items"]] == [(1, "e2"), (0, "e1")]
    assert answer["kept"] == [1, 0]
    assert reader.get(address(ref, "/artifacts/versions"), name="../../x").json() == {"items": [], "kept": []}


def test_a_file_is_sent_whole_or_in_part(ref: SessionRef, reader: Program) -> None:
    def sent(**headers: str) -> tuple[int, bytes, dict[str, str]]:
        answer = reader.get(address(ref, "/artifacts/content"), name="user:a/logo.png", version=0, headers=headers)
        return answer.status, answer.content, answer.headers

    status, content, headers = sent()
    assert (status, content) == (200, PNG)
    assert headers["content-type"] == "application/octet-stream"
    assert headers["content-disposition"] == 'attachment; filename="logo.png"'
    assert "sandbox" in headers["content-security-policy"]
    assert sent(Range="bytes=2-4")[:2] == (206, PNG[2:5])
    status, _content, headers = sent(Range="bytes=999-")
    assert (status, headers["content-range"]) == (416, f"bytes */{len(PNG)}")


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ({"name": "gone", "version": 3}, 404),
        ({"name": "../../../../session.db", "version": 0}, 404),
        ({"name": "page.html", "version": 7}, 404),
        ({"name": "page.html", "version": -1}, 400),
        ({"name": "page.html"}, 400),
        ({"version": 0}, 400),
    ],
)
def test_what_is_not_there_is_not_sent(ref: SessionRef, reader: Program, query: dict[str, str], status: int) -> None:
    assert reader.get(address(ref, "/artifacts/content"), **query).status == status


@pytest.mark.parametrize(
    "tail", ["/artifacts", "/artifacts/versions?name=page.html", "/artifacts/content?name=page.html&version=0"]
)
def test_a_program_of_other_apps_and_one_without_a_token_learn_nothing(
    ref: SessionRef, guest: Program, new_token: Callable[..., str], tail: str, kept: tuple[str, Path]
) -> None:
    assert guest.get(address(ref, tail)).status == 401
    stranger = Program(new_token("read", "weather*"))
    answer = stranger.get(address(ref, tail))
    assert answer.status in (403, 404)
    assert b"page.html" not in answer.content.replace(tail.encode(), b"")
    never = ref._replace(session_id="never")
    Saving(kept[1]).save(never, "page.html", "text")
    assert Program(new_token("read")).get(address(never, tail)).status == 404
