"""The page of drift: keys whose stored value is not what the events say, and their repair."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods

from ..domain.errors import Behind, Error, Held, Invalid
from ..domain.event import Event, delta_of, new_id, removed_by
from ..domain.json_values import dumps
from ..domain.positions import NO_SEQ, Seq
from ..domain.session_ref import SessionRef
from ..domain.state import ABSENT, UNKNOWN, Change
from ..edits import queue
from ..edits.repair import Choice, repair, repair_event
from ..history import drift as history_drift
from ..http.problems import status_of
from ..reads import timeline, views
from ..search import outline
from ..sources import database, errors
from .edits.edit import tell_saved
from .edits.rows import kept
from .forms import Form, Text
from .html.render import page
from .request import actor, check_may

ROWS: Final = 200  # keys on the page
LENGTH: Final = 1_000_000  # characters of their values
LONG: Final = 20_000  # events; with more of them, the page is sent before they are replayed


@dataclass(frozen=True, slots=True)
class Row:
    """A key that differs, as the form shows and sends it. `choice` is `keep`, `back` or empty; `event` is a URL."""

    drift: history_drift.Drift
    event: str
    said: str
    stored: str
    choice: str


class RepairForm(Form):
    """Repairs keys that differ. Beside these fields, each key has its own, of which `rows` has the numbers."""

    rows = Text(widget=forms.HiddenInput)
    reason = Text(label=gettext_lazy("Reason (saved with the edit)"), attrs={"maxlength": 1000, "autocomplete": False})
    once = Text(widget=forms.HiddenInput)
    action = Text(widget=forms.HiddenInput)

    def choices(self) -> list[Choice]:
        """Returns what was chosen. Raises Invalid."""
        return [
            Choice(key, choice == "keep", _seen(said), _seen(stored))
            for key, said, stored, choice in self._keys()
            if choice in ("keep", "back")
        ]

    def choice_of(self, *shown: str) -> str:
        """Returns what was chosen for a key with the values that were seen, `keep`, `back` or empty."""
        return next((choice for *seen, choice in self._keys() if tuple(seen) == shown), "")

    def _keys(self) -> Iterator[list[str]]:
        for number in self.data.get("rows", "").split():
            yield [self.data.get(f"{name}-{number}", "") for name in ("key", "said", "stored", "choice")]


@require_http_methods(["GET", "POST"])
def session(request: HttpRequest, **names: str) -> HttpResponse:
    """Lists the keys that differ, and repairs those for which a choice is sent."""
    ref = SessionRef(**names)
    form = RepairForm.of(request, initial={"once": new_id()})
    if not form.is_valid():
        return _waiting(request, ref) if _is_long(request, ref) else _page(request, ref, form)
    check_may(request, "append", ref)
    given = form.cleaned_data
    try:
        choices = form.choices()
        if not choices and request.htmx:  # type: ignore[attr-defined]
            return _preview(request, ref, form)  # a choice was taken back
        if not choices:
            raise Invalid(_("Nothing selected: every key stays as it is."))
        event = repair_event(choices, actor(request), given["reason"])
        if given["action"] in ("", "preview"):
            return _preview(request, ref, form, event)
        if given["action"] != "apply-now" and queue.held(ref, actor=actor(request)):
            return _preview(request, ref, form, event, status=409)  # it says what is running, and offers a choice
        appended = repair(ref, choices, actor=actor(request), reason=given["reason"], once=given["once"])
    except Held:
        raise
    except Error as error:
        return _preview(request, ref, form, error=error)
    if appended.seq is None:
        messages.info(request, _("This edit has already been written."))
    else:
        tell_saved(request, ref, appended.event["id"], appended.seq)
    return redirect(reverse("drift", kwargs=names))


def _is_long(request: HttpRequest, ref: SessionRef) -> bool:
    """Tells whether the page is sent before its content. Never for htmx or without scripts (?wait=no)."""
    views.session(ref, partly=True, actor=actor(request))
    whole = request.htmx or "wait" in request.GET  # type: ignore[attr-defined]
    return (
        not whole
        and database.is_numbered(ref.source)
        and timeline.misses_more_than(ref, NO_SEQ, LONG, actor=actor(request))
    )


def _waiting(request: HttpRequest, ref: SessionRef) -> HttpResponse:
    """Sends the page at once. The page then asks for its content, which takes longer."""
    return page(
        request,
        "drift/drift.html",
        {"ref": ref, "view": views.session(ref, partly=True, actor=actor(request)), "waiting": True},
    )


def _preview(
    request: HttpRequest,
    ref: SessionRef,
    form: RepairForm,
    event: Event | None = None,
    error: Error | None = None,
    status: int = 200,
) -> HttpResponse:
    """Shows the form with the event that it would write, or with the error. htmx gets only the end of the form."""
    status = status_of(error) if error else status
    who = actor(request)
    context: dict[str, Any] = {"error": errors.shown(error, who) if error else "", "held": queue.held(ref, actor=who)}
    if event:
        context |= {"event": dumps(event, indent=2), "changes": _changes(event)}
    if request.htmx:  # type: ignore[attr-defined]
        return page(request, "drift/_event.html", context, status)
    return _page(request, ref, form, context, status)


def _page(
    request: HttpRequest, ref: SessionRef, form: RepairForm, more: dict[str, Any] | None = None, status: int = 200
) -> HttpResponse:
    view, own = views.session(ref, actor=actor(request)), history_drift.own(ref, actor=actor(request))
    shared, problem = history_drift.Report(), {"share": None, "fault": ""}
    try:
        shared = shared if own.untold else history_drift.shared(ref, actor=actor(request))
    except Behind as behind:  # the session's own keys are shown meanwhile
        problem |= behind.detail
    except Invalid as error:  # too large
        problem["fault"] = error.message
    drifted = [*own.drifted, *shared.drifted]
    rows = _rows(drifted, form)
    context = {
        "ref": ref,
        "view": view,
        "own": own,
        "shared": shared,
        **problem,
        "where": request.path,
        "rows": rows,
        "numbers": outline.numbers_of(ref, _seqs(ref, rows), actor=actor(request)),
        "number": len(drifted),
        "more": len(drifted) - len(rows),
        "choosable": problem["share"] is None and actor(request).may_write("append", ref.source, ref.app_name),
        "fixable": any(not row.drift.stray for row in rows),
        "form": form,
        "held": queue.held(ref, actor=actor(request)) if rows else None,
        **(more or {}),
    }
    template = "drift/_content.html" if request.htmx else "drift/drift.html"  # type: ignore[attr-defined]
    return page(request, template, context, status)


def _rows(drifted: list[history_drift.Drift], form: RepairForm) -> list[Row]:
    """Returns as many rows as fit on a page."""
    rows: list[Row] = []
    left = LENGTH
    for each in drifted[:ROWS]:
        row = _row(each, form)
        left -= len(row.said) + len(row.stored)
        if rows and left < 0:
            break
        rows.append(row)
    return rows


def _seqs(ref: SessionRef, rows: list[Row]) -> list[Seq | None]:
    """Returns the seqs of the session's own events that wrote the keys of the rows."""
    writers = [row.drift.last for row in rows]
    return [last.seq for last in writers if last and last.event_id and last.ref == ref]


def _row(drift: history_drift.Drift, form: RepairForm) -> Row:
    said, stored = _kept(drift.change.old), _kept(drift.change.new)
    last = drift.last
    event = reverse("event", kwargs={**last.ref._asdict(), "event_id": last.event_id}) if last and last.event_id else ""
    return Row(drift, event, said, stored, form.choice_of(drift.change.key, said, stored))


def _kept(value: Any) -> str:
    return "" if value is ABSENT else kept(value)


def _seen(text: str) -> Any:
    try:
        return json.loads(text) if text else ABSENT
    except (ValueError, RecursionError) as error:
        raise Invalid(_("This page is outdated. Open it again.")) from error


def _changes(event: Event) -> list[Change]:
    """Returns what an event sets and removes."""
    removed = set(removed_by(event))
    return [Change(name, UNKNOWN, ABSENT if name in removed else value) for name, value in delta_of(event).items()]
