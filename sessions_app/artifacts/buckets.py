"""Reads what google-adk's GcsArtifactService keeps in a bucket of Google Cloud Storage (extra `gcs`).

A version is the object `<app>/<user>/<session>/<name>/<version>`. What all sessions of a user share is an object
`<app>/<user>/user/<name>/<version>`.

Names in a bucket are flat: session "a/b" with artifact "c" and session "a" with artifact "b/c" would be the same
object. So nothing is read for ids with a slash, and contents.py asks for names with a slash only if the session saved
them.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from time import monotonic
from typing import Any, ClassVar, Final

from ..domain.session_ref import SessionRef
from .storages import MOST_VERSIONS, USER, Fault, File, Unreadable

SCHEME: Final = "gs://"
PAUSE: Final = 10.0  # seconds until a bucket that did not answer is asked again
_ASK: Final[dict[str, Any]] = {"timeout": (3, 10), "retry": None}  # seconds to connect, and between two answers
_PIECE: Final = 4 << 20
_MOST_NAME: Final = 1_024  # bytes of an object's name
_REFERENCES: Final = ("adkFileUri", "file_uri")  # the newer key of google-adk, and the older one
_silent: dict[str, tuple[float, Unreadable]] = {}  # buckets that did not answer, and until when they are not asked


@dataclass(frozen=True, slots=True)
class Bucket:
    """A bucket, by its name."""

    name: str
    far: ClassVar[bool] = True

    @property
    def address(self) -> str:
        """Returns its URI."""
        return SCHEME + self.name

    @contextmanager
    def opened(self, ref: SessionRef, name: str, version: int) -> Iterator[File]:
        """Opens a version of an artifact. Raises Unreadable, also while it is read."""
        yield self._file(f"{_prefix(ref, name)}{version}")

    def versions(self, ref: SessionRef, name: str) -> list[int]:
        """Returns the versions of an artifact, the newest first, MOST_VERSIONS at most. Raises Unreadable."""
        prefix = _prefix(ref, name)
        ends = [path.removeprefix(prefix) for path in self._paths(prefix, MOST_VERSIONS)]
        return sorted((int(end) for end in ends if end.isascii() and end.isdigit() and len(end) < 10), reverse=True)

    def look(self) -> bool:
        """Returns whether the bucket has any object, and reads a byte of it. Raises Unreadable."""
        paths = self._paths("", 1)
        if paths and (file := self._file(paths[0])).size:
            file.read(0, 1)
        return bool(paths)

    def _paths(self, prefix: str, most: int) -> list[str]:
        """Returns the names of objects right behind a prefix; of any, if it is empty. It is one request."""
        below = {"prefix": prefix, "delimiter": "/"} if prefix else {}
        with _asked(self.name) as client:
            try:
                pages = client.list_blobs(
                    self.name, max_results=most, fields="items(name),nextPageToken", **below, **_ASK
                )
                return [blob.name for blob in next(pages.pages, ())][:most]
            except _not_found() as error:
                raise Unreadable("no_bucket") from error

    def _file(self, path: str) -> File:
        with _asked(self.name) as client:
            blob = client.bucket(self.name).blob(path)
            try:
                blob.reload(**_ASK)
            except _not_found() as error:
                self._paths(path, 1)  # fails if there is no such bucket at all
                raise Unreadable("missing") from error
        more = blob.metadata or {}
        return File(
            int(blob.size or 0),
            blob.updated.timestamp() if blob.updated else 0.0,
            {"mimeType": blob.content_type, "displayName": more.get("adkDisplayName")},
            f'"{blob.generation}-{blob.metageneration}"',
            lambda offset, length: self._bytes(path, blob.generation, offset, min(length, blob.size - offset)),
            _PIECE,
            checksum=blob.md5_hash or "",
            reference=next((str(more[key]) for key in _REFERENCES if more.get(key)), ""),
        )

    def _bytes(self, path: str, generation: int, offset: int, length: int) -> bytes:
        """Downloads some bytes of an object, which may not have been replaced in the meantime."""
        if length <= 0:
            return b""
        with _asked(self.name) as client:
            blob = client.bucket(self.name).blob(path, generation=generation)  # builds its own address, and quotes it
            content = blob.download_as_bytes(
                start=offset, end=offset + length - 1, raw_download=True, checksum=None, **_ASK
            )
            return bytes(content[:length])


@cache
def client() -> Any:
    """Returns Google's client, with the credentials of this machine. It takes no project: buckets need none."""
    from google.cloud import storage

    os.environ.setdefault("DISABLE_GCS_PYTHON_CLIENT_OTEL_BUCKET_METADATA", "true")  # it asks more in the background
    return storage.Client(project=None)


def forget() -> None:
    """Makes the next access start over: with the current credentials, and at buckets that were silent."""
    client.cache_clear()
    _silent.clear()


def _prefix(ref: SessionRef, name: str) -> str:
    """Returns what the names of an artifact's versions start with. Raises Unreadable for one that may be another's."""
    session = "user" if name.startswith(USER) else ref.session_id
    ids = (ref.app_name, ref.user_id, session)
    if any("/" in each or not each.strip() for each in ids) or (session == "user") != name.startswith(USER):
        raise Unreadable("name")
    prefix = "/".join((*ids, name, ""))
    try:
        if len(prefix.encode()) > _MOST_NAME or "\n" in prefix or "\r" in prefix:  # as Google refuses them
            raise Unreadable("name")
    except UnicodeEncodeError as error:  # half of a surrogate pair
        raise Unreadable("name") from error
    return prefix


@contextmanager
def _asked(bucket: str) -> Iterator[Any]:
    """Yields the client, and turns what goes wrong into Unreadable. A bucket that was silent is not asked for a
    while."""
    until, before = _silent.get(bucket, (0.0, None))
    if before and monotonic() < until:
        raise Unreadable(before.fault, before.reason)
    try:
        yield client()
        _silent.pop(bucket, None)
    except Unreadable:
        raise
    except ImportError as error:
        raise Unreadable("no_library") from error
    except Exception as error:
        fault, silent = _fault(error)
        unreadable = Unreadable(fault, str(error))
        if silent:
            _silent[bucket] = (monotonic() + PAUSE, unreadable)
        raise unreadable from error


def _fault(error: Exception) -> tuple[Fault, bool]:
    """Returns what an error of Google's library means, and whether asking again soon would only cost time."""
    from google.api_core.exceptions import BadRequest, Forbidden, GoogleAPIError, Unauthorized
    from google.auth.exceptions import GoogleAuthError, TransportError

    match error:
        case Forbidden() | Unauthorized() | BadRequest():  # the last one: requests must be paid for
            return "denied", False
        case _ if isinstance(error, _not_found()):
            return "missing", False
        case TransportError() | GoogleAPIError() | OSError():  # errors of requests are OSErrors
            return "away", True
        case GoogleAuthError():  # looking for credentials takes seconds
            return "denied", True
    raise error


def _not_found() -> Any:
    from google.api_core.exceptions import NotFound

    return NotFound
