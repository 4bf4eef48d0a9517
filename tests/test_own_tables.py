"""adkweb's own tables: what the models say is what the migrations make, and what tests copy."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from django.apps import apps
from django.core.management import call_command
from django.core.management.commands import migrate
from django.db import connection
from pytest_django import DjangoDbBlocker, Settings

from tests.support.own import make_tables, own_database, tables

KEPT = """SELECT type, name, sql FROM sqlite_master UNION ALL SELECT app, name, '' FROM django_migrations
UNION ALL SELECT 'permission', codename, name FROM auth_permission ORDER BY 1, 2"""
OURS = "sessions_app_"
# Of each table its columns, keys, indexes, checks and triggers, in whatever order the columns are.
SCHEMA = {
    "sqlite": [
        """SELECT t.name, c.name, c.type, c."notnull", c.dflt_value, c.pk FROM pragma_table_list AS t,
            pragma_table_info(t.name) AS c WHERE t.type = 'table'""",
        """SELECT t.name, f."from", f."table", f."to", f.on_delete FROM pragma_table_list AS t,
            pragma_foreign_key_list(t.name) AS f""",
        """SELECT t.name, group_concat(c.name), i."unique", i.origin, i.partial FROM pragma_table_list AS t,
            pragma_index_list(t.name) AS i, pragma_index_info(i.name) AS c WHERE t.type = 'table' AND i.origin <> 'pk'
            GROUP BY t.name, i.name""",
        "SELECT tbl_name, name, sql FROM sqlite_master WHERE type IN ('index', 'trigger') AND sql IS NOT NULL",
        "SELECT name, 'check', substr(sql, instr(sql, 'CHECK')) FROM sqlite_master WHERE sql LIKE '%CHECK%'",
        "SELECT name, 'without rowid' FROM pragma_table_list WHERE type = 'table' AND wr",
        "SELECT name, 'virtual' FROM pragma_table_list WHERE type = 'virtual'",
    ],
    "postgresql": [
        """SELECT table_name, column_name, data_type, character_maximum_length, is_nullable, column_default, is_identity
            FROM information_schema.columns WHERE table_schema = 'public'""",
        "SELECT tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'",
        """SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint
            WHERE connamespace = 'public'::regnamespace AND contype <> 'n'""",
        "SELECT tgrelid::regclass::text, tgname, pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal",
    ],
}
# What the migrations make beyond that, because models cannot say it.
MORE = {
    "sqlite": {
        *((table, "virtual") for table in ("searchtext", "searchtitle", "searchpart")),
        *(
            (table, "without rowid")
            for table in ("searchfact", "searchvalue", "searchspan", "searchword", "searchwrite", "statechange")
        ),
        *(("auditrow", f"audit_refuses_{act}") for act in ("insert", "update", "delete")),
    },
    "postgresql": {
        *(("searchtext", name) for name in ("rowid", "words", "search_text_words", "sessions_app_searchtext_pkey")),
        *(("searchtitle", name) for name in ("rowid", "words", "search_title_words", "sessions_app_searchtitle_pkey")),
        ("searchword", "search_word_parts"),
        ("auditrow", "audit_refuses"),
    },
}


def content(file: Path) -> list[tuple[str, ...]]:
    """Its tables, the migrations that made them, and the permissions that come with them."""
    with closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True)) as db:
        return db.execute(KEPT).fetchall()


def schema() -> set[tuple[str, ...]]:
    """What adkweb's own tables have: each time the table, the name of what it has, and how that is defined."""
    rows: set[tuple[str, ...]] = set()
    with connection.cursor() as cursor:
        for sql in SCHEMA[connection.vendor]:
            cursor.execute(sql)
            rows |= {(row[0].removeprefix(OURS), *row[1:]) for row in cursor.fetchall() if row[0].startswith(OURS)}
    return rows


def test_what_tests_copy_is_what_the_migrations_make_now(tmp_path: Path) -> None:
    made = content(make_tables(tmp_path))
    assert content(tables()) == made
    assert ("sessions_app", "0001_initial", "") in made


@pytest.mark.django_db
def test_no_model_waits_for_a_migration() -> None:
    call_command("makemigrations", check_changes=True, dry_run=True, verbosity=0)


@pytest.mark.parametrize("own", ["sqlite", "postgresql"], indirect=True)
def test_the_migrations_make_what_the_models_say_and_what_they_cannot_say(
    own: str,
    new_database: Callable[[str], str],
    tmp_path: Path,
    settings: Settings,
    django_db_blocker: DjangoDbBlocker,
) -> None:
    migrated = schema()
    settings.MIGRATION_MODULES = {app.label: None for app in apps.get_app_configs()}
    url = new_database("postgresql") if own.startswith("postgres") else f"sqlite:///{tmp_path / 'models.db'}"
    with django_db_blocker.unblock(), own_database(url):
        call_command(migrate.Command(), run_syncdb=True, verbosity=0, interactive=False)
        said = schema()
        vendor = connection.vendor
    assert said - migrated == set()
    assert {(table, name) for table, name, *_how in migrated - said} == MORE[vendor]
