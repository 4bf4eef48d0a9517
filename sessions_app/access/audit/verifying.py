"""Verifies that the audit is whole: finds the first row that was altered, removed, inserted or moved."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from ...models import AuditRow
from . import heads, record
from .heads import Head

_ROWS: Final = 2_000  # that are read at once


class Result(NamedTuple):
    """The result of checking the whole chain. `fault` is empty if it is whole; `number` is the first row that is
    wrong."""

    rows: int
    head: str
    fault: str = ""
    number: int = 0


class Fault(Exception):
    """The first row that is wrong, and what is wrong with it."""

    def __init__(self, number: int, text: str) -> None:
        super().__init__(text)
        self.number, self.text = number, text


def verify(published: Head | None = None) -> Result:
    """Reads the whole chain and compares it with itself, with the heads of each day, and with one that was
    published."""
    kept = list(heads.kept())  # before the rows: whatever is added in the meantime is then no surprise
    rows, digest = 0, record.BEGINNING
    try:
        for row in _checked(_rows(), [*kept, *([published] if published else [])]):
            rows, digest = row.number, row.digest
        _check_end(rows, kept)
        if published and published.number > rows:
            raise Fault(
                rows + 1,
                f"Row {rows + 1} is missing, and what came after it: the head that was published on {published.day} is row "
                f"{published.number}. If adkweb's own database was replaced or restored since, publish its head again.",
            )
    except Fault as fault:
        return Result(rows, digest, fault.text, fault.number)
    return Result(rows, digest)


def _rows() -> Iterator[AuditRow]:
    after: int | None = None
    while True:
        rows = AuditRow.objects.order_by("number")
        page = list((rows if after is None else rows.filter(number__gt=after))[:_ROWS])
        yield from page
        if len(page) < _ROWS:
            return
        after = page[-1].number


def _checked(rows: Iterable[AuditRow], kept: list[Head]) -> Iterator[AuditRow]:
    """Yields the rows as long as each is right. Raises Fault at the first that is not."""
    by_number = _by_number(kept)
    previous = record.BEGINNING
    for number, row in enumerate(rows, 1):
        if row.number < number:
            raise Fault(row.number, f"Row {row.number} was put in: rows count from 1.")
        if row.number > number:
            raise Fault(number, f"Row {number} is missing: row {row.number} comes after row {number - 1}.")
        if record.digest_of(row) != row.digest:
            raise Fault(number, f"Row {number} was altered: its content does not have its digest.")
        if row.previous != previous:
            raise Fault(number, f"Row {number} does not follow row {number - 1}: one of them was replaced or moved.")
        if not record.is_sealed(row):
            raise Fault(
                number,
                f"Row {number} has no seal of this adkweb: someone without its key wrote it, or the key was changed; "
                "ADKWEB_SECRET_KEY_FALLBACKS names keys from before.",
            )
        for head in by_number[number]:
            if head.digest != row.digest:
                raise Fault(number, f"Row {number} was replaced: the head of {head.day} has another digest.")
        previous = row.digest
        yield row


def _by_number(kept: list[Head]) -> defaultdict[int, list[Head]]:
    by_number: defaultdict[int, list[Head]] = defaultdict(list)
    for head in kept:
        if head.day:  # it could be read
            by_number[head.number].append(head)
    return by_number


def _check_end(number: int, kept: list[Head]) -> None:
    for head in kept:
        if not head.day:
            raise Fault(number, f"Line {head.number} of {heads.file()} cannot be read: the heads were altered.")
        if head.number > number:
            raise Fault(
                number + 1,
                f"Row {number + 1} is missing, and what came after it: the head of {head.day} is row {head.number}. If "
                f"adkweb's own database was replaced or restored, move {heads.file()} away.",
            )
