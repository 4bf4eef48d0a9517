"""Decides which source was opened, by what it is, not by its address.

    identity.identify(source, adopted=True)
    registry.identity(source.alias)   # 'b1946ac92492d2347c6235b4d2611184', by localhost, by 127.0.0.1, behind a pooler

adkweb keeps a row of each source in its own database, KnownSource, with a key that never changes; holds, tags, rules,
jobs and the index have that key. A source is recognised by its location (locations.py). Adopting also writes an id into
the source, by which it is recognised elsewhere: if it is no longer at its old location, it was moved. Otherwise it is a
copy, which gets a row and, if it may be written, an id of its own. What is on hold in a source is on hold in its copy.

Danger: mistaking a source for another one misses what is on hold in it. So if adkweb can't decide which source it is,
it opens nothing."""

import logging
import time
from contextlib import suppress
from typing import Any, Final

import psycopg
from django.db import DatabaseError, IntegrityError, connections, transaction
from django.utils.translation import gettext as _

from ..domain.errors import SourceError
from ..models import KnownSource, SessionHold, tables
from ..models.sources import new_key
from . import locations, registry
from .locations import Seen
from .registry import Source

log = logging.getLogger("adkweb.sources")

_AGAIN_SECONDS: Final = 2.0  # until adkweb's own database is tried again, if it could not be used
_STANDBY: Final = "standby of "

keeps = True  # whether the result is stored; `adkweb doctor` only looks
copies: dict[str, str] = {}  # by alias of a copy: the label of its original
standbys: set[str] = set()  # aliases of servers that follow another one, until they are promoted
duplicates: set[str] = set()  # aliases that turned out to be another name of a source that is open
_again: dict[str, float] = {}  # by alias of a source whose identity isn't certain: when to check again


def identify(source: Source, *, writes: bool, again: bool = False) -> None:
    """Finds out which source this is, for registry.identity. `writes`: an id may be stored in it. `again`: it is open,
    so its known identity counts until another is found.

    While adkweb's own database can't be used, it stays unknown. Raises SourceError for a source that may not be opened
    beside the others, and the driver's errors."""
    seen = locations.look(source)
    _again.pop(source.alias, None)
    try:
        row = _row(source, seen)
        key = row.key if row else seen.stored or registry.identities.get(source.alias) or new_key()
        _claim(source, seen, key)
        if writes and keeps and not seen.follows:
            _write_down(source, seen, row, key)
        if row:
            row.label = seen.location if source.dialect.is_file else source.where
            _keep(row)
        copy_of = label(row.copy_of) if row and row.copy_of else ""
    except DatabaseError as error:
        log.warning("%s: adkweb's own database cannot say which source this is: %s", source.alias, error)
        if not again:
            registry.identities.pop(source.alias, None)
        _again[source.alias] = time.monotonic() + _AGAIN_SECONDS
        return
    if row is None:
        _again[source.alias] = time.monotonic() + _AGAIN_SECONDS
    elif connections["default"].in_atomic_block:  # which may be rolled back, and the row with it
        _again[source.alias] = 0.0
    (standbys.add if seen.follows else standbys.discard)(source.alias)
    copies.pop(source.alias, None)
    if copy_of:
        copies[source.alias] = copy_of
    registry.identities[source.alias] = key


def is_unsettled(alias: str) -> bool:
    """Returns whether it is time to find out again which source an open one is."""
    due = _again.get(alias)
    if due is None or time.monotonic() < due or connections["default"].in_atomic_block:
        return False
    if alias in registry.identities and tables.have_no_file():
        _again[alias] = time.monotonic() + _AGAIN_SECONDS
        return False
    return True


def copy_of(alias: str) -> str:
    """Returns what an open source is a copy of, in words: "a copy of prod that follows it"; "" for no copy."""
    original = copies.get(alias)
    if not original:
        return ""
    text = _("a standby of %(source)s") if alias in standbys else _("a copy of %(source)s")
    return text % {"source": original}


def forget(alias: str) -> None:
    """Forgets which source an alias meant: it is removed from the list."""
    copies.pop(alias, None)
    _again.pop(alias, None)
    standbys.discard(alias)
    duplicates.discard(alias)


def released(source: Source) -> None:
    """Notes that a source no longer stores an id: from now on, only its location identifies it."""
    KnownSource.objects.filter(key=registry.identities.get(source.alias)).update(stored=None)


# --- Which source it is -----------------------------------------------------------------------------------------------


