"""The index of search/: what can be found in each session. It is derived data, and can be rebuilt at any time.

The words of events are in tables of the database's own kind, which the migration makes: an FTS5 table on SQLite, a
tsvector on PostgreSQL.
"""

from typing import ClassVar

from django.db import models


class SearchSource(models.Model):
    """How far a source is indexed. `where` is registry.identity.

    `walked` is the last session that the walk through all of them has reached, as JSON; "" before it starts and after
    it ends. `walks` counts those that ended. One process at a time feeds the index: the one with the `claim`.
    """

    where = models.TextField(unique=True)
    version = models.IntegerField(default=0)
    walked = models.TextField(default="")
    walks = models.IntegerField(default=0)
    done = models.BigIntegerField(default=0)
    total = models.BigIntegerField(default=0)
    due = models.FloatField(default=0.0)  # the next walk
    looked = models.FloatField(default=0.0)  # when search/saved/match_watcher.py last checked what time alone changes
    claim = models.CharField(max_length=32, default="")
    claimed_until = models.FloatField(default=0.0)


class Waiting(models.Model):
    """A session that has new events, as a SessionRef without its source, as JSON."""

    where = models.TextField(db_index=True)
    names = models.TextField()


class SearchOwner(models.Model):
    """The owner of shared state: a user, or an app (with an empty user_id).

    `digest` is that of its names. `shown` is the user's id as everyone sees it: the id, which may be cut, or the handle
    if a rule hides it. `folded` is the same as words.marked returns it, and `folded_id` the hidden id in that form.
    `sessions` counts those of an app that are listed.
    """

    source = models.ForeignKey(SearchSource, models.CASCADE, related_name="+")
    digest = models.CharField(max_length=32)
    app_name = models.TextField()
    user_id = models.TextField()
    shown = models.TextField(default="")
    folded = models.TextField()
    folded_id = models.TextField(default="")
    sessions = models.IntegerField(default=0)

    class Meta:
        constraints: ClassVar = [models.UniqueConstraint(fields=["source", "digest"], name="one_search_owner")]
        indexes: ClassVar = [
            models.Index(fields=["source"], condition=models.Q(user_id=""), name="search_apps"),
            models.Index(fields=["source", "app_name", "shown"], name="search_shown"),
        ]


class SearchSession(models.Model):
    """A session in numbers. Times are seconds.

    `digest` is that of its names, which `names` has as JSON. `app_name` may be cut; the folded columns are as
    words.folded returns them. `phase` is idle, open, waiting or stopped. `summary` is folding.Summary as JSON, without
    what is zero or empty; `updated` is the session's revision.
    """

    source = models.ForeignKey(SearchSource, models.CASCADE, related_name="+")
    digest = models.CharField(max_length=32)
    names = models.TextField()
    app_name = models.TextField()
    folded_id = models.TextField()
    folded_user = models.TextField()
    user_owner = models.ForeignKey(SearchOwner, models.CASCADE, related_name="+")
    app_owner = models.ForeignKey(SearchOwner, models.CASCADE, related_name="+")
    title = models.TextField()
    folded_title = models.TextField()
    created = models.FloatField()
    updated = models.FloatField()
    first = models.FloatField()
    last = models.FloatField()
    took = models.FloatField()
    sign = models.CharField(max_length=1, default="")  # of `took`; see domain/clock.py
    turns = models.IntegerField()
    events = models.IntegerField()
    tokens = models.BigIntegerField()
    errors = models.IntegerField()
    error = models.TextField()
    error_seq = models.BigIntegerField()
    failed = models.BooleanField()
    edited = models.BooleanField()
    phase = models.CharField(max_length=10)
    listed = models.BooleanField()  # not a session in which adkweb keeps edits of shared state
    summary = models.TextField()

    class Meta:
        constraints: ClassVar = [models.UniqueConstraint(fields=["source", "digest"], name="one_search_session")]
        indexes: ClassVar = [
            models.Index(fields=["last", "id"], name="search_last"),
            models.Index(fields=["created", "id"], name="search_created"),
            models.Index(fields=["took", "id"], name="search_took"),
            models.Index(fields=["turns", "id"], name="search_turns"),
            models.Index(fields=["events", "id"], name="search_events"),
            models.Index(fields=["tokens", "id"], name="search_tokens"),
            models.Index(fields=["folded_user", "id"], name="search_user"),
            models.Index(fields=["folded_title", "id"], name="search_title"),
            models.Index(fields=["app_name", "id"], name="search_app"),
            models.Index(fields=["app_name", "last", "id"], name="search_app_last"),
            models.Index(fields=["phase", "last"], condition=~models.Q(phase="idle"), name="search_phase"),
            models.Index(fields=["last", "id"], condition=models.Q(errors__gt=0), name="search_errors"),
        ]


