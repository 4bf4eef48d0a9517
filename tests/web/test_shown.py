"""A value that is masked is hidden by one function, and no page, route or command has to know: what that means for edits,
for adkweb itself and for agents. test_hidden.py asks every door.

The mask here hides `user:card` from everybody.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from typing import Any, Final

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import User
from django.urls import reverse

from sessions_app.access import shown
from sessions_app.access.actor import AGENT, PEOPLE, SYSTEM, TERMINAL, Actor
from sessions_app.api.routes import document
from sessions_app.checks import rules
from sessions_app.domain.errors import Conflict
from sessions_app.domain.positions import NO_SEQ
from sessions_app.domain.session_ref import SessionRef
from sessions_app.domain.state import ABSENT, UNKNOWN
from sessions_app.edits import queue, undo
from sessions_app.edits.edit import Entry, edit_state, overwrite_state
from sessions_app.history import drift
from sessions_app.management.commands._words import told
from sessions_app.reads import views
from sessions_app.reads.changes import Following, Only
from sessions_app.sources import registry
from sessions_app.transfer import FORMATS, export, exporting, uploads
from sessions_app.web.session import updates
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session
from tests.api.program import Program
from tests.support.masking import Hiding
from tests.support.stored import execute
from tests.transfer.files import ANA, file_of, imported
from tests.web.conftest import Browser
from tests.web.test_unseen_apps import OF_AN_APP, QUERY, address_of

pytestmark = pytest.mark.django_db

KEY: Final = "user:card"
SECRET: Final = "4111-q"  # no UUID has it by chance
QUERIES: Final[tuple[dict[str, str], ...]] = (
    {},
    {"key": KEY, "a": "e1", "b": "e2"},
    {"key": "card", "scope": "user", "at": "e2"},
    QUERY | {"key": KEY},
)
Door = Callable[[], Any]


def masked(values: Any) -> Any:
    """What a mask makes of an event or a state: the key's value is hidden wherever the key stands."""
    if isinstance(values, list):
        return [masked(each) for each in values]
    if not isinstance(values, dict):
        return values
    return {key: "•••" if key == KEY else masked(value) for key, value in values.items()}


