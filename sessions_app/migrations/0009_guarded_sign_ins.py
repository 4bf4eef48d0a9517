from django.db import migrations, models


def end_sign_ins(apps, schema_editor):
    """Their keys stood in the table as they are; from now on it has hashes, so that nobody could use them again."""
    apps.get_model("sessions", "Session").objects.all().delete()


class Migration(migrations.Migration):
    dependencies = [
        ("sessions_app", "0008_projection_version"),
        ("sessions", "0001_initial"),
    ]

    operations = [
        migrations.RunPython(end_sign_ins, migrations.RunPython.noop),
        migrations.CreateModel(
            name="PasswordTries",
            fields=[
                ("key", models.CharField(max_length=64, primary_key=True, serialize=False)),
                ("count", models.IntegerField(default=0)),
                ("until", models.FloatField(default=0.0)),
                ("seen", models.FloatField(db_index=True, default=0.0)),
            ],
        ),
    ]
