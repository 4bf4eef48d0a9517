"""Reads which part of a file a request asks for, so that a download can go on where it was cut off."""

import re
from typing import Final

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase

_RANGE: Final = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")


def asked(request: HttpRequest, size: int, etag: str) -> tuple[int, int] | None:
    """Returns the first byte that is asked for, and the one after the last: (0, size) for all of it. None if the file has no
    such bytes.

    Several ranges are answered with the whole, and so is a range of a file that has changed meanwhile."""
    match = _RANGE.fullmatch(request.headers.get("Range", "").strip())
    if not match or match[0] == "bytes=-" or request.headers.get("If-Range", etag) != etag:
        return 0, size
    first, last = match.groups()
    if not first:
        return (max(0, size - int(last)), size) if int(last) and size else None
    end = min(size, int(last) + 1) if last else size
    return (int(first), end) if int(first) < end else None


def partly(response: HttpResponseBase, first: int, end: int, size: int) -> HttpResponseBase:
    """Returns an answer with these bytes of a file, marked as that part of it."""
    response.headers["Content-Length"] = str(end - first)
    if (first, end) != (0, size):
        response.status_code = 206
        response.headers["Content-Range"] = f"bytes {first}-{end - 1}/{size}"
    return response


def unsatisfiable(size: int) -> HttpResponse:
    """Returns the answer to a request for bytes that a file does not have."""
    return HttpResponse(status=416, headers={"Content-Range": f"bytes */{size}", "Cache-Control": "private, no-cache"})
