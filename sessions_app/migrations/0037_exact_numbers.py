from django.db import migrations


class Migration(migrations.Migration):

    dependencies = [
        ('sessions_app', '0036_search_apps'),
    ]

    operations = [
        migrations.RemoveField(model_name='searchvalue', name='number'),
    ]
