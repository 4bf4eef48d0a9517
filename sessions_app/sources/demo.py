"""The demo: which source is the copy of it that adkweb keeps beside its own files."""

from pathlib import Path

from django.conf import settings

from . import registry


def file() -> Path:
    """Returns the path of the copy that can be edited, ~/.local/share/adkweb/demo.db; serve makes it."""
    return Path(settings.DATA_DIR) / "demo.db"


def is_demo(alias: str) -> bool:
    """Tells whether a source is the demo. A demo.db elsewhere, such as ./demo.db, is somebody's own."""
    return registry.identity(alias) == str(file().resolve())


def is_alone() -> bool:
    """Tells whether nothing but the demo is open, so that pages about all sources are about it."""
    with registry.lock:
        aliases = list(registry.sources)
    return bool(aliases) and all(is_demo(alias) for alias in aliases)
