"""Keeps the second factor of a person: an app that shows a new code each half minute, and recovery codes. Passkeys, in
passkeys.py, are one as well.

    codes = second_factor.switch_on(person, second_factor.offered(request.session), "123456")
    second_factor.check(request, person, "654321")

Secrets are in allauth's table, encrypted by at_rest.py. A code works once, whatever process it is sent to.
"""

import base64
import hmac
import logging
import re
import secrets
import time
from dataclasses import dataclass
from typing import Any, Final

import qrcode
from allauth.mfa.adapter import get_adapter
from allauth.mfa.models import Authenticator
from cryptography.hazmat.primitives.hashes import SHA1
from cryptography.hazmat.primitives.twofactor.totp import TOTP
from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.crypto import constant_time_compare
from django.utils.translation import gettext as _

from ..domain.errors import AlreadyExists, Conflict, Invalid
from . import lockout
from .audit.record import record

log = logging.getLogger("adkweb.sign_in")

_APP: Final = Authenticator.Type.TOTP
_RECOVERY: Final = Authenticator.Type.RECOVERY_CODES
_FACTORS: Final = (_APP, Authenticator.Type.WEBAUTHN)
_PERIOD: Final = 30  # seconds for which an app shows a code; all apps know this time, six digits and SHA-1
_RECOVERY_CODES: Final = 10
_LAST: Final = "last"  # in the data of the app: the number of the half minute whose code was used last
_OFFERED: Final = "second_factor_offered"


def exists(person: User) -> bool:
    """Returns whether a person has a second factor."""
    return _rows(person).filter(type__in=_FACTORS).exists()


def has_app(person: User) -> bool:
    """Returns whether a person has an app that shows codes."""
    return _rows(person).filter(type=_APP).exists()


def is_asked(person: User) -> bool:
    """Returns whether a person needs more than a password to sign in: they have a second factor, or everyone needs
    one."""
    return settings.REQUIRE_SECOND_FACTOR or exists(person)


def offered(session: Any) -> str:
    """Returns the secret that this browser is offered for an app. It stays the same until it is switched on."""
    adapter = get_adapter()
    if _OFFERED not in session:
        session[_OFFERED] = adapter.encrypt(base64.b32encode(secrets.token_bytes(20)).decode())
    return str(adapter.decrypt(session[_OFFERED]))


def picture(person: User, secret: str) -> tuple[int, str]:
    """Returns what an app's camera reads: how many squares a QR code is wide and high, and the path of the dark
    ones."""
    code = qrcode.QRCode(border=4)
    code.add_data(get_adapter().build_totp_url(person, secret))
    rows = code.get_matrix()
    dark = (f"M{x} {y}h1v1h-1z" for y, row in enumerate(rows) for x, is_dark in enumerate(row) if is_dark)
    return len(rows), "".join(dark)


def switch_on(person: User, session: Any, code: str) -> list[str]:
    """Gives a person the app that this browser was offered, and returns recovery codes, if they had none.

    Raises Invalid if the app shows another code, and AlreadyExists if the person has an app.
    """
    secret = offered(session)
    number = _number_of(secret, _plain(code))
    if number is None:
        raise Invalid(_("This code is wrong. Check the time on both devices and try the next code."), field="code")
    try:
        with transaction.atomic():
            record("second-factor-set", person.get_username())
            stored = {"secret": get_adapter().encrypt(secret), _LAST: number}
            Authenticator.objects.create(user=person, type=_APP, data=stored)
            codes = first_codes(person)
    except IntegrityError as error:
        raise AlreadyExists(_("You already have an authenticator app."), field="code") from error
    session.pop(_OFFERED, None)
    log.info("%s set up a second factor", person.get_username())
    return codes


def check(request: HttpRequest, person: User, code: str) -> None:
    """Uses up a code of a person's app, or a recovery code. Raises Invalid if it is wrong or was used, and TooOften."""
    name = person.get_username()
    tried = lockout.begin(request, "code", name)
    code = _plain(code)
    if not (_uses_app(person, code) or _uses_recovery(person, code)):
        log.warning("%s: a wrong code from %s", name, request.META.get("REMOTE_ADDR", ""))
        record("sign-in-failed", name, how="code")
        raise Invalid(_("This code is wrong or has already been used. Wait for the next one."), field="code")
    lockout.succeeded(tried)


def codes_left(person: User) -> int:
    """Returns how many recovery codes a person has not used."""
    row = _rows(person).filter(type=_RECOVERY).first()
    try:
        return len(row.wrap().get_unused_codes()) if row else 0
    except Invalid:  # the secret key was changed, and no one can use them
        return 0


def new_codes(person: User) -> list[str]:
    """Returns new recovery codes; the old ones stop working. Raises Conflict without a second factor."""
    if not exists(person):
        raise Conflict(_("You don't have a second factor."))
    with transaction.atomic():
        record("second-factor-set", person.get_username(), what="recovery codes")
        return _new_codes(person)


