"""Makes all tables of adkweb's own. Everything that Django's models cannot say is in this file's own operations."""

from contextlib import suppress

import django.db.models.deletion
import sessions_app.domain.json_values
import sessions_app.models.adk
import sessions_app.models.sources
import uuid
from django.conf import settings
from django.db import Error, migrations, models, transaction


class CreateNarrowModel(migrations.CreateModel):
    """Makes a table without a rowid on SQLite. It is half as large."""

    def database_forwards(self, app_label, schema_editor, from_state, to_state):
        if schema_editor.connection.vendor == "sqlite":
            schema_editor.sql_create_table += " WITHOUT ROWID"
        super().database_forwards(app_label, schema_editor, from_state, to_state)
        vars(schema_editor).pop("sql_create_table", None)


_WORDS = {  # what events say; names and titles, which may change; words, by what stands in their middle
    "sqlite": [
        """CREATE VIRTUAL TABLE sessions_app_searchtext
            USING fts5(words, content='', tokenize="ascii tokenchars '_'")""",
        "CREATE VIRTUAL TABLE sessions_app_searchtitle USING fts5(words, tokenize=\"ascii tokenchars '_'\")",
        "CREATE VIRTUAL TABLE sessions_app_searchpart USING fts5(word, tokenize='trigram', detail=none, columnsize=0)",
    ],
    "postgresql": [
        "CREATE TABLE sessions_app_searchtext (rowid bigint PRIMARY KEY, words tsvector NOT NULL)",
        "CREATE INDEX search_text_words ON sessions_app_searchtext USING gin (words)",
        "CREATE TABLE sessions_app_searchtitle (rowid bigint PRIMARY KEY, words tsvector NOT NULL)",
        "CREATE INDEX search_title_words ON sessions_app_searchtitle USING gin (words)",
    ],
}
# Whoever may write to the tables can take the triggers away, and is then noticed by the hashes. They stop mistakes.
_AUDIT = {
    "sqlite": [
        """CREATE TRIGGER audit_refuses_update BEFORE UPDATE ON sessions_app_auditrow
        BEGIN SELECT RAISE(ABORT, 'rows of the audit are only added'); END""",
        """CREATE TRIGGER audit_refuses_delete BEFORE DELETE ON sessions_app_auditrow
        BEGIN SELECT RAISE(ABORT, 'rows of the audit are only added'); END""",
        # INSERT OR REPLACE takes a row away without asking the trigger above.
        """CREATE TRIGGER audit_refuses_insert BEFORE INSERT ON sessions_app_auditrow
        WHEN EXISTS (SELECT 1 FROM sessions_app_auditrow WHERE number = NEW.number)
        BEGIN SELECT RAISE(ABORT, 'rows of the audit are only added'); END""",
    ],
    "postgresql": [
        """CREATE FUNCTION audit_refuses() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN RAISE EXCEPTION 'rows of the audit are only added'; END $$""",
        """CREATE TRIGGER audit_refuses BEFORE UPDATE OR DELETE OR TRUNCATE ON sessions_app_auditrow
        FOR EACH STATEMENT EXECUTE FUNCTION audit_refuses()""",
    ],
}


