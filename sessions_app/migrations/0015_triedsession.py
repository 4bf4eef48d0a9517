import django.db.models.deletion
from django.db import migrations, models


def forget_replays(apps, schema_editor):
    """Deletes the replays, whose sessions were in the table that goes. None is older than a week."""
    apps.get_model("sessions_app", "Job").objects.filter(kind="replay").delete()


class Migration(migrations.Migration):
    dependencies = [("sessions_app", "0014_trial")]

    operations = [
        migrations.DeleteModel("ReplayItem"),
        migrations.RunPython(forget_replays, migrations.RunPython.noop),
        migrations.CreateModel(
            name="TriedSession",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("number", models.IntegerField()),
                ("where", models.TextField()),
                ("names", models.TextField()),
                ("result", models.CharField(default="", max_length=10)),
                ("what", models.CharField(default="", max_length=10)),
                ("label", models.TextField(default="")),
                ("outcome", models.TextField(default="")),
                (
                    "what_if",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.CASCADE, related_name="+", to="sessions_app.job"
                    ),
                ),
                (
                    "job",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="sessions_app.job"
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(fields=["job", "result", "number"], name="replay_result"),
                    models.Index(fields=["names"], name="replays_of_session"),
                ],
                "constraints": [models.UniqueConstraint(fields=("job", "number"), name="one_replay_item")],
            },
        ),
        migrations.AddIndex(
            model_name="job",
            index=models.Index(
                fields=["kind", "created"],
                condition=models.Q(kind="replay") | models.Q(kind="whatif") | models.Q(kind="whatifs"),
                name="jobs_tried",
            ),
        ),
    ]
