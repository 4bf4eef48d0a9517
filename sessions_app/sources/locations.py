"""Looks where a source is, whatever its address says: which server, database and schema, or which file.

    seen = locations.look(source)
    seen.location                # '["7391…", "prod", "public"]', or "/home/ana/agent/.adk/session.db"

Looking only reads. It works behind a pooler or a tunnel, because it asks the server itself."""

import json
import os
import re
import sqlite3
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import psycopg
from django.db import connections

from .files import file_at
from .registry import Source

_SEEN: Final = """SELECT current_database(), coalesce((SELECT nspname FROM pg_class
        JOIN pg_namespace ON pg_namespace.oid = relnamespace WHERE pg_class.oid = to_regclass('sessions')),
    current_schema()), pg_is_in_recovery(), pg_postmaster_start_time()::text,
    coalesce(has_function_privilege(to_regprocedure('pg_control_system()')::oid, 'EXECUTE'), false),
    coalesce((SELECT has_table_privilege(oid, 'SELECT') FROM pg_class WHERE relname = 'adkweb_source'
        AND relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = current_schema())), false)"""
_STORED: Final = "SELECT id, location, file FROM adkweb_source"


@dataclass(frozen=True, slots=True)
class Seen:
    """Where a source is now, and what adopting has stored in it.

    `location` is a path, or the server's system identifier, the database and the schema, as JSON. `file` is the device
    and inode of a file. `stored` is the id; `stored_location` and `stored_file` say where it was stored. All are empty
    if nothing is. `follows`: a standby, which copies another server. `server` is when the server started."""

    location: str
    file: str = ""
    stored: str = ""
    stored_location: str = ""
    stored_file: str = ""
    follows: bool = False
    server: str = ""


def look(source: Source) -> Seen:
    """Looks at a source through its own connection. Raises the driver's errors."""
    with connections[source.alias].cursor() as cursor:
        if not source.dialect.is_file:
            return _of_server(source, cursor)
        path = connections.databases[source.alias]["ADKWEB"]["path"]
        cursor.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'adkweb_source'")
        seen = Seen(path, inode_of(path))
        if cursor.fetchone() is None:
            return seen
        cursor.execute(_STORED)
        return _with(seen, cursor.fetchone())


def look_aside(source: Source) -> Seen:
    """Looks at a PostgreSQL source through a connection of its own, whether it is open or not. Raises psycopg.Error."""
    with psycopg.connect(**connections[source.alias].get_connection_params() | {"autocommit": True}) as connection:
        return _of_server(source, connection.cursor())


def stored_in(path: str) -> str | None:
    """Returns the id that is stored in a file, "" if there is none; None if there is a file that cannot be read now."""
    if not Path(path).is_file():
        return ""
    try:
        with closing(sqlite3.connect(f"{Path(path).as_uri()}?mode=ro", uri=True)) as file:
            row = file.execute(_STORED).fetchone()
    except sqlite3.Error as error:
        nothing = "no such table" in str(error) or "not a database" in str(error)
        return "" if nothing else None
    return row[0] if row else ""


def inode_of(path: str) -> str:
    """Returns the device and inode of the file at a path, as text; "" if there is none."""
    device, inode = file_at(path)
    return f"{device}:{inode}" if device >= 0 else ""


def is_same_file(path: str, other: str) -> bool:
    """Returns whether two paths name one file, by links of either kind."""
    with suppress(OSError):
        return os.path.samefile(path, other)
    return False


def are_same(location: str, other: str) -> bool:
    """Returns whether two locations may be the same. If a server doesn't say which one it is, its database and schema
    decide."""
    if location == other or not (location[:1] == other[:1] == "["):
        return location == other
    (server, *names), (other_server, *other_names) = json.loads(location), json.loads(other)
    return names == other_names and "//" in server + other_server


def is_certain(location: str) -> bool:
    """Returns whether a location names the server itself, not only its address."""
    return location[:1] != "[" or "//" not in json.loads(location)[0]


def _of_server(source: Source, cursor: Any) -> Seen:
    cursor.execute(_SEEN)
    database, schema, follows, server, may_ask, is_stored = cursor.fetchone()
    if may_ask:
        cursor.execute("SELECT system_identifier FROM pg_control_system()")
        identifier = str(cursor.fetchone()[0])
    else:  # all that is left is its address, without the user
        identifier = re.sub("//[^/]*@", "//", source.where)
    seen = Seen(json.dumps([identifier, database, schema], ensure_ascii=False), follows=follows, server=server)
    if not is_stored:
        return seen
    cursor.execute(_STORED)
    return _with(seen, cursor.fetchone())


def _with(seen: Seen, row: Any) -> Seen:
    return replace(seen, stored=row[0], stored_location=row[1], stored_file=row[2]) if row else seen
