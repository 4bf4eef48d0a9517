"""Sessions leave a store as a file and enter another: one module a format, and the table of formats.

A format turns `items` into bytes and back; it knows no database. `stored` reads items from a source, in the same order
every time; `importing` checks a whole file, then says what it would do, or does it through writes.py. Adding a format:
one module and one line here.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO, Final

from . import jsonl
from .items import Item, Reader


@dataclass(frozen=True, slots=True)
class Format:
    """One kind of file. `read` is told whether the items are for PostgreSQL, which cannot hold everything."""

    what: str
    write: Callable[[Iterable[Item]], Iterator[bytes]]
    read: Callable[[BinaryIO, bool], Reader]


FORMATS: Final = {
    "jsonl": Format("adkweb's own, lossless: one JSON object a line", jsonl.write, jsonl.Lines),
}
