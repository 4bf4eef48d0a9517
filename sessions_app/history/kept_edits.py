"""Asks the index which edits there are, of all apps or of some, in the order of time."""

from collections.abc import Callable, Iterable
from typing import Final

from django.db import connection, transaction

from ..domain.positions import Position
from ..models import Projection, StateChange
from .keeping import ALL_EDITS, EDITS, LAST_MOMENT, EditPosition, Standing, moment_key


def edits(
    projection: int,
    beyond: EditPosition | None,
    limit: int,
    sees: Callable[[str], bool] | None = None,
    *,
    oldest: bool = False,
) -> list[EditPosition]:
    """Returns the newest edits, or the newest ones below `beyond`; of all apps, or of those that `sees` accepts.

    With `oldest`, returns the oldest ones, or the oldest above `beyond`.
    """
    kept = _owners_of_edits(projection)
    owners = [owner for app, owner in kept.items() if (app is None if sees is None else app is not None and sees(app))]
    moment, position = beyond or (0 if oldest else LAST_MOMENT, Position(0))
    rows: list[EditPosition] = []
    with connection.cursor() as cursor:
        for owner in owners:
            cursor.execute(_EDITS[oldest], [owner, moment_key(moment), position, limit])
            rows += [EditPosition(int(row[0]), row[1]) for row in cursor.fetchall()]
    return sorted(rows, reverse=not oldest)[:limit]


_EDITS: Final = {
    False: """SELECT key, place FROM sessions_app_statechange WHERE owner_id = %s AND (key, place) < (%s, %s)
        ORDER BY key DESC, place DESC LIMIT %s""",
    True: """SELECT key, place FROM sessions_app_statechange WHERE owner_id = %s AND (key, place) > (%s, %s)
        ORDER BY key, place LIMIT %s""",
}


def drop_edits(standing: Standing, gone: Iterable[EditPosition]) -> None:
    """Forgets edits whose events were deleted, unless somebody has read on since."""
    with transaction.atomic():
        same = Projection.objects.select_for_update().filter(pk=standing.projection, marks=standing.checkpoints)
        if same.exists():
            owners = list(_owners_of_edits(standing.projection).values())
            for moment, position in gone:
                StateChange.objects.filter(owner_id__in=owners, key=moment_key(moment), place=position).delete()


# Steps from app to app along the index: it does not matter how many owners there are.
_OWNERS_OF_EDITS: Final = """WITH RECURSIVE apps (name) AS (
        SELECT min(app_name) FROM sessions_app_stateowner WHERE projection_id = %(projection)s
        UNION ALL SELECT (SELECT min(o.app_name) FROM sessions_app_stateowner AS o
            WHERE o.projection_id = %(projection)s AND o.app_name > apps.name) FROM apps WHERE apps.name IS NOT NULL)
    SELECT o.app_name, o.scope, o.id FROM apps JOIN sessions_app_stateowner AS o ON o.projection_id = %(projection)s
        AND o.app_name = apps.name AND o.user_id = '' AND o.session_id = '' AND o.scope IN (%(one)s, %(all)s)"""


def _owners_of_edits(projection: int) -> dict[str | None, int]:
    """Returns the owner that has the edits of each app, and under None the one that has all."""
    with connection.cursor() as cursor:
        cursor.execute(_OWNERS_OF_EDITS, {"projection": projection, "one": EDITS, "all": ALL_EDITS})
        return {None if scope == ALL_EDITS else app: number for app, scope, number in cursor.fetchall()}
