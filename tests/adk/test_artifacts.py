"""A real Runner whose agent saves files with google-adk's own service: adkweb lists and reads them as they are."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path

import pytest
from google.adk.apps import App
from google.adk.artifacts import FileArtifactService
from google.adk.runners import Runner
from google.genai import types
from pytest_django import Settings

from sessions_app.access.actor import SYSTEM
from sessions_app.artifacts import contents, saved
from tests.adk.services import APP, USER, Adk, key_of
from tests.search.finding import feed

AGENTS = Path(__file__).resolve().parents[2] / "examples" / "agents"

# ADK and the demo agents warn that what they show is experimental.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")


def test_what_a_runner_saves_is_listed_with_its_versions_and_read_byte_by_byte(
    own: str,
    adopt: Callable[[], str],
    adk: Adk,
    tmp_path: Path,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(str(AGENTS))
    app = importlib.import_module("booking").agent.app
    assert isinstance(app, App)
    service = FileArtifactService(root_dir=tmp_path / "files")
    settings.ARTIFACTS = {"*": str(tmp_path / "files")}
    runner = Runner(app=app, session_service=adk.service, artifact_service=service)

    async def says(text: str) -> None:
        said = types.Content(role="user", parts=[types.Part(text=text)])
        async for _event in runner.run_async(user_id=USER, session_id="s1", new_message=said):
            pass

    adk.create(state={"user:name": "Ana", "user:tier": "gold"})
    ref = key_of(adopt())
    for text in ("Find me a flight from Lisbon to Seoul on 2026-12-01", "Book the cheapest one"):
        adk.run(says(text))
    for _ in range(2):
        adk.run(says("Show me my boarding pass"))
    for _ in range(2):
        (row,) = saved.listing(ref, actor=SYSTEM).rows
        assert (row.name, row.saves, row.last.version) == ("boarding-pass.png", 2, 1)
        for save in saved.versions(ref, row.name, actor=SYSTEM):
            assert save.version is not None
            assert save.author == "booking"
            loaded = service.load_artifact(
                app_name=APP, user_id=USER, session_id="s1", filename=row.name, version=save.version
            )
            part = adk.run(loaded)
            assert part
            assert part.inline_data
            content = contents.about(ref, row.name, save.version, actor=SYSTEM)
            assert (content.image, content.mime_type) == ("image/png", part.inline_data.mime_type)
            whole = b"".join(contents.pieces(ref, row.name, save.version, 0, content.size, actor=SYSTEM))
            assert whole == part.inline_data.data
        assert contents.stored_versions(ref, row.name, actor=SYSTEM) == [1, 0]
        feed(ref.source)
