"""An agent's folder, as `adk web` leaves it, and a source that is opened by its name."""

from __future__ import annotations

from pathlib import Path

from sessions_app.sources import database, registry
from sessions_app.sources.registry import Source
from tests.adk.services import Adk


def agent(folder: Path, name: str = "agent") -> Path:
    """An agent's folder with the database that `adk web` writes beside it."""
    file = folder / name / ".adk" / "session.db"
    file.parent.mkdir(parents=True)
    adk = Adk("sqlite", str(file))
    adk.append(adk.create(), f"Hello from {name}")
    adk.close()
    return file


def opened(text: str) -> Source:
    """A named source, opened."""
    (source,) = registry.add(text)
    database.open_source(source)
    return source
