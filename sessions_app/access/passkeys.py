"""Keeps the passkeys of people: keys in a phone, a computer or a security key, which sign what adkweb asks. A second
factor.

    options = passkeys.begin_adding(request, person, "Phone")  # JSON, with which the browser makes a key
    codes = passkeys.add(request, person, answer)
    options = passkeys.begin_use(request, person)
    passkeys.use(request, person, answer)

A passkey works at the host where it was made. A challenge works once, for some minutes, in one browser. Passkeys are in
allauth's table; fido2 checks them.
"""

import ipaddress
import json
import logging
import time
from typing import Any, Final, cast

from allauth.mfa.models import Authenticator
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest
from django.http.request import split_domain_port
from django.utils import timezone
from django.utils.crypto import salted_hmac
from django.utils.translation import gettext as _
from fido2.cose import CoseKey
from fido2.server import Fido2Server
from fido2.webauthn import (
    AttestedCredentialData,
    AuthenticationResponse,
    PublicKeyCredentialRpEntity,
    PublicKeyCredentialUserEntity,
    RegistrationResponse,
    ResidentKeyRequirement,
    UserVerificationRequirement,
)

from ..domain.errors import AlreadyExists, Conflict, Invalid, NotFound
from . import lockout, second_factor
from .audit.record import record
from .groups import checked_name

log = logging.getLogger("adkweb.sign_in")

SECONDS: Final = 300.0  # between a challenge and its answer
NAME_LENGTH: Final = 100
MOST: Final = 20  # of one person
_LONGEST: Final = 50_000  # characters of a browser's answer
_NOTE: Final = "passkey"  # in the browser's session: the challenge that waits
_VERIFICATION: Final = UserVerificationRequirement.PREFERRED  # by a finger, a face or a PIN


def obstacle(request: HttpRequest) -> str:
    """Returns what this address lacks for browsers to use passkeys: a host's "name", "https", or "" for nothing."""
    host = _host(request)
    if host == "localhost" or host.endswith(".localhost"):
        return ""
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return "" if request.is_secure() else "https"
    return "name"


def listed(person: User) -> QuerySet[Any]:
    """Returns a person's passkeys, the oldest first. Their `data` has the `name`, and the `host` where each was
    made."""
    return _rows(person).order_by("pk")


def is_good(request: HttpRequest, row: Any) -> bool:
    """Returns whether a passkey works at the address that the person uses."""
    return bool(row.data["host"] == _host(request)) and not obstacle(request)


def get(person: User, number: int) -> Any:
    """Returns one of a person's passkeys. Raises NotFound."""
    row = _rows(person).filter(pk=number).first()
    if row is None:
        raise NotFound(_("You don't have a passkey with this id."))
    return row


def begin_adding(request: HttpRequest, person: User, name: str) -> str:
    """Returns the options with which the browser makes a key of this name. Raises Invalid and Conflict."""
    name = checked_name(name, _("Enter a name for the passkey."), NAME_LENGTH)
    if obstacle(request):
        raise Invalid(_("Browsers don't support passkeys at this address."), field="name")
    rows = list(_rows(person))
    if len(rows) >= MOST:
        raise Conflict(
            _("You've reached the maximum of %(n)s passkeys. Remove one first.") % {"n": len(rows)}, field="name"
        )
    options, state = _server(request).register_begin(
        PublicKeyCredentialUserEntity(
            id=_handle(person), name=person.get_username(), display_name=person.get_username()
        ),
        [_key(row) for row in rows],  # the browser refuses to make another one in the same device
        resident_key_requirement=ResidentKeyRequirement.PREFERRED,
        user_verification=_VERIFICATION,
    )
    _remember(request, person, "add", state, name)
    return json.dumps(dict(options)["publicKey"])


def add(request: HttpRequest, person: User, answer: str) -> list[str]:
    """Gives a person the key that the browser made, and returns recovery codes, if they had none.

    Raises Invalid for an answer that fits no challenge, and AlreadyExists for a key that someone has.
    """
    note = _challenge(request, person, "add")
    made = _made(_server(request), note["state"], answer)
    credential = {"id": made["id"], "rawId": made["rawId"], "type": "public-key", "response": dict(made.response)}
    auth_data = made.response.attestation_object.auth_data
    with transaction.atomic():
        if _all_rows().filter(data__id=made["id"]).exists():
            raise AlreadyExists(_("This passkey has already been added."), field="name")
        record("second-factor-set", person.get_username(), what="passkey", passkey=note["name"])
        stored = {"id": made["id"], "name": note["name"], "host": _host(request), "count": auth_data.counter}
        Authenticator.objects.create(
            user=person, type=Authenticator.Type.WEBAUTHN, data={**stored, "credential": credential}
        )
        codes = second_factor.first_codes(person)
    log.info("%s added a passkey", person.get_username())
    return codes


def begin_use(request: HttpRequest, person: User) -> str:
    """Returns the options with which the browser asks for one of a person's passkeys; "" if none works here."""
    rows = [row for row in _rows(person) if is_good(request, row)]
    if not rows:
        return ""
    options, state = _server(request).authenticate_begin([_key(row) for row in rows], user_verification=_VERIFICATION)
    _remember(request, person, "use", state)
    return json.dumps(dict(options)["publicKey"])


