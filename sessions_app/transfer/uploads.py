"""Files that somebody sends to be imported: kept, looked through, brought in. For pages and programs alike.

    upload = receive(chunks)                        # a file of adkweb's own, in DATA_DIR/uploads
    found = preview(upload, "local", actor)         # what is in it, what an import would do; writes nothing
    report = bring(upload, "local", actor, state=True)  # checks all of it once more, then writes
    discard(upload)

All of it is synchronous and may take minutes; `told` hears how much of the work is done, from 0 to 1, after each item and
in the middle of long queries: what it raises ends the work.
What is wrong with a file is a Fault (`detail["place"]` says where). The actor needs the right “admin” in every app of the
file, which is known before anything is written; so is every fault, unless the disk fails meanwhile. Sent again, a file
whose import stopped goes on. Twice is as once. A file is never found by the name that its sender gave it.
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
from ..domain.session_ref import SessionRef
from ..errors import NotFound, SourceError
from ..sources import database
from . import FORMATS, importing
from .formats import opened as formats_opened
from .importing import Counts, Report
from .items import EventItem, Fault, Item, Reader, SessionItem, beating

KEPT_SECONDS: Final = 24 * 60 * 60
LISTED: Final = 20  # sessions that are named
_PREVIEW_STEPS: Final = (0.6, 0.4)  # how the work is shared between checking and comparing, about
_BRING_STEPS: Final = (0.3, 0.7)  # and between checking and writing

Told = Callable[[float], None]


@dataclass(frozen=True, slots=True)
class Upload:
    """A file that was sent. `id` cannot be guessed, and is its name in the folder."""

    id: str

    @property
    def path(self) -> Path:
        """Where it is."""
        return _folder() / self.id


@dataclass(slots=True)
class Preview:
    """What a file holds, and what bringing it in would do; of its sessions the first LISTED."""

    format: str
    counts: Counts
    report: Report
    sessions: list[SessionRef] = field(default_factory=list)


def receive(chunks: Iterable[bytes]) -> Upload:
    """Keeps what is sent, for a day at most; raises SourceError where this machine cannot."""
    upload = Upload(secrets.token_hex(16))
    try:
        _folder().mkdir(mode=0o700, parents=True, exist_ok=True)
        sweep()
        with open(os.open(upload.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            for chunk in chunks:
                file.write(chunk)
    except OSError as error:
        discard(upload)
        raise SourceError(_("The file cannot be kept on this machine: %(why)s") % {"why": error.strerror}) from error
    except BaseException:  # whoever sent it is gone
        discard(upload)
        raise
    return upload


def preview(upload: Upload, source: str, actor: Actor, *, told: Told = lambda share: None) -> Preview:
    """What is in a file, checked to its end, and what it would do. Raises Fault, NotAllowed, NotFound, SourceError."""
    sessions: list[SessionRef] = []
    heart = _Heart(told)
    with beating(heart.beat), _looked_at(upload, source, actor, sessions) as (form, read):
        first, second = _steps(_PREVIEW_STEPS, heart)
        counts = importing.check(read, first)
        named = list(sessions)
        report = importing.bring(read, source, actor=actor, preview=True, told=second)
    return Preview(form, counts, report, named)


def bring(upload: Upload, source: str, actor: Actor, *, state: bool = False, told: Told = lambda share: None) -> Report:
    """Imports a file; `state`: keys of apps and users, too, that the source has otherwise.

    Raises Fault, NotAllowed, NotFound before anything is written; Conflict, SourceError: the same again goes on.
    """
    heart = _Heart(told)
    with beating(heart.beat), _looked_at(upload, source, actor, []) as (_form, read):
        first, second = _steps(_BRING_STEPS, heart)
        importing.check(read, first)
        os.utime(upload.path)  # still wanted
        return importing.bring(read, source, actor=actor, state=state, told=second)


def discard(upload: Upload) -> None:
    """Deletes a file, and what a database may have left beside it."""
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
) -> Iterator[tuple[str, importing.Open]]:
    """A file's format, and how it is opened; `sessions` is filled while it is read."""
    strict = database.get(source).vendor == "postgresql"
    try:
        formats_opened.check_pages(str(upload.path))
        form = transfer.recognise(str(upload.path))
        read = FORMATS[form].read
        assert read  # noqa: S101  recognise knows no others

        @contextmanager
        def opened() -> Iterator[Reader]:
            with read(str(upload.path), strict) as reader:
                yield _Allowed(reader, actor, source, sessions)

        yield form, opened
    except Fault as error:  # where the file lies is nobody's business
        raise Fault(error.message.replace(str(upload.path), _("the file")), **error.detail) from error
    except FileNotFoundError as error:
        raise NotFound(_("This file is not here any more: send it again.")) from error
    except OSError as error:
        raise SourceError(_("The file cannot be read: %(why)s") % {"why": error.strerror}) from error


class _Heart:
    """Tells how much of the work is done, and, in the middle of a long step, once more the same."""

    def __init__(self, told: Told) -> None:
        self._told, self._share = told, 0.0

    def __call__(self, share: float) -> None:
        self._share = share
        self._told(share)

    def beat(self) -> None:
        self._told(self._share)


class _Allowed:
    """A reader of what an actor may bring; raises NotAllowed at the first app where they may not."""

    def __init__(self, reader: Reader, actor: Actor, source: str, sessions: list[SessionRef]) -> None:
        self._reader, self._actor, self._source, self._sessions = reader, actor, source, sessions

    @property
    def done(self) -> int:
        return self._reader.done

    @property
    def total(self) -> int:
        return self._reader.total

    @property
    def where(self) -> str:
        return self._reader.where

    def __iter__(self) -> Iterator[Item]:
        for item in self._reader:
            if not isinstance(item, EventItem):
                self._actor.check_may("admin", item.app)
                if isinstance(item, SessionItem) and len(self._sessions) < LISTED:
                    self._sessions.append(SessionRef(self._source, item.app, item.user, item.session))
            yield item


def _steps(shares: tuple[float, float], told: Told) -> list[importing.Told]:
    """For each step of the work, what hears its reader and tells how much of all is done."""

    def step(before: float, share: float) -> importing.Told:
        return lambda reader: told(before + share * min(1.0, reader.done / max(1, reader.total)))

    return [step(0.0, shares[0]), step(shares[0], shares[1])]
