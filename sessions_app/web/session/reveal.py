"""Reveals what rules hide: asks for a reason, and shows one value to one person, once."""

from collections.abc import Callable
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods

from ...domain.json_values import dumps
from ...domain.session_ref import OWN_NAME, SessionRef, own_session
from ...domain.state import Scope
from ...edits import reveal
from ..forms import Form, Text, act
from ..html.render import page
from ..request import actor


class ReasonForm(Form):
    """Says why a value is to be revealed."""

    reason = Text(
        label=gettext_lazy("Reason"),
        help_text=gettext_lazy("The audit records your name and the reason before the value is shown."),
        needed=True,
        attrs={"maxlength": reveal.REASON_LENGTH, "autofocus": True},
    )


@require_http_methods(["GET", "POST"])
def session(request: HttpRequest, **names: str) -> HttpResponse:
    """Reveals a key that a session sees."""
    return _key(request, SessionRef(**names), None, reverse("session", kwargs=names))


@require_http_methods(["GET", "POST"])
def app(request: HttpRequest, source: str, app_name: str) -> HttpResponse:
    """Reveals a key of an app's state."""
    back = reverse("app", args=[source, app_name])
    return _key(request, own_session(source, app_name), "app", back)


@require_http_methods(["GET", "POST"])
def user(request: HttpRequest, source: str, app_name: str, user_id: str) -> HttpResponse:
    """Reveals a key of a user's state."""
    back = reverse("user", args=[source, app_name, user_id])
    return _key(request, own_session(source, app_name, user_id), "user", back)


@require_http_methods(["GET", "POST"])
def event(request: HttpRequest, event_id: str, **names: str) -> HttpResponse:
    """Reveals an event."""
    ref, who = SessionRef(**names), actor(request)
    back = reverse("event", kwargs={**names, "event_id": event_id})
    return _answer(request, ref, event_id, back, lambda reason: reveal.event(ref, event_id, reason, actor=who))


def _key(request: HttpRequest, ref: SessionRef, only: Scope | None, back: str) -> HttpResponse:
    key, who = request.GET.get("key", ""), actor(request)
    return _answer(request, ref, key, back, lambda reason: reveal.key(ref, key, reason, actor=who, only=only))


def _answer(request: HttpRequest, ref: SessionRef, name: str, back: str, stored: Callable[[str], Any]) -> HttpResponse:
    reveal.check_may_reveal(ref, actor(request))
    form = ReasonForm.of(request)
    value, status = act(form, lambda given: dumps(stored(given["reason"]), indent=2))
    of_session = ref.session_id != OWN_NAME
    context = {"ref": ref, "of_session": of_session, "name": name, "back": back, "form": form, "value": value}
    response = page(request, "session/reveal/reveal.html", context, status)
    response["Cache-Control"] = "private, no-store"
    return response
