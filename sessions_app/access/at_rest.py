"""Encrypts secrets that adkweb's own database keeps: those of second factors, and of servers of agents. The Adapter is
allauth's MFA_ADAPTER.

Someone who reads the table, or a backup of it, can't use them. The keys are derived from SECRET_KEY, one for each purpose.
"""

import base64
from typing import Final

from allauth.mfa.adapter import DefaultMFAAdapter
from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings
from django.contrib.auth.models import User
from django.utils.crypto import salted_hmac
from django.utils.translation import gettext as _

from ..domain.errors import Invalid

_SECOND_FACTOR: Final = "adkweb.second_factor"


class Adapter(DefaultMFAAdapter):  # type: ignore[misc]
    """Adapts allauth to adkweb: secrets of second factors are stored encrypted."""

    def get_totp_label(self, user: User) -> str:
        """Returns the name that an authenticator app shows."""
        return user.get_username()

    def encrypt(self, text: str) -> str:
        """Returns a text as it is stored."""
        return encrypted(text, _SECOND_FACTOR)

    def decrypt(self, encrypted_text: str) -> str:
        """Returns a text that was stored. Raises Invalid if the key was changed."""
        try:
            return decrypted(encrypted_text, _SECOND_FACTOR)
        except ValueError as error:
            raise Invalid(
                _("The second factor can't be read because the secret key was changed. An admin can reset it."),
                field="code",
            ) from error


def encrypted(text: str, purpose: str) -> str:
    """Returns a text as it is stored."""
    return _cipher(purpose).encrypt(text.encode()).decode()


def decrypted(text: str, purpose: str) -> str:
    """Returns a text that was stored. Raises ValueError if the key was changed."""
    try:
        return _cipher(purpose).decrypt(text.encode()).decode()
    except InvalidToken as error:
        raise ValueError from error


def _cipher(purpose: str) -> MultiFernet:
    """Returns the cipher that encrypts with the current key, and also decrypts with earlier ones."""
    keys = (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)
    digests = (salted_hmac(purpose, "at rest", secret=key, algorithm="sha256").digest() for key in keys)
    return MultiFernet([Fernet(base64.urlsafe_b64encode(digest)) for digest in digests])
