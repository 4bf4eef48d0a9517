"""Puts the parts of `/api/` together, with their OpenAPI document, and turns errors into answers."""

import json
from functools import cache
from typing import Any, Final

from django.contrib.auth.decorators import login_not_required
from django.core.exceptions import RequestDataTooBig
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import URLPattern, URLResolver, path, register_converter
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe
from ninja import NinjaAPI
from ninja.errors import AuthenticationError, HttpError, ValidationError

from ..access import tokens
from ..access.actor import PEOPLE, Actor
from ..domain.errors import Behind, Error, TooOften
from ..domain.state import ABSENT
from ..http.names import Name
from ..http.problems import TITLES, problem, status_of
from ..sources.errors import shown
from . import (
    agent_view,
    approval,
    apps,
    artifacts,
    checks,
    companion,
    edits,
    events,
    expiring,
    history,
    key_schemas,
    runs,
    search,
    sessions,
    taking_back,
    transfer,
)
from .authorize import Bearer
from .bodies import Precondition, answer, errors_of, text_of
from .openapi import document_of

register_converter(Name, "plain")


# Clients that were generated from the document call operations by these names.
_NAMED: Final = {"edits": "state", "approval": "proposals", "search": "find"}


class Api(NinjaAPI):
    """An API whose operations have short names: `events_append`."""

    def get_openapi_operation_id(self, operation: Any) -> str:
        """Returns the name of the module and of the function: `events_append`."""
        view = operation.view_func
        module = view.__module__.rpartition(".")[2]
        return f"{_NAMED.get(module, module)}_{view.__name__}"


api = Api(
    title="adkweb",
    version="1",
    description="Sessions of ADK agents, for programs: what the pages can do. Sign in with `Authorization: Bearer TOKEN`.",
    auth=Bearer(),
    docs_url=None,
    openapi_url=None,
    urls_namespace="api",
)
_PARTS = (
    apps,
    search,
    sessions,
    events,
    edits,
    key_schemas,
    history,
    taking_back,
    runs,
    expiring,
    approval,
    agent_view,
    artifacts,
    checks,
    transfer,
    companion,
)
for part in _PARTS:
    api.add_router("", part.router)


@api.exception_handler(Error)
def failed(request: HttpRequest, error: Error) -> HttpResponse:
    """Answers an error of the core."""
    status = 412 if isinstance(error, Precondition) else status_of(error)
    where = {
        name: error.detail[name]
        for name in ("type", "place", "errors", "retry_after", "proposal")
        if error.detail.get(name)
    }
    current = error.detail.get("current")
    if current is None:
        asks: Actor = getattr(request, "auth", PEOPLE)  # someone who sends too many requests may be a stranger
        response = problem(status, shown(error, asks), **where)
        if isinstance(error, Behind):
            response["Retry-After"] = "1"
        return response
    known = {key: value for key, value in current.items() if value is not ABSENT}
    return problem(status, error.message, current=json.loads(text_of(known)))


@api.exception_handler(ValidationError)
def not_valid(request: HttpRequest, error: ValidationError) -> HttpResponse:
    """Answers an address or a query that is not valid with 400."""
    errors = errors_of(error.errors)
    return problem(400, errors[0]["message"], errors=errors)


@api.exception_handler(AuthenticationError)
def unknown(request: HttpRequest, error: AuthenticationError) -> HttpResponse:
    """Answers a missing or unknown token, or one that ended, with 401."""
    if said := request.headers.get("Authorization"):
        return problem(401, tokens.why_refused(said.partition(" ")[2]))
    return problem(401, _("Sign in with a token: Authorization: Bearer …"))


@api.exception_handler(HttpError)
def refused(request: HttpRequest, error: HttpError) -> HttpResponse:
    """Answers any other error of the framework."""
    return problem(error.status_code if error.status_code in TITLES else 400, error.message)


@api.exception_handler(RequestDataTooBig)
def too_big(request: HttpRequest, error: RequestDataTooBig) -> HttpResponse:
    """Answers a body above the limit with 413. The body was not read."""
    return problem(413, _("The body is larger than ADKWEB_MAX_BODY allows. Nothing was written."))


@api.exception_handler(Http404)
def not_there(request: HttpRequest, error: Http404) -> HttpResponse:
    """Answers an unknown address with 404."""
    return problem(404, _("This address doesn't exist."))


@cache
def document() -> dict[str, Any]:
    """Returns the OpenAPI document."""
    return document_of(api)


@require_safe
def openapi(request: HttpRequest) -> HttpResponse:
    """Sends the OpenAPI document to programs with a token and people who are signed in."""
    try:
        known = request.user.is_authenticated or Bearer()(request) is not None
    except TooOften as error:
        return failed(request, error)
    return answer(document()) if known else unknown(request, AuthenticationError())


def urls() -> list[URLPattern | URLResolver]:
    """Returns every address below `/api/`. Tokens guard them, not the sign-in of the pages."""
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
        refusal = problem(405, _("This address only accepts %(methods)s.") % {"methods": response["Allow"]})
        refusal["Allow"] = response["Allow"]
        return refusal

    checked.csrf_exempt = True  # type: ignore[attr-defined]
    return checked
