"""Whatever hides something, it is hidden at every door: in one world there is one of each, and each door is asked once for
all of them.

Each door is asked before there are rules, too, so that it is known which of them would have shown it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pytest
from django.contrib.auth.models import User

from sessions_app.access import handles, roles, tokens
from sessions_app.access.actor import AGENT, Actor
from sessions_app.access.roles import Role
from sessions_app.checks import mask_rules
from sessions_app.checks import rules as checks
from sessions_app.domain.session_ref import SessionRef
from sessions_app.edits import fork, queue
from sessions_app.edits.edit import Entry, edit_state
from sessions_app.privacy import holds
from sessions_app.search import labels
from sessions_app.search.saved import views as saved
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session
from tests.api.program import Program
from tests.domain.test_credentials import dumped, kept_in
from tests.search.finding import feed, ids
from tests.support.people import ALICE, as_admin, somebody
from tests.support.stored import execute
from tests.transfer.files import ANA
from tests.web.conftest import Browser
from tests.web.test_shown import KEY, SECRET, Door, others, pages, routes
from tests.web.test_unseen_apps import OF_AN_APP

pytestmark = pytest.mark.django_db

CARD: Final = "4111111111111111"
PIN: Final = "9731-pin"
MAIL: Final = "tim.falcon@example.org"
ID: Final = "ana.canary@example.com"
HANDLE: Final = handles.handle_of(ID)
# Each is looked for, by what hides it: rules by a key, by a form and of a tool; by the form of typed words, and of ids.
HIDDEN: Final = {
    "key": SECRET,
    "form": CARD,
    "tool": PIN,
    "typed": "falcon",
    "id": "canary",
    "credential": "hunter2",  # which needs no rule
}
SEEN: Final = {"handle": HANDLE, "login": "login"}  # what stands in place of an id, and the name of a credential
Told = dict[str, set[str]]


def said_events() -> Iterator[dict[str, Any]]:
    """Events that have the card's number in a title, texts and an error, and the PIN in a tool's call and answer."""
    call = {"function_call": {"id": "c1", "name": "charge_card", "args": {"number": CARD, "pin": PIN}}}
    answer = {"pin": PIN, "said": f"paid by {CARD}"}
    back = {"function_response": {"id": "c1", "name": "charge_card", "response": answer}}
    title = {"__session_metadata__": {"displayName": f"Pays by {CARD}"}}
    delta = {"state_delta": {**title, "note": [{"deep": f"no. {CARD}"}], "card no": CARD}}
    yield {"author": "user", "content": {"role": "user", "parts": [{"text": f"my card is {CARD}"}]}, "actions": delta}
    parts = [call, {"text": f"charging {CARD}", "thought": True}]
    yield {"author": "agent", "content": {"role": "model", "parts": parts}}
    yield {"author": "agent", "content": {"role": "user", "parts": [back]}}
    yield {"author": "agent", "error_code": "DECLINED", "error_message": f"{CARD} was declined"}
    yield {"author": "agent", "custom_metadata": {"trace": CARD}, "output_transcription": {"text": CARD}}


def credentials() -> Iterator[dict[str, Any]]:
    """Events in which an agent keeps credentials, in both spellings, and at last in states."""
    for camel in (False, True):
        for name, part in kept_in(dumped("oauth2", camel), camel=False).items():
            if name != "notes":  # only adkweb writes them
                yield {"id": f"{name} {camel}", **part}
    login = {"user:login": dumped("oauth2", camel=False), "step": "asked"}
    yield {"actions": {"state_delta": login | {"app:key": dumped("api key", camel=True)}}}


@pytest.fixture
def world(ref: SessionRef, person: User) -> SessionRef:
    """A session whose user's card was set at the beginning, by an agent, by an edit and past every event; an edit of it
    waits. It has all else that is hidden, too: its user's id is an address, and people typed another where they can."""
    state = {KEY: f"{SECRET}0", "step": "choose"}
    create_session(*ref[:3], session_id="s2", state=state, actor=ANA)
    ref = create_session(*ref[:2], ID, session_id="s9", state=state, actor=ANA)
    for number in (1, 2):
        delta = {"state_delta": {KEY: f"{SECRET}{number}", "n": number}}
        append_event(ref, {"id": f"e{number}", "author": "agent", "invocation_id": "i1", "actions": delta}, actor=ANA)
    edit_state(ref, [Entry(KEY, f"{SECRET}3", f"{SECRET}2")], actor=Actor.holding("adam", "admin"), reason="by phone")
    fork.fork(ref, "e1", user_id=ID, session_id="s10", actor=ANA)
    for number, event in enumerate((*said_events(), *credentials())):
        append_event(ref, {"id": f"s{number}", "author": "agent", "invocation_id": "i2", **event}, actor=AGENT)
    queue.queue_edit(ref, [Entry(KEY, f"{SECRET}5", f"{SECRET}3")], person=person)
    execute(ref.source, "UPDATE user_states SET state = json_set(state, '$.card', %s)", [f"{SECRET}2"])

    labels.rename(ref._replace(session_id="s10"), f"Refund of {MAIL}", actor=ALICE)  # this has a title of the agent's
    labels.tag([ref], MAIL, actor=ALICE)
    holds.hold(ref, f"{MAIL} sues us", actor=ALICE)
    checks.create(*ref[:2], f"Not for {MAIL}", f'step != "{MAIL}"', actor=ALICE)
    saved.save(somebody("vera", "editor"), name=f"Of {MAIL}", query=f'"{MAIL}"', shared=True, sort="", columns="")
    feed(ref.source)
    return ref


