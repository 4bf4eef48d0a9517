"""The pages on which people add a passkey, and remove one."""

from typing import Any, cast

from django.contrib import messages
from django.contrib.auth.models import User
from django.forms import HiddenInput
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, pgettext_lazy
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from ...access import passkeys as core
from ...access import passwords
from ...access.sign_ins import CHECKED
from ..forms import Form, Text, act
from ..html.render import page
from .second_factor import missing_for_passkeys, set_up
from .signin import ConfirmForm, confirmed


class PasskeyForm(Form):
    """Takes the name of a new passkey, and then what the browser made."""

    name = Text(
        label=pgettext_lazy("passkey", "Name"),
        help_text=gettext_lazy("Shown in your list of passkeys, for example: my phone."),
        needed=True,
        attrs={"maxlength": core.NAME_LENGTH, "dir": "auto"},
    )
    credential = Text(widget=HiddenInput)


class AddForm(ConfirmForm, PasskeyForm):
    """Takes the password as well."""


@never_cache
@require_http_methods(["GET", "POST"])
def add_passkey(request: HttpRequest) -> HttpResponse:
    """Asks for a name and the password, then lets the browser make a key, and takes that."""
    person = cast(User, request.user)
    form = AddForm.of(request, person=person, focus="name")
    if "credential" in form.data:
        codes, status = act(form, lambda given: core.add(request, person, given["credential"]))
        if codes is not None:
            request.session[CHECKED] = True
            return set_up(request, codes, reverse("second-factor"))
    else:

        def begin(given: dict[str, Any]) -> str:
            passwords.confirm(request, person, given.get("old", ""))
            return core.begin_adding(request, person, given["name"])

        options, status = act(form, begin)
        if options:
            return creation_page(request, form, options, reverse("second-factor"))
    return page(request, "access/passkeys/add.html", {"form": form, **missing_for_passkeys(request)}, status)


@never_cache
@require_http_methods(["GET", "POST"])
def remove_passkey(request: HttpRequest, number: int) -> HttpResponse:
    """Removes a passkey. Asks for the password."""
    person = cast(User, request.user)
    row = core.get(person, number)
    form, _done, status = confirmed(request, lambda: core.remove(person, number))
    if not form.is_valid():
        return page(request, "access/passkeys/remove.html", {"name": row.data["name"], "form": form}, status)
    messages.success(request, _("Passkey “%(name)s” removed.") % {"name": row.data["name"]})
    return redirect("second-factor")


def creation_page(request: HttpRequest, form: PasskeyForm, options: str, cancel: str) -> HttpResponse:
    """Shows the page on which the browser makes a key of the name that was sent."""
    context = {"options": options, "name": form.cleaned_data["name"].strip(), "cancel": cancel}
    return page(request, "access/passkeys/create.html", context)
