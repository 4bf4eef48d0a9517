"""adkweb's own tables, in the default database: who signs in, work that outlives a request, and the index of
history/."""

import json
import time
import uuid
from datetime import datetime, timedelta
from typing import Any, ClassVar, Final

from django.conf import settings
from django.db import models

from ..domain.positions import Position, Seq


class SignInToken(models.Model):
    """A link that signs a person in once. Only its hash is kept."""

    digest = models.CharField(max_length=64, primary_key=True)
    person = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE)
    created = models.DateTimeField(auto_now_add=True)


class Invitation(models.Model):
    """A link by which someone makes an account, once, within LIFETIME. `note` says who it is for.

    Only the hash of its secret is kept.
    """

    LIFETIME: Final = timedelta(days=7)

    digest = models.CharField(max_length=64, unique=True)
    note = models.CharField(max_length=100)
    admin = models.BooleanField(default=False)
    role = models.CharField(max_length=10, default="", db_default="")  # that the person gets, if any
    apps = models.CharField(max_length=200, default="", db_default="")
    groups = models.ManyToManyField("auth.Group")
    created_by = models.CharField(max_length=150)
    created = models.DateTimeField(auto_now_add=True)

    @property
    def ends(self) -> datetime:
        """Returns when it is too old."""
        return self.created + self.LIFETIME

    @property
    def group_names(self) -> list[str]:
        """Returns the names of the groups that the person gets, in alphabetical order."""
        return sorted(group.name for group in self.groups.all())


class PasswordTries(models.Model):
    """The number of wrong passwords that were tried for a name or from an address. The key is a hash; times are
    seconds."""

    key = models.CharField(max_length=64, primary_key=True)
    count = models.IntegerField(default=0)
    until = models.FloatField(default=0.0)  # no try before
    seen = models.FloatField(default=0.0, db_index=True)


class JobQuerySet(models.QuerySet["Job"]):
    """Makes and selects jobs."""

    def make(self, kind: str, where: str, task: Any = None, **fields: Any) -> "Job":
        """Makes a job, which waits unless `state` says otherwise. `task` becomes JSON."""
        now = time.time()
        return self.create(
            id=uuid.uuid4(), kind=kind, where=where, task=json.dumps(task or {}), created=now, beat=now, **fields
        )

    def of_agents(self) -> "JobQuerySet":
        """Returns the runs of agents and the what-ifs, and the answers and messages that wait for a second person: they go
        with their session."""
        return self.filter(models.Q(kind__in=("run", "whatif")) | (models.Q(kind="proposal") & ~models.Q(lane="")))


class Job(models.Model):
    """Work that outlives a request (jobs/): who wants it, its progress, and its outcome. Times are seconds.

    `where` is the database itself (registry.identity), because another one may get the alias. The names of the session
    are empty if the work isn't about one. `task` and `result` are JSON as text, because a JSON column refuses NaN,
    which ADK stores. In each lane, one job may wait. `person` will be told the outcome; `told` is set once they know.
    """

    id = models.UUIDField(primary_key=True)
    kind = models.CharField(max_length=20)
    where = models.TextField()
    app_name = models.CharField(max_length=128, default="")
    user_id = models.CharField(max_length=128, default="")
    session_id = models.CharField(max_length=128, default="")
    task = models.TextField()
    result = models.TextField(default="")
    actor = models.CharField(max_length=150)
    account = models.CharField(
        max_length=40, default=""
    )  # whose permissions it has (access/actor.py); empty: the machine's
    language = models.CharField(max_length=20, default="")
    created = models.FloatField()
    lane = models.TextField(default="")
    state = models.CharField(max_length=10, default="waiting")
    message = models.TextField(default="")
    finished = models.FloatField(null=True)
    step = models.CharField(max_length=20, default="")
    done = models.BigIntegerField(default=0)
    total = models.BigIntegerField(default=0)
    beat = models.FloatField()  # the last sign of life
    claim = models.CharField(max_length=32, default="")
    process = models.CharField(max_length=100, default="")  # that has the claim: jobs/process.py
    claimed_until = models.FloatField(null=True)  # past: a process died, or lost the database, while working on it
    crashes = models.IntegerField(default=0)  # of processes, since someone wanted it
    person = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+")
    told = models.BooleanField(default=False)
    due = models.FloatField(null=True)  # not to be done before
    stopped_by = models.CharField(max_length=150, default="", db_default="")  # who asked the agent to stop

    objects = JobQuerySet.as_manager()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["lane"], condition=models.Q(state="waiting") & ~models.Q(lane=""), name="one_job_of_a_lane"
            )
        ]
        indexes: ClassVar = [
            models.Index(fields=["kind", "created"], condition=models.Q(state="waiting"), name="jobs_waiting"),
            models.Index(fields=["session_id", "user_id", "app_name"], name="jobs_of_session"),
            models.Index(
                fields=["person", "finished"],
                condition=models.Q(person__isnull=False, told=False, finished__isnull=False),
                name="jobs_untold",
            ),
            models.Index(fields=["due"], condition=models.Q(state="waiting", due__isnull=False), name="jobs_due"),
            models.Index(
                fields=["where", "app_name", "finished"], condition=models.Q(kind="run"), name="jobs_runs_of_app"
            ),
            models.Index(  # the few among all runs; SQLite can use it because it is no IN
                fields=["kind", "created"],
                condition=models.Q(kind="replay") | models.Q(kind="whatif") | models.Q(kind="whatifs"),
                name="jobs_tried",
            ),
        ]

    @property
    def percent(self) -> int:
        """Returns the share that is done, from 0 to 100."""
        return 100 * self.done // max(1, self.total)


