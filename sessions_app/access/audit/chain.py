"""Hashes and seals rows (pure, except for adkweb's key).

The digest of a row is SHA-256 over its canonical JSON, which contains the digest of the row before it. Anybody can compute
it. The seal is an HMAC of the digest with a key that follows from ADKWEB_SECRET_KEY: who can only write to the database
cannot make one.
"""

import hashlib
import hmac
import json
from typing import Any, Final

from django.conf import settings
from django.utils.crypto import salted_hmac

from ...models import AuditRow

BEGINNING: Final = "0" * 64  # what the first row follows
HASHED: Final = (
    "number", "at", "act", "by", "address", "source", "app_name", "user_id", "session_id", "detail", "previous",
)  # fmt: skip
_SALT: Final = "adkweb.audit"


def digest_of(row: AuditRow) -> str:
    """Returns the digest that a row must have."""
    return hashlib.sha256(canonical([getattr(row, name) for name in HASHED]).encode()).hexdigest()


def canonical(value: Any) -> str:
    """Returns the one JSON text of a value: sorted keys, no spaces, ASCII only."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def seal_of(digest: str, key: str | None = None) -> str:
    """Returns the seal of a digest, by this adkweb's key or by another."""
    return salted_hmac(_SALT, digest, secret=key or settings.SECRET_KEY, algorithm="sha256").hexdigest()


def is_sealed(row: AuditRow) -> bool:
    """Tells whether a row bears a seal of this adkweb: of its key, or of one that it had before."""
    keys = (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)
    return any(hmac.compare_digest(seal_of(row.digest, key), str(row.seal)) for key in keys)
