"""google-adk's own artifact service, called from tests that are not asynchronous, and the sources beside its files."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from google.adk.artifacts import BaseArtifactService, FileArtifactService, GcsArtifactService
from google.genai import types

from sessions_app.artifacts import buckets
from sessions_app.domain.session_ref import SessionRef
from tests.servers import free_port

PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
    "1f15c4890000000d49444154789c63f8cf50df000004850181c6f83ee40000000049454e44ae426082"
)


class Saving:
    """One artifact service of google-adk on a folder, or a bucket (`gs://name`), as an agent's process has it."""

    def __init__(self, storage: Path | str) -> None:
        self.service: BaseArtifactService
        if isinstance(storage, str):
            self.service = GcsArtifactService(storage.removeprefix(buckets.SCHEME), project="test")
        else:
            self.service = FileArtifactService(root_dir=storage)

    def save(self, ref: SessionRef, name: str, content: bytes | str, mime_type: str = "", **more: Any) -> int:
        """Saves a version, as a text if the content is one. Returns its number."""
        if isinstance(content, str):
            part = types.Part(text=content)
        else:
            part = types.Part(inline_data=types.Blob(data=content, mime_type=mime_type, **more))
        return asyncio.run(self.service.save_artifact(filename=name, artifact=part, **_names(ref)))

    def refer(self, ref: SessionRef, name: str, address: str) -> int:
        """Saves an address as a version, without a content."""
        part = types.Part(file_data=types.FileData(file_uri=address, mime_type="application/octet-stream"))
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


@contextmanager
def cloud(settings: Any, patch: pytest.MonkeyPatch) -> Iterator[str]:
    """Runs an emulator of Google Cloud Storage in a thread, and names its bucket in ADKWEB_ARTIFACTS. Yields its URI."""
    from gcp_storage_emulator.server import create_server

    port = free_port()
    server = create_server("127.0.0.1", port, in_memory=True, default_bucket="kept")
    server.start()
    patch.setenv("STORAGE_EMULATOR_HOST", f"http://127.0.0.1:{port}")
    settings.ARTIFACTS = {"*": "gs://kept"}
    buckets.forget()
    try:
        yield "gs://kept"
    finally:
        server.stop()
        buckets.forget()
