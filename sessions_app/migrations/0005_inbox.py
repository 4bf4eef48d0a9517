"""Makes the tables of the calls that wait for an answer, and of those that were dismissed."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('sessions_app', '0004_token_permission'),
    ]

    operations = [
        migrations.CreateModel(
            name='Dismissal',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('where', models.TextField()),
                ('digest', models.CharField(max_length=32)),
                ('names', models.TextField()),
                ('asked', models.CharField(max_length=32)),
                ('reason', models.CharField(max_length=500)),
                ('by', models.CharField(max_length=150)),
                ('at', models.FloatField()),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('where', 'digest', 'asked'), name='one_dismissal')],
            },
        ),
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
                ('asked', models.CharField(max_length=32)),
            ],
            options={
                'indexes': [models.Index(fields=['passed_over', 'at', 'session_id', 'number'], name='search_pending_at')],
            },
        ),
    ]
