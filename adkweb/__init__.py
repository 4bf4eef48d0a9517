"""Wires adkweb together: settings, URLs, the ASGI application, the command. It is also the front door for programs:

    from adkweb import Companion, DjangoSessionService, HttpSessionService, Replay, register

`import adkweb` alone neither sets up Django nor loads google-adk. The first use of a name does.
"""

from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sessions_app.adk import Companion, DjangoSessionService, HttpSessionService, Replay, register

__all__ = ["Companion", "DjangoSessionService", "HttpSessionService", "Replay", "register"]

try:
    __version__ = version("adkweb")
except PackageNotFoundError:  # a checkout that was not installed
    __version__ = "0"


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from sessions_app import adk

    return getattr(adk, name)
