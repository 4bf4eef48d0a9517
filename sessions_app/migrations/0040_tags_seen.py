from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("sessions_app", "0039_known_source"),
    ]

    operations = [
        migrations.RemoveIndex(model_name="sessiontag", name="tag_folded"),
        migrations.AddField(
            model_name="sessiontag",
            name="seen",
            field=models.CharField(default="", max_length=100),
            preserve_default=False,
        ),
        migrations.AddIndex(model_name="sessiontag", index=models.Index(fields=["seen"], name="tag_seen")),
    ]
