"""Renames a session, and tags it, where its page shows its title. What was done can be undone from its toast."""

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from ...access.actor import Actor
from ...domain.errors import Invalid
from ...domain.masks import has_dots
from ...domain.session_ref import SessionRef
from ...domain.shorten import words
from ...reads import labels as reads_labels
from ...reads import lists
from ...search import labels
from ..forms import Check, Form, Text
from ..html.render import offer_undo, page
from ..request import actor, check_may

_OFFERED = 200  # tags that the field completes


class TitleForm(Form):
    """Gives a session a title, or takes it away if it is empty. The button of a toast says `undo`."""

    title = Text()
    undo = Check()


class TagsForm(Form):
    """Adds a tag, or takes `untag` away."""

    tag = Text()
    untag = Text()
    undo = Check()


@require_POST
def title(request: HttpRequest, **names: str) -> HttpResponse:
    """Gives a session a title, or takes it away if it is empty. htmx gets the title anew."""
    ref, form = SessionRef(**names), TitleForm.of(request)
    check_may(request, "append", ref)
    try:
        given = form.read()
        before = labels.rename(ref, given["title"], actor=actor(request))
    except Invalid as error:
        return _answer(request, ref, "_title", {"error": error.message, "typed": form["title"].value() or ""})
    now = of_session(ref, actor(request))["labels"].title
    if now != before and not given["undo"]:
        said = _("Renamed to “%(title)s”.") % {"title": words(now, 60)} if now else _("Title removed.")
        _offer_undo(request, said, reverse("session-title", kwargs=names), ("title", before))
    return _answer(request, ref, "_title")


@require_POST
def tags(request: HttpRequest, **names: str) -> HttpResponse:
    """Adds the tag ?tag= to a session, or takes ?untag= away. htmx gets the tags anew."""
    ref, who, form = SessionRef(**names), actor(request), TagsForm.of(request)
    check_may(request, "append", ref)
    try:
        given = form.read()
        if gone := given["untag"]:
            if labels.untag([ref], gone, actor=who) and not given["undo"]:
                said = _("The tag “%(tag)s” was removed.") % {"tag": words(gone, 60)}
                _offer_undo(request, said, reverse("session-tags", kwargs=names), ("tag", gone))
        else:
            labels.tag([ref], given["tag"], actor=who)
    except Invalid as error:
        return _answer(request, ref, "_tags", {"error": error.message, "typed": form["tag"].value() or ""})
    return _answer(request, ref, "_tags", {"is_open": "tag" in form.data})


def _offer_undo(request: HttpRequest, said: str, address: str, before: tuple[str, str]) -> None:
    """Says what was done, and offers what was there before, unless that is hidden: nobody could send it back."""
    if has_dots(before[1]):
        messages.success(request, said)
    else:
        offer_undo(request, said, address, [before])


def of_session(ref: SessionRef, who: Actor) -> dict[str, Any]:
    """Returns what the templates of a session's title and tags need."""
    given = reads_labels.labels_of([ref], actor=who).get(ref, reads_labels.Labels())
    return {"labels": given, "known_tags": [tag for tag in _known(who) if tag not in given.tags]}


def _known(who: Actor) -> list[str]:
    return labels.known_tags("", _OFFERED, actor=who)


def _answer(request: HttpRequest, ref: SessionRef, fragment: str, more: dict[str, Any] | None = None) -> HttpResponse:
    """Answers with a fragment, or without htmx with the page of the session. What is wrong is shown in the form."""
    more = more or {}
    if not request.htmx:  # type: ignore[attr-defined]
        if "error" in more:
            messages.error(request, more["error"])
        return redirect(reverse("session", kwargs=ref._asdict()))
    who = actor(request)
    context = {"ref": ref, "title": lists.title(ref, actor=who), "answers": True, **of_session(ref, who), **more}
    return page(request, f"session/labels/{fragment}.html", context, 400 if "error" in more else 200)
