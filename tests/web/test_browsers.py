"""Sign-ins: everybody sees their own browsers and signs them out; an admin those of others; nobody else's key is shown."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import time_machine
from django.contrib.auth import get_user_model
from django.contrib.sessions.models import Session as SignIn
from django.db import OperationalError, connection
from django.test import Client
from pytest_django import Settings

from sessions_app.access import sign_ins
from sessions_app.access.sign_in import signed_in
from sessions_app.access.sign_ins import SessionStore
from tests.web.conftest import Browser

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.usefixtures("own"),
    pytest.mark.parametrize("own", ["sqlite", "postgresql"], indirect=True),
]

PASSWORD = "correct horse battery staple"


@pytest.fixture
def ana(db: None) -> Any:
    """Somebody with a password, who may do what everybody may."""
    get_user_model().objects.create_superuser("chief", password=PASSWORD)
    return get_user_model().objects.create_user("ana", password=PASSWORD)


def sign_in(name: str = "ana", agent: str = "Firefox/140", address: str = "198.51.100.7") -> Browser:
    """A browser that signed in with a password."""
    browser = Browser(REMOTE_ADDR=address, headers={"User-Agent": agent})
    assert browser.send("sign-in", {"username": name, "password": PASSWORD}).status_code == 302
    return browser


def rows(browser: Browser, name: str = "sign-ins", /, **names: str) -> list[str]:
    """The table, row by row."""
    return [row.text for row in browser.open(name, **names).all("tr", data_row="") if "Sign out" in row.text]


def end(browser: Browser, agent: str, name: str = "sign-ins", /, **names: str) -> Any:
    """The answer to “Sign out” in the row of a browser."""
    page = browser.open(name, **names)
    (row,) = [row for row in page.all("tr", data_row="") if agent in row.text]
    form = row.one("form")
    return browser.send(str(form["action"]), form.fields())


def test_everybody_sees_their_own_browsers_with_address_and_times(ana: Any) -> None:
    first = sign_in()
    sign_in(agent="Chrome/150", address="203.0.113.9")
    sign_in("chief", agent="Safari/19")
    shown = rows(first)
    assert len(shown) == 2
    assert "Firefox 140" in shown[0]
    assert "198.51.100.7" in shown[0]
    assert "this browser" in shown[0]
    assert "203.0.113.9" in shown[1]
    assert "this browser" not in shown[1]


def test_a_browser_is_signed_out_and_the_others_stay(ana: Any) -> None:
    first, second = sign_in(), sign_in(agent="Chrome/150")
    assert end(first, "Chrome 150").status_code == 302
    assert second.get("/").status_code == 302
    assert first.get("/").status_code == 200


def test_signing_out_everywhere_ends_every_browser_of_this_person_alone(ana: Any) -> None:
    first, second, chief = sign_in(), sign_in(agent="Chrome/150"), sign_in("chief")
    assert first.send("sign-ins", {})["Location"] == "/sign-in/"
    assert [each.get("/").status_code for each in (first, second, chief)] == [302, 302, 200]


def test_nobody_signs_somebody_else_out_but_an_admin(ana: Any) -> None:
    first, chief = sign_in(), sign_in("chief", agent="Safari/19")
    (of_chief,) = sign_ins.listed(get_user_model().objects.get(username="chief").pk)
    first.send("sign-ins", {"which": of_chief.digest})
    assert first.send("sign-somebody-out", {}, name="chief").status_code == 403
    assert chief.get("/").status_code == 200
    second = sign_in(agent="Chrome/150")
    assert end(chief, "Chrome 150", "person", name="ana").status_code == 302
    assert (first.get("/").status_code, second.get("/").status_code) == (200, 302)
    chief.send("sign-somebody-out", {}, name="ana")
    assert first.get("/").status_code == 302
    assert "Not signed in anywhere" in chief.open("person", name="ana").text


def test_the_last_use_is_written_down_each_hour_and_never_outlives_the_limits(ana: Any, settings: Settings) -> None:
    settings.IDLE_SECONDS = 5 * 24 * 3600
    with time_machine.travel("2026-11-01T08:00Z", tick=False) as clock:
        browser = sign_in()
        began = sign_ins.listed(ana.pk)[0].began
        for _day in range(29):
            clock.shift(timedelta(days=1))
            assert browser.get("/sign-ins/").status_code == 200
            (row,) = sign_ins.listed(ana.pk)
            assert row.used - began == timedelta(days=_day + 1)
        assert row.ends == began + timedelta(days=30)
        clock.shift(timedelta(days=1, seconds=1))
        assert browser.get("/").status_code == 302
        assert sign_ins.listed(ana.pk) == []


@pytest.mark.parametrize(("limit", "value"), [("IDLE_SECONDS", 3600), ("SESSION_COOKIE_AGE", 3 * 3600)])
def test_a_limit_that_was_made_shorter_ends_older_sign_ins_too(
    ana: Any, settings: Settings, limit: str, value: int
) -> None:
    with time_machine.travel("2026-11-01T08:00Z", tick=False) as clock:
        browser = sign_in()
        key = browser.session.session_key
        clock.shift(timedelta(hours=4))
        assert signed_in([key]) == {key: ana}
        setattr(settings, limit, value)
        assert signed_in([key]) == {}
        assert sign_ins.listed(ana.pk) == []
        assert browser.get("/").status_code == 302


def test_a_browser_that_is_used_stays_until_the_longest_time_is_over(ana: Any, settings: Settings) -> None:
    settings.IDLE_SECONDS, settings.SESSION_COOKIE_AGE = 1800, 8 * 3600
    with time_machine.travel("2026-11-01T08:00Z", tick=False) as clock:
        browser = sign_in()
        for _each in range(23):
            clock.shift(timedelta(minutes=20))
            assert browser.get("/").status_code == 200
        clock.shift(timedelta(minutes=20))
        assert browser.get("/").status_code == 302


def test_a_browser_that_nobody_uses_is_signed_out(ana: Any, settings: Settings) -> None:
    settings.IDLE_SECONDS = 1800
    with time_machine.travel("2026-11-01T08:00Z", tick=False) as clock:
        browser = sign_in()
        clock.shift(timedelta(minutes=29))
        assert browser.get("/").status_code == 200
        clock.shift(timedelta(minutes=31))
        assert browser.get("/").status_code == 302


@pytest.mark.parametrize("hours", ["0", "-1"])
@pytest.mark.parametrize("name", ["ADKWEB_IDLE_HOURS", "ADKWEB_SIGN_IN_HOURS"])
def test_a_limit_that_is_none_keeps_adkweb_from_starting(name: str, hours: str, tmp_path: Path) -> None:
    given = {**os.environ, "ADKWEB_DATA_DIR": str(tmp_path), name: hours}
    tried = subprocess.run(
        [sys.executable, "-c", "import adkweb.environment"], env=given, capture_output=True, text=True, check=False
    )
    assert tried.returncode == 1
    assert f"{name} is {hours}; it must be a number of hours above 0." in tried.stderr


def test_no_page_and_no_table_has_the_key_of_a_sign_in(ana: Any) -> None:
    first, chief = sign_in(), sign_in("chief")
    key = first.session.session_key
    assert key not in first.get("/sign-ins/").content.decode()
    assert key not in chief.get("/people/ana/").content.decode()
    assert not SignIn.objects.filter(session_key=key).exists()


def test_what_a_hostile_browser_says_of_itself_is_a_text(ana: Any) -> None:
    hostile = '"><script>alert(1)</script>' + "x" * 10_000
    (row,) = rows(sign_in(agent=hostile))
    assert "<script>alert(1)" in row
    (each,) = sign_ins.listed(ana.pk)
    assert len(each.agent) == 400


def away(*_asked: Any) -> Any:
    """What a database that has just died answers."""
    raise OperationalError("server closed the connection unexpectedly")


@pytest.mark.parametrize("path", ["/", "/tokens/", "/api/sessions"])
def test_who_asks_while_adkwebs_own_database_is_away_is_told_so_and_to_try_again(ana: Any, path: str) -> None:
    client = Client(raise_request_exception=False)
    client.cookies = sign_in().cookies
    with connection.execute_wrapper(away):
        answer = client.get(path)
    assert (answer.status_code, answer["Retry-After"]) == (503, "5")
    assert "adkweb's own database is locked or isn't answering" in answer.content.decode()


def test_a_sign_in_that_cannot_be_stored_is_not_taken_for_one_that_ended(ana: Any) -> None:
    kept = SessionStore(sign_in().session.session_key)
    kept["next"] = "/"
    with connection.execute_wrapper(away), pytest.raises(OperationalError):
        kept.save()
