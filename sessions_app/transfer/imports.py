"""Imports in the background: a file is looked through, waits for a word, is brought in; all of it outlives the page.

Each is a row of adkweb's own and, while it works, a thread. A row whose thread is silent belongs to a process that died:
it counts as stopped, and goes on when somebody asks. Into one source goes one import at a time.
"""

import json
import logging
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal, cast

from django.db import DatabaseError, IntegrityError, connections, transaction
from django.utils import translation
from django.utils.translation import gettext as _

from ..access.actor import Actor
from ..domain.json_values import dumps
from ..domain.session_ref import SessionRef
from ..domain.state import ABSENT, Change
from ..errors import Conflict, Error, Invalid, NotAllowed, NotFound
from ..models import FileImport
from ..sources import database, registry
from . import uploads
from .importing import Counts, Differing, Report, Skipped
from .uploads import Preview, Upload

log = logging.getLogger("adkweb.imports")

Stage = Literal["checking", "ready", "refused", "importing", "stopped", "done"]
WORKING: Final = ("checking", "importing")
RECENT: Final = 10
_BEAT_SECONDS: Final = 0.5
_PATIENCE_SECONDS: Final = 0.7
_TRIES: Final = 5
_SILENT_SECONDS: Final = 60.0  # a source may keep a thread waiting for its lock
_NAME_LENGTH: Final = 255
_SHOWN: Final = 100  # of what is listed one by one
_VALUE_LENGTH: Final = 10_000  # characters of a value

Work = Callable[["_Pulse"], None]


@dataclass(frozen=True, slots=True)
class Import:
    """A file that somebody sent. `source` is "" for one that is not open now; `share` of the work, from 0 to 1, is done."""

    id: uuid.UUID
    name: str
    source: str
    actor: str
    created: float
    stage: Stage
    share: float
    message: str
    found: Preview | None  # once it was looked through; its report is what was done, once that is known

    @property
    def working(self) -> bool:
        """Whether it goes on by itself."""
        return self.stage in WORKING

    @property
    def percent(self) -> int:
        """How much is done."""
        return int(self.share * 100)


def begin(upload: Upload, name: str, source: str, actor: Actor) -> uuid.UUID:
    """Looks through a file, then waits for `go_on`; `name` is for people. Raises NotAllowed, NotFound, SourceError."""
    actor.check_may_write()
    database.get(source)
    now = time.time()
    for row in FileImport.objects.filter(beat__lt=now - uploads.KEPT_SECONDS):
        discard(row.id)
    row = FileImport.objects.create(
        id=uuid.uuid4(),
        file=upload.id,
        name="".join(c if c.isprintable() else "�" for c in name)[:_NAME_LENGTH],
        where=registry.identity(source),
        actor=actor.name,
        created=now,
        beat=now,
        stage="checking",
    )
    _start(row.id, lambda pulse: _check(row, source, actor, pulse))
    return row.id


def go_on(import_id: uuid.UUID, actor: Actor, *, state: bool = False) -> None:
    """Brings a file in that was looked through, or goes on where its import or its check stopped; with `state`, keys of
    apps and users, too, that the source has otherwise. One that works or is done stays so. Raises Conflict, NotAllowed,
    NotFound.
    """
    actor.check_may_write()
    row = _row(import_id)
    source = registry.alias_of(row.where)
    if source is None:
        raise NotFound(_("The source of this import is not open any more: %(where)s") % {"where": row.where})
    now = time.time()
    for each in FileImport.objects.filter(stage__in=WORKING, beat__lt=now - _SILENT_SECONDS):
        _settle(each.id, "stopped", "")
    stage = "importing" if row.found else "checking"
    try:
        with transaction.atomic():
            mine = FileImport.objects.filter(pk=row.pk, stage__in=("ready", "stopped"))
            claimed = mine.update(stage=stage, share=0.0, beat=now, message="")
    except IntegrityError as error:
        raise Conflict(_("Another import into this source is under way; wait until it is done.")) from error
    if claimed and stage == "importing":
        _start(row.id, lambda pulse: _bring(row, source, actor, state, pulse))
    elif claimed:
        _start(row.id, lambda pulse: _check(row, source, actor, pulse))


def discard(import_id: uuid.UUID) -> None:
    """Forgets an import and its file; one that works stops, and what it wrote by then stays."""
    for row in FileImport.objects.filter(pk=import_id):
        row.delete()
        uploads.discard(Upload(row.file))


def get(import_id: uuid.UUID) -> Import:
    """One import as it stands; raises NotFound."""
    return _view(_row(import_id))


def recent() -> list[Import]:
    """Those of the last day, the newest first."""
    rows = FileImport.objects.filter(beat__gte=time.time() - uploads.KEPT_SECONDS).order_by("-created")
    return [_view(row) for row in rows[:RECENT]]


# --- At work ----------------------------------------------------------------------------------------------------------


class _Gone(Exception):  # the import was discarded while it worked
    pass


