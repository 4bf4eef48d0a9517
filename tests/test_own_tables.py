"""The tables that tests copy are those that adkweb's migrations make."""

import sqlite3
from contextlib import closing
from pathlib import Path

from tests.support.own import make_tables, tables

KEPT = """SELECT type, name, sql FROM sqlite_master UNION ALL SELECT app, name, '' FROM django_migrations
UNION ALL SELECT 'permission', codename, name FROM auth_permission ORDER BY 1, 2"""


def content(file: Path) -> list[tuple[str, ...]]:
    """Its tables, the migrations that made them, and the permissions that come with them."""
    with closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True)) as db:
        return db.execute(KEPT).fetchall()


def test_what_tests_copy_is_what_the_migrations_make_now(tmp_path: Path) -> None:
    made = content(make_tables(tmp_path))
    assert content(tables()) == made
    assert ("sessions_app", "0001_initial", "") in made
