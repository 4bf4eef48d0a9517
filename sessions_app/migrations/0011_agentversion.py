from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("sessions_app", "0010_agentchild")]

    operations = [
        migrations.CreateModel(
            name="AgentVersion",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("where", models.TextField()),
                ("app_name", models.CharField(max_length=128)),
                ("adk", models.CharField(max_length=40)),
                ("version", models.CharField(default="", max_length=40)),
            ],
        ),
        migrations.AddConstraint(
            model_name="agentversion",
            constraint=models.UniqueConstraint(fields=("where", "app_name"), name="one_agent_version"),
        ),
    ]
