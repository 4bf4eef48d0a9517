"""The pages on which people add a passkey, and remove one."""

from typing import Any, cast

from django.contrib import messages
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from ...access import lockout, passwords
from ...access import passkeys as core
from ...access.sign_ins import CHECKED
from ...domain.errors import Error
from ...http.problems import status_of
from ..html.render import page
from .second_factor import missing_for_passkeys, set_up, slowed_down
from .signin import too_many_tries


@never_cache
@require_http_methods(["GET", "POST"])
def add_passkey(request: HttpRequest) -> HttpResponse:
    """Asks for a name and the password, then lets the browser make a key, and takes that."""
    person = cast(User, request.user)
    if request.method == "GET":
        return _form(request, {})
    try:
        if "credential" in request.POST:
            codes = core.add(request, person, request.POST["credential"])
        else:
            passwords.confirm(request, person, request.POST.get("old", ""))
            return creation_page(request, person, reverse("second-factor"))
    except Error as error:
        return _form(request, _errors(error), status_of(error))
    except lockout.TryLater as later:
        return slowed_down(_form(request, {"old": too_many_tries(later)}, 429), later)
    request.session[CHECKED] = True
    return set_up(request, codes, reverse("second-factor"))


@never_cache
@require_http_methods(["GET", "POST"])
def remove_passkey(request: HttpRequest, number: int) -> HttpResponse:
    """Removes a passkey. Asks for the password."""
    person = cast(User, request.user)
    passkey = core.get(request, person, number)
    context: dict[str, Any] = {"passkey": passkey, "has_password": person.has_usable_password()}
    if request.method == "GET":
        return page(request, "access/passkeys/remove.html", context)
    try:
        passwords.confirm(request, person, request.POST.get("old", ""))
        core.remove(person, number)
    except Error as error:
        context["error"] = error.message
        return page(request, "access/passkeys/remove.html", context, status_of(error))
    except lockout.TryLater as later:
        context["error"] = too_many_tries(later)
        return slowed_down(page(request, "access/passkeys/remove.html", context, 429), later)
    messages.success(request, _("The passkey “%(name)s” is removed.") % {"name": passkey.name})
    return redirect("second-factor")


def creation_page(request: HttpRequest, person: User, cancel: str) -> HttpResponse:
    """Shows the page on which the browser makes a key of the name that was sent. Raises Invalid and Conflict."""
    name = request.POST.get("name", "")
    context = {"options": core.begin_adding(request, person, name), "name": name.strip(), "cancel": cancel}
    return page(request, "access/passkeys/create.html", context)


def _form(request: HttpRequest, errors: dict[str, str], status: int = 200) -> HttpResponse:
    person = cast(User, request.user)
    context = {
        "errors": errors,
        "name": request.POST.get("name", ""),
        "has_password": person.has_usable_password(),
        "max": core.NAME_LENGTH,
        **missing_for_passkeys(request),
    }
    return page(request, "access/passkeys/add.html", context, status)


def _errors(error: Error) -> dict[str, str]:
    return {error.detail.get("field", "name"): error.message}
