"""A file, folder or URL becomes an open source: a database alias of Django's that holds ADK's tables.

`add` names sources, without touching them; `open_source` connects, recognises, creates or adopts. Sources are opened when
first needed and tried again with every request, so a server that was away is back as soon as it answers; files that appear
are opened by themselves (`open_new`).
"""

import hashlib
import logging
import math
import os
import sqlite3
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit
from weakref import WeakKeyDictionary

import psycopg
from django.conf import settings
from django.db import DatabaseError, DataError, IntegrityError, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created
from django.dispatch import receiver
from django.utils.translation import gettext as _

from . import adopt, complaints, online
from .errors import Invalid, NotAllowed, NotFound, SourceError

log = logging.getLogger("adkweb.sources")

DEPTH: Final = 4  # levels of folders searched for SESSION_FILE
SESSION_FILE: Final = Path(".adk/session.db")  # what `adk web` writes beside an agent
_SKIPPED: Final = {"node_modules", "__pycache__", ".git", ".venv", "venv"}
_RESCAN_SECONDS: Final = 2.0
_SCAN_SECONDS: Final = 0.04  # that a search may take; after a longer one the pause is longer in proportion
_RETRY_SECONDS: Final = 60.0  # for a file that cannot be opened and does not change
_LOOK_SECONDS: Final = 2.0  # between two looks whether a database was adopted meanwhile
_BUSY_SECONDS: Final = 3  # how long a read waits for another program's lock on a SQLite file; writes.py waits longer
_CONNECT_SECONDS: Final = 5


@dataclass(frozen=True, slots=True)
class Source:
    """A database that holds ADK's tables. `where` is its path or URL, without password."""

    alias: str
    where: str
    vendor: str


_sources: dict[str, Source] = {}
_folders: list[Path] = []
_UNOPENED: Final = (-1, -1)
_opened: dict[str, tuple[int, int] | None] = {}  # by alias, which file it was: a developer may delete and remake it
_files: WeakKeyDictionary[BaseDatabaseWrapper, tuple[int, int]] = WeakKeyDictionary()  # what each connection opened
_due: dict[str, float] = {}  # by alias, when it is looked at again whether it is adopted by now
_identity: dict[str, str] = {}  # what an alias stands for
_lock = threading.RLock()
_opening: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
_found: dict[Path, Source] = {}  # what folders hold, by where it was found
_tried: dict[str, tuple[object, float]] = {}  # by alias, what a file that cannot be opened was like, and when
_refused: dict[str, str] = {}
_unreadable: set[str] = set()  # folders, said once
_scanned, _took = 0.0, 0.0  # when the last search ended, and its seconds


def add(text: str) -> list[Source]:
    """Registers what a user named: a folder (every session.db under it, also those that appear later), a SQLite file or
    a database URL. Raises SourceError where there is no such thing.
    """
    with _lock:
        if "://" in text:
            return [_register_url(text)]
        path = Path(text).expanduser().absolute()
        if path.is_dir():
            _folders.append(path)
            return [_register_found(file) for file in _find(path)]
        return [_register_file(_existing_file(path))]


def sqlite_path(text: str) -> Path:
    """The file that a text names: a path, or a sqlite:/// URL, as SQLAlchemy reads it."""
    if "://" in text:
        text = unquote(urlsplit(text).path[1:])
    return Path(text).expanduser().absolute()


def listed() -> list[Source]:
    """Every source, by alias; folders are searched again, so a new agent's database appears by itself."""
    global _scanned, _took
    with _lock:
        began = time.monotonic()
        due = began - _scanned > _RESCAN_SECONDS * max(1.0, _took / _SCAN_SECONDS)
        if due:
            _scanned = math.inf  # one search at a time, and nobody waits for another's
    if due:
        try:
            files = [file for folder in _folders for file in _find(folder)]
        finally:
            _scanned = time.monotonic()
            _took = _scanned - began
        with _lock:
            for file in files:
                _register_found(file)
    with _lock:
        return sorted(_sources.values(), key=lambda source: source.alias)


