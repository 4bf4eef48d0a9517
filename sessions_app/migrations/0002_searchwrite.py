"""Makes the table of what events wrote, without a rowid on SQLite."""

from importlib import import_module

from django.db import migrations, models

CreateNarrowModel = import_module(f"{__package__}.0001_initial").CreateNarrowModel


class Migration(migrations.Migration):

    dependencies = [
        ('sessions_app', '0001_initial'),
    ]

    operations = [
        CreateNarrowModel(
            name='SearchWrite',
            fields=[
                ('pk', models.CompositePrimaryKey('session_id', 'name_id', 'seq', blank=True, editable=False, primary_key=True, serialize=False)),
                ('session_id', models.BigIntegerField()),
                ('name_id', models.BigIntegerField()),
                ('seq', models.BigIntegerField()),
                ('writer_id', models.BigIntegerField()),
                ('changed', models.BooleanField()),
                ('kind', models.CharField(max_length=1)),
                ('text', models.TextField()),
            ],
            options={
                'indexes': [models.Index(fields=['name_id', 'kind', 'text', 'writer_id', 'changed', 'session_id', 'seq'], name='search_write_value')],
            },
        ),
    ]
