"""The parts of `/api/` together, their OpenAPI document, and what becomes of their errors."""

import json
from functools import cache
from typing import Any

from django.contrib.auth.decorators import login_not_required
from django.core.exceptions import RequestDataTooBig
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import URLPattern, URLResolver, path, register_converter
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe
from ninja import NinjaAPI
from ninja.errors import AuthenticationError, HttpError, ValidationError

from ..domain.state import ABSENT
from ..errors import Behind, Error
from ..http.names import Name
from ..http.problems import TITLES, problem, status_of
from . import agent_view, apps, events, history, sessions, state, taking_back, transfer
from .authorize import Bearer, message_for
from .bodies import Precondition, answer, errors_of, text_of
from .openapi import document_of

register_converter(Name, "plain")


class Api(NinjaAPI):
    """Operations by short names: `events_append`."""

    def get_openapi_operation_id(self, operation: Any) -> str:
        """The part's name and the verb's."""
        view = operation.view_func
        return f"{view.__module__.rpartition('.')[2]}_{view.__name__}"


api = Api(
    title="adkweb",
    version="1",
    description="Sessions of ADK agents, for programs: what the pages can do. Sign in by `Authorization: Bearer TOKEN`.",
    auth=Bearer(),
    docs_url=None,
    openapi_url=None,
    urls_namespace="api",
)
for part in (apps, sessions, events, state, history, taking_back, agent_view, transfer):
    api.add_router("", part.router)


@api.exception_handler(Error)
def failed(request: HttpRequest, error: Error) -> HttpResponse:
    """An error of the core's."""
    status = 412 if isinstance(error, Precondition) else status_of(error)
    where = {"place": error.detail["place"]} if error.detail.get("place") else {}
    current = error.detail.get("current")
    if current is None:
        response = problem(status, message_for(request, error), **where)
        if isinstance(error, Behind):
            response["Retry-After"] = "1"
        return response
    known = {key: value for key, value in current.items() if value is not ABSENT}
    return problem(status, error.message, current=json.loads(text_of(known)))


@api.exception_handler(ValidationError)
def not_valid(request: HttpRequest, error: ValidationError) -> HttpResponse:
    """An address or a query that is not what it should be."""
    errors = errors_of(error.errors)
    return problem(400, errors[0]["message"], errors=errors)


@api.exception_handler(AuthenticationError)
def unknown(request: HttpRequest, error: AuthenticationError) -> HttpResponse:
    """No token, or one that is unknown or revoked."""
    if request.headers.get("Authorization"):
        return problem(401, _("This token is unknown, or was revoked."))
    return problem(401, _("Sign in by a token: Authorization: Bearer …"))


@api.exception_handler(HttpError)
def refused(request: HttpRequest, error: HttpError) -> HttpResponse:
    """Whatever else the framework refuses."""
    return problem(error.status_code if error.status_code in TITLES else 400, error.message)


@api.exception_handler(RequestDataTooBig)
def too_big(request: HttpRequest, error: RequestDataTooBig) -> HttpResponse:
    """A body above the limit, which was not read."""
    return problem(413, _("The body is larger than ADKWEB_MAX_BODY allows; nothing was written."))


@api.exception_handler(Http404)
def not_there(request: HttpRequest, error: Http404) -> HttpResponse:
    """An address that leads nowhere."""
    return problem(404, _("There is no such address."))


@cache
def document() -> dict[str, Any]:
    """The OpenAPI document, every answer in it."""
    return document_of(api)


@require_safe
def openapi(request: HttpRequest) -> HttpResponse:
    """The document, for programs with a token and people who are signed in."""
    if not request.user.is_authenticated and Bearer()(request) is None:
        return unknown(request, AuthenticationError())
    return answer(document())


def urls() -> list[URLPattern | URLResolver]:
    """Every address below `/api/`; tokens guard them, not the pages' sign-in."""
    patterns = [each for each in api.urls[0] if getattr(each, "name", "") != "api-root"]
    for pattern in patterns:
        if isinstance(pattern, URLPattern):
            pattern.callback = login_not_required(_methods(pattern.callback))
    return [path("openapi.json", login_not_required(_methods(openapi)), name="openapi"), *patterns]


def _methods(view: Any) -> Any:
    """Answers a method that an address does not have with a problem."""

    def checked(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        response = view(request, *args, **kwargs)
        if response.status_code != 405:
            return response
        refusal = problem(405, _("This address takes %(methods)s.") % {"methods": response["Allow"]})
        refusal["Allow"] = response["Allow"]
        return refusal

    checked.csrf_exempt = True  # type: ignore[attr-defined]
    return checked