def open_new() -> list[Source]:
    """Opens the files that have appeared, or were made anew, since the last time; those that it opened.

    Nothing is made in an empty file: its agent is about to do that. What cannot be opened is tried again once the file
    changes, and now and then.
    """
    opened = []
    for source in listed():
        if source.vendor != "sqlite" or _opened.get(source.alias, _UNOPENED) == _file_of(source):
            continue
        content, now = _content(connections.databases[source.alias]["ADKWEB"]["path"]), time.monotonic()
        before, tried = _tried.get(source.alias, (None, -math.inf))
        if not content or (content == before and now - tried < _RETRY_SECONDS):
            continue
        try:
            open_source(source)
        except SourceError:
            connections[source.alias].close()
            _tried[source.alias] = content, now
        else:
            _tried.pop(source.alias, None)
            opened.append(source)
    return opened


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


def get(alias: str, *, adopting: bool = False) -> Source:
    """One source, open and usable; raises NotFound, or SourceError saying what is wrong with it. As `open_source`."""
    source = _sources.get(alias) or next((s for s in listed() if s.alias == alias), None)
    if source is None:
        raise NotFound(_("There is no source “%(alias)s” here.") % {"alias": alias})
    open_source(source, adopting=adopting)
    return source


def identity(alias: str) -> str:
    """What an alias stands for, the same from start to start: a file's whole path, or a URL without its password."""
    return _identity.get(alias, "")


def alias_of(identity: str) -> str | None:
    """The alias that stands for this now; None where nobody named it."""
    return next((source.alias for source in listed() if _identity[source.alias] == identity), None)


def open_source(source: Source, *, adopting: bool = False) -> None:
    """Makes a source usable: an empty database gets ADK's tables, a SQLite file is adopted (neither when read-only).

    A PostgreSQL database of ADK's is adopted only with `adopting`: whoever owns it is asked first, and it can be read
    meanwhile. A database that was found in a folder is not given tables: its agent makes them, in the format of its own.
    """
    if _opened.get(source.alias, _UNOPENED) == _file_of(source):
        if adopting and not settings.READ_ONLY and not keeps_creations(source.alias):
            adopt_open(source.alias)
        elif time.monotonic() > _due.get(source.alias, math.inf):
            _look_again(source)
        return
    with _opening[source.alias]:  # one lock a source: a server that does not answer holds up nobody else
        file = _file_of(source)
        if _opened.get(source.alias, _UNOPENED) == file:
            return
        _opened.pop(source.alias, None)
        connections[source.alias].close()  # it may still hold the file that was there before
        with connected(source):
            shape = adopt.inspect(source.alias)
            found = connections.databases[source.alias]["ADKWEB"].get("found")
            if not settings.READ_ONLY and not (shape.empty and found):
                shape = _adopted(source, shape, adopting)
        if shape.empty:
            raise SourceError(_("%(where)s is empty: no agent has written here yet.") % {"where": source.where})
        _note(source, shape)
        _opened[source.alias] = file


def _adopted(source: Source, shape: adopt.Shape, adopting: bool) -> adopt.Shape:
    if shape.empty:
        adopt.create(source.alias, "sqlite" if source.vendor == "sqlite" else "database")
    elif source.vendor == "postgresql" and not adopting:
        return shape
    if adopt.missing(source.alias):
        # Where this user may not complete what an older adkweb adopted, it is served without.
        with suppress(SourceError) if shape.adopted else nullcontext():
            online.add(source.alias)
    return adopt.inspect(source.alias)


def adopt_open(alias: str, moved: online.Moved = lambda progress: None, *, patient: bool = False) -> None:
    """Adopts a source that is open, as far as it is not; others use it meanwhile. As `online.add`."""
    source = _sources[alias]
    try:
        with connected(source):
            online.add(alias, moved, patient=patient)
    finally:
        _look_again(source)


def _note(source: Source, shape: adopt.Shape) -> None:
    """Notes what a source looks like; one that adopting may still change is looked at again now and then."""
    connections.databases[source.alias]["ADKWEB"].update(
        real_times=shape.real_times,
        milliseconds=shape.milliseconds,
        begun=shape.begun,
        adopted=shape.adopted,
        creations=shape.creations,
    )
    unsettled = source.vendor == "postgresql" and not shape.creations
    _due[source.alias] = time.monotonic() + _LOOK_SECONDS if unsettled else math.inf


