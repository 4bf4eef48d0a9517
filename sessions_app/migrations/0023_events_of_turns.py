"""Adds to each turn the number of its first event in the session. On SQLite, the table is made anew: without a rowid, as
before 0016. All of it is derived, and read anew by the next version of the index."""

from django.db import migrations, models

_NARROW = [
    "DROP TABLE sessions_app_searchspan",
    """CREATE TABLE sessions_app_searchspan (session_id bigint NOT NULL, kind varchar(1) NOT NULL, number integer NOT NULL,
        app_owner_id bigint NOT NULL, name_id bigint NOT NULL, at real NOT NULL, took real NULL, failed bool NOT NULL,
        tokens bigint NOT NULL, seq bigint NOT NULL, prompt integer NOT NULL, output integer NOT NULL,
        first_event bigint NOT NULL, PRIMARY KEY (session_id, kind, number)) WITHOUT ROWID""",
    """CREATE INDEX search_span_at ON sessions_app_searchspan
        (kind, at, app_owner_id, session_id, name_id, took, failed, tokens, prompt, output)""",
]


def add(apps, schema_editor):
    if schema_editor.connection.vendor == "sqlite":
        for statement in _NARROW:
            schema_editor.execute(statement)
    else:
        schema_editor.execute("ALTER TABLE sessions_app_searchspan ADD first_event bigint NOT NULL DEFAULT 0")


def drop(apps, schema_editor):
    schema_editor.execute("ALTER TABLE sessions_app_searchspan DROP COLUMN first_event")


class Migration(migrations.Migration):

    dependencies = [
        ('sessions_app', '0022_word_parts'),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[migrations.RunPython(add, drop)],
            state_operations=[
                migrations.AddField(
                    model_name='searchspan',
                    name='first_event',
                    field=models.BigIntegerField(default=0),
                ),
            ],
        ),
    ]
