"""The page on which people see their second factor, set up and remove an app, and get recovery codes."""

from typing import Any, cast

from django import forms
from django.contrib import messages
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.http.request import split_domain_port
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import pgettext_lazy
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from ...access import passkeys
from ...access import second_factor as core
from ...access.sign_in import is_loopback
from ...access.sign_ins import CHECKED
from ..forms import Form, Text, act
from ..html.render import page
from .signin import ConfirmForm, confirmed


class _Code(Text):
    def bound_data(self, data: Any, initial: Any) -> None:
        """Returns nothing: a code that was refused is not shown again."""


class CodeForm(Form):
    """Takes a code of an app, or a recovery code."""

    code = _Code(
        label=pgettext_lazy("second factor", "Code"),
        needed=True,
        attrs={
            "class": "mono",
            "autocomplete": "one-time-code",
            "inputmode": "numeric",
            "maxlength": 20,
            "spellcheck": "false",
        },
    )


@never_cache
@require_http_methods(["GET", "POST"])
def second_factor(request: HttpRequest) -> HttpResponse:
    """Shows the person's second factor. A form with the app's first code switches it on."""
    person = cast(User, request.user)
    form = CodeForm.of(request, focus="" if core.exists(person) else "code")
    codes, status = act(form, lambda given: core.switch_on(person, request.session, given["code"]))
    if codes is None:
        return _page(request, status, code_form=form)
    request.session[CHECKED] = True
    return set_up(request, codes, reverse("second-factor"))


@never_cache
@require_POST
def new_codes(request: HttpRequest) -> HttpResponse:
    """Gives the person other recovery codes. Asks for the password."""
    person = cast(User, request.user)
    form, codes, status = confirmed(request, lambda: core.new_codes(person), auto_id="codes-%s")
    return codes_page(request, codes, reverse("second-factor")) if codes else _page(request, status, codes_form=form)


@never_cache
@require_POST
def remove(request: HttpRequest) -> HttpResponse:
    """Removes the person's app. Asks for the password."""
    person = cast(User, request.user)
    form, _done, status = confirmed(request, lambda: core.remove_app(person), auto_id="remove-%s")
    if not form.is_valid():
        return _page(request, status, remove_form=form)
    messages.success(request, _("App removed."))
    return redirect("second-factor")


def set_up_context(request: HttpRequest, person: User) -> dict[str, Any]:
    """Returns what the form needs that sets up an app."""
    secret = core.offered(request.session)
    size, path = core.picture(person, secret)
    return {"secret": secret, "size": size, "path": path}


def missing_for_passkeys(request: HttpRequest) -> dict[str, str]:
    """Returns what browsers miss at this address to use passkeys, and which address of this machine has it."""
    host, port = split_domain_port(request.get_host())
    missing = passkeys.obstacle(request)
    near = missing == "name" and is_loopback(host)
    return {"missing": missing, "local": f"{request.scheme}://localhost{port and f':{port}'}/" if near else ""}


def set_up(request: HttpRequest, codes: list[str], next_page: str) -> HttpResponse:
    """Shows the recovery codes of a second factor that was set up, or goes on where they were shown before."""
    if codes:
        return codes_page(request, codes, next_page)
    messages.success(request, _("Second factor set up. Your recovery codes haven't changed."))
    return redirect(next_page)


def codes_page(request: HttpRequest, codes: list[str], next_page: str) -> HttpResponse:
    """Shows recovery codes, the only time."""
    response = page(request, "access/second_factor/codes.html", {"codes": codes, "next": next_page})
    response["Cache-Control"] = "private, no-store"
    return response


def _page(request: HttpRequest, status: int, **given: forms.Form) -> HttpResponse:
    """Shows the second factor, with the form that was sent."""
    person = cast(User, request.user)
    context: dict[str, Any] = {
        "is_on": core.exists(person),
        "has_app": core.has_app(person),
        "left": core.codes_left(person),
        "passkeys": [(row, passkeys.is_good(request, row)) for row in passkeys.listed(person)],
        "code_form": CodeForm(),
        "codes_form": ConfirmForm(person=person, auto_id="codes-%s"),
        "remove_form": ConfirmForm(person=person, auto_id="remove-%s"),
        **missing_for_passkeys(request),
        **given,
    }
    if not context["has_app"]:
        context |= set_up_context(request, person)
    return page(request, "access/second_factor/second_factor.html", context, status)