class SearchName(models.Model):
    """A value that filters search: the kind (tool, author, key …), the app in which it was seen, and the value."""

    kind = models.CharField(max_length=10)
    app_name = models.TextField()
    value = models.TextField()
    folded = models.TextField()

    class Meta:
        constraints: ClassVar = [models.UniqueConstraint(fields=["kind", "value", "app_name"], name="one_search_name")]


class SearchFact(models.Model):
    """A session has a name: it called this tool, for example."""

    pk = models.CompositePrimaryKey("name_id", "session_id")
    name_id = models.BigIntegerField()
    session_id = models.BigIntegerField()

    class Meta:
        indexes: ClassVar = [models.Index(fields=["session_id"], name="search_fact_session")]


class SearchValue(models.Model):
    """A value of state, as search/values.Value: of a session, or of a SearchOwner if the key is shared."""

    pk = models.CompositePrimaryKey("name_id", "owner_id")
    name_id = models.BigIntegerField()
    owner_id = models.BigIntegerField()
    kind = models.CharField(max_length=1)
    text = models.TextField()

    class Meta:
        indexes: ClassVar = [models.Index(fields=["owner_id"], name="search_value_owner")]


class SearchWrite(models.Model):
    """A value that an event of a session gave to a key, as search/values.Value: unless the event before it that wrote the
    key had the same value and the same writer. One with the seq 0 is what the session began with, until an event wrote it.

    `writer_id` is the name of the event's author or of the person who edited; 0 if there is none. `changed` says that the
    key had another value in this session before, or none that is known.
    """

    pk = models.CompositePrimaryKey("session_id", "name_id", "seq")
    session_id = models.BigIntegerField()
    name_id = models.BigIntegerField()
    seq = models.BigIntegerField()
    writer_id = models.BigIntegerField()
    changed = models.BooleanField()
    kind = models.CharField(max_length=1)
    text = models.TextField()

    class Meta:
        indexes: ClassVar = [
            models.Index(
                fields=["name_id", "kind", "text", "writer_id", "changed", "session_id", "seq"],
                name="search_write_value",
            )
        ]


class SearchSpan(models.Model):
    """A turn (kind t), a further model of it (m), a call of a tool (c), a failure (f) or a saved artifact (a) of a
    session, by its number in it. Times are seconds.

    `name_id` is that of the tool, the failure, the model or the artifact; 0 if it has no name. `took` is null while a
    call is not answered. `first_event` is the number that the first event of a turn has in the session.
    """

    pk = models.CompositePrimaryKey("session_id", "kind", "number")
    session_id = models.BigIntegerField()
    kind = models.CharField(max_length=1)
    number = models.IntegerField()
    app_owner_id = models.BigIntegerField()
    name_id = models.BigIntegerField()
    at = models.FloatField()
    took = models.FloatField(null=True)
    failed = models.BooleanField()
    tokens = models.BigIntegerField()
    seq = models.BigIntegerField()
    prompt = models.IntegerField(default=0)
    output = models.IntegerField(default=0)
    first_event = models.BigIntegerField(default=0)
    sign = models.CharField(max_length=1, default="")  # of `took`; see domain/clock.py

    class Meta:
        indexes: ClassVar = [
            models.Index(
                fields=[
                    *("kind", "at", "app_owner_id", "session_id", "name_id", "took", "failed", "tokens"),
                    *("prompt", "output", "sign"),
                ],
                name="search_span_at",
            )
        ]


