"""google-adk's own artifact service, called from tests that are not asynchronous, and the sources beside its files."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from google.adk.artifacts import FileArtifactService
from google.genai import types

from sessions_app.domain.session_ref import SessionRef

PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
    "1f15c4890000000d49444154789c63f8cf50df000004850181c6f83ee40000000049454e44ae426082"
)


class Saving:
    """One artifact service of google-adk on a folder, as an agent's process has it."""

    def __init__(self, folder: Path) -> None:
        self.service = FileArtifactService(root_dir=folder)

    def save(self, ref: SessionRef, name: str, content: bytes | str, mime_type: str = "", **more: Any) -> int:
        """Saves a version, as a text if the content is one. Returns its number."""
        if isinstance(content, str):
            part = types.Part(text=content)
        else:
            part = types.Part(inline_data=types.Blob(data=content, mime_type=mime_type, **more))
        return asyncio.run(self.service.save_artifact(filename=name, artifact=part, **_names(ref)))

    def versions(self, ref: SessionRef, name: str) -> list[int]:
        return asyncio.run(self.service.list_versions(filename=name, **_names(ref)))


def _names(ref: SessionRef) -> dict[str, Any]:
    return {"app_name": ref.app_name, "user_id": ref.user_id, "session_id": ref.session_id}


def beside(database: str, folder: Path, open_source: Callable[[str], str]) -> tuple[str, Path]:
    """Opens a copy of a SQLite database as `adk web` keeps it: in `booking/.adk/`. Returns its alias, and where the
    artifacts are."""
    own = folder / "agents" / "booking" / ".adk"
    own.mkdir(parents=True)
    return open_source(str(shutil.copy(database, own / "session.db"))), own / "artifacts"
