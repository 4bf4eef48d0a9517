"""Asks an identity provider who someone is, by OpenID Connect. allauth leads the browser there and fetches the tokens.

Nothing that a provider sends is trusted before its signature, issuer, audience and times are checked. Only pages import
this module, so that a project with `DjangoSessionService` need not install allauth's apps.
"""

from dataclasses import dataclass
from typing import Any, Final

import jwt
from allauth.socialaccount.adapter import get_adapter
from allauth.socialaccount.models import SocialApp, SocialLogin, SocialToken
from allauth.socialaccount.providers.base import ProviderException
from allauth.socialaccount.providers.oauth2.client import OAuth2Client, OAuth2Error
from allauth.socialaccount.providers.openid_connect.views import OpenIDConnectOAuth2Adapter
from django.conf import settings
from django.http import HttpRequest
from django.urls import reverse
from requests import RequestException

_LEEWAY: Final = 60  # seconds by which a provider's clock may differ
_SUBJECT_LENGTH: Final = 191  # allauth's column
_NAME_LENGTH: Final = 200  # longer than any account's
# Only algorithms with a public key: a shared secret, or none, would let others sign.
_ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
_REQUIRED: Final = ("iss", "sub", "aud", "exp", "iat")
_ADDRESSES: Final = ("authorization_endpoint", "token_endpoint", "jwks_uri")

Claims = dict[str, Any]


class Untrusted(ProviderException):  # type: ignore[misc]
    """A provider's answer that can't be trusted, with the reason for the log."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Someone at a provider. Only issuer and subject say who it is. `groups` are those of ADKWEB_OIDC_ROLES."""

    issuer: str
    subject: str
    name: str
    groups: frozenset[str]
    nonce: str = ""


def application() -> SocialApp:
    """Returns what the environment says about the provider, as allauth reads it."""
    return SocialApp(
        provider="openid_connect",
        provider_id=settings.OIDC_ISSUER,  # so that a person at another provider is not taken for a person at this one
        name=settings.OIDC_NAME,
        client_id=settings.OIDC_CLIENT_ID,
        secret=settings.OIDC_CLIENT_SECRET,
        settings={
            "server_url": settings.OIDC_ISSUER.rstrip("/"),
            "scope": settings.OIDC_SCOPES,
            "oauth_pkce_enabled": True,
        },
    )


