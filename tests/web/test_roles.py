"""Roles: what each may open and send, in one table over all addresses; and the page that gives and takes them."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Final

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group, User
from django.db import connections, transaction
from django.urls import URLPattern, reverse

from sessions_app.access import roles
from sessions_app.access.actor import TERMINAL, Actor
from sessions_app.access.roles import Role
from sessions_app.domain.errors import Conflict, Invalid, NotAllowed, NotFound
from sessions_app.domain.session_ref import SessionRef
from sessions_app.search.folding import Summary
from sessions_app.web import urls
from sessions_app.writes.append import append_event
from tests.support.people import ALICE, somebody
from tests.web.conftest import Browser
from tests.web.html import page_of

pytestmark = pytest.mark.django_db

ON_BOTH: Final = pytest.mark.parametrize("own", ["sqlite", "postgresql"], indirect=True)  # adkweb's own database
HOSTILE: Final = "<script>alert(1)</script>"
# Each address by what it needs. An address that stands nowhere fails the first test.
NEEDS: Final[dict[str, str]] = {
    "public": "sign-in second-step provider-sign-in provider-callback join set_language",
    "person": """home demo feed inbox decide agents edits search histogram complete palette watch-view webhook deliveries
        delete-view chosen batches batch replays replay what-ifs queued-outcomes queued-json cancel-queued queued-dismiss
        sign-out new-password
        sign-ins second-factor new-codes remove-second-factor add-passkey remove-passkey connect-provider
        import expiring temporary-edits extend-edit keep-edit proposals proposal settings""",
    "read": """agent
        apps app users sessions state-health rule rule-trial schema schema-model schema-key schema-check app-value
        app-history save-view change-view
        app-export user user-sessions user-value user-history user-export session go events chat preview news stats strip
        range trace state-at stretch queued waits session-value session-history compare compare-delta artifacts
        artifact-versions artifact-file artifact-image context session-export make-test drift event forks delivery
        event-json event-data""",
    "operate": """dismiss answer say continue stop resume breakpoints test-agent stop-agent agent-output what-if tried
        decide-call stop-what-if""",
    "append": """new-session app-edit user-edit session-title session-tags session-edit add-event undo
        restore rewind""",
    "admin": """imports fork keep-what-if delete-session export-everything everything-file erase-user hold-session
        retention remove-retention""",
    "reveal": "session-reveal user-reveal app-reveal event-reveal",
    "everything": """tokens renew-token revoke-token roles remove-role adoption masking remove-mask
        approval delete-approval remove-agent-address start-sessions""",
    "audit": "audit audit-export",
    "people": """people person invite cancel-invitation new-group group delete-group
        sign-somebody-out reset-second-factor""",
}
NEED: Final = {name: need for need, names in NEEDS.items() for name in names.split()}
POSTED: Final = {
    "remove-retention",
    "save-view",
    "change-view",
    "watch-view",
    "webhook",
    "delete-view",
    "cancel-queued",
    "queued-dismiss",
    "extend-edit",
    "proposal",
    "delete-approval",
    "start-sessions",
    "keep-edit",
    "sign-out",
    "sign-somebody-out",
    "connect-provider",
    "reset-second-factor",
    "new-codes",
    "remove-second-factor",
    "set_language",
    "remove-role",
    "remove-mask",
    "invite",
    "cancel-invitation",
    "new-group",
    "session-title",
    "session-tags",
    "dismiss",
    "decide",
    "answer",
    "decide-call",
    "stop-what-if",
    "keep-what-if",
    "say",
    "continue",
    "stop",
    "resume",
    "breakpoints",
    "schema-check",
    "chosen",
    "test-agent",
    "stop-agent",
    "remove-agent-address",
}
# Gives the needs that each meets, in the session's app. A superuser needs no role.
MAY: Final = {
    "nobody": {"person"},
    "auditor": {"person", "audit"},
    "viewer": {"person", "read"},
    "operator": {"person", "read", "operate"},
    "editor": {"person", "read", "operate", "append"},
    "admin": {"person", "read", "operate", "append", "admin"},
    "root": {"person", "read", "operate", "append", "admin", "everything", "audit"},
    "superuser": {"person", "read", "operate", "append", "admin", "everything", "audit", "people", "reveal"},
}
_SENT: Final = {"tag": "vip", "title": "Late"}
PATTERNS: Final = [pattern for pattern in urls.urlpatterns if isinstance(pattern, URLPattern)]


def signed_in(role: str, app: str = "booking") -> Browser:
    """Somebody with a role in one app; `root` has it in all."""
    browser = Browser()
    if role == "superuser":
        person: User = get_user_model().objects.create_superuser("sue")
    elif role == "root":
        person = somebody("rita", "admin")
    else:
        person = somebody("ria", "" if role == "nobody" else role, app)
    browser.force_login(person)
    return browser


def status_of(browser: Browser, pattern: URLPattern, ref: SessionRef) -> int:
    """Returns the status that an address answers; 401 stands for the way to the sign-in."""
    given = {**ref._asdict(), "event_id": "e1", "number": 0, "artifact": "plan.txt", "version": 0, "name": "x"}
    names = {name: given.get(name, uuid.UUID(int=0)) for name in pattern.pattern.converters}
    names |= {"invitation_id": 0} if "invitation_id" in names else {}
    address = reverse(str(pattern.name), kwargs=names)
    answer = browser.post(address, _SENT) if pattern.name in POSTED else browser.get(address)
    if answer.status_code == 302 and answer.headers["Location"].startswith("/sign-in/?"):
        return 401
    return int(answer.status_code)


def test_every_address_says_what_it_needs() -> None:
    assert {str(pattern.name) for pattern in PATTERNS} == NEED.keys()


def wrong(role: str, status: int, pattern: URLPattern) -> bool:
    """Tells whether an address answers somebody with a role otherwise than its need says."""
    need, may = NEED[str(pattern.name)], MAY[role]
    if need == "public" or need in may:
        return status in (401, 403, 500)
    if "read" not in may and ("app_name" in str(pattern.pattern) or pattern.name == "apps"):
        return status not in (404, *((200, 302, 400) if need == "read" else ()))  # as for an app that is not there
    return status != 403


@contextmanager
def undone() -> Iterator[None]:
    """Takes back afterwards what is written to adkweb's own database: a sign-out, for example."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)
    roles.known.clear()


