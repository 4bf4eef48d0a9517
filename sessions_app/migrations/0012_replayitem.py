import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("sessions_app", "0011_agentversion"),
    ]

    operations = [
        migrations.CreateModel(
            name="ReplayItem",
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
    ]