class SearchPending(models.Model):
    """A call that waits for an answer: domain/pending.py. `number` counts those of a session.

    `call` and `event` are the ids of the call and of the event that asks, whose seq is `seq`; `asked` is the digest of both.
    `name_id` is the name of the tool. `at` is when it was asked, in seconds.
    """

    pk = models.CompositePrimaryKey("session_id", "number")
    session_id = models.BigIntegerField()
    number = models.IntegerField()
    kind = models.CharField(max_length=12)
    name_id = models.BigIntegerField()
    at = models.FloatField()
    passed_over = models.BooleanField()
    seq = models.BigIntegerField()
    event = models.TextField()
    call = models.TextField()
    asked = models.CharField(max_length=32)

    class Meta:
        indexes: ClassVar = [
            models.Index(fields=["passed_over", "at", "session_id", "number"], name="search_pending_at")
        ]


class SearchKey(models.Model):
    """The schema that was learnt of a key: domain/key_schema.py as JSON. `name` is the full key."""

    pk = models.CompositePrimaryKey("app_owner_id", "name")
    app_owner_id = models.BigIntegerField()
    name = models.CharField(max_length=200)
    learnt = models.TextField()


class DriftedSession(models.Model):
    """A session that was seen to have drifted, and since when that is known, in seconds."""

    session_id = models.BigIntegerField(primary_key=True)
    app_owner_id = models.BigIntegerField()
    since = models.FloatField(db_index=True)


class SearchDoc(models.Model):
    """A piece of a session's text: its number is session × 2²⁰ + piece. Its words are those of the events in this
    range."""

    id = models.BigIntegerField(primary_key=True)
    first_seq = models.BigIntegerField()
    last_seq = models.BigIntegerField()


class SearchWord(models.Model):
    """A word of any text, to find words that contain another one."""

    word = models.CharField(max_length=64, primary_key=True)


class SessionTag(models.Model):
    """A tag that a person gave to a session. It is adkweb's own data. `where` and `digest` are as in the index.
    `folded` is compared to distinguish tags, `seen` to find sessions: rules may hide a part of it.
    """

    where = models.TextField()
    digest = models.CharField(max_length=32)
    names = models.TextField()
    tag = models.CharField(max_length=50)
    folded = models.CharField(max_length=100)
    seen = models.CharField(max_length=100)

    class Meta:
        constraints: ClassVar = [models.UniqueConstraint(fields=["where", "digest", "folded"], name="one_tag")]
        indexes: ClassVar = [models.Index(fields=["seen"], name="tag_seen")]


class SessionTitle(models.Model):
    """The title that a person gave to a session. It is adkweb's own data."""

    where = models.TextField()
    digest = models.CharField(max_length=32)
    names = models.TextField()
    title = models.CharField(max_length=200)

    class Meta:
        constraints: ClassVar = [models.UniqueConstraint(fields=["where", "digest"], name="one_title")]


class Dismissal(models.Model):
    """A call that waits and that no one will answer: who decided so, when and why. It is adkweb's own data. `where` and
    `digest` are as in the index, `asked` is as in SearchPending."""

    where = models.TextField()
    digest = models.CharField(max_length=32)
    names = models.TextField()
    asked = models.CharField(max_length=32)
    reason = models.CharField(max_length=500)
    by = models.CharField(max_length=150)
    at = models.FloatField()

    class Meta:
        constraints: ClassVar = [models.UniqueConstraint(fields=["where", "digest", "asked"], name="one_dismissal")]


class Answer(models.Model):
    """An answer that a person gave to a call that waits: who and when, and how far it is. It is adkweb's own data. `where`
    and `digest` are as in the index, `asked` is as in SearchPending, `run` is the job that sends it.

    `state` is open until its run has ended; then sent, update if the call still waits for its result, or refused if the
    agent didn't take it. It is unknown if adkweb can't tell whether the agent got it. Of the answers to a call, one may be
    open or unknown: an approved tool runs once. `response` is the part of the message that answers the call, as JSON.
    """

    where = models.TextField()
    digest = models.CharField(max_length=32)
    names = models.TextField()
    asked = models.CharField(max_length=32)
    run = models.UUIDField(db_index=True)
    state = models.CharField(max_length=10, default="open")
    response = models.TextField()
    by = models.CharField(max_length=150)
    at = models.FloatField()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["where", "digest", "asked"],
                condition=models.Q(state__in=["open", "unknown"]),
                name="one_open_answer",
            )
        ]
        indexes: ClassVar = [models.Index(fields=["where", "digest", "asked"], name="answers_of_call")]