def _row(source: Source, seen: Seen) -> KnownSource | None:
    """Returns the row of a source, new or changed if necessary; None while adkweb has no tables of its own."""
    if tables.have_no_file() or tables.are_missing():
        return None
    for last in (False, True):
        try:
            with transaction.atomic():
                row = _decided(source, seen)
                if row.location and (row.location == seen.location or not locations.is_certain(row.location)):
                    row.location, row.file = seen.location, seen.file
                _keep(row)
                return row
        except IntegrityError:  # another process knew it first
            if last:
                raise
    return None


def _decided(source: Source, seen: Seen) -> KnownSource:
    at = _at(seen.location)
    if seen.follows and _is_served(source, seen.location, "") is not False:
        return _at(_STANDBY + seen.location) or _new(_STANDBY + seen.location, copy_of=_original(seen, at).key)
    if not seen.stored:
        return _by_location(source, seen, at)
    known = KnownSource.objects.filter(stored=seen.stored).first() or _unmet(source, seen)
    if known is None:
        return _by_id(source, seen, at)
    if known.location and _are_one(known.location, seen.location):
        return known
    there = _is_there(source, known.location, seen.stored)
    if there is None:  # another source that was named may be it
        raise SourceError(
            _(
                "this is either %(label)s or a copy of it. To find out, adkweb must be able to reach every "
                "other source in its list. Fix the ones it can't reach, or remove them from the list."
            )
            % {"label": known.label}
        )
    if not there:
        log.info("%s was moved to %s", known.label, source.where)
        _leave(at)
        known.location, known.file = seen.location, seen.file
        return known
    return _copy(seen, at, known)


def _by_location(source: Source, seen: Seen, at: KnownSource | None) -> KnownSource:
    """Returns the row of a source in which nothing is stored: that of its location."""
    if at and at.stored and seen.file and at.file != seen.file:
        # Another file is where it was. It may be named by its new path; then this one is not it.
        for other in list(registry.sources.values()):
            path = connections.databases[other.alias]["ADKWEB"].get("path", "")
            if path and path != seen.location and locations.inode_of(path) == at.file:
                at.location = path
                _keep(at)
                at = None
                break
    if at is None and seen.file:
        linked = KnownSource.objects.filter(file=seen.file)
        at = next((row for row in linked if row.location and locations.is_same_file(row.location, seen.location)), None)
    return at or _new(seen.location, seen.file)


def _by_id(source: Source, seen: Seen, at: KnownSource | None) -> KnownSource:
    """Returns the row of a source whose id is new here: another adkweb adopted it, or a copy of it."""
    if at is None or at.stored:
        _leave(at)
        taken = KnownSource.objects.filter(key=seen.stored).exists()
        row = _new(seen.location, seen.file, stored=seen.stored, **({} if taken else {"key": seen.stored}))
        if at:
            _hold_as(at.key, row.key)  # it may still be the same one: released and adopted by someone else
        return row
    at.stored = seen.stored
    return at


def _unmet(source: Source, seen: Seen) -> KnownSource | None:
    """Returns a new row of the source that an id says this is, if that one is where the id was stored, and not here."""
    here = not seen.stored_location or locations.are_same(seen.stored_location, seen.location)
    if here or not _is_there(source, seen.stored_location, seen.stored):
        return None
    _leave(_at(seen.stored_location))
    return _new(seen.stored_location, seen.stored_file, stored=seen.stored, key=seen.stored, label=seen.stored_location)


def _original(seen: Seen, at: KnownSource | None) -> KnownSource:
    """Returns the row of the source that a standby follows."""
    known = KnownSource.objects.filter(stored=seen.stored).first() if seen.stored else None
    return at or known or _new(seen.location, **({"key": seen.stored, "stored": seen.stored} if seen.stored else {}))


def _copy(seen: Seen, at: KnownSource | None, known: KnownSource) -> KnownSource:
    """Returns the row of a copy. One that may be written gets an id of its own."""
    if at and at.stored and at.copy_of != known.key:
        _leave(at)
        at = None
    row = at or _new(seen.location, seen.file)
    row.copy_of = known.key
    _hold_as(known.key, row.key)
    return row


def _are_one(location: str, other: str) -> bool:
    return locations.are_same(location, other) or locations.is_same_file(location, other)


def _is_there(source: Source, location: str | None, stored: str) -> bool | None:
    """Returns whether the source with this id is at a location; None if that can't be known now."""
    if not location or (location[:1] == "[") == source.dialect.is_file:
        return False
    if not source.dialect.is_file:
        return _is_served(source, location, stored)
    has = locations.stored_in(location)
    return True if has is None else has == stored


