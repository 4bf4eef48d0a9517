"""Passkeys: only the right key, asked just now at this very address, is accepted; each refusal is recorded."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, Final

import pytest
import time_machine
from allauth.mfa.models import Authenticator
from django.contrib.auth.models import User
from django.http import HttpRequest
from django.test import RequestFactory
from pytest_django import Settings

from sessions_app.access import lockout, passkeys, second_factor
from sessions_app.domain.errors import AlreadyExists, Conflict, Invalid, NotFound, TooOften
from sessions_app.models import AuditRow
from tests.support.device import Device

pytestmark = pytest.mark.django_db

ON_BOTH: Final = pytest.mark.parametrize("own", ["sqlite", "postgresql"], indirect=True)  # adkweb's own database
OTHER: Final = "https://evil.example"


def browser(host: str = "localhost:8000", **options: Any) -> HttpRequest:
    """A request of a browser that has a session of its own, which goes on while the test does."""
    request = RequestFactory().get("/", headers={"host": host}, **options)
    request.session = {}  # type: ignore[assignment]
    return request


@pytest.fixture
def clock() -> Iterator[Any]:
    """A clock that a test moves."""
    with time_machine.travel("2026-11-01T08:00:10Z", tick=False) as moved:
        yield moved


@pytest.fixture
def ana(db: None) -> User:
    """Somebody without a second factor."""
    return User.objects.create_user("ana")


def added(person: User, name: str = "Phone", **options: Any) -> Device:
    """A device with a passkey of a person."""
    device, request = Device(**options), browser()
    passkeys.add(request, person, device.make(passkeys.begin_adding(request, person, name)))
    return device


def refused(person: User, request: HttpRequest, answer: str) -> str:
    """Sends an answer that is refused, and returns the reason that is recorded."""
    with pytest.raises(Invalid):
        passkeys.use(request, person, answer)
    row = AuditRow.objects.latest("number")
    detail = json.loads(row.detail)
    assert (row.act, row.by, detail["how"]) == ("sign-in-failed", person.get_username(), "passkey")
    return str(detail["why"])


@ON_BOTH
def test_a_passkey_is_added_with_recovery_codes_and_signs_again_and_again(own: str) -> None:
    ana = User.objects.create_user("ana")
    device, request = Device(), browser()
    codes = passkeys.add(request, ana, device.make(passkeys.begin_adding(request, ana, " Phone ")))
    assert len(set(codes)) == 10
    assert second_factor.exists(ana)
    assert not second_factor.has_app(ana)
    for _time in range(2):
        passkeys.use(request, ana, device.sign(passkeys.begin_use(request, ana)))
    (passkey,) = passkeys.listed(ana)
    assert (passkey.data["name"], passkey.data["host"], bool(passkey.last_used_at)) == ("Phone", "localhost", True)
    assert passkeys.is_good(request, passkey)
    assert [row.act for row in AuditRow.objects.all()] == ["second-factor-set"]


def test_a_second_passkey_keeps_the_recovery_codes(ana: User) -> None:
    added(ana)
    request = browser()
    options = passkeys.begin_adding(request, ana, "Stick")
    assert len(json.loads(options)["excludeCredentials"]) == 1
    assert passkeys.add(request, ana, Device().make(options)) == []
    assert second_factor.codes_left(ana) == 10


@pytest.mark.parametrize(
    ("client", "why"),
    [
        ({"origin": OTHER}, "origin"),
        ({"origin": "http://localhost:8001"}, "origin"),
        ({"origin": "https://localhost:8000"}, "origin"),
        ({"origin": "http://sub.localhost:8000"}, "origin"),
        ({"challenge": b"x" * 32}, "challenge"),
        ({"type": "webauthn.create"}, "type"),
        ({"cross_origin": True}, "another origin"),
        ({"host": "evil.example"}, "RP ID"),
    ],
)
def test_an_answer_to_another_page_is_refused(ana: User, client: dict[str, Any], why: str) -> None:
    device, request = added(ana), browser()
    assert why in refused(ana, request, device.sign(passkeys.begin_use(request, ana), **client))


@pytest.mark.parametrize("client", [{"origin": OTHER}, {"challenge": b"x" * 32}, {"cross_origin": True}])
def test_a_key_that_was_made_for_another_page_is_not_added(ana: User, client: dict[str, Any]) -> None:
    request = browser()
    answer = Device().make(passkeys.begin_adding(request, ana, "Phone"), **client)
    with pytest.raises(Invalid):
        passkeys.add(request, ana, answer)
    assert not Authenticator.objects.exists()


def test_a_key_whose_signatures_nobody_can_check_is_not_added(ana: User) -> None:
    request = browser()
    with pytest.raises(Invalid):
        passkeys.add(request, ana, Device().make(passkeys.begin_adding(request, ana, "Phone"), algorithm=-7777))


def test_an_answer_is_good_once_even_if_the_session_still_has_its_challenge(ana: User) -> None:
    device, request = added(ana), browser()
    answer = device.sign(passkeys.begin_use(request, ana))
    before = dict(request.session)
    passkeys.use(request, ana, answer)
    assert refused(ana, request, answer) == "no challenge waits"
    request.session.update(before)  # as by a request of this browser that ran beside it
    assert refused(ana, request, answer) == "used already"


def test_a_refused_answer_uses_the_challenge_up(ana: User) -> None:
    device, request = added(ana), browser()
    options = passkeys.begin_use(request, ana)
    refused(ana, request, device.sign(options, origin=OTHER))
    assert refused(ana, request, device.sign(options)) == "no challenge waits"


def test_a_challenge_lapses_after_five_minutes(ana: User, clock: Any) -> None:
    device, request = added(ana), browser()
    answer, new = device.sign(passkeys.begin_use(request, ana)), browser()
    made = Device().make(passkeys.begin_adding(new, ana, "Stick"))
    clock.shift(timedelta(minutes=5, seconds=1))
    assert refused(ana, request, answer) == "no challenge waits"
    with pytest.raises(Invalid, match="too long"):
        passkeys.add(new, ana, made)


def test_a_challenge_is_good_in_one_browser_for_one_person_and_one_purpose(ana: User) -> None:
    device, request = added(ana), browser()
    answer = device.sign(passkeys.begin_use(request, ana))
    assert refused(ana, browser(), answer) == "no challenge waits"
    eva = User.objects.create_user("eva")
    assert refused(eva, request, answer) == "no challenge waits"
    passkeys.begin_use(request, ana)
    with pytest.raises(Invalid, match="too long"):
        passkeys.add(request, ana, answer)


def test_somebody_elses_passkey_signs_nobody_else_in_and_is_added_for_nobody_else(ana: User) -> None:
    hers, eva = added(ana), User.objects.create_user("eva")
    added(eva)
    request = browser()
    assert refused(eva, request, hers.sign(passkeys.begin_use(request, eva))) == "not a passkey of this person"
    with pytest.raises(AlreadyExists):
        passkeys.add(request, eva, hers.make(passkeys.begin_adding(request, eva, "Mine")))


def test_another_key_under_the_name_of_a_passkey_is_refused(ana: User) -> None:
    request = browser()
    liar = Device(name=added(ana).name)
    assert "signature" in refused(ana, request, liar.sign(passkeys.begin_use(request, ana)))


@pytest.mark.parametrize(("before", "after", "right"), [(0, 0, True), (5, 9, True), (5, 5, False), (5, 0, False)])
def test_a_count_that_goes_back_is_refused(ana: User, before: int, after: int, right: bool) -> None:
    device, request = added(ana, count=before), browser()
    device.count = after - 1
    answer = device.sign(passkeys.begin_use(request, ana))
    if right:
        passkeys.use(request, ana, answer)
    else:
        assert refused(ana, request, answer) == f"its count is {after} after {before}"


@pytest.mark.parametrize("answer", ["", "{", "[]", "null", "1", '{"id": "x"}', "[" * 40_000, "x" * 60_000, '"\\ud800"'])
def test_an_answer_that_is_none_is_refused_in_words(ana: User, answer: str) -> None:
    added(ana)
    request = browser()
    passkeys.begin_use(request, ana)
    assert refused(ana, request, answer)
    passkeys.begin_adding(request, ana, "Stick")
    with pytest.raises(Invalid, match="Your browser's response wasn't valid"):
        passkeys.add(request, ana, answer)


def test_an_answer_of_which_any_part_is_missing_or_spoilt_is_refused_in_words(
    ana: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lockout, "FREE", 1_000)
    device, request = added(ana), browser()

    def spoilt(good: str, name: str, value: Any) -> str:
        answer = json.loads(good)
        part = answer["response"] if name in answer["response"] else answer
        part[name] = value
        return json.dumps(answer)

    values: list[Any] = [None, "", "AAAA", "%", 7, [], {}, "o2NmbXRkbm9uZQ", "A" * 9_000]
    for value in values:
        for name in ("rawId", "clientDataJSON", "authenticatorData", "signature"):
            assert refused(ana, request, spoilt(device.sign(passkeys.begin_use(request, ana)), name, value))
        for name in ("rawId", "clientDataJSON", "attestationObject"):
            made = Device().make(passkeys.begin_adding(request, ana, "Stick"))
            with pytest.raises(Invalid):
                passkeys.add(request, ana, spoilt(made, name, value))


def test_guesses_are_slowed_down_together_with_those_of_codes(ana: User) -> None:
    device, request = added(ana), browser()
    for _time in range(lockout.FREE - 1):
        refused(ana, request, "x")
    with pytest.raises(Invalid):
        second_factor.check(request, ana, "000000")
    with pytest.raises(TooOften):
        passkeys.use(request, ana, device.sign(passkeys.begin_use(request, ana)))


@pytest.mark.parametrize(
    ("host", "secure", "missing"),
    [
        ("localhost:8000", False, ""),
        ("adkweb.localhost", False, ""),
        ("adkweb.example.com", True, ""),
        ("adkweb.example.com", False, "https"),
        ("127.0.0.1:8000", False, "name"),
        ("[::1]:8000", True, "name"),
        ("10.1.2.3", True, "name"),
    ],
)
def test_passkeys_need_a_host_name_and_https_but_on_the_own_machine(
    ana: User, settings: Settings, host: str, secure: bool, missing: str
) -> None:
    settings.ALLOWED_HOSTS = ["*"]
    added(ana)
    request = browser(host, secure=secure)
    assert passkeys.obstacle(request) == missing
    assert bool(passkeys.begin_use(request, ana)) == (host == "localhost:8000")  # where hers was made
    if missing:
        with pytest.raises(Invalid):
            passkeys.begin_adding(request, ana, "Stick")
    else:
        assert passkeys.begin_adding(request, ana, "Stick")


@pytest.mark.parametrize("name", ["", " ", "a\0b", "a\nb", "x" * 101, "\ud800"])
def test_a_name_that_nobody_can_read_is_refused(ana: User, name: str) -> None:
    with pytest.raises(Invalid) as error:
        passkeys.begin_adding(browser(), ana, name)
    assert error.value.detail["field"] == "name"


def test_removing_the_last_factor_takes_the_codes_along_where_it_may_go(ana: User, settings: Settings) -> None:
    added(ana, "Phone")
    added(ana, "Stick")
    phone, stick = passkeys.listed(ana)
    eva = User.objects.create_user("eva")
    with pytest.raises(NotFound):
        passkeys.remove(eva, phone.pk)
    settings.REQUIRE_SECOND_FACTOR = True
    passkeys.remove(ana, phone.pk)
    with pytest.raises(Conflict):
        passkeys.remove(ana, stick.pk)
    assert second_factor.codes_left(ana) == 10
    settings.REQUIRE_SECOND_FACTOR = False
    passkeys.remove(ana, stick.pk)
    assert not Authenticator.objects.exists()
    removed = AuditRow.objects.filter(act="second-factor-removed")
    assert [json.loads(row.detail)["passkey"] for row in removed] == ["Phone", "Stick"]


def test_a_person_has_no_more_passkeys_than_a_page_shows(ana: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passkeys, "MOST", 1)
    added(ana)
    with pytest.raises(Conflict):
        passkeys.begin_adding(browser(), ana, "Stick")


def test_each_installation_and_person_has_a_handle_of_its_own(ana: User, settings: Settings) -> None:
    def handle(person: User) -> str:
        return str(json.loads(passkeys.begin_adding(browser(), person, "Phone"))["user"]["id"])

    mine = handle(ana)
    settings.SECRET_KEY = "that of another adkweb on this host"
    assert len({mine, handle(ana), handle(User.objects.create_user("eva"))}) == 3
