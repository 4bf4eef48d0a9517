import json

from django.db import migrations, models

KEPT = {"checking": "waiting", "importing": "stopped"}


def move_imports(apps, schema_editor):
    """A check that was under way is taken over. An import waits for a word: whether it sets state was not kept."""
    FileImport, Job = apps.get_model("sessions_app", "FileImport"), apps.get_model("sessions_app", "Job")
    for row in FileImport.objects.iterator():
        under_way = row.stage in KEPT
        Job.objects.create(
            id=row.id,
            kind="import",
            where=row.where,
            task=json.dumps({"file": row.file, "name": row.name, "sender": row.actor, "state": False}),
            result=row.found,
            actor=row.actor,
            created=row.created,
            state=KEPT.get(row.stage, row.stage),
            message=row.message,
            finished=None if row.stage == "checking" else row.beat,
            step=row.stage if under_way else "",
            beat=row.beat,
            claimed_until=row.beat if row.stage == "checking" else None,
        )


class Migration(migrations.Migration):
    dependencies = [("sessions_app", "0009_guarded_sign_ins")]

    operations = [
        migrations.CreateModel(
            name="Job",
            fields=[
                ("id", models.UUIDField(primary_key=True, serialize=False)),
                ("kind", models.CharField(max_length=20)),
                ("where", models.TextField()),
                ("app_name", models.CharField(default="", max_length=128)),
                ("user_id", models.CharField(default="", max_length=128)),
                ("session_id", models.CharField(default="", max_length=128)),
                ("task", models.TextField()),
                ("result", models.TextField(default="")),
                ("actor", models.CharField(max_length=150)),
                ("right", models.CharField(default="admin", max_length=10)),
                ("apps", models.CharField(default="*", max_length=200)),
                ("language", models.CharField(default="", max_length=20)),
                ("created", models.FloatField()),
                ("lane", models.TextField(default="")),
                ("state", models.CharField(default="waiting", max_length=10)),
                ("message", models.TextField(default="")),
                ("finished", models.FloatField(null=True)),
                ("step", models.CharField(default="", max_length=20)),
                ("done", models.BigIntegerField(default=0)),
                ("total", models.BigIntegerField(default=0)),
                ("beat", models.FloatField()),
                ("claim", models.CharField(default="", max_length=32)),
                ("claimed_until", models.FloatField(null=True)),
                ("crashes", models.IntegerField(default=0)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("state", "waiting"), models.Q(("lane", ""), _negated=True)),
                        fields=("lane",),
                        name="one_job_of_a_lane",
                    )
                ],
                "indexes": [
                    models.Index(
                        condition=models.Q(("state", "waiting")), fields=["kind", "created"], name="jobs_waiting"
                    )
                ],
            },
        ),
        migrations.RunPython(move_imports, migrations.RunPython.noop),
        migrations.DeleteModel(name="FileImport"),
    ]
