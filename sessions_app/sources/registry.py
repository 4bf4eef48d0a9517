"""The sources that are known: added, named, listed."""

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

_RESCAN_SECONDS: Final = 2.0
_SCAN_SECONDS: Final = 0.04  # that a search may take; after a longer one the pause is longer in proportion
_BUSY_SECONDS: Final = (
    3  # how long a read waits for another program's lock on a SQLite file; writes/rows.py waits longer
)
_CONNECT_SECONDS: Final = 5


@dataclass(frozen=True, slots=True)
class Source:
    """A database that holds ADK's tables. `where` is its path or URL, without password."""

    alias: str
    where: str
    vendor: str


sources: dict[str, Source] = {}
_folders: list[Path] = []
UNOPENED: Final = (-1, -1)
opened_files: dict[
    str, tuple[int, int] | None
] = {}  # by alias, which file it was: a developer may delete and remake it
_identity: dict[str, str] = {}  # what an alias stands for
lock = threading.RLock()
_found: dict[Path, Source] = {}  # what folders hold, by where it was found
_refused: dict[str, str] = {}
_scanned, _took = 0.0, 0.0  # when the last search ended, and its seconds


def add(text: str) -> list[Source]:
    """Registers what a user named: a folder (every session.db under it, also those that appear later), a SQLite file or
    a database URL. Raises SourceError where there is no such thing.
    """
    with lock:
        if "://" in text:
            return [_register_url(text)]
        path = Path(text).expanduser().absolute()
        if path.is_dir():
            _folders.append(path)
            return [_register_found(file) for file in finding.find(path)]
        return [_register_file(existing_file(path))]


def listed() -> list[Source]:
    """Every source, by alias; folders are searched again, so a new agent's database appears by itself."""
    global _scanned, _took
    with lock:
        began = time.monotonic()
        due = began - _scanned > _RESCAN_SECONDS * max(1.0, _took / _SCAN_SECONDS)
        if due:
            _scanned = math.inf  # one search at a time, and nobody waits for another's
    if due:
        try:
            files = [file for folder in _folders for file in finding.find(folder)]
        finally:
            _scanned = time.monotonic()
            _took = _scanned - began
        with lock:
            for file in files:
                _register_found(file)
    with lock:
        return sorted(sources.values(), key=lambda source: source.alias)


def refuse(text: str, why: str) -> None:
    """Keeps what was named and is no source, for home to show; of a URL its scheme alone: it may hold a password."""
    scheme, colon, _rest = text.partition("://")
    _refused[f"{scheme}://…" if colon else text] = why


def refused() -> list[tuple[str, str]]:
    """What was named and is no source, and why."""
    return list(_refused.items())


def folders() -> list[str]:
    """The folders that are searched, for an empty home page to name."""
    return [str(folder) for folder in _folders]


def identity(alias: str) -> str:
    """What an alias stands for, the same from start to start: a file's whole path, or a URL without its password."""
    return _identity.get(alias, "")


def alias_of(identity: str) -> str | None:
    """The alias that stands for this now; None where nobody named it."""
    return next((source.alias for source in listed() if _identity[source.alias] == identity), None)


def _register_found(path: Path) -> Source:
    """What stands in a folder, looked at once: to resolve a path costs as much as to find it."""
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
            # IMMEDIATE: a transaction that reads first and writes later would fail as soon as two of them meet.
            # FULL: some builds of SQLite acknowledge what is not on the disk yet where a file has a write-ahead log.
            # detect_types: times are read as they are stored; Django would make None of adk-js's numbers.
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
    """Returns the parts of a URL. Raises SourceError for what is none, without the password."""
    if "@" in text and is_badly_quoted(text):
        raise SourceError(
            _("%(url)s: in a password, / ? # and @ are written %%2F %%3F %%23 and %%40.")
            % {"url": without_password(text)}
        )
    try:
        return urlsplit(text)
    except ValueError as error:  # it quotes the text, a password with it
        raise SourceError(_("This is not a URL: %(error)s") % {"error": without_password(text)}) from error


def _options(alias: str, query: str) -> dict[str, Any]:
    """Returns how Django connects to a PostgreSQL database: as the URL asks for, from a pool."""
    options: dict[str, Any] = {"connect_timeout": _CONNECT_SECONDS, **dict(parse_qsl(query))}
    if settings.READ_ONLY:
        options["options"] = f"{options.get('options', '')} -c default_transaction_read_only=on".strip()
    return {
        **options,
        "pool": {
            "min_size": 0,
            "max_size": settings.POOL_SIZE,
            "timeout": _CONNECT_SECONDS,
            # By itself the pool would try a server that is away ever more rarely. Instead it gives up, and the next
            # request opens the source anew, which fails at once or works at once.
            "reconnect_timeout": _CONNECT_SECONDS - 1,
            "reconnect_failed": lambda _pool: opened_files.pop(alias, None),
        },
        # An append is one prepared statement, one round trip: this alone is worth half its speed.
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
    """The plain name, or with a hash where another source has it: the same from start to start, given the same sources."""
    plain = name.strip() or "source"
    marked = f"{plain}-{hashlib.sha256(identity.encode()).hexdigest()[:4]}"
    owner = connections.databases.get(plain)
    if plain == "default" or (owner is not None and _identity.get(plain) != identity):
        plain = marked
    _identity[plain] = identity
    return plain
