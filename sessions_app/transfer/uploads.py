"""Keeps files that someone sends, previews their import and imports them, for pages and programs alike.

    upload = receive(chunks)                        # a file of adkweb's own, in DATA_DIR/uploads
    result = preview(upload, "local", actor)        # what is in it, and what an import would do; writes nothing
    report = bring(upload, "local", actor, state=True)  # checks all of it once more, then writes
    discard(upload)

All of this is synchronous and may take minutes. `told` is called with the share of the work that is done, from 0 to 1,
after each item and during long queries. If it raises, the work ends.

A problem with a file is a Fault (`detail["place"]` says where it is). The actor needs the permission “admin” in every app of
the file. That is checked before anything is written, and so is the file, unless the disk fails in the meantime. If an
import stopped, sending the file again continues with it. Importing a file twice is the same as importing it once. The
name that the sender gave a file is never used to find it.
"""

import os
import secrets
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from django.conf import settings
from django.utils.translation import gettext as _

from .. import transfer
from ..access.actor import Actor
from ..domain.errors import NotFound, NotKept
from ..domain.session_ref import SessionRef
from ..sources import database
from . import FORMATS, import_job
from .formats import opened as formats_opened
from .import_job import Counts, Report
from .items import EventItem, Fault, Item, Reader, SessionItem, StateItem, beating

KEPT_SECONDS: Final = 24 * 60 * 60
LISTED: Final = 20  # sessions that a preview names
_PREVIEW_STEPS: Final = (0.6, 0.4)  # the shares of checking and comparing in the work, about
_BRING_STEPS: Final = (0.3, 0.7)  # the shares of checking and writing

Told = Callable[[float], None]


@dataclass(frozen=True, slots=True)
class Upload:
    """A file that was sent. Its `id`, which no one can guess, is its name in the folder."""

    id: str

    @property
    def path(self) -> Path:
        """Returns the path of the file."""
        return _folder() / self.id


@dataclass(slots=True)
class Preview:
    """The content of a file, and what importing it would do. `sessions` has the first LISTED only."""

    format: str
    counts: Counts
    report: Report
    sessions: list[SessionRef] = field(default_factory=list)


