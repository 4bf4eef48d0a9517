"""Checks that stored state matches the events, for `adkweb doctor`."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from django.db import connections
from django.urls import reverse

from ...access.actor import TERMINAL
from ...domain.errors import Behind, Invalid, NotFound
from ...domain.session_ref import SessionRef
from ...domain.state import Change, Scope
from ...history.drift import own, shared
from ...sources import database
from ...sources.registry import Source
from ._checks import BAD, NOTE, OK, Finding
from ._progress import progress
from ._rows import NAMED, query, some
from ._terminal import short

_SESSIONS: Final = 100  # of the newest, whose events are folded
_PAGE: Final = 1_000


def drift(source: Source, every_session: bool) -> Iterator[Finding]:
    """Checks that the state of sessions matches their events."""
    if not database.is_numbered(source.alias):
        yield Finding(NOTE, "drift can't be checked before the source is adopted.")
        return
    drifted: list[str] = []
    looked = 0
    keys = _all(source.alias) if every_session else _newest(source.alias)
    with progress("folding", "events") as bar:
        if every_session:
            ((events,),) = query(connections[source.alias], "SELECT count(*) FROM events")
            bar.total(events)
        for ref in keys:
            looked += 1
            try:
                report = own(ref, actor=TERMINAL)
                bar.moved(report.events)
                changes = [each.change for each in report.drifted]
            except NotFound:  # it was deleted in the meantime
                continue
            except Invalid as error:
                drifted.append(f"{'/'.join(ref[1:])}: {error.message}")
                continue
            if report.untold == "size":
                looked -= 1
            elif changes:
                drifted.append(_named(ref, 4, changes))
    which = f"{looked:,} sessions" if every_session else f"the newest {looked:,} sessions"
    if drifted:
        yield Finding(
            BAD,
            f"{len(drifted)} of {which} have a state that their events do not make: {some(drifted)}. An update was lost, "
            "or another program wrote to the table itself. Open these paths in adkweb: each key can be repaired there.",
        )
    else:
        yield Finding(OK, f"the state of {which} matches their events")


def shared_drift(source: Source, ready: bool) -> Iterator[Finding]:
    """Checks the state that sessions share: once for each app and each user, through one of their sessions."""
    if not ready:
        yield Finding(NOTE, "drift of user: and app: keys can only be checked with adkweb's own database.")
        return
    drifted: list[str] = []
    apps: set[str] = set()
    with progress("comparing", "users") as bar:
        of_all = "SELECT count(*) FROM (SELECT DISTINCT app_name, user_id FROM sessions) AS owners"
        ((users,),) = query(connections[source.alias], of_all)
        bar.total(users)
        for ref in _of_each_user(source.alias):
            bar.moved(1)
            with suppress(NotFound):  # it was deleted in the meantime
                if changes := _shared(ref, "user"):
                    drifted.append(_named(ref, 3, changes))
                if ref.app_name not in apps and (changes := _shared(ref, "app")):
                    drifted.append(_named(ref, 2, changes))
                apps.add(ref.app_name)
    if drifted:
        yield Finding(
            NOTE,
            f"user: or app: keys of {len(drifted)} users and apps don't have the value that was last written, as far as "
            f"known: {some(drifted)}. This is only a suspicion: a session that wrote them last may be deleted by now. "
            "Open these paths in adkweb.",
        )
    else:
        yield Finding(OK, "no suspected drift of user: and app: keys")


def _shared(ref: SessionRef, scope: Scope) -> list[Change]:
    while True:
        try:
            return [each.change for each in shared(ref, [scope], actor=TERMINAL).drifted]
        except Behind:  # the index is still being built; each call continues with it
            continue


def _named(ref: SessionRef, names: int, changes: list[Change]) -> str:
    """Returns the owner of the state (the first `names` names of the session), some keys, and the page to repair
    them."""
    keys = ", ".join(
        f"{change.key}: {short(change.new, 40)}, by its events {short(change.old, 40)}" for change in changes[:NAMED]
    )
    more = f", and {len(changes) - NAMED} keys more" if len(changes) > NAMED else ""
    return f"{'/'.join(ref[1:names])} ({keys}{more}): {reverse('drift', kwargs=ref._asdict())}"


def _of_each_user(alias: str) -> Iterator[SessionRef]:
    """Yields one session of each user."""
    last = None
    for ref in _all(alias):
        if ref[:3] != last:
            yield ref
        last = ref[:3]


def _newest(alias: str) -> list[SessionRef]:
    order = "ORDER BY update_time DESC LIMIT %s"
    rows = query(connections[alias], f"SELECT app_name, user_id, id FROM sessions {order}", [_SESSIONS])
    return [SessionRef(alias, *row) for row in rows]


def _all(alias: str) -> Iterator[SessionRef]:
    after: list[str] = []
    while True:
        beyond = "WHERE (app_name, user_id, id) > (%s, %s, %s)" if after else ""
        sql = f"SELECT app_name, user_id, id FROM sessions {beyond} ORDER BY app_name, user_id, id LIMIT {_PAGE}"
        rows = query(connections[alias], sql, after)
        yield from (SessionRef(alias, *row) for row in rows)
        if len(rows) < _PAGE:
            return
        after = list(rows[-1])