def _is_served(source: Source, location: str, stored: str) -> bool | None:
    """Returns whether another named source is at this location, and not a standby; None if one can't be reached.

    `stored`, if there is any, is the id that it has to have."""
    unknown = False
    for other in list(registry.sources.values()):
        if not other.dialect.is_file and other.alias != source.alias:
            try:
                seen = locations.look_aside(other)
            except (psycopg.Error, DatabaseError):
                was = KnownSource.objects.filter(label=other.where).first()
                unknown |= (
                    was is None or was.location == location
                )  # otherwise it was another source when it was last seen
                continue
            if locations.are_same(seen.location, location) and not seen.follows and stored in ("", seen.stored):
                return True
    return None if unknown else False


# --- Rows -------------------------------------------------------------------------------------------------------------


def _at(location: str) -> KnownSource | None:
    return KnownSource.objects.filter(location=location).first()


def _new(location: str, file: str = "", **fields: Any) -> KnownSource:
    row = KnownSource(location=location, file=file, **fields)
    _keep(row)
    if location.startswith("["):  # without permission to ask a server which one it is, the same source has several rows
        for same in KnownSource.objects.filter(location__startswith="[").exclude(pk=row.pk):
            if locations.are_same(str(same.location), location):
                _hold_as(same.key, row.key)
    return row


def _leave(row: KnownSource | None) -> None:
    """Notes that a source is no longer at its location: another one is."""
    if row:
        row.location, row.file = None, ""
        _keep(row)


def _keep(row: KnownSource) -> None:
    if not keeps:
        return
    before = KnownSource.objects.filter(pk=row.pk).values().first()
    if before is None:
        row.save(force_insert=True)
    elif before != {name: getattr(row, name) for name in before}:
        row.save(force_update=True)


def _hold_as(key: str, other: str) -> None:
    """Copies the holds of a source to another one."""
    if not keeps:
        return
    held = SessionHold.objects.filter(where=key).values("digest", "names", "reason", "by", "at")
    SessionHold.objects.bulk_create([SessionHold(where=other, **each) for each in held], ignore_conflicts=True)


def label(key: str) -> str:
    """Returns the path or URL by which a source was last opened; "" if unknown."""
    return KnownSource.objects.filter(key=key).values_list("label", flat=True).first() or ""


# --- In the source ----------------------------------------------------------------------------------------------------


def _write_down(source: Source, seen: Seen, row: KnownSource | None, key: str) -> None:
    """Stores a source's id and location in it, unless they are already there. Without permission, writes nothing.

    If several processes do so at once, the first one decides."""
    wanted = (row.stored if row else seen.stored) or key  # a copy has no id of its own yet, and takes its key
    if (seen.stored, seen.stored_location, seen.stored_file) == (wanted, seen.location, seen.file):
        return
    with suppress(DatabaseError), transaction.atomic(using=source.alias), connections[source.alias].cursor() as cursor:
        cursor.execute(
            """INSERT INTO adkweb_source (one, id, location, file) VALUES (1, %s, %s, %s) ON CONFLICT (one) DO UPDATE
            SET id = excluded.id, location = excluded.location, file = excluded.file WHERE adkweb_source.id = %s""",
            [wanted, seen.location, seen.file, seen.stored],
        )
        cursor.execute("SELECT id FROM adkweb_source")
        wanted = cursor.fetchone()[0]
        if row:
            row.stored = wanted


# --- Two names of one source ------------------------------------------------------------------------------------------


def _claim(source: Source, seen: Seen, key: str) -> None:
    """Makes sure that no other source is this one. Raises SourceError."""
    other = next((alias for alias, of in list(registry.identities.items()) if of == key and alias != source.alias), "")
    if not other:
        return
    named = registry.sources.get(other)
    if named is None or not _is_still(named, seen):
        registry.identities.pop(other, None)  # the next use finds out what it is now
        registry.opened_files.pop(other, None)
        return
    duplicates.add(source.alias)
    raise SourceError(
        _("this is the same database as “%(alias)s” (%(where)s), which is already shown.")
        % {"alias": other, "where": named.where}
    )


def _is_still(other: Source, seen: Seen) -> bool:
    """Returns whether an open source is the one that was seen. Raises SourceError if it is a copy that can't be told
    apart from it."""
    if other.dialect.is_file:
        return locations.inode_of(connections.databases[other.alias]["ADKWEB"]["path"]) == seen.file
    try:
        now = locations.look_aside(other)
    except (psycopg.Error, DatabaseError):
        return False  # it is gone, and this one answers instead
    if now.server == seen.server:
        return locations.are_same(now.location, seen.location)
    if now.follows != seen.follows or not locations.are_same(now.location, seen.location):
        return False
    raise SourceError(
        _(
            "this is a copy of “%(alias)s” (%(where)s), made by copying the whole server, so adkweb can't tell "
            "the two apart. Specify only one of them."
        )
        % {"alias": other.alias, "where": other.where}
    )
