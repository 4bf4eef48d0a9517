"""Who may not look any more is sent nothing more: asked at the handshake, and again with every push."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.contrib.auth import get_user_model
from django.contrib.sessions.models import Session as SignIn
from django.utils import timezone

from sessions_app.access.sign_ins import digest
from tests.live.conftest import Stage
from tests.live.pages import Own, browser, post, sign_in

Take = Callable[[Stage, str], None]


def by_signing_out(stage: Stage, who: str) -> None:
    with browser(stage.server, who) as client:
        answer = post(client, "/sign-out/", seen_on="/")
        assert answer.status_code == 302, answer.text


def by_deleting_the_sign_in(stage: Stage, who: str) -> None:
    with Own(stage.server):
        assert SignIn.objects.filter(session_key=digest(who)).delete()[0] == 1


def by_letting_it_expire(stage: Stage, who: str) -> None:
    with Own(stage.server):
        rows = SignIn.objects.filter(session_key=digest(who))
        assert rows.update(expire_date=timezone.now() - timedelta(seconds=1)) == 1


def by_deactivating_the_person(stage: Stage, who: str) -> None:
    with Own(stage.server):
        assert get_user_model().objects.filter(username=NAME).update(is_active=False) == 1


def by_changing_the_password(stage: Stage, who: str) -> None:
    with Own(stage.server):
        assert get_user_model().objects.filter(username=NAME).update(password="another") == 1


def by_deleting_the_person(stage: Stage, who: str) -> None:
    with Own(stage.server):
        assert get_user_model().objects.get(username=NAME).delete()


NAME = "mallory"
WAYS = [
    by_signing_out,
    by_deleting_the_sign_in,
    by_letting_it_expire,
    by_deactivating_the_person,
    by_changing_the_password,
    by_deleting_the_person,
]


@pytest.fixture
def mallory(stage: Stage) -> str:
    """Somebody who still has access."""
    with Own(stage.server):
        get_user_model().objects.filter(username=NAME).delete()
    return sign_in(stage.server, NAME)


@pytest.mark.guarantee("Live pages", "If you remove someone's access, they don't receive any more events.")
@pytest.mark.parametrize("take_away", WAYS)
def test_an_access_that_is_taken_away_stops_delivery_at_the_next_event(
    stage: Stage, mallory: str, take_away: Take
) -> None:
    ref = stage.new_session(events=1, city="Rome")
    kept, lost = stage.page(ref).until_all(), stage.page(ref, mallory).until_all()
    kept.until(lambda page: page.parts.get("watching") == f"{NAME}\nmaria", "both are there")
    take_away(stage, mallory)
    secret = stage.append(ref, "the secret", actions={"state_delta": {"city": "Atlantis"}})
    kept.until_event(secret)
    kept.until(lambda page: "Atlantis" in page.parts["state"], "the state")
    assert lost.until_end() == (4401, "signed out")
    assert "the secret" not in str(lost.messages)
    assert "Atlantis" not in str(lost.messages)
    assert len(lost.seen) == 1
    lost.open()
    assert lost.until_end() == (4401, "signed out")
    assert "the secret" not in str(lost.messages)


def test_the_feed_of_whoever_was_signed_out_ends_although_nothing_moves(stage: Stage, mallory: str) -> None:
    kept, lost = stage.feed(), stage.feed(mallory)
    for page in (kept, lost):
        page.until(lambda page: "feed" in page.parts, "the feed")
    by_deleting_the_sign_in(stage, mallory)
    assert lost.until_end(seconds=15) == (4401, "signed out")
    assert kept.end is None


def test_who_was_signed_out_is_not_shown_as_watching_any_more(stage: Stage, mallory: str) -> None:
    ref = stage.new_session(events=1)
    kept, lost = stage.page(ref), stage.page(ref, mallory)
    kept.until(lambda page: page.parts.get("watching") == f"{NAME}\nmaria", "both are there")
    by_deleting_the_sign_in(stage, mallory)
    stage.append(ref)
    assert lost.until_end() == (4401, "signed out")
    kept.until(lambda page: page.parts["watching"] == "maria", "that the other is gone", seconds=5)


@pytest.mark.parametrize("take_away", [by_deleting_the_sign_in, by_deactivating_the_person])
def test_home_stops_at_the_next_event_too(stage: Stage, mallory: str, take_away: Take) -> None:
    ref = stage.new_session(events=1)
    kept, lost = stage.feed(), stage.feed(mallory)
    for page in (kept, lost):
        page.until(lambda page: "feed" in page.parts, "home")
    take_away(stage, mallory)
    secret = stage.append(ref, "the secret")
    kept.until(lambda page: secret in page.parts["feed"], "the event")
    assert lost.until_end() == (4401, "signed out")
    assert secret not in str(lost.messages)


def test_who_was_signed_out_cannot_ask_for_the_past(stage: Stage, mallory: str) -> None:
    ref = stage.new_session(events=3)
    lost = stage.page(ref, mallory).until_all()
    by_deleting_the_sign_in(stage, mallory)
    before = len(lost.messages)
    lost.say({"after": 0})
    assert lost.until_end() == (4401, "signed out")
    assert not any("events" in message for message in lost.messages[before:])


def test_another_browser_of_the_same_person_keeps_its_access(stage: Stage, mallory: str) -> None:
    ref = stage.new_session(events=1)
    second = sign_in(stage.server, NAME)
    kept, lost = stage.page(ref, second).until_all(), stage.page(ref, mallory).until_all()
    by_signing_out(stage, mallory)
    stage.append(ref)
    assert lost.until_end() == (4401, "signed out")
    kept.until_all()


def test_another_machine_is_let_in_only_when_an_admin_account_exists(stage: Stage) -> None:
    """As a proxy on this machine tells who asks."""
    ref = stage.new_session(events=1)
    far = {"X-Forwarded-For": "203.0.113.5"}
    refused = stage.page(ref, headers=far)
    assert refused.until_end()[0] == 4403
    assert "admin" in refused.end[1]  # type: ignore[index]
    assert refused.messages == []
    with Own(stage.server):
        admin = get_user_model().objects.create_superuser("admin", password="a long password")
    try:
        stage.page(ref, headers=far).until_all()
    finally:
        with Own(stage.server):
            admin.delete()
    again = stage.page(ref, headers=far)
    assert again.until_end()[0] == 4403
