"""Exports everything of a user as one file, and gives it out to admins of the app."""

import re
import uuid
from typing import Any, Final

from django import forms
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import redirect
from django.utils.http import content_disposition_header
from django.views.decorators.http import require_GET, require_http_methods

from ...domain.session_ref import SessionRef
from ...http.reader import user_for_reader
from ...http.streaming import streamed
from ...jobs.lease import WAITING
from ...privacy import exports
from ...reads import views
from ..forms import Form, act
from ..html.render import page
from ..request import actor, check_may

_UNSAFE: Final = re.compile(r"[^\w.@+-]+")
_NAME_LENGTH: Final = 100


class ExportForm(Form):
    """Begins an export, or deletes the one whose id is in the button's field."""

    discard = forms.UUIDField(required=False, widget=forms.HiddenInput)


@require_http_methods(["GET", "POST"])
def export(request: HttpRequest, source: str, app_name: str, user_id: str) -> HttpResponse:
    """Shows the exports of a user; begins one, or deletes one. htmx gets only the part that changes."""
    names, who = (source, app_name, user_id), actor(request)
    check_may(request, "admin", SessionRef(*names, ""))

    def begin_or_discard(discard: uuid.UUID | None) -> None:
        if discard:
            exports.discard(discard, *names, actor=who)
        else:
            views.user_state(*names, partly=True, actor=who)  # raises NotFound
            exports.begin(*names, actor=who)

    form = ExportForm.of(request)
    _done, status = act(form, lambda given: begin_or_discard(**given))
    if form.is_valid():
        return redirect("export-everything", *names)
    context: dict[str, Any] = {"source": source, "app_name": app_name, "user_id": user_id, "form": form}
    context["exports"] = exports.listed(*names, actor=who)
    context["working"] = any(each.job.state == WAITING for each in context["exports"])
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