class ReportQuerySet(models.QuerySet["Report"]):
    """Reads reports."""

    def running(self) -> "ReportQuerySet":
        """Returns the reports of what runs, if its process has been heard of lately."""
        return self.filter(ended=False, beat__gte=time.time() - Report.SILENT_SECONDS)

    def forget_old(self) -> None:
        """Deletes what no longer says more than the events do."""
        kept = max(settings.SILENCE_SECONDS, 2 * Report.SILENT_SECONDS)
        self.filter(beat__lt=time.time() - kept).delete()

    def forget_all_but_newest(self, where: str, digest: str) -> None:
        """Deletes the older reports about a session that has many: its pages read all of them."""
        of_session = self.filter(where=where, digest=digest).order_by("-beat")
        self.filter(pk__in=list(of_session.values_list("pk", flat=True)[Report.MOST :])).delete()


class Report(models.Model):
    """The last report about an invocation: by the companion in its process (adk/companion.py), or by adkweb when a run of
    its own has ended. Times are seconds; `beat` is when adkweb heard of it last, and `at` when that was said, or the run
    `ended`, by the clock of the process.

    `where` and `digest` are as in the index, `names` are those of the session. `process` is a random name, and `account` the
    token that it used. `step` is model or tool while one with this `name` is called.
    """

    MOST: Final = 50  # about one session
    SILENT_SECONDS: Final = 20.0  # after which a process has died: it reports every 5 seconds

    where = models.TextField()
    digest = models.CharField(max_length=32)
    names = models.TextField()
    invocation = models.CharField(max_length=128)
    process = models.CharField(max_length=32, db_index=True)
    account = models.CharField(max_length=40)
    since = models.FloatField()
    step = models.CharField(max_length=10, default="")
    name = models.CharField(max_length=100, default="")
    step_since = models.FloatField(default=0.0)
    at = models.FloatField()
    beat = models.FloatField(db_index=True)
    ended = models.BooleanField(default=False)
    stopped_by = models.CharField(max_length=150, default="")  # who asked the agent to stop

    objects = ReportQuerySet.as_manager()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["where", "digest", "invocation"], name="one_report_of_invocation")
        ]

    @property
    def is_running(self) -> bool:
        """Returns whether it says that something runs, and its process has been heard of lately."""
        return not self.ended and self.beat >= time.time() - self.SILENT_SECONDS


class Projection(models.Model):
    """Records how far history/index/build.py has read a source's events. `where` is as in Job; the lists are JSON as
    text.

    `marks` are checkpoints: positions with the event that was there, which show if a number was reused. `holes` are
    numbers that were skipped, each with the time until which its event is awaited. `created` has the newest positions
    of sessions. `deleted` is how far the source's `adkweb_deleted_writes` are read. If events have no numbers, `marks`
    is the progress of unadopted.py, and `seq` how much it has read. A record of another `version` is rebuilt.
    """

    where = models.TextField(unique=True)
    seq: "models.BigIntegerField[int, Seq]" = models.BigIntegerField(default=0)
    marks = models.TextField(default="[]")
    holes = models.TextField(default="[]")
    created = models.TextField(default="[]")
    deleted = models.BigIntegerField(default=0)
    version = models.IntegerField(default=1)


class StateOwner(models.Model):
    """The owner of state: a session, a user or an app; names that it does not need are empty. Also the owner of a
    session's highlights, or of an app's edits.
    """

    projection = models.ForeignKey(Projection, models.CASCADE, related_name="+")
    scope = models.CharField(max_length=10)
    app_name = models.TextField()
    user_id = models.TextField()
    session_id = models.TextField()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["projection", "app_name", "user_id", "session_id", "scope"], name="one_owner_of_state"
            )
        ]


