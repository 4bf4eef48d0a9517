"""An open database: its connections, how far it is adopted, and whether adkweb may write to it."""

import math
import sqlite3
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final
from weakref import WeakKeyDictionary

import psycopg
from django.conf import settings
from django.db import DatabaseError, DataError, IntegrityError, OperationalError, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created
from django.dispatch import receiver
from django.utils.translation import gettext as _

from ..access.actor import SYSTEM, Actor, read_only_sources
from ..domain.errors import Invalid, NotAllowed, NotFound, SourceError
from . import adoption, dialect, errors, hung, identity, online, registry
from .files import choose_mode, content_of, file_of
from .finding import in_shell, log
from .registry import UNOPENED, Source, lock, opened_files
from .steps import Moved

RETRY_SECONDS: Final = 60.0  # until a file that could not be opened, and has not changed, is tried again
VERSION_SECONDS: Final = 10.0  # between two checks, before a write, of the version of ADK's schema
LOOK_SECONDS: Final = 2.0  # between two checks whether another process has adopted a database in the meantime
_files: WeakKeyDictionary[BaseDatabaseWrapper, object] = WeakKeyDictionary()  # what each connection opened
due: dict[str, float] = {}  # by alias, when to check again whether it has been adopted
versions_due: dict[str, float] = {}  # by alias, when to check the version of ADK's schema again
_opening: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
locked_files: set[str] = set()  # aliases of files that another program held locked as they were opened
_tried: dict[str, tuple[object, float]] = {}  # by alias, the state of a file that can't be opened, and when
_problems: dict[str, str] = {}  # by alias, why a source could not be opened the last time


def open_new() -> list[Source]:
    """Opens the files that have appeared, or were replaced, since the last call, and servers that were not reached yet.
    Returns the sources that it opened.

    An empty file is left alone: its agent is about to create the tables. What cannot be opened is tried again every
    RETRY_SECONDS, and a file once it changes."""
    opened = []
    for source in registry.listed():
        if opened_files.get(source.alias, UNOPENED) == file_of(source.alias):
            continue
        path = connections.databases[source.alias]["ADKWEB"].get("path")
        content, now = content_of(path) if path else source.where, time.monotonic()
        before, tried = _tried.get(source.alias, (None, -math.inf))
        if not content or (content == before and now - tried < RETRY_SECONDS):
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


def get(alias: str, *, adopting: bool = False) -> Source:
    """Returns a source, opened as by `open_source`. Raises NotFound, or SourceError, which says what is wrong with
    it."""
    source = registry.sources.get(alias) or next((s for s in registry.listed() if s.alias == alias), None)
    if source is None:
        raise NotFound(_("There's no source “%(alias)s”.") % {"alias": alias})
    open_source(source, adopting=adopting)
    return source


def open_source(source: Source, *, adopting: bool = False) -> None:
    """Makes a source usable: creates ADK's tables in an empty database, and adopts a SQLite file (neither if
    read-only).

    Adopts a PostgreSQL database only with `adopting`: its owner is asked first, and it can be read in the meantime.
    Creates no tables in a database that was found in a folder: its agent does that, in its own format."""
    choose_mode(source.alias)
    if opened_files.get(source.alias, UNOPENED) == file_of(source.alias):
        if adopting and not why_shown(source.alias) and not keeps_creations(source.alias):
            adopt_open(source.alias)
        elif time.monotonic() > due.get(source.alias, math.inf):
            _look_again(source)
        elif identity.is_unsettled(source.alias):
            with connected(source):
                identity.identify(source, writes=may_write(source.alias), again=True)
        return
    try:
        _open(source, adopting)
    except SourceError as error:
        if "empty" not in error.detail:
            _problems[source.alias] = error.message
        if source.alias in identity.duplicates:
            registry.refusals[source.where] = error.message
            forget(source.alias)
        raise
    _problems.pop(source.alias, None)