def deciding(pattern: URLPattern) -> set[str]:
    """Returns the roles that decide about an address: nobody, an auditor, the least that may open it and the one below."""
    growing = [role for role in MAY if role != "auditor"]
    enough = [role for role in growing if NEED[str(pattern.name)] in MAY[role]] or growing
    least = growing.index(enough[0])
    return {"nobody", "auditor", *growing[max(least - 1, 0) : least + 1]}


@pytest.mark.parametrize("each", [False, pytest.param(True, marks=pytest.mark.long)], ids=["deciding", "each"])
def test_each_role_may_open_what_it_needs_and_nothing_else(ref: SessionRef, each: bool) -> None:
    event = {"id": "e1", "author": "agent", "invocation_id": "i1", "actions": {"state_delta": {"step": "pay"}}}
    append_event(ref, event, actor=ALICE)
    problems = []
    for role in MAY:
        with undone():
            cookies = signed_in(role).cookies
            for pattern in (pattern for pattern in PATTERNS if each or role in deciding(pattern)):
                browser = Browser()
                browser.cookies.update(cookies)
                with undone():
                    status = status_of(browser, pattern, ref)
                if wrong(role, status, pattern):
                    problems.append((str(pattern.name), role, status))
    for pattern in PATTERNS:
        with undone():
            status = status_of(Browser(), pattern, ref)
        if (status == 401) == (NEED[str(pattern.name)] == "public"):
            problems.append((str(pattern.name), "who did not sign in", status))
    assert problems == []


