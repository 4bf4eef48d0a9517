"""Signing in and out, and the rule for other machines."""

from collections.abc import Callable
from typing import Any

from django.contrib.auth import login, logout
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.middleware import LoginRequiredMiddleware
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, resolve_url
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from .. import access
from .errors import answer
from .render import page


@never_cache
@login_not_required
@require_http_methods(["GET", "POST"])
def sign_in(request: HttpRequest) -> HttpResponse:
    """By the link that adkweb printed, once; by name and password where accounts exist."""
    next_page = _next_page(request)
    token = request.GET.get("token", "")
    person = access.redeem(token) if token else None  # used up by whoever opens it first, signed in or not
    if request.user.is_authenticated:
        return redirect(next_page)
    if person:
        login(request, person, backend="django.contrib.auth.backends.ModelBackend")
        return redirect(next_page)
    form = AuthenticationForm(request, request.POST or None)
    if request.method == "POST" and form.is_valid():
        login(request, form.get_user())
        return redirect(next_page)
    context = {"form": form, "spent": bool(token), "has_accounts": access.admin_exists(), "next": next_page}
    return page(request, "signin/sign_in.html", context, status=403 if token or form.is_bound else 200)


@require_POST
def sign_out(request: HttpRequest) -> HttpResponse:
    """Ends the browser's sign-in."""
    logout(request)
    return redirect("sign-in")


class SignInRequired(LoginRequiredMiddleware):
    """Asks for sign-in; what somebody typed into a page that is open stays there, so htmx gets the sentence alone."""

    def handle_no_permission(self, request: HttpRequest, view_func: Any) -> HttpResponse:  # type: ignore[override]
        """The way to the sign-in page, or the sentence."""
        if request.headers.get("HX-Request"):
            return answer(
                request, _("You are signed out; nothing was written. Sign in in another tab, then reload."), 403
            )
        return super().handle_no_permission(request, view_func)


class LoopbackUntilAdmin:
    """Answers only this machine's own browsers as long as nobody has an account with a password."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """The page, or the refusal."""
        if not access.is_loopback(request.META.get("REMOTE_ADDR", "")) and not access.admin_exists():
            return answer(
                request,
                _("Until an admin account exists, adkweb answers only on its own machine: adkweb createsuperuser"),
                403,
            )
        return self.get_response(request)


def _next_page(request: HttpRequest) -> str:
    wanted = request.POST.get("next") or request.GET.get("next") or ""
    safe = url_has_allowed_host_and_scheme(wanted, {request.get_host()}, require_https=request.is_secure())
    return wanted if safe else resolve_url("home")
