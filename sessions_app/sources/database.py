"""An open database: connections, what was adopted, whether it may be written."""

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
from django.db import DatabaseError, DataError, IntegrityError, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created
from django.dispatch import receiver
from django.utils.translation import gettext as _

from ..errors import Invalid, NotAllowed, NotFound, SourceError
from . import adoption, complaints, online, registry
from .files import content_of, file_at, file_of
from .finding import log
from .registry import UNOPENED, Source, lock, opened_files
from .steps import Moved

_RETRY_SECONDS: Final = 60.0  # for a file that cannot be opened and does not change
_LOOK_SECONDS: Final = 2.0  # between two looks whether a database was adopted meanwhile
_files: WeakKeyDictionary[BaseDatabaseWrapper, tuple[int, int]] = WeakKeyDictionary()  # what each connection opened
_due: dict[str, float] = {}  # by alias, when it is looked at again whether it is adopted by now
_opening: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
_tried: dict[str, tuple[object, float]] = {}  # by alias, what a file that cannot be opened was like, and when


def open_new() -> list[Source]:
    """Opens the files that have appeared, or were made anew, since the last time; those that it opened.

    Nothing is made in an empty file: its agent is about to do that. What cannot be opened is tried again once the file
    changes, and now and then.
    """
    opened = []
    for source in registry.listed():
        if source.vendor != "sqlite" or opened_files.get(source.alias, UNOPENED) == file_of(source):
            continue
        content, now = content_of(connections.databases[source.alias]["ADKWEB"]["path"]), time.monotonic()
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


def get(alias: str, *, adopting: bool = False) -> Source:
    """One source, open and usable; raises NotFound, or SourceError saying what is wrong with it. As `open_source`."""
    source = registry.sources.get(alias) or next((s for s in registry.listed() if s.alias == alias), None)
    if source is None:
        raise NotFound(_("There is no source “%(alias)s” here.") % {"alias": alias})
    open_source(source, adopting=adopting)
    return source


def open_source(source: Source, *, adopting: bool = False) -> None:
    """Makes a source usable: an empty database gets ADK's tables, a SQLite file is adopted (neither when read-only).

    A PostgreSQL database of ADK's is adopted only with `adopting`: whoever owns it is asked first, and it can be read
    meanwhile. A database that was found in a folder is not given tables: its agent makes them, in the format of its own.
    """
    if opened_files.get(source.alias, UNOPENED) == file_of(source):
        if adopting and not settings.READ_ONLY and not keeps_creations(source.alias):
            adopt_open(source.alias)
        elif time.monotonic() > _due.get(source.alias, math.inf):
            _look_again(source)
        return
    with _opening[source.alias]:  # one lock a source: a server that does not answer holds up nobody else
        file = file_of(source)
        if opened_files.get(source.alias, UNOPENED) == file:
            return
        opened_files.pop(source.alias, None)
        connections[source.alias].close()  # it may still hold the file that was there before
        with connected(source):
            shape = adoption.inspect(source.alias)
            found = connections.databases[source.alias]["ADKWEB"].get("found")
            if not settings.READ_ONLY and not (shape.empty and found):
                shape = _adopted(source, shape, adopting)
        if shape.empty:
            raise SourceError(_("%(where)s is empty: no agent has written here yet.") % {"where": source.where})
        _note(source, shape)
        opened_files[source.alias] = file


def _adopted(source: Source, shape: adoption.Shape, adopting: bool) -> adoption.Shape:
    if shape.empty:
        adoption.create(source.alias, "sqlite" if source.vendor == "sqlite" else "database")
    elif source.vendor == "postgresql" and not adopting:
        return shape
    if adoption.missing(source.alias):
        # Where this user may not complete what an older adkweb adopted, it is served without.
        with suppress(SourceError) if shape.adopted else nullcontext():
            online.add(source.alias)
    return adoption.inspect(source.alias)


