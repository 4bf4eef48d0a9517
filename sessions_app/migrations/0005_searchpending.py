"""Makes the table of the calls that wait for an answer."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('sessions_app', '0004_token_permission'),
    ]

    operations = [
        migrations.CreateModel(
            name='SearchPending',
            fields=[
                ('pk', models.CompositePrimaryKey('session_id', 'number', blank=True, editable=False, primary_key=True, serialize=False)),
                ('session_id', models.BigIntegerField()),
                ('number', models.IntegerField()),
                ('kind', models.CharField(max_length=12)),
                ('name_id', models.BigIntegerField()),
                ('at', models.FloatField()),
                ('passed_over', models.BooleanField()),
                ('seq', models.BigIntegerField()),
                ('event', models.TextField()),
                ('call', models.TextField()),
            ],
            options={
                'indexes': [models.Index(fields=['passed_over', 'at', 'session_id', 'number'], name='search_pending_at')],
            },
        ),
    ]
