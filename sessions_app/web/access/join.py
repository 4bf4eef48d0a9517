"""Lets an invited person choose a name and a password, and lets everybody choose a new password."""

from typing import Any, Final, cast

from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from ...access import identities, invitations, passwords
from ...access.audit import refusals
from ...access.sign_ins import CHECKED
from ...domain.errors import NotFound
from ..forms import Form, Read, Text, act
from ..html.render import page
from .signin import enter, sign_person_in

_PLAIN: Final = {"autocapitalize": "none", "spellcheck": "false"}
_PASSWORD: Final[dict[str, Any]] = {
    "help_text": gettext_lazy("At least 12 characters. Not a common password, and not similar to your name."),
    "needed": True,
    "widget": forms.PasswordInput,
    "attrs": {"autocomplete": "new-password"},
}


class LinkForm(Form):
    """Opens an invitation by its link, or by what stands behind the “#” of it."""

    token = Read(
        lambda text: text.rpartition("#")[2].strip(),
        label=gettext_lazy("Invitation"),
        help_text=gettext_lazy("The link you were sent, or the part after the #."),
        needed=True,
        attrs={"maxlength": 300, **_PLAIN},
    )


class JoinForm(LinkForm):
    """Makes the account of an invited person."""

    name = Text(label=gettext_lazy("Name"), needed=True, attrs={"maxlength": 150, "autocomplete": "username", **_PLAIN})
    password = Text(label=gettext_lazy("Password"), **_PASSWORD)


class PasswordForm(Form):
    """Gives somebody a new password. Whoever has one has to know it."""

    old = Text(
        label=gettext_lazy("Current password"),
        needed=True,
        widget=forms.PasswordInput,
        attrs={"autocomplete": "current-password"},
    )
    password = Text(label=gettext_lazy("New password"), **_PASSWORD)


@never_cache
@login_not_required
@require_http_methods(["GET", "POST"])
def join(request: HttpRequest) -> HttpResponse:
    """Makes the account of an invited person and signs them in. Looking at the page does not use the invitation up.

    Its secret stands behind the “#” of the link, which browsers keep to themselves: fragment.js sends it as a form, or the
    person pastes the link. In an address that a server gets, it is not accepted."""
    link = LinkForm.of(request)
    token = link.is_valid() and link.cleaned_data["token"]
    if not token:
        in_address = "token" in request.GET
        context = {"form": LinkForm(), "in_address": in_address}
        return page(request, "access/join/open.html", context, 400 if in_address or link.is_bound else 200)
    try:
        invitation = invitations.of(token)
    except NotFound:
        refusals.note("sign-in-failed", "", "invitation")
        raise
    form = JoinForm.of(request) if "name" in link.data else JoinForm(focus="name")
    context = {"invitation": invitation, "token": token, "form": form}
    if request.user.is_authenticated:
        return page(request, "access/join/join.html", context, 409)
    person, status = act(form, lambda given: invitations.accept(**given))
    if person is None:
        return page(request, "access/join/join.html", context, status)
    return sign_person_in(request, person, "an invitation")


@never_cache
@require_http_methods(["GET", "POST"])
def new_password(request: HttpRequest) -> HttpResponse:
    """Gives the person who is signed in a new password. Their other browsers are signed out."""
    person = cast(User, request.user)
    form = PasswordForm.of(request)
    checked = bool(request.session.get(CHECKED))  # this browser stays signed in as it was
    changed, status = act(form, lambda given: passwords.change(request, person, given["old"], given["password"]))
    if changed is None:
        context = {
            "form": form,
            "has_password": person.has_usable_password(),
            "provider": settings.OIDC_NAME,
            "connected": identities.is_connected(person),
            "needs_none": identities.opens_alone(person),
        }
        return page(request, "access/join/password.html", context, status)
    response = enter(request, person, "a new password", checked=checked)
    messages.success(request, _("Password changed. Your other browsers have been signed out."))
    return response