def _open(source: Source, adopting: bool) -> None:
    with _opening[source.alias]:  # one lock per source: a server that does not answer delays no other source
        file = file_of(source.alias)
        if opened_files.get(source.alias, UNOPENED) == file:
            return
        opened_files.pop(source.alias, None)
        locked_files.discard(source.alias)
        connections[source.alias].close()  # it may still hold the file that was there before
        with connected(source):
            shape = adoption.inspect(source.alias)
            found = connections.databases[source.alias]["ADKWEB"].get("found")
            if not is_read_only(source.alias) and not (shape.empty and found):
                shape = _adopted(source, shape, adopting)
            if not shape.empty:
                identity.identify(source, writes=shape.adopted and not is_read_only(source.alias))
        if shape.empty:
            raise SourceError(
                _("%(where)s is empty: no agent has written to it yet.") % {"where": source.where}, empty=True
            )
        _note(source, shape)
        opened_files[source.alias] = file


def _adopted(source: Source, shape: adoption.Shape, adopting: bool) -> adoption.Shape:
    if shape.empty:
        adoption.create(source.alias)
    elif (source.dialect.waits_for_owner and not adopting) or not shape.agreed:
        return shape
    if adoption.missing(source.alias):
        try:
            online.add(source.alias)
        except SourceError:
            if not shape.adopted:
                raise  # else this user may not add the rest: it is used without
        except OperationalError as error:
            if "locked" not in str(error) or shape.empty:
                raise
            log.info("%s: another program holds it locked, so it is only shown for now", source.where)
            locked_files.add(source.alias)
    elif shape.creations:  # which adopting adds last, so nothing is missing
        return shape
    return adoption.inspect(source.alias)


def adopt_open(alias: str, moved: Moved = lambda progress: None, *, patient: bool = False) -> None:
    """Adds what is still missing in an open source, while others use it. Arguments and errors are those of
    `online.add`."""
    source = registry.sources[alias]
    try:
        with connected(source):
            online.add(alias, moved, patient=patient)
        locked_files.discard(alias)
    finally:
        _look_again(source)


def _note(source: Source, shape: adoption.Shape) -> None:
    """Records the shape of a source. One that adopting may still change is checked again every LOOK_SECONDS."""
    connections.databases[source.alias]["ADKWEB"].update(
        real_times=shape.real_times,
        milliseconds=shape.milliseconds,
        begun=shape.begun,
        adopted=shape.adopted,
        creations=shape.creations,
        written=shape.written,
        ordered=shape.ordered,
        newer=shape.newer,
        agreed=shape.agreed,
        versioned=shape.versioned,
    )
    versions_due[source.alias] = time.monotonic() + VERSION_SECONDS
    unsettled = source.dialect.waits_for_owner and (not shape.creations or source.alias in identity.standbys)
    unsettled = unsettled or not shape.agreed
    due[source.alias] = time.monotonic() + LOOK_SECONDS if unsettled else math.inf


def _look_again(source: Source) -> None:
    due[source.alias] = time.monotonic() + LOOK_SECONDS
    with suppress(SourceError, DatabaseError):  # the next request reports what is wrong
        shape = adoption.inspect(source.alias)
        # Another process may have adopted it, and a standby may have been promoted.
        identity.identify(source, writes=shape.adopted and not is_read_only(source.alias), again=True)
        _note(source, shape)


@contextmanager
def connected(source: Source) -> Iterator[None]:
    """Connects to a source that is not open yet. Turns what goes wrong into a SourceError that says where."""
    try:
        with nullcontext() if source.dialect.is_file else hung.watched(source.alias):
            _connect_once(source)
            yield
    except (DatabaseError, psycopg.Error, sqlite3.Error, UnicodeError) as error:
        connections[source.alias].close_if_unusable_or_obsolete()
        raise problem(source.alias, error) from error
    except SourceError as error:
        raise SourceError(f"{source.where}: {error.message}", **error.detail) from error


@contextmanager
def using(alias: str) -> Iterator[BaseDatabaseWrapper]:
    """Yields a connection to a source, after opening it. Turns database errors into a SourceError that says what and
    where."""
    source = registry.sources.get(alias)
    with hung.watched(alias) if source and not source.dialect.is_file else nullcontext(), _used(alias) as connection:
        yield connection


