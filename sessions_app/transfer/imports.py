"""Imports files in the background: a file is checked, waits for a person's decision, and is imported.

Each import is a job (jobs/) with two steps, `checking` and `importing`, which continues if the page is closed. If its
process dies, another process that has the file continues with it. Each source has one import at a time.
"""

import json
import time
import uuid
from dataclasses import asdict
from itertools import islice
from typing import Any, Final, Literal, cast

from django.db import IntegrityError
from django.utils.translation import gettext as _

from ..access.actor import SYSTEM, Actor
from ..access.shown import shown_change
from ..domain.errors import Conflict, NotAllowed, NotFound
from ..domain.json_values import dumps
from ..domain.session_ref import SessionRef
from ..domain.state import ABSENT, Change
from ..jobs import runner
from ..jobs.lease import DONE, REFUSED, STOPPED, WAITING, Lost, Outcome, Progress, is_held, stage_of
from ..models import Job
from ..models.pages import in_pages
from ..sources import database, registry
from . import uploads
from .import_job import Counts, Differing, Report, Skipped
from .items import replacing_nul
from .uploads import Preview, Upload

Stage = Literal["checking", "ready", "refused", "importing", "stopped", "done"]
READY: Final = "ready"
RECENT: Final = 10
_NAME_LENGTH: Final = 255
_PARTS: Final = 1_000  # the number of parts in which progress is counted


class Import:
    """A file that someone sent, as an actor sees it. `source` is "" if the source is not open now.

    `preview` is None until the file is checked. Its report says what the import would do and, once it is done, what it
    did. If the actor `may_act`, they can continue it; others can only look at it.
    """

    def __init__(self, job: Job, actor: Actor) -> None:
        task = json.loads(job.task)
        self.id, self.created, self.message = job.id, job.created, job.message
        self.name: str = task["name"]
        self.actor: str = task["sender"]
        self.source = registry.alias_of(job.where) or ""
        self.stage = cast(Stage, stage_of(job))
        self.percent = job.percent
        self.preview = preview_of(job.result, self.source, actor) if job.result else None
        self.may_act = _may_act(job, actor)

    @property
    def working(self) -> bool:
        """Returns whether a process is working on the import."""
        return self.stage in ("checking", "importing")


def begin(upload: Upload, name: str, source: str, actor: Actor, *, replace_nul: bool = False) -> uuid.UUID:
    """Starts to check a file, and returns the id of the import, which then waits for `go_on`.

    `name` is for people. With `replace_nul`, “�” takes the place of what PostgreSQL cannot hold. Raises
    NotAllowed, NotFound and SourceError.
    """
    actor.check_permission("admin")  # each line says in which app
    actor.check_may_write(source)
    database.get(source)
    now = time.time()
    for job in _jobs().filter(beat__lt=now - uploads.KEPT_SECONDS):
        _forget(job)
    shown = "".join(c if c.isprintable() else "�" for c in name)[:_NAME_LENGTH]
    task = {"file": upload.id, "name": shown, "sender": actor.name, "account": actor.account, "state": False}
    if replace_nul:
        task["replace_nul"] = True
    job = Job.objects.make(KIND.name, registry.identity(source), task, **runner.fields_of(actor))
    runner.start(job, step="checking")
    return job.id


def go_on(import_id: uuid.UUID, actor: Actor, *, state: bool = False) -> None:
    """Starts to import a file that was checked, or continues where its import or check stopped.

    With `state`, app and user keys that have other values in the source are set, too. Does nothing if the import is
    running or done. Raises Conflict, NotAllowed and NotFound.
    """
    job = _own(import_id, actor)
    source = registry.alias_of(job.where)
    if source is None:
        raise NotFound(_("The source of this import is no longer open."))
    if job.state not in (READY, STOPPED) and (job.state != WAITING or is_held(job)):
        return
    step, lane = ("importing", f"{KIND.name} {job.where}") if job.result else ("checking", "")
    task = json.dumps({**json.loads(job.task), "state": state})
    if lane:  # an import whose process died must not block this one
        others = _jobs().exclude(pk=job.pk).filter(lane=lane, state=WAITING, claimed_until__lt=time.time())
        others.update(state=STOPPED, claimed_until=None)
    try:
        runner.start(job, step=step, lane=lane, task=task, **runner.fields_of(actor))
    except IntegrityError as error:
        raise Conflict(_("Another import into this source is running. Wait until it is done.")) from error


def discard(import_id: uuid.UUID, *, actor: Actor) -> None:
    """Forgets an import and its file. If it is running, it stops, and what it has written stays.

    Raises NotAllowed and NotFound.
    """
    _forget(_own(import_id, actor))


def _forget(job: Job) -> None:
    runner.cancel(job)
    uploads.discard(_upload(job))


def get(import_id: uuid.UUID, *, actor: Actor) -> Import:
    """Returns an import as it is now. Raises NotFound."""
    return Import(_job(import_id, actor), actor)


def recent(*, actor: Actor) -> list[Import]:
    """Returns the imports of the last day that the actor may see, the newest first."""
    jobs = in_pages(_jobs().filter(beat__gte=time.time() - uploads.KEPT_SECONDS), "-created", "id")
    return [Import(job, actor) for job in islice((job for job in jobs if _is_seen(job, actor)), RECENT)]


# --- At work ----------------------------------------------------------------------------------------------------------