def hide(ref: SessionRef) -> None:
    """Makes the rules."""
    mask_rules.create("book*", "key", KEY, actor=ALICE)
    mask_rules.create("book*", "form", "card", actor=ALICE)
    mask_rules.create("book*", "tool", "charge_*: pin", actor=ALICE)
    mask_rules.create("*", "form", "email", ids=True, actor=ALICE)
    feed(ref.source)


def telling(doors: dict[str, Door]) -> Told:
    """The doors that tell each of these. Every door is asked once."""
    texts = {name: door() for name, door in doors.items()}
    return {kind: {name for name, text in texts.items() if words in text} for kind, words in {**HIDDEN, **SEEN}.items()}


def hidden_in(told: Told) -> Told:
    """Returns the doors that tell something hidden."""
    return {kind: told[kind] for kind in HIDDEN if told[kind]}


def few(told: Told, **least: int) -> dict[str, int]:
    """Returns the kinds that fewer doors tell than should, with their number."""
    return {kind: len(told[kind]) for kind, count in least.items() if len(told[kind]) < count}


@pytest.mark.guarantee(
    "Safety", "No page, API, socket, command or file reveals values, text, user ids or credentials that are hidden."
)
@pytest.mark.parametrize("queries", [(0, 1), pytest.param((2, 3), marks=pytest.mark.long)])
def test_what_is_hidden_is_on_no_page(world: SessionRef, maria: Browser, queries: tuple[int, ...]) -> None:
    titled = {str(pattern.name) for pattern in OF_AN_APP if "session_id" in pattern.pattern.converters}

    def doors(*queries: int) -> dict[str, Door]:
        asked = {name: door for name, door in pages(maria, world).items() if int(name[-1]) in queries}
        other = pages(maria, world._replace(session_id="s10"), ({},))
        return asked | {f"titled {name}": door for name, door in other.items() if name.split()[0] in titled}

    assert not ids(HIDDEN["credential"])
    told = telling(doors(1))  # the query with which most of them tell the key
    assert told["credential"] == set()
    assert few(told, key=25, form=25, tool=5, typed=20, id=60, login=16) == {}
    hide(world)
    told = telling(doors(*queries))
    assert hidden_in(told) == {}
    assert few(told, login=16, handle=30) == {}
    Role.objects.update(reveals=True)
    roles.known.clear()
    told = telling(doors(0))
    assert hidden_in({**told, "id": set()}) == {}
    assert few(told, id=20) == {}


@pytest.mark.guarantee(
    "Safety", "No page, API, socket, command or file reveals values, text, user ids or credentials that are hidden."
)
def test_what_is_hidden_is_in_no_answer_to_a_program(world: SessionRef) -> None:
    program = Program(tokens.create("program", "admin", "*", by=as_admin("maria"))[1])

    def doors(user: str) -> dict[str, Door]:
        ref = world._replace(user_id=user)
        other = routes(program, ref._replace(session_id="s10"))
        return routes(program, ref) | {f"titled {name}": other[name] for name in other if "{session_id} " in name}

    told = telling(doors(ID))
    assert told["credential"] == set()
    assert few(told, key=25, form=12, tool=8, typed=8, id=10, login=8) == {}
    hide(world)
    told = telling(doors(HANDLE))
    assert hidden_in(told) == {}
    assert few(told, login=8, handle=10) == {}


@pytest.mark.guarantee(
    "Safety", "No page, API, socket, command or file reveals values, text, user ids or credentials that are hidden."
)
def test_what_is_hidden_is_in_no_file_no_line_and_no_message_of_a_socket(world: SessionRef, person: User) -> None:
    """But for ids, which the owner of the machine sees at the terminal: test_handles.py tries the rest."""

    def doors() -> dict[str, Door]:
        other = others(world._replace(session_id="s10"), person)
        return others(world, person) | {f"titled {name}": door for name, door in other.items()}

    told = telling(doors())
    assert told["credential"] == set()
    assert few(told, key=8, form=4, tool=4, typed=1, login=2) == {}
    hide(world)
    told = telling(doors())
    assert hidden_in({**told, "id": set()}) == {}
    assert few(told, login=2) == {}
