"""Exports sessions from a source to a file, and imports them into another: the table of formats.

A format turns `items` into bytes and back, and knows nothing about sources. `exporting` reads items from a source,
always in the same order. `import_job` checks everything that is read, and then reports what it would do, or does it
through writes/. To add a format, write a module, and add a line here; `recognise` then knows JSON formats, and needs
code for others.
"""

import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, BinaryIO, Final

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ..access import roles
from ..access.actor import SYSTEM, Actor
from ..access.audit.record import record
from ..domain.errors import Invalid, NotAllowed
from ..domain.session_ref import SessionRef
from ..edits import reveal
from ..sources.urls import is_url
from . import exporting, recording, single_file
from .formats import adk_go, adk_json, adk_rust, adk_v0, databases, evalset, html, jsonl, vertex
from .formats.adk_json import load
from .hiding import Hiding
from .items import Fault, Item, Reader, open_file


@dataclass(frozen=True, slots=True)
class Format:
    """A kind of file or database that sessions are exported to, or imported from.

    `read` takes a path or URL, and whether the items are for PostgreSQL, which cannot hold everything. `write` gets the
    items, whether they have the secrets of credentials, and the names of rows that are left out; `write_one` gets one
    session, of which it writes more than its items say. `suffix` is that of its files, with the dot. An export to a
    `lossless` format can be imported again without any difference but these secrets and rows.

    Lists in the terminal describe it with `what`, pages with `words`; `offer` is its entry in the export menu, if it
    has one. A JSON object with all of some `names` is of this format.
    """

    what: str
    read: Callable[[str, bool], AbstractContextManager[Reader]] | None
    write: Callable[[Iterable[Item], bool, Sequence[str]], Iterator[bytes]] | None = None
    write_one: Callable[[SessionRef, Actor, exporting.Damaged | None, Hiding | None], Iterator[bytes]] | None = None
    suffix: str = ""
    lossless: bool = False
    words: str | Promise = ""
    offer: str | Promise = ""
    one_session: bool = False
    mime_type: str = "application/json"
    names: tuple[set[str], ...] = ()


FORMATS: Final[dict[str, Format]] = {
    "jsonl": Format(
        "adkweb's own, lossless: one JSON object a line",
        jsonl.read,
        jsonl.write,
        suffix=".jsonl",
        lossless=True,
        words=gettext_lazy("adkweb's own format"),
        offer=gettext_lazy("Lossless. Importing it restores everything as it was."),
        mime_type="application/jsonl",
    ),
    "adk-json": Format(
        "one session, as adk web exports it and adk run saves it",
        adk_json.read,
        adk_json.write,
        suffix=".json",
        words=gettext_lazy("a session exported by adk web"),
        offer=gettext_lazy("As exported by adk web"),
        one_session=True,
        names=adk_json.NAMES,
    ),
    "evalset": Format(
        "cases of ADK's evaluation: what a conversation says",
        evalset.read,
        evalset.write,
        write_one=recording.write_case,
        suffix=".evalset.json",
        words=gettext_lazy("eval cases"),
        offer=gettext_lazy("The conversation as an eval case for adk eval."),
        names=evalset.NAMES,
    ),
    "html": Format(
        "one session as a page for any browser, lossless",
        html.read,
        write_one=single_file.write,
        suffix=".html",
        lossless=True,
        words=gettext_lazy("a session exported by adkweb as a single page"),
        one_session=True,
        mime_type="text/html; charset=utf-8",
    ),
    "test": Format(
        "one session as a test for pytest that replays it",
        None,
        write_one=recording.write,
        suffix="_test.py",
        words=gettext_lazy("a test for pytest"),
        one_session=True,
        mime_type="text/x-python",
    ),
    "adk-database": Format(
        "a database from ADK's session services, as any SOURCE is",
        databases.read,
        words=gettext_lazy("a database from ADK's session services"),
    ),
    "adk-v0": Format(
        "a database from ADK before 1.22, whose actions are pickled",
        adk_v0.read,
        words=gettext_lazy("a database from before ADK 1.22"),
    ),
    "adk-go": Format("a database from adk-go", adk_go.read, words=gettext_lazy("a database from adk-go")),
    "adk-rust": Format("a database from adk-rust", adk_rust.read, words=gettext_lazy("a database from adk-rust")),
    "vertex": Format("Vertex AI Agent Engine: agentengine://…", vertex.read),
}

WITH_SECRETS: Final = "jsonl"  # the only format that says whether its file has secrets
TESTS: Final = ("test", "evalset")  # what *Make a test* offers, on a page of its own
WRITTEN: Final = tuple(name for name, form in FORMATS.items() if form.write or form.write_one)
ASK_SECONDS: Final = 1.0  # as long as a role is trusted (access/roles.py)
_HEAD: Final = 4096  # bytes of a file's first line that are enough to recognise it
_HEADER: Final = re.compile(rb'\s*\{\s*"adkweb"')
_OTHERS: Final = {  # files that someone might try to import nevertheless
    b"\x1f\x8b": "compressed by gzip: unpack it first",
    b"PK\x03\x04": "a zip archive: unpack it first",
    b"PGDMP": "a dump of PostgreSQL: restore it, and give the URL of the database",
}


