"""The list of known sources: what a person named, and what was found in the folders that they named."""

import hashlib
import math
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from django.conf import settings
from django.db import connections
from django.utils.translation import gettext as _

from ..errors import SourceError
from . import finding
from .finding import SESSION_FILE, existing_file, is_badly_quoted, short, sqlite_path, without_password

RESCAN_SECONDS: Final = 2.0
_SCAN_SECONDS: Final = 0.04  # that a search may take; after a longer one, the next search is due later in proportion
# How long a read waits for another program's lock on a SQLite file. writes/rows.py waits longer.
_BUSY_SECONDS: Final = 3
_CONNECT_SECONDS: Final = 5


@dataclass(frozen=True, slots=True)
class Source:
    """A database that holds ADK's tables. `where` is its path, or its URL without the password."""

    alias: str
    where: str
    vendor: str


sources: dict[str, Source] = {}
searched_folders: list[Path] = []
UNOPENED: Final = (-1, -1)
# By alias, which file was opened: a developer may delete it and make it again.
opened_files: dict[str, tuple[int, int] | None] = {}
identities: dict[str, str] = {}  # by alias, what it stands for
lock = threading.RLock()
_found: dict[Path, Source] = {}  # the sources that were found in folders, by path
_refused: dict[str, str] = {}
_scanned, _took = 0.0, 0.0  # when the last search ended, and how many seconds it took


def add(text: str) -> list[Source]:
    """Registers what a user named: a folder (with every session.db in it, also those that appear later), a SQLite file,
    or a database URL. Raises SourceError if there is no such thing."""
    with lock:
        if "://" in text:
            return [_register_url(text)]
        path = Path(text).expanduser().absolute()
        if path.is_dir():
            searched_folders.append(path)
            return [_register_found(file) for file in finding.find(path)]
        return [_register_file(existing_file(path))]


def listed() -> list[Source]:
    """Returns every source, ordered by alias. Searches the folders again, so that a new agent's database appears by
    itself."""
    global _scanned, _took
    with lock:
        began = time.monotonic()
        due = began - _scanned > RESCAN_SECONDS * max(1.0, _took / _SCAN_SECONDS)
        if due:
            _scanned = math.inf  # one search at a time, and nobody waits for another's
    if due:
        try:
            files = [file for folder in searched_folders for file in finding.find(folder)]
        finally:
            _scanned = time.monotonic()
            _took = _scanned - began
        with lock:
            for file in files:
                _register_found(file)
    with lock:
        return sorted(sources.values(), key=lambda source: source.alias)


def refuse(text: str, why: str) -> None:
    """Keeps what a user named but is not a source, for the home page to show. Of a URL, keeps only the scheme: it may
    hold a password."""
    scheme, colon, _rest = text.partition("://")
    _refused[f"{scheme}://…" if colon else text] = why


def refused() -> list[tuple[str, str]]:
    """Returns what users named that is not a source, each with the reason."""
    return list(_refused.items())


def folders() -> list[str]:
    """Returns the folders that are searched, for an empty home page to name."""
    return [str(folder) for folder in searched_folders]


def identity(alias: str) -> str:
    """Returns what an alias stands for: a file's absolute path, or a URL without its password. Stays the same across
    restarts."""
    return identities.get(alias, "")


def alias_of(identity: str) -> str | None:
    """Returns the alias that now stands for this identity; None if no source has it."""
    return next((source.alias for source in listed() if identities[source.alias] == identity), None)


def _register_found(path: Path) -> Source:
    """Returns the source for a file that was found in a folder. Registers each path once: resolving one costs as much
    as finding it."""
    known = _found.get(path)
    if known is None or known.alias not in sources:
        known = _found[path] = _register_file(path, found=True)
    return known


