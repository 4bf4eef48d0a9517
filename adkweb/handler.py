"""Handles HTTP for a project whose views and middleware are all synchronous: each request runs in one thread.

Django's own handler starts two threads and an event loop for each request, and opens every database again in them. That
takes most of the time of a small request. Here, a thread serves one request after the other and keeps its connections.
"""

import re
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any, Final
from urllib.parse import unquote

from asgiref.sync import SyncToAsync, ThreadSensitiveContext, sync_to_async
from django.conf import settings
from django.core.handlers.asgi import ASGIHandler
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from servestatic.middleware import ServeStaticMiddleware

from sessions_app.http.headers import static_file

_SLASH: Final = re.compile(rb"%2f", re.IGNORECASE)
_MOST_IDLE: Final = 16  # idle threads that are kept
_idle: Final[list[ThreadPoolExecutor]] = []


class Handler(ASGIHandler):
    """Django's handler, but the event loop serves static files, and reused threads serve everything else."""

    def load_middleware(self, is_async: bool = True) -> None:
        """Loads the synchronous middleware, behind static files."""
        super().load_middleware(is_async=False)
        self._static = ServeStaticMiddleware(self._in_thread)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Handles a request."""
        async with _thread():
            await self.handle(_with_slashes(scope), receive, send)

    async def get_response_async(self, request: HttpRequest) -> HttpResponseBase:
        """Returns a static file, or the answer of the middleware and views."""
        response: HttpResponseBase = await self._static(request)
        return await static_file(request, response) if request.path_info.startswith(settings.STATIC_URL) else response

    async def _in_thread(self, request: HttpRequest) -> HttpResponseBase:
        return await sync_to_async(self.get_response)(request)


def _with_slashes(scope: Any) -> Any:
    """Returns a request in whose path a “/” within a name, which a program wrote as %2F, can be recognised.

    By ASGI, `path` is decoded, so that users/a%2Fb would be users/a/b. adkweb's own escape for it is ~2f."""
    raw = scope.get("raw_path") or b""
    if raw.startswith(b"/api/") and _SLASH.search(raw):
        return scope | {"path": unquote(_SLASH.sub(b"~2f", raw).decode("latin-1"))}
    return scope


@asynccontextmanager
async def _thread() -> AsyncIterator[None]:
    """Runs all synchronous code inside in one thread, which serves other requests afterwards."""
    thread = _idle.pop() if _idle else ThreadPoolExecutor(1, "http-request")
    context = ThreadSensitiveContext()
    SyncToAsync.context_to_thread_executor[context] = thread
    token = SyncToAsync.thread_sensitive_context.set(context)
    try:
        yield
    finally:
        SyncToAsync.thread_sensitive_context.reset(token)
        SyncToAsync.context_to_thread_executor.pop(context, None)
        if len(_idle) < _MOST_IDLE:
            _idle.append(thread)
        else:
            thread.shutdown(wait=False)
