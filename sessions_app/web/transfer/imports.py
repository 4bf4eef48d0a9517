"""Export and import in the browser. An import is checked first, then confirmed, then written."""

import re
import uuid
from collections.abc import Iterable
from typing import Any, Final, Self

from django import forms
from django.conf import settings
from django.contrib import messages
from django.core.exceptions import ValidationError
from django.core.files.uploadedfile import UploadedFile
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.http import content_disposition_header
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_GET, require_http_methods
from django_htmx.http import HttpResponseClientRedirect

from ...access.actor import Actor
from ...checks.mask_rules import checked
from ...domain.errors import Conflict, Error, NotFound
from ...domain.masks import KEY, Rule
from ...domain.session_ref import SessionRef
from ...http.problems import STATUS
from ...http.reader import user_for_reader
from ...http.streaming import streamed
from ...reads import views
from ...sources import database, registry
from ...sources.errors import shown
from ...transfer import FORMATS, WRITTEN, exporting, uploads
from ...transfer import export as written
from ...transfer import imports as core
from ...transfer.exporting import left_out_header
from ...transfer.hiding import Hiding
from ..forms import Check, Form, Text
from ..html.render import page
from ..request import actor

_UNSAFE: Final = re.compile(r"[^\w.@+-]+")
_NO_NAME: Final = re.compile(r"\W+")
_NAME_LENGTH: Final = 100
_MOST_KEYS: Final = 20
_SWAPPED: Final = (400, 409)  # the statuses whose answers base.html tells htmx to show in the page


# --- Export -----------------------------------------------------------------------------------------------------------


@require_GET
def export_app(request: HttpRequest, source: str, app_name: str) -> StreamingHttpResponse:
    """Downloads every session of an app."""
    views.app(source, app_name, partly=True, actor=actor(request))
    return _export(request, source, exporting.Filter(app_name))


@require_GET
def export_user(request: HttpRequest, source: str, app_name: str, user_id: str) -> StreamingHttpResponse:
    """Downloads every session of a user."""
    views.user_state(source, app_name, user_id, partly=True, actor=actor(request))
    return _export(request, source, exporting.Filter(app_name, user_id))


@require_GET
def export_session(request: HttpRequest, **names: str) -> StreamingHttpResponse:
    """Downloads a session."""
    ref = SessionRef(**names)
    view = views.session(ref, partly=True, actor=actor(request))
    return _export(request, ref.source, exporting.Filter(*ref[1:]), view.title)


class HideForm(Form):
    """Hides values in what is shared: all, or those of `hide_keys`, patterns with commas or blanks between them."""

    hide = Check()
    hide_keys = Text()

    def clean_hide_keys(self) -> list[Rule]:
        """Returns a rule for each pattern. The core says what is wrong with one."""
        keys = self.cleaned_data["hide_keys"].replace(",", " ").split()
        if len(keys) > _MOST_KEYS:
            raise ValidationError(_("Enter up to %(n)s keys.") % {"n": _MOST_KEYS})
        return [checked("*", KEY, key).rule for key in keys]


def _export(request: HttpRequest, source: str, only: exporting.Filter, title: str = "") -> StreamingHttpResponse:
    given = HideForm(request.GET).read()
    hiding = Hiding(given["hide_keys"]) if given["hide"] else None
    name = request.GET.get("format", "jsonl")
    if name not in WRITTEN or (FORMATS[name].one_session and only.session is None):
        raise NotFound(_("There's no export format “%(format)s”.") % {"format": name})
    form = FORMATS[name]
    user = only.user and user_for_reader(source, str(only.app), only.user)
    if hiding:
        title, user = hiding.title(title), user and hiding.user(user)
    file = file_name([title] if name == "html" and title else [only.app, user, only.session], form.suffix)
    left_out = exporting.damaged(source, only, actor=actor(request)) if "skip_damaged" in request.GET else None
    pieces = written(name, source, only, actor=actor(request), left_out=left_out, hiding=hiding)
    return download(pieces, file, form.mime_type, left_out_header(left_out))


def file_name(names: Iterable[str | None], suffix: str) -> str:
    """Returns a harmless name for a file. Python can import it if it is Python's."""
    unsafe, between = (_NO_NAME, "_") if suffix.endswith(".py") else (_UNSAFE, "-")
    return between.join(unsafe.sub("_", text) for text in names if text).lstrip(".")[:_NAME_LENGTH] + suffix


