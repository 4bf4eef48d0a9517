"""The tokens of programs: made, shown once, revoked after a question; a form that is refused comes back as it was sent."""

from __future__ import annotations

import re

import pytest
from django.contrib.auth import get_user_model

from sessions_app.access import tokens
from sessions_app.access.actor import Grant
from sessions_app.access.tokens import ApiToken
from tests.support.people import as_admin, somebody
from tests.web.conftest import NAME, Browser
from tests.web.html import page_of

pytestmark = pytest.mark.django_db


def rows(maria: Browser) -> list[str]:
    """The table, row by row."""
    return [row.text for row in maria.open("tokens").all("tr", data_row="")]


def make(maria: Browser, **fields: str) -> str:
    """A new token's text."""
    response = maria.send("tokens", {"name": "agent", "permission": "append", "apps": "", **fields})
    assert response.status_code == 200, response.content.decode()
    return page_of(response).one("code", id="token-text").text


def test_a_token_is_made_and_signs_its_program_in(maria: Browser) -> None:
    form = maria.open("tokens").one("form", class_="form")
    assert form.fields()["permission"] == "append"
    response = maria.send("tokens", {**form.fields(), "name": "booking agent", "apps": "booking*"})
    page = page_of(response)
    text = page.one("code", id="token-text").text
    actor = tokens.actor_of(text)
    assert actor
    assert (actor.name, actor.grants) == ("token booking agent", (Grant("append", "booking*"),))
    assert page.one("button", data_copy_from="#token-text").text == "Copy"
    curl, service = page.texts("pre", "code")
    assert curl == 'curl http://testserver/api/apps \\ -H "Authorization: Bearer $ADKWEB_TOKEN"'
    assert 'HttpSessionService("http://testserver")' in service
    assert text not in curl + service


def test_the_token_of_a_companion_says_how_it_is_attached(maria: Browser) -> None:
    page = page_of(maria.send("tokens", {"name": "agents", "permission": "companion", "apps": ""}))
    (code,) = page.texts("pre", "code")
    assert code == "export ADKWEB_URL=http://testserver adk web --extra_plugins adkweb.Companion agents"
    assert "ADKWEB_COMPANION_TOKEN" in page.text
    assert tokens.actor_of(page.one("code", id="token-text").text) is None  # it signs in nowhere else


def test_the_form_begins_with_an_expiry_that_can_be_cleared(maria: Browser) -> None:
    begun = maria.open("tokens").one("form", class_="form").fields()
    assert begun["days"] == "90"
    maria.send("tokens", {**begun, "name": "ends"})
    maria.send("tokens", {**begun, "name": "stays", "days": ""})
    assert {token.name: token.expires is not None for token in ApiToken.objects.listed()} == {
        "ends": True,
        "stays": False,
    }


def test_a_tokens_text_is_shown_once_and_kept_nowhere(maria: Browser) -> None:
    text = make(maria)
    response = maria.get("/tokens/")
    assert text not in response.content.decode()
    assert response["Cache-Control"] == "private, no-store"
    assert "no-store" in maria.send("tokens", {"name": "b", "permission": "read"})["Cache-Control"]


def test_a_token_that_only_reads_is_no_session_service(maria: Browser) -> None:
    page = page_of(maria.send("tokens", {"name": "script", "permission": "read"}))
    assert ["curl" in text for text in page.texts("pre", "code")] == [True]


def test_every_token_is_listed_with_who_made_it(maria: Browser) -> None:
    make(maria, name="b", permission="admin", apps="booking")
    used = make(maria, name="a", permission="read")
    tokens.actor_of(used)
    first, second = rows(maria)
    assert first.startswith("a read * ")
    assert second.startswith("b admin booking ")
    assert NAME in second
    assert "never" in second
    assert "never" not in first


def test_a_form_without_a_right_makes_no_token(maria: Browser) -> None:
    assert maria.send("tokens", {"name": "agent", "scope": "read"}).status_code == 400
    assert ApiToken.objects.listed() == []


