"""Signing in by the identity provider, and connecting an account with who its person is there."""

import logging
import secrets
import time
from typing import Any, Final, cast

from allauth.core.exceptions import ImmediateHttpResponse
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter, get_adapter
from allauth.socialaccount.providers.base import AuthError, AuthProcess
from allauth.socialaccount.providers.oauth2.views import OAuth2CallbackView
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST
from requests import RequestException

from ...access import identities, oidc
from ...access.audit import refusals
from ...access.oidc import Identity
from ...domain.errors import AlreadyExists, Conflict, Invalid, NotAllowed, NotFound
from ...http.problems import status_of
from ..html.render import page
from .signin import ConfirmForm, confirmed, own_page, sign_person_in

log = logging.getLogger("adkweb.sign_in")

_SECONDS: Final = 10 * 60  # for a sign-in at the provider, and to answer whether to connect
_RETRY_SECONDS: Final = 5
_PENDING: Final = "identity"
_FAILURES: Final = (oidc.OAuth2Error, oidc.ProviderException, RequestException)


# A link leads here and no form, because the policy of pages lets no form end at another server. Who is led here by another
# site only arrives at their own provider.
@never_cache
@login_not_required
@require_GET
def begin(request: HttpRequest) -> HttpResponse:
    """Sends the browser to the provider, which sends it back to `callback`."""
    provider = _provider(request)
    nonce = secrets.token_urlsafe(24)
    if not request.user.is_authenticated:
        request.session.end_within(_SECONDS)  # type: ignore[attr-defined]
    try:
        response: HttpResponse = provider.redirect(
            request,
            AuthProcess.LOGIN,
            own_page(request, request.GET.get("next")),
            auth_params={"nonce": nonce},
            nonce=nonce,
        )
    except _FAILURES as error:
        return _failed(request, error)
    return response


@never_cache
@login_not_required
@require_GET
def callback(request: HttpRequest) -> HttpResponse:
    """Signs in whoever comes back from the provider. Somebody who is signed in already is asked whether to connect."""
    protocol = _provider(request).get_oauth2_adapter(request)
    try:
        response: HttpResponse = OAuth2CallbackView.adapter_view(protocol)(request)
    except _FAILURES as error:
        return _failed(request, error)
    return response


@never_cache
@require_POST
def connect(request: HttpRequest) -> HttpResponse:
    """Connects the account of who is signed in with who they are at the provider. It takes the account's password."""
    if not settings.OIDC_ISSUER:
        raise NotFound(_("This page doesn't exist."))
    person = cast(User, request.user)
    identity = _pending(request)
    form, _done, status = confirmed(request, lambda: identities.connect(person, identity), focus="old")
    if not form.is_valid():
        return _ask(request, identity, form, status)
    del request.session[_PENDING]
    messages.success(request, _("You can now also sign in with %(provider)s.") % {"provider": settings.OIDC_NAME})
    return redirect("home")


class Accounts(DefaultSocialAccountAdapter):  # type: ignore[misc]
    """Decides for allauth: it leads to the provider and back, and adkweb says who that is. This is SOCIALACCOUNT_ADAPTER."""

    def list_apps(self, request: HttpRequest, provider: str | None = None, client_id: str | None = None) -> list[Any]:
        """Returns the one provider that the environment names."""
        return [oidc.application()]

    def pre_social_login(self, request: HttpRequest, sociallogin: Any) -> None:
        """Answers a sign-in that the provider vouches for. allauth does nothing after this."""
        raise ImmediateHttpResponse(_finish(request, sociallogin.identity, sociallogin.state))

    def on_authentication_error(
        self,
        request: HttpRequest,
        provider: Any,
        error: Any = None,
        exception: Exception | None = None,
        extra_context: dict[str, Any] | None = None,
    ) -> None:
        """Answers a sign-in that failed."""
        if error == AuthError.CANCELLED:
            raise ImmediateHttpResponse(_refused(request, _("You cancelled the sign-in."), 403))
        if exception is None and "state_id" in (extra_context or {}):
            message = _("This sign-in wasn't started in this browser, or has expired. Start again.")
            raise ImmediateHttpResponse(_refused(request, message, 403))
        raise ImmediateHttpResponse(_failed(request, exception or oidc.Untrusted(request.GET.get("error", ""))))


def _provider(request: HttpRequest) -> Any:
    if not settings.OIDC_ISSUER:
        raise NotFound(_("This page doesn't exist."))
    provider = get_adapter(request).get_provider(request, settings.OIDC_ISSUER)
    provider.oauth2_adapter_class = oidc.Protocol
    return provider


def _finish(request: HttpRequest, identity: Identity, state: dict[str, Any]) -> HttpResponse:
    if not secrets.compare_digest(identity.nonce.encode(), str(state.get("nonce")).encode()):
        return _failed(request, oidc.Untrusted("its id token is of another sign-in"))
    if request.user.is_authenticated and not identities.is_known(identity):
        fields = [identity.issuer, identity.subject, identity.name, sorted(identity.groups)]
        request.session[_PENDING] = [time.time(), *fields]
        return _ask(request, identity)
    try:
        person = identities.person_of(identity)
    except (AlreadyExists, Conflict, Invalid, NotAllowed) as error:
        refusals.note("sign-in-failed", "", f"{identity.name} by {settings.OIDC_NAME}")
        log.warning("%r could not sign in by %s: %s", identity.name[:200], settings.OIDC_NAME, error.message)
        return _refused(request, error.message, status_of(error))
    request.session.flush()
    return sign_person_in(request, person, settings.OIDC_NAME, state.get("next") or reverse("home"))


def _pending(request: HttpRequest) -> Identity:
    """Returns who somebody is at the provider, from where they have just come. Raises NotFound."""
    began, issuer, subject, name, groups = request.session.get(_PENDING) or [0.0, "", "", "", []]
    if issuer != settings.OIDC_ISSUER or time.time() - began > _SECONDS:
        raise NotFound(_("This sign-in wasn't started in this browser, or has expired. Start again."))
    return Identity(issuer, subject, name, frozenset(groups))


def _ask(request: HttpRequest, identity: Identity, form: ConfirmForm | None = None, status: int = 200) -> HttpResponse:
    form = form or ConfirmForm.of(request, person=cast(User, request.user), focus="old")
    context = {"provider": settings.OIDC_NAME, "name": identity.name, "form": form}
    return page(request, "access/provider/connect.html", context, status)


def _failed(request: HttpRequest, error: Exception) -> HttpResponse:
    """Answers that the provider did not answer, or not as it should. The log says why."""
    log.warning("a sign-in by %s failed: %.300r", settings.OIDC_NAME, error)
    names = {"provider": settings.OIDC_NAME}
    if not isinstance(error, RequestException):
        refusals.note("sign-in-failed", "", settings.OIDC_NAME)
        message = _("%(provider)s didn't confirm who you are. Try again, or see adkweb's log for the reason.")
        return _refused(request, message % names, 403)
    message = _("%(provider)s isn't answering. Try again in a moment, or sign in another way.")
    response = _refused(request, message % names, 503)
    response["Retry-After"] = str(_RETRY_SECONDS)
    return response


def _refused(request: HttpRequest, message: str, status: int) -> HttpResponse:
    return page(request, "access/provider/refused.html", {"message": message, "provider": settings.OIDC_NAME}, status)
