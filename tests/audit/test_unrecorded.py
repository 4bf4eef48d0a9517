"""Acts that must be recorded and cannot be are not done: one table of them all. A new act without a row fails."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db.models import QuerySet
from django.test import Client, RequestFactory
from pytest_django import Settings

from sessions_app import transfer
from sessions_app.access import (
    approval,
    groups,
    identities,
    invitations,
    passwords,
    people,
    roles,
    second_factor,
    sign_in,
    tokens,
)
from sessions_app.access.actor import TERMINAL, Actor, Grant
from sessions_app.access.audit import acts
from sessions_app.access.oidc import Identity
from sessions_app.access.tokens import ApiToken
from sessions_app.checks import mask_rules, rules
from sessions_app.domain.errors import NotRecorded
from sessions_app.domain.session_ref import SessionRef
from sessions_app.edits import reveal
from sessions_app.models import Job, Trial
from sessions_app.privacy import erasures, holds, retention
from sessions_app.reads import timeline
from sessions_app.running import answers, breakpoints, runs, servers
from sessions_app.running.answers import Given
from sessions_app.search import inbox
from sessions_app.search.saved import views, webhooks
from sessions_app.search.saved.views import ViewWatch
from sessions_app.search.saved.webhooks import Webhook
from sessions_app.sources import adopt_job, agents, own_backups, registry
from sessions_app.transfer import import_job
from sessions_app.trying import replays, whatif
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import delete_session
from tests.audit.test_acts import refusing_rows
from tests.search.finding import feed
from tests.support.at_work import settle
from tests.support.device import code_of
from tests.support.people import ALICE, an_admin, as_admin, somebody
from tests.support.stored import everything

PASSWORD: Final = "correct horse battery"
BY: Final = {"actor": TERMINAL}
RITA: Final = Actor("rita", (Grant("read", reveals=True),))
ANA: Final = Identity("https://id.example.com", "1", "ana", frozenset({"support"}))
VIEW: Final = {"name": "Stuck", "query": "error", "sort": "", "columns": "", "shared": False}
HOOK: Final = "http://127.0.0.1/hook"
Act = Callable[[], Any]


@pytest.fixture(autouse=True)
def _settings(own: str, settings: Settings) -> None:
    settings.WEBHOOK_HOSTS = ["127.0.0.1"]
    settings.AGENTS, settings.RUN_AGENTS = {"store": str(Path("examples/agents").absolute())}, True
    settings.BREAKPOINTS = True
    settings.OIDC_ISSUER, settings.OIDC_ROLES = ANA.issuer, [("support", "viewer", "*")]


# --- What each act needs before it can be tried; what comes back tries it -----------------------------------------------


def a_group() -> None:
    groups.make("Support", **BY)


def a_person(name: str = "ana") -> User:
    return User.objects.create_user(name, password=PASSWORD)


def a_role() -> int:
    return roles.give("viewer", by=TERMINAL, person=a_person().username).pk


def a_rule(ref: SessionRef) -> int:
    number = rules.create(ref.source, "booking", "Steps", "step = pay", actor=ALICE)
    settle("rule")
    return number


def a_second_factor(person: User, *, more: int = 0) -> Act:
    session: dict[str, Any] = {}
    secret = second_factor.offered(session)
    return lambda: second_factor.switch_on(person, session, code_of(secret, more))


def a_masked_key(ref: SessionRef) -> None:
    append_event(ref, {"author": "a", "actions": {"state_delta": {"password": "hunter-22"}}}, actor=ALICE)
    mask_rules.create("book*", "key", "password", actor=ALICE)


def a_view(*, hook: bool = False) -> Any:
    maria = an_admin("maria")
    view = views.save(maria, **VIEW)
    view.watch(maria, "UTC")
    if hook:
        webhooks.set_up(ViewWatch.objects.get(), HOOK, "http://adkweb")
    return view, maria


def by_password() -> None:
    """Signs in at the page, which answers with 503."""
    assert Client().post("/sign-in/", {"username": "ana", "password": PASSWORD}).status_code == 503
    raise NotRecorded


def prepared(act: str, ref: SessionRef, patch: pytest.MonkeyPatch) -> Act:
    """Returns what tries an act."""
    source = ref.source
    if act == "adopted":
        patch.setattr(adopt_job.database, "keeps_creations", lambda alias: False)
    if act == "admin-made":
        patch.setenv("DJANGO_SUPERUSER_PASSWORD", PASSWORD)
    if act in ("replayed", "tried"):
        patch.setattr(agents, "why_not_here", lambda *names: "")
    number = {
        "role-taken": a_role,
        "replayed": lambda: replays.draft([ref], actor=ALICE),
        "rule-changed": lambda: a_rule(ref),
        "rule-deleted": lambda: a_rule(ref),
    }.get(act)
    which: Any = number() if number else 0
    options = {"interactive": False, "username": "ana", "email": "ana@example.com"}
    return {
        "account-made": lambda: sign_in.sign_in_token(),
        "admin-made": lambda: call_command("createsuperuser", **options),
        "adopted": lambda: adopt_job.start(source, ALICE),
        "approval-rule-made": lambda: approval.make(by=TERMINAL, keys="user:tier"),
        "replayed": lambda: replays.begin(which, actor=ALICE),
        "exported": lambda: list(transfer.export("jsonl", source, transfer.exporting.Filter(), actor=ALICE)),
        "group-made": a_group,
        "imported": lambda: import_job.bring(lambda: pytest.fail("read"), source, actor=ALICE),
        "invited": lambda: invitations.make("Ana", [], **BY),
        "mask-rule-made": lambda: mask_rules.create("*", "key", "password", actor=ALICE),
        "retention-changed": lambda: retention.save(source, "booking", 30, export=False, actor=ALICE),
        "role-taken": lambda: roles.remove(which, by=TERMINAL),
        "rule-created": lambda: rules.create(source, "booking", "Steps", "step = pay", actor=ALICE),
        "rule-changed": lambda: rules.change(source, "booking", which, "Step", "step = book", actor=ALICE),
        "rule-deleted": lambda: rules.delete(source, "booking", which, actor=ALICE),
        "session-deleted": lambda: delete_session(ref, actor=ALICE),
        "session-held": lambda: holds.hold(ref, "a trial", actor=ALICE),
        "token-created": lambda: tokens.create("agent", "append", "*", by=as_admin("maria")),
        "user-erased": lambda: erasures.begin(source, "booking", "ana", actor=ALICE),
    }.get(act) or after_more(act, ref)


def after_more(act: str, ref: SessionRef) -> Act:
    """Returns what tries an act for which something must be there."""
    if act.startswith("group-"):
        a_group()
        rename = act == "group-renamed"
        return lambda: groups.rename("Support", "Help", **BY) if rename else groups.delete("Support", **BY)
    if act.startswith(("view-", "webhook-")):
        view, maria = a_view(hook=act == "webhook-removed")
        return {
            "view-saved": lambda: views.save(maria, **VIEW | {"name": "Other"}),
            "view-changed": lambda: view.change(by=maria, shared=True),
            "view-deleted": lambda: view.remove(by=maria),
            "webhook-set": lambda: webhooks.set_up(ViewWatch.objects.get(), HOOK, "http://adkweb"),
            "webhook-removed": lambda: Webhook.objects.get().remove(),
        }[act]
    if act.startswith("agent-address-"):
        return an_address(act, ref)
    if act == "approval-rule-deleted":
        rule = approval.make(by=TERMINAL, keys="user:tier").pk
        return lambda: approval.delete(rule, by=TERMINAL)
    if act == "joined":
        _invitation, text = invitations.make("Ana", [], **BY)
        return lambda: invitations.accept(text, "joe", PASSWORD)
    if act in ("revealed", "mask-rule-removed"):
        a_masked_key(ref)
        rule = mask_rules.listed(actor=ALICE)[0].pk
        hidden = act == "revealed"
        return lambda: (
            reveal.key(ref, "password", "why", actor=RITA) if hidden else mask_rules.delete(rule, actor=ALICE)
        )
    if act == "run-continued":
        said = {
            "author": "user",
            "content": {"parts": [{"text": "hello"}]},
            "timestamp": 1.0,
        }  # too long ago to be running
        append_event(ref, said, actor=ALICE)
        return lambda: runs.go_on(ref, actor=ALICE)
    if act == "breakpoint-set":
        return lambda: breakpoints.add(ref, "tool", actor=ALICE)
    if act == "step-continued":
        step = breakpoints.Step("i1", "tool", "booking", "pay", pause="0" * 32, request={"args": {}})
        breakpoints.ask(ref, step, breakpoints.Asker(run=runs.make(ref, [], "", actor=ALICE).pk))
        return lambda: breakpoints.decide(ref, "0" * 32, "continue", actor=ALICE)
    if act in ("tried", "tool-tried", "kept"):
        return a_what_if(act, ref)
    if act == "message-sent":
        return lambda: runs.say(ref, "hello", actor=ALICE)
    if act.startswith("call-"):
        part = {"function_call": {"id": "c1", "name": "approve"}}
        append_event(ref, {"author": "a", "content": {"parts": [part]}, "long_running_tool_ids": ["c1"]}, actor=ALICE)
        feed(ref.source)
        key = inbox.waiting(actor=ALICE).rows[0].key
        if act == "call-answered":
            (event,) = timeline.events(ref, limit=1, actor=ALICE).rows
            return lambda: answers.answer(ref, event.id, {"c1": Given(value="ok")}, actor=ALICE)
        if act == "call-dismissed":
            return lambda: inbox.dismiss(ref, key, "Late", actor=ALICE)
        inbox.dismiss(ref, key, "Late", actor=ALICE)
        return lambda: inbox.undo_dismissal(ref, key, actor=ALICE)
    if act == "session-unheld":
        holds.hold(ref, "a trial", actor=ALICE)
        return lambda: holds.release(ref, actor=ALICE)
    if act == "token-renewed":
        tokens.create("agent", "append", "*", by=as_admin("maria"))
        return lambda: ApiToken.objects.named("agent").renew(by=as_admin("maria"))
    return of_a_person(act)


def a_what_if(act: str, ref: SessionRef) -> Act:
    """Returns what tries something, or decides about what was tried."""
    append_event(ref, {"id": "e1", "author": "user", "content": {"parts": [{"text": "hello"}]}}, actor=ALICE)
    change = whatif.Change("e1")
    if act == "tried":
        return lambda: whatif.start(ref, change, actor=ALICE)
    task = {"change": asdict(change), "revealed": False, "edit": None, "repeats": 1}
    names = {"app_name": ref.app_name, "user_id": ref.user_id, "session_id": ref.session_id}
    job = Job.objects.make(whatif.KIND, registry.identity(ref.source), task, **names)
    asks, ends = json.dumps({"tool": "pay", "args": {}}), json.dumps({"state": {}})
    event = {"id": "t1", "author": "booking", "invocation_id": "i1", "timestamp": 1.0}
    asked = act == "tool-tried"
    fields = {"question": asks} if asked else {"ended": ends, "begins": "e1", "events": json.dumps([event])}
    Trial.objects.create(job=job, number=0, **fields)
    if asked:
        return lambda: whatif.decide(job, 0, {"run": True}, actor=ALICE)
    return lambda: whatif.keep(job, 0, actor=ALICE)


def an_address(act: str, ref: SessionRef) -> Act:
    """Returns what says at which address an agent runs."""

    def set_to(url: str) -> None:
        servers.set_address(*ref[:2], url=url, header="", value="", actor=ALICE)

    if act == "agent-address-set":
        return lambda: set_to("https://1.1.1.1")
    set_to("https://1.1.1.1")
    removes = act == "agent-address-removed"
    return lambda: servers.remove_address(*ref[:2], actor=ALICE) if removes else set_to("https://1.1.1.2")


def of_a_person(act: str) -> Act:
    """Returns what tries an act about somebody's account."""
    an_admin("maria")
    ana = a_person()
    if act == "second-factor-removed":
        a_second_factor(ana)()
    changed: Mapping[str, Any] = {"active": False, "admin": False, "groups": []}
    return {
        "account-changed": lambda: people.change("ana", **BY, **changed),
        "account-connected": lambda: identities.connect(ana, ANA),
        "password-changed": lambda: passwords.change(RequestFactory().post("/"), ana, PASSWORD, PASSWORD + "s"),
        "role-given": lambda: roles.give("viewer", by=TERMINAL, person="ana"),
        "second-factor-set": a_second_factor(ana) if act == "second-factor-set" else lambda: None,
        "second-factor-removed": lambda: second_factor.reset(ana, by="maria"),
        "sign-in": by_password,
    }[act]