def _look_again(source: Source) -> None:
    _due[source.alias] = time.monotonic() + _LOOK_SECONDS
    with suppress(SourceError, DatabaseError):  # whoever asks for something next is told what is wrong
        _note(source, adopt.inspect(source.alias))


@contextmanager
def connected(source: Source) -> Iterator[None]:
    """For work on a source that is not open yet; what goes wrong becomes a SourceError that says where."""
    try:
        _connect_once(source)
        yield
    except (DatabaseError, psycopg.Error, sqlite3.Error) as error:
        connections[source.alias].close_if_unusable_or_obsolete()
        raise problem(source.alias, error) from error
    except SourceError as error:
        raise SourceError(f"{source.where}: {error.message}") from error


@contextmanager
def using(alias: str) -> Iterator[BaseDatabaseWrapper]:
    """A source's connection, opened; what the database answers badly becomes a SourceError that says what and where."""
    get(alias)
    connection = connections[alias]
    replaced = connection.connection is not None and _files.get(connection) != _opened.get(alias)
    if replaced and not connection.in_atomic_block:
        connection.close()  # this thread's still holds a file that is not there any more
    try:
        yield connection
    except IntegrityError:
        raise
    except DataError as error:  # U+0000 in a name, which no source holds: nothing is wrong with this one
        raise Invalid(str(error)) from error
    except DatabaseError as error:
        connection.close_if_unusable_or_obsolete()
        if any(sign in str(error) for sign in ("no such", "has no column", "does not exist")):
            _opened.pop(alias, None)  # released or made anew meanwhile: the next request looks again
        raise problem(alias, error) from error


@receiver(connection_created)
def _read_any_text(connection: BaseDatabaseWrapper, **_sent: Any) -> None:
    """SQLite's JSON functions make bytes that are no text from half of a surrogate pair, a title cut within an emoji say;
    it is read as “�”, and the source stays usable.
    """
    if connection.vendor == "sqlite" and "ADKWEB" in connection.settings_dict:
        _files[connection] = _file_at(connection.settings_dict["ADKWEB"].get("path", ""))
        connection.connection.text_factory = partial(str, encoding="utf-8", errors="replace")


def opened() -> list[Source]:
    """Every source that is open."""
    return [source for source in listed() if is_open(source.alias)]


def is_open(alias: str) -> bool:
    """Whether a source was opened, and its shape is known."""
    return alias in _opened


def is_adopted(alias: str) -> bool:
    """Whether an open source has adkweb's columns; without them, timestamp and id order the events."""
    return bool(connections.databases[alias]["ADKWEB"]["adopted"])


def is_begun(alias: str) -> bool:
    """Whether an open source's owner has agreed to adopting, be it done or not."""
    return bool(connections.databases[alias]["ADKWEB"]["begun"])


def may_write(alias: str) -> bool:
    """Whether adkweb writes to a source: one that is not adopted, or that was not opened yet, is only shown."""
    return is_open(alias) and is_adopted(alias) and not settings.READ_ONLY


@contextmanager
def writing(alias: str) -> Iterator[BaseDatabaseWrapper]:
    """As `using`, to write; raises NotAllowed for a source that is not adopted."""
    with using(alias) as connection:
        if not is_adopted(alias):
            raise NotAllowed(
                _("%(where)s is not adopted yet, so adkweb shows it and writes nothing: adkweb adopt %(where)s")
                % {"where": _sources[alias].where}
            )
        yield connection


def keeps_creations(alias: str) -> bool:
    """Whether an open source keeps between which events adkweb created a session."""
    return bool(connections.databases[alias]["ADKWEB"]["creations"])


