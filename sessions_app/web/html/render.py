"""Makes responses with HTML and with other data, and the message with a button that undoes what was done."""

import unicodedata
from collections.abc import Iterable
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.middleware.csrf import get_token
from django.template.loader import render_to_string
from django.utils.cache import patch_vary_headers
from django.utils.html import format_html, format_html_join
from django.utils.safestring import mark_safe
from django.utils.translation import gettext as _


def page(request: HttpRequest, template: str, context: dict[str, Any] | None = None, status: int = 200) -> HttpResponse:
    """Renders a template.

    ADK's SQLite files may hold half of a surrogate pair, which cannot be sent. It is shown as a question mark.
    """
    response = data(render_to_string(template, context, request), "text/html; charset=utf-8", status)
    # The same address can answer with a page or a fragment. A browser that goes back must not mix them up.
    patch_vary_headers(response, ["HX-Request"])
    return response


def data(content: bytes | str, mime_type: str, status: int = 200) -> HttpResponse:
    """Returns data as it is. Only the browser may cache it, and it asks again each time."""
    raw = content.encode("utf-8", "replace") if isinstance(content, str) else content
    return HttpResponse(raw, mime_type, status, headers={"Cache-Control": "private, no-cache"})


# --- A name that somebody types to confirm ----------------------------------------------------------------------------


def typed(name: str) -> str:
    """Normalizes a name as a text field does, which drops line breaks. confirm.js has the same rule."""
    return unicodedata.normalize("NFC", "".join(name.split()))


def to_type(name: str) -> str:
    """Returns what confirms a name. One that nobody could type is confirmed by a word instead."""
    return name if typed(name) else "delete"


# --- Undo -------------------------------------------------------------------------------------------------------------


def offer_undo(
    request: HttpRequest,
    said: str,
    address: str,
    fields: Iterable[tuple[str, str]],
    about: str = "",
    *,
    redo: bool = False,
) -> None:
    """Adds a message with a button that posts some fields to an address, and by `redo` also that it does it again.

    The message takes the place of another one `about` the same; then its button works without another page, and answers
    to a key."""
    inputs = format_html_join("", '<input type="hidden" name="{}" value="{}">', fields)
    key = format_html(' <kbd aria-hidden="true">{}</kbd>', "u") if about and not redo else ""
    form = format_html(
        '{} <form method="post" action="{}"{}><input type="hidden" name="csrfmiddlewaretoken" value="{}">{}'
        '<button class="btn quiet small" name="{}" value="1"{}>{}{}</button></form>',
        said,
        address,
        format_html(' hx-post="{}?messages=1" hx-target="#outcomes" hx-swap="innerHTML"', address) if about else "",
        get_token(request),
        inputs,
        "redo" if redo else "undo",
        mark_safe(' data-key="u"') if key else "",
        _("Redo") if redo else _("Undo"),
        key,
    )
    messages.success(request, form, extra_tags=about)