class _Pulse:
    """Notes that an import lives and how far it is, now and then."""

    def __init__(self, import_id: uuid.UUID) -> None:
        self._id, self._due = import_id, 0.0

    def __call__(self, share: float) -> None:
        if (now := time.monotonic()) < self._due:
            return
        self._due = now + _BEAT_SECONDS
        try:
            known = FileImport.objects.filter(pk=self._id, stage__in=WORKING).update(share=share, beat=time.time())
        except DatabaseError as error:  # of adkweb's own: no reason to stop
            log.warning("how far an import is cannot be noted: %s", error)
            connections["default"].close_if_unusable_or_obsolete()
            return
        if not known:
            raise _Gone


def _check(row: FileImport, source: str, actor: Actor, pulse: _Pulse) -> None:
    found = uploads.preview(Upload(row.file), source, actor, told=pulse)
    _settle(row.id, "ready", "", found)


def _bring(row: FileImport, source: str, actor: Actor, state: bool, pulse: _Pulse) -> None:
    found = _found(row.found, source)
    found.report = uploads.bring(Upload(row.file), source, actor, state=state, told=pulse)
    skipped = {each.ref for each in found.report.skipped}
    found.sessions = [ref for ref in found.sessions if ref not in skipped]
    _settle(row.id, "done", "", found)
    uploads.discard(Upload(row.file))


def _start(import_id: uuid.UUID, work: Work) -> None:
    thread = threading.Thread(
        target=_run, args=(import_id, work, translation.get_language()), name="adkweb-import", daemon=True
    )

    def start() -> None:
        thread.start()
        thread.join(_PATIENCE_SECONDS)  # most files are small: their page is the next one at once

    transaction.on_commit(start)  # not before the row is there for every connection


def _run(import_id: uuid.UUID, work: Work, language: str | None) -> None:
    try:
        with translation.override(language):
            _try(import_id, work)
    except Exception:  # adkweb's own database
        log.exception("an import stopped")
    finally:
        connections.close_all()


def _try(import_id: uuid.UUID, work: Work) -> None:
    try:
        work(_Pulse(import_id))
    except _Gone:
        pass
    except (Invalid, NotAllowed, NotFound) as error:
        where = error.detail.get("place")
        _settle(import_id, "refused", f"{where}: {error.message}" if where else error.message)
        for row in FileImport.objects.filter(pk=import_id):
            uploads.discard(Upload(row.file))
    except Error as error:
        _settle(import_id, "stopped", error.message)
    except Exception:
        log.exception("an import stopped")
        _settle(import_id, "stopped", _("adkweb made a mistake; the log says more."))


def _settle(import_id: uuid.UUID, stage: Stage, message: str, found: Preview | None = None) -> None:
    told = {} if found is None else {"found": _text(found)}
    rows = FileImport.objects.filter(pk=import_id, stage__in=WORKING)
    for left in reversed(range(_TRIES)):
        try:
            rows.update(stage=stage, message=message, share=0.0, beat=time.time(), **told)
            return
        except DatabaseError:  # of adkweb's own; what was done would not be known
            connections["default"].close_if_unusable_or_obsolete()
            if not left:
                raise
            time.sleep(_BEAT_SECONDS)


# --- Rows -------------------------------------------------------------------------------------------------------------


def _row(import_id: uuid.UUID) -> FileImport:
    row = FileImport.objects.filter(pk=import_id).first()
    if row is None:
        raise NotFound(_("This import is not here any more; files are kept for a day. Send the file again."))
    return row


def _view(row: FileImport) -> Import:
    source = registry.alias_of(row.where) or ""
    silent = row.stage in WORKING and time.time() - row.beat > _SILENT_SECONDS
    stage = cast(Stage, "stopped" if silent else row.stage)
    found = _found(row.found, source) if row.found else None
    return Import(row.id, row.name, source, row.actor, row.created, stage, row.share, row.message, found)


def _text(found: Preview) -> str:
    """As JSON; an absent value is none, and one that is very long its beginning."""
    report = found.report
    told = {name: value for name, value in asdict(report).items() if isinstance(value, int)}
    differing = [
        {"app": each.app, "user": each.user, "changes": [_change(c) for c in each.changes[:_SHOWN]]}
        for each in report.differing[:_SHOWN]
    ]
    return json.dumps(
        {
            "format": found.format,
            "counts": asdict(found.counts),
            "report": told,
            "skipped": [[*each.ref[1:], each.why] for each in report.skipped[:_SHOWN]],
            "differing": differing,
            "sessions": [ref[1:] for ref in found.sessions],
        }
    )


def _change(change: Change) -> dict[str, Any]:
    values = {"old": change.old, "new": change.new}
    texts = {name: dumps(value) for name, value in values.items() if value is not ABSENT}
    cut = {name: text if len(text) <= _VALUE_LENGTH else dumps(text[:_VALUE_LENGTH]) for name, text in texts.items()}
    return {"key": change.key, **cut}


def _found(text: str, source: str) -> Preview:
    told = json.loads(text)
    report = Report(**told["report"])
    report.skipped = [Skipped(SessionRef(source, *names), why) for *names, why in told["skipped"]]
    for each in told["differing"]:
        changes = [
            Change(c["key"], *(json.loads(c[name]) if name in c else ABSENT for name in ("old", "new")))
            for c in each["changes"]
        ]
        report.differing.append(Differing(each["app"], each["user"], changes))
    sessions = [SessionRef(source, *names) for names in told["sessions"]]
    return Preview(told["format"], Counts(**told["counts"]), report, sessions)