def download(
    pieces: Iterable[bytes], file: str, mime_type: str, headers: dict[str, str] | None = None
) -> StreamingHttpResponse:
    """Answers with a file."""
    disposition = content_disposition_header(as_attachment=True, filename=file)
    return streamed(pieces, mime_type, {"Content-Disposition": str(disposition), **(headers or {})})


# --- Import -----------------------------------------------------------------------------------------------------------


class UploadForm(Form):
    """Uploads a file, to be looked through before anything of it is written. The core says what is wrong with it."""

    source = Text()
    file = forms.FileField(allow_empty_file=True, error_messages={"required": gettext_lazy("Choose a file first.")})
    replace_nul = Check()

    @classmethod
    def of(cls, request: HttpRequest, **options: Any) -> Self:
        """Returns the form as a request sent it, with its file."""
        return super().of(request, files=request.FILES or None, **options)


class GoOnForm(Form):
    """Starts or resumes an import, or discards it. With `state`, it sets keys of shared state that differ, too."""

    discard = Check()
    state = Check()


@require_http_methods(["GET", "POST"])
def imports(request: HttpRequest) -> HttpResponse:
    """Uploads a file, and lists the imports of the last day."""
    who = actor(request)
    who.check_permission("admin")
    form = UploadForm.of(
        request, initial={"source": request.GET.get("source"), "replace_nul": "replace_nul" in request.GET}
    )
    context = {
        "form": form,
        "sources": [
            each.alias
            for each in registry.listed()
            if who.has("admin", each.alias) and not database.is_read_only(each.alias)
        ],
        "limit": settings.MAX_UPLOAD,
        "recent": core.recent(actor=who),
    }
    if request.method == "GET":
        return page(request, "transfer/imports/imports.html", context)
    try:
        import_id = _take(who, **form.read())
    except Error as error:
        status = STATUS.get(type(error), 400)
        if request.htmx and status not in _SWAPPED:  # type: ignore[attr-defined]
            raise
        return page(request, "transfer/imports/imports.html", context | {"error": shown(error, who)}, status)
    address = reverse("import", kwargs={"import_id": import_id})
    return HttpResponseClientRedirect(address) if request.htmx else redirect(address)  # type: ignore[attr-defined]


@require_http_methods(["GET", "POST"])
def import_(request: HttpRequest, import_id: uuid.UUID) -> HttpResponse:
    """Shows an import, and starts, resumes or discards it. htmx gets only the part that changes."""
    who = actor(request)
    context: dict[str, Any] = {}
    status = 200
    if request.method == "POST":
        who.check_permission("admin")
        given = GoOnForm.of(request).read()
        if given["discard"]:
            return _discard(request, import_id)
        try:
            core.go_on(import_id, who, state=given["state"])
            return redirect("import", import_id=import_id)
        except Conflict as error:
            context, status = {"error": error.message, "state": given["state"]}, STATUS[Conflict]
    job = core.get(import_id, actor=who)
    template = "transfer/imports/_import.html" if request.htmx else "transfer/imports/import.html"  # type: ignore[attr-defined]
    return page(
        request, template, context | {"job": job, "format": job.preview and FORMATS[job.preview.format]}, status
    )


def _take(who: Actor, *, source: str, file: "UploadedFile[Any]", replace_nul: bool) -> uuid.UUID:
    database.get(source)  # checked before gigabytes are copied
    upload = uploads.receive(file.chunks())
    try:
        return core.begin(upload, file.name or "", source, who, replace_nul=replace_nul)
    except BaseException:
        uploads.discard(upload)
        raise


def _discard(request: HttpRequest, import_id: uuid.UUID) -> HttpResponse:
    before = core.get(import_id, actor=actor(request))
    if before.stage == "done":  # just before Stop was pressed: the page shows the result
        return redirect("import", import_id=import_id)
    core.discard(import_id, actor=actor(request))
    if before.stage in ("importing", "stopped"):
        messages.info(
            request,
            _("Import stopped, but everything imported so far is kept. Upload the same file again to continue."),
        )
    return redirect("imports")
