"""Gives static files an address that changes with their content, so that browsers may keep them for ever."""

import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path

from django.conf import settings
from django.contrib.staticfiles import finders
from django.contrib.staticfiles.storage import StaticFilesStorage


class VersionedStaticFiles(StaticFilesStorage):
    """Adds the start of the content's hash to an address, without a collectstatic step or renamed files."""

    def url(self, name: str | None) -> str:
        """Returns a file's address."""
        return _versioned(super().url, name or "")


def _add_hash(url: Callable[[str], str], name: str) -> str:
    path = finders.find(name)
    version = hashlib.sha256(Path(path).read_bytes()).hexdigest()[:10] if isinstance(path, str) else "0"
    return f"{url(name)}?v={version}"


_versioned = _add_hash if settings.DEBUG else cache(_add_hash)  # a page names forty files
