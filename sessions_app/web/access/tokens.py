"""Lists, creates, renews and revokes the tokens of programs."""

from typing import Any, Final

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, pgettext_lazy
from django.views.decorators.http import require_http_methods

from ...access import tokens as core
from ...access.actor import PATTERN_LENGTH
from ...access.tokens import ApiToken
from ...domain.roles import OF_TOKENS
from ..forms import Form, Read, Text, act
from ..html.render import page
from ..request import actor

_HOLDERS: Final[dict[str, Any]] = {
    "label": gettext_lazy("Held by"),
    "help_text": gettext_lazy(
        "The people who have this token, separated by commas. They can't approve what it proposes. If you leave "
        "this empty, each proposal needs two people to approve it."
    ),
    "attrs": {"maxlength": 1000, "dir": "auto"},
}


class TokenForm(Form):
    """Makes a token. No field falls back to a default: a token must not get more than was chosen. The page begins with
    BEGUN."""

    name = Text(
        label=pgettext_lazy("token", "Name"),
        help_text=gettext_lazy("Shown as the author of this program's edits."),
        needed=True,
        attrs={"maxlength": core.NAME_LENGTH, "dir": "auto", "placeholder": "booking-agent"},
    )
    permission = Text(label=pgettext_lazy("token", "Permission"))
    apps = Text(
        label=gettext_lazy("Apps"),
        help_text=gettext_lazy("An app's name, or a pattern like booking-*. Leave empty for all apps."),
        attrs={"class": "mono", "maxlength": PATTERN_LENGTH, "spellcheck": "false", "placeholder": "*"},
    )
    holders = Read(lambda text: text.split(","), **_HOLDERS)
    days = Read(
        lambda text: core.number_of("days", text),
        label=gettext_lazy("Days until it expires"),
        help_text=gettext_lazy(
            "Clear this field if the token should never expire. It also stops working if you can no longer sign in."
        ),
        attrs={"maxlength": 4, "inputmode": "numeric"},
    )
    rate = Read(
        lambda text: core.number_of("rate", text),
        label=gettext_lazy("Requests per minute"),
        help_text=gettext_lazy("Requests per minute for this token. Leave empty to use the general limit."),
        attrs={"maxlength": 7, "inputmode": "numeric"},
    )


BEGUN: Final = {"permission": "append", "days": "90"}


class RenewForm(Form):
    """Gives a token a new text, and says how long the one from before still works."""

    hours = Read(
        lambda text: core.number_of("hours", text, needed=True),
        label=gettext_lazy("Hours until the old token stops working"),
        help_text=gettext_lazy(
            "How long you have to update each program. With 0, the old token stops working immediately; choose "
            "that if someone else might know it."
        ),
        initial=core.OVERLAP_HOURS,
        needed=True,
        attrs={"maxlength": 4, "inputmode": "numeric"},
    )
    holders = Read(lambda text: text.split(","), **_HOLDERS)


@require_http_methods(["GET", "POST"])
def tokens(request: HttpRequest) -> HttpResponse:
    """Lists the tokens and creates new ones. A new token's text is shown once, on the page that answers the form."""
    actor(request).check_runs_everything()
    form = TokenForm.of(request, initial=BEGUN)
    made, status = act(form, lambda given: core.create(**given, by=actor(request)))
    if made:
        return _list(request, *made)
    return _list(request, form=form, status=status)


@require_http_methods(["GET", "POST"])
def renew(request: HttpRequest, name: str) -> HttpResponse:
    """Gives a token a new text, after asking how long the one from before goes on. Shows it once."""
    actor(request).check_runs_everything()
    token = ApiToken.objects.named(name)
    if token.revoked:
        return redirect("tokens")
    form = RenewForm.of(request, initial={"holders": ", ".join(token.held_by)})
    text, status = act(form, lambda given: token.renew(**given, by=actor(request)))
    if text:
        return _list(request, token, text)
    return page(request, "access/tokens/renew.html", {"token": token, "form": form}, status)


@require_http_methods(["GET", "POST"])
def revoke(request: HttpRequest, name: str) -> HttpResponse:
    """Revokes a token, after asking for confirmation."""
    actor(request).check_runs_everything()
    token = ApiToken.objects.named(name)
    if request.method == "GET" and not token.revoked:
        return page(request, "access/tokens/revoke.html", {"token": token})
    if request.method == "POST":
        token.revoke(by=actor(request))
        messages.success(request, _("Token “%(name)s” revoked.") % {"name": name})
    return redirect("tokens")


def _list(
    request: HttpRequest, made: ApiToken | None = None, text: str = "", *, form: Form | None = None, status: int = 200
) -> HttpResponse:
    """Shows the tokens, and the text of a new one, which no cache keeps."""
    context: dict[str, Any] = {
        "made": made,
        "text": text,
        "form": form or TokenForm(initial=BEGUN),
        "permissions": OF_TOKENS.items(),
        "tokens": ApiToken.objects.listed(),
        "address": request.build_absolute_uri("/").rstrip("/"),
    }
    response = page(request, "access/tokens/tokens.html", context, status)
    response["Cache-Control"] = "private, no-store"
    return response
