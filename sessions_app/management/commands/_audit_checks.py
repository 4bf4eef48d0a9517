"""Checks that the audit is whole, for `adkweb doctor --audit`."""

from collections.abc import Iterator
from datetime import UTC, datetime

from ...access.audit.forwarding import Backlog, backlogs
from ...access.audit.heads import Head
from ...access.audit.verifying import verify
from ._checks import BAD, NOTE, OK, Finding


def check_audit(published: Head | None = None, *, ready: bool) -> Iterator[Finding]:
    """Verifies every row, and prints the head that an auditor keeps. Without adkweb's own tables, it reports that.

    `published` is a head that someone has kept elsewhere.
    """
    if not ready:
        yield Finding(BAD, "adkweb's own database has no audit that could be verified: see above.")
        return
    yield from map(_sent, backlogs())
    result = verify(published)
    if result.fault:
        yield Finding(BAD, f"{result.fault} The rows before it are whole.")
        return
    yield Finding(OK, f"All {result.rows} rows of the audit are whole. Its head: {result.rows} {result.head}")
    if published:
        yield Finding(OK, f"The head that was published on {published.day} is row {published.number} of it.")


def _sent(receiver: Backlog) -> Finding:
    if not receiver.lacks:
        return Finding(OK, f"The {receiver.name} has every row of the audit.")
    since = datetime.fromtimestamp(receiver.since, UTC).isoformat(" ", "seconds")
    why = f" {receiver.message}" if receiver.message else " Does an adkweb run that has the setting?"
    return Finding(NOTE, f"{receiver.lacks} rows wait to be sent to the {receiver.name}, the oldest of {since}.{why}")
