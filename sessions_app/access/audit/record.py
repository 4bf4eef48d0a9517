"""Records acts. `record` is the one verb:

    record("token-created", "maria", app_name="booking*", name="booking-agent", permission="append")

It is called before the act, or in the same transaction. If the row cannot be written (the disk is full, the database is
away), the act is refused with NotRecorded. The few acts that only remove access happen anyway; the log then has the
whole row. Before adkweb's first start, there are no tables and no audit to write to: a command, or an agent with
DjangoSessionService, needs none.
"""

import hashlib
import hmac
import json
import logging
import time
from collections.abc import Callable
from contextvars import ContextVar
from functools import partial
from typing import Any, Final

from django.conf import settings
from django.db import DatabaseError, connection, transaction
from django.utils.crypto import salted_hmac

from ...domain.errors import NotRecorded
from ...domain.session_ref import SessionRef
from ...models import AuditRow, tables
from . import heads
from .acts import ACTS, MUST

log = logging.getLogger("adkweb.audit")

address: ContextVar[str] = ContextVar("address", default="")  # of whoever asks just now
_LONGEST: Final = 1_000  # characters of one text
_LOCK: Final = 0x61756469  # PostgreSQL's advisory lock of the chain


def record(
    act: str, by: str, *, ref: SessionRef | None = None, source: str = "", app_name: str = "", **detail: Any
) -> None:
    """Adds a row, about a session, or about a source or an app. Raises NotRecorded if it cannot be kept and must be."""
    if act not in ACTS:
        raise ValueError(act)
    if tables.have_no_file():
        return
    about = ref or SessionRef(source, app_name, "", "")
    row = AuditRow(
        act=act,
        by=_text(by),
        address=_text(address.get()),
        source=_text(about.source),
        app_name=_text(about.app_name),
        user_id=_text(about.user_id),
        session_id=_text(about.session_id),
        detail=canonical({name: _plain(value) for name, value in detail.items() if value not in ("", None)}),
    )
    try:
        _add(row)
    except DatabaseError as error:
        if tables.are_missing():
            return
        outcome = "refused" if act in MUST else "done"
        log.critical("The audit cannot be written (%s). This act is %s: %s", error, outcome, row_text(row))
        if act in MUST or connection.needs_rollback:  # a full disk may have undone the act in its transaction
            raise NotRecorded from error


def record_with(
    change: Callable[[], object], act: str, by: str, *, ref: SessionRef | None = None, **detail: Any
) -> bool:
    """Makes a change of ANYWAY, and adds its row in the same transaction. Returns whether `change` returned something
    true.

    If the row can't be kept, the change is made anyway."""
    try:
        with transaction.atomic():
            if made := bool(change()):
                record(act, by, ref=ref, **detail)
            return made
    except NotRecorded:
        return bool(change())


def row_text(row: AuditRow, *, chained: bool = True) -> str:
    """Returns a row as one line of JSON; unless it is `chained`, without its digest and that of the row before it."""
    names = (*HASHED, "digest") if chained else HASHED[:-1]
    return canonical({name: getattr(row, name) for name in names})


def _add(row: AuditRow) -> None:
    """Adds a row at the end of the chain, one process after the other."""
    with transaction.atomic():
        if connection.vendor == "postgresql":  # on SQLite, the transaction has started with the lock for writing
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
        last = AuditRow.objects.order_by("-number").values_list("number", "digest").first()
        number, row.previous = last or (0, BEGINNING)
        row.number, row.at = number + 1, time.time()
        row.digest = digest_of(row)
        row.seal = seal_of(row.digest)
        row.save(force_insert=True)
        transaction.on_commit(partial(heads.keep, row.at, row.number, row.digest))


def _text(value: str) -> str:
    """Returns a text that every database can hold: hostile names are recorded, too."""
    kept = str(value).encode("utf-8", "backslashreplace").decode().replace("\0", "\\0")
    return kept if len(kept) <= _LONGEST else kept[: _LONGEST - 1] + "…"


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(each) for each in list(value)[:100]]
    return _text(value)


# --- The chain --------------------------------------------------------------------------------------------------------

BEGINNING: Final = "0" * 64  # what the first row follows
HASHED: Final = (
    "number", "at", "act", "by", "address", "source", "app_name", "user_id", "session_id", "detail", "previous",
)  # fmt: skip
_SALT: Final = "adkweb.audit"


def digest_of(row: AuditRow) -> str:
    """Returns the digest that a row must have."""
    return hashlib.sha256(canonical([getattr(row, name) for name in HASHED]).encode()).hexdigest()


def canonical(value: Any) -> str:
    """Returns the one JSON text of a value: sorted keys, no spaces, ASCII only."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def seal_of(digest: str, key: str | None = None) -> str:
    """Returns the seal of a digest, by this adkweb's key or by another."""
    return salted_hmac(_SALT, digest, secret=key or settings.SECRET_KEY, algorithm="sha256").hexdigest()


def is_sealed(row: AuditRow) -> bool:
    """Returns whether a row bears a seal of this adkweb: of its key, or of one that it had before."""
    keys = (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)
    return any(hmac.compare_digest(seal_of(row.digest, key), str(row.seal)) for key in keys)