@pytest.fixture
def mask(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Begins to hide the key from everybody."""
    return lambda: monkeypatch.setattr(shown, "mask_of", lambda actor, app: Hiding(masked))


@pytest.fixture
def card(ref: SessionRef, person: User) -> SessionRef:
    """A session whose user's card was set at the beginning, by an agent, by an edit and past every event; an edit of it
    waits."""
    state = {KEY: f"{SECRET}0", "step": "choose"}
    ref = create_session(*ref[:3], session_id="s9", state=state, actor=ANA)
    for number in (1, 2):
        delta = {"state_delta": {KEY: f"{SECRET}{number}", "n": number}}
        append_event(ref, {"id": f"e{number}", "author": "agent", "invocation_id": "i1", "actions": delta}, actor=ANA)
    edit_state(ref, [Entry(KEY, f"{SECRET}3", f"{SECRET}2")], actor=Actor.holding("adam", "admin"), reason="by phone")
    queue.queue_edit(ref, [Entry(KEY, f"{SECRET}5", f"{SECRET}3")], person=person)
    execute(ref.source, "UPDATE user_states SET state = %s", [json.dumps({"card": f"{SECRET}2"})])
    return ref


def whole(answer: Any) -> bytes:
    """The content of an answer, which a server would stream."""
    if not answer.streaming:
        return bytes(answer.content)
    if not answer.is_async:
        return b"".join(answer.streaming_content)

    async def gathered() -> bytes:
        return b"".join([piece async for piece in answer.streaming_content])

    return async_to_sync(gathered)()


def pages(maria: Browser, ref: SessionRef, queries: tuple[dict[str, str], ...] = QUERIES) -> dict[str, Door]:
    """Every page, and every file that a page gives."""

    def page(address: str, query: dict[str, str]) -> str:
        answer = maria.get(address, query)
        return whole(answer).decode() + answer.headers.get("Location", "")

    addresses = {str(pattern.name): address_of(pattern, ref) for pattern in OF_AN_APP}
    addresses |= {name: reverse(name) for name in ("home", "feed", "search", "edits", "queued-outcomes", "imports")}
    for waiting in queue.of_session(ref, actor=SYSTEM):
        addresses["queued-json"] = reverse("queued-json", args=[waiting.id])
    return {
        f"{name} {number}": lambda address=address, query=query: page(address, query)  # type: ignore[misc]
        for name, address in addresses.items()
        for number, query in enumerate(queries)
    }


def routes(program: Program, ref: SessionRef) -> dict[str, Door]:
    """Every address at which programs read, adkweb's own and ADK's, and what answers to their writes tell."""
    own = f"/api/apps/booking/users/{ref.user_id}/sessions/{ref.session_id}"
    rule = rules.create(ref.source, ref.app_name, "", f'{KEY} = "free"', actor=ANA)
    ids = dict.fromkeys(("proposal_id", "run_id"), uuid.UUID(int=0))
    doors: dict[str, Door] = {
        f"{path} {number}": lambda path=path, query=query: program.get(  # type: ignore[misc]
            path.format(**ref._asdict(), event_id="e2", number=rule, file=0, **ids), **query
        ).content.decode()
        for path, operations in document()["paths"].items()
        if "get" in operations
        for number, query in enumerate(({}, {"key": KEY, "a": "e1", "b": "e2"}))
    }
    for path in ("", "/s9"):
        address = f"/apps/booking/users/{ref.user_id}/sessions{path}"
        doors[address] = lambda address=address: program.get(address).content.decode()  # type: ignore[misc]
    bodies: dict[str, Any] = {
        "instruction": {"template": f"Pay with {{{KEY}}}."},
        "rewind": {"invocation_id": "nobody's"},
        "events": {"id": "e1", "author": "agent", "actions": {"state_delta": {KEY: "guessed"}}},
        "events/e1/undo": {},
    }
    for name, body in bodies.items():
        doors[f"POST {name}"] = lambda name=name, body=body: program.post(f"{own}/{name}", body).content.decode()  # type: ignore[misc]
    conflict = [{"key": KEY, "value": "new", "seen": "guessed"}]
    doors["PATCH"] = lambda: program.patch(f"{own}/state", {"entries": conflict}).content.decode()
    return doors


def others(ref: SessionRef, person: User) -> dict[str, Door]:
    """Sockets, commands, exports, previews of imports, and what a refused write tells."""
    (source,) = [each for each in registry.listed() if each.alias == ref.source]
    file = {"type": "user", "app": "booking", "user": "ana", "state": {"card": f"{SECRET}9"}, "updated": 1.0}

    def refused() -> str:
        with pytest.raises(Conflict) as conflict:
            edit_state(ref, [Entry(KEY, "new", "guessed")], actor=ANA)
        with pytest.raises(Conflict) as later:
            queue.queue_edit(ref, [Entry(KEY, "new", "guessed")], person=person)
        return repr((conflict.value.detail, later.value.detail))

    def preview() -> str:
        upload = uploads.receive([file_of(file)])
        try:
            return repr(uploads.preview(upload, ref.source, ANA))
        finally:
            uploads.discard(upload)

    writers = {name: form.write for name, form in FORMATS.items() if form.write}
    return {
        "rows of a socket": lambda: updates.following(ref, NO_SEQ, updates.Filter(), PEOPLE).html,
        "state of a socket": lambda: updates.state(views.session(ref, actor=PEOPLE), PEOPLE),
        "tail": lambda: "".join(map(told, Following(source, Only(), actor=TERMINAL).newest(10))),
        "doctor": lambda: repr((drift.own(ref, actor=TERMINAL), drift.shared(ref, actor=TERMINAL))),
        "refused": refused,
        "preview": preview,
        "one file": lambda: b"".join(export("html", ref.source, exporting.Filter(*ref[1:]), actor=TERMINAL)).decode(),
        **{
            f"export as {name}": lambda write=write: b"".join(  # type: ignore[misc]
                write(exporting.items(ref.source, exporting.Filter(*ref[1:]), actor=TERMINAL))
            ).decode()
            for name, write in writers.items()
        },
    }


def test_adkweb_and_agents_work_with_what_is_stored(card: SessionRef, mask: Callable[[], None]) -> None:
    mask()
    for actor in (SYSTEM, AGENT):
        assert views.session(card, actor=actor).state.user == {"card": f"{SECRET}2"}
    file = b"".join(FORMATS["jsonl"].write(exporting.items(card.source, exporting.Filter(), actor=SYSTEM)))  # type: ignore[misc]
    assert imported(card.source, file).same == 2


@pytest.mark.parametrize("name", [SYSTEM.name, AGENT.name])
def test_an_account_with_the_name_of_the_machine_or_of_agents_sees_no_more(
    card: SessionRef, mask: Callable[[], None], name: str
) -> None:
    mask()
    assert views.session(card, actor=Actor.holding(name, "admin")).state.user == {"card": "•••"}


def test_a_masked_value_is_not_taken_back_by_who_cannot_see_it(card: SessionRef, mask: Callable[[], None]) -> None:
    removed = edit_state(card, [Entry(KEY, ABSENT, f"{SECRET}2"), Entry("step", "pay", "choose")], actor=ANA).event[
        "id"
    ]
    mask()
    for plan in (undo.undo(card, removed, actor=ANA), undo.restore(card, "e1", actor=ANA)):
        assert KEY in plan.unknown
        assert KEY not in [step.key for step in plan.steps]
    assert undo.undo(card, removed, actor=SYSTEM).unknown == []


def test_a_masked_value_can_be_overwritten_unseen(card: SessionRef, mask: Callable[[], None]) -> None:
    mask()
    written = overwrite_state(card, [Entry(KEY, "5555", UNKNOWN)], actor=ANA)
    assert written is not None
    assert SECRET not in json.dumps(written.event)
    assert views.session(card, actor=SYSTEM).state.user == {"card": "5555"}


def test_who_sends_back_a_masked_state_changes_nothing_hidden(card: SessionRef, mask: Callable[[], None]) -> None:
    mask()
    state = views.session(card, actor=ANA).state.merged() | {"step": "pay"}
    written = overwrite_state(card, [Entry(name, value, UNKNOWN) for name, value in state.items()], actor=ANA)
    assert written is not None
    assert written.event["actions"]["state_delta"] == {"step": "pay"}
    assert views.session(card, actor=SYSTEM).state.user == {"card": f"{SECRET}2"}


def test_the_form_of_a_queued_edit_is_filled_in_without_what_is_hidden(
    card: SessionRef, maria: Browser, person: User, mask: Callable[[], None]
) -> None:
    asked = [Entry(KEY, "5555", f"{SECRET}2"), Entry("step", "pay", "choose")]
    waiting = queue.queue_edit(card, asked, person=person)
    mask()
    page = maria.open("session-edit", query={"queued": str(waiting.id)}, **card._asdict())
    assert "pay" in str(page)
    assert "•••" not in str([form.fields() for form in page.all("form")])