@contextmanager
def _used(alias: str) -> Iterator[BaseDatabaseWrapper]:
    get(alias)
    connection = connections[alias]
    replaced = connection.connection is not None and _files.get(connection) != opened_files.get(alias)
    if replaced and not connection.in_atomic_block:
        connection.close()  # this thread's connection still holds a file that no longer exists
    try:
        yield connection
    except IntegrityError:
        raise
    except DataError as error:  # U+0000 in a name: no source can hold it, and nothing is wrong with this one
        raise Invalid(str(error)) from error
    except DatabaseError as error:
        connection.close_if_unusable_or_obsolete()
        if any(sign in str(error) for sign in ("no such", "has no column", "does not exist")):
            opened_files.pop(alias, None)  # released or replaced in the meantime: the next request opens it again
        raise problem(alias, error) from error


@receiver(connection_created)
def _read_any_text(connection: BaseDatabaseWrapper, **_sent: Any) -> None:
    """Reads bytes that are not valid UTF-8 as “�”.

    SQLite's JSON functions return such bytes for half of a surrogate pair, as in a title that was cut within an emoji.
    Without this, one such value would make the whole query fail."""
    if "path" in connection.settings_dict.get("ADKWEB", ()):
        _files[connection] = file_of(connection.alias)
        connection.connection.text_factory = partial(str, encoding="utf-8", errors="replace")


def unserved(*, actor: Actor) -> list[tuple[str, str]]:
    """Returns the named sources that are not served, with the reasons: those that could not be opened at the last try,
    that aren't sources, or that are already served.

    People with a role in a source learn that it isn't served. The reason names hosts and paths, and is for admins of
    everything; it is empty for anyone else."""
    problems = [(alias, why) for alias, why in sorted(_problems.items()) if actor.has("read", alias)]
    if actor.runs_everything:
        return [*problems, *registry.refused()]
    return [(alias, "") for alias, _why in problems]


def opened() -> list[Source]:
    """Returns every source that is open."""
    return [source for source in registry.listed() if is_open(source.alias)]


def is_open(alias: str) -> bool:
    """Returns whether a source has been opened, so that its shape is known."""
    return alias in opened_files


def is_adopted(alias: str) -> bool:
    """Returns whether every event of an open source has its number, so that adkweb may write to it."""
    return bool(connections.databases[alias]["ADKWEB"]["adopted"])


def is_numbered(alias: str) -> bool:
    """Returns whether an open source numbers its events, by SQLite's rowid or adkweb's column. Otherwise, time and id
    order them."""
    return dialect.of(alias).has_numbers


def has_order(alias: str) -> bool:
    """Returns whether a session's events can be read in order, at least by their time, without slowing the agent
    down."""
    return is_numbered(alias) or bool(connections.databases[alias]["ADKWEB"]["ordered"])


def is_begun(alias: str) -> bool:
    """Returns whether the owner of an open source has agreed to adopting, finished or not."""
    return bool(connections.databases[alias]["ADKWEB"]["begun"])


def may_write(alias: str) -> bool:
    """Returns whether adkweb writes to a source. A standby, or a source that isn't adopted or opened yet, is only
    shown."""
    return is_open(alias) and is_adopted(alias) and alias not in identity.standbys and not is_read_only(alias)


def is_read_only(alias: str) -> bool:
    """Returns whether a source is opened for reading only, because adkweb or its address says so."""
    return settings.READ_ONLY or alias in read_only_sources


@contextmanager
def writing(alias: str) -> Iterator[BaseDatabaseWrapper]:
    """Yields a connection for writing, as `using` does. Raises NotAllowed for a source that is not adopted, is opened
    for reading only, or is a standby."""
    with using(alias) as connection:
        _look_at_version(alias, connection)
        if why := why_shown(alias):
            raise NotAllowed(why)
        if alias in locked_files:
            adopt_open(alias)
        if not is_adopted(alias):
            raise NotAllowed(
                _("%(where)s isn't adopted yet, so it is read-only. To edit, run: adkweb adopt %(where)s")
                % {"where": in_shell(registry.sources[alias].where)}
            )
        yield connection