def test_without_tokens_the_page_says_what_one_is_for(maria: Browser) -> None:
    page = maria.open("tokens")
    assert "Tokens let programs use adkweb" in page.one("main").one("p", "muted").text
    assert page.all("table") == []
    assert "open" in page.one("details", "adding")


def test_a_token_is_revoked_after_a_question(maria: Browser) -> None:
    text = make(maria, name="a b/c")
    make(maria, name="z")
    revoke = next(link for link in maria.open("tokens").all("a", "danger") if link["aria-label"] == "Revoke a b/c")
    page = maria.open(revoke["href"])
    assert "This can't be undone." in page.text
    assert tokens.actor_of(text)
    response = maria.send(revoke["href"], page.one("form", class_="form").fields())
    assert response["Location"] == "/tokens/"
    assert tokens.actor_of(text) is None
    page = maria.open("tokens")
    assert page.one(role="status").text == "Token “a b/c” revoked."
    last = page.all("tr", data_row="")[-1]
    assert "ended" in last.classes
    assert re.search(rf"revoked now · {NAME}$", last.text)
    assert last.all("a") == []


def test_looking_at_the_question_revokes_nothing(maria: Browser) -> None:
    text = make(maria, name="a")
    maria.open("revoke-token", name="a")
    assert tokens.actor_of(text)


def test_a_revoked_token_is_not_asked_about_again(maria: Browser) -> None:
    make(maria, name="a")
    ApiToken.objects.named("a").revoke(by=as_admin("omar"))
    assert maria.get("/tokens/a/revoke/")["Location"] == "/tokens/"
    maria.send("revoke-token", {}, name="a")
    assert "omar" in rows(maria)[0]


@pytest.mark.parametrize(
    ("field", "given", "status", "message"),
    [
        ("name", "taken", 409, "There's already a token “taken”"),
        ("name", "  ", 400, "Enter a name for the token, such as the program that uses it"),
        ("name", "x" * 101, 400, "100"),
        ("apps", "x" * 201, 400, "200"),
        ("permission", "all", 400, "read, operate, append, admin"),
    ],
    ids=["taken", "blank", "long name", "long pattern", "permission"],
)
def test_a_refused_form_comes_back_as_it_was_sent_with_what_is_wrong_beside_its_field(
    maria: Browser, field: str, given: str, status: int, message: str
) -> None:
    make(maria, name="taken")
    sent = {"name": "a", "permission": "admin", "apps": "book*", field: given}
    response = maria.send("tokens", sent)
    page = page_of(response)
    assert response.status_code == status
    assert message in page.one(id_=f"{field}_error").text
    back = page.one("form", class_="form").fields()
    assert (back["name"], back["apps"]) == (sent["name"], sent["apps"])
    assert back.get("permission") == (sent["permission"] if sent["permission"] == "admin" else None)
    assert page.all("code", id="token-text") == []
    assert [token.name for token in ApiToken.objects.listed()] == ["taken"]


def test_a_token_that_is_not_there_is_not_found(maria: Browser) -> None:
    assert "There's no token “nobody”." in maria.open("revoke-token", name="nobody", status=404).text


def test_the_menu_leads_to_the_settings_and_to_the_import(maria: Browser) -> None:
    links = maria.open("home").one("details", "menu").links()
    assert (links["Settings"], links["Import"]) == ("/settings/", "/import/")


def test_a_token_of_a_page_ends_with_its_person_and_after_its_days(maria: Browser) -> None:
    text = make(maria, days="5")
    assert " soon " in rows(maria)[0]
    get_user_model().objects.create_user("omar")
    get_user_model().objects.filter(username=NAME).update(is_active=False)
    tokens.known.clear()
    assert tokens.actor_of(text) is None
    get_user_model().objects.filter(username=NAME).update(is_active=True)
    assert tokens.actor_of(text)


