"""Exports everything of a user as one file, and gives it out to admins of the app."""

import re
import uuid
from typing import Any, Final

from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import redirect
from django.utils.http import content_disposition_header
from django.views.decorators.http import require_GET, require_http_methods

from ...domain.errors import Conflict, Invalid
from ...domain.session_ref import SessionRef
from ...http.problems import status_of
from ...http.reader import user_for_reader
from ...http.streaming import streamed
from ...privacy import exports
from ...reads import views
from ..html.render import page
from ..request import actor, check_may

_UNSAFE: Final = re.compile(r"[^\w.@+-]+")
_NAME_LENGTH: Final = 100


@require_http_methods(["GET", "POST"])
def export(request: HttpRequest, source: str, app_name: str, user_id: str) -> HttpResponse:
    """Shows the exports of a user; begins one, or deletes one. htmx gets only the part that changes."""
    check_may(request, "admin", SessionRef(source, app_name, user_id, ""))
    names = (source, app_name, user_id)
    who = actor(request)
    context: dict[str, Any] = {"source": source, "app_name": app_name, "user_id": user_id}
    status = 200
    if request.method == "POST":
        try:
            if discarded := request.POST.get("discard"):
                exports.discard(_number(discarded), *names, actor=who)
            else:
                views.user_state(*names, partly=True, actor=who)
                exports.begin(*names, actor=who)
            return redirect("export-everything", *names)
        except Conflict as error:
            context["error"], status = error.message, status_of(error)
    context["exports"] = exports.listed(*names, actor=who)
    context["working"] = any(each.stage == "working" for each in context["exports"])
    template = "privacy/export/_export.html" if request.htmx else "privacy/export/export.html"  # type: ignore[attr-defined]
    return page(request, template, context, status)


@require_GET
def file(request: HttpRequest, source: str, app_name: str, user_id: str, export_id: uuid.UUID) -> StreamingHttpResponse:
    """Downloads the file of an export."""
    check_may(request, "admin", SessionRef(source, app_name, user_id, ""))
    made, pieces = exports.opened(export_id, source, app_name, user_id, actor=actor(request))
    name = (
        "-".join(_UNSAFE.sub("_", text) for text in (app_name, user_for_reader(source, app_name, user_id))).lstrip(".")[
            :_NAME_LENGTH
        ]
        + ".zip"
    )
    headers = {
        "Content-Disposition": str(content_disposition_header(as_attachment=True, filename=name)),
        "Content-Length": str(made.size),
    }
    return streamed(pieces, "application/zip", headers)


def _number(text: str) -> uuid.UUID:
    try:
        return uuid.UUID(text)
    except ValueError as error:
        raise Invalid(str(error)) from error