class StateChange(models.Model):
    """The event at a position wrote a key, is a highlight, or is an edit (`key` is then its time). `since` is the first
    seq that a rewind undoes. On SQLite, the table has no rowid, which makes it half as large.
    """

    pk = models.CompositePrimaryKey("owner_id", "key", "place")
    owner_id = models.BigIntegerField()
    key = models.TextField()
    place: "models.BigIntegerField[int, Position]" = models.BigIntegerField()
    since: "models.BigIntegerField[int | None, Seq | None]" = models.BigIntegerField(null=True)


class BreakpointQuerySet(models.QuerySet["Breakpoint"]):
    """Reads breakpoints."""

    def about(self, where: str, app_name: str, digest: str) -> "BreakpointQuerySet":
        """Returns those at which the agent pauses in a session: its own, and those of its app."""
        return self.filter(where=where, app_name=app_name, digest__in=("", digest)).order_by("pk")

    def newest(self) -> int:
        """Returns the number of the newest one of all; 0 if there is none."""
        return self.order_by("-pk").values_list("pk", flat=True).first() or 0


class Breakpoint(models.Model):
    """Where an agent pauses: before it calls a `model` or a `tool`, or when a condition on `state` becomes true.

    `where` is registry.identity; `digest` and `names` are those of a session, empty if it's for all of the app. `name` is
    that of the agent or the tool, empty for any. `condition` is in the rule language.
    """

    MOST: Final = 20  # about one session or one app

    where = models.TextField()
    app_name = models.CharField(max_length=128)
    digest = models.CharField(max_length=32, default="")
    names = models.TextField(default="")
    kind = models.CharField(max_length=10)
    name = models.CharField(max_length=128, default="")
    condition = models.TextField(default="")
    made_by = models.CharField(max_length=150)
    made = models.FloatField()

    objects = BreakpointQuerySet.as_manager()

    class Meta:
        indexes: ClassVar = [models.Index(fields=["where", "app_name"], name="breakpoints_of_app")]


class PauseQuerySet(models.QuerySet["Pause"]):
    """Reads pauses."""

    def waiting(self) -> "PauseQuerySet":
        """Returns those that wait for a decision."""
        return self.filter(over=False, decision="", until__gt=time.time())

    def decided(self) -> "PauseQuerySet":
        """Returns those whose decision the agent's process may not have yet."""
        return self.filter(over=False).exclude(decision="")

    def end(self) -> bool:
        """Ends them: what someone changed stays, the rest is forgotten. Returns whether there were any."""
        open_ = self.filter(over=False)
        forgotten, _by_table = open_.filter(changed="").delete()
        return bool(open_.update(over=True, request="", proposed="") + forgotten)


class Pause(models.Model):
    """A step before which an agent pauses, or paused: its `kind` is model or tool. The id is made by the agent's process.

    `where`, `digest` and `names` are as in Report. Of a companion's process, `process` and `account` are those of its
    report; of adkweb's own, `run` is the job. `request` is what the model or the tool is to get, as JSON, as long as someone
    may look at it. At `until`, the agent goes on by itself, or the tool is refused, with the words in `refusal`. `decision`
    is what its process gets, as JSON; `proposed` is one that waits for a second person. What someone `changed` stays: for
    each of instruction, message and args, the old and the new value, and the result that someone gave in a tool's place.
    """

    id = models.UUIDField(primary_key=True)
    where = models.TextField()
    digest = models.CharField(max_length=32)
    names = models.TextField()
    invocation = models.CharField(max_length=128)
    kind = models.CharField(max_length=10)
    agent = models.CharField(max_length=128)
    name = models.CharField(max_length=128)
    call = models.CharField(max_length=128, default="")
    process = models.CharField(max_length=32, default="")
    account = models.CharField(max_length=40, default="")
    run = models.UUIDField(null=True)
    request = models.TextField(default="")
    since = models.FloatField()
    until = models.FloatField()
    refusal = models.TextField(default="")
    decision = models.TextField(default="")
    decided_by = models.CharField(max_length=150, default="")
    decided = models.FloatField(default=0.0)
    proposed = models.TextField(default="")
    proposed_by = models.CharField(max_length=150, default="")
    proposed_account = models.CharField(max_length=40, default="")
    changed = models.TextField(default="")
    over = models.BooleanField(default=False)

    objects = PauseQuerySet.as_manager()

    class Meta:
        indexes: ClassVar = [
            models.Index(fields=["where", "digest"], name="pauses_of_session"),
            models.Index(fields=["over"], condition=models.Q(over=False), name="open_pauses"),
        ]
