"""Tokens are renewed: the new text works at once, and the one from before goes on for the time that was chosen."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest
import time_machine
from django.contrib.auth.models import User
from django.utils import timezone

from sessions_app.access import rates, tokens
from sessions_app.access.tokens import ApiToken, OldTokenText
from sessions_app.domain.errors import Conflict, Invalid, NotFound
from sessions_app.models import AuditRow
from tests.api.program import Program
from tests.support.people import as_admin

pytestmark = pytest.mark.django_db

FAR = "203.0.113.5"


@pytest.fixture
def clock() -> Iterator[time_machine.Traveller]:
    """The time, which stands still until a test moves it."""
    with time_machine.travel(timezone.now(), tick=False) as traveller:
        yield traveller


@pytest.fixture
def maria(db: None) -> User:
    """An account."""
    return User.objects.create_user("maria")


def made(days: int | None = None, person: int | None = None) -> str:
    """A token's text."""
    return tokens.create("agent", "append", "book*", by=as_admin("maria", person), days=days)[1]


def renewed(hours: int = 24, person: int | None = None) -> str:
    """The token's new text."""
    return ApiToken.objects.named("agent").renew(by=as_admin("ben", person), hours=hours)


def works(text: str) -> bool:
    """Whether a program may ask with this text, a second later."""
    tokens.known.clear()
    return Program(text).get("/api/apps").status == 200


def test_both_texts_work_until_the_chosen_time_and_then_the_new_one_alone(clock: time_machine.Traveller) -> None:
    before = made()
    after = renewed(hours=24)
    assert after != before
    assert tokens.actor_of(before) == tokens.actor_of(after)
    clock.shift(timedelta(hours=23, minutes=59))
    assert (works(before), works(after)) == (True, True)
    assert ApiToken.objects.listed()[0].overlaps
    clock.shift(timedelta(minutes=1))
    assert (works(before), works(after)) == (False, True)
    assert not ApiToken.objects.listed()[0].overlaps
    assert "was renewed" in Program(before).get("/api/apps").detail


def test_a_text_that_somebody_else_may_know_is_refused_at_once() -> None:
    first = made()
    second = renewed(hours=720)
    third = renewed(hours=0)
    assert [works(text) for text in (first, second, third)] == [False, False, True]


def test_a_text_goes_on_no_longer_than_it_would_have(clock: time_machine.Traveller) -> None:
    before = made(days=1)
    clock.shift(timedelta(hours=20))
    first = renewed(hours=48)
    second = renewed(hours=1)
    clock.shift(timedelta(minutes=59))
    assert [works(text) for text in (before, first, second)] == [True, True, True]
    third = renewed(hours=720)
    clock.shift(timedelta(minutes=2))
    assert [works(text) for text in (before, first, second, third)] == [False, False, True, True]


def test_a_renewed_token_has_as_many_days_as_it_had_each_time(clock: time_machine.Traveller) -> None:
    made(days=30)
    for _each in range(2):
        clock.shift(timedelta(days=29))
        text = renewed()
        expires = ApiToken.objects.named("agent").expires
        assert expires is not None
        assert timedelta(days=29, hours=23) < expires - timezone.now() <= timedelta(days=30)
    clock.shift(timedelta(days=31))
    assert not works(text)


def test_renewing_brings_no_text_back_that_had_ended(clock: time_machine.Traveller, maria: User) -> None:
    expired = made(days=1)
    clock.shift(timedelta(days=2))
    after = renewed(hours=720, person=maria.pk)
    assert (works(expired), works(after)) == (False, True)
    User.objects.update(is_active=False)
    ben = User.objects.create_user("ben")
    last = renewed(hours=720, person=ben.pk)
    assert (works(after), works(last)) == (False, True)
    User.objects.update(is_active=True)
    assert not works(after)


def test_each_text_ends_with_the_person_who_got_it(maria: User) -> None:
    ben = User.objects.create_user("ben")
    of_maria = made(person=maria.pk)
    of_ben = renewed(person=ben.pk)
    maria.delete()
    assert (works(of_maria), works(of_ben)) == (False, True)
    assert (
        "This token stopped working because the person who created it can no longer sign in"
        in Program(of_maria).get("/api/apps").detail
    )
    User.objects.filter(username="ben").update(is_active=False)
    assert not works(of_ben)
    assert ApiToken.objects.named("agent").maker == "ben"


def test_revoking_ends_all_texts_and_a_revoked_token_is_not_renewed() -> None:
    texts = [made(), renewed(), renewed()]
    ApiToken.objects.named("agent").revoke(by=as_admin("maria"))
    assert [works(text) for text in texts] == [False] * 3
    with pytest.raises(Conflict):
        renewed()
    assert OldTokenText.objects.count() == 2


@pytest.mark.parametrize("hours", [-1, 721, 10**30])
def test_a_time_that_is_none_is_refused_and_nothing_is_renewed(hours: int) -> None:
    before = made()
    with pytest.raises(Invalid, match="720"):
        renewed(hours=hours)
    with pytest.raises(NotFound):
        ApiToken.objects.named("ghost").renew(by=as_admin("ben"))
    assert works(before)
    assert ApiToken.objects.named("agent").renewed is None


def test_renewing_is_recorded_and_no_text_is_stored() -> None:
    texts = [made(), renewed(hours=3)]
    row = AuditRow.objects.order_by("number").last()
    assert row is not None
    assert (row.act, row.by) == ("token-renewed", "ben")
    assert '"hours":3' in row.detail
    kept = repr([list(model.objects.values()) for model in (ApiToken, OldTokenText, AuditRow)])
    assert not any(text in kept for text in texts)


def test_the_address_of_the_last_use_is_known() -> None:
    text = made()
    program = Program(text)
    program.get("/api/apps")
    first = ApiToken.objects.named("agent")
    assert first.used_from == "127.0.0.1"
    ApiToken.objects.update(used=timezone.now() - timedelta(minutes=2))
    tokens.known.clear()
    assert tokens.actor_of(text, FAR)
    assert ApiToken.objects.named("agent").used_from == FAR
    ApiToken.objects.update(used=None)
    tokens.known.clear()
    assert tokens.actor_of(text, "x" * 500)
    assert ApiToken.objects.named("agent").used_from == "x" * 45


def test_a_token_may_have_a_limit_of_its_own_which_is_never_above_that_of_all(settings: object) -> None:
    rates.forget()
    slow = Program(tokens.create("slow", "read", "*", by=as_admin("maria"), rate=2)[1])
    fast = Program(tokens.create("fast", "read", "*", by=as_admin("maria"))[1])
    assert [slow.get("/api/apps").status for _each in range(3)] == [200, 200, 429]
    assert [fast.get("/api/apps").status for _each in range(3)] == [200, 200, 200]
    ApiToken.objects.named("slow").renew(by=as_admin("maria"))
    assert slow.get("/api/apps").status == 429
    settings.RATE_TOKEN = 1  # type: ignore[attr-defined]
    greedy = Program(tokens.create("greedy", "read", "*", by=as_admin("maria"), rate=1000)[1])
    assert [greedy.get("/api/apps").status for _each in range(2)] == [200, 429]
    settings.RATE_TOKEN = 0  # type: ignore[attr-defined]
    assert tokens.SignedIn(tokens.actor_of(greedy.token or ""), 7).most == 7  # type: ignore[arg-type]
    rates.forget()
