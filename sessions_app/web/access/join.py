"""Lets an invited person choose a name and a password, and lets everybody choose a new password."""

from typing import Any, cast

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from ...access import identities, invitations, passwords
from ...access.audit import refusals
from ...access.sign_ins import CHECKED
from ...domain.errors import Error, NotFound
from ...http.problems import status_of
from ..html.render import page
from .signin import enter, sign_person_in


@never_cache
@login_not_required
@require_http_methods(["GET", "POST"])
def join(request: HttpRequest) -> HttpResponse:
    """Makes the account of an invited person and signs them in. Looking at the page does not use the invitation up.

    Its secret stands behind the “#” of the link, which browsers keep to themselves: fragment.js sends it as a form, or the
    person pastes the link. In an address that a server gets, it is not accepted."""
    token = request.POST.get("token", "").rpartition("#")[2].strip()
    if not token:
        in_address = "token" in request.GET
        context: dict[str, Any] = {"in_address": in_address}
        return page(request, "access/join/open.html", context, 400 if in_address or request.method == "POST" else 200)
    name = request.POST.get("name", "")
    try:
        invitation = invitations.of(token)
    except NotFound:
        refusals.note("sign-in-failed", "", "invitation")
        raise
    context = {"invitation": invitation, "token": token, "name": name}
    if request.user.is_authenticated:
        return page(request, "access/join/join.html", context, 409)
    if "name" not in request.POST:
        return page(request, "access/join/join.html", context)
    try:
        person = invitations.accept(token, name, request.POST.get("password", ""))
    except Error as error:
        context["errors"] = {error.detail.get("field", "form"): error.message}
        return page(request, "access/join/join.html", context, status_of(error))
    return sign_person_in(request, person, "an invitation")


@never_cache
@require_http_methods(["GET", "POST"])
def new_password(request: HttpRequest) -> HttpResponse:
    """Gives the person who is signed in a new password. Their other browsers are signed out."""
    person = cast(User, request.user)
    context: dict[str, Any] = {"has_password": person.has_usable_password(), "errors": {}}
    context["provider"], context["connected"] = settings.OIDC_NAME, identities.is_connected(person)
    context["needs_none"] = identities.opens_alone(person)
    if request.method == "GET":
        return page(request, "access/join/password.html", context)
    checked = bool(request.session.get(CHECKED))  # this browser stays signed in as it was
    try:
        passwords.change(request, person, request.POST.get("old", ""), request.POST.get("password", ""))
    except Error as error:
        context["errors"] = {error.detail.get("field", "form"): error.message}
        return page(request, "access/join/password.html", context, status_of(error))
    response = enter(request, person, "a new password", checked=checked)
    messages.success(request, _("You have a new password. Your other browsers are signed out."))
    return response
