"""The second step of signing in: a passkey or a code, or the set-up where everybody needs one."""

from django.contrib import messages
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from ...access import lockout, passkeys, second_factor
from ...domain.errors import Error
from ..html.render import page
from .passkeys import creation_page
from .second_factor import missing_for_passkeys, set_up, set_up_context, slowed_down, too_many_codes
from .signin import enter


@never_cache
@login_not_required
@require_http_methods(["GET", "POST"])
def second_step(request: HttpRequest) -> HttpResponse:
    """Signs a person in who has given the right password before, and now uses a passkey or a code."""
    if request.user.is_authenticated:
        return redirect("home")
    waiting = second_factor.of(request)
    if waiting is None:
        if request.method == "POST":
            messages.error(request, _("That took too long. Sign in again."))
        return redirect("sign-in")
    if not second_factor.exists(waiting.person):
        return _set_up(request, waiting)
    if request.method == "GET":
        return _page(request, waiting.person, {})
    field = "credential" if "credential" in request.POST else "code"
    try:
        if field == "credential":
            passkeys.use(request, waiting.person, request.POST["credential"])
        else:
            second_factor.check(request, waiting.person, request.POST.get("code", ""))
    except Error as error:
        return _page(request, waiting.person, {field: error.message}, 403)
    except lockout.TryLater as later:
        return slowed_down(_page(request, waiting.person, {field: too_many_codes(later)}, 429), later)
    return enter(request, waiting.person, _how(waiting, field), waiting.next_page, checked=True)


def _set_up(request: HttpRequest, waiting: second_factor.Pending) -> HttpResponse:
    if request.method == "GET":
        return _first(request, waiting.person, {})
    field = "credential" if "credential" in request.POST else "code"
    try:
        if "name" in request.POST:
            return creation_page(request, waiting.person, reverse("second-step"))
        if field == "credential":
            codes = passkeys.add(request, waiting.person, request.POST["credential"])
        else:
            codes = second_factor.switch_on(waiting.person, request.session, request.POST.get("code", ""))
    except Error as error:
        return _first(request, waiting.person, {error.detail.get("field", "code"): error.message}, 403)
    enter(request, waiting.person, _how(waiting, field), checked=True)
    return set_up(request, codes, waiting.next_page)


def _how(waiting: second_factor.Pending, field: str) -> str:
    return f"{waiting.how} and a {'passkey' if field == 'credential' else 'code'}"


def _page(request: HttpRequest, person: User, errors: dict[str, str], status: int = 200) -> HttpResponse:
    elsewhere = sorted({passkey.host for passkey in passkeys.listed(request, person) if not passkey.here})
    context = {
        "errors": errors,
        "has_app": second_factor.has_app(person),
        "options": passkeys.begin_use(request, person),
        "elsewhere": elsewhere,
        **missing_for_passkeys(request),
    }
    return page(request, "access/second_step/second_step.html", context, status)


def _first(request: HttpRequest, person: User, errors: dict[str, str], status: int = 200) -> HttpResponse:
    context = {
        **set_up_context(request, person),
        **missing_for_passkeys(request),
        "errors": errors,
        "name": request.POST.get("name", ""),
        "max": passkeys.NAME_LENGTH,
    }
    return page(request, "access/second_step/first.html", context, status)