def test_settings_list_for_everyone_the_pages_that_they_may_open_and_no_other(ref: SessionRef) -> None:
    pages = [
        "people",
        "roles",
        "tokens",
        "masking",
        "approval",
        "retention",
        "audit",
        "new-password",
        "second-factor",
        "sign-ins",
    ]
    offered: dict[str, list[str]] = {}
    for role in MAY:
        with undone():
            browser = signed_in(role)
            first = browser.get("/settings/")
            listed = browser.open(first["Location"]).one("nav", class_="settingsnav").all("a")
            opened = [reverse(name) for name in pages if browser.get(reverse(name)).status_code == 200]
            assert [link["href"] for link in listed] == opened, role
            assert first["Location"] == opened[0]
            offered[role] = [link.text for link in listed]
    assert (len(offered["superuser"]), len(offered["root"]), offered["viewer"][0]) == (10, 9, "Password")
    assert offered["auditor"] == ["Audit", *offered["viewer"]]


def test_who_is_an_admin_elsewhere_gets_of_an_app_what_nobody_gets(ref: SessionRef) -> None:
    stranger, problems = signed_in("admin", "weather*"), []
    for pattern in PATTERNS:
        if "app_name" in str(pattern.pattern):
            answers = [status_of(stranger, pattern, each) for each in (ref, ref._replace(app_name="atlantis"))]
            problems += [(str(pattern.name), answers)] if len(set(answers)) > 1 else []
    assert problems == []


# --- Giving and taking ------------------------------------------------------------------------------------------------


@pytest.fixture
def sue(own: str) -> Browser:
    """A superuser who signed in."""
    return signed_in("superuser")


@ON_BOTH
def test_a_role_is_given_to_a_person_and_to_a_group_and_holds_at_once(sue: Browser, ref: SessionRef) -> None:
    ana = Browser()
    person = somebody("ana")
    ana.force_login(person)
    assert "No access yet" in ana.open("home").text
    assert sue.send("roles", {"holder": "person:ana", "role": "viewer", "apps": "book*"}).status_code == 302
    assert ana.open("session", **ref._asdict()).one("h1")
    ana.open("session-edit", status=403, **ref._asdict())
    group = Group.objects.create(name="support: <b>")
    assert sue.send("roles", {"holder": "group:support: <b>", "role": "editor", "apps": ""}).status_code == 302
    person.groups.add(group)
    ana.open("session-edit", **ref._asdict())
    person.groups.clear()
    ana.open("session-edit", status=403, **ref._asdict())


@ON_BOTH
def test_a_role_that_is_taken_is_gone_at_once(sue: Browser, ref: SessionRef) -> None:
    ana = Browser()
    ana.force_login(somebody("ana", "viewer"))
    ana.open("session", **ref._asdict())
    role = Role.objects.get(person__username="ana")
    assert sue.send("remove-role", {}, number=role.pk).status_code == 302
    ana.open("session", status=404, **ref._asdict())
    assert sue.send("remove-role", {}, number=role.pk).status_code == 404


@ON_BOTH
def test_a_role_holds_although_somebody_asked_before_it_was_committed(own: str, ref: SessionRef) -> None:
    person = somebody("ana")

    def may_read() -> bool:
        return roles.actor_of(person).may("read", ref.source, ref.app_name)

    with ThreadPoolExecutor(1) as other:
        with transaction.atomic():
            Role.objects.create(person=person, role="viewer", given_by="sue")
            assert not other.submit(may_read).result()
        assert may_read()
        other.submit(connections.close_all).result()


@ON_BOTH
def test_the_last_admin_keeps_the_role(own: str) -> None:
    rita = somebody("rita", "admin")
    actor = roles.actor_of(rita)
    role = Role.objects.get()
    with pytest.raises(Conflict, match="No one would be left who can assign roles"):
        roles.remove(role.pk, by=actor)
    assert roles.actor_of(rita).runs_everything
    somebody("ben", "admin")
    roles.remove(role.pk, by=actor)
    assert not roles.actor_of(rita).runs_everything


