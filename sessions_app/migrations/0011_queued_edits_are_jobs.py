import json

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

STAYS = (
    "where",
    "app_name",
    "user_id",
    "session_id",
    "actor",
    "person_id",
    "created",
    "state",
    "message",
    "finished",
    "told",
    "claimed_until",
)


def move_queued_edits(apps, schema_editor):
    """A queued edit waits on, in its order; one that a process may have applied without saying so is asked about again."""
    QueuedEdit, Job = apps.get_model("sessions_app", "QueuedEdit"), apps.get_model("sessions_app", "Job")
    for row in QueuedEdit.objects.iterator():
        entries = json.loads(row.entries)
        changed = [entry["key"] for entry in entries if entry.pop("changed", False)]
        task = {
            "entries": entries,
            "of": json.loads(row.of) if row.of else {},
            "reason": row.reason,
            "event_id": row.event_id,
        }
        result = {"applied": {"seq": row.seq}, "conflict": {"changed": changed}}.get(row.state)
        Job.objects.create(
            id=row.id,
            kind="edit",
            task=json.dumps(task),
            result=json.dumps(result) if result else "",
            beat=row.finished or row.created,
            **{name: getattr(row, name) for name in STAYS},
        )


class Migration(migrations.Migration):
    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
        ("sessions_app", "0010_job"),
    ]

    operations = [
        migrations.AddField(
            model_name="job",
            name="person",
            field=models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddField(model_name="job", name="told", field=models.BooleanField(default=False)),
        migrations.AddIndex(
            model_name="job",
            index=models.Index(fields=["session_id", "user_id", "app_name"], name="jobs_of_session"),
        ),
        migrations.AddIndex(
            model_name="job",
            index=models.Index(
                condition=models.Q(("finished__isnull", False), ("person__isnull", False), ("told", False)),
                fields=["person", "finished"],
                name="jobs_untold",
            ),
        ),
        migrations.RunPython(move_queued_edits, migrations.RunPython.noop),
        migrations.DeleteModel(name="QueuedEdit"),
    ]
