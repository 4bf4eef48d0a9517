"""Tokens end: when they expire, and with the person who made them. The list warns before."""

from __future__ import annotations

import time
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from sessions_app.access import tokens
from sessions_app.access.tokens import ApiToken
from sessions_app.domain.errors import Invalid
from tests.api.program import Answer, Program
from tests.support.people import as_admin

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.usefixtures("own"),
    pytest.mark.parametrize("own", ["sqlite", "postgresql"], indirect=True),
]

ADDRESSES = ("/api/apps", "/list-apps", "/api/openapi.json")


@pytest.fixture
def maria() -> User:
    """An account."""
    return User.objects.create_user("maria")


def asked(text: str) -> list[Answer]:
    """The answers of our own routes, of ADK's and of the document, a second later."""
    tokens.known.clear()
    return [Program(text).get(address) for address in ADDRESSES]


def assert_refused(text: str, message: str) -> None:
    for answer in asked(text):
        assert (answer.status, answer.headers["www-authenticate"]) == (401, 'Bearer realm="adkweb"')
        assert message in answer.detail
        assert text not in answer.detail


def test_an_expired_token_is_refused_and_told_so(maria: User) -> None:
    made, text = tokens.create("agent", "read", "*", by=as_admin("maria", maria.pk), days=30)
    assert made.expires is not None
    assert timedelta(days=29, hours=23) < made.expires - timezone.now() <= timedelta(days=30)
    assert {answer.status for answer in asked(text)} == {200}
    ApiToken.objects.update(expires=timezone.now())
    assert_refused(text, "expired")
    assert ApiToken.objects.listed()[0].ended


def test_a_token_that_is_trusted_for_a_second_expires_on_time() -> None:
    text = tokens.create("agent", "read", "*", by=as_admin("maria"), days=1)[1]
    ApiToken.objects.update(expires=timezone.now() + timedelta(milliseconds=900))
    tokens.known.clear()
    assert tokens.actor_of(text) is not None
    ((until, _actor),) = tokens.known.values()
    assert until - time.monotonic() <= 0.9


@pytest.mark.parametrize(("left", "soon"), [(8, False), (6.9, True), (0.01, True), (-1, False)])
def test_the_list_warns_a_week_before_a_token_expires(left: float, soon: bool) -> None:
    tokens.create("agent", "read", "*", by=as_admin("maria"), days=1)
    ApiToken.objects.update(expires=timezone.now() + timedelta(days=left))
    assert ApiToken.objects.listed()[0].ends_soon is soon


@pytest.mark.parametrize("days", [0, -1, 3651, 10**30])
def test_a_time_that_is_none_is_refused(days: int) -> None:
    with pytest.raises(Invalid, match="3650"):
        tokens.create("agent", "read", "*", by=as_admin("maria"), days=days)
    assert ApiToken.objects.listed() == []


@pytest.mark.parametrize("left", ["deactivated", "deleted"])
def test_a_token_ends_with_the_person_who_made_it(maria: User, left: str) -> None:
    text = tokens.create("agent", "admin", "*", by=as_admin("maria", maria.pk))[1]
    other = tokens.create("of a command", "admin", "*", by=as_admin("maria"))[1]
    assert {answer.status for answer in asked(text)} == {200}
    if left == "deleted":
        maria.delete()
        User.objects.create_user("maria")  # somebody else with the same name
    else:
        User.objects.update(is_active=False)
    assert_refused(text, "This token stopped working because the person who created it can no longer sign in")
    numbers = dict(ApiToken.objects.values_list("name", "pk"))
    assert tokens.actor_numbered(numbers["agent"]) is None  # so a job of its own does not go on
    assert tokens.actor_numbered(numbers["of a command"]) is not None
    assert {answer.status for answer in asked(other)} == {200}
    assert [token.name for token in ApiToken.objects.listed()] == ["of a command", "agent"]


def test_a_token_goes_on_when_its_person_comes_back(maria: User) -> None:
    text = tokens.create("agent", "admin", "*", by=as_admin("maria", maria.pk))[1]
    User.objects.update(is_active=False)
    assert_refused(text, "This token stopped working because the person who created it can no longer sign in")
    User.objects.update(is_active=True)
    assert {answer.status for answer in asked(text)} == {200}
