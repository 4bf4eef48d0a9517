import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("sessions_app", "0014_trial")]

    operations = [
        migrations.RenameModel("ReplayItem", "TriedSession"),
        migrations.AddField(
            model_name="triedsession",
            name="what_if",
            field=models.ForeignKey(
                null=True, on_delete=django.db.models.deletion.CASCADE, related_name="+", to="sessions_app.job"
            ),
        ),
    ]
