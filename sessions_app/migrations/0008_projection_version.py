from django.db import migrations, models

_TABLE = """CREATE TABLE sessions_app_statechange (owner_id bigint NOT NULL, key text NOT NULL, place bigint NOT NULL,
    since bigint NULL, PRIMARY KEY (owner_id, key, place))"""


def empty(apps, schema_editor):
    """What was kept is read anew in any case."""
    schema_editor.execute("DROP TABLE sessions_app_statechange")
    without = " WITHOUT ROWID" if schema_editor.connection.vendor == "sqlite" else ""
    schema_editor.execute(_TABLE + without)


class Migration(migrations.Migration):
    dependencies = [("sessions_app", "0007_projection_deleted")]

    operations = [
        migrations.AddField(model_name="projection", name="version", field=models.IntegerField(default=1)),
        migrations.RunPython(empty, empty),
    ]
