"""Who asks too often waits: people, tokens, and addresses of strangers. Nobody else waits for them."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest
from django.contrib.auth.models import User
from django.test import Client
from pytest_django import Settings

from sessions_app.access import rates, tokens
from sessions_app.domain.errors import TooOften
from tests.support.people import as_admin
from tests.web.conftest import Browser

pytestmark = pytest.mark.django_db
FAR = "203.0.113.5"


@pytest.fixture
def admin(db: None) -> User:
    """Without one, other machines are not answered."""
    return User.objects.create_superuser("admin", password="a long password")


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """The time that the limits see, which stands still."""
    now = [1000.0]
    monkeypatch.setattr("sessions_app.access.rates.time.monotonic", lambda: now[0])
    rates.forget()
    yield now
    rates.forget()


def times_until_refused(name: str, most: int) -> int:
    for times in range(10_000):
        try:
            rates.count("token", name, most)
        except TooOften:
            return times
    return sys.maxsize


def test_a_minutes_requests_may_come_at_once_and_then_the_rate_is_steady(clock: list[float]) -> None:
    assert times_until_refused("a", 60) == 60
    for _second in range(5):
        clock[0] += 1
        assert times_until_refused("a", 60) == 1
    clock[0] += 3600
    assert times_until_refused("a", 60) == 60


def test_whoever_waits_as_long_as_asked_is_served(clock: list[float]) -> None:
    assert times_until_refused("a", 4) == 4
    with pytest.raises(TooOften) as refused:
        rates.count("token", "a", 4)
    assert refused.value.detail["retry_after"] == 15
    clock[0] += 15
    rates.count("token", "a", 4)


def test_nobody_waits_for_another_and_zero_is_no_limit() -> None:
    assert times_until_refused("a", 3) == 3
    assert times_until_refused("b", 3) == 3
    assert times_until_refused("c", 0) == sys.maxsize


def test_what_is_remembered_of_many_strangers_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rates, "MOST", 100)
    assert times_until_refused("a", 3) == 3
    for number in range(1000):
        rates.count_address(f"203.0.{number // 250}.{number % 250}", 3)
    assert len(rates.paid) <= 101
    assert times_until_refused("a", 3) == 0  # who asked most is remembered


def test_an_ipv6_network_counts_as_one_and_this_machine_is_not_counted() -> None:
    rates.count_address("2001:db8::1", 1)
    with pytest.raises(TooOften):
        rates.count_address("2001:db8::2", 1)
    for own in ("127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1", "", "unix"):
        for _each in range(3):
            rates.count_address(own, 1)


def test_a_person_who_asks_too_often_waits_in_every_browser(maria: Browser, settings: Settings) -> None:
    settings.RATE_PERSON = 3
    second = Client()
    second.cookies = maria.cookies
    for client in (maria, second, maria):
        assert client.get("/").status_code == 200
    answer = second.get("/")
    assert (answer.status_code, answer["Retry-After"]) == (429, "20")
    assert answer["Content-Type"].startswith("text/plain")
    assert "20 seconds" in answer.content.decode()
    assert second.post("/sign-out/").status_code == 429
    assert Client().get("/sign-in/").status_code == 200


@pytest.mark.usefixtures("admin")
@pytest.mark.parametrize(
    "address", ["/sign-in/", "/", "/no/such/page/", "/api/apps", "/api/openapi.json", "/list-apps"]
)
def test_a_stranger_who_asks_too_often_waits(address: str, settings: Settings) -> None:
    settings.RATE_ADDRESS = 2
    client = Client(REMOTE_ADDR=FAR, headers={"Authorization": "Bearer adkweb_guess"})
    statuses = [client.get(address).status_code for _each in range(4)]
    assert 429 not in statuses[:2]
    assert statuses[2:] == [429, 429]
    assert client.get(address)["Retry-After"] == "30"
    assert Client(REMOTE_ADDR="203.0.113.6").get(address).status_code != 429


@pytest.mark.usefixtures("admin")
@pytest.mark.parametrize("address", ["/api/apps", "/list-apps", "/api/openapi.json"])
def test_a_token_that_asks_too_often_waits_and_is_told_how_long(address: str, settings: Settings) -> None:
    settings.RATE_TOKEN, settings.RATE_ADDRESS = 2, 1
    tokens_of = [tokens.create(name, "read", "*", by=as_admin("maria"))[1] for name in ("one", "two")]
    one, two = (Client(REMOTE_ADDR=FAR, headers={"Authorization": f"Bearer {text}"}) for text in tokens_of)
    assert [one.get(address).status_code for _each in range(3)] == [200, 200, 429]
    answer = one.get(address)
    assert (answer["Content-Type"], answer["Retry-After"]) == ("application/problem+json", "30")
    assert answer.json()["retry_after"] == 30
    assert [two.get(address).status_code for _each in range(3)] == [200, 200, 429]