@ON_BOTH
@pytest.mark.parametrize("role", ["nobody", "auditor", "viewer", "editor", "admin"])
def test_only_an_admin_of_everything_gives_and_takes_roles(own: str, role: str) -> None:
    actor = roles.actor_of(somebody("ria", "" if role == "nobody" else role, "booking*"))
    other = roles.give("viewer", by=TERMINAL, person="ria", apps="weather")
    for act in (lambda: roles.give("admin", by=actor, person="ria"), lambda: roles.remove(other.pk, by=actor)):
        with pytest.raises(NotAllowed):
            act()


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"role": "owner", "person": "ana"}, Invalid),
        ({"role": "viewer"}, Invalid),
        ({"role": "viewer", "person": "ana", "group": "x"}, Invalid),
        ({"role": "viewer", "person": "ghost"}, NotFound),
        ({"role": "viewer", "group": "ghosts"}, NotFound),
        ({"role": "viewer", "person": "ana", "apps": "x" * 201}, Invalid),
        ({"role": "viewer", "person": "ana", "apps": "a\nb"}, Invalid),
        ({"role": "viewer", "person": "ana", "sources": "a\0b"}, Invalid),
    ],
)
def test_a_role_that_is_none_is_refused_and_nothing_given(own: str, given: dict[str, str], error: type) -> None:
    somebody("ana")
    with pytest.raises(error):
        roles.give(by=TERMINAL, **given)  # type: ignore[arg-type]
    assert Role.objects.count() == 0


@ON_BOTH
def test_the_form_says_what_is_wrong_and_keeps_what_was_given(sue: Browser) -> None:
    response = sue.send("roles", {"holder": "person:ghost", "role": "editor", "apps": HOSTILE})
    page = page_of(response)
    assert response.status_code == 404
    assert "There's no account" in page.one(role="alert").text
    assert page.one("form", class_="form").fields()["apps"] == HOSTILE
    assert page.one("form", class_="form").fields()["role"] == "editor"


@ON_BOTH
def test_overlapping_roles_give_the_rights_of_all_of_them(own: str) -> None:
    person = somebody("ana", "viewer", "book*")
    for role, apps in (("editor", "*ing"), ("admin", "bo?king"), ("auditor", "*"), ("editor", "[")):
        Role.objects.create(person=person, role=role, apps=apps, given_by="adam")
    actor: Actor = roles.actor_of(person)
    assert [actor.may(permission, "x", "booking") for permission in ("read", "append", "admin")] == [True] * 3
    assert [actor.may(permission, "x", "books") for permission in ("read", "append")] == [True, False]
    assert [actor.may(permission, "x", "ring") for permission in ("append", "admin")] == [True, False]
    assert (actor.audits, actor.sees_all, actor.runs_everything) == (True, False, False)


@ON_BOTH
def test_a_role_holds_in_its_sources_alone(own: str) -> None:
    actor = roles.actor_of(somebody("ana", "admin", "*", sources="prod*"))
    assert (actor.may_see("prod-eu", "booking"), actor.may_see("test", "booking")) == (True, False)
    assert (actor.sees_all_of("prod-eu"), actor.sees_all_of("test"), actor.sees_all) == (True, False, False)


@ON_BOTH
def test_what_only_a_later_adkweb_knows_gives_no_right(own: str) -> None:
    later = Role.objects.create(person=somebody("ana"), role="reviewer", given_by="sue")
    assert not roles.actor_of(later.person).grants
    assert not Actor.holding("token", "stop").may("read", "store", "booking")  # type: ignore[arg-type]
    assert Summary.stored('{"events": 2, "of_2031": 1}') == Summary(events=2)


def test_who_is_deactivated_has_no_right_whatever_their_roles(own: str) -> None:
    person = somebody("ana", "admin")
    person.is_superuser = True
    person.is_active = False
    person.save()
    assert roles.actor_of(person).grants == ()
