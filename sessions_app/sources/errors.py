"""Explains a database driver's error messages to the person who has to act on them."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from django.conf import settings
from django.db import DatabaseError, connections
from django.utils.translation import gettext as _

from ..access.actor import Actor
from ..domain.errors import Error, NotOpen, SourceError


def sentence(text: str) -> str:
    """Returns what a driver's message means and what to do; an empty text for an unknown message."""
    lowered = text.lower()
    return next((said for sign, said in [*_of_files(), *_of_servers()] if sign in lowered), "")


log = logging.getLogger("adkweb.own")


@contextmanager
def best_effort(what: str) -> Iterator[None]:
    """Logs database errors in its block, which comes after a commit: what was written stays written.

    with best_effort("the number of an edit"): ..."""
    try:
        yield
    except (Error, DatabaseError) as error:
        log.warning("%s was left out: %s", what, error)
        if isinstance(error, DatabaseError) and not connections["default"].in_atomic_block:
            connections["default"].close_if_unusable_or_obsolete()


def shown(error: Error, actor: Actor) -> str:
    """Returns the message of an error that an actor may see. Only an admin of everything may know where a source is."""
    return unusable() if tells_where(error) and not actor.runs_everything else error.message


def tells_where(error: Error) -> bool:
    """Returns whether an error names a file or a server, as a driver's message does."""
    return isinstance(error, SourceError) and not isinstance(error, NotOpen)


def unusable() -> str:
    """Returns the message that everyone sees for a source that does not answer."""
    return _("This source can't be used right now. An admin can see why.")


def of_own(error: Exception) -> str:
    """Returns what is wrong with adkweb's own database, and what to do, as a sentence."""
    text = str(error)
    lowered = text.lower()
    if "is full" in lowered or "no space left" in lowered:
        return _(
            "The disk that holds adkweb's own database is full. Nothing was half-written. Free some space "
            "and try again."
        )
    if "is gone" in lowered:
        return _("%(error)s. Put the file back, or restart adkweb to create a new one.") % {"error": text.strip()}
    if "readonly database" in lowered or "read-only" in lowered:
        return _(
            "adkweb's own database can't be written to: its file, disk or server is read-only. No partial "
            "changes were saved."
        )
    return _("adkweb's own database is locked or isn't answering. No partial changes were saved; try again.")


_LOST: Final = (  # messages of libpq and psycopg when an existing connection ends; a mistake in an address isn't one
    *("connection is lost", "connection is closed", "connection already closed", "connection has been closed"),
    *("closed the connection", "no connection to the server", "connection not open", "consuming input failed"),
    *("sending query failed", "reset by peer", "broken pipe", "syscall error", "lost synchronization", "end-of-file"),
)


def _of_files() -> list[tuple[str, str]]:
    return [
        ("database is locked", _("another program has locked the file. Nothing was written; try again.")),
        (
            "readonly database",
            _(
                "the file uses a write-ahead log, so SQLite must create files next to it even for reading, but "
                "this folder is read-only. Copy the file to a writable folder."
            )
            if settings.READ_ONLY
            else _("adkweb doesn't have permission to write to this file. To open it read-only, use --read-only."),
        ),
        (
            "unable to open",
            _(
                "the file can't be opened. Check that adkweb can read it and write to its folder; to open it "
                "read-only, use --read-only or ?mode=ro."
            ),
        ),
        ("not a database", _("this isn't a SQLite database.")),
        ("image is malformed", _("the file is damaged or incomplete. SQLite's “.recover” may rescue its contents.")),
        ("disk i/o", _("the disk isn't answering. Nothing was written.")),
        ("disk is full", _("the disk is full. Nothing was written.")),
    ]


def _of_servers() -> list[tuple[str, str]]:
    return [
        ("password authentication", _("the server rejected this user name and password.")),
        ("no password supplied", _("the server requires a password. Put it in ~/.pgpass or the URL.")),
        (
            "root certificate",
            _(
                "sslmode requires the server's certificate to be verified. Specify the root certificate file: "
                "sslrootcert=FILE."
            ),
        ),
        ("does not support ssl", _("the server doesn't support TLS, which sslmode in its address requires.")),
        (
            "startup parameter",
            _("the pooler rejects the options in this address. Configure it to ignore them."),
        ),
        ("too many", _("the server has no free connections. adkweb retries on every request.")),
        ("pg_hba", _("the server doesn't allow this user to connect from here (pg_hba.conf).")),
        (
            "definition of service",
            _("this service isn't defined in ~/.pg_service.conf or PGSERVICEFILE."),
        ),
        ("does not exist", _("the server is answering, but nothing with this name exists on it.")),
        ("permission denied", _("this database user doesn't have permission to do that.")),
        ("read-only transaction", _("this server is a standby or is read-only. Nothing was written.")),
        ("must be owner", _("this database user doesn't own ADK's tables.")),
        ("could not translate host", _("this host name can't be found.")),
        ("failed to resolve", _("this host name can't be found.")),
        ("codec can't encode", _("this host name can't be found.")),
        ("refused", _("no server is listening there. adkweb retries on every request.")),
        ("couldn't get a connection", _("the server isn't answering. adkweb retries on every request.")),
        ("timeout", _("the server didn't answer in time. adkweb retries on every request.")),
        ("terminat", _("the server closed the connection. No partial changes were saved; try again.")),
        ("running locally", _("there's no server socket in this folder.")),
        *(
            (sign, _("the connection to the server was lost. No partial changes were saved; try again."))
            for sign in _LOST
        ),
    ]
