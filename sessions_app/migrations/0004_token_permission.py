"""A token has a permission. Its column is still called right, so that a process of the release before reads and writes it."""

from django.db import migrations, models


class Migration(migrations.Migration):
    """Renames the field, and leaves the table as it is."""

    dependencies = [("sessions_app", "0003_invitation_role")]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.RenameField("ApiToken", "right", "permission"),
                migrations.AlterField("ApiToken", "permission", models.CharField(db_column="right", max_length=10)),
            ]
        )
    ]
