"""Offers HttpSessionService, for an agent on another machine, over adkweb's REST API."""

import os
import re
from typing import Final, cast, get_args
from urllib.parse import SplitResult, parse_qsl, urlsplit

from .base import OnRebase, OnStale, StoredSessionService
from .http_store import Remote

SCHEME: Final = "adkweb"
VARIABLE: Final = "ADKWEB_TOKEN"

_SENDABLE: Final = re.compile(r"[!-~]+")


class HttpSessionService(StoredSessionService):
    """ADK's session service on the sessions of a remote adkweb.

    `uri` is adkweb's address, such as `http://host:8000`. ADK's command line writes it as
    `adkweb://host:8000?source=alias&on_stale=rebase&tls=true`. `token` comes from `adkweb token create`, with the permission
    append, or admin to delete sessions; without it, the environment's ADKWEB_TOKEN is used. `source` is needed if
    adkweb shows several databases. `on_stale` and `on_rebase` are those of DjangoSessionService. One service works in
    any number of event loops and threads.

    A request that gets no answer is sent again for up to a minute; nothing is stored twice. Raises ADK's errors,
    PermissionError, ConnectionError, and ValueError for an invalid address.
    """

    def __init__(
        self,
        uri: str,
        *,
        token: str | None = None,
        source: str | None = None,
        on_stale: OnStale = "raise",
        on_rebase: OnRebase | None = None,
        agents_dir: str | None = None,
    ) -> None:
        # ADK gives `agents_dir` to every service that it makes from a URI.
        parts = _split(uri)
        url = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"
        if parts.scheme == SCHEME:
            asked = _asked(parts)
            url = f"{'https' if asked.get('tls') == 'true' else 'http'}://{parts.netloc}"
            source, on_stale = asked.get("source", source), cast(OnStale, asked.get("on_stale", on_stale))
        super().__init__(Remote(url, _token(token), source), on_stale, on_rebase)


def register() -> None:
    """Registers `adkweb://` with ADK's command line. Call it in the `services.py` of a folder of agents."""
    from google.adk.cli.service_registry import get_service_registry  # heavy, and needed only here

    get_service_registry().register_session_service(SCHEME, lambda uri, **given: HttpSessionService(uri, **given))


def _split(uri: str) -> SplitResult:
    """Splits an address. Raises ValueError without repeating a password."""
    parts = urlsplit(uri)
    if "@" in parts.netloc:
        raise ValueError(f"adkweb's address may not contain a user or a token: give token=…, or set {VARIABLE}.")
    try:
        valid = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        valid = False
    if not valid or parts.scheme not in ("http", "https", SCHEME) or parts.fragment:
        raise ValueError(
            f"adkweb's address looks like http://host:8000, https://host or {SCHEME}://host:8000, not {uri!r}."
        )
    if parts.scheme == SCHEME and parts.path not in ("", "/"):
        raise ValueError(f"{SCHEME}:// takes no path such as {parts.path!r}; name the source with ?source=")
    if parts.scheme != SCHEME and parts.query:
        raise ValueError("An http address takes no options; pass source=… and on_stale=… as arguments.")
    return parts


def _asked(parts: SplitResult) -> dict[str, str]:
    """Returns the options of an adkweb:// address. Raises ValueError for an unknown one."""
    asked = dict(parse_qsl(parts.query, keep_blank_values=True))
    known = {"source": (), "on_stale": get_args(OnStale), "tls": ("true", "false")}
    for name, value in asked.items():
        if name not in known:
            raise ValueError(f"{SCHEME}:// takes the options {', '.join(known)}, not {name!r}.")
        if known[name] and value not in known[name]:
            raise ValueError(f"{name} must be {' or '.join(known[name])}, not {value!r}.")
    return asked


def _token(given: str | None) -> str:
    token = (given or os.environ.get(VARIABLE, "")).strip()
    if not token:
        raise ValueError(f"adkweb needs a token: give token=…, or set {VARIABLE}. `adkweb token create` makes one.")
    if _SENDABLE.fullmatch(token) is None:
        raise ValueError("The token has characters that no adkweb token has.")
    return token
