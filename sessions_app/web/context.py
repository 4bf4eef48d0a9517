"""What every page needs."""

from typing import Any

from django.conf import settings
from django.http import HttpRequest


def page(request: HttpRequest) -> dict[str, Any]:
    """The nonce that django-htmx's tag and the page's own scripts carry, and whether anything may be written."""
    return {"csp_nonce": str(getattr(request, "csp_nonce", "")), "read_only": settings.READ_ONLY}
