"""Tokens: shown once, kept as a hash, of one scope, for some apps, revoked at once."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone

from sessions_app.access import tokens
from sessions_app.access.actor import Actor, Grant
from sessions_app.access.tokens import ApiToken
from sessions_app.domain.errors import AlreadyExists, Invalid, NotAllowed, NotFound
from sessions_app.domain.roles import PERMISSIONS
from tests.api.program import Program
from tests.support.people import as_admin

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.usefixtures("own"),
    pytest.mark.parametrize("own", ["sqlite", "postgresql"], indirect=True),
]


@pytest.mark.guarantee("Safety", "A token is shown only once, and adkweb stores only its hash.")
def test_a_token_is_shown_once_and_stored_as_a_hash() -> None:
    token, text = tokens.create(" agent ", "append", "", by=as_admin("maria"))
    assert (token.name, token.permission, token.apps, token.created_by) == ("agent", "append", "*", "maria")
    assert (token.used, token.revoked, token.revoked_by) == (None, None, "")
    assert text.startswith(tokens.PREFIX)
    assert len(text) > 40
    with connection.cursor() as cursor:
        cursor.execute("SELECT * FROM sessions_app_apitoken")
        assert text not in repr(cursor.fetchall())
    assert tokens.create("other", "append", "*", by=as_admin("maria"))[1] != text


def test_only_an_admin_of_everything_makes_renews_and_revokes_tokens() -> None:
    tokens.create("agent", "append", "*", by=as_admin("maria"))
    for editor in (Actor.holding("ed", "append"), Actor.holding("ada", "admin", "booking*")):
        for act in (
            lambda by: tokens.create("own", "read", "*", by=by),
            lambda by: ApiToken.objects.named("agent").renew(by=by),
            lambda by: ApiToken.objects.named("agent").revoke(by=by),
        ):
            with pytest.raises(NotAllowed):
                act(editor)
    assert [(token.name, token.renewed_by, token.revoked) for token in ApiToken.objects.listed()] == [
        ("agent", "", None)
    ]


def test_a_token_stands_for_its_program() -> None:
    _token, text = tokens.create("agent", "append", "book*", by=as_admin("maria"))
    actor = tokens.actor_of(text)
    assert actor
    assert (actor.name, actor.grants) == ("token agent", (Grant("append", "book*"),))
    for wrong in ("", text[:-1], text + "x", text.upper(), "ä\ud800\0"):
        assert tokens.actor_of(wrong) is None


def test_a_revoked_token_ends_at_once_and_keeps_its_name(program: Program) -> None:
    assert program.get("/api/apps").status == 200
    ended = ApiToken.objects.named("program")
    ended.revoke(by=as_admin("maria"))
    assert (ended.revoked_by, ended.revoked is not None) == ("maria", True)
    refused = program.get("/api/apps")
    assert refused.status == 401
    assert "revoked" in refused.detail
    again = ApiToken.objects.named("program")
    again.revoke(by=as_admin("ben"))
    assert (again.revoked_by, again.revoked) == ("maria", ended.revoked)
    with pytest.raises(AlreadyExists, match="program"):
        tokens.create("program", "read", "*", by=as_admin("maria"))
    with pytest.raises(NotFound):
        ApiToken.objects.named("ghost").revoke(by=as_admin("maria"))


def test_those_in_use_are_listed_first() -> None:
    for name in ("c", "a", "b"):
        tokens.create(name, "read", "*", by=as_admin("maria"))
    ApiToken.objects.named("a").revoke(by=as_admin("maria"))
    assert [token.name for token in ApiToken.objects.listed()] == ["b", "c", "a"]


def test_when_a_token_was_used_last_is_known_to_the_minute(program: Program) -> None:
    program.get("/api/apps")
    (token,) = ApiToken.objects.listed()
    assert token.used is not None
    assert timezone.now() - token.used < timedelta(seconds=30)
    program.get("/api/apps")
    assert ApiToken.objects.listed()[0].used == token.used
    ApiToken.objects.update(used=timezone.now() - timedelta(minutes=2))
    tokens.known.clear()  # a second later
    program.get("/api/apps")
    used = ApiToken.objects.listed()[0].used
    assert used is not None
    assert used > token.used


@pytest.mark.parametrize(
    ("name", "permission", "apps"),
    [
        ("", "read", "*"),
        (" ", "read", "*"),
        ("x" * 101, "read", "*"),
        ("a\0", "read", "*"),
        ("a", "write", "*"),
        ("a", "", "*"),
        ("a", "read", "x" * 201),
    ],
)
def test_what_no_token_can_be_is_refused(name: str, permission: str, apps: str) -> None:
    with pytest.raises(Invalid):
        tokens.create(name, permission, apps, by=as_admin("maria"))
    assert ApiToken.objects.listed() == []


@pytest.mark.parametrize(("permission", "may"), [("read", 1), ("operate", 2), ("append", 3), ("admin", 4)])
def test_each_scope_includes_those_before_it(permission: str, may: int) -> None:
    actor = Actor.holding("agent", permission)  # type: ignore[arg-type]
    allowed = []
    for wanted in PERMISSIONS:
        with suppress(NotAllowed):
            actor.check_may(wanted, "store", "booking")  # type: ignore[arg-type]
            allowed.append(wanted)
    assert len(allowed) == may


@pytest.mark.parametrize(
    ("pattern", "app", "may"),
    [
        ("*", "any thing", True),
        ("booking", "booking", True),
        ("booking", "Booking", False),
        ("booking", "booking2", False),
        ("book*", "booking", True),
        ("book*", "a book", False),
        ("b?", "b", False),
    ],
)
def test_a_pattern_names_whole_names(pattern: str, app: str, may: bool) -> None:
    assert Actor.holding("agent", "read", pattern).may_see("store", app) is may


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer ", "Basic abc", "Token x", "Bearer a b", "bearer\tx"])
def test_what_is_no_token_signs_nobody_in(guest: Program, header: str) -> None:
    assert guest.get("/api/apps", headers={"Authorization": header}).status == 401


def test_the_scheme_may_be_written_in_any_case(guest: Program, new_token: Callable[..., str]) -> None:
    assert guest.get("/api/apps", headers={"Authorization": f"bearer {new_token('read')}"}).status == 200


def test_a_token_in_the_address_is_none(guest: Program, new_token: Callable[..., str]) -> None:
    assert guest.get("/api/apps", token="", access_token=new_token()).status == 401
