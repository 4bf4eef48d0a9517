"""The form that edits the state of a session, an app or a user. Undo and restore fill it in."""

from typing import Any, Final

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST
from django_htmx.http import HttpResponseClientRedirect

from ...domain.errors import Conflict, NotFound
from ...domain.event import new_id
from ...domain.positions import Seq
from ...domain.session_ref import SessionRef
from ...edits import proposals, queue
from ...edits.edit import Entry
from ...edits.proposals import Proposal
from ...edits.queue import APPLIED, Queued
from ...edits.undo import Plan
from ...http.reader import zone_of
from ...jobs.lease import WAITING
from ...reads import views
from ...reads.deltas import last_writer
from ...search import outline
from ...sources.errors import best_effort
from ..context import about
from ..html.render import offer_undo, page
from ..html.state_panel import Target, of_app, of_session, of_user
from ..request import actor, check_may, person_of
from .form import EditForm
from .rows import MOST, CheckForm, asked_row, named, new_rows, note_habits, step_row

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


@require_POST
def check(request: HttpRequest, source: str, app_name: str) -> HttpResponse:
    """Says what is unusual about the value of one key, while it is typed."""
    row = CheckForm.of(request).row
    note_habits([row], SessionRef(source, app_name, "", ""), actor(request))
    return page(request, "edits/edit/_misfits.html", {"row": row})


def taking_back(request: HttpRequest, plan: Plan, of: str, reason: str) -> HttpResponse:
    """Shows the form, filled in with what undoes an event or restores a moment."""
    target = of_session(views.session(plan.event.ref, actor=actor(request)))
    rows = [step_row(step, compact=len(plan.steps) > _FULL) for step in plan.steps[:MOST]]
    for row in rows:
        if row.conflict:
            row.writer = last_writer(target.ref, row.key, actor=actor(request))
    form = _form(request, target, rows=rows, of={of: plan.event.id}, initial={"reason": reason})
    form.unknown, form.more = plan.unknown, len(plan.steps) - len(rows)
    return _show(request, form)


def _edit(request: HttpRequest, target: Target) -> HttpResponse:
    check_may(request, "append", target.ref)
    if request.method == "GET":
        return _show(request, _opened(request, target))
    form = _form(request, target)
    if form.asks_for_rows:
        form.add_row(target.state)
    elif form.action == "preview":
        form.look()
    elif form.keeps_theirs:
        messages.info(request, _("Nothing was written. The current values were kept."))
        return _done(request, target)
    elif form.action == "queue" and target.kind == "session":
        if queued := form.queue():
            return _tell_queued(request, target, *queued)
    elif appended := form.apply():
        if appended.seq is None:
            messages.info(request, _("This edit has already been written."))
        else:
            tell_saved(request, target.ref, appended.event["id"], appended.seq)
        return _done(request, target)
    return _show(request, form)


def _opened(request: HttpRequest, target: Target) -> EditForm:
    """Returns the form with the keys that the address names (?key=), or filled in as a queued (?queued=) or proposed
    (?proposal=) edit was, beside the current values."""
    asked: Queued | Proposal
    if "queued" in request.GET:
        asked = queue.get(request.GET["queued"], actor=actor(request))
    elif "proposal" in request.GET:
        asked = proposals.get(request.GET["proposal"], actor=actor(request))
    else:
        names = named(request.GET.getlist("key"), target.state)
        return _form(request, target, rows=new_rows(names, target.state))
    if asked.ref != target.ref:
        raise NotFound(_("This edit doesn't exist."))
    shown = [change for change in asked.changes if change.key not in asked.hidden]  # they would be stored as they look
    entries = [Entry(change.key, change.new, change.old) for change in shown]
    initial = {"reason": asked.reason, "queued": request.GET.get("queued", "")}
    form = _form(request, target, rows=[asked_row(entry) for entry in entries], of=asked.of, initial=initial)
    form.note_conflicts(entries, target.state)
    form.error = Conflict().message if form.conflict else ""
    return form


def _form(request: HttpRequest, target: Target, **options: Any) -> EditForm:
    # Without ids: the form is opened on a session's page, which has elements of these names.
    who, zone = person_of(request), zone_of(request)
    return EditForm.of(request, auto_id=False, target=target, person=who, zone=zone, **options)


def _show(request: HttpRequest, form: EditForm) -> HttpResponse:
    template = "edits/edit/_form.html" if request.htmx else "edits/edit/edit.html"  # type: ignore[attr-defined]
    form.note_rows()
    return page(request, template, {"form": form, "target": form.target, "ref": form.target.ref}, form.status)


def _tell_queued(request: HttpRequest, target: Target, before: Queued, queued: Queued) -> HttpResponse:
    """Tells whether an edit that was queued waits, or was applied at once."""
    if queued.state == WAITING:
        messages.info(request, _("The edit is queued until the agent is idle."), extra_tags=about(queued.id))
    elif queued.state == APPLIED:
        queue.dismiss(queued.id, person_of(request))
        tell_saved(request, target.ref, queued.event_id, queued.seq)
    elif before.state != WAITING:
        messages.info(request, _("This edit was queued earlier and is no longer waiting."))
    return _done(request, target)


def _done(request: HttpRequest, target: Target) -> HttpResponse:
    return HttpResponseClientRedirect(target.page) if request.htmx else redirect(target.page)  # type: ignore[attr-defined]


def tell_saved(
    request: HttpRequest, ref: SessionRef, event_id: str, seq: Seq | None, said: str = "", *, redo: bool = False
) -> None:
    """Adds a message that names the event that was written, unless it is `said` otherwise, with a link to it and a button
    that undoes it, in words: does again what it undid."""
    number = None
    with best_effort("the number of an edit"):
        number = outline.numbers_of(ref, [seq], actor=actor(request)).get(seq) if seq is not None else None
    saved = _("Saved as event #%(number)s.") % {"number": number} if number else _("Saved.")
    page_of = reverse("session", kwargs=ref._asdict())
    view = format_html('{} <a href="{}#event-{}">{}</a>', said or saved, page_of, event_id, _("View"))
    address = reverse("undo", kwargs={**ref._asdict(), "event_id": event_id})
    offer_undo(request, view, address, [("once", new_id())], "saved", redo=redo)
