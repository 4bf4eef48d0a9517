from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("sessions_app", "0006_queued_edit_of")]

    operations = [
        migrations.AddField(model_name="projection", name="deleted", field=models.BigIntegerField(default=0)),
    ]
