"""Rewinds a session to before an invocation, after showing what that would write and hide."""

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from ...domain.errors import Error, Invalid, StaleSession
from ...domain.event import new_id
from ...domain.json_values import dumps
from ...domain.session_ref import SessionRef
from ...edits import queue
from ...edits import rewind as core
from ...http.problems import status_of
from ...reads import views
from ...search import outline
from ..html.render import page
from ..request import actor, check_may
from .edit import tell_saved


def address(ref: SessionRef, invocation_id: str) -> str:
    """Returns the URL of the page that rewinds to before an invocation."""
    query = urlencode({"before": invocation_id.encode("utf-8", "replace")})
    return f"{reverse('rewind', kwargs=ref._asdict())}?{query}"


@require_http_methods(["GET", "POST"])
def rewind(request: HttpRequest, **names: str) -> HttpResponse:
    """Rewinds to before the invocation ?before=. If the session has changed since the page was opened, shows the page
    again."""
    ref = SessionRef(**names)
    check_may(request, "append", ref)
    before = request.GET.get("before", "")
    if request.method == "GET":
        return _page(request, ref, before)
    if request.POST.get("action") != "now" and queue.held(ref, actor=actor(request)):
        return _page(request, ref, before, status=409)  # the form says what is running, and offers a choice
    try:
        appended = core.rewind(
            ref,
            before,
            actor=actor(request),
            reason=request.POST.get("reason", ""),
            revision=_revision(request),
            once=request.POST.get("once", ""),
        )
    except StaleSession as error:
        message = _("Somebody wrote to this session after you opened this page. Look again at what would be written.")
        return _page(request, ref, before, message, status_of(error))
    except Invalid as error:
        return _page(request, ref, before, error.message, status_of(error))
    if appended.seq is None:
        messages.info(request, _("This rewind was written already."))
    else:
        tell_saved(request, ref, appended.event["id"], appended.seq)
    return redirect(reverse("session", kwargs=names))


def _page(request: HttpRequest, ref: SessionRef, before: str, error: str = "", status: int = 200) -> HttpResponse:
    plan = core.plan(ref, before, actor=actor(request))
    ends = (plan.first, plan.gone.first, plan.gone.last)
    context: dict[str, Any] = {
        "ref": ref,
        "view": views.session(ref, actor=actor(request)),
        "plan": plan,
        "numbers": outline.numbers_of(ref, [each.seq for each in ends if each], actor=actor(request)),
        "revision": repr(plan.revision),
        "held": queue.held(ref, actor=actor(request)),
        "once": request.POST.get("once") or new_id(),
        "reason": request.POST.get("reason", ""),
        "error": error,
    }
    try:
        context["raw"] = dumps(core.event_of(plan, actor(request), context["reason"], context["once"]), indent=2)
    except Error as refused:  # about what the session holds; sending the form reports it, too
        context["error"] = error or refused.message
    return page(request, "edits/rewind/rewind.html", context, status)


def _revision(request: HttpRequest) -> float:
    try:
        return float(request.POST.get("revision", ""))
    except ValueError as error:
        raise Invalid(_("This form is not complete; open the page again.")) from error
