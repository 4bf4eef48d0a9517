"""The form that edits the state of a session, an app or a user. Undo and restore fill it in."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods
from django_htmx.http import HttpResponseClientRedirect

from ...access import approval
from ...access.actor import Actor
from ...domain.errors import Conflict, Error, Held, Invalid, NotFound
from ...domain.event import new_id
from ...domain.invocations import Running
from ...domain.json_values import dumps
from ...domain.positions import Seq
from ...domain.session_ref import SessionRef
from ...domain.state import ABSENT, UNKNOWN, same
from ...edits import edit, proposals, queue
from ...edits.proposals import Proposal
from ...edits.queue import APPLIED, WAITING, Queued
from ...edits.undo import Plan
from ...http.problems import status_of
from ...reads import timeline, views
from ...reads.deltas import last_writer
from ...reads.event_views import EventView
from ...search import outline
from ...sources.errors import best_effort
from ...writes.incomplete import is_half
from ..context import about
from ..html.render import page
from ..html.state_panel import Target, of_app, of_session, of_user
from ..request import actor, check_may
from . import state_form
from .state_form import reached

_FULL: Final = 6  # at most so many restored keys get an editor each; more of them become rows to choose from


@require_http_methods(["GET", "POST"])
def session(request: HttpRequest, **names: str) -> HttpResponse:
    """Edits state of any scope in a session."""
    return _edit(request, of_session(views.session(SessionRef(**names), actor=actor(request))))


@require_http_methods(["GET", "POST"])
def app(request: HttpRequest, source: str, app_name: str) -> HttpResponse:
    """Edits `app:` state."""
    return _edit(request, of_app(source, app_name, actor(request)))


@require_http_methods(["GET", "POST"])
def user(request: HttpRequest, source: str, app_name: str, user_id: str) -> HttpResponse:
    """Edits `user:` state."""
    return _edit(request, of_user(source, app_name, user_id, actor(request)))


def taking_back(request: HttpRequest, plan: Plan, of: str, reason: str) -> HttpResponse:
    """Shows the form, filled in with what undoes an event or restores a moment."""
    target = of_session(views.session(plan.event.ref, actor=actor(request)))
    compact = len(plan.steps) > _FULL
    rows = [state_form.step_row(step, compact=compact) for step in plan.steps[: state_form.MOST]]
    for row in rows:
        if row.conflict:
            row.writer = last_writer(target.ref, row.key, actor=actor(request))
    more = len(plan.steps) - len(rows)
    return _form(request, target, rows, reason=reason, of={of: plan.event.id}, unknown=plan.unknown, more=more)


def _edit(request: HttpRequest, target: Target) -> HttpResponse:
    check_may(request, "append", target.ref)
    if request.method == "GET":
        if "queued" in request.GET:
            return _form_again(request, target, queue.get(request.GET["queued"], actor=actor(request)))
        if "proposal" in request.GET:
            return _form_again(request, target, proposals.get(request.GET["proposal"], actor=actor(request)))
        names = state_form.named(request.GET.getlist("key"), target.state)
        if len(names) > state_form.MOST:
            raise state_form.too_many()
        return _form(request, target, [state_form.new_row(key, target.state) for key in names])
    rows = state_form.posted_rows(request.POST)
    new_key = request.POST.get("new-key", "")
    if new_key or request.POST.get("action") == "add" or {"drop", "as-string"} & request.POST.keys():
        return _form(request, target, *_with_new_row(rows, target, new_key))
    if request.POST.get("action") == "preview":
        return _preview(request, target, rows)
    return _submit(request, target, rows)


def _form_again(request: HttpRequest, target: Target, asked: Queued | Proposal) -> HttpResponse:
    """Shows the form of a queued or proposed edit again, beside the current values."""
    if asked.ref != target.ref:
        raise NotFound(_("There is no such edit."))
    shown = [change for change in asked.changes if change.key not in asked.hidden]  # they would be stored as they look
    entries = [edit.Entry(change.key, change.new, change.old) for change in shown]
    rows = [state_form.asked_row(entry) for entry in entries]
    for row, entry in zip(rows, entries, strict=True):
        _note_conflict(row, entry.seen, target.state.get(row.key, ABSENT), target.ref, actor(request))
    error = Conflict().message if any(row.conflict for row in rows) else ""
    return _form(request, target, rows, error, reason=asked.reason, of=asked.of)


def _preview(request: HttpRequest, target: Target, rows: list[state_form.FormRow]) -> HttpResponse:
    entries = state_form.entries(rows)
    if entries is None:
        return _form(request, target, rows, status=400)
    try:
        only = None if target.kind == "session" else target.kind
        why = request.POST.get("reason", "")
        event, _seen = edit.state_event(entries, actor(request), why, only, of=state_form.note_of(request, target))
    except Error as error:
        return _form(request, target, rows, error=error.message, status=status_of(error))
    return _form(request, target, rows, preview=dumps(event, indent=2))


def _submit(request: HttpRequest, target: Target, rows: list[state_form.FormRow]) -> HttpResponse:
    kept_theirs = any(value == "theirs" for name, value in request.POST.items() if name.startswith("choice-"))
    if not rows and kept_theirs:
        messages.info(request, _("Nothing was written: the other values stay."))
        return _done(request, target.page)
    entries = state_form.entries(rows)
    if entries is None:
        return _form(request, target, rows, status=400)
    action = request.POST.get("action", "apply")
    if action == "apply" and _held(target, actor(request)):
        return _form(request, target, rows, status=409)  # the form says what is running, and offers a choice
    try:
        if action == "queue" and target.kind == "session":
            _queue(request, target, entries)
        else:
            _apply(request, target, entries)
    except Conflict as conflict:
        _note_conflicts(request, target, rows, entries, conflict)
        return _form(request, target, rows, error=conflict.message, status=409)
    except Invalid as error:
        return _form(request, target, rows, error=error.message, status=400)
    except Held:
        raise
    except Error as error:  # the form comes back filled in, whatever happened
        return _form(request, target, rows, error=error.message, status=status_of(error))
    if request.POST.get("queued"):
        with best_effort("the end of a queued edit"):  # or somebody has dealt with its outcome already
            queue.dismiss(request.POST["queued"], request.user)  # type: ignore[arg-type]
    return _done(request, target.page)


def _note_conflicts(
    request: HttpRequest, target: Target, rows: list[state_form.FormRow], entries: list[edit.Entry], conflict: Conflict
) -> None:
    """Notes, in each row of the form, what somebody else wrote to its key meanwhile."""
    current = conflict.detail.get("current")
    if current is None:
        return
    for row, entry in zip((row for row in rows if row.taken), entries, strict=True):
        _note_conflict(row, entry.seen, current.get(row.key, ABSENT), target.ref, actor(request))


def _apply(request: HttpRequest, target: Target, entries: list[edit.Entry]) -> None:
    who, why, once = actor(request), request.POST.get("reason", ""), request.POST.get("once", "")
    appended = target.apply(entries, who, why, once, state_form.note_of(request, target))
    if appended.seq is None:
        messages.info(request, _("This edit was written already."))
    else:
        tell_saved(request, target.ref, appended.event["id"], appended.seq)


def tell_saved(request: HttpRequest, ref: SessionRef, event_id: str, seq: Seq | None) -> None:
    """Adds a message that names the event that was written, with links to it and to undo."""
    names = {**ref._asdict(), "event_id": event_id}
    number = None
    with best_effort("the number of an edit"):
        number = outline.numbers_of(ref, [seq], actor=actor(request)).get(seq) if seq is not None else None
    messages.success(
        request,
        format_html(
            '{} <a href="{}#event-{}">{}</a> <a href="{}">{}</a>',
            _("Saved as event #%(number)s.") % {"number": number} if number else _("Saved."),
            reverse("session", kwargs=ref._asdict()),
            event_id,
            _("View"),
            reverse("undo", kwargs=names),
            _("Undo"),
        ),
    )


def _queue(request: HttpRequest, target: Target, entries: list[edit.Entry]) -> None:
    """Queues the edit, and applies it at once if nothing runs any more."""
    person: Any = request.user
    reason, once, of = request.POST.get("reason", ""), request.POST.get("once", ""), state_form.note_of(request, target)
    waiting = queue.queue_edit(target.ref, entries, person=person, reason=reason, once=once, of=of)
    queue.apply_due([target.ref])
    queued = queue.get(waiting.id, actor=actor(request))
    if queued.state == WAITING:
        messages.info(request, _("The edit waits until the invocation has ended."), extra_tags=about(queued.id))
    elif queued.state == APPLIED:
        queue.dismiss(queued.id, person)
        tell_saved(request, target.ref, queued.event_id, queued.seq)
    elif waiting.state != WAITING:
        messages.info(request, _("This edit was queued before, and does not wait any more."))


def _held(target: Target, who: Actor) -> Running | None:
    """Returns the invocation that applying now would end. None for an app or a user: no agent runs in adkweb's own
    sessions."""
    with suppress(Error):  # the form comes back filled in, whatever happened
        return queue.held(target.ref, actor=who) if target.kind == "session" else None
    return None


def _note_conflict(row: state_form.FormRow, seen: Any, current: Any, ref: SessionRef, who: Actor) -> None:
    """Notes a conflict in the row. Sending the form again is then compared with the current value."""
    row.conflict = not same(current, seen)
    if row.conflict:
        row.current, row.writer = current, last_writer(ref, row.key, actor=who)
        row.seen = "" if current is ABSENT else state_form.kept(current)


def _with_new_row(rows: list[state_form.FormRow], target: Target, key: str) -> tuple[list[state_form.FormRow], str]:
    """Returns the rows with one more for `key`, or the reason why not."""
    if not key:
        return rows, ""
    if any(row.key == key for row in rows):
        return rows, _("%(key)s is already in this edit.") % {"key": key}
    if len(rows) == state_form.MOST:
        return rows, state_form.too_many().message
    return [*rows, state_form.new_row(key, target.state)], ""


def _form(  # noqa: PLR0913  (what a form says, for its template)
    request: HttpRequest,
    target: Target,
    rows: list[state_form.FormRow],
    error: str = "",
    status: int = 200,
    preview: str = "",
    reason: str = "",
    of: dict[str, Any] | None = None,
    unknown: Sequence[str] = (),
    more: int = 0,
) -> HttpResponse:
    template = "edits/edit/_form.html" if request.htmx else "edits/edit/edit.html"  # type: ignore[attr-defined]
    state_form.note_habits(rows, target.ref, actor(request))
    past = {name: id for name, id in (of or state_form.taken_back(request)).items() if name in state_form.TAKING_BACK}
    told = _taking_back(target, past, actor(request)) | state_form.typed_end(request, of or {})
    for row in rows:
        if row.conflict and told["undoes"] and told["past"]:
            row.wrote = _wrote(told["past"], row.key)
    context = {
        "target": target,
        "rows": rows,
        "error": error,
        "preview": preview,
        "once": request.POST.get("once") or new_id(),
        "reason": request.POST.get("reason", reason),
        "queued": request.POST.get("queued") or request.GET.get("queued", ""),
        "held": _held(target, actor(request)),
        "ref": target.ref,
        **_state_of(target, rows),
        "compact": sum(row.compact for row in rows),
        "changed": not past and (bool(request.POST.get("reason")) or any(row.changed for row in rows)),
        **told,
        "unknown": unknown,
        "more": more,
        "other_keys": state_form.other_keys(target.state, rows),
        "reached": reached(target, [row.scope for row in rows], actor(request)),
    }
    return page(request, template, context, status)


def _state_of(target: Target, rows: list[state_form.FormRow]) -> dict[str, Any]:
    """Returns what the form says about its session and keys as they are now."""
    second = approval.held_keys(*target.ref[:2], [row.key for row in rows])
    return {"half": is_half(target.state), "second": second, "conflict": any(row.conflict for row in rows)}


def _taking_back(target: Target, of: dict[str, str], who: Actor) -> dict[str, Any]:
    """Returns what the form says about the event that it undoes or restores."""
    past, numbers = None, {}
    with suppress(Error):  # it may be gone; sending the form reports that
        past = next((timeline.event(target.ref, event_id, actor=who) for event_id in of.values()), None)
        numbers = outline.numbers_of(target.ref, [past.seq if past else None], actor=who)
    return {"of": of, "undoes": "undoes" in of, "past": past, "numbers": numbers}


def _wrote(event: EventView, key: str) -> Any:
    """Returns the value that an event wrote, or ABSENT if it removed the key."""
    return ABSENT if key in event.description.removed else event.description.delta.get(key, UNKNOWN)


def _done(request: HttpRequest, where: str) -> HttpResponse:
    return HttpResponseClientRedirect(where) if request.htmx else redirect(where)  # type: ignore[attr-defined]