def test_a_token_is_renewed_after_a_question_and_its_new_text_is_shown_once(maria: Browser) -> None:
    before = make(maria, name="a b/c")
    tokens.actor_of(before, "203.0.113.5")
    assert " · 203.0.113.5 " in rows(maria)[0]
    link = next(
        link
        for link in maria.open("tokens").all("a", "btn")
        if "aria-label" in link and link["aria-label"] == "Renew a b/c"
    )
    page = maria.open(link["href"])
    assert page.one("form", class_="form").fields()["hours"] == "24"
    assert "203.0.113.5" in page.text
    response = maria.send(link["href"], {"hours": "2"})
    assert "no-store" in response["Cache-Control"]
    answer = page_of(response)
    after = answer.one("code", id="token-text").text
    assert after not in maria.get("/tokens/").content.decode()
    assert tokens.actor_of(before) == tokens.actor_of(after) is not None
    assert "The old token works until" in answer.one(role="status").text
    assert "old token:" in rows(maria)[0]
    assert f"renewed now · {NAME}" in rows(maria)[0]


@pytest.mark.parametrize("hours", ["", "soon", "-1", "721"])
def test_a_renewal_without_a_time_is_refused_and_nothing_is_renewed(maria: Browser, hours: str) -> None:
    text = make(maria, name="a")
    response = maria.send("renew-token", {"hours": hours}, name="a")
    assert response.status_code == 400
    page = page_of(response)
    assert "from 0 to 720" in page.one(id="hours_error").text
    assert page.one("form", class_="form").fields()["hours"] == hours
    assert tokens.actor_of(text)
    assert ApiToken.objects.named("a").renewed is None


def test_a_revoked_token_is_not_renewed(maria: Browser) -> None:
    make(maria, name="a")
    ApiToken.objects.named("a").revoke(by=as_admin("omar"))
    for response in (maria.get("/tokens/a/renew/"), maria.send("renew-token", {"hours": "1"}, name="a")):
        assert response["Location"] == "/tokens/"
    maria.open("renew-token", name="nobody", status=404)


def test_a_limit_of_requests_is_listed_and_a_wrong_one_comes_back(maria: Browser) -> None:
    make(maria, name="a", rate="600")
    assert "append 600 a minute" in rows(maria)[0]
    response = maria.send("tokens", {"name": "b", "permission": "read", "rate": "0"})
    assert response.status_code == 400
    assert "from 1 to 1000000" in page_of(response).one(id="rate_error").text


def test_days_that_are_none_come_back_as_they_were_sent(maria: Browser) -> None:
    response = maria.send("tokens", {"name": "agent", "permission": "read", "days": "soon"})
    assert response.status_code == 400
    page = page_of(response)
    assert "from 1 to 3650" in page.one(id="days_error").text
    assert page.one("form", class_="form").fields()["days"] == "soon"
    assert ApiToken.objects.listed() == []


def test_the_people_who_hold_a_token_are_named_when_it_is_made_and_changed_when_it_is_renewed(maria: Browser) -> None:
    for name in ("ana", "ben"):
        somebody(name)
    form = {"name": "agent", "permission": "append", "apps": "booking", "days": "", "rate": ""}
    refused = maria.send("tokens", {**form, "holders": "ana, ghost"})
    assert (refused.status_code, "There's no account “ghost”" in page_of(refused).text) == (400, True)
    made = page_of(maria.send("tokens", {**form, "holders": " ana , ben,"}))
    assert "held by ana, ben" in made.one("table", class_="tokens").text
    page = maria.open("renew-token", name="agent")
    assert page.one("form", class_="form").fields()["holders"] == "ana, ben"
    refused = maria.send("renew-token", {"hours": "0", "holders": "ghost"}, name="agent")
    assert (refused.status_code, "There's no account “ghost”" in page_of(refused).text) == (400, True)
    maria.send("renew-token", {"hours": "0", "holders": "ben"}, name="agent")
    assert "held by ben" in maria.open("tokens").one("table", class_="tokens").text
