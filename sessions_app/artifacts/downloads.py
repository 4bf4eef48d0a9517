"""Sends the file of an artifact, or one that an event holds, to pages and programs alike, however large it is.

An artifact is sent as a download, never to be shown.
"""

import base64
import binascii
import re
from collections.abc import Iterable, Iterator
from typing import Final

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils.http import content_disposition_header
from django.utils.translation import gettext as _

from ..access.actor import Actor
from ..domain.description import Cut, Part
from ..domain.errors import Invalid, NotFound
from ..domain.session_ref import SessionRef
from ..http.streaming import streamed
from ..reads import large_events
from ..reads.event_views import EventView
from . import contents
from .contents import Content

SANDBOX: Final = "default-src 'none'; sandbox"


def download(request: HttpRequest, ref: SessionRef, name: str, version: int, *, actor: Actor) -> HttpResponseBase:
    """Sends a version of an artifact, or the range of bytes that is asked for. Raises Unavailable."""
    with contents.opened(ref, name, version, actor=actor) as (content, file):
        etag = file.etag
    part = asked(request, content.size, etag)
    if part is None:
        return unsatisfiable(content.size)
    headers = {
        "Accept-Ranges": "bytes",
        "ETag": etag,
        "Content-Disposition": disposition(content, as_attachment=True),
        "Content-Security-Policy": SANDBOX,
    }
    pieces = contents.pieces(ref, name, version, *part, actor=actor)
    return partly(streamed(pieces, "application/octet-stream", headers), *part, content.size)


def disposition(content: Content, *, as_attachment: bool) -> str:
    """Returns the header with the name under which a browser keeps a file."""
    header = content_disposition_header(as_attachment=as_attachment, filename=content.file_name)
    return header or "attachment"


# --- Which part of a file a request asks for, so that a download can continue where it was cut off --------------------

_RANGE: Final = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")


def asked(request: HttpRequest, size: int, etag: str) -> tuple[int, int] | None:
    """Returns the first byte that is asked for, and the one after the last: (0, size) for all of it. None if the file
    has no such bytes.

    Several ranges are answered with the whole, and so is a range of a file that has changed in the meantime."""
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


# --- An image or a file that an event holds ---------------------------------------------------------------------------

NAME_LENGTH: Final = 200  # characters of a download's name
_STANDARD: Final = str.maketrans("-_", "+/")


def send(view: EventView, number: int, *, actor: Actor) -> HttpResponseBase:
    """Sends the file with a number: shown if it is an image without scripts, otherwise as a download.

    Raises NotFound if there is none, and Invalid if it is not base64."""
    files = view.description.media
    if number >= len(files):
        raise NotFound(_("This event has no such data."))
    part = files[number]
    text = part.value.get("data")
    if not isinstance(text, str):
        raise NotFound(_("This event doesn't store the data itself, only its location."))
    mime_type, headers = "application/octet-stream", as_download(_file_name(part) or f"data-{number}")
    if part.kind == "image":
        mime_type, headers = part.value["mime_type"], {}
    if isinstance(text, Cut):
        return streamed(_decoded(large_events.text_at(view.ref, view.id, text, actor=actor)), mime_type, headers)
    headers["Cache-Control"] = "private, no-cache"
    return HttpResponse(b"".join(_decoded([text])), mime_type, headers=headers)


def as_download(name: str) -> dict[str, str]:
    """Returns the headers with which a browser keeps a file under a name, and shows nothing of it."""
    header = content_disposition_header(as_attachment=True, filename=name)
    return {"Content-Disposition": header or "attachment", "Content-Security-Policy": SANDBOX}


def _decoded(texts: Iterable[str]) -> Iterator[bytes]:
    """Yields the bytes of base64 that comes in pieces. ADK writes it in its URL-safe form."""
    left = ""
    try:
        for text in texts:
            left += "".join(text.split()).translate(_STANDARD)
            whole = len(left.rstrip("=")) // 4 * 4
            yield base64.b64decode(left[:whole], validate=True)
            left = left[whole:]
        left = left.rstrip("=")
        yield base64.b64decode(left + "=" * (-len(left) % 4), validate=True)
    except (binascii.Error, ValueError) as error:
        raise Invalid(_("The data in this event isn't valid base64.")) from error


def _file_name(part: Part) -> str:
    """Returns a file name for a header, without folders and control characters. Empty for a name of only dots."""
    text = str(part.value.get("display_name") or "").replace("\\", "/")
    name = "".join(c for c in text.rpartition("/")[2] if c.isprintable())[:NAME_LENGTH]
    return name if name.strip(". ") else ""
