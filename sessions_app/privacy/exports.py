"""Exports everything of a user in the background, and keeps the file for a day.

Each export is a job (jobs/). If its process dies, another one starts it again. The file is in DATA_DIR/exports, where
only adkweb's user can read it, and only an admin of the app can download it.
"""

import json
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Final, NamedTuple

from django.conf import settings
from django.utils.translation import gettext as _

from ..access import masking, private_files
from ..access.actor import Actor
from ..access.audit.record import record
from ..access.handles import is_hidden_user, sees_ids
from ..domain.errors import NotFound, NotKept
from ..domain.session_ref import SessionRef
from ..jobs import runner
from ..jobs.lease import DONE, WAITING, Outcome, Progress
from ..models import Job
from ..sources import database, registry
from . import bundle, user_jobs
from .bundle import Bundle

KEPT_SECONDS: Final = 24 * 60 * 60
_PIECE: Final = 256 * 1024


class Export(NamedTuple):
    """An export of a user: its job, what is in its file, and how large that is; 0 if there is no file, or no longer."""

    job: Job
    bundle: Bundle
    size: int

    @property
    def until(self) -> float:
        """Returns until when the file can be downloaded."""
        return (self.job.finished or time.time()) + KEPT_SECONDS


def begin(source: str, app_name: str, user_id: str, *, actor: Actor) -> uuid.UUID:
    """Starts to export everything of a user. Raises NotAllowed, NotFound; Conflict if one is already running."""
    actor.check_may("admin", source, app_name)
    database.get(source)
    sweep()
    record("exported", actor.name, ref=SessionRef(source, app_name, user_id, ""), what="everything of the user")
    return user_jobs.begin(KIND, source, app_name, user_id, _("This user is already being exported."), actor=actor)


def listed(source: str, app_name: str, user_id: str, *, actor: Actor) -> list[Export]:
    """Returns the exports of a user whose file is still kept, and the running ones, the newest first."""
    jobs = user_jobs.about(KIND, source, app_name, user_id, actor=actor)
    return [view for job in jobs if (view := _view(job)).size or job.state != DONE]


def opened(
    export_id: uuid.UUID, source: str, app_name: str, user_id: str, *, actor: Actor
) -> tuple[Export, Iterator[bytes]]:
    """Returns a finished export, and its file piece by piece.

    Raises NotAllowed, and NotFound: also if masking rules have changed since, or if it was made for someone who may see
    the user's id, and the actor may not."""
    job = _job(export_id, source, app_name, user_id, actor)
    if not (view := _view(job)).size:
        raise _gone()
    if json.loads(job.result).get("ids", True) and is_hidden_user(source, app_name, user_id, actor):
        raise _gone()
    record("exported", actor.name, ref=SessionRef(source, app_name, user_id, ""), what="the file of the user")
    return view, _pieces(_path(job))


def discard(export_id: uuid.UUID, source: str, app_name: str, user_id: str, *, actor: Actor) -> None:
    """Deletes an export and its file; a running one stops. Raises NotAllowed, NotFound."""
    _forget(_job(export_id, source, app_name, user_id, actor))


def sweep() -> None:
    """Deletes exports that are older than a day, and files without an export."""
    oldest = time.time() - KEPT_SECONDS
    for job in Job.objects.filter(kind=KIND.name, finished__lt=oldest).exclude(state=WAITING):
        _forget(job)
    for path in _folder().glob("*"):
        with suppress(OSError):
            if path.stat().st_mtime < oldest:
                path.unlink()


# --- At work ----------------------------------------------------------------------------------------------------------


def _run(job: Job, beat: runner.Beat) -> Outcome:
    source, actor = registry.alias_of(job.where) or "", runner.actor_of(job)
    actor.check_may("admin", source, job.app_name)

    def moved(done: int, total: int) -> None:
        beat(Progress(done, total, "exporting"))

    part = _path(job).with_suffix(".part")
    mask, ids = masking.digest(), sees_ids(source, job.app_name, actor)
    try:
        _folder().mkdir(mode=0o700, parents=True, exist_ok=True)
        part.unlink(missing_ok=True)
        private_files.new_file(part)
        with part.open("wb") as file:
            made = bundle.write(file, source, job.app_name, job.user_id, actor=actor, moved=moved)
        part.replace(_path(job))
        if not Job.objects.filter(pk=job.pk).exists():  # it was discarded just now
            _path(job).unlink(missing_ok=True)
    except OSError as error:
        raise NotKept(_("Couldn't store the file on this machine: %(why)s") % {"why": error.strerror}) from error
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)
    return Outcome(DONE, fields={"result": json.dumps({"made": asdict(made), "mask": mask, "ids": ids})})


KIND: Final = runner.register(runner.Kind("export", _run))


# --- Rows and files ---------------------------------------------------------------------------------------------------


def _job(export_id: uuid.UUID, source: str, app_name: str, user_id: str, actor: Actor) -> Job:
    job = user_jobs.about(KIND, source, app_name, user_id, actor=actor).filter(pk=export_id).first()
    if job is None:
        raise _gone()
    return job


def _folder() -> Path:
    return Path(settings.DATA_DIR) / "exports"


def _path(job: Job) -> Path:
    return _folder() / f"{job.pk.hex}.zip"


def _gone() -> NotFound:
    return NotFound(
        _(
            "This file no longer exists: files are kept for a day, or until masking rules change. Export the "
            "user's data again."
        )
    )


def _forget(job: Job) -> None:
    path = _path(job)
    runner.cancel(job)
    with suppress(OSError):
        path.unlink(missing_ok=True)


def _pieces(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            while piece := file.read(_PIECE):
                yield piece
    except FileNotFoundError as error:
        raise _gone() from error


def _view(job: Job) -> Export:
    result = json.loads(job.result or "{}")
    export = Export(job, Bundle(**result.get("made", {})), 0)
    if job.state == DONE and export.until > time.time() and result.get("mask") == masking.digest():
        with suppress(OSError):
            return export._replace(size=_path(job).stat().st_size)
    return export
