"""The real `adk api_server` and adkweb, asked the same."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from typing import Any, Final

import httpx
from asgiref.sync import async_to_sync
from google.adk.agents.base_agent import BaseAgent
from google.adk.cli.api_server import ApiServer
from google.adk.cli.utils.base_agent_loader import BaseAgentLoader

from tests.adk.services import APP, USER, Adk

SESSIONS: Final = f"/apps/{APP}/users/{USER}/sessions"
JSON: Final = {"content-type": "application/json"}
_MADE: Final = re.compile(r"(p-)?[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class _Agents(BaseAgentLoader):
    """One app, of which nothing is ever run."""

    def load_agent(self, agent_name: str) -> BaseAgent:
        raise ValueError(agent_name)

    def list_agents(self) -> list[str]:
        return [APP]


class AdkServer:
    """google-adk's own server over one session service."""

    def __init__(self, adk: Adk) -> None:
        self._adk = adk
        unused: Any = None
        self._app = ApiServer(
            agent_loader=_Agents(),
            session_service=adk.service,
            memory_service=unused,
            artifact_service=unused,
            credential_service=unused,
            eval_sets_manager=unused,
            eval_set_results_manager=unused,
            agents_dir=".",
        ).get_fast_api_app()

    def ask(self, method: str, path: str, **sent: Any) -> httpx.Response:
        """One request."""
        transport = httpx.ASGITransport(self._app, raise_app_exceptions=False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a route of it is deprecated, which would be its fault here
            return self._adk.run(_ask(transport, method, path, sent))


class AdkwebServer:
    """adkweb, in this process, below a path and with a token."""

    def __init__(self, token: str = "", below: str = "") -> None:
        self._headers = {"authorization": f"Bearer {token}"} if token else {}
        self._below = below

    def ask(self, method: str, path: str, **sent: Any) -> httpx.Response:
        """One request."""
        from adkweb.asgi import application

        sent = {**sent, "headers": {**self._headers, **sent.get("headers", {})}}
        return async_to_sync(_ask)(httpx.ASGITransport(application), method, self._below + path, sent)


Ask = Callable[..., httpx.Response]


async def _ask(transport: httpx.ASGITransport, method: str, path: str, sent: dict[str, Any]) -> httpx.Response:
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        return await client.request(method, path, **sent)


def differences(ours: Any, theirs: Any, place: str = "") -> list[str]:
    """Where two JSON values are not the same."""
    if isinstance(ours, dict) and isinstance(theirs, dict) and ours.keys() == theirs.keys():
        return [each for name in ours for each in differences(ours[name], theirs[name], f"{place}.{name}")]
    if isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        pairs = enumerate(zip(ours, theirs, strict=True))
        return [each for n, (a, b) in pairs for each in differences(a, b, f"{place}[{n}]")]
    return [] if ours == theirs else [f"{place}: {ours!r} is not {theirs!r}"]


def said(answer: httpx.Response) -> list[Any]:
    """What an answer says, but for what each server makes up: ids and times."""
    assert answer.headers["content-type"] == "application/json", answer.text
    told = answer.json()
    if answer.status_code == 422:
        told["detail"].sort(key=str)  # faults come in the order of a model's fields, which is nobody's concern
    return [answer.status_code, without_made(told)]


def without_made(told: Any) -> Any:
    """Sessions and events without the ids and times that a server makes."""
    if isinstance(told, list):
        return [without_made(each) for each in told]
    if not isinstance(told, dict) or "lastUpdateTime" not in told:
        return told
    events = [_named(event) | {"timestamp": isinstance(event["timestamp"], float)} for event in told["events"]]
    return _named(told) | {"events": events, "lastUpdateTime": isinstance(told["lastUpdateTime"], float)}


def _named(told: dict[str, Any]) -> dict[str, Any]:
    made = {name: _MADE.sub(r"\1…", told[name]) for name in ("id", "invocationId") if name in told}
    return told | made
