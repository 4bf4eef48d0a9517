"""Batches: the form of an edit of many sessions, its dry run, its progress, and its undo."""

import uuid
from contextlib import suppress
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_http_methods
from django_htmx.http import HttpResponseClientRedirect

from ..batches import batch as core
from ..batches import items, reading
from ..batches.reading import Batch
from ..domain.errors import Conflict, Error, Invalid
from ..domain.state import ABSENT
from ..http.problems import status_of
from .edits.rows import FormRow, StateForm, new_row, note_current
from .forms import Text
from .html.render import page
from .request import actor

_LISTED = (*items.OUTCOMES[2:], "held")  # the outcomes whose sessions are listed: those that were left alone


@require_GET
def batches(request: HttpRequest) -> HttpResponse:
    """Lists the last batches."""
    return page(request, "batches/batches.html", {"batches": reading.recent(actor=actor(request))})


class BatchForm(StateForm):
    """What a button of the page asks for (`action`), with what was typed."""

    action = Text()
    dry_run = Text()
    confirm = Text()
    why = Text()

    @property
    def is_typed(self) -> bool:
        """Tells whether keys were sent, to be shown again: with an error, or with a row more or less."""
        return "rows" in self.data or bool(self.rows)


@require_http_methods(["GET", "POST"])
def batch(request: HttpRequest, batch_id: uuid.UUID) -> HttpResponse:
    """Shows a batch, and takes it a step further. htmx gets only the part that changes."""
    shown, form = reading.get(batch_id, actor=actor(request)), BatchForm.of(request)
    if request.method == "GET":
        return _page(request, shown, form)
    try:
        return _step(request, shown, form)
    except (Conflict, Invalid) as error:  # what was typed is shown again
        again = reading.get(batch_id, actor=actor(request))
        form.error = error.message
        return _page(request, again, form, status_of(error))


def _step(request: HttpRequest, shown: Batch, form: BatchForm) -> HttpResponse:
    """Does what a button of the page asks for."""
    who, given = actor(request), form.read()
    if form.asks_for_rows:
        form.add_row({})
        return _page(request, shown, form)
    match given["action"]:
        case "try":
            return _try(request, shown, form)
        case "again":
            core.try_(shown.id, shown.values, actor=who, reason=shown.reason)
        case "do":
            _check_confirmed(shown, given["confirm"])
            reason = form.data.get("reason")  # as shown, perhaps with dots, it stays
            core.do(shown.id, actor=who, dry_run=given["dry_run"], reason=None if reason == shown.reason else reason)
        case "apply":
            core.apply(shown.id, actor=who, dry_run=given["dry_run"])
        case "decline":
            core.decline(shown.id, actor=who, why=given["why"])
        case "stop":
            core.stop(shown.id, actor=who)
        case "undo":
            return redirect("batch", core.undo(shown.id, actor=who, reason=given["reason"]))
        case "discard":
            core.discard(shown.id, actor=who)
            messages.info(request, _("Nothing was written."))
            return redirect("search")
        case _:
            return _page(request, shown, form)
    return _go_on(request, shown)


def _check_confirmed(shown: Batch, typed: str) -> None:
    if shown.act == "delete" and shown.stage == "ready" and typed.strip() != str(shown.to_do):
        raise Invalid(_("That isn't the number of sessions. Nothing was deleted."))


def _go_on(request: HttpRequest, shown: Batch) -> HttpResponse:
    """Leads to the page of the batch, at its next stage."""
    address = reverse("batch", args=[shown.id])
    return HttpResponseClientRedirect(address) if request.htmx else redirect(address)  # type: ignore[attr-defined]


def _try(request: HttpRequest, shown: Batch, form: BatchForm) -> HttpResponse:
    entries = form.entries()
    if entries is None:
        return _page(request, shown, form, 400)
    values = {entry.key: entry.value for entry in entries}
    if len(values) < len(entries):
        raise Invalid(_("A key appears twice in this edit."))
    core.try_(shown.id, values, actor=actor(request), reason=form.cleaned_data["reason"])
    return _go_on(request, shown)


def _page(request: HttpRequest, shown: Batch, form: BatchForm, status: int = 200) -> HttpResponse:
    context: dict[str, Any] = {
        "batch": shown,
        "editing": shown.may_act and shown.act == "edit" and (form.is_typed or shown.stage == "draft"),
        "reason": form.data.get("reason", "") if form.is_typed else shown.reason,
        "rows": form.rows if form.is_typed else _rows(shown),
        "error": form.error,
    }
    if context["editing"] and context["rows"]:
        with suppress(Error):  # its source is away, or the query slow; a type can be chosen
            context["looked_at"] = shown.looked_at()
            note_current(context["rows"], context["looked_at"])
    if shown.stage in ("ready", "held") and shown.act == "edit":
        with suppress(Error):  # its source is away; doing it says so
            context["samples"] = shown.samples()
    if not shown.working:
        lists = ((name, shown.left(name)) for name in _LISTED if shown.counts[name])
        context["lists"] = [(name, some, shown.counts[name] - len(some)) for name, some in lists]
    template = "batches/_batch.html" if request.htmx else "batches/batch.html"  # type: ignore[attr-defined]
    return page(request, template, context, status)


def _rows(shown: Batch) -> list[FormRow]:
    """Returns the rows of the form for an edit that was tried before. A value that is masked is typed again."""
    rows = []
    for change in shown.changes:
        key, value = change.key, shown.values[change.key]
        removed, hidden = value is ABSENT, change.new is not value
        row = new_row(key, {} if removed or hidden else {key: value})
        row.operation, row.seen = ("remove" if removed else "set"), ""
        rows.append(row)
    return rows
