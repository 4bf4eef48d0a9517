"""The table of what a program gets: every operation that is registered, and every kind of token that there can be.

A row of TABLE is an operation: its method and address, the permission that it needs, the status for whoever has it, and the
status for an admin of another app. Each operation of ADK's routes is there once more below a source's name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from django.urls import URLPattern, URLResolver, get_resolver
from django.urls.resolvers import RoutePattern

from sessions_app.domain.roles import PERMISSIONS

# The words of the answer that refuses a token.
REFUSED: Final = {
    "no token": "Sign in with a token",
    "unknown": "doesn't exist or has been revoked",
    "expired": "expired",
    "revoked": "has been revoked",
    "renewed": "was renewed",
    "companion": "is for a companion",  # anywhere but on its own channel
    "deactivated": "This token stopped working because the person who created it can no longer sign in",
}
KINDS: Final = (*REFUSED, *PERMISSIONS, "stranger")
ELSEWHERE: Final = "/apps/nowhere"  # stands for all addresses below ADK's that lead nowhere

_APP: Final = "/api/apps/{app_name}"
_USER: Final = _APP + "/users/{user_id}"
_SESSION: Final = _USER + "/sessions/{session_id}"
_ADK: Final = """
    GET    /health                          -       200  200
    GET    /version                         read    200  200
    GET    /list-apps                       read    200  200
    GET    /apps/{app_name}/users/{user_id}/sessions               read    200  404
    POST   /apps/{app_name}/users/{user_id}/sessions               append  200  404
    GET    /apps/{app_name}/users/{user_id}/sessions/{session_id}  read    200  404
    POST   /apps/{app_name}/users/{user_id}/sessions/{session_id}  append  200  404
    PATCH  /apps/{app_name}/users/{user_id}/sessions/{session_id}  append  200  404
    DELETE /apps/{app_name}/users/{user_id}/sessions/{session_id}  admin   200  404
"""
TABLE: Final = f"""
    GET    /ready                           -       200  200
    GET    /metrics                         admin   200  403
    GET    /api/openapi.json                read    200  200
    GET    {ELSEWHERE}                      -       404  404
    POST   /api/companion                   companion   200  403
    GET    /api/companion                   companion   204  403
    POST   /api/companion/step              companion   200  403
    GET    /api/sources                     read    200  200
    GET    /api/apps                        read    200  200
    GET    /api/sessions                    read    200  200
    GET    /api/inbox                       read    200  200
    GET    /api/agents                      operate 200  200
    GET    /api/edits                       read    200  200
    GET    /api/expiring-edits              read    200  200
    GET    /api/proposals                   read    200  200
    GET    /api/export                      read    200  404
    POST   /api/import                      admin   200  403
    GET    {_APP}/users                     read    200  404
    GET    {_APP}/sessions                  read    200  404
    GET    {_APP}/sessions/states           read    200  404
    GET    {_APP}/state                     read    200  404
    PATCH  {_APP}/state                     append  201  404
    GET    {_APP}/state/history             read    200  404
    GET    {_APP}/schema                    read    200  404
    GET    {_APP}/schema/model              read    200  404
    POST   {_APP}/expiring-edits/{{expiry_id}}/extend   append  200  404
    DELETE {_APP}/expiring-edits/{{expiry_id}}          append  200  404
    GET    {_APP}/proposals/{{proposal_id}} read    200  404
    DELETE {_APP}/proposals/{{proposal_id}} operate 200  404
    GET    {_APP}/rules                     read    200  404
    POST   {_APP}/rules                     append  201  404
    GET    {_APP}/rules/{{number}}          read    200  404
    PUT    {_APP}/rules/{{number}}          append  200  404
    DELETE {_APP}/rules/{{number}}          append  204  404
    GET    {_APP}/rules/{{number}}/breaches read    200  404
    GET    {_USER}/sessions                 read    200  404
    POST   {_USER}/sessions                 append  201  404
    GET    {_USER}/state                    read    200  404
    PATCH  {_USER}/state                    append  201  404
    GET    {_USER}/state/history            read    200  404
    GET    {_SESSION}                       read    200  404
    PATCH  {_SESSION}                       append  200  404
    DELETE {_SESSION}                       admin   204  404
    GET    {_SESSION}/standing              read    200  404
    GET    {_SESSION}/events                read    200  404
    POST   {_SESSION}/events                append  201  404
    GET    {_SESSION}/events/{{event_id}}   read    200  404
    GET    {_SESSION}/events/{{event_id}}/data/{{file}}   read    200  404
    GET    {_SESSION}/events/{{event_id}}/state   read    200  404
    POST   {_SESSION}/events/{{event_id}}/undo    append  201  404
    POST   {_SESSION}/events/{{event_id}}/fork    admin   201  404
    GET    {_SESSION}/state                 read    200  404
    PATCH  {_SESSION}/state                 append  201  404
    GET    {_SESSION}/state/history         read    200  404
    GET    {_SESSION}/compare               read    200  404
    GET    {_SESSION}/drift                 read    200  404
    POST   {_SESSION}/drift                 append  201  404
    POST   {_SESSION}/restore               append  201  404
    POST   {_SESSION}/rewind                append  201  404
    POST   {_SESSION}/instruction           read    200  404
    GET    {_SESSION}/context               read    200  404
    POST   {_SESSION}/answers               operate 409  404
    POST   {_SESSION}/runs                  operate 409  404
    DELETE {_SESSION}/runs                  operate 404  404
    GET    {_SESSION}/runs/{{run_id}}       read    200  404
    DELETE {_SESSION}/runs/{{run_id}}       operate 202  404
    GET    {_SESSION}/artifacts             read    200  404
    GET    {_SESSION}/artifacts/versions    read    200  404
    GET    {_SESSION}/artifacts/content     read    200  404
    {_ADK}
    {_ADK.replace("  /", "  /sources/{source}/").replace("E /", "E /sources/{source}/")}
