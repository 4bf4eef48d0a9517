"""People: an admin invites them by link, changes accounts and groups; whoever is no admin learns nothing of them."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group, User
from django.contrib.sessions.models import Session as SignIn
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from pytest_django import Settings

from sessions_app.access import invitations, roles, sign_in
from sessions_app.access.actor import TERMINAL
from sessions_app.access.roles import Role
from sessions_app.models import AuditRow, Invitation
from tests.web.conftest import NAME, Browser
from tests.web.html import Element, page_of

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.usefixtures("own"),
    pytest.mark.parametrize("own", ["sqlite", "postgresql"], indirect=True),
]

PASSWORD = "correct horse battery staple"


@pytest.fixture
def root(db: None) -> Browser:
    """An admin who signed in."""
    browser = Browser()
    browser.force_login(get_user_model().objects.create_superuser("chief", password=PASSWORD))
    return browser


def invited(root: Browser, **fields: object) -> str:
    """The link of a new invitation."""
    response = root.send("invite", {"note": "Ana", **fields})
    assert response.status_code == 200, response.content.decode()
    assert response["Cache-Control"] == "private, no-store"
    return page_of(response).one("code", id="invitation-link").text.removeprefix("http://testserver")


def opened(link: str, browser: Browser | None = None, status: int = 200) -> Element:
    """The page to which a link leads: as without scripts, it is pasted."""
    browser = browser or Browser()
    form = browser.open("/join/").one("form", class_="form", action="/join/")
    answer = browser.send("join", {**form.fields(), "token": f"http://testserver{link}"})
    assert answer.status_code == status
    return page_of(answer)


def accept(link: str, name: str = "ana", password: str = PASSWORD) -> tuple[Browser, int]:
    """A new browser that opened the link and sent the form; the status of the answer."""
    browser = Browser()
    fields = opened(link, browser).one("form", class_="form", action="/join/").fields()
    return browser, browser.send("join", {**fields, "name": name, "password": password}).status_code


def test_an_invited_person_chooses_name_and_password_and_gets_the_groups(root: Browser) -> None:
    for name in ("Support", "Editors"):
        root.send("new-group", {"name": name})
    link = invited(root, groups=["Support"])
    assert "autofocus" in opened(link).one("input", id="name")
    browser, status = accept(link)
    assert status == 302
    assert browser.open("home").one("h1").text == "Home"
    ana = get_user_model().objects.get(username="ana")
    assert (ana.is_superuser, ana.check_password(PASSWORD)) == (False, True)
    assert [group.name for group in ana.groups.all()] == ["Support"]


def test_an_invitation_gives_the_role_that_it_names_and_the_list_and_the_page_say_which(root: Browser) -> None:
    link = invited(root, role="editor", apps=" booking* ")
    (row,) = root.open("people").one("section", aria_labelledby="open-invitations").all("tr", data_row="")
    assert row.text.startswith("Ana editor booking* none ")
    page = opened(link)
    assert page.one("main").texts("dd") == ["editor", "booking*"]
    assert (page.all("details", "menu"), page.texts("span", "badge")) == ([], ["editor"])  # and none is “read-only”
    ana, status = accept(link)
    assert status == 302
    (role,) = Role.objects.all()
    assert (role.holder, role.role, role.apps, role.sources, role.given_by) == (
        "ana",
        "editor",
        "booking*",
        "*",
        "chief",
    )
    assert "No access yet" not in ana.open("home").text
    given = [(row.act, row.by, row.app_name) for row in AuditRow.objects.order_by("pk") if row.app_name]
    assert given == [("invited", "chief", "booking*"), ("role-given", "chief", "booking*")]


def test_who_may_not_give_a_role_invites_nobody_with_it_then_or_when_they_join(
    root: Browser, settings: Settings
) -> None:
    link = invited(root, role="viewer")
    settings.READ_ONLY = True
    assert root.send("invite", {"note": "Eva", "role": "viewer"}).status_code == 403
    assert accept(link)[1] == 403
    assert not get_user_model().objects.filter(username="ana").exists()
    settings.READ_ONLY = False
    assert root.send("invite", {"note": "Eva", "role": "owner"}).status_code == 400
    assert accept(link)[1] == 302
    assert Role.objects.get().role == "viewer"


def test_the_page_of_a_new_invitation_and_the_list_name_one_end(root: Browser) -> None:
    page = page_of(root.send("invite", {"note": "Ana"}))
    said, listed = page.one(id_="made").one("time"), page.one("td", data_label="Expires").one("time")
    assert (said.text, said["datetime"]) == (listed.text, listed["datetime"])
    assert listed["datetime"].startswith((timezone.now() + timedelta(days=7)).date().isoformat())


def test_an_invitation_is_used_once_and_within_seven_days(root: Browser) -> None:
    link = invited(root)
    assert accept(link)[1] == 302
    assert "was cancelled or has already been used" in opened(link, status=404).one("main").text
    late = invited(root)
    Invitation.objects.update(created=timezone.now() - timedelta(days=7, seconds=1))
    opened(late, status=404)
    assert (
        Browser().send("join", {"token": late.partition("#")[2], "name": "eve", "password": PASSWORD}).status_code
        == 404
    )
    assert not get_user_model().objects.filter(username="eve").exists()


def test_the_secret_of_an_invitation_is_in_no_address_that_a_server_gets(root: Browser) -> None:
    link = invited(root)
    path, _hash, text = link.partition("#")
    assert (path, len(text)) == ("/join/", 43)
    guest = Browser()
    page = guest.open("/join/", query={"token": text}, status=400)
    assert "Ask for a new one" in page.one(role="alert").text
    assert page.one("form", class_="form", action="/join/").fields()["token"] == ""
    assert guest.send("join", {"token": ""}).status_code == 400
    answer = guest.send("join", {"token": text})
    assert "chief invited you to adkweb" in page_of(answer).one("main").text
    assert (answer["Cache-Control"].count("no-store"), invitations.of(text).note) == (1, "Ana")


def test_an_invitation_ends_with_the_rights_of_the_admin_who_made_it(root: Browser) -> None:
    link = invited(root, admin="on")
    get_user_model().objects.create_superuser("other", password=PASSWORD)
    chief = get_user_model().objects.filter(username="chief")
    for gone in ({"is_superuser": False}, {"is_active": False}):
        chief.update(**gone)
        opened(link, status=404)
        answer = Browser().send("join", {"token": link.partition("#")[2], "name": "eve", "password": PASSWORD})
        assert answer.status_code == 404
        chief.update(is_superuser=True, is_active=True)
    assert accept(link)[1] == 302


def test_an_invitations_link_is_stored_nowhere_and_it_can_be_withdrawn(root: Browser) -> None:
    link = invited(root)
    text = link.partition("#")[2]
    assert text not in root.get("/people/").content.decode()
    (row,) = Invitation.objects.all()
    assert text not in str(vars(row))
    root.send("cancel-invitation", {}, invitation_id=row.pk)
    opened(link, status=404)


@pytest.mark.parametrize(
    ("name", "password", "status", "message"),
    [
        ("ana", "short", 400, "too short"),
        ("ana", "password1234", 400, "too common"),
        ("ana", "x" * 4097, 400, "up to 4096"),
        ("anastasia-the-first", "anastasia-the-first", 400, "too similar"),
        ("", PASSWORD, 400, "cannot be blank"),
        ("a b", PASSWORD, 400, "valid username"),
        ("a" * 151, PASSWORD, 400, "at most 150"),
        ("CHIEF", PASSWORD, 409, "taken"),
        ("Agent", PASSWORD, 409, "taken"),
        ("adkweb", PASSWORD, 409, "taken"),
        ("terminal", PASSWORD, 409, "taken"),
        ("a\0", PASSWORD, 400, ""),
    ],
)
def test_a_refused_name_or_password_says_why_and_leaves_the_invitation(
    root: Browser, name: str, password: str, status: int, message: str
) -> None:
    token = invited(root).partition("#")[2]
    response = Browser().send("join", {"token": token, "name": name, "password": password})
    assert response.status_code == status
    assert message in page_of(response).one("span", "error").text
    assert get_user_model().objects.count() == 1
    assert invitations.of(token)


def test_an_admin_who_opens_the_link_by_mistake_does_not_use_it_up(root: Browser) -> None:
    link = invited(root)
    assert "hasn't been used yet" in opened(link, root, status=409).one("main").text
    assert accept(link)[1] == 302


@pytest.mark.guarantee("Safety", "Only admins can see and change accounts and groups.")
def test_who_is_no_admin_sees_and_changes_nothing(maria: Browser, root: Browser) -> None:
    Group.objects.create(name="Support")
    for address in ("/people/", "/people/chief/", "/people/nobody/", "/groups/Support/", "/groups/none/"):
        maria.open(address, status=403)
    for name, data, names in (
        ("invite", {"note": "x", "admin": "on"}, {}),
        ("new-group", {"name": "x"}, {}),
        ("person", {"active": "on", "admin": "on"}, {"name": NAME}),
        ("group", {"name": "x"}, {"name": "Support"}),
        ("delete-group", {}, {"name": "Support"}),
        ("cancel-invitation", {}, {"invitation_id": 1}),
    ):
        assert maria.send(name, data, **names).status_code == 403, name
    assert not get_user_model().objects.get(username=NAME).is_superuser
    assert [group.name for group in Group.objects.all()] == ["Support"]
    assert not Invitation.objects.exists()
    assert "/people/" not in [link["href"] for link in maria.open("home").all("a") if "href" in link]


def test_who_is_deactivated_is_signed_out_and_stays_so_when_the_account_comes_back(
    root: Browser, maria: Browser
) -> None:
    assert root.send("person", {}, name=NAME).status_code == 302
    assert maria.get("/").status_code == 302
    assert root.send("person", {"active": "on"}, name=NAME).status_code == 302
    assert maria.get("/").status_code == 302
    assert SignIn.objects.count() == 1


@pytest.mark.guarantee("Safety", "There is always at least one admin.")
def test_the_last_admin_stays_one_until_there_is_another(root: Browser, person: User) -> None:
    for change in ({"active": "on"}, {"admin": "on"}, {}):
        response = root.send("person", change, name="chief")
        assert response.status_code == 409
        assert "is the last admin who can sign in, so nothing was changed" in page_of(response).one(role="alert").text
    # One without a password cannot sign in from elsewhere, so another one is needed.
    root.send("person", {"active": "on", "admin": "on"}, name=NAME)
    assert root.send("person", {"active": "on"}, name="chief").status_code == 409
    person.refresh_from_db()
    person.set_password(PASSWORD)
    person.save()
    assert root.send("person", {"active": "on"}, name="chief").status_code == 302
    root.open("people", status=403)


def test_the_page_of_a_person_lists_their_own_roles_and_those_of_their_groups(root: Browser, person: User) -> None:
    for group in ("Support", "Others"):
        Group.objects.create(name=group)
        roles.give("viewer", by=TERMINAL, apps=f"{group.lower()}-*", group=group)
    Role.objects.filter(person=person).delete()
    assert "No role yet, so they can't see any apps" in root.open("person", name=NAME).text
    root.send("person", {"active": "on", "groups": ["Support"]}, name=NAME)
    roles.give("editor", by=TERMINAL, apps="booking", person=NAME)
    rows = [row.text for row in root.open("person", name=NAME).all("tr", data_row="")]
    assert [("support-*" in row, "booking" in row) for row in rows] == [(True, False), (False, True)]


def test_longer_lists_of_people_groups_roles_and_invitations_cost_no_more_queries(root: Browser) -> None:
    needed = []
    for name in ("ana", "bob", "eva"):
        group = Group.objects.create(name=f"friends of {name}")
        get_user_model().objects.create_user(name).groups.add(group)
        roles.give("viewer", by=TERMINAL, person=name)
        roles.give("viewer", by=TERMINAL, group=group.name)
        invited(root, groups=[group.name])
        with CaptureQueriesContext(connection) as asked:
            texts = root.open("people").text, root.open("roles").text
        assert all(name in text for text in texts)
        needed.append([query["sql"] for query in asked if "auth_" in query["sql"] or "invitation" in query["sql"]])
    assert len(needed[0]) == len(needed[-1])


def test_a_group_is_renamed_with_its_people_and_deleted_without_them(root: Browser, person: User) -> None:
    root.send("new-group", {"name": "Support"})
    root.send("person", {"active": "on", "groups": ["Support"]}, name=NAME)
    assert root.send("group", {"name": "Help / desk"}, name="Support").status_code == 302
    assert list(person.groups.values_list("name", flat=True)) == ["Help / desk"]
    assert root.open("group", name="Help / desk").one("dl", "facts").one("a").text == NAME
    root.open("delete-group", name="Help / desk")
    assert root.send("delete-group", {}, name="Help / desk").status_code == 302
    assert not person.groups.exists()


@pytest.mark.parametrize(
    ("name", "status"), [("", 400), ("Support", 409), ("a\nb", 400), ("x" * 151, 400), ("a\0", 400)]
)
def test_a_refused_name_of_a_group_says_why(root: Browser, name: str, status: int) -> None:
    Group.objects.create(name="Support")
    response = root.send("new-group", {"name": name})
    assert response.status_code == status
    assert page_of(response).one("span", "error").text
    assert Group.objects.count() == 1


def test_a_group_that_does_not_exist_is_given_to_nobody(root: Browser, person: User) -> None:
    assert root.send("invite", {"groups": ["gone"]}).status_code == 400
    assert root.send("person", {"active": "on", "groups": ["gone"]}, name=NAME).status_code == 400
    assert not Invitation.objects.exists()


def test_hostile_names_are_shown_as_text(root: Browser) -> None:
    hostile = '"><script>alert(1)</script>'
    root.send("new-group", {"name": hostile})
    invited(root, note=hostile, groups=[hostile])
    assert hostile in root.open("people").text
    assert root.open("group", name=hostile).one("h1").text == hostile


def test_the_link_of_a_new_adkweb_makes_the_first_admin(guest: Browser) -> None:
    guest.get("/sign-in/", {"token": sign_in.sign_in_token()})
    guest.open("people")
    assert not sign_in.admin_exists()
    assert guest.send("new-password", {"password": PASSWORD}).status_code == 302
    assert sign_in.admin_exists()
    assert guest.open("home").one("h1").text == "Home"


def test_the_link_makes_nobody_an_admin_beside_another(root: Browser, guest: Browser) -> None:
    guest.get("/sign-in/", {"token": sign_in.sign_in_token()})
    guest.open("people", status=403)


def test_the_link_of_a_deactivated_account_signs_nobody_in(root: Browser, guest: Browser) -> None:
    token = sign_in.sign_in_token()
    get_user_model().objects.exclude(username="chief").update(is_active=False)
    guest.open("sign-in", query={"token": token}, status=403)


def test_a_new_password_needs_the_old_one_and_signs_the_other_browsers_out(root: Browser) -> None:
    other = Browser()
    other.force_login(get_user_model().objects.get(username="chief"))
    new = "another horse battery staple"
    assert root.send("new-password", {"old": "wrong", "password": new}).status_code == 400
    assert root.send("new-password", {"old": PASSWORD, "password": "short"}).status_code == 400
    assert other.get("/").status_code == 200
    assert root.send("new-password", {"old": PASSWORD, "password": new}).status_code == 302
    assert other.get("/").status_code == 302
    assert root.get("/").status_code == 200
    for _ in range(6):
        response = root.send("new-password", {"old": "wrong", "password": new})
    assert response.status_code == 429
    assert response["Retry-After"]
