"""The page on which people see their second factor, set up and remove an app, and get recovery codes."""

from typing import Any, cast

from django.contrib import messages
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.http.request import split_domain_port
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from ...access import lockout, passkeys, passwords
from ...access import second_factor as core
from ...access.sign_in import is_loopback
from ...access.sign_ins import CHECKED
from ...domain.errors import Error
from ...http.problems import status_of
from ..html.render import page
from .signin import too_many_tries


@never_cache
@require_http_methods(["GET", "POST"])
def second_factor(request: HttpRequest) -> HttpResponse:
    """Shows the person's second factor. A form with the app's first code switches it on."""
    person = cast(User, request.user)
    if request.method == "GET":
        return _page(request, {})
    try:
        codes = core.switch_on(person, request.session, request.POST.get("code", ""))
    except Error as error:
        return _page(request, {"code": error.message}, status_of(error))
    request.session[CHECKED] = True
    return set_up(request, codes, reverse("second-factor"))


@never_cache
@require_POST
def new_codes(request: HttpRequest) -> HttpResponse:
    """Gives the person other recovery codes. Asks for the password."""
    return _confirmed(request, "codes")


@never_cache
@require_POST
def remove(request: HttpRequest) -> HttpResponse:
    """Removes the person's app. Asks for the password."""
    return _confirmed(request, "remove")


def _confirmed(request: HttpRequest, field: str) -> HttpResponse:
    person = cast(User, request.user)
    try:
        passwords.confirm(request, person, request.POST.get("old", ""))
        if field == "codes":
            return codes_page(request, core.new_codes(person), reverse("second-factor"))
        core.remove_app(person)
    except Error as error:
        return _page(request, {field: error.message}, status_of(error))
    except lockout.TryLater as later:
        return slowed_down(_page(request, {field: too_many_tries(later)}, 429), later)
    messages.success(request, _("The app is removed."))
    return redirect("second-factor")


def set_up_context(request: HttpRequest, person: User) -> dict[str, Any]:
    """Returns what the form needs that sets up an app."""
    secret = core.offered(request.session)
    return {"secret": secret, "picture": core.picture(person, secret)}


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
    messages.success(request, _("It is set up. Your recovery codes stay as they are."))
    return redirect(next_page)


def slowed_down(response: HttpResponse, later: lockout.TryLater) -> HttpResponse:
    """Returns an answer that also says to programs when the next try is allowed."""
    response["Retry-After"] = str(later.seconds)
    return response


def codes_page(request: HttpRequest, codes: list[str], next_page: str) -> HttpResponse:
    """Shows recovery codes, the only time."""
    response = page(request, "access/second_factor/codes.html", {"codes": codes, "next": next_page})
    response["Cache-Control"] = "private, no-store"
    return response


def too_many_codes(later: lockout.TryLater) -> str:
    """Says when the next code or passkey may be tried."""
    return ngettext(
        "Too many tries were wrong. Try again in %(n)s second.",
        "Too many tries were wrong. Try again in %(n)s seconds.",
        later.seconds,
    ) % {"n": later.seconds}


def _page(request: HttpRequest, errors: dict[str, str], status: int = 200) -> HttpResponse:
    person = cast(User, request.user)
    context: dict[str, Any] = {"errors": errors, "has_password": person.has_usable_password()}
    context |= {"is_on": core.exists(person), "has_app": core.has_app(person), "left": core.codes_left(person)}
    context |= {"passkeys": passkeys.listed(request, person), **missing_for_passkeys(request)}
    if not context["has_app"]:
        context |= set_up_context(request, person)
    return page(request, "access/second_factor/second_factor.html", context, status)
