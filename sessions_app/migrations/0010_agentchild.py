from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("sessions_app", "0009_approvalrule_tools")]

    operations = [
        migrations.CreateModel(
            name="AgentChild",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("key", models.CharField(max_length=64, unique=True)),
                ("process", models.CharField(max_length=100)),
                ("since", models.FloatField()),
                ("secret", models.TextField(default="")),
            ],
        ),
    ]
