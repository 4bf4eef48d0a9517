"""Errors as pages: what happened, why, and what to do."""

import logging
import sys
from http import HTTPStatus
from typing import Final

from django.contrib import messages
from django.core.exceptions import DisallowedHost
from django.db import DatabaseError, OperationalError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.deprecation import MiddlewareMixin
from django.utils.translation import gettext as _
from django_htmx.http import HttpResponseClientRedirect

from ..domain.errors import Behind, Error, Held
from ..domain.session_ref import SessionRef
from ..http import request_id
from ..http.problems import for_programs, problem, status_of
from ..reads import views
from ..search import damage
from ..sources import errors, health
from .html.render import data, page
from .request import actor
from .session.page import wants_sentence

log = logging.getLogger("adkweb.web")

_TEXT: Final = "text/plain; charset=utf-8"
_RETRY_SECONDS: Final = 5


class ErrorPages(MiddlewareMixin):
    """Turns an Error that a view raised into a page. htmx gets only the sentence, as plain text."""

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        """Answers an Error, and a failure of adkweb's own database."""
        return answer_to(request, error)


def answer_to(request: HttpRequest, error: Exception) -> HttpResponse | None:
    """Returns the answer to an Error, and to a failure of adkweb's own database; None for any other exception: it is a bug,
    and Django reports it."""
    if isinstance(error, OperationalError):  # adkweb's own: of a source, it would be a SourceError
        return _waits(request, error)
    if isinstance(error, DatabaseError) and (response := _damaged(request, error)):
        return response
    if not isinstance(error, Error):
        return None
    if isinstance(error, Behind) and request.method == "GET":
        return _behind(request, error)
    if isinstance(error, Held) and "proposal" in error.detail and not for_programs(request.path):
        return _proposed(request, error)
    return answer(request, errors.shown(error, actor(request)), status_of(error))


def _proposed(request: HttpRequest, held: Held) -> HttpResponse:
    """Leads to the proposal that an edit has become."""
    messages.success(request, held.message)
    address = f"{reverse('proposals')}?own=1#proposal-{held.detail['proposal']}"
    return HttpResponseClientRedirect(address) if request.headers.get("HX-Request") else redirect(address)


def answer(request: HttpRequest, message: str, status: int) -> HttpResponse:
    """Returns an error as a page, as plain text for htmx and forms of a pane, or as a problem document for programs."""
    if for_programs(request.path):
        return problem(status, message)
    if wants_sentence(request):
        return data(message, _TEXT, status)
    up, address = _up(request, status)
    context = {"message": message, "status": status, "up": up, "address": address, "request_id": request_id.current()}
    return page(request, "errors/error.html", context, status)


def _up(request: HttpRequest, status: int) -> tuple[str, str]:
    """Returns the closest page above this one that exists ("session", "user" or "app"), and its URL. Empty if there is
    none."""
    match = request.resolver_match
    above = (
        ("session", 4, lambda *names: views.session(SessionRef(*names), partly=True, actor=actor(request))),
        ("user", 3, lambda *names: views.user_state(*names, partly=True, actor=actor(request))),
        ("app", 2, lambda *names: views.app(*names, partly=True, actor=actor(request))),
    )
    for kind, count, look in above:
        names = {name: match.kwargs.get(name) for name in SessionRef._fields[:count]} if match else {}
        if not match or match.url_name == kind or None in names.values():
            continue
        if status == HTTPStatus.NOT_FOUND:
            try:
                look(*names.values())
            except Error:
                continue
        return kind, reverse(kind, kwargs=names)
    return "", ""


def _behind(request: HttpRequest, error: Behind) -> HttpResponse:
    """Shows how far the source has been read. The page, or the part that was requested, asks again every second."""
    context = {**error.detail, "where": request.get_full_path()}
    if request.headers.get("HX-Request"):
        return page(request, "errors/_behind.html", context, 202)
    if for_programs(request.path):
        response = answer(request, error.message, status_of(error))
    else:
        response = page(request, "errors/behind.html", context, status_of(error))
        response["Refresh"] = "1"
    response["Retry-After"] = "1"
    return response


def _waits(request: HttpRequest, error: OperationalError) -> HttpResponse:
    log.warning("adkweb's own database: %s", error)
    health.doubt()
    message = errors.of_own(error)
    try:
        response = answer(request, message, 503)
    except OperationalError:  # a page says who is signed in, which stands there, too
        response = data(message, _TEXT, 503)
    response["Retry-After"] = str(_RETRY_SECONDS)
    return response


def _damaged(request: HttpRequest, error: DatabaseError) -> HttpResponse | None:
    """Answers that adkweb's own database is damaged. What is kept for searching is mended, and the page asks again.

    Returns None if nothing is damaged: it is a bug, then."""
    if damage.mend(error):
        message = _("The search index was damaged and is being rebuilt. Search again in a moment.")
    elif type(error) is DatabaseError:  # SQLite says so of a file, and of nothing else
        log.error("adkweb's own database: %s", error)
        message = _(
            "adkweb's own database is damaged; see the log for details. Sessions are stored elsewhere and are safe."
        )
        return answer(request, message, 503)
    else:
        return None
    response = answer(request, message, 503)
    response["Retry-After"] = str(_RETRY_SECONDS)
    return response


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Answers a URL that does not exist."""
    return answer(request, _("This page doesn't exist."), 404)


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Answers a request that Django refuses before any view runs: a wrong host name, or a form that is too large."""
    if isinstance(exception, DisallowedHost):
        message = _("adkweb isn't set up for this host name. Add it to ADKWEB_ALLOWED_HOSTS.")
    else:
        message = _("This request is invalid or too large. Nothing was written.")
    return problem(400, message) if for_programs(request.path) else data(message, _TEXT, 400)


def forged(request: HttpRequest, reason: str = "") -> HttpResponse:
    """Answers a form without a valid CSRF token: from another site, or from a page that was opened before the sign-in."""
    return answer(
        request,
        _("This page was opened before you signed in, so nothing was saved. Reload the page and submit again."),
        403,
    )


def server_error(request: HttpRequest) -> HttpResponse:
    """Answers a bug in adkweb, and a failure of its own database before any view was reached."""
    if isinstance(error := sys.exc_info()[1], OperationalError):
        return _waits(request, error)
    message = _("Something went wrong in adkweb, but nothing was left half-written. See the log for details.")
    if wants_sentence(request) and (name := request_id.current()):
        message += " " + _("Request id: %(name)s") % {"name": name}
    return answer(request, message, 500)
