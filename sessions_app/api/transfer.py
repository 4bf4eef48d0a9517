"""Exports sessions as a file, and imports them from one."""

from dataclasses import asdict, replace

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils.translation import gettext as _
from ninja import Router
from ninja.params.functions import Query

from ..access.handles import are_hidden_anywhere, shown_ref, shown_user
from ..domain.errors import Conflict, Invalid, NotAllowed
from ..http.limits import GONE
from ..http.streaming import streamed
from ..reads.users import meant
from ..sources import database, registry
from ..transfer import FORMATS, WRITTEN, exporting, uploads
from ..transfer import export as written
from ..transfer.exporting import left_out_header
from ..transfer.items import replacing_nul
from . import schemas
from .authorize import actor_of, may_know, source_of
from .bodies import answer, change_of
from .openapi import needs

router = Router()

_PIECE = 1024 * 1024


@router.get(
    "/export",
    response={200: None},
    summary="Export sessions as a file",
    openapi_extra={"responses": {200: {"content": {"application/octet-stream": {"schema": {"type": "string"}}}}}},
)
def export(
    request: HttpRequest,
    format: str = Query("jsonl", description=", ".join(WRITTEN)),
    app: str | None = None,
    user: str | None = None,
    session: str | None = None,
    skip_damaged: bool = Query(False, description="leave out rows that cannot be read"),
    source: str | None = None,
) -> HttpResponseBase:
    """Returns all sessions, or those of an app or a user, or a single one, as a file. The answer is streamed. Nothing
    is changed.

    With `skip_damaged`, the header `Adkweb-Left-Out` has the names of the rows that were left out, and so has the first
    line of jsonl."""
    if format not in WRITTEN:
        raise Invalid(_("format: must be one of %(names)s") % {"names": ", ".join(WRITTEN)})
    alias = _source(request, app, source)
    if user is not None and app is not None:
        user = meant(alias, app, user, actor=actor_of(request))
    elif user is not None and are_hidden_anywhere(actor_of(request)):
        raise Invalid(_("User ids are hidden in some apps, so specify an app as well."))
    only = exporting.Filter(app, user, session)
    left_out = exporting.damaged(alias, only, actor=actor_of(request)) if skip_damaged else None
    name = f'attachment; filename="export{FORMATS[format].suffix}"'
    return streamed(
        written(format, alias, only, actor=actor_of(request), left_out=left_out),
        "application/octet-stream",
        {"Content-Disposition": name, **left_out_header(left_out)},
    )


@router.post(
    "/import",
    response=schemas.Imported,
    summary="Import sessions from a file",
    openapi_extra={
        "requestBody": {
            "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
            "required": True,
        },
        **needs("admin"),
    },
)
def bring(
    request: HttpRequest,
    preview: bool = Query(False, description="report what would be done, and write nothing"),
    replace_nul: bool = Query(False, description="replace characters that PostgreSQL can't hold with “�”"),
    state: bool = Query(False, description="also set `app:` and `user:` keys that have another value in the source"),
    source: str | None = None,
) -> HttpResponse:
    """Imports sessions from the body, a file in any format that can be imported.

    The file is read to its end before anything is written. What exists already stays. Importing a file again adds
    nothing, and an import that was interrupted is resumed when the file is sent again."""
    who, alias = actor_of(request), _source(request, None, source, every_app=False)
    who.check_permission("admin")  # for each app in the file it is checked again, once the apps are known
    gone = getattr(request, "scope", {}).get(GONE)

    def waits(_share: float) -> None:
        if gone and gone.is_set():
            raise Conflict(_("The import was stopped because the client disconnected. Send it again to continue."))

    upload = uploads.receive(iter(lambda: request.read(_PIECE), b""))
    try:
        with replacing_nul(replace_nul):
            previewed = uploads.preview(upload, alias, who, told=waits)
            report = previewed.report if preview else uploads.bring(upload, alias, who, state=state, told=waits)
    finally:
        uploads.discard(upload)
    told = asdict(replace(report, skipped=[], differing=[]))
    told["skipped"] = [{"session": "/".join(shown_ref(each.ref, who)[1:]), "why": each.why} for each in report.skipped]
    told["differing"] = [
        {
            "app": each.app,
            "user": each.user and shown_user(alias, each.app, each.user, who),
            "changes": [change_of(change) for change in each.changes],
        }
        for each in report.differing
    ]
    return answer({"format": previewed.format, **told})


def _source(request: HttpRequest, app: str | None, source: str | None, every_app: bool = True) -> str:
    """Returns the source that is meant, as for one app. Without an app, the token must see every app, unless
    `every_app` is false."""
    if app is not None:
        return source_of(request, app, source)
    if every_app and not (actor_of(request).sees_all_of(source) if source else actor_of(request).sees_all):
        raise NotAllowed(_("This token isn't valid for every app. Specify one."))
    every = [each.alias for each in registry.listed() if may_know(request, each.alias)]
    if source is None and len(every) != 1:
        raise Invalid(_("Specify one of these sources: %(names)s.") % {"names": ", ".join(every)})
    return database.get(source or every[0]).alias
