"""The list of known sources: what a person named, and what was found in the folders that they named."""

import hashlib
import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from django.conf import settings
from django.db import connections
from django.utils.translation import gettext as _

from ..access.actor import read_only_sources
from ..domain.errors import SourceError
from . import dialect, finding, urls
from .finding import SESSION_FILE, existing_file, short

RESCAN_SECONDS: Final = 2.0
_SCAN_SECONDS: Final = 0.04  # that a search may take; after a longer one, the next search is due later in proportion
# How long a read waits for another program's lock on a SQLite file. writes/rows.py waits longer.
BUSY_SECONDS: Final = 3
_CONNECT_SECONDS: Final = 5


@dataclass(frozen=True, slots=True)
class Source:
    """A database that holds ADK's tables. `where` is its path, or its URL without the password."""

    alias: str
    where: str
    vendor: str

    @property
    def dialect(self) -> dialect.Dialect:
        """Returns what its database can do. Once it is open, dialect.of knows whether its events have numbers."""
        return dialect.BY_VENDOR[self.vendor]


sources: dict[str, Source] = {}
searched_folders: list[Path] = []
UNOPENED: Final = (-1, -1)
# By alias, which file was opened: a developer may delete it and create it again.
opened_files: dict[str, object] = {}
identities: dict[str, str] = {}  # by alias, which source it is: identity.py decides that when it opens one
opener: Callable[[str], object] | None = None  # opens the source with an alias, and finds out which it is
_addresses: dict[str, str] = {}  # by alias, its path or URL
lock = threading.RLock()
_found: dict[Path, Source] = {}  # the sources that were found in folders, by path
refusals: dict[str, str] = {}  # what a user named that is not served, and why
_scanned, _took = 0.0, 0.0  # when the last search ended, and how many seconds it took


def add(text: str) -> list[Source]:
    """Registers what a user named: a folder (with every session.db in it, also those that appear later), a SQLite file,
    or a database URL. Raises SourceError if there is no such thing."""
    with lock:
        named = urls.read(text)
        if isinstance(named, urls.Server):
            return [_register_server(named)]
        if named.path.is_dir() and not urls.is_url(text):
            searched_folders.append(named.path)
            return [_register_found(file) for file in finding.find(named.path)]
        before = set(sources)
        source = _register_file(existing_file(named.path), named)
        if source.alias in before and str(named.path) != connections.databases[source.alias]["ADKWEB"]["path"]:
            why = _("This is the same file as “%(alias)s”, so it is shown only once.") % {"alias": source.alias}
            refuse(str(named.path), why)
        return [source]


def listed() -> list[Source]:
    """Returns every source, ordered by alias. Searches the folders again, so that a new agent's database appears
    automatically."""
    global _scanned, _took
    with lock:
        began = time.monotonic()
        due = began - _scanned > RESCAN_SECONDS * max(1.0, _took / _SCAN_SECONDS)
        if due:
            _scanned = math.inf  # one search at a time, and no one waits for another's
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
    """Remembers what a user named but is not served, for pages to show; a URL without its password."""
    refusals[urls.without_password(text) if urls.is_url(text) else text] = why


def refused() -> list[tuple[str, str]]:
    """Returns what users named that is not a source, each with the reason."""
    return list(refusals.items())


def urls_beside(alias: str) -> set[str]:
    """Returns the URLs of all sources but one, as users named them: they may hold passwords."""
    return {address for other, address in _addresses.items() if other != alias and "://" in address}


def folders() -> list[str]:
    """Returns the folders that are searched, for an empty home page to name."""
    return [str(folder) for folder in searched_folders]


def identity(alias: str) -> str:
    """Returns the identity of the source with an alias: the `where` of adkweb's own tables. It never changes, whatever
    the source's address.

    Opens a source that isn't open yet. Raises NotFound, and SourceError while the identity can't be known: never treat
    that as a source without any data."""
    known = identities.get(alias)
    if known is None and opener:
        opener(alias)
        known = identities.get(alias)
    if known is None:
        where = sources[alias].where if alias in sources else alias
        raise SourceError(
            _("%(where)s: adkweb couldn't look up this source in its own database. Try again.") % {"where": where},
            alias=alias,
        )
    return known


def aliases() -> dict[str, str]:
    """Returns the aliases of the listed sources by their identities, as far as known: of those that were opened
    before."""
    return {identities[source.alias]: source.alias for source in listed() if source.alias in identities}


def alias_of(identity: str) -> str | None:
    """Returns the current alias of this identity; None if no source is known to have it."""
    return aliases().get(identity)


