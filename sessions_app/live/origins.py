"""Decides which pages may open a websocket: those of this server, and of origins that the settings trust."""

import logging
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.db import DatabaseError
from django.http import parse_cookie
from django.http.request import split_domain_port, validate_host

from ..access import sign_in
from ..access.audit import refusals
from ..access.audit.record import address
from ..domain.session_ref import SessionRef

log = logging.getLogger("adkweb.live")


def same_origin(scope: Any) -> bool:
    """Tells whether the socket is opened by a page of this server, or of one that ADKWEB_TRUSTED_ORIGINS names.

    A browser sends the sign-in cookie for any site's page. Only the origin tells which site it is.
    """
    headers = dict(scope["headers"])
    origin, host = (headers.get(name, b"").decode("latin-1").lower() for name in (b"origin", b"host"))
    if origin in settings.CSRF_TRUSTED_ORIGINS:
        return True
    try:
        asks = urlsplit(origin).netloc
    except ValueError:
        return False
    return bool(origin) and asks == host and validate_host(split_domain_port(host)[0], settings.ALLOWED_HOSTS)


def note_refused(scope: Any) -> None:
    """Notes in the audit that a page of another site opened a socket in somebody's name. Strangers are not noted."""
    token = address.set((scope.get("client") or [""])[0])
    try:
        person = sign_in.signed_in([cookie(scope)]).get(cookie(scope))
        if person is not None:
            names = scope["url_route"]["kwargs"]
            ref = SessionRef(*(str(names.get(name, "")) for name in SessionRef._fields))
            refusals.note("refused", person.get_username(), "websocket from another site", ref)
    except DatabaseError as error:  # it is refused all the same
        log.warning("a refused websocket cannot be noted: %s", error)
    finally:
        address.reset(token)


def cookie(scope: Any) -> str:
    """Returns the sign-in that a handshake brings along, or ""."""
    cookies = parse_cookie(dict(scope["headers"]).get(b"cookie", b"").decode("latin-1"))
    return cookies.get(settings.SESSION_COOKIE_NAME, "")
