"""Adds the security headers of every answer: of pages and files, of early errors, and of refused bodies."""

from collections.abc import Awaitable, Callable
from typing import Any, Final

from django.conf import settings
from django.http import HttpRequest, HttpResponse

_UNUSED: Final = ("accelerometer", "camera", "geolocation", "gyroscope", "magnetometer", "microphone", "payment", "usb")
_HEADERS: Final = {
    b"content-security-policy": b"default-src 'none'; frame-ancestors 'none'",
    b"cross-origin-opener-policy": b"same-origin",
    b"permissions-policy": ", ".join(f"{name}=()" for name in _UNUSED).encode(),
    b"referrer-policy": b"same-origin",
    b"x-content-type-options": b"nosniff",
    b"x-frame-options": b"DENY",
}

Message = dict[str, Any]


class Headed:
    """An ASGI application that adds these headers to its answers, unless they have their own."""

    def __init__(self, application: Any) -> None:
        self._application = application

    async def __call__(self, scope: Message, receive: Any, send: Callable[[Message], Awaitable[None]]) -> None:
        """Sends the application's answer with the headers."""
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        if settings.HTTPS:  # whether or not the proxy says so
            scope = {**scope, "scheme": "https"}

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                there = {name.lower() for name, _value in message["headers"]}
                missing = [(name, value) for name, value in _HEADERS.items() if name not in there]
                message = {**message, "headers": [*message["headers"], *missing]}
            await send(message)

        await self._application(scope, receive, sending)


class SecureCookies:
    """Marks cookies that are set over TLS as secure, so that browsers send them back only over TLS."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Returns the answer with its cookies marked."""
        response = self.get_response(request)
        if request.is_secure():
            for cookie in response.cookies.values():
                cookie["secure"] = True
        return response
