from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("sessions_app", "0015_triedsession")]

    operations = [
        migrations.AddIndex(
            model_name="job",
            index=models.Index(
                fields=["kind", "created"],
                condition=models.Q(kind="replay") | models.Q(kind="whatif") | models.Q(kind="whatifs"),
                name="jobs_tried",
            ),
        ),
    ]
