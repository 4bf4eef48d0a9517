"""Sends answers while they are being read, so that only a piece is in memory, however long they are."""

from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Final

from asgiref.sync import sync_to_async
from django.http import StreamingHttpResponse

_PIECE: Final = 256 * 1024  # bytes; each costs a step from the server's thread to the request's own


def streamed(pieces: Iterable[bytes], mime_type: str, headers: dict[str, str] | None = None) -> StreamingHttpResponse:
    """Makes an answer that is read piece by piece in the request's own thread.

    An error in the first piece is raised here. After a later error, the connection is cut, so that half an answer isn't
    taken for a whole one.
    """
    large = _large(pieces)
    first = next(large, b"")
    headers = {"Cache-Control": "private, no-cache"} | (headers or {})
    return StreamingHttpResponse(_read(first, large), content_type=mime_type, headers=headers)


def encoded(text: str) -> Iterator[bytes]:
    """Encodes a text piece by piece, so that a long text is in memory only once."""
    for start in range(0, len(text), _PIECE):
        yield text[start : start + _PIECE].encode("utf-8", "replace")


def _large(pieces: Iterable[bytes]) -> Iterator[bytes]:
    waiting: list[bytes] = []
    length = 0
    for piece in pieces:
        waiting.append(piece)
        length += len(piece)
        if length >= _PIECE:
            together = waiting.pop() if len(waiting) == 1 else b"".join(waiting)
            waiting, length = [], 0
            del piece  # it may be large
            for start in range(0, len(together), 2 * _PIECE):
                yield together[start : start + 2 * _PIECE]
            del together
    if waiting:
        yield b"".join(waiting)


async def _read(piece: bytes, rest: Iterator[bytes]) -> AsyncIterator[bytes]:
    while piece:
        yield piece
        piece = await sync_to_async(_next)(rest)


def _next(rest: Iterator[bytes]) -> bytes:
    return next(rest, b"")