def receive(chunks: Iterable[bytes]) -> Upload:
    """Stores an uploaded file for at most a day. Raises NotKept if this machine can't."""
    upload = Upload(secrets.token_hex(16))
    try:
        _folder().mkdir(mode=0o700, parents=True, exist_ok=True)
        sweep()
        with open(os.open(upload.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            for chunk in chunks:
                file.write(chunk)
    except OSError as error:
        discard(upload)
        raise NotKept(_("Couldn't store the file on this machine: %(why)s") % {"why": error.strerror}) from error
    except BaseException:  # for example, the sender has disconnected
        discard(upload)
        raise
    return upload


def preview(upload: Upload, source: str, actor: Actor, *, told: Told = lambda share: None) -> Preview:
    """Checks a file to its end and returns its content and what an import would do, without writing anything.

    Raises Fault, NotAllowed, NotFound and NotKept.
    """
    sessions: list[SessionRef] = []
    heart = _Heart(told)
    with beating(heart.beat), _looked_at(upload, source, actor, sessions) as (form, read):
        first, second = _steps(_PREVIEW_STEPS, heart)
        counts = import_job.check(read, first)
        named = list(sessions)
        report = import_job.bring(read, source, actor=actor, preview=True, told=second)
    return Preview(form, counts, report, named)


def bring(
    upload: Upload,
    source: str,
    actor: Actor,
    *,
    state: bool = False,
    told: Told = lambda share: None,
    brought: int = 0,
    note: Callable[[int], None] = lambda brought: None,
) -> Report:
    """Imports a file. With `state`, app and user keys that have other values in the source are set, too.

    The first `brought` states are left out: they were brought before, and people may have edited them since. `note` is
    called with their number after each.

    Raises Fault, NotAllowed and NotFound before anything is written. After Conflict and SourceError, the same call
    continues where it stopped.
    """
    heart = _Heart(told)
    with beating(heart.beat), _looked_at(upload, source, actor, []) as (_form, read):
        first, second = _steps(_BRING_STEPS, heart)
        import_job.check(read, first)
        os.utime(upload.path)  # it is still needed, so `sweep` must not delete it

        @contextmanager
        def left() -> Iterator[Reader]:
            with read() as reader:
                yield _Left(reader, brought, note)

        return import_job.bring(left, source, actor=actor, state=state, told=second)


def discard(upload: Upload) -> None:
    """Deletes a file, and the files that SQLite may have left beside it."""
    for path in _folder().glob(f"{upload.id}*"):
        with suppress(OSError):
            path.unlink()


def sweep() -> None:
    """Deletes files that are older than a day."""
    for path in _folder().glob("*"):
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > KEPT_SECONDS:
                path.unlink()


def _folder() -> Path:
    return Path(settings.DATA_DIR) / "uploads"


@contextmanager
def _looked_at(
    upload: Upload, source: str, actor: Actor, sessions: list[SessionRef]
) -> Iterator[tuple[str, import_job.Open]]:
    """Yields a file's format and how to open it. `sessions` is filled while it is read."""
    strict = not database.get(source).dialect.holds_any_text
    try:
        formats_opened.check_pages(str(upload.path))
        form = transfer.recognise(str(upload.path))
        read = FORMATS[form].read
        assert read  # noqa: S101  `recognise` returns only formats that can be read

        @contextmanager
        def opened() -> Iterator[Reader]:
            with read(str(upload.path), strict) as reader:
                yield _Allowed(reader, actor, source, sessions)

        yield form, opened
    except Fault as error:  # the sender must not learn the file's path
        raise Fault(error.message.replace(str(upload.path), _("the file")), **error.detail) from error
    except FileNotFoundError as error:
        raise NotFound(_("This file no longer exists. Upload it again.")) from error
    except OSError as error:
        raise NotKept(_("Couldn't read the file: %(why)s") % {"why": error.strerror}) from error


class _Heart:
    """Reports how much of the work is done. In the middle of a long step, it repeats the last share."""

    def __init__(self, told: Told) -> None:
        self._told, self._share = told, 0.0

    def __call__(self, share: float) -> None:
        self._share = share
        self._told(share)

    def beat(self) -> None:
        self._told(self._share)


class _Passing:
    """Passes on a reader's progress and position."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    @property
    def done(self) -> int:
        return self._reader.done

    @property
    def total(self) -> int:
        return self._reader.total

    @property
    def secrets(self) -> bool:
        return self._reader.secrets

    @property
    def where(self) -> str:
        return self._reader.where


class _Left(_Passing):
    """A reader that leaves out the states that were brought before, and notes how many were after each."""

    def __init__(self, reader: Reader, brought: int, note: Callable[[int], None]) -> None:
        super().__init__(reader)
        self._brought, self._note = brought, note

    def __iter__(self) -> Iterator[Item]:
        number = 0
        for item in self._reader:
            if not isinstance(item, StateItem):
                yield item
                continue
            number += 1
            if number > self._brought:
                yield item
                self._note(number)


class _Allowed(_Passing):
    """A reader that raises NotAllowed at the first app in which the actor may not import."""

    def __init__(self, reader: Reader, actor: Actor, source: str, sessions: list[SessionRef]) -> None:
        super().__init__(reader)
        self._actor, self._source, self._sessions = actor, source, sessions

    def __iter__(self) -> Iterator[Item]:
        for item in self._reader:
            if not isinstance(item, EventItem):
                self._actor.check_may("admin", self._source, item.app)
                if isinstance(item, SessionItem) and len(self._sessions) < LISTED:
                    self._sessions.append(SessionRef(self._source, item.app, item.user, item.session))
            yield item


def _steps(shares: tuple[float, float], told: Told) -> list[import_job.Told]:
    """Returns a callback for each step of the work.

    It is called with a reader and reports the share of the whole work.
    """

    def step(before: float, share: float) -> import_job.Told:
        return lambda reader: told(before + share * min(1.0, reader.done / max(1, reader.total)))

    return [step(0.0, shares[0]), step(shares[0], shares[1])]
