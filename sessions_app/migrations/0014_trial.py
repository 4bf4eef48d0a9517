import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("sessions_app", "0013_breakpoint")]

    operations = [
        migrations.CreateModel(
            name="Trial",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("number", models.IntegerField()),
                ("begins", models.CharField(default="", max_length=128)),
                ("events", models.TextField(default="[]")),
                ("question", models.TextField(default="")),
                ("answer", models.TextField(default="")),
                ("ended", models.TextField(default="")),
                ("seconds", models.FloatField(default=0.0)),
                (
                    "job",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="trials", to="sessions_app.job"
                    ),
                ),
            ],
        ),
        migrations.AddConstraint(
            model_name="trial",
            constraint=models.UniqueConstraint(fields=("job", "number"), name="one_trial_of_a_number"),
        ),
    ]