def problem(alias: str, error: Exception) -> SourceError:
    """A database driver's error as a sentence that says what, where, and what to do."""
    source = _sources.get(alias)
    where = source.where if source else alias
    text = str(error).strip() or type(error).__name__
    log.warning("source %s (%s): %s", alias, where, text)
    if sentence := complaints.sentence(text):
        return SourceError(f"{where}: {sentence} ({text})", alias=alias)
    return SourceError(_("%(where)s cannot be used: %(error)s") % {"where": where, "error": text}, alias=alias)


def forget(alias: str) -> None:
    """Closes a source and takes it off the list."""
    with _lock:
        _sources.pop(alias, None)
        _opened.pop(alias, None)
        if alias in connections.databases:
            connection = connections[alias]
            connection.close()
            if hasattr(connection, "close_pool"):
                connection.close_pool()
            del connections[alias]
            del connections.databases[alias]


def _find(folder: Path, depth: int = DEPTH, top: Path | None = None) -> Iterator[Path]:
    """Every SESSION_FILE at most `depth` levels below a folder, the folder itself included. Links that lead out of it are
    not followed: a file elsewhere, which nobody named, would be opened and written to.
    """
    top = top or folder
    names: list[str] = []
    agent = False
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name == SESSION_FILE.parts[0]:
                    agent = True
                elif (
                    depth
                    and entry.name[0] != "."
                    and entry.name not in _SKIPPED
                    and entry.is_dir(follow_symlinks=False)
                ):
                    names.append(entry.name)
    except OSError as error:
        if str(error) not in _unreadable:
            _unreadable.add(str(error))
            log.warning("%s", error)
    if agent and (folder / SESSION_FILE).is_file() and not _leads_out(folder, top):
        yield folder / SESSION_FILE
    for name in sorted(names):
        yield from _find(folder / name, depth - 1, top)


def _leads_out(folder: Path, top: Path) -> bool:
    """Whether a folder's SESSION_FILE is, by a link, a file that is not below the folder `top`."""
    file = folder / SESSION_FILE
    linked = file.is_symlink() or file.parent.is_symlink()
    return linked and not file.resolve().is_relative_to(top.resolve())


def _register_found(path: Path) -> Source:
    """What stands in a folder, looked at once: to resolve a path costs as much as to find it."""
    known = _found.get(path)
    if known is None or known.alias not in _sources:
        known = _found[path] = _register_file(path, found=True)
    return known


def _existing_file(path: Path) -> Path:
    if path.is_dir():
        raise SourceError(_("%(path)s is a folder, not a file.") % {"path": path})
    if not path.exists():
        raise SourceError(
            _("%(path)s does not exist. To make a new database there: adkweb create %(path)s") % {"path": _short(path)}
        )
    return path


