"""Wiring: settings, URLs, the ASGI application, the command."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("adkweb")
except PackageNotFoundError:  # a checkout that was not installed
    __version__ = "0"
