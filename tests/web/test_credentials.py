"""Secrets of credentials are hidden without any rule, and nothing that adkweb does loses them. test_hidden.py asks every
door."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from sessions_app.access import tokens
from sessions_app.access.actor import AGENT, SYSTEM, TERMINAL
from sessions_app.domain import credentials
from sessions_app.domain.errors import Invalid
from sessions_app.domain.session_ref import SessionRef
from sessions_app.edits import fork, rewind
from sessions_app.edits.edit import Entry, edit_state
from sessions_app.reads import timeline, views, whole_session
from sessions_app.transfer import export, exporting
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import delete_session
from tests.api.program import Program
from tests.domain.test_credentials import dumped, kept_in
from tests.support.people import ALICE, as_admin
from tests.transfer.files import ANA, imported
from tests.web.test_shown import card

pytestmark = pytest.mark.django_db
__all__ = ["card"]
SECRET: Final = "hunter2"
TOKEN: Final = {"user:login": dumped("oauth2", camel=False), "step": "asked"}


@pytest.fixture
def asked(card: SessionRef) -> SessionRef:
    """A session in whose events and states an agent keeps credentials, in both spellings."""
    for camel in (False, True):
        for name, part in kept_in(dumped("oauth2", camel), camel=False).items():
            if name == "notes":  # only adkweb writes them
                continue
            event = {"id": f"{name} {camel}", "author": "agent", "invocation_id": "i2", **part}
            append_event(card, event, actor=AGENT)
    delta = {"actions": {"state_delta": TOKEN | {"app:key": dumped("api key", camel=True)}}}
    append_event(card, {"id": "t1", "author": "agent", "invocation_id": "i3", **delta}, actor=AGENT)
    return card


@pytest.mark.guarantee(
    "Safety",
    "Secrets in credentials are hidden even without a rule, but agents still receive them, and forks, rewinds "
    "and edits preserve them.",
)
def test_agents_get_what_is_stored(asked: SessionRef) -> None:
    whole = whole_session.load(asked, actor=AGENT)
    assert whole
    assert sum(SECRET in event.text for event in whole.events) == 17
    assert whole.state.user["login"] == TOKEN["user:login"]
    token = tokens.create("agent", "append", "booking", by=as_admin("maria"))[1]
    address = f"/api/apps/booking/users/ana/sessions/{asked.session_id}"
    assert SECRET not in Program(token).get(address).content.decode()
    assert SECRET in Program(token).get(address, headers={"X-Adkweb-Agent": "1"}).content.decode()


@pytest.mark.guarantee(
    "Safety",
    "Secrets in credentials are hidden even without a rule, but agents still receive them, and forks, rewinds "
    "and edits preserve them.",
)
def test_a_fork_and_a_rewind_keep_credentials(asked: SessionRef) -> None:
    into = asked._replace(session_id="copy")
    fork.fork(asked, "t1", user_id=into.user_id, session_id=into.session_id, actor=ANA)
    copied, of = (timeline.event(ref, "answer False", actor=SYSTEM).data for ref in (into, asked))
    assert copied["content"] == of["content"]
    append_event(
        asked,
        {"id": "x", "author": "user", "invocation_id": "i9", "actions": {"state_delta": {"a": "gone", "step": "pay"}}},
        actor=AGENT,
    )
    before = moments_a(asked)
    rewind.rewind(asked, "i9", actor=ANA)
    assert views.session(asked, actor=SYSTEM).state.session["a"] == before


def moments_a(ref: SessionRef) -> Any:
    """The value of `a` before it was overwritten."""
    return timeline.event(ref, "text True", actor=SYSTEM).data["actions"]["state_delta"]["a"]


def test_an_edit_does_not_lose_a_credential(asked: SessionRef) -> None:
    seen = views.session(asked, actor=ANA).state.user["login"]
    assert seen["oauth2"]["access_token"] == "••••"
    with pytest.raises(Invalid):
        edit_state(asked, [Entry("user:login", seen | {"note": "mine"}, seen)], actor=ANA)
    edit_state(asked, [Entry("step", "•••• is only a text", "asked")], actor=ANA)
    assert views.session(asked, actor=SYSTEM).state.user["login"] == TOKEN["user:login"]


@pytest.mark.guarantee(
    "Safety",
    "Secrets in credentials are hidden even without a rule, but agents still receive them, and forks, rewinds "
    "and edits preserve them.",
)
def test_an_export_says_that_it_has_no_secrets_and_brings_back_all_else(asked: SessionRef) -> None:
    only = exporting.Filter(*asked[1:])
    file = b"".join(export("jsonl", asked.source, only, actor=ANA))
    assert json.loads(file.splitlines()[0]) == {"adkweb": "jsonl", "secrets": False, "version": 1}
    assert SECRET.encode() not in file
    assert "••••".encode() not in file, "dots would be taken for tokens"
    again = imported(asked.source, file, state=True)
    assert (again.same, again.skipped, again.differing_count, again.secrets) == (1, [], 0, False)
    assert views.session(asked, actor=SYSTEM).state.user["login"] == TOKEN["user:login"]

    delete_session(asked, actor=ALICE)
    assert imported(asked.source, file).new == 1
    assert "access_token" not in views.session(asked, actor=SYSTEM).state.session
    stored = timeline.event(asked, "state False", actor=SYSTEM).data
    assert stored["actions"]["state_delta"]["user:google"] == credentials.without(dumped("oauth2", camel=False))


@pytest.mark.parametrize("form", ["adk-json", "evalset", "html"])
def test_no_other_format_has_secrets(asked: SessionRef, form: str) -> None:
    only = exporting.Filter(*asked[1:])
    assert SECRET.encode() not in b"".join(export(form, asked.source, only, actor=ANA))
    with pytest.raises(Invalid):
        export(form, asked.source, only, actor=TERMINAL, secrets=True)


def test_an_evalset_has_no_secrets_whoever_writes_it(asked: SessionRef) -> None:
    assert SECRET.encode() not in b"".join(export("evalset", asked.source, exporting.Filter(*asked[1:]), actor=SYSTEM))
