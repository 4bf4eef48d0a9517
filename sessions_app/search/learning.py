"""Keeps what is learnt of the keys of each app, from the events that the index reads. An event that is read twice counts
twice: a session that was deleted and made again, for instance."""

from collections.abc import Collection, Iterable
from typing import Final

from django.db import connection

from ..domain.key_schema import MOST_KEYS, KeySchema, from_text, seems_secret, to_text
from ..models import SearchKey

_SOME: Final = 500  # keys of a statement
_UPSERT: Final = """INSERT INTO sessions_app_searchkey (app_owner_id, name, learnt) VALUES (%s, %s, %s)
    ON CONFLICT (app_owner_id, name) DO UPDATE SET learnt = excluded.learnt"""


def keep(learnt: Iterable[tuple[int, int, dict[str, KeySchema]]]) -> None:
    """Adds what was learnt of sessions: the numbers of the app and of the user, and the schemas by key."""
    of_apps: dict[int, dict[str, list[tuple[int, KeySchema]]]] = {}
    for app, user, schemas in learnt:
        of_app = of_apps.setdefault(app, {})
        for key, schema in schemas.items():
            of_app.setdefault(key, []).append((user, schema))
    for app, of_keys in of_apps.items():
        _keep(app, of_keys)


def _keep(app: int, of_keys: dict[str, list[tuple[int, KeySchema]]]) -> None:
    known = _stored(app, list(of_keys))
    if len(known) < len(of_keys):
        room = MOST_KEYS - SearchKey.objects.filter(app_owner_id=app).count()
        new = [key for key in of_keys if key not in known][: max(0, room)]
        known |= {key: KeySchema() for key in new}
    rows = []
    for key, schema in known.items():
        for user, more in of_keys[key]:
            schema.merge(more, user)
        if schema.hidden or seems_secret(key, schema):
            schema.hide()
        rows.append((app, key, to_text(schema)))
    with connection.cursor() as cursor:
        cursor.executemany(_UPSERT, rows)


def _stored(app: int, keys: list[str]) -> dict[str, KeySchema]:
    """Returns the schemas of those of these keys that have one."""
    schemas: dict[str, KeySchema] = {}
    for start in range(0, len(keys), _SOME):
        rows = SearchKey.objects.filter(app_owner_id=app, name__in=keys[start : start + _SOME])
        schemas |= {key: from_text(text) for key, text in rows.values_list("name", "learnt")}
    return schemas


def forget_users(app: int, users: Collection[int]) -> None:
    """Forgets the strings of an app that only one of these users wrote."""
    rows = []
    for key, text in SearchKey.objects.filter(app_owner_id=app).values_list("name", "learnt"):
        schema = from_text(text)
        if schema.forget_users(users):
            rows.append((app, key, to_text(schema)))
    with connection.cursor() as cursor:
        cursor.executemany(_UPSERT, rows)
