"""Applies retention rules once an hour, as jobs (jobs/): exactly one process starts each run.

A run deletes some sessions at a time, and then rests for as long as that took. It ends after MOST sessions or a while,
and the next run continues soon. A session to which someone writes in the meantime stays. With `export`, a file has the
sessions before any of them is deleted."""

import json
import logging
import os
import time
import uuid
import zipfile
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Final

from django.conf import settings
from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _

from ..access import private_files
from ..access.actor import SYSTEM, Actor
from ..domain.errors import Conflict, Invalid, NotFound, NotKept, StaleSession
from ..domain.session_ref import SessionRef
from ..jobs import runner
from ..jobs.lease import DONE, Outcome, Progress
from ..models import Job
from ..sources import registry
from ..transfer import exporting
from ..transfer.formats import jsonl
from ..trying import whatif
from ..writes.sessions import delete_session, is_on_hold
from . import exports, own_rows
from .retention import DAY, RetentionRule, idle_sessions

log = logging.getLogger("adkweb.jobs")

EVERY_SECONDS: Final = 3600.0
SOON_SECONDS: Final = 60.0  # until a run continues that did not come to the end
MOST: Final = 2_000  # sessions of a run
TOGETHER: Final = 50  # sessions of a file
_REST: Final = 1.0  # of the time that deleting some took


def begin_due() -> int:
    """Starts the runs that are due and whose source is open here. Returns how many."""
    if settings.READ_ONLY:
        return 0
    begun, now = 0, time.time()
    for rule in RetentionRule.objects.filter(due__lte=now):
        if registry.alias_of(rule.where) is None:
            continue
        mine = RetentionRule.objects.filter(pk=rule.pk, due=rule.due)
        if mine.update(due=now + EVERY_SECONDS):  # or another process was faster
            begun += _begin(rule)
    if begun:
        exports.sweep()
    whatif.sweep()
    return begun


def _begin(rule: RetentionRule) -> bool:
    try:
        with transaction.atomic():
            job = Job.objects.make(
                KIND.name,
                rule.where,
                {"rule": rule.pk, "days": rule.days, "export": rule.export},
                app_name=rule.app_name,
                result=json.dumps({"begun": rule.last_run.get("begun", [])}),
                actor=rule.by,
                account=rule.account,
                lane=json.dumps([KIND.name, rule.pk]),
            )
    except IntegrityError:  # the previous run hasn't ended
        return False
    return runner.start(job)


class _Changed(RuntimeError):
    """The rule was changed or removed in the meantime."""


# --- At work ----------------------------------------------------------------------------------------------------------


def _run(job: Job, beat: runner.Beat) -> Outcome:
    source, actor, task = registry.alias_of(job.where) or "", runner.actor_of(job), json.loads(job.task)
    counts: dict[str, Any] = {"deleted": 0, "held": 0, "moved": 0, "more": 0, **json.loads(job.result or "{}")}
    waiting: list[tuple[SessionRef, float]] = []
    idle = idle_sessions(source, job.app_name, job.created - task["days"] * DAY)
    counts["held"] = 0
    _end_begun(source, job, counts)
    try:
        for each in islice(idle, MOST):
            beat(Progress(counts["deleted"], MOST, "retaining"))
            if is_on_hold(each[0]):
                counts["held"] += 1
                continue
            waiting.append(each)
            if len(waiting) == TOGETHER:
                _delete_some(job, waiting, counts, actor)
                waiting = []
        _delete_some(job, waiting, counts, actor)
    except _Changed:  # the next run applies its new form
        return Outcome(DONE, fields={"result": json.dumps(counts)})
    counts["more"] = int(next(idle, None) is not None)
    return Outcome(DONE, fields={"result": json.dumps(counts)})