def export(  # noqa: PLR0913  (what the file is to hold)
    name: str,
    source: str,
    only: exporting.Filter,
    *,
    actor: Actor,
    told: Callable[[Iterator[Item]], Iterator[Item]] = iter,
    secrets: bool = False,
    left_out: exporting.Damaged | None = None,
    hiding: Hiding | None = None,
    reason: str = "",
) -> Iterator[bytes]:
    """Returns the selected sessions in one of WRITTEN, piece by piece. `told` sees each item as it passes. With
    `secrets`, which only the terminal uses, nothing is hidden. Rows that are `left_out` are named in the first line of
    jsonl. With `hiding`, a file is only for reading. With a `reason`, which is recorded, a session is written as it is
    stored, but without secrets.

    Raises Invalid if the format holds one session and none is named, or if it can't hold secrets; NotAllowed if a reason
    is given by someone who may not reveal; and what reading a source raises.
    """
    form = FORMATS[name]
    if secrets and name != WITH_SECRETS:
        raise Invalid(f"Only {WITH_SECRETS} is exported with secrets.")
    about = SessionRef(source, only.app or "", only.user or "", only.session or "")
    if reason:
        reveal.check_may_reveal(about, actor)
        reason = reveal.checked(reason)
    damaged = len(left_out.rows) if left_out else 0
    noted: dict[str, Any] = {"secrets": secrets or None, "left_out": damaged or None, "hidden": bool(hiding) or None}
    record("exported", actor.name, ref=about, format=name, reason=reason, **noted)
    actor = SYSTEM if secrets or reason else actor
    if form.write_one and only.app is not None and only.user is not None and only.session is not None:
        return form.write_one(SessionRef(source, only.app, only.user, only.session), actor, left_out, hiding)
    if form.write:
        items = exporting.items(source, only, actor=actor, left_out=left_out)
        items = told(_while_allowed(items, actor))
        names = left_out.names if left_out else []
        if hiding:
            items, names = hiding.items(items), hiding.names(names)
        return form.write(items, secrets, names)
    raise Invalid("This format holds one session: name it by --app, --user and --session.")


def export_sessions(
    name: str, refs: Iterable[SessionRef], *, actor: Actor, left_out: exporting.Damaged | None = None
) -> Iterator[bytes]:
    """Returns some sessions in one of WRITTEN that holds several, with the states that they share. Rows that are
    `left_out` are named in the first line of jsonl."""
    form = FORMATS[name]
    assert form.write  # noqa: S101  it holds several
    number = len(refs) if isinstance(refs, list) else None
    damaged = len(left_out.rows) if left_out else 0
    record("exported", actor.name, format=name, chosen=True, sessions=number, left_out=damaged or None)
    items = exporting.items_of(refs, actor=actor, left_out=left_out)
    return form.write(_while_allowed(items, actor), False, left_out.names if left_out else ())


def _while_allowed(items: Iterator[Item], actor: Actor) -> Iterator[Item]:
    """Yields items. Raises NotAllowed when the actor's permissions have changed: a download may take long."""
    until = time.monotonic() + ASK_SECONDS
    for item in items:
        if actor.account and time.monotonic() >= until:
            until = time.monotonic() + ASK_SECONDS
            if roles.actor_now(actor.name, actor.account).grants != actor.grants:
                raise NotAllowed(_("Your permissions have changed. Start the export again."))
        yield item


def recognise(path: str) -> str:
    """Returns the name of the format of a file or database, by its content. Raises Fault and OSError."""
    if is_url(path):
        return databases.recognise_database(path)
    with open_file(path) as (file, size):
        head = file.readline(_HEAD)
        if head.startswith(b"SQLite format 3\0"):
            return databases.recognise_database(path)
        for magic, what in _OTHERS.items():
            if head.startswith(magic):
                raise _unknown(f"it is {what}")
        if not size:
            raise _unknown("it is empty")
        if _HEADER.match(head):
            return "jsonl"
        if head.lstrip().startswith(b"<"):
            return _page_of(file)
        if not head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith((b"{", b"[")):
            raise _unknown("it begins like none of these")
        return _document_of(file)


def _page_of(file: BinaryIO) -> str:
    file.seek(0)
    if html.PAGE.match(file.read(html.HEAD)):
        return "html"
    raise _unknown("it is a page, but none that adkweb wrote")


def _document_of(file: BinaryIO) -> str:
    file.seek(0)
    document = load(file)
    for name, form in FORMATS.items():
        if isinstance(document, dict) and any(document.keys() >= names for names in form.names):
            return name
    raise _unknown("its JSON is like none of these")


def _unknown(what: str) -> Fault:
    names = ", ".join(name for name, form in FORMATS.items() if form.read)
    return Fault(f"not a format that adkweb can read: {what}. Supported: {names}", place="")