def _register_found(path: Path) -> Source:
    """Returns the source for a file that was found in a folder. Registers each path once: resolving one costs as much
    as finding it."""
    known = _found.get(path)
    if known is None or known.alias not in sources:
        known = _found[path] = _register_file(path, found=True)
    return known


def _register_file(path: Path, named: urls.File | None = None, *, found: bool = False) -> Source:
    path = path.resolve()
    path = _linked(path) or path
    immutable = named is not None and named.immutable
    asked = named is not None and named.read_only
    read_only = settings.READ_ONLY or asked
    name = path.parent.parent.name if path.parts[-2:] == SESSION_FILE.parts else path.stem
    return _register(
        Source(_alias(name, str(path)), short(path), "sqlite"),
        {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": urls.File(path, read_only, immutable).uri,
            # IMMEDIATE: otherwise, as soon as two transactions meet, one that reads first and writes later fails. FULL:
            # with a write-ahead log, some builds of SQLite acknowledge commits that are not on the disk yet.
            # detect_types: times are read as they are stored; Django would turn adk-js's numbers into None.
            "OPTIONS": {
                "timeout": BUSY_SECONDS,
                "transaction_mode": "IMMEDIATE",
                "init_command": "PRAGMA synchronous = FULL",
                "detect_types": 0,
            },
            "ADKWEB": {"path": str(path), "found": found, "read_only": read_only, "immutable": immutable},
        },
        read_only=asked,
    )


def _linked(path: Path) -> Path | None:
    """Returns the path of the source that already has the file at a path, by a hard link. SQLite would damage a file
    that is open by two names."""
    if path.exists() and path.stat().st_nlink > 1:
        for alias in sources:
            other = connections.databases[alias]["ADKWEB"].get("path", "")
            if other and Path(other).exists() and path.samefile(other):
                return Path(other)
    return None


def _register_server(server: urls.Server) -> Source:
    parameters = dict(server.parameters)
    alias = _alias(server.name or parameters["service"], server.where)
    read_only = settings.READ_ONLY or server.read_only
    prepares = settings.PREPARED_STATEMENTS if server.prepares else False
    return _register(
        Source(alias, server.where, "postgresql"),
        {
            "ENGINE": "adkweb.postgresql",
            "NAME": server.name,
            "USER": parameters.pop("user", ""),
            "PASSWORD": parameters.pop("password", ""),
            "HOST": parameters.pop("host", ""),
            "PORT": parameters.pop("port", ""),
            "CONN_HEALTH_CHECKS": True,
            "DISABLE_SERVER_SIDE_CURSORS": True,  # a pooler would lose their rows
            "OPTIONS": _options(alias, parameters, prepares=prepares),
            "ADKWEB": {"read_only": read_only, "prepares": prepares},
        },
        read_only=server.read_only,
    )


def _options(alias: str, parameters: dict[str, str], *, prepares: bool | None) -> dict[str, Any]:
    """Returns the options by which Django connects to a PostgreSQL database: libpq's, and a connection pool."""
    return {
        "connect_timeout": _CONNECT_SECONDS,
        **parameters,
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
        # adkweb.postgresql takes it back behind a pooler.
        "prepare_threshold": None if prepares is False else 3,
    }


def _register(source: Source, database: dict[str, Any], *, read_only: bool) -> Source:
    """Registers a source; `read_only`: its address says so."""
    if read_only:
        read_only_sources.add(source.alias)
    known = sources.get(source.alias)
    wishes = database["ADKWEB"]["read_only"]
    if known is not None and (not wishes or connections.databases[source.alias]["ADKWEB"]["read_only"]):
        return known
    configured = connections.configure_settings({"default": connections.databases["default"], source.alias: database})
    if known is None:
        connections.databases[source.alias] = configured[source.alias]
    else:  # it was named earlier, and now as read-only
        opened_files.pop(source.alias, None)
        connection: Any = connections[source.alias]
        if hasattr(connection, "close_pool"):
            connection.close_pool()
        connections.databases[source.alias].update(configured[source.alias])
    sources[source.alias] = source
    return source


def _alias(name: str, address: str) -> str:
    """Returns the plain name, or one with a hash if another source has it. Given the same sources, restarts do not
    change it."""
    plain = name.strip() or "source"
    marked = f"{plain}-{hashlib.sha256(address.encode()).hexdigest()[:4]}"
    owner = connections.databases.get(plain)
    if plain == "default" or (owner is not None and _addresses.get(plain) != address):
        plain = marked
    _addresses[plain] = address
    return plain