def _delete_some(job: Job, some: Sequence[tuple[SessionRef, float]], counts: dict[str, Any], actor: Actor) -> None:
    """Exports some sessions if the rule says so, deletes them, and rests. Raises _Changed if the rule has changed."""
    if not some:
        return
    began, task = time.monotonic(), json.loads(job.task)
    same = RetentionRule.objects.filter(pk=task["rule"], days=task["days"], export=task["export"])
    if not same.exists():
        raise _Changed
    actor.check_may("admin", some[0][0].source, job.app_name)
    exported = _export([ref for ref, _revision in some]) if task["export"] else {ref for ref, _revision in some}
    counts["moved"] += len(some) - len(exported)
    counts["begun"] = [ref[1:] for ref, _revision in some if ref in exported]
    _note(job, counts)
    for ref, revision in some:
        if ref in exported:
            try:
                delete_session(ref, actor=actor, revision=revision)
            except (StaleSession, NotFound, Conflict):  # written to, deleted, or put on hold in the meantime
                counts["moved"] += 1
    _end_begun(some[0][0].source, job, counts)
    time.sleep((time.monotonic() - began) * _REST)


def _end_begun(source: str, job: Job, counts: dict[str, Any]) -> None:
    """Counts those sessions that were about to be deleted and are gone, and forgets them.

    They were noted earlier: the process that deleted them may have died, or the previous run may have ended with an
    error."""
    for names in counts.pop("begun", []):
        ref = SessionRef(source, *names)
        if exporting.head(ref, SYSTEM) is None:
            own_rows.forget_session(ref)
            counts["deleted"] += 1
    _note(job, counts)


def _note(job: Job, counts: dict[str, Any]) -> None:
    Job.objects.filter(pk=job.pk).update(result=json.dumps(counts))


def _export(refs: Sequence[SessionRef]) -> set[SessionRef]:
    """Writes a file with some sessions, each as `adkweb export` writes it, with all values: no one can download it.

    It gets its name only when it is complete. Returns the sessions in it, without those that can't be read."""
    folder = Path(settings.DATA_DIR) / "retained"
    name = f"{time.strftime('%Y-%m-%dT%H%M%SZ', time.gmtime())}-{uuid.uuid4().hex[:8]}"
    part = folder / f"{name}.part"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        private_files.new_file(part)
        with part.open("wb") as file:
            written = _write(file, refs)
            file.flush()
            os.fsync(file.fileno())
        part.replace(folder / f"{name}.zip")
    except OSError as error:
        raise NotKept(_("Couldn't store the file on this machine: %(why)s") % {"why": error.strerror}) from error
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)
    return set(written.values())


def _write(file: BinaryIO, refs: Sequence[SessionRef]) -> dict[str, SessionRef]:
    """Writes the zip file. Returns the sessions in it, by the names of their files."""
    written: dict[str, SessionRef] = {}
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as made:
        for number, ref in enumerate(refs, 1):
            name = f"{number:04}.jsonl"
            try:
                with made.open(name, "w", force_zip64=True) as session:
                    for line in jsonl.write(exporting.items_of([ref], actor=SYSTEM)):
                        session.write(line)
            except (Invalid, Conflict) as error:  # what is stored isn't JSON; it is partly imported
                log.warning("%s stays: %s", "/".join(ref), error.message)
            else:
                written[name] = ref
        about = [{"file": name, "session": list(ref)} for name, ref in written.items()]
        made.writestr("about.json", json.dumps({"sessions": about}))
    return written


def _ended(job: Job) -> None:
    """Stores the result of a run with its rule."""
    result: dict[str, Any] = {**json.loads(job.result or "{}"), "state": job.state, "message": job.message}
    rule = RetentionRule.objects.filter(pk=json.loads(job.task)["rule"])
    rule.update(result=json.dumps({**result, "at": job.finished}))
    if result.get("more") and job.state == DONE:
        rule.update(due=time.time() + SOON_SECONDS)
    job.delete()


KIND: Final = runner.register(runner.Kind("retention", _run, ended=_ended))
