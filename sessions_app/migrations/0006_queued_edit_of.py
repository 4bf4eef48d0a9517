from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("sessions_app", "0005_state_change")]

    operations = [
        migrations.AddField(model_name="queuededit", name="of", field=models.TextField(default="")),
    ]
