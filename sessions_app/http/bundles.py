"""Builds a style sheet and two scripts from the files that every page needs, so that a page requests three files
instead of sixty. Read and change the files in static/; the bundles are built when the process starts, without comments.

The lists have the files in the order in which a browser reads them.
"""

import atexit
import hashlib
import re
import shutil
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Final

import rjsmin
from django.conf import settings
from django.contrib.staticfiles import finders
from django.contrib.staticfiles.finders import AppDirectoriesFinder, FileSystemFinder
from django.contrib.staticfiles.storage import StaticFilesStorage
from django.core.files.storage import FileSystemStorage

_STYLES: Final = """
    tokens base layout menu html/shared html/controls session/timeline html/values html/forms html/notices html/markdown
    html/tables session/event session/chat session/trace edits/edit edits/queued html/live transfer/imports
    transfer/make_test access/tokens masking access/second_factor settings history/moment errors home/home
    checks/schema session/labels history/strip session/chosen_range history/pins drift agent_view html/difference
    history/history
    compare/compare compare/state artifacts edits/fork edits/log edits/undo edits/rewind audit
    checks/state_health session/page answers search/params search/palette
"""
_SCRIPTS: Final = """
    numbers dates editor edit types days statefilter densities window live strip striprange pins travel steps pane
    sessions range compare upload menu dialog keys panes combobox querybar palette rules focus time copy guard
    confirm fragment atchange turns timeline tabs toasts watching htmx-errors keycard rowsheet answers attach
    once ways
"""
BUNDLES: Final = {
    "css/pages.css": [f"css/{name}.css" for name in _STYLES.split()],
    "js/first.js": ["js/shared.js", "js/theme.js"],  # without defer: the browser waits for it
    "js/pages.js": ["js/trusted.js", "django_htmx/htmx-2.min.js", *(f"js/{name}.js" for name in _SCRIPTS.split())],
}
_COMMENTS: Final = re.compile(r"/\*.*?\*/", re.DOTALL)
_INDENTS: Final = re.compile(r"\n\s+")
_FONTS: Final = re.compile(r'(?<=url\("\.\./)vendor/[^"]+')


class Bundles(FileSystemFinder):
    """Finds the bundles, in a temporary folder of this process."""

    def __init__(self, *_args: Any) -> None:
        self._folder = tempfile.mkdtemp(prefix="adkweb-static-")
        atexit.register(shutil.rmtree, self._folder, ignore_errors=True)
        storage = FileSystemStorage(location=self._folder)
        storage.prefix = ""  # type: ignore[attr-defined]  # finders of Django have it
        self.locations = [("", self._folder)]
        self.storages = {self._folder: storage}
        for name in BUNDLES:
            self._make(name)

    def find(self, path: str, *args: Any, **options: Any) -> Any:
        """Returns the file of a bundle. In debug mode, it is built again each time."""
        if settings.DEBUG and path in BUNDLES:
            self._make(path)
        return super().find(path, *args, **options)

    def _make(self, name: str) -> None:
        file = Path(self._folder, name)
        file.parent.mkdir(exist_ok=True)
        file.write_text(bundle(name), "utf-8")


def bundle(name: str) -> str:
    """Returns the text of a bundle."""
    finders = FileSystemFinder(), AppDirectoriesFinder()
    paths = [next(filter(None, (finder.find(each) for finder in finders))) for each in BUNDLES[name]]
    text = "\n".join(Path(path).read_text("utf-8") for path in paths)
    if name.endswith(".js"):
        return str(rjsmin.jsmin(text))
    text = _FONTS.sub(lambda font: _versioned(str, font[0]), text)  # the address under which a page loads it first
    # A style sheet minifier would do, if it did not turn `.a :is(b)` into `.a:is(b)`.
    return _INDENTS.sub("\n", _COMMENTS.sub("", text)).lstrip()


# --- Addresses that change with the content, so that browsers may keep files for ever ---------------------------------


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
