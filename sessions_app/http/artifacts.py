"""Sends the file of an artifact, to pages and programs alike: as a download, and never as something to be shown."""

from typing import Final

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.http import content_disposition_header

from ..access.actor import Actor
from ..artifacts import contents
from ..artifacts.contents import Content
from ..domain.session_ref import SessionRef
from . import ranges
from .streaming import streamed

SANDBOX: Final = "default-src 'none'; sandbox"


def download(request: HttpRequest, ref: SessionRef, name: str, version: int, *, actor: Actor) -> HttpResponseBase:
    """Sends a version of an artifact, or the range of bytes that is asked for. Raises Unavailable."""
    with contents.opened(ref, name, version, actor=actor) as (content, file):
        etag = file.etag
    part = ranges.asked(request, content.size, etag)
    if part is None:
        return ranges.unsatisfiable(content.size)
    headers = {
        "Accept-Ranges": "bytes",
        "ETag": etag,
        "Content-Disposition": disposition(content, as_attachment=True),
        "Content-Security-Policy": SANDBOX,
    }
    pieces = contents.pieces(ref, name, version, *part, actor=actor)
    return ranges.partly(streamed(pieces, "application/octet-stream", headers), *part, content.size)


def disposition(content: Content, *, as_attachment: bool) -> str:
    """Returns the header with the name under which a browser keeps a file."""
    header = content_disposition_header(as_attachment=as_attachment, filename=content.file_name)
    return header or "attachment"
