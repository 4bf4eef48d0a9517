"""A token has a permission; the column was called right."""

from django.db import migrations


class Migration(migrations.Migration):
    """Renames the column, which takes no time."""

    dependencies = [("sessions_app", "0003_invitation_role")]

    operations = [migrations.RenameField("ApiToken", "right", "permission")]
