"""Finds words by what stands in their middle: by an FTS5 table of trigrams on SQLite, by pg_trgm on PostgreSQL."""

from contextlib import suppress

from django.db import Error, migrations, transaction


def make(apps, schema_editor):
    if schema_editor.connection.vendor == "sqlite":
        schema_editor.execute(
            "CREATE VIRTUAL TABLE sessions_app_searchpart USING fts5(word, tokenize='trigram', detail=none, columnsize=0)"
        )
        schema_editor.execute("INSERT INTO sessions_app_searchpart (word) SELECT word FROM sessions_app_searchword")
        return
    # Without the extension, the same query looks through all words: slower, and right.
    with suppress(Error), transaction.atomic(schema_editor.connection.alias):
        schema_editor.execute("CREATE EXTENSION IF NOT EXISTS pg_trgm")
        schema_editor.execute(
            "CREATE INDEX search_word_parts ON sessions_app_searchword USING gin (word gin_trgm_ops)"
        )


def drop(apps, schema_editor):
    if schema_editor.connection.vendor == "sqlite":
        schema_editor.execute("DROP TABLE sessions_app_searchpart")
    else:
        schema_editor.execute("DROP INDEX IF EXISTS search_word_parts")


class Migration(migrations.Migration):
    dependencies = [("sessions_app", "0021_deletions_begun")]

    operations = [migrations.RunPython(make, drop)]