def _run(job: Job, beat: runner.Beat) -> Outcome:
    with replacing_nul(json.loads(job.task).get("replace_nul", False)):
        return _checked_or_brought(job, beat)


def _checked_or_brought(job: Job, beat: runner.Beat) -> Outcome:
    source = registry.alias_of(job.where) or ""
    actor = runner.actor_of(job)

    def told(share: float) -> None:
        beat(Progress(int(share * _PARTS), _PARTS, job.step))

    if job.step == "checking":
        return Outcome(READY, fields={"result": text_of(uploads.preview(_upload(job), source, actor, told=told))})
    preview = preview_of(job.result, source, SYSTEM)
    task = json.loads(job.task)

    def note(brought: int) -> None:
        """Values that are set once are not set again by a run that continues: people may have edited them in the
        meantime."""
        kept = json.dumps({**task, "brought": brought})
        if task["state"] and not _jobs().filter(pk=job.pk, state=WAITING, claim=job.claim).update(task=kept):
            raise Lost

    before = task.get("brought", 0)
    try:
        preview.report = uploads.bring(
            _upload(job), source, actor, state=task["state"], told=told, brought=before, note=note
        )
    except NotAllowed as error:  # no longer: some sessions may be there
        return Outcome(STOPPED, error.message)
    skipped = {each.ref for each in preview.report.skipped}
    preview.sessions = [ref for ref in preview.sessions if ref not in skipped]
    return Outcome(DONE, fields={"result": text_of(preview)})


def _can_run(job: Job) -> bool:
    """Returns whether this process can read the file and has the source open."""
    return runner.has_source(job) and _upload(job).path.exists()


def _forget_file(job: Job) -> None:
    if job.state in (DONE, REFUSED):
        uploads.discard(_upload(job))


KIND: Final = runner.register(runner.Kind("import", _run, _can_run, _forget_file))


# --- Rows -------------------------------------------------------------------------------------------------------------


def _jobs() -> Any:
    return Job.objects.filter(kind=KIND.name)


def _job(import_id: uuid.UUID, actor: Actor) -> Job:
    job: Job | None = _jobs().filter(pk=import_id).first()
    if job is None or not _is_seen(job, actor):
        raise NotFound(_("This import no longer exists: files are kept for a day. Upload the file again."))
    return job


def _own(import_id: uuid.UUID, actor: Actor) -> Job:
    """Returns the job of an import that the actor may take further: their own, or any for an admin of everything."""
    actor.check_may_write()
    job = _job(import_id, actor)
    if not _may_act(job, actor):
        raise NotAllowed(_("Only the person who started the import or an admin of all sources and apps can do this."))
    return job


def _may_act(job: Job, actor: Actor) -> bool:
    return actor.runs_everything or _is_sender(job, actor)


def _is_sender(job: Job, actor: Actor) -> bool:
    """Returns whether an actor sent the file; an admin may have continued it since."""
    task = json.loads(job.task)
    return actor.is_same(task["sender"], task.get("account", ""))


def _upload(job: Job) -> Upload:
    return Upload(json.loads(job.task)["file"])


def _is_seen(job: Job, actor: Actor) -> bool:
    """Returns whether an import exists for an actor. A file may be of any app, so people who may not see every app see
    only their own."""
    return actor.sees_all or _is_sender(job, actor)


# --- What is in a file, as the JSON that a job keeps ------------------------------------------------------------------

_SHOWN: Final = 100  # of anything that is listed one by one
_VALUE_LENGTH: Final = 10_000  # characters of a value


def text_of(preview: Preview) -> str:
    """Returns a preview as JSON. Absent values are left out, and very long ones are cut."""
    report = preview.report
    differing = [
        {"app": each.app, "user": each.user, "changes": [_stored_change(c) for c in each.changes[:_SHOWN]]}
        for each in report.differing[:_SHOWN]
    ]
    return json.dumps(
        {
            "format": preview.format,
            "counts": asdict(preview.counts),
            "report": {name: value for name, value in asdict(report).items() if isinstance(value, int)},
            "skipped": [[*each.ref[1:], each.why] for each in report.skipped[:_SHOWN]],
            "differing": differing,
            "sessions": [ref[1:] for ref in preview.sessions],
        }
    )


def preview_of(text: str, source: str, actor: Actor) -> Preview:
    """Returns a preview for an actor from the JSON that `text_of` made. `source` is the source's current alias."""
    told = json.loads(text)
    report = Report(**told["report"])
    report.skipped = [Skipped(SessionRef(source, *names), why) for *names, why in told["skipped"]]
    report.differing = [
        Differing(each["app"], each["user"], [_change(stored, actor, each["app"]) for stored in each["changes"]])
        for each in told["differing"]
    ]
    sessions = [SessionRef(source, *names) for names in told["sessions"]]
    return Preview(told["format"], Counts(**told["counts"]), report, sessions)


def _stored_change(change: Change) -> dict[str, Any]:
    values = {"old": change.old, "new": change.new}
    texts = {name: dumps(value) for name, value in values.items() if value is not ABSENT}
    cut = {name: text if len(text) <= _VALUE_LENGTH else dumps(text[:_VALUE_LENGTH]) for name, text in texts.items()}
    return {"key": change.key, **cut}


def _change(stored: dict[str, Any], actor: Actor, app_name: str) -> Change:
    old, new = (json.loads(stored[name]) if name in stored else ABSENT for name in ("old", "new"))
    return shown_change(Change(stored["key"], old, new), actor, app_name)
