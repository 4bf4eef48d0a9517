"""The demo: which source is the copy of it that adkweb keeps beside its own files."""

from pathlib import Path
from typing import Final

from django.conf import settings
from django.db import connections

from . import registry

BEST: Final = ("booking", "ana", "december-trip")  # app, user and session with a real failure; see examples/record.py
# Of its events: the one that failed, the one that made it fail by writing booking_step, and the one before that.
FAILED: Final = "6c0c8a2d-8a9c-4535-8c07-fca4630157b4"
CHANGED: Final = "4c5bdc64-932e-4a06-93aa-f5948218a7d6"
BEFORE: Final = "6a588442-7fa2-47cf-9af9-967524d8202d"


def file() -> Path:
    """Returns the path of the copy that can be edited, ~/.local/share/adkweb/demo.db; serve makes it."""
    return Path(settings.DATA_DIR) / "demo.db"


def artifacts() -> Path:
    """Returns the folder of the files that the agents of the demo saved; serve makes it, too."""
    return file().with_name("demo-artifacts")


def is_demo(alias: str) -> bool:
    """Returns whether a source is the demo. A demo.db elsewhere, such as ./demo.db, is someone's own."""
    config = connections.databases.get(alias, {}).get("ADKWEB", {})  # the alias in an address may not exist
    return bool(config.get("path") == str(file().resolve()))


def alias() -> str:
    """Returns the alias of the demo, or "" while it is not open."""
    with registry.lock:
        return next((alias for alias in registry.sources if is_demo(alias)), "")


def is_alone() -> bool:
    """Returns whether nothing but the demo is open, so that pages about all sources are about it."""
    with registry.lock:
        aliases = list(registry.sources)
    return bool(aliases) and all(is_demo(alias) for alias in aliases)
