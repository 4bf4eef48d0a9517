"""Sends an image or a file that stands in an event, to pages and programs alike, however large it is."""

import base64
import binascii
from collections.abc import Iterable, Iterator
from typing import Final

from django.http import HttpResponse
from django.http.response import HttpResponseBase
from django.utils.http import content_disposition_header
from django.utils.translation import gettext as _

from ..access.actor import Actor
from ..domain.description import Cut, Part
from ..domain.errors import Invalid, NotFound
from ..reads import large_events
from ..reads.event_views import EventView
from .artifacts import SANDBOX
from .streaming import streamed

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
        raise NotFound(_("The data itself is not stored in this event, only where it is."))
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
        raise Invalid(_("The data of this event is not valid base64.")) from error


def _file_name(part: Part) -> str:
    """Returns a file name for a header, without folders and control characters. Empty for a name of only dots."""
    text = str(part.value.get("display_name") or "").replace("\\", "/")
    name = "".join(c for c in text.rpartition("/")[2] if c.isprintable())[:NAME_LENGTH]
    return name if name.strip(". ") else ""