class Protocol(OpenIDConnectOAuth2Adapter):  # type: ignore[misc]
    """OpenID Connect as allauth speaks it, with stricter checks of what comes back."""

    _config: Claims | None = None

    @property
    def openid_config(self) -> Claims:
        """Returns the provider's description of itself. Raises Untrusted and RequestException."""
        if self._config:
            return self._config
        config = self._json(self.get_provider().server_url)
        if str(config.get("issuer", "")).rstrip("/") != settings.OIDC_ISSUER.rstrip("/"):
            raise Untrusted(f"its configuration names another issuer: {config.get('issuer')!r}")
        if missing := [name for name in _ADDRESSES if not str(config.get(name, "")).startswith("http")]:
            raise Untrusted(f"its configuration lacks {', '.join(missing)}")
        self._config = config
        return config

    def get_callback_url(self, request: HttpRequest, app: SocialApp) -> str:
        """Returns where the provider sends the browser back to."""
        return request.build_absolute_uri(reverse("provider-callback"))

    def get_access_token_data(
        self, request: HttpRequest, app: SocialApp, client: OAuth2Client, pkce_code_verifier: str | None = None
    ) -> dict[str, str]:
        """Returns the two tokens that the provider gives for the code that the browser brought. Raises Untrusted."""
        try:
            sent = super().get_access_token_data(request, app, client, pkce_code_verifier)
            return {"access_token": str(sent["access_token"]), "id_token": str(sent["id_token"])}
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise Untrusted(f"it sent no tokens: {error!r}") from error

    def complete_login(self, request: HttpRequest, app: SocialApp, token: SocialToken, **kwargs: Any) -> SocialLogin:
        """Returns the sign-in, with the Identity in its `identity`. Raises Untrusted and RequestException."""
        claims = self._checked(kwargs["response"]["id_token"])
        if settings.OIDC_GROUPS_CLAIM not in claims and self.openid_config.get("userinfo_endpoint"):
            claims = self._more(token.token, str(claims["sub"])) | claims
        login = self.get_provider().sociallogin_from_response(request, {"sub": claims["sub"]})
        login.identity = _identity(claims)
        return login

    def _checked(self, token: str) -> Claims:
        """Returns the claims of an id token, after checking that it is the provider's, for adkweb, and current."""
        try:
            claims: Claims = jwt.decode(
                token,
                self._key(token),
                algorithms=_ALGORITHMS,
                audience=settings.OIDC_CLIENT_ID,
                issuer=self.openid_config["issuer"],
                leeway=_LEEWAY,
                options={"require": list(_REQUIRED)},
            )
        except jwt.PyJWTError as error:
            raise Untrusted(f"its id token is not valid: {error}") from error
        if claims.get("azp", settings.OIDC_CLIENT_ID) != settings.OIDC_CLIENT_ID:
            raise Untrusted("its id token was made for another program")
        if not 0 < len(claims["sub"]) <= _SUBJECT_LENGTH:
            raise Untrusted("its id token has no subject, or a very long one")
        return claims

    def _key(self, token: str) -> jwt.PyJWK:
        """Returns the provider's key that a token names; one that names none may only have the only one."""
        name, algorithm = jwt.get_unverified_header(token).get("kid"), jwt.get_unverified_header(token).get("alg")
        sent = self._json(self.openid_config["jwks_uri"])
        keys = [key for key in _list(sent.get("keys")) if isinstance(key, dict) and key.get("use", "sig") == "sig"]
        named = [key for key in keys if key.get("kid") == name] if name else keys
        if len(named) != 1 or algorithm not in _ALGORITHMS:
            raise Untrusted(f"its id token is signed by no key of its own: {name!r}, {algorithm!r}")
        # An RSA key may leave open how it signs.
        return jwt.PyJWK(named[0], named[0].get("alg") or algorithm)

    def _more(self, token: str, subject: str) -> Claims:
        """Returns what the provider says of the person beside the id token."""
        claims = self._json(self.profile_url, {"Authorization": f"Bearer {token}"})
        if claims.get("sub") != subject:
            raise Untrusted("its user info is about someone else")
        return claims

    def _json(self, address: str, headers: dict[str, str] | None = None) -> Claims:
        with get_adapter().get_requests_session() as session:
            response = session.get(address, headers=headers)
            response.raise_for_status()
            sent = response.json()
        if not isinstance(sent, dict):
            raise Untrusted(f"{address} is no JSON object")
        return sent


def fault() -> str:
    """Returns what is wrong with the provider's description of itself, for `adkweb doctor`, or ""."""
    try:
        Protocol(None, settings.OIDC_ISSUER).openid_config  # noqa: B018 - it is checked while it is read
    except (ProviderException, RequestException) as error:
        return str(error)[:300]
    return ""


def _identity(claims: Claims) -> Identity:
    texts = (claims.get(name) for name in ("preferred_username", "email", "sub"))
    name = next(text for text in texts if isinstance(text, str) and text.strip())
    groups = claims.get(settings.OIDC_GROUPS_CLAIM)
    groups = [groups] if isinstance(groups, str) else _list(groups)
    return Identity(
        settings.OIDC_ISSUER,
        claims["sub"],
        name.strip()[:_NAME_LENGTH],
        frozenset(group for group, _role, _apps in settings.OIDC_ROLES if group in groups),
        str(claims.get("nonce", "")),
    )


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


__all__ = ["Identity", "OAuth2Error", "Protocol", "ProviderException", "Untrusted", "application", "fault"]
