"""Says what was done, in a message whose button undoes it."""

from collections.abc import Iterable

from django.contrib import messages
from django.http import HttpRequest
from django.middleware.csrf import get_token
from django.utils.html import format_html, format_html_join
from django.utils.translation import gettext as _


def offer_undo(request: HttpRequest, said: str, address: str, fields: Iterable[tuple[str, str]]) -> None:
    """Adds a message with a button that posts some fields to an address."""
    inputs = format_html_join("", '<input type="hidden" name="{}" value="{}">', fields)
    form = format_html(
        '{} <form method="post" action="{}"><input type="hidden" name="csrfmiddlewaretoken" value="{}">{}'
        '<button class="btn quiet small" name="undo" value="1">{}</button></form>',
        said,
        address,
        get_token(request),
        inputs,
        _("Undo"),
    )
    messages.success(request, form)