"""


# The queries that addresses need.
QUERY: Final[dict[str, dict[str, str]]] = {
    "/api/companion": {"process": "0" * 32},
    "/api/export": {"app": "{app_name}"},
    "/api/import": {"source": "{source}"},
    f"{_SESSION}/state/history": {"key": "step"},
    f"{_USER}/state/history": {"key": "user:tier"},
    f"{_APP}/state/history": {"key": "app:limit"},
    f"{_SESSION}/compare": {"a": "e1"},
    f"{_SESSION}/standing": {"event": "e1"},
    f"{_SESSION}/artifacts/versions": {"name": "plan.txt"},
    f"{_SESSION}/artifacts/content": {"name": "plan.txt", "version": "0"},
}
# The bodies; NUMBER is one that was never sent before.
BODIES: Final = {
    "POST /api/companion/step": (
        '{"process": "00000000000000000000000000000000", "at": 1, "invocation": {"invocation": "i", "app_name": "booking", '
        '"user_id": "ana", "session_id": "s1", "since": 1, "ended": null, "step": "", "name": "", "step_since": 1}, '
        '"step": {"kind": "tool", "agent": "a", "name": "pay"}}'
    ),
    "POST /api/companion": '{"process": "00000000000000000000000000000000", "at": 1, "invocations": []}',
    f"POST {_USER}/sessions": '{"session_id": "madeNUMBER"}',
    f"PATCH {_SESSION}": '{"title": "Late NUMBER"}',
    f"POST {_SESSION}/events": '{"id": "nNUMBER", "author": "agent"}',
    f"PATCH {_SESSION}/state": '{"set": {"a": NUMBER}}',
    f"PATCH {_USER}/state": '{"set": {"user:a": NUMBER}}',
    f"PATCH {_APP}/state": '{"set": {"app:a": NUMBER}}',
    f"POST {_SESSION}/events/{{event_id}}/undo": "{}",
    f"POST {_SESSION}/events/{{event_id}}/fork": '{"session_id": "forkNUMBER"}',
    f"POST {_SESSION}/restore": '{"to": "e1", "scopes": ["session"]}',
    f"POST {_SESSION}/rewind": '{"before": "i2"}',
    f"POST {_SESSION}/drift": '{"put_back": ["step"]}',
    f"POST {_SESSION}/answers": '{"event_id": "e1", "answers": {}}',
    f"POST {_SESSION}/runs": '{"text": "hello"}',
    f"POST {_SESSION}/instruction": '{"template": "Step {step}"}',
    f"POST {_APP}/expiring-edits/{{expiry_id}}/extend": '{"lasts": 7200}',
    f"POST {_APP}/rules": '{"condition": "step exists", "title": "Rule NUMBER"}',
    f"PUT {_APP}/rules/{{number}}": '{"condition": "step exists", "title": "Other NUMBER"}',
    "POST /apps/{app_name}/users/{user_id}/sessions": '{"sessionId": "madeNUMBER"}',
    "PATCH /apps/{app_name}/users/{user_id}/sessions/{session_id}": '{"stateDelta": {"a": NUMBER}}',
}


@dataclass(frozen=True)
class Operation:
    """A row of the table. `permission` is empty where everybody is answered."""

    method: str
    path: str
    permission: str
    done: int
    stranger: int

    @property
    def name(self) -> str:
        """Returns what a reader calls it: `GET /api/apps`."""
        return f"{self.method} {self.path}"

    @property
    def bare(self) -> str:
        """Returns the same without the name of a source before ADK's routes."""
        return f"{self.method} {self.path.removeprefix('/sources/{source}')}"

    @property
    def writes(self) -> bool:
        """Tells whether whoever may do it changes something."""
        return self.permission in ("operate", "append", "admin") and self.path != "/metrics"

    @property
    def about_an_app(self) -> bool:
        """Tells whether a request names an app, or the answer is about none."""
        named = "{app_name}" in self.path + str(QUERY.get(self.path))
        return named or self.path in ("/metrics", "/api/import", "/api/openapi.json")

    def grants(self, kind: str) -> bool:
        """Tells whether a kind of token may do it."""
        return kind != "stranger" and self.status(kind) == self.done

    def status(self, kind: str) -> int:
        """Returns what a kind of token is answered."""
        if not self.permission:
            return self.done
        if kind == self.permission == "companion":
            return self.done
        if kind in REFUSED:
            return 401
        if self.permission == "companion":
            return 403
        if kind == "stranger":
            return self.stranger
        return self.done if PERMISSIONS.index(kind) >= PERMISSIONS.index(self.permission) else 403


def _read(line: str) -> Operation:
    method, path, permission, done, stranger = line.split()
    return Operation(method, path, "" if permission == "-" else permission, int(done), int(stranger))


OPERATIONS: Final = [_read(line) for line in TABLE.splitlines() if line.strip()]


def addresses() -> Iterator[str]:
    """Returns every address for programs that is registered: `/api/apps/{app_name}/users`."""
    for route, pattern in _routes("/", get_resolver("sessions_app.api.urls").url_patterns):
        yield ELSEWHERE if pattern.name == "adk-elsewhere" else route


def _routes(start: str, patterns: list[Any]) -> Iterator[tuple[str, URLPattern]]:
    for each in patterns:
        route = each.pattern._route if isinstance(each.pattern, RoutePattern) else ""
        route = start + re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", route)
        if isinstance(each, URLResolver):
            yield from _routes(route, each.url_patterns)
        else:
            yield route, each