def first_codes(person: User) -> list[str]:
    """Returns recovery codes for someone's first second factor, which cannot be read again; none if they have some."""
    return [] if _rows(person).filter(type=_RECOVERY).exists() else _new_codes(person)


def remove_app(person: User) -> None:
    """Removes a person's app, as they wish. Raises Conflict if they have none, or if everyone needs it."""
    row = _rows(person).filter(type=_APP).first()
    if row is None:
        raise Conflict(_("You don't have an authenticator app."))
    remove(person, row)


def remove(person: User, row: Authenticator, **detail: Any) -> None:
    """Removes an app or a passkey, and with the last one the recovery codes. Raises Conflict if everyone needs one."""
    with transaction.atomic():
        rows = list(_rows(person).select_for_update().filter(type__in=_FACTORS))
        is_last = rows == [row]
        if is_last and settings.REQUIRE_SECOND_FACTOR:
            raise Conflict(
                _(
                    "adkweb requires a second factor for everyone, so you can't remove your last one. "
                    "An admin can reset it."
                )
            )
        record("second-factor-removed", person.get_username(), name=person.get_username(), **detail)
        if is_last:
            _rows(person).delete()
        else:
            row.delete()
    log.info("%s removed a second factor", person.get_username())


def reset(person: User, *, by: str) -> None:
    """Removes a person's second factor and recovery codes."""
    with transaction.atomic():
        record("second-factor-removed", by, name=person.get_username())
        _rows(person).delete()
    log.info("%s removed the second factor of %s", by, person.get_username())


def _rows(person: User) -> QuerySet[Any]:
    rows: QuerySet[Any] = Authenticator.objects.filter(user_id=person.pk)
    return rows


def _new_codes(person: User) -> list[str]:
    """Stores new recovery codes as allauth documents it for codes that another program made."""
    _rows(person).filter(type=_RECOVERY).delete()
    codes = [f"{secrets.randbelow(10**8):08}" for _code in range(_RECOVERY_CODES)]
    stored = {"migrated_codes": [get_adapter().encrypt(code) for code in codes]}
    Authenticator.objects.create(user=person, type=_RECOVERY, data=stored)
    return codes


def _plain(code: str) -> str:
    """Returns the digits of a code, which people also type with spaces; "" if it isn't one."""
    digits = re.sub(r"[\s-]", "", code[:100])
    return digits if re.fullmatch("[0-9]{6,8}", digits) else ""


def _number_of(secret: str, code: str) -> int | None:
    """Returns the number of the half minute in which an app shows a code: the current one, or one next to it."""
    app = TOTP(base64.b32decode(secret), 6, SHA1(), _PERIOD)  # noqa: S303 - what apps compute; HMAC does not need more
    present = int(time.time()) // _PERIOD
    beside = (present - 1, present, present + 1)
    return next((n for n in beside if hmac.compare_digest(app.generate(n * _PERIOD), code.encode())), None)


def _uses_app(person: User, code: str) -> bool:
    with transaction.atomic():
        row = _rows(person).select_for_update().filter(type=_APP).first()
        if row is None:
            return False
        number = _number_of(get_adapter().decrypt(row.data["secret"]), code)
        if number is None or number <= row.data.get(_LAST, 0):
            return False
        row.data[_LAST], row.last_used_at = number, timezone.now()
        row.save(update_fields=["data", "last_used_at"])
    return True


def _uses_recovery(person: User, code: str) -> bool:
    with transaction.atomic():  # of two processes that are sent the same code, one accepts it
        row = _rows(person).select_for_update().filter(type=_RECOVERY).first()
        return row is not None and bool(code) and bool(row.wrap().validate_code(code))


# --- Who has given the right password, and still has to show the second factor ----------------------------------------

SECONDS: Final = 600.0  # between the password and the code
_KEY: Final = "pending"


@dataclass(frozen=True, slots=True)
class Pending:
    """A person in the middle of signing in: how they started, and where they want to go."""

    person: User
    how: str
    next_page: str


def begin(request: HttpRequest, person: User, how: str, next_page: str) -> None:
    """Notes that a person has passed the first step."""
    request.session.cycle_key()
    request.session[_KEY] = {
        "person": person.pk,
        "hash": person.get_session_auth_hash(),
        "how": how,
        "next": next_page,
        "until": time.time() + SECONDS,
    }


def of(request: HttpRequest) -> Pending | None:
    """Returns who is in the middle of signing in. None if that took too long, or the account was changed in the
    meantime."""
    note = request.session.get(_KEY)
    if note is None or note["until"] < time.time():
        return None
    person = get_user_model().objects.filter(pk=note["person"], is_active=True).first()
    if person is None or not constant_time_compare(note["hash"], person.get_session_auth_hash()):
        return None
    return Pending(person, note["how"], note["next"])


def end(request: HttpRequest) -> None:
    """Forgets who it was."""
    request.session.pop(_KEY, None)
