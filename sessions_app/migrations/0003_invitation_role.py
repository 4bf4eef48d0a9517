from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("sessions_app", "0002_searchwrite")]

    operations = [
        migrations.AddField("invitation", "apps", models.CharField(max_length=200, default="", db_default="")),
        migrations.AddField("invitation", "role", models.CharField(max_length=10, default="", db_default="")),
    ]
