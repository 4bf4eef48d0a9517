"""Signing in and out, and the rule that only this machine is answered before there is a password."""

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar, cast

from django import forms
from django.conf import settings
from django.contrib.auth import login, logout
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.middleware import LoginRequiredMiddleware
from django.contrib.auth.models import User
from django.core.exceptions import NON_FIELD_ERRORS, ValidationError
from django.db import transaction
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.deprecation import MiddlewareMixin
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from ...access import lockout, passwords, second_factor, sign_ins
from ...access import sign_in as access_sign_in
from ...access.audit import refusals
from ...access.audit.record import record
from ...access.sign_ins import CHECKED, SessionStore
from ...domain.errors import TooOften
from ..errors import answer
from ..forms import Form, Text, act
from ..html.render import page
from ..session.page import PANE

log = logging.getLogger("adkweb.sign_in")

T = TypeVar("T")

_TOO_OFTEN: Final = "too-often"


@never_cache
@login_not_required
@require_http_methods(["GET", "POST"])
def sign_in(request: HttpRequest) -> HttpResponse:
    """Signs in with the one-time link that adkweb printed, or with a name and password."""
    form = SignInForm(request, request.POST or None)  # a form of Django's, which is made so
    wanted = own_page(request, form["next"].value() or request.GET.get("next"))
    token = request.GET.get("token", "")
    person = None
    if token:
        with transaction.atomic():  # the link is not used up if the sign-in cannot be recorded
            person = access_sign_in.redeem(token)  # whoever opens it first uses it up, signed in or not
            if person and not request.user.is_authenticated:
                return enter(request, person, "the link", wanted, checked=True)
    if request.user.is_authenticated:
        return HttpResponseRedirect(wanted)
    if token and person is None:
        refusals.note("sign-in-failed", "", "link")
    if request.method == "POST" and form.is_valid():
        return sign_person_in(request, form.get_user(), "password", wanted)
    context = {"form": form, "spent": bool(token), "has_accounts": access_sign_in.admin_exists(), "next": wanted}
    context["provider"] = settings.OIDC_NAME
    refused = 429 if form.has_error(NON_FIELD_ERRORS, _TOO_OFTEN) else 403
    return page(request, "access/signin/sign_in.html", context, refused if token or form.is_bound else 200)


class SignInForm(AuthenticationForm):
    """The form for a name and a password, and the page that was wanted."""

    next = forms.CharField(required=False)

    def clean(self) -> dict[str, Any]:
        """Checks the password, or raises ValidationError."""
        name, password = self.cleaned_data.get("username"), self.cleaned_data.get("password")
        if name and password:
            try:
                self.user_cache = lockout.person_of(cast(HttpRequest, self.request), name, password)
            except TooOften as error:
                raise ValidationError(error.message, _TOO_OFTEN) from error
            if self.user_cache is None:
                raise self.get_invalid_login_error()
        return self.cleaned_data


class ConfirmForm(Form):
    """Asks whoever is signed in for their password again, if they have one."""

    old = Text(
        label=gettext_lazy("Current password"),
        widget=forms.PasswordInput,
        needed=True,
        attrs={"autocomplete": "current-password"},
    )

    def __init__(self, data: Mapping[str, Any] | None = None, *, person: User, **options: Any) -> None:
        super().__init__(data, **options)
        if not person.has_usable_password():
            del self.fields["old"]


def confirmed(request: HttpRequest, do: Callable[[], T], **options: Any) -> tuple[ConfirmForm, T | None, int]:
    """Does something for whoever repeats their password. Returns the form, and what `act` returns."""
    person = cast(User, request.user)
    form = ConfirmForm.of(request, person=person, **options)

    def check_and_do(given: dict[str, Any]) -> T:
        passwords.confirm(request, person, **given)
        return do()

    return form, *act(form, check_and_do)


def sign_person_in(request: HttpRequest, person: User, how: str, wanted: str = "/") -> HttpResponse:
    """Signs a person in, and leads to a page; or to the second step, if they need one."""
    if second_factor.is_asked(person):
        second_factor.begin(request, person, how, wanted)
        return redirect("second-step")
    return enter(request, person, how, wanted, checked=False)


def enter(request: HttpRequest, person: User, how: str, wanted: str = "/", *, checked: bool) -> HttpResponse:
    """Signs a person in, and leads to a page. `checked` says that they need not show a second factor any more."""
    second_factor.end(request)
    record("sign-in", person.get_username(), how=how)
    login(request, person, backend="django.contrib.auth.backends.ModelBackend")
    sign_ins.note(request)
    request.session[CHECKED] = checked
    SessionStore.clear_expired()
    log.info("%s signed in by %s from %s", person.get_username(), how, request.META.get("REMOTE_ADDR", ""))
    return HttpResponseRedirect(wanted)


@require_POST
def sign_out(request: HttpRequest) -> HttpResponse:
    """Signs the browser out."""
    record("sign-out", request.user.get_username())
    log.info("%s signed out from %s", request.user.get_username(), request.META.get("REMOTE_ADDR", ""))
    logout(request)
    return redirect("sign-in")


class SignInRequired(LoginRequiredMiddleware):
    """Redirects to the sign-in page. htmx and panes get a sentence instead, so that what was typed into an open page
    stays there."""

    def handle_no_permission(self, request: HttpRequest, view_func: Any) -> HttpResponse:  # type: ignore[override]
        """Redirects to the sign-in page, or answers with the sentence."""
        if request.headers.get("HX-Request") or PANE in request.headers:
            return answer(
                request,
                _(
                    "You have been signed out, and nothing was saved. Sign in again in another tab, then reload "
                    "this page."
                ),
                403,
            )
        return super().handle_no_permission(request, view_func)


class LoopbackUntilAdmin(MiddlewareMixin):
    """Answers only browsers on this machine until somebody has an account with a password.

    Anybody may ask whether adkweb is alive and ready: it is asked by whoever starts it, before there is an account.
    """

    probes: Final = ("/health", "/ready")

    def process_request(self, request: HttpRequest) -> HttpResponse | None:
        """Returns the refusal, if there is one."""
        near = request.path in self.probes or access_sign_in.is_loopback(request.META.get("REMOTE_ADDR", ""))
        if not near and not access_sign_in.anybody_can():
            return answer(
                request,
                _(
                    "adkweb only responds to requests from its own machine until an admin account exists. To "
                    "create one, run: adkweb createsuperuser"
                ),
                403,
            )
        return None


def own_page(request: HttpRequest, wanted: str | None) -> str:
    """Returns the page that was wanted before the sign-in, if it is one of adkweb's, or home."""
    wanted = wanted or ""
    safe = url_has_allowed_host_and_scheme(wanted, {request.get_host()}, require_https=request.is_secure())
    return wanted if safe and wanted.startswith("/") else reverse("home")
