"""Defines a storage, where an artifact service keeps files, and a file that is open there: contents are read from
both."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal, Protocol

from ..domain.session_ref import SessionRef

Fault = Literal["missing", "link", "denied", "name", "away", "no_bucket", "no_library"]
MOST_VERSIONS: Final = 1_000  # that are listed
USER: Final = "user:"  # before the name of an artifact that all sessions of a user share


class Unreadable(RuntimeError):
    """A file cannot be read: it is `missing`, behind a `link`, `denied` to adkweb, or its `name` can be no file's.

    A bucket may be `away`, there may be `no_bucket` of this name, and `no_library` to ask it with. `reason` is from
    Google's library."""

    def __init__(self, fault: Fault, reason: str = "") -> None:
        super().__init__(fault)
        self.fault = fault
        self.reason = reason


@dataclass(frozen=True, slots=True)
class File:
    """An open file and its metadata. With `changed`, someone wrote to it after it was saved.

    `read` returns some of its bytes, from an offset on; fewer at its end. Read `piece` bytes at once where all are
    needed. `checksum` is equal for equal files; empty if the storage knows none, None if both have to be read.
    `reference` is the address that an agent saved instead of a content."""

    size: int
    modified: float
    metadata: dict[str, Any]
    etag: str
    read: Callable[[int, int], bytes]
    piece: int
    changed: bool = False
    checksum: str | None = None
    reference: str = ""


class Storage(Protocol):
    """A folder or a bucket with artifacts. With `far`, each access costs a request, so lists avoid it."""

    far: ClassVar[bool]

    @property
    def address(self) -> str:
        """Returns where it is, for people to read."""

    def opened(self, ref: SessionRef, name: str, version: int) -> AbstractContextManager[File]:
        """Opens a version of an artifact. Raises Unreadable."""

    def versions(self, ref: SessionRef, name: str) -> list[int]:
        """Returns the versions of an artifact, the newest first, MOST_VERSIONS at most. Raises Unreadable."""