def adopt_open(alias: str, moved: Moved = lambda progress: None, *, patient: bool = False) -> None:
    """Adopts a source that is open, as far as it is not; others use it meanwhile. As `online.add`."""
    source = registry.sources[alias]
    try:
        with connected(source):
            online.add(alias, moved, patient=patient)
    finally:
        _look_again(source)


def _note(source: Source, shape: adoption.Shape) -> None:
    """Notes what a source looks like; one that adopting may still change is looked at again now and then."""
    connections.databases[source.alias]["ADKWEB"].update(
        real_times=shape.real_times,
        milliseconds=shape.milliseconds,
        begun=shape.begun,
        adopted=shape.adopted,
        creations=shape.creations,
        ordered=shape.ordered,
    )
    unsettled = source.vendor == "postgresql" and not shape.creations
    _due[source.alias] = time.monotonic() + _LOOK_SECONDS if unsettled else math.inf


def _look_again(source: Source) -> None:
    _due[source.alias] = time.monotonic() + _LOOK_SECONDS
    with suppress(SourceError, DatabaseError):  # whoever asks for something next is told what is wrong
        _note(source, adoption.inspect(source.alias))


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
    replaced = connection.connection is not None and _files.get(connection) != opened_files.get(alias)
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
            opened_files.pop(alias, None)  # released or made anew meanwhile: the next request looks again
        raise problem(alias, error) from error


@receiver(connection_created)
def _read_any_text(connection: BaseDatabaseWrapper, **_sent: Any) -> None:
    """SQLite's JSON functions make bytes that are no text from half of a surrogate pair, a title cut within an emoji say;
    it is read as “�”, and the source stays usable.
    """
    if connection.vendor == "sqlite" and "ADKWEB" in connection.settings_dict:
        _files[connection] = file_at(connection.settings_dict["ADKWEB"].get("path", ""))
        connection.connection.text_factory = partial(str, encoding="utf-8", errors="replace")


def opened() -> list[Source]:
    """Every source that is open."""
    return [source for source in registry.listed() if is_open(source.alias)]


def is_open(alias: str) -> bool:
    """Whether a source was opened, and its shape is known."""
    return alias in opened_files


def is_adopted(alias: str) -> bool:
    """Whether an open source has adkweb's columns."""
    return bool(connections.databases[alias]["ADKWEB"]["adopted"])


def is_numbered(alias: str) -> bool:
    """Whether an open source's events have numbers, SQLite's rowid or adkweb's; without, their time and id order them."""
    return connections[alias].vendor == "sqlite" or is_adopted(alias)


def has_order(alias: str) -> bool:
    """Whether an open source's events can be put into an order, be it by their time, without slowing its agent down."""
    return is_numbered(alias) or bool(connections.databases[alias]["ADKWEB"]["ordered"])


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
                % {"where": registry.sources[alias].where}
            )
        yield connection


def keeps_creations(alias: str) -> bool:
    """Whether an open source keeps between which events adkweb created a session."""
    return bool(connections.databases[alias]["ADKWEB"]["creations"])


def problem(alias: str, error: Exception) -> SourceError:
    """A database driver's error as a sentence that says what, where, and what to do."""
    source = registry.sources.get(alias)
    where = source.where if source else alias
    text = str(error).strip() or type(error).__name__
    log.warning("source %s (%s): %s", alias, where, text)
    if sentence := complaints.sentence(text):
        return SourceError(f"{where}: {sentence} ({text})", alias=alias)
    return SourceError(_("%(where)s cannot be used: %(error)s") % {"where": where, "error": text}, alias=alias)


def forget(alias: str) -> None:
    """Closes a source and takes it off the list."""
    with lock:
        registry.sources.pop(alias, None)
        opened_files.pop(alias, None)
        if alias in connections.databases:
            connection = connections[alias]
            connection.close()
            if hasattr(connection, "close_pool"):
                connection.close_pool()
            del connections[alias]
            del connections.databases[alias]


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