def use(request: HttpRequest, person: User, answer: str) -> None:
    """Uses up a challenge that one of a person's passkeys has signed. Raises Invalid if it is refused, and TooOften."""
    name = person.get_username()
    tried = lockout.begin(request, "code", name)
    try:
        note = _challenge(request, person, "use")
        with transaction.atomic():  # of two processes that are sent the same answer, one accepts it
            _use(_server(request), list(_rows(person).select_for_update()), note["state"], answer)
    except Invalid as error:
        why = error.detail["why"]
        log.warning("%s: a passkey was refused (%a) from %s", name, why, request.META.get("REMOTE_ADDR", ""))
        record("sign-in-failed", name, how="passkey", why=why)
        raise
    lockout.succeeded(tried)


def remove(person: User, number: int) -> None:
    """Removes a passkey, as its person wishes. Raises NotFound, and Conflict if everyone needs one and it is the
    last."""
    row = get(person, number)
    second_factor.remove(person, row, what="passkey", passkey=row.data["name"])


def _all_rows() -> QuerySet[Any]:
    rows: QuerySet[Any] = Authenticator.objects.filter(type=Authenticator.Type.WEBAUTHN)
    return rows


def _rows(person: User) -> QuerySet[Any]:
    return _all_rows().filter(user_id=person.pk)


def _key(row: Any) -> AttestedCredentialData:
    made: RegistrationResponse = RegistrationResponse.from_dict(row.data["credential"])
    return cast(AttestedCredentialData, made.response.attestation_object.auth_data.credential_data)


def _host(request: HttpRequest) -> str:
    return split_domain_port(request.get_host())[0]


def _handle(person: User) -> bytes:
    """Returns the id by which devices know a person. Another adkweb on this host has other ids, or one would replace
    the other's passkeys."""
    return salted_hmac("adkweb.passkeys", str(person.pk), algorithm="sha256").digest()


# --- Challenges -------------------------------------------------------------------------------------------------------


def _remember(request: HttpRequest, person: User, what: str, state: Any, name: str = "") -> None:
    until = time.time() + SECONDS
    request.session[_NOTE] = {"what": what, "person": person.pk, "state": state, "name": name, "until": until}


def _challenge(request: HttpRequest, person: User, what: str) -> dict[str, Any]:
    """Returns the challenge that waits in this browser, and forgets it."""
    note: dict[str, Any] | None = request.session.pop(_NOTE, None)
    if note is None or (note["what"], note["person"]) != (what, person.pk) or note["until"] < time.time():
        raise Invalid(
            _("This took too long, or was already done in another tab. Try again."),
            field="name",
            why="no challenge waits",
        )
    return note


def _server(request: HttpRequest) -> Fido2Server:
    """Returns the object that makes challenges and checks answers for exactly the address that the person uses."""
    origin = f"{request.scheme}://{request.get_host()}".lower()
    server = Fido2Server(
        PublicKeyCredentialRpEntity(id=_host(request), name="adkweb"), verify_origin=lambda given: given == origin
    )
    server.timeout = int(SECONDS * 1000)  # type: ignore[assignment]
    return server


# --- Answers ----------------------------------------------------------------------------------------------------------


def _made(server: Fido2Server, state: Any, answer: str) -> RegistrationResponse:
    try:
        response: RegistrationResponse = RegistrationResponse.from_dict(_parsed(answer))
        key = server.register_complete(state, response).credential_data
        if response.response.client_data.cross_origin:
            raise ValueError("within a page of another origin")
        if key is None or key.credential_id != response.raw_id:
            raise ValueError("another key")
        if key.public_key.ALGORITHM not in CoseKey.supported_algorithms():
            raise ValueError("unknown algorithm")
    except Exception as error:
        refused = _refused(error)
        log.warning("A new passkey was refused: %a", refused.detail["why"])
        raise refused from error
    return response


def _use(server: Fido2Server, rows: list[Any], state: Any, answer: str) -> None:
    """Checks an answer, and notes the use in the row of its passkey."""
    try:
        response = AuthenticationResponse.from_dict(_parsed(answer))
        row = next((row for row in rows if row.data["id"] == response["id"]), None)
        if row is None:
            raise ValueError("not a passkey of this person")
        if row.data.get("last") == state["challenge"]:
            raise ValueError("used already")
        if response.response.client_data.cross_origin:
            raise ValueError("within a page of another origin")
        server.authenticate_complete(state, [_key(row)], response)
    except Exception as error:
        raise _refused(error) from error
    count = response.response.authenticator_data.counter
    if (count or row.data["count"]) and count <= row.data["count"]:
        raise Invalid(
            _("This passkey was refused because it may be a copy: its signature counter went backwards. Ask an admin."),
            field="name",
            why=f"its count is {count} after {row.data['count']}",
        )
    row.data |= {"count": count, "last": state["challenge"]}
    row.last_used_at = timezone.now()
    row.save(update_fields=["data", "last_used_at"])


def _parsed(answer: str) -> Any:
    if not answer or len(answer) > _LONGEST:
        raise ValueError("no answer" if not answer else "too long")
    return json.loads(answer)


def _refused(error: Exception) -> Invalid:
    """Returns the refusal of an answer. fido2's parsers raise various errors, because anyone can send any bytes."""
    return Invalid(
        _("Your browser's response wasn't valid. Try again."),
        field="name",
        why=str(error)[:200] or type(error).__name__,
    )
