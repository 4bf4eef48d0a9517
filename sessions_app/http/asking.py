"""Tells the audit the address of a request, and what was refused to people who are signed in."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

from ..access.actor import Actor
from ..access.audit import refusals
from ..access.audit.record import address
from ..domain.session_ref import SessionRef


class AddressKnown:
    """Sets the address for everything recorded while a request is answered."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Returns the answer."""
        token = address.set(request.META.get("REMOTE_ADDR", ""))
        try:
            response = self.get_response(request)
            if response.status_code == 403:
                note(request)
            return response
        finally:
            address.reset(token)


def note(request: HttpRequest) -> None:
    """Notes that a request is refused, unless no one is signed in: strangers are refused all day."""
    by, match = _name_of(request), request.resolver_match
    if not by:
        return
    names = {name: str((match.kwargs if match else {}).get(name, "")) for name in SessionRef._fields}
    what = (match.url_name or match.route) if match else ""
    refusals.note("refused", by, f"{request.method} {what}", SessionRef(**names))


def _name_of(request: HttpRequest) -> str:
    program, person = getattr(request, "auth", None), getattr(request, "user", None)
    if isinstance(program, Actor):
        return program.name
    return person.get_username() if person is not None and person.is_authenticated else ""
