import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('sessions_app', '0001_initial'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='QueuedEdit',
            fields=[
                ('id', models.UUIDField(primary_key=True, serialize=False)),
                ('where', models.TextField()),
                ('app_name', models.CharField(max_length=128)),
                ('user_id', models.CharField(max_length=128)),
                ('session_id', models.CharField(max_length=128)),
                ('entries', models.TextField()),
                ('actor', models.CharField(max_length=150)),
                ('reason', models.TextField()),
                ('event_id', models.CharField(max_length=128)),
                ('created', models.FloatField()),
                ('state', models.CharField(default='waiting', max_length=10)),
                ('message', models.TextField(default='')),
                ('finished', models.FloatField(null=True)),
                ('seq', models.BigIntegerField(null=True)),
                ('told', models.BooleanField(default=False)),
                ('claimed_until', models.FloatField(null=True)),
                ('person', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'indexes': [
                    models.Index(fields=['session_id', 'user_id', 'app_name'], name='queued_of_session'),
                    models.Index(condition=models.Q(('state', 'waiting')), fields=['created'], name='queued_waiting'),
                    models.Index(condition=models.Q(('finished__isnull', False), ('told', False)), fields=['person', 'finished'], name='queued_untold'),
                ],
            },
        ),
    ]