def _register_file(path: Path, *, found: bool = False) -> Source:
    path = path.resolve()
    name = path.parent.parent.name if path.parts[-2:] == SESSION_FILE.parts else path.stem
    flags = "?mode=ro" if settings.READ_ONLY else "?mode=rw"
    return _register(
        Source(_alias(name, str(path)), short(path), "sqlite"),
        {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": path.as_uri() + flags,
            # IMMEDIATE: otherwise, as soon as two transactions meet, one that reads first and writes later fails. FULL:
            # with a write-ahead log, some builds of SQLite acknowledge commits that are not on the disk yet.
            # detect_types: times are read as they are stored; Django would turn adk-js's numbers into None.
            "OPTIONS": {
                "timeout": _BUSY_SECONDS,
                "transaction_mode": "IMMEDIATE",
                "init_command": "PRAGMA synchronous = FULL",
                "detect_types": 0,
            },
            "ADKWEB": {"path": str(path), "found": found},
        },
    )


def _register_url(text: str) -> Source:
    where, parts = without_password(text), _parts_of(text)
    scheme = parts.scheme.partition("+")[0]  # ADK's URLs name a driver: postgresql+asyncpg://
    if scheme == "sqlite":
        return _register_file(existing_file(sqlite_path(text)))
    if scheme not in ("postgresql", "postgres"):
        raise SourceError(
            _("%(scheme)s:// is not supported: a source is a folder, a SQLite file or a postgresql:// URL.")
            % {"scheme": parts.scheme}
        )
    try:
        port = parts.port or 5432
    except ValueError as error:
        raise SourceError(_("%(url)s: the port is not a number.") % {"url": where}) from error
    name = unquote(parts.path.lstrip("/"))
    if not name:
        raise SourceError(_("%(url)s names no database: postgresql://user@host/database") % {"url": where})
    alias = _alias(name, where)
    return _register(
        Source(alias, where, "postgresql"),
        {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": name,
            "USER": unquote(parts.username or ""),
            "PASSWORD": unquote(parts.password or ""),
            "HOST": parts.hostname or "",
            "PORT": str(port),
            "CONN_HEALTH_CHECKS": True,
            "OPTIONS": _options(alias, parts.query),
            "ADKWEB": {},
        },
    )


def _parts_of(text: str) -> SplitResult:
    """Returns the parts of a URL. Raises SourceError, which never quotes the password, for a text that is not a URL."""
    if "@" in text and is_badly_quoted(text):
        raise SourceError(
            _("%(url)s: in a password, / ? # and @ are written %%2F %%3F %%23 and %%40.")
            % {"url": without_password(text)}
        )
    try:
        return urlsplit(text)
    except ValueError as error:  # its message quotes the text, with the password
        raise SourceError(_("This is not a URL: %(error)s") % {"error": without_password(text)}) from error


def _options(alias: str, query: str) -> dict[str, Any]:
    """Returns the options by which Django connects to a PostgreSQL database: those of the URL, and a connection pool."""
    options: dict[str, Any] = {"connect_timeout": _CONNECT_SECONDS, **dict(parse_qsl(query))}
    if settings.READ_ONLY:
        options["options"] = f"{options.get('options', '')} -c default_transaction_read_only=on".strip()
    return {
        **options,
        "pool": {
            "min_size": 0,
            "max_size": settings.POOL_SIZE,
            "timeout": _CONNECT_SECONDS,
            # By default, the pool would retry an unreachable server less and less often. Here it gives up, and the next
            # request opens the source again, which fails or works at once.
            "reconnect_timeout": _CONNECT_SECONDS - 1,
            "reconnect_failed": lambda _pool: opened_files.pop(alias, None),
        },
        # This makes an append one prepared statement and one round trip. It is worth half of the speed of appending.
        "server_side_binding": True,
        "prepare_threshold": 3 if settings.PREPARED_STATEMENTS else None,
    }


def _register(source: Source, database: dict[str, Any]) -> Source:
    known = sources.get(source.alias)
    if known is not None:
        return known
    configured = connections.configure_settings({"default": connections.databases["default"], source.alias: database})
    connections.databases[source.alias] = configured[source.alias]
    sources[source.alias] = source
    return source


def _alias(name: str, identity: str) -> str:
    """Returns the plain name, or one with a hash if another source has it. Given the same sources, restarts do not
    change it."""
    plain = name.strip() or "source"
    marked = f"{plain}-{hashlib.sha256(identity.encode()).hexdigest()[:4]}"
    owner = connections.databases.get(plain)
    if plain == "default" or (owner is not None and identities.get(plain) != identity):
        plain = marked
    identities[plain] = identity
    return plain
