from django.db import migrations


def end_sign_ins(apps, schema_editor):
    """Their keys stood in the table as they are; from now on it has hashes, so that nobody could use them again."""
    apps.get_model("sessions", "Session").objects.all().delete()


class Migration(migrations.Migration):
    dependencies = [
        ("sessions_app", "0007_projection_deleted"),
        ("sessions", "0001_initial"),
    ]

    operations = [migrations.RunPython(end_sign_ins, migrations.RunPython.noop)]