def add_what_models_cannot_say(apps, schema_editor):
    """Adds the tables of words, and the triggers that keep the audit."""
    vendor = schema_editor.connection.vendor
    for statement in (*_WORDS[vendor], *_AUDIT[vendor]):
        schema_editor.execute(statement)
    if vendor == "postgresql":
        # Without the extension, the same query looks through all words: slower, and right.
        with suppress(Error), transaction.atomic(schema_editor.connection.alias):
            schema_editor.execute("CREATE EXTENSION IF NOT EXISTS pg_trgm")
            schema_editor.execute(
                "CREATE INDEX search_word_parts ON sessions_app_searchword USING gin (word gin_trgm_ops)"
            )


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('auth', '0012_alter_user_first_name_max_length'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='App',
            fields=[
                ('app_name', models.CharField(max_length=128, primary_key=True, serialize=False)),
                ('state', models.JSONField()),
                ('update_time', sessions_app.models.adk.Instant()),
            ],
            options={
                'db_table': 'app_states',
                'managed': False,
            },
        ),
        migrations.CreateModel(
            name='User',
            fields=[
                ('pk', models.CompositePrimaryKey('app_name', 'user_id', blank=True, editable=False, primary_key=True, serialize=False)),
                ('app_name', models.CharField(max_length=128)),
                ('user_id', models.CharField(max_length=128)),
                ('state', models.JSONField()),
                ('update_time', sessions_app.models.adk.Instant()),
            ],
            options={
                'db_table': 'user_states',
                'managed': False,
            },
        ),
        migrations.CreateModel(
            name='Session',
            fields=[
                ('pk', models.CompositePrimaryKey('app_name', 'user_id', 'id', blank=True, editable=False, primary_key=True, serialize=False)),
                ('app_name', models.CharField(max_length=128)),
                ('user_id', models.CharField(max_length=128)),
                ('id', models.CharField(max_length=128)),
                ('state', models.JSONField()),
                ('create_time', sessions_app.models.adk.Instant()),
                ('update_time', sessions_app.models.adk.Instant()),
            ],
            options={
                'db_table': 'sessions',
                'managed': False,
            },
        ),
        migrations.CreateModel(
            name='Event',
            fields=[
                ('pk', models.CompositePrimaryKey('app_name', 'user_id', 'session_id', 'id', blank=True, editable=False, primary_key=True, serialize=False)),
                ('app_name', models.CharField(max_length=128)),
                ('user_id', models.CharField(max_length=128)),
                ('session_id', models.CharField(max_length=128)),
                ('id', models.CharField(max_length=128)),
                ('invocation_id', models.CharField(max_length=256)),
                ('timestamp', sessions_app.models.adk.Instant()),
                ('event_data', sessions_app.models.adk.EventData(decoder=sessions_app.domain.json_values.Stored, null=True)),
                ('seq', sessions_app.models.adk.SeqField()),
            ],
            options={
                'db_table': 'events',
                'managed': False,
            },
        ),
        migrations.CreateModel(
            name='ApprovalRule',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('sources', models.CharField(default='*', max_length=200)),
                ('apps', models.CharField(default='*', max_length=200)),
                ('keys', models.CharField(default='', max_length=200)),
                ('sessions', models.IntegerField(null=True)),
                ('days', models.IntegerField(default=7)),
                ('made_by', models.CharField(max_length=150)),
                ('made', models.DateTimeField(auto_now_add=True)),
            ],
        ),
        migrations.CreateModel(
            name='AuditRow',
            fields=[
                ('number', models.BigIntegerField(primary_key=True, serialize=False)),
                ('at', models.FloatField()),
                ('act', models.CharField(max_length=40)),
                ('by', models.TextField()),
                ('address', models.TextField(default='')),
                ('source', models.TextField(default='')),
                ('app_name', models.TextField(default='')),
                ('user_id', models.TextField(default='')),
                ('session_id', models.TextField(default='')),
                ('detail', models.TextField(default='{}')),
                ('previous', models.CharField(max_length=64)),
                ('digest', models.CharField(max_length=64)),
                ('seal', models.CharField(max_length=64)),
            ],
            options={
                'indexes': [models.Index(fields=['act', 'number'], name='audit_of_act'), models.Index(fields=['by', 'number'], name='audit_of_person'), models.Index(fields=['app_name', 'number'], name='audit_of_app')],
            },
        ),
        migrations.CreateModel(
            name='AuditReceiver',
            fields=[
                ('name', models.CharField(max_length=10, primary_key=True, serialize=False)),
                ('sent', models.BigIntegerField(default=0)),
                ('claim', models.CharField(default='', max_length=32)),
                ('claimed_until', models.FloatField(default=0.0)),
                ('tries', models.IntegerField(default=0)),
                ('due', models.FloatField(default=0.0)),
                ('message', models.TextField(default='')),
            ],
        ),
        migrations.CreateModel(
            name='SignInToken',
            fields=[
                ('digest', models.CharField(max_length=64, primary_key=True, serialize=False)),
                ('person', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to=settings.AUTH_USER_MODEL)),
                ('created', models.DateTimeField(auto_now_add=True)),
            ],
        ),
        migrations.CreateModel(
            name='Invitation',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('digest', models.CharField(max_length=64, unique=True)),
                ('note', models.CharField(max_length=100)),
                ('admin', models.BooleanField(default=False)),
                ('created_by', models.CharField(max_length=150)),
                ('created', models.DateTimeField(auto_now_add=True)),
                ('groups', models.ManyToManyField(to='auth.group')),
            ],
        ),
        migrations.CreateModel(
            name='PasswordTries',
            fields=[
                ('key', models.CharField(max_length=64, primary_key=True, serialize=False)),
                ('count', models.IntegerField(default=0)),
                ('until', models.FloatField(default=0.0)),
                ('seen', models.FloatField(db_index=True, default=0.0)),
            ],
        ),
        migrations.CreateModel(
            name='ApiToken',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=100, unique=True)),
                ('digest', models.CharField(max_length=64, unique=True)),
                ('right', models.CharField(max_length=10)),
                ('apps', models.CharField(max_length=200)),
                ('created_by', models.CharField(max_length=150)),
                ('created', models.DateTimeField(auto_now_add=True)),
                ('used', models.DateTimeField(null=True)),
                ('used_from', models.CharField(default='', max_length=45)),
                ('rate', models.IntegerField(null=True)),
                ('renewed_by', models.CharField(default='', max_length=150)),
                ('renewed', models.DateTimeField(null=True)),
                ('revoked_by', models.CharField(default='', max_length=150)),
                ('revoked', models.DateTimeField(null=True)),
                ('expires', models.DateTimeField(null=True)),
                ('holders', models.TextField(default='[]')),
                ('person', models.ForeignKey(db_constraint=False, null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
        ),
        migrations.CreateModel(
            name='OldTokenText',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('token', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='old_texts', to='sessions_app.apitoken')),
                ('digest', models.CharField(max_length=64, unique=True)),
                ('until', models.DateTimeField()),
                ('holders', models.TextField(default='[]')),
                ('person', models.ForeignKey(db_constraint=False, null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
        ),
        migrations.CreateModel(
            name='Role',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('role', models.CharField(max_length=10)),
                ('sources', models.CharField(default='*', max_length=200)),
                ('apps', models.CharField(default='*', max_length=200)),
                ('reveals', models.BooleanField(default=False)),
                ('person', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('group', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='auth.group')),
                ('given_by', models.CharField(max_length=150)),
                ('given', models.DateTimeField(auto_now_add=True)),
            ],
            options={
                'constraints': [models.UniqueConstraint(condition=models.Q(('person__isnull', False)), fields=('role', 'sources', 'apps', 'person'), name='one_role_of_person'), models.UniqueConstraint(condition=models.Q(('group__isnull', False)), fields=('role', 'sources', 'apps', 'group'), name='one_role_of_group'), models.CheckConstraint(condition=models.Q(models.Q(('group__isnull', False), ('person__isnull', True)), models.Q(('group__isnull', True), ('person__isnull', False)), _connector='OR'), name='role_of_person_or_group')],
            },
        ),
        migrations.CreateModel(
            name='Job',
            fields=[
                ('id', models.UUIDField(primary_key=True, serialize=False)),
                ('kind', models.CharField(max_length=20)),
                ('where', models.TextField()),
                ('app_name', models.CharField(default='', max_length=128)),
                ('user_id', models.CharField(default='', max_length=128)),
                ('session_id', models.CharField(default='', max_length=128)),
                ('task', models.TextField()),
                ('result', models.TextField(default='')),
                ('actor', models.CharField(max_length=150)),
                ('account', models.CharField(default='', max_length=40)),
                ('language', models.CharField(default='', max_length=20)),
                ('created', models.FloatField()),
                ('lane', models.TextField(default='')),
                ('state', models.CharField(default='waiting', max_length=10)),
                ('message', models.TextField(default='')),
                ('finished', models.FloatField(null=True)),
                ('step', models.CharField(default='', max_length=20)),
                ('done', models.BigIntegerField(default=0)),
                ('total', models.BigIntegerField(default=0)),
                ('beat', models.FloatField()),
                ('claim', models.CharField(default='', max_length=32)),
                ('process', models.CharField(default='', max_length=100)),
                ('claimed_until', models.FloatField(null=True)),
                ('crashes', models.IntegerField(default=0)),
                ('person', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('told', models.BooleanField(default=False)),
                ('due', models.FloatField(null=True)),
            ],
            options={
                'indexes': [models.Index(condition=models.Q(('state', 'waiting')), fields=['kind', 'created'], name='jobs_waiting'), models.Index(fields=['session_id', 'user_id', 'app_name'], name='jobs_of_session'), models.Index(condition=models.Q(('finished__isnull', False), ('person__isnull', False), ('told', False)), fields=['person', 'finished'], name='jobs_untold'), models.Index(condition=models.Q(('due__isnull', False), ('state', 'waiting')), fields=['due'], name='jobs_due')],
                'constraints': [models.UniqueConstraint(condition=models.Q(('state', 'waiting'), models.Q(('lane', ''), _negated=True)), fields=('lane',), name='one_job_of_a_lane')],
            },
        ),
        migrations.CreateModel(
            name='Projection',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('where', models.TextField(unique=True)),
                ('seq', models.BigIntegerField(default=0)),
                ('marks', models.TextField(default='[]')),
                ('holes', models.TextField(default='[]')),
                ('created', models.TextField(default='[]')),
                ('deleted', models.BigIntegerField(default=0)),
                ('version', models.IntegerField(default=1)),
            ],
        ),
        migrations.CreateModel(
            name='StateOwner',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('projection', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='sessions_app.projection')),
                ('scope', models.CharField(max_length=10)),
                ('app_name', models.TextField()),
                ('user_id', models.TextField()),
                ('session_id', models.TextField()),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('projection', 'app_name', 'user_id', 'session_id', 'scope'), name='one_owner_of_state')],
            },
        ),
        CreateNarrowModel(
            name='StateChange',
            fields=[
                ('pk', models.CompositePrimaryKey('owner_id', 'key', 'place', blank=True, editable=False, primary_key=True, serialize=False)),
                ('owner_id', models.BigIntegerField()),
                ('key', models.TextField()),
                ('place', models.BigIntegerField()),
                ('since', models.BigIntegerField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name='BatchItem',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('job', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='sessions_app.job')),
                ('number', models.IntegerField()),
                ('where', models.TextField()),
                ('names', models.TextField()),
                ('expects', models.TextField(default='')),
                ('held', models.BooleanField(default=False)),
                ('begun', models.BooleanField(default=False)),
                ('outcome', models.CharField(default='', max_length=10)),
                ('event_id', models.TextField(default='')),
                ('message', models.TextField(default='')),
            ],
            options={
                'indexes': [models.Index(fields=['job', 'outcome', 'number'], name='batch_outcome')],
                'constraints': [models.UniqueConstraint(fields=('job', 'number'), name='one_batch_item')],
            },
        ),
        migrations.CreateModel(
            name='Rule',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('where', models.TextField()),
                ('digest', models.CharField(max_length=32)),
                ('names', models.TextField()),
                ('title', models.CharField(default='', max_length=100)),
                ('condition', models.CharField(max_length=1000)),
                ('created', models.FloatField()),
                ('created_by', models.CharField(max_length=150)),
                ('job', models.UUIDField(null=True)),
                ('walked', models.BigIntegerField(default=0)),
                ('within', models.BigIntegerField(null=True)),
                ('checked', models.FloatField(default=0.0)),
            ],
            options={
                'indexes': [models.Index(fields=['where', 'digest'], name='rules_of_app')],
            },
        ),
        migrations.CreateModel(
            name='Breach',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('rule', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='sessions_app.rule')),
                ('digest', models.CharField(max_length=32)),
                ('names', models.TextField()),
                ('position', models.BigIntegerField()),
                ('event_id', models.TextField(default='')),
                ('at', models.FloatField()),
                ('now', models.BooleanField()),
                ('created', models.FloatField()),
            ],
            options={
                'indexes': [models.Index(fields=['rule', 'at', 'id'], name='breaches_by_time'), models.Index(fields=['at'], name='breaches_newest'), models.Index(condition=models.Q(('now', True)), fields=['rule'], name='breaches_now')],
                'constraints': [models.UniqueConstraint(fields=('rule', 'digest'), name='one_breach')],
            },
        ),
        migrations.CreateModel(
            name='CheckedSession',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('where', models.TextField()),
                ('digest', models.CharField(max_length=32)),
                ('created', models.FloatField()),
                ('upto', models.BigIntegerField()),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('where', 'digest'), name='one_checked_session')],
            },
        ),
        migrations.CreateModel(
            name='DueSession',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('where', models.TextField(db_index=True)),
                ('digest', models.CharField(max_length=32)),
            ],
        ),
        migrations.CreateModel(
            name='MaskRule',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('apps', models.CharField(max_length=200)),
                ('kind', models.CharField(max_length=10)),
                ('pattern', models.CharField(max_length=200)),
                ('ids', models.BooleanField(default=False)),
                ('created', models.FloatField()),
                ('created_by', models.CharField(max_length=150)),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('apps', 'kind', 'pattern'), name='one_mask_rule')],
            },
        ),
        migrations.CreateModel(
            name='SessionHold',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('where', models.TextField()),
                ('digest', models.CharField(max_length=32)),
                ('names', models.TextField()),
                ('reason', models.CharField(max_length=500)),
                ('by', models.CharField(max_length=150)),
                ('at', models.FloatField()),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('where', 'digest'), name='one_hold')],
            },
        ),
        migrations.CreateModel(
            name='RetentionRule',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('where', models.TextField()),
                ('app_name', models.CharField(max_length=128)),
                ('days', models.IntegerField()),
                ('export', models.BooleanField(default=False)),
                ('by', models.CharField(max_length=150)),
                ('account', models.CharField(default='', max_length=40)),
                ('changed', models.FloatField()),
                ('due', models.FloatField()),
                ('result', models.TextField(default='')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('where', 'app_name'), name='one_retention_rule')],
            },
        ),
        migrations.CreateModel(
            name='SavedView',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, primary_key=True, serialize=False)),
                ('person', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('name', models.CharField(max_length=60)),
                ('folded', models.CharField(max_length=200)),
                ('query', models.TextField()),
                ('sort', models.CharField(max_length=40)),
                ('columns', models.TextField()),
                ('shared', models.BooleanField(default=False)),
                ('created', models.FloatField()),
            ],
            options={
                'indexes': [models.Index(condition=models.Q(('shared', True)), fields=['created'], name='views_shared')],
                'constraints': [models.UniqueConstraint(fields=('person', 'folded'), name='one_view_of_a_name')],
            },
        ),
        migrations.CreateModel(
            name='ViewWatch',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('view', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='sessions_app.savedview')),
                ('person', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('zone', models.CharField(max_length=60)),
                ('created', models.FloatField()),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('view', 'person'), name='one_watch_of_a_view')],
            },
        ),
        migrations.CreateModel(
            name='ViewNews',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('watch', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', related_query_name='viewnews_of', to='sessions_app.viewwatch')),
                ('where', models.TextField()),
                ('digest', models.CharField(max_length=32)),
                ('names', models.TextField()),
                ('at', models.FloatField()),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('watch', 'where', 'digest'), name='one_piece_of_news')],
            },
        ),
        migrations.CreateModel(
            name='Webhook',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('watch', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='sessions_app.viewwatch')),
                ('url', models.TextField()),
                ('salt', models.CharField(max_length=64)),
                ('link', models.TextField()),
                ('created', models.FloatField()),
            ],
        ),
        migrations.CreateModel(
            name='WebhookDelivery',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, primary_key=True, serialize=False)),
                ('hook', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='sessions_app.webhook')),
                ('app_name', models.TextField()),
                ('body', models.TextField()),
                ('created', models.FloatField()),
                ('state', models.CharField(default='waiting', max_length=10)),
                ('due', models.FloatField()),
                ('tries', models.IntegerField(default=0)),
                ('status', models.IntegerField(null=True)),
                ('message', models.TextField(default='')),
                ('finished', models.FloatField(null=True)),
                ('claimed_until', models.FloatField(default=0.0)),
            ],
            options={
                'indexes': [models.Index(condition=models.Q(('state', 'waiting')), fields=['due'], name='deliveries_due'), models.Index(fields=['hook', 'created'], name='deliveries_of_hook')],
            },
        ),
        migrations.CreateModel(
            name='SearchSource',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('where', models.TextField(unique=True)),
                ('version', models.IntegerField(default=0)),
                ('walked', models.TextField(default='')),
                ('walks', models.IntegerField(default=0)),
                ('done', models.BigIntegerField(default=0)),
                ('total', models.BigIntegerField(default=0)),
                ('due', models.FloatField(default=0.0)),
                ('looked', models.FloatField(default=0.0)),
                ('claim', models.CharField(default='', max_length=32)),
                ('claimed_until', models.FloatField(default=0.0)),
            ],
        ),
        migrations.CreateModel(
            name='Waiting',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('where', models.TextField(db_index=True)),
                ('names', models.TextField()),
            ],
        ),
        migrations.CreateModel(
            name='SearchOwner',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('source', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='sessions_app.searchsource')),
                ('digest', models.CharField(max_length=32)),
                ('app_name', models.TextField()),
                ('user_id', models.TextField()),
                ('shown', models.TextField(default='')),
                ('folded', models.TextField()),
                ('folded_id', models.TextField(default='')),
                ('sessions', models.IntegerField(default=0)),
            ],
            options={
                'indexes': [models.Index(condition=models.Q(('user_id', '')), fields=['source'], name='search_apps'), models.Index(fields=['source', 'app_name', 'shown'], name='search_shown')],
                'constraints': [models.UniqueConstraint(fields=('source', 'digest'), name='one_search_owner')],
            },
        ),
        migrations.CreateModel(
            name='SearchSession',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('source', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='sessions_app.searchsource')),
                ('digest', models.CharField(max_length=32)),
                ('names', models.TextField()),
                ('app_name', models.TextField()),
                ('folded_id', models.TextField()),
                ('folded_user', models.TextField()),
                ('user_owner', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='sessions_app.searchowner')),
                ('app_owner', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='sessions_app.searchowner')),
                ('title', models.TextField()),
                ('folded_title', models.TextField()),
                ('created', models.FloatField()),
                ('updated', models.FloatField()),
                ('first', models.FloatField()),
                ('last', models.FloatField()),
                ('took', models.FloatField()),
                ('sign', models.CharField(default='', max_length=1)),
                ('turns', models.IntegerField()),
                ('events', models.IntegerField()),
                ('tokens', models.BigIntegerField()),
                ('errors', models.IntegerField()),
                ('error', models.TextField()),
                ('error_seq', models.BigIntegerField()),
                ('failed', models.BooleanField()),
                ('edited', models.BooleanField()),
                ('phase', models.CharField(max_length=10)),
                ('listed', models.BooleanField()),
                ('summary', models.TextField()),
            ],
            options={
                'indexes': [models.Index(fields=['last', 'id'], name='search_last'), models.Index(fields=['created', 'id'], name='search_created'), models.Index(fields=['took', 'id'], name='search_took'), models.Index(fields=['turns', 'id'], name='search_turns'), models.Index(fields=['events', 'id'], name='search_events'), models.Index(fields=['tokens', 'id'], name='search_tokens'), models.Index(fields=['folded_user', 'id'], name='search_user'), models.Index(fields=['folded_title', 'id'], name='search_title'), models.Index(fields=['app_name', 'id'], name='search_app'), models.Index(fields=['app_name', 'last', 'id'], name='search_app_last'), models.Index(condition=models.Q(('phase', 'idle'), _negated=True), fields=['phase', 'last'], name='search_phase'), models.Index(condition=models.Q(('errors__gt', 0)), fields=['last', 'id'], name='search_errors')],
                'constraints': [models.UniqueConstraint(fields=('source', 'digest'), name='one_search_session')],
            },
        ),
        migrations.CreateModel(
            name='SearchName',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(max_length=10)),
                ('app_name', models.TextField()),
                ('value', models.TextField()),
                ('folded', models.TextField()),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('kind', 'value', 'app_name'), name='one_search_name')],
            },
        ),
        CreateNarrowModel(
            name='SearchFact',
            fields=[
                ('pk', models.CompositePrimaryKey('name_id', 'session_id', blank=True, editable=False, primary_key=True, serialize=False)),
                ('name_id', models.BigIntegerField()),
                ('session_id', models.BigIntegerField()),
            ],
            options={
                'indexes': [models.Index(fields=['session_id'], name='search_fact_session')],
            },
        ),
        CreateNarrowModel(
            name='SearchValue',
            fields=[
                ('pk', models.CompositePrimaryKey('name_id', 'owner_id', blank=True, editable=False, primary_key=True, serialize=False)),
                ('name_id', models.BigIntegerField()),
                ('owner_id', models.BigIntegerField()),
                ('kind', models.CharField(max_length=1)),
                ('text', models.TextField()),
            ],
            options={
                'indexes': [models.Index(fields=['owner_id'], name='search_value_owner')],
            },
        ),
        CreateNarrowModel(
            name='SearchSpan',
            fields=[
                ('pk', models.CompositePrimaryKey('session_id', 'kind', 'number', blank=True, editable=False, primary_key=True, serialize=False)),
                ('session_id', models.BigIntegerField()),
                ('kind', models.CharField(max_length=1)),
                ('number', models.IntegerField()),
                ('app_owner_id', models.BigIntegerField()),
                ('name_id', models.BigIntegerField()),
                ('at', models.FloatField()),
                ('took', models.FloatField(null=True)),
                ('failed', models.BooleanField()),
                ('tokens', models.BigIntegerField()),
                ('seq', models.BigIntegerField()),
                ('prompt', models.IntegerField(default=0)),
                ('output', models.IntegerField(default=0)),
                ('first_event', models.BigIntegerField(default=0)),
                ('sign', models.CharField(default='', max_length=1)),
            ],
            options={
                'indexes': [models.Index(fields=['kind', 'at', 'app_owner_id', 'session_id', 'name_id', 'took', 'failed', 'tokens', 'prompt', 'output', 'sign'], name='search_span_at')],
            },
        ),
        migrations.CreateModel(
            name='SearchKey',
            fields=[
                ('pk', models.CompositePrimaryKey('app_owner_id', 'name', blank=True, editable=False, primary_key=True, serialize=False)),
                ('app_owner_id', models.BigIntegerField()),
                ('name', models.CharField(max_length=200)),
                ('learnt', models.TextField()),
            ],
        ),
        migrations.CreateModel(
            name='DriftedSession',
            fields=[
                ('session_id', models.BigIntegerField(primary_key=True, serialize=False)),
                ('app_owner_id', models.BigIntegerField()),
                ('since', models.FloatField(db_index=True)),
            ],
        ),
        migrations.CreateModel(
            name='SearchDoc',
            fields=[
                ('id', models.BigIntegerField(primary_key=True, serialize=False)),
                ('first_seq', models.BigIntegerField()),
                ('last_seq', models.BigIntegerField()),
            ],
        ),
        CreateNarrowModel(
            name='SearchWord',
            fields=[
                ('word', models.CharField(max_length=64, primary_key=True, serialize=False)),
            ],
        ),
        migrations.CreateModel(
            name='SessionTag',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('where', models.TextField()),
                ('digest', models.CharField(max_length=32)),
                ('names', models.TextField()),
                ('tag', models.CharField(max_length=50)),
                ('folded', models.CharField(max_length=100)),
                ('seen', models.CharField(max_length=100)),
            ],
            options={
                'indexes': [models.Index(fields=['seen'], name='tag_seen')],
                'constraints': [models.UniqueConstraint(fields=('where', 'digest', 'folded'), name='one_tag')],
            },
        ),
        migrations.CreateModel(
            name='SessionTitle',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('where', models.TextField()),
                ('digest', models.CharField(max_length=32)),
                ('names', models.TextField()),
                ('title', models.CharField(max_length=200)),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('where', 'digest'), name='one_title')],
            },
        ),
        migrations.CreateModel(
            name='KnownSource',
            fields=[
                ('key', models.CharField(default=sessions_app.models.sources.new_key, max_length=32, primary_key=True, serialize=False)),
                ('location', models.TextField(null=True, unique=True)),
                ('file', models.CharField(default='', max_length=60)),
                ('stored', models.CharField(max_length=32, null=True, unique=True)),
                ('label', models.TextField(default='')),
                ('copy_of', models.CharField(default='', max_length=32)),
            ],
            options={
                'indexes': [models.Index(fields=['file'], name='known_file')],
            },
        ),
        migrations.RunPython(add_what_models_cannot_say),
    ]