# --- The promise --------------------------------------------------------------------------------------------------------


def kept(source: str) -> object:
    """All that is kept: adkweb's own tables without the indexes, and the source. Tries of passwords count in any case."""
    models = [model for model in own_backups.tables() if model.__name__ not in own_backups.INDEXES | {"PasswordTries"}]
    return {model.__name__: list(QuerySet(model).order_by("pk").values()) for model in models}, everything(source)


@pytest.mark.parametrize("act", sorted(acts.MUST))
def test_an_act_that_must_be_recorded_and_cannot_be_is_not_done(
    act: str, ref: SessionRef, monkeypatch: pytest.MonkeyPatch
) -> None:
    try_it = prepared(act, ref, monkeypatch)
    somebody("bystander")
    before = kept(ref.source)
    with (
        refusing_rows(),
        pytest.raises(
            (NotRecorded, CommandError), match="This couldn't be recorded in the audit, so nothing was changed"
        ),
    ):
        try_it()
    after = kept(ref.source)
    for name in before[0]:
        assert after[0][name] == before[0][name], name
    assert after == before


def test_a_printed_link_is_not_used_up_by_a_sign_in_that_cannot_be_recorded(ref: SessionRef) -> None:
    link = {"token": sign_in.sign_in_token()}
    before = kept(ref.source)
    with refusing_rows():
        assert Client().get("/sign-in/", link).status_code == 503
    assert kept(ref.source) == before
    assert Client().get("/sign-in/", link).status_code == 302