def _look_at_version(alias: str, connection: BaseDatabaseWrapper) -> None:
    """Notices within VERSION_SECONDS that another program has changed a source's version of ADK's schema."""
    config = connections.databases[alias]["ADKWEB"]
    if config["versioned"] and time.monotonic() >= versions_due.get(alias, 0.0):
        versions_due[alias] = time.monotonic() + VERSION_SECONDS
        with connection.cursor() as cursor:
            config["newer"], config["agreed"] = adoption.version_of(cursor)
        if not config["agreed"]:
            due[alias] = time.monotonic() + LOOK_SECONDS


def agree(alias: str) -> None:
    """Lets adkweb write to an open source although it does not know the version of ADK's schema. Raises SourceError."""
    with using(alias):
        adoption.agree(alias, newer(alias))
    _look_again(registry.sources[alias])


def why_shown(alias: str) -> str:
    """Returns why an open source is only shown and not adopted automatically; empty if there is no reason."""
    try:
        SYSTEM.check_may_write(alias)
    except NotAllowed as error:
        return error.message
    if alias in identity.standbys:
        return _("%(where)s is a read-only standby. Write to its primary server instead.") % {
            "where": registry.sources[alias].where
        }
    if not is_agreed(alias):
        return _(
            "%(where)s uses version %(version)s of ADK's schema, which this version of adkweb doesn't know, so "
            "it is read-only. To write anyway, run: adkweb adopt --yes %(where)s"
        ) % {"where": in_shell(registry.sources[alias].where), "version": newer(alias)}
    return ""


def newer(alias: str) -> str:
    """Returns the version of ADK's schema that an open source has, if this adkweb does not know it."""
    return str(connections.databases[alias]["ADKWEB"]["newer"])


def is_agreed(alias: str) -> bool:
    """Returns whether adkweb knows the version of ADK's schema of an open source, or someone has allowed it to write
    anyway."""
    return bool(connections.databases[alias]["ADKWEB"]["agreed"])


def keeps_creations(alias: str) -> bool:
    """Returns whether an open source records where sessions were created and deleted, which adopting adds last."""
    return bool(connections.databases[alias]["ADKWEB"]["creations"])


def problem(alias: str, error: Exception) -> SourceError:
    """Returns a SourceError with a sentence: what a driver's error means, where it happened, and what to do."""
    source = registry.sources.get(alias)
    where = source.where if source else alias
    text = str(error).strip() or type(error).__name__
    log.warning("source %s (%s): %s", alias, where, text)
    if sentence := errors.sentence(text):
        return SourceError(f"{where}: {sentence} ({text})", alias=alias)
    return SourceError(_("Can't use %(where)s: %(error)s") % {"where": where, "error": text}, alias=alias)


def forget(alias: str) -> None:
    """Closes a source and removes it from the list."""
    with lock:
        registry.sources.pop(alias, None)
        registry.identities.pop(alias, None)
        opened_files.pop(alias, None)
        read_only_sources.discard(alias)
        _problems.pop(alias, None)
        identity.forget(alias)
        if alias in connections.databases:
            connection = connections[alias]
            connection.close()
            if hasattr(connection, "close_pool"):
                connection.close_pool()
            del connections[alias]
            del connections.databases[alias]


def _connect_once(source: Source) -> None:
    """Connects without the pool, whose own time-out would hide the reason for a failure."""
    connection = connections[source.alias]
    if not source.dialect.is_file:
        psycopg.connect(**connection.get_connection_params() | {"autocommit": True}).close()
        return
    path = Path(connection.settings_dict["ADKWEB"]["path"])
    if not path.exists():
        raise SourceError(_("the file no longer exists."))
    if path.is_dir():
        raise SourceError(_("this is a folder, not a file."))


def _settle(alias: str) -> None:
    """Opens a source for a caller that needs its identity now: adkweb's own database may be back."""
    source = get(alias)
    if alias not in registry.identities:
        with connected(source):
            identity.identify(source, writes=may_write(alias))


registry.opener = _settle
