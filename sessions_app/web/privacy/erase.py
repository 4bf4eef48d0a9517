"""Erases a user of an app: what that would remove, the confirmation, the progress and the report."""

from typing import Any

from django import forms
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods

from ...access.actor import Actor
from ...domain.errors import Invalid, NotFound
from ...domain.session_ref import SessionRef
from ...http.reader import user_for_reader
from ...jobs.lease import WAITING
from ...privacy import erasures
from ..forms import Confirm, Form, act
from ..html.render import page, to_type, typed
from ..request import actor, check_may


class EraseForm(Form):
    """Erases a user, or has the id of an erasure in the field of the button that was pressed."""

    confirm = Confirm(label=gettext_lazy("Enter the user id to confirm"))
    stop = forms.UUIDField(required=False, widget=forms.HiddenInput)
    go_on = forms.UUIDField(required=False, widget=forms.HiddenInput)
    discard = forms.UUIDField(required=False, widget=forms.HiddenInput)


@require_http_methods(["GET", "POST"])
def erase(request: HttpRequest, source: str, app_name: str, user_id: str) -> HttpResponse:
    """Shows what an erasure would do, and those that were done. htmx gets only the part that changes."""
    names, who = (source, app_name, user_id), actor(request)
    check_may(request, "admin", SessionRef(*names, ""))
    form = EraseForm.of(request)
    _done, status = act(form, lambda given: _act(given, names, who))
    if form.is_valid():
        return redirect("erase-user", *names)
    context: dict[str, Any] = {"source": source, "app_name": app_name, "user_id": user_id, "form": form}
    context["wanted"] = to_type(user_for_reader(*names))
    context["erasures"] = erasures.listed(*names, actor=who)
    context["working"] = any(each.job.state == WAITING for each in context["erasures"])
    if not context["working"]:
        context["plan"] = erasures.plan(*names, actor=who)
        if not (context["plan"] or context["erasures"]):
            raise _no_user(names)
    template = "privacy/erase/_erase.html" if request.htmx else "privacy/erase/erase.html"  # type: ignore[attr-defined]
    return page(request, template, context, status)


def _act(given: dict[str, Any], names: tuple[str, str, str], who: Actor) -> None:
    """Does what a button of the page asks for."""
    for name, do in (("stop", erasures.stop), ("go_on", erasures.go_on), ("discard", erasures.discard)):
        if given[name]:
            do(given[name], *names, actor=who)
            return
    if typed(given["confirm"]) != typed(to_type(user_for_reader(*names))):
        raise Invalid(_("That isn't the user's id. Nothing was erased."), field="confirm")
    if erasures.plan(*names, actor=who) is None:
        raise _no_user(names)
    erasures.begin(*names, actor=who)


def _no_user(names: tuple[str, str, str]) -> NotFound:
    return NotFound(_("There's no user “%(name)s” in this app.") % {"name": user_for_reader(*names)})
