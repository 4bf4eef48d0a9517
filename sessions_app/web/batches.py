"""Batches: the form of an edit of many sessions, its dry run, its progress, and its undo."""

import uuid
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_http_methods
from django_htmx.http import HttpResponseClientRedirect

from ..access.actor import Actor
from ..batches import batch as core
from ..batches import items, reading
from ..batches.reading import Batch
from ..domain.errors import Conflict, Error, Invalid
from ..domain.state import ABSENT
from ..http.problems import status_of
from .edits.rows import MOST, FormRow, StateForm, new_row, note_types, posted_rows, too_many
from .html.render import page
from .request import actor

_LISTED = (*items.OUTCOMES[2:], "held")  # the outcomes whose sessions are listed: those that were left alone


@require_GET
def batches(request: HttpRequest) -> HttpResponse:
    """Lists the last batches."""
    return page(request, "batches/batches.html", {"batches": reading.recent(actor=actor(request))})


@require_http_methods(["GET", "POST"])
def batch(request: HttpRequest, batch_id: uuid.UUID) -> HttpResponse:
    """Shows a batch, and takes it a step further. htmx gets only the part that changes."""
    shown = reading.get(batch_id, actor=actor(request))
    if request.method == "GET":
        return _page(request, shown)
    try:
        return _step(request, shown)
    except (Conflict, Invalid) as error:  # what was typed is shown again
        again = reading.get(batch_id, actor=actor(request))
        return _page(request, again, {"error": error.message}, status_of(error))


def _step(request: HttpRequest, shown: Batch) -> HttpResponse:
    """Does what a button of the page asks for."""
    who = actor(request)
    if request.POST.get("new-key") or {"drop", "as-string"} & request.POST.keys():
        return _page(request, shown, _with_row(request))
    match request.POST.get("action"):
        case "try":
            return _try(request, shown)
        case "again":
            core.try_(shown.id, shown.values, actor=who, reason=shown.reason)
        case "do":
            if shown.act == "delete" and shown.stage == "ready" and not _is_confirmed(request, shown):
                raise Invalid(_("This is not the number of sessions; nothing was deleted."))
            core.do(shown.id, actor=who, dry_run=request.POST.get("dry-run", ""))
        case "apply" | "decline":
            _decide(request, shown)
        case "stop":
            core.stop(shown.id, actor=who)
        case "undo":
            return redirect("batch", core.undo(shown.id, actor=who, reason=request.POST.get("reason", "")))
        case "discard":
            core.discard(shown.id, actor=who)
            messages.info(request, _("Nothing was written."))
            return redirect("search")
        case _:  # “Key”, without one
            return _page(request, shown, _with_row(request))
    return _go_on(request, shown)


def _decide(request: HttpRequest, shown: Batch) -> None:
    """Applies or declines a batch that needs a second person."""
    if request.POST["action"] == "apply":
        core.apply(shown.id, dry_run=request.POST.get("dry-run", ""), actor=actor(request))
    else:
        core.decline(shown.id, actor=actor(request), why=request.POST.get("why", ""))


def _go_on(request: HttpRequest, shown: Batch) -> HttpResponse:
    """Leads to the page of the batch, at its next stage."""
    address = reverse("batch", args=[shown.id])
    return HttpResponseClientRedirect(address) if request.htmx else redirect(address)  # type: ignore[attr-defined]


def _try(request: HttpRequest, shown: Batch) -> HttpResponse:
    form = StateForm.of(request)
    entries = form.entries()
    if entries is None:
        return _page(request, shown, {"rows": form.rows, "error": form.error}, 400)
    values = {entry.key: entry.value for entry in entries}
    if len(values) < len(entries):
        raise Invalid(_("A key appears twice in this edit."))
    core.try_(shown.id, values, actor=actor(request), reason=request.POST.get("reason", ""))
    return _go_on(request, shown)


def _is_confirmed(request: HttpRequest, shown: Batch) -> bool:
    return request.POST.get("confirm", "").strip() == str(shown.to_do)


def _with_row(request: HttpRequest) -> dict[str, Any]:
    rows, key = posted_rows(request.POST), request.POST.get("new-key", "")
    if key and any(row.key == key for row in rows):
        return {"error": _("%(key)s is already in this edit.") % {"key": key}}
    if len(rows) == MOST:
        return {"error": too_many().message}
    return {"rows": [*rows, new_row(key, {})] if key else rows}


def _page(request: HttpRequest, shown: Batch, more: Mapping[str, Any] | None = None, status: int = 200) -> HttpResponse:
    who = actor(request)
    typed = "rows" in request.POST  # an error, or a row more or less: what was typed is shown again
    may_act = reading.may_act(shown.id, actor=who)
    context: dict[str, Any] = {
        "batch": shown,
        "may_act": may_act,
        "editing": may_act and shown.act == "edit" and (typed or shown.stage == "draft"),
        "reason": request.POST.get("reason", "") if typed else shown.reason,
        "rows": posted_rows(request.POST) if typed else _rows(shown, who),
        **(more or {}),
    }
    if context["editing"] and context["rows"]:
        with suppress(Error):  # its source is away; a type can be chosen
            note_types(context["rows"], reading.looked_at(shown.id, actor=who))
    if shown.stage == "held":
        context["decidable"], context["own"] = reading.deciding(shown.id, actor=who)
    if shown.stage in ("ready", "held") and shown.act == "edit":
        context["samples"] = _samples(shown, request)
    if not shown.working:
        lists = ((name, reading.listed(shown.id, name, actor=who)) for name in _LISTED if shown.counts[name])
        context["lists"] = [(name, some, shown.counts[name] - len(some)) for name, some in lists]
    context["changes"] = reading.changes(shown, actor=who)
    template = "batches/_batch.html" if request.htmx else "batches/batch.html"  # type: ignore[attr-defined]
    return page(request, template, context, status)


def _samples(shown: Batch, request: HttpRequest) -> list[reading.Sample]:
    try:
        return reading.samples(shown.id, actor=actor(request))
    except Error:  # its source is away; doing it says so
        return []


def _rows(shown: Batch, who: Actor) -> list[FormRow]:
    """Returns the rows of the form for an edit that was tried before. A value that is masked is typed again."""
    rows = []
    for change in reading.changes(shown, actor=who):
        key, value = change.key, shown.values[change.key]
        removed, hidden = value is ABSENT, change.new is not value
        row = new_row(key, {} if removed or hidden else {key: value})
        row.operation, row.seen = ("remove" if removed else "set"), ""
        rows.append(row)
    return rows
