"""Reports errors to programs, by RFC 9457: all of their addresses answer with the same kind of JSON."""

import json
import re
from typing import Any, Final

from django.http import HttpResponse

from ..domain.errors import (
    AgentError,
    AlreadyExists,
    Behind,
    Conflict,
    Error,
    Invalid,
    NotAllowed,
    NotFound,
    NotKept,
    NotRecorded,
    Slow,
    SourceError,
    StaleSession,
    TooOften,
)
from . import request_id

STATUS: Final[dict[type[Error], int]] = {
    Invalid: 400,
    NotAllowed: 403,
    NotFound: 404,
    AlreadyExists: 409,
    StaleSession: 409,
    Conflict: 409,
    TooOften: 429,
    Slow: 503,
    AgentError: 409,
    NotRecorded: 503,
    NotKept: 503,
    SourceError: 503,
    Behind: 503,
}
TITLES: Final = {
    400: "Bad request",
    401: "A token is needed",
    403: "Not allowed",
    404: "Not found",
    405: "Method not allowed",
    408: "Request timeout",
    409: "Conflict",
    412: "The session has changed",
    413: "Too large",
    415: "Unsupported media type",
    416: "Range not satisfiable",
    429: "Too many requests",
    500: "Something went wrong in adkweb",
    503: "A source can't be used",
}
MEDIA_TYPE: Final = "application/problem+json"
_PROGRAMS: Final = re.compile(r"/(api|apps|sources|list-apps|health|version|ready|metrics)(/|$)")


def status_of(error: Error) -> int:
    """Returns the HTTP status for an error."""
    return next(STATUS[kind] for kind in type(error).__mro__ if kind in STATUS)


def for_programs(path: str) -> bool:
    """Returns whether an address is for programs, which cannot read pages."""
    return _PROGRAMS.match(path) is not None


def problem(status: int, detail: str, **more: Any) -> HttpResponse:
    """Makes an answer that says what is wrong. `more` are further fields, for programs. `retry_after` is a header,
    too."""
    told = {"type": "about:blank", "title": TITLES[status], "status": status, "detail": detail, **more}
    if name := request_id.current():
        told["request_id"] = name
    response = HttpResponse(
        json.dumps(told), MEDIA_TYPE, status, headers={"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
    )
    if "retry_after" in more:
        response["Retry-After"] = str(more["retry_after"])
    if status == 401:
        response["WWW-Authenticate"] = 'Bearer realm="adkweb"'
    return response


def sentence(path: str, status: int, message: str, retry_after: int | None = None) -> HttpResponse:
    """Makes the answer to a request that reaches no view. A browser shows the sentence, or a page shows it in a
    toast."""
    waits = {} if retry_after is None else {"retry_after": retry_after}
    if for_programs(path):
        return problem(status, message, **waits)
    headers = {"Cache-Control": "no-store", **({"Retry-After": str(retry_after)} if waits else {})}
    return HttpResponse(message, "text/plain; charset=utf-8", status, headers=headers)
