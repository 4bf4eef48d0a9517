from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("sessions_app", "0008_report")]

    operations = [
        migrations.AddField("approvalrule", "tools", models.CharField(db_default="", default="", max_length=200)),
    ]