def _register_file(path: Path, *, found: bool = False) -> Source:
    path = path.resolve()
    name = path.parent.parent.name if path.parts[-2:] == SESSION_FILE.parts else path.stem
    flags = "?mode=ro" if settings.READ_ONLY else "?mode=rw"
    return _register(
        Source(_alias(name, str(path)), _short(path), "sqlite"),
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
    if "@" in text and _is_badly_quoted(text):
        raise SourceError(
            _("%(url)s: in a password, / ? # and @ are written %%2F %%3F %%23 and %%40.")
            % {"url": without_password(text)}
        )
    try:
        parts = urlsplit(text)
    except ValueError as error:  # it quotes the text, a password with it
        raise SourceError(_("This is not a URL: %(error)s") % {"error": without_password(text)}) from error
    scheme = parts.scheme.partition("+")[0]  # ADK's URLs name a driver: postgresql+asyncpg://
    if scheme == "sqlite":
        return _register_file(_existing_file(sqlite_path(text)))
    if scheme not in ("postgresql", "postgres"):
        raise SourceError(
            _("%(scheme)s:// is not supported: a source is a folder, a SQLite file or a postgresql:// URL.")
            % {"scheme": parts.scheme}
        )
    try:
        port = parts.port or 5432
    except ValueError as error:
        raise SourceError(_("%(url)s: the port is not a number.") % {"url": without_password(text)}) from error
    name = unquote(parts.path.lstrip("/"))
    if not name:
        raise SourceError(
            _("%(url)s names no database: postgresql://user@host/database") % {"url": without_password(text)}
        )
    options: dict[str, Any] = dict(parse_qsl(parts.query))
    options.setdefault("connect_timeout", _CONNECT_SECONDS)
    if settings.READ_ONLY:
        options["options"] = f"{options.get('options', '')} -c default_transaction_read_only=on".strip()
    alias = _alias(name or "postgresql", without_password(text))
    return _register(
        Source(alias, without_password(text), "postgresql"),
        {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": name,
            "USER": unquote(parts.username or ""),
            "PASSWORD": unquote(parts.password or ""),
            "HOST": parts.hostname or "",
            "PORT": str(port),
            "CONN_HEALTH_CHECKS": True,
            "OPTIONS": {
                **options,
                "pool": {
                    "min_size": 0,
                    "max_size": settings.POOL_SIZE,
                    "timeout": _CONNECT_SECONDS,
                    # By itself the pool would try a server that is away ever more rarely. Instead it gives up, and the
                    # next request opens the source anew, which fails at once or works at once.
                    "reconnect_timeout": _CONNECT_SECONDS - 1,
                    "reconnect_failed": lambda _pool: _opened.pop(alias, None),
                },
                # An append is one prepared statement, one round trip: this alone is worth half its speed.
                "server_side_binding": True,
                "prepare_threshold": 3 if settings.PREPARED_STATEMENTS else None,
            },
            "ADKWEB": {},
        },
    )


def _register(source: Source, database: dict[str, Any]) -> Source:
    known = _sources.get(source.alias)
    if known is not None:
        return known
    configured = connections.configure_settings({"default": connections.databases["default"], source.alias: database})
    connections.databases[source.alias] = configured[source.alias]
    _sources[source.alias] = source
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


def _connect_once(source: Source) -> None:
    """Connects without the pool, which would hide why it cannot behind its own time-out."""
    connection = connections[source.alias]
    if source.vendor == "postgresql":
        psycopg.connect(**connection.get_connection_params() | {"autocommit": True}).close()
        return
    path = Path(connection.settings_dict["ADKWEB"]["path"])
    if not path.exists():
        raise SourceError(_("the file is gone."))
    if path.is_dir():
        raise SourceError(_("this is a folder, not a file."))


def _file_of(source: Source) -> tuple[int, int] | None:
    """Which file a SQLite source is just now, as device and inode; None for a server."""
    if source.vendor != "sqlite":
        return None
    return _file_at(connections.databases[source.alias]["ADKWEB"]["path"])


def _file_at(path: str) -> tuple[int, int]:
    try:
        found = os.stat(path)
    except OSError:
        return -2, -2  # gone: it is opened anew, which says so
    return found.st_dev, found.st_ino


def _content(path: str) -> object:
    """What differs once something was written to a SQLite file, or to its log; None while nothing is in it."""
    if not _size(path)[0]:
        return None
    return _file_at(path), _size(path), _size(f"{path}-wal")


def _size(path: str) -> tuple[int, int]:
    try:
        found = os.stat(path)
    except OSError:
        return 0, 0
    return found.st_size, found.st_mtime_ns


def without_password(url: str) -> str:
    """A database's URL as it may be shown: user, host and name; of one that is badly quoted neither, as any of them may be a
    piece of the password.
    """
    if _is_badly_quoted(url):
        return f"{url.partition('://')[0]}://…"
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    user = f"{parts.username}@" if parts.username else ""
    scheme = "postgresql" if parts.scheme.startswith("postgres") else parts.scheme
    return f"{scheme}://{user}{host}{parts.path}"


def _is_badly_quoted(url: str) -> bool:
    """Whether a URL's password may have ended its host too early: postgresql://u:pa/ssw@host/db has the host “u”."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return True
    options = [option for option in parts.query.split("&") if "=" not in option]
    return ":" in parts.netloc and "@" in "".join([parts.path, parts.fragment, *options])


def _short(path: Path) -> str:
    """A path as a person would write it: from here, or from home."""
    for base, sign in ((Path.cwd(), ""), (Path.home(), "~/")):
        if path.is_relative_to(base):
            return sign + str(path.relative_to(base))
    return str(path)
