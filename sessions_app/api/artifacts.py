"""The artifacts of a session: names, versions, who saved them, and the files that can be read."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils.translation import gettext as _
from ninja import Router, Schema
from ninja.params.functions import Query
from pydantic import Field

from ..access.actor import Actor
from ..artifacts import contents, downloads, saved
from ..artifacts.saved import Save
from ..domain.positions import number_of
from ..domain.session_ref import SessionRef
from ..http.problems import MEDIA_TYPE, TITLES, problem
from ..reads import views
from .authorize import actor_of, ref_of
from .bodies import answer
from .sessions import SESSION

router = Router()
NAME = Query(..., description="of the artifact, with `user:` if it has that")
MOST: int = 2**31 - 1
_PROBLEM = "#/components/schemas/Problem"
_ETAG = {"ETag": {"schema": {"type": "string"}, "required": True, "description": "for `If-Range`"}}
_BYTES = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}


class Content(Schema):
    """Facts about a version's file."""

    state: contents.State
    size: int | None = Field(description="in bytes; null if the file cannot be read")
    type: str = Field(description="as the agent gave it")
    image: str = Field(description="the type of a PNG, JPEG, GIF or WebP image, by its bytes; otherwise empty")
    text: bool = Field(description="the file starts like text")
    changed: float | None = Field(description="when someone changed the file after it was saved")


class Version(Schema):
    """A version of an artifact, and the event that saved it."""

    version: int | None = Field(description="null if the event names no number")
    event_id: str
    seq: int | None
    author: str
    timestamp: float
    content: Content


class Artifact(Schema):
    """An artifact: how often this session saved it, and the last time."""

    name: str
    saves: int
    last: Version


class Artifacts(Schema):
    """A page of artifacts, those that were saved last first."""

    items: list[Artifact]
    next: str | None
    behind: bool = Field(description="the newest events are still being read: artifacts may be missing")


class Versions(Schema):
    """The versions of an artifact, the newest first. `kept` has those whose files are there, no matter who saved
    them."""

    items: list[Version]
    kept: list[int]


@router.get(SESSION + "/artifacts", response=Artifacts, summary="Artifacts of a session")
def of_session(
    request: HttpRequest,
    app_name: str,
    user_id: str,
    session_id: str,
    before: int = Query(0, ge=0, le=MOST),
    source: str | None = None,
) -> HttpResponse:
    """Returns the artifacts of a session with their last versions, by page."""
    ref, who = _session(request, app_name, user_id, session_id, source)
    listing = saved.listing(ref, before, actor=who)
    items = [{"name": each.name, "saves": each.saves, "last": _version(ref, each.last, who)} for each in listing.rows]
    return answer({"items": items, "next": str(listing.older) if listing.older else None, "behind": listing.behind})


@router.get(SESSION + "/artifacts/versions", response=Versions, summary="Versions of an artifact")
def versions(
    request: HttpRequest,
    app_name: str,
    user_id: str,
    session_id: str,
    name: str = NAME,
    source: str | None = None,
) -> HttpResponse:
    """Returns the versions of an artifact that events of this session saved, and those that are kept."""
    ref, who = _session(request, app_name, user_id, session_id, source)
    saves = saved.versions(ref, name, actor=who)
    kept = contents.stored_versions(ref, name, actor=who)
    return answer({"items": [_version(ref, save, who) for save in saves], "kept": kept})


@router.get(
    SESSION + "/artifacts/content",
    response={200: None},
    summary="The file of an artifact",
    openapi_extra={
        "responses": {
            200: {"content": _BYTES, "headers": _ETAG},
            206: {"description": "The range of bytes that `Range` asks for", "content": _BYTES, "headers": _ETAG},
            416: {"description": TITLES[416], "content": {MEDIA_TYPE: {"schema": {"$ref": _PROBLEM}}}},
        }
    },
)
def content(
    request: HttpRequest,
    app_name: str,
    user_id: str,
    session_id: str,
    name: str = NAME,
    version: int = Query(..., ge=0, le=MOST),
    source: str | None = None,
) -> HttpResponseBase:
    """Returns a version's file, or a range of its bytes. Answers 404 if it cannot be read here."""
    ref, who = _session(request, app_name, user_id, session_id, source)
    response = downloads.download(request, ref, name, version, actor=who)
    if response.status_code != 416:
        return response
    refused = problem(416, _("The file is shorter than the requested range."))
    refused.headers["Content-Range"] = response.headers["Content-Range"]
    return refused


def _session(request: HttpRequest, *names: str | None) -> tuple[SessionRef, Actor]:
    """Returns a session that exists, and who asks. `names` are of the app, the user, the session and the source."""
    app_name, user_id, session_id, source = names
    ref = ref_of(request, str(app_name), str(user_id), str(session_id), source)
    views.session(ref, partly=True, actor=actor_of(request))
    return ref, actor_of(request)


def _version(ref: SessionRef, save: Save, who: Actor) -> dict[str, Any]:
    about = contents.glance(ref, save.name, save.version, actor=who)
    return {
        "version": save.version,
        "event_id": save.event_id,
        "seq": number_of(save.seq),
        "author": save.author,
        "timestamp": save.timestamp,
        "content": {
            "state": about.state,
            "size": about.size if about.state == "here" else None,
            "type": about.mime_type,
            "image": about.image,
            "text": about.is_text,
            "changed": about.changed or None,
        },
    }
