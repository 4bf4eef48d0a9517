"""Whoever may not see the ids of users gets handles in their place; who may reveal values sees the ids.

test_hidden.py asks every door.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from sessions_app.access import approval, handles, masking, roles, tokens
from sessions_app.access.actor import AGENT, PEOPLE, SYSTEM, TERMINAL, Actor, Grant
from sessions_app.access.audit.record import record
from sessions_app.access.masking import MaskRule
from sessions_app.access.roles import Role
from sessions_app.batches import acts, batch
from sessions_app.checks import mask_rules
from sessions_app.domain.errors import Held, Invalid
from sessions_app.domain.positions import NO_SEQ
from sessions_app.domain.session_ref import SessionRef
from sessions_app.edits import fork, fork_tree, queue
from sessions_app.edits.edit import Entry, edit_state
from sessions_app.history import audit_log
from sessions_app.http.reader import read_by
from sessions_app.live.sockets import SessionSocket
from sessions_app.reads import lists, stored_sessions, users, views
from sessions_app.reads.audit_rows import Filter
from sessions_app.search.completing import complete
from sessions_app.search.results import every, search
from sessions_app.transfer import WRITTEN, export, exporting, uploads
from sessions_app.web.home import home
from sessions_app.web.session import updates
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session
from tests.api.program import Program
from tests.search.finding import feed, ids, query_of
from tests.support.at_work import settle
from tests.support.people import ALICE, BOB, somebody
from tests.support.stored import execute
from tests.transfer.files import ANA, file_of
from tests.web.conftest import ROOT, Browser
from tests.web.test_shown import whole

pytestmark = pytest.mark.django_db

ID: Final = "ana.canary@example.com"
CANARY: Final = "canary"
HANDLE: Final = handles.handle_of(ID)
INVENTED: Final = "bob.canary@example.com"
AS_AGENT: Final = {"X-Adkweb-Agent": "1"}
RITA: Final = Actor("rita", (Grant("read", "book*", reveals=True), Grant("read", "*")))


def hide_ids(apps: str = "*") -> None:
    """A rule that includes ids."""
    MaskRule.objects.create(apps=apps, kind="form", pattern="email", ids=True, created=0.0, created_by="alice")
    masking.forget()


def reveal() -> None:
    """Lets everybody reveal who has a role."""
    Role.objects.update(reveals=True)
    roles.known.clear()


def asked(method: str, path: str, text: str, **headers: str) -> Any:
    """What a program is answered at ADK's addresses, which have errors of their own."""
    said = {"Authorization": f"Bearer {text}", **headers}
    return Client().generic(method, path, "{}", "application/json", headers=said)


@pytest.fixture
def source(new_store: Callable[..., str], open_source: Callable[[str], str]) -> str:
    """An empty SQLite source."""
    return open_source(new_store("sqlite"))


@pytest.fixture
def known(source: str, person: User) -> SessionRef:
    """A session of a user with an email address as id, with events, an edit, one that waits, and a fork."""
    create_session(source, "booking", "zoe", session_id="s1", actor=ANA)
    ref = create_session(source, "booking", ID, session_id="s9", state={"user:card": "1", "step": "choose"}, actor=ANA)
    for number in (1, 2):
        delta = {"state_delta": {"user:card": str(number), "n": number}}
        content = {"role": "user", "parts": [{"text": "Hello"}]}
        event = {"id": f"e{number}", "author": "user", "invocation_id": "i1", "content": content, "actions": delta}
        append_event(ref, event, actor=ANA)
    edit_state(ref, [Entry("user:card", "3", "2")], actor=Actor.holding("adam", "admin"), reason="by phone")
    queue.queue_edit(ref, [Entry("user:card", "5", "3")], person=person)
    fork.fork(ref, "e1", user_id=ID, session_id="s10", actor=ANA)
    feed(source)
    return ref


@pytest.fixture
def viewer(person: User) -> Browser:
    """Maria as an admin of all apps, who may not reveal anything."""
    person.is_superuser = False
    person.save()
    somebody(person.get_username(), "admin")
    signed_in = Browser()
    signed_in.force_login(person)
    return signed_in


@pytest.fixture
def hidden(known: SessionRef) -> SessionRef:
    """The session, with a rule that hides the id of its user."""
    hide_ids()
    feed(known.source)
    return known


def telling(doors: dict[str, Any]) -> dict[str, str]:
    """The doors that tell the id, each with what stands around it."""
    said = {name: door() for name, door in doors.items()}
    return {name: text[max(0, text.index(CANARY) - 80) :][:160] for name, text in said.items() if CANARY in text}


# --- Out --------------------------------------------------------------------------------------------------------------


def test_a_hidden_id_is_on_no_page_about_several_apps(known: SessionRef, viewer: Browser, person: User) -> None:
    who = roles.actor_of(person)
    edit_state(known, [Entry("step", "pay", "choose")], actor=who, of={"lasts": 3600.0})
    approval.make(keys="user:card", by=ALICE)
    with pytest.raises(Held):
        edit_state(known, [Entry("user:card", "7", "3")], actor=who)
    made = batch.begin("edit", actor=who, refs=[known])
    record("session-held", "alice", ref=known)
    batch.try_(made, {"n": 5}, actor=who)
    settle("batch")

    def doors(user: str) -> dict[str, Any]:
        other = reverse("session", kwargs=known._replace(session_id="s10")._asdict())
        addresses = [
            *("/sessions/", f"/sessions/?q=user:{user}&sort=user", "/audit/", "/audit/export/", "/temporary-edits/"),
            *("/proposals/", f"/batches/{made}/", "/batches/", reverse("preview", kwargs=known._asdict())),
            *(reverse("forks", kwargs=known._asdict()), f"{reverse('compare', kwargs=known._asdict())}?with={other}"),
        ]
        return {each: lambda each=each: whole(viewer.get(each)).decode() for each in addresses}  # type: ignore[misc]

    assert len(telling(doors(CANARY))) >= 8
    hide_ids()
    feed(known.source)
    assert telling(doors(HANDLE)) == {}
    assert len([name for name, door in doors(HANDLE).items() if HANDLE in door()]) >= 8


@pytest.mark.guarantee(
    "Safety",
    "Agents receive hidden user ids, but no one else can work out who a handle stands for by guessing, "
    "sorting or importing.",
)
def test_an_agent_is_told_a_hidden_id_as_it_is(hidden: SessionRef) -> None:
    _token, text = tokens.create("program", "admin", "*", by=ALICE)
    answer = asked("GET", f"/apps/booking/users/{ID}/sessions/s9", text, **AS_AGENT)
    assert json.loads(whole(answer))["userId"] == ID


@pytest.mark.guarantee(
    "Safety",
    "Agents receive hidden user ids, but no one else can work out who a handle stands for by guessing, "
    "sorting or importing.",
)
def test_a_hidden_id_is_in_no_file_nor_in_its_name(hidden: SessionRef, viewer: Browser) -> None:
    names = ("session-export", "user-export", "app-export")
    counts = {"session-export": 4, "user-export": 3, "app-export": 2}
    for name in names:
        address = reverse(name, args=hidden[: counts[name]])
        for form in WRITTEN:
            answer = viewer.get(address, {"format": form})
            assert CANARY not in whole(answer).decode() + str(answer.headers), (name, form)
    chosen = {"act": "export", "ref": [reverse("session", kwargs=hidden._asdict())]}
    answer = viewer.post("/sessions/chosen/", chosen)
    lines = whole(answer).decode()
    assert HANDLE in lines
    assert CANARY not in lines
    page = b"".join(export("html", hidden.source, exporting.Filter(*hidden[1:]), actor=RITA)).decode()  # by no request
    assert f'<span class="bidi">{ID}</span>' in page
    assert HANDLE not in page


def test_damaged_rows_that_are_left_out_are_named_by_handles(hidden: SessionRef, viewer: Browser) -> None:
    execute(hidden.source, "UPDATE events SET event_data = %s WHERE id = %s", ["{", "e2"])
    execute(hidden.source, "UPDATE user_states SET state = %s", ["{"])
    answer = viewer.get(reverse("app-export", args=hidden[:2]), {"skip_damaged": "1"})
    text = whole(answer).decode() + str(answer.headers)
    assert f"booking/{HANDLE}/s9/e2" in text, answer
    assert CANARY not in text
    chosen = {"act": "export", "ref": [reverse("session", kwargs=hidden._asdict())], "skip_damaged": "1"}
    answer = viewer.post("/sessions/chosen/", chosen)
    text = whole(answer).decode() + str(answer.headers)
    assert f"booking/{HANDLE}/s9/e2" in text, answer
    assert CANARY not in text
    assert CANARY not in whole(viewer.get(reverse("app-export", args=hidden[:2]))).decode()  # is refused, with the name


def test_sockets_say_handles_to_all_and_home_says_ids_to_who_may_see_them(hidden: SessionRef) -> None:
    told = [
        updates.following(hidden, NO_SEQ, updates.Filter(density="chat"), PEOPLE).html,
        updates.state(views.session(hidden, actor=PEOPLE), PEOPLE),
        *home.parts(home.activity(PEOPLE)).values(),
    ]
    assert CANARY not in "".join(told)
    assert HANDLE in told[0]
    with read_by(RITA):
        assert CANARY in "".join(home.parts(home.activity(RITA)).values())


def test_the_audit_has_ids_for_who_may_see_them(hidden: SessionRef) -> None:
    record("session-held", "alice", ref=hidden)
    auditor = Actor("odile", (), audits=True)
    text = b"".join(audit_log.export(Filter(), actor=auditor)).decode()
    assert CANARY not in text
    assert HANDLE in text
    assert '"digest"' not in text  # from which anybody could try ids
    assert '"previous"' not in text
    seeing = Actor("rita", (Grant("read", reveals=True),), audits=True)
    text = b"".join(audit_log.export(Filter(), actor=seeing)).decode()
    assert CANARY in text
    assert '"digest"' in text


def test_a_fork_leads_to_its_origin_though_the_note_names_a_hidden_id(hidden: SessionRef, viewer: Browser) -> None:
    forked = hidden._replace(session_id="s10")
    origin = fork_tree.origin(forked, actor=BOB)
    assert origin is not None
    assert origin.origin == hidden
    assert HANDLE in str(viewer.open("forks", **forked._asdict()))


def test_no_id_of_a_session_or_an_event_lets_anybody_try_ids_of_users(hidden: SessionRef, settings: Any) -> None:
    """Whoever sees such an id and all other names would compute it for each guess."""
    assert fork_tree.note_id(hidden) == fork_tree.note_id(hidden._replace(user_id=INVENTED))
    made = [fork.name(hidden, ID, "", "once"), acts.event_id_of("b1", hidden)]
    assert made == [fork.name(hidden, ID, "", "once"), acts.event_id_of("b1", hidden)]
    settings.SECRET_KEY = "another"
    assert not {fork.name(hidden, ID, "", "once"), acts.event_id_of("b1", hidden)} & set(made)


# --- In ---------------------------------------------------------------------------------------------------------------


@pytest.mark.guarantee(
    "Safety",
    "Agents receive hidden user ids, but no one else can work out who a handle stands for by guessing, "
    "sorting or importing.",
)
def test_a_handle_in_an_address_means_its_user_and_a_hidden_id_is_nobodys(hidden: SessionRef, viewer: Browser) -> None:
    address = reverse("session", kwargs=hidden._asdict())
    assert address == f"/s/{hidden.source}/booking/{HANDLE}/s9/"
    assert viewer.get(address).status_code == 200
    for page in (
        "/s/{}/booking/{}/s9/",
        "/s/{}/booking/{}/s9/forks/",
        "/u/{}/booking/{}/",
        "/u/{}/booking/{}/sessions/",
        "/u/{}/booking/{}/erase/",
    ):
        right, wrong = (viewer.get(page.format(hidden.source, user)) for user in (ID, INVENTED))
        assert right.status_code == wrong.status_code == 404
        assert handles.handle_of(ID) not in right.content.decode()
        assert re.sub(r'nonce[^>]*|csrf[^>]*|"X-CSRFToken[^}]*', "", right.content.decode()).replace(ID, "") == re.sub(
            r'nonce[^>]*|csrf[^>]*|"X-CSRFToken[^}]*', "", wrong.content.decode()
        ).replace(INVENTED, "")
    reveal()
    assert viewer.get(f"/s/{hidden.source}/booking/{ID}/s9/").status_code == 200


def test_an_export_of_a_user_tells_nothing_about_a_guess(hidden: SessionRef) -> None:
    _token, text = tokens.create("program", "admin", "*", by=ALICE)
    for query, status in (("user={}", 400), ("app=booking&user={}", 404)):
        answers = [asked("GET", f"/api/export?{query.format(user)}", text) for user in (ID, INVENTED)]
        assert [answer.status_code for answer in answers] == [status] * 2
    assert HANDLE in whole(asked("GET", f"/api/export?app=booking&user={HANDLE}", text)).decode()


@pytest.mark.parametrize("path", ["/api/apps/booking/users/{}/sessions", "/apps/booking/users/{}/sessions/s9"])
def test_a_program_names_a_user_by_the_handle(hidden: SessionRef, path: str) -> None:
    _token, text = tokens.create("program", "admin", "*", by=ALICE)
    assert asked("GET", path.format(HANDLE), text).status_code == 200
    right, wrong = (asked("GET", path.format(user), text) for user in (ID, INVENTED))
    assert right.status_code == wrong.status_code == 404
    assert right.json()["detail"] == wrong.json()["detail"]


@pytest.mark.guarantee(
    "Safety",
    "Agents receive hidden user ids, but no one else can work out who a handle stands for by guessing, "
    "sorting or importing.",
)
@pytest.mark.parametrize("path", ["/api/apps/booking/users/{}/sessions", "/apps/booking/users/{}/sessions"])
def test_a_program_makes_no_session_by_which_it_learns_a_handle(hidden: SessionRef, path: str) -> None:
    _token, text = tokens.create("program", "admin", "*", by=ALICE)
    assert {asked("POST", path.format(user), text).status_code for user in (ID, INVENTED)} == {404}
    assert asked("POST", path.format(HANDLE), text).status_code in (200, 201)
    assert lists.sessions(hidden.source, "booking", INVENTED, actor=SYSTEM).rows == []
    assert len(lists.sessions(hidden.source, "booking", ID, actor=SYSTEM).rows) == 3
    assert asked("POST", path.format(INVENTED), text, **AS_AGENT).status_code in (200, 201)


def test_forms_take_handles(hidden: SessionRef, viewer: Browser) -> None:
    names = {"source": hidden.source, "app_name": "booking", "session_id": "new", "state": "{}"}
    assert viewer.post("/sessions/new/", names | {"user_id": INVENTED}).status_code == 404
    assert viewer.post("/sessions/new/", names | {"user_id": HANDLE}).status_code == 302
    assert views.session(hidden._replace(session_id="new"), actor=SYSTEM).ref.user_id == ID
    into = {"user_id": HANDLE, "session_id": "s11", "reason": "", "once": "1"}
    assert viewer.send("fork", into, **hidden._asdict(), event_id="e1").status_code == 302
    assert views.session(hidden._replace(session_id="s11"), actor=SYSTEM).ref.user_id == ID
    other = reverse("session", kwargs=hidden._replace(session_id="s10")._asdict())
    assert viewer.get(reverse("compare", kwargs=hidden._asdict()), {"with": other}).status_code == 200


def test_a_socket_is_opened_by_the_handle(hidden: SessionRef, viewer: Browser, person: User) -> None:
    socket = SessionSocket()
    socket.person = person
    socket.scope = {"url_route": {"kwargs": hidden._replace(user_id=HANDLE)._asdict()}}
    assert socket._named() == hidden


def test_a_handle_means_its_user_before_the_index_has_them(known: SessionRef, viewer: Browser) -> None:
    mask_rules.create("*", "form", "email", ids=True, actor=ALICE)
    assert viewer.get(f"/u/{known.source}/booking/{HANDLE}/").status_code == 200
    for page in ("users", "app"):
        assert "Sessions are still being indexed" in str(viewer.open(page, source=known.source, app_name="booking"))
    feed(known.source)
    assert "Sessions are still being indexed" not in str(viewer.open("users", source=known.source, app_name="booking"))


def test_an_erased_or_unknown_handle_is_nobodys(hidden: SessionRef, viewer: Browser) -> None:
    assert viewer.get(f"/u/{hidden.source}/booking/user-{'0' * 16}/").status_code == 404


def test_no_app_tells_which_handle_an_id_has(known: SessionRef, viewer: Browser) -> None:
    with pytest.raises(Invalid):
        mask_rules.create("booking", "form", "email", ids=True, actor=ALICE)
    create_session(known.source, "weather", "zoe", session_id="s1", actor=ANA)
    hide_ids("booking")  # as somebody may have put it into the database
    feed(known.source)
    for path in ("/u/{}/weather/{}/", "/u/{}/weather/{}/sessions/", "/s/{}/weather/{}/s1/"):
        assert HANDLE not in viewer.get(path.format(known.source, ID)).content.decode()
        assert CANARY not in viewer.get(path.format(known.source, HANDLE)).content.decode()
    names = {"source": known.source, "app_name": "weather", "session_id": "new", "state": "{}"}
    assert viewer.post("/sessions/new/", names | {"user_id": ID}).status_code == 404


def test_an_id_that_looks_like_a_handle_is_shown_by_its_own(hidden: SessionRef) -> None:
    assert handles.shown_user(hidden.source, "booking", HANDLE, BOB) not in (HANDLE, ID)
    assert handles.shown_user(hidden.source, "booking", "zoe", BOB) == "zoe"


@pytest.mark.parametrize("user", [INVENTED, HANDLE], ids=["id", "handle"])
def test_a_file_that_would_tell_a_handle_is_not_imported(hidden: SessionRef, user: str) -> None:
    upload = uploads.receive(
        [file_of({"type": "user", "app": "booking", "user": user, "state": {"a": 1}, "updated": 1.0})]
    )
    try:
        with pytest.raises(Invalid):
            uploads.preview(upload, hidden.source, ALICE)
    finally:
        uploads.discard(upload)


# --- Order and search -------------------------------------------------------------------------------------------------


@pytest.fixture
def many(source: str) -> str:
    """A source with users whose ids and handles are in different orders."""
    for number, name in enumerate("abcdef"):
        create_session(source, "booking", f"{name}@example.com", session_id=f"s{number}", actor=ANA)
    hide_ids()
    feed(source)
    return source


@pytest.mark.guarantee(
    "Safety",
    "Agents receive hidden user ids, but no one else can work out who a handle stands for by guessing, "
    "sorting or importing.",
)
def test_users_are_listed_and_sorted_by_what_is_seen(many: str) -> None:
    seen: list[str] = []
    after = None
    while after is not None or not seen:
        page = lists.users(many, "booking", after, limit=2, actor=BOB)
        seen += [handles.shown_user(many, "booking", row.user_id, BOB) for row in page.rows]
        after = page.next
        if after is None:
            break
        assert "example" not in after
    assert seen == sorted(seen)
    assert len(seen) == 6
    rows = search(query_of(""), actor=BOB, sort="user").rows
    assert [handles.shown_user(*row.ref[:3], BOB) for row in rows] == seen
    exported = Program(tokens.create("program", "admin", "*", by=ALICE)[1]).get("/api/export").content.decode()
    users = [json.loads(line).get("user") for line in exported.splitlines() if '"session"' in line]
    assert [user for user in users if user] == seen


@pytest.mark.parametrize("sort", ["app", "-turns"])
def test_results_that_are_equal_are_in_the_order_of_what_is_seen(many: str, sort: str) -> None:
    """The index has read them by the ids of their users."""
    seen: list[str] = []
    cursor: str | None = None
    while cursor is not None or not seen:
        page = search(query_of(""), actor=BOB, sort=sort, cursor=cursor, limit=2)
        seen += [handles.shown_user(*row.ref[:3], BOB) for row in page.rows]
        if (cursor := page.next) is None:
            break
    assert len(seen) == 6
    assert seen == sorted(seen, reverse=sort.startswith("-"))
    assert [handles.shown_user(*ref[:3], BOB) for ref in every(query_of(""), BOB)] == sorted(seen)


@pytest.mark.parametrize("read", ["sessions", "states"])
def test_a_cursor_holds_no_hidden_id_and_goes_on(many: str, read: str) -> None:
    seen: list[str] = []
    cursor: str | None = None
    while True:
        if read == "sessions":
            page: Any = lists.sessions(many, "booking", None, cursor, 2, actor=BOB)
        else:
            page = stored_sessions.load_page(stored_sessions.Selection(many, "booking"), cursor, 2, actor=BOB)
        seen += [row.ref.session_id for row in page.rows]
        cursor = page.next
        if cursor is None:
            break
        assert b"example" not in base64.urlsafe_b64decode(cursor + "==")
    assert sorted(seen) == [f"s{number}" for number in range(6)]


@pytest.mark.parametrize("form", ["sqlite", "postgresql"])
@pytest.mark.parametrize("read", ["sessions", "states"])
def test_the_order_of_sessions_of_one_moment_tells_nothing_of_ids(
    new_store: Callable[..., str], open_source: Callable[[str], str], form: str, read: str
) -> None:
    """Whoever may write makes some for other users, and would find an id letter by letter."""
    source = open_source(new_store(form))
    for name in "abcdefghij":
        create_session(source, "booking", f"{name}@example.com", session_id="s", actor=ANA)
    execute(source, "UPDATE sessions SET update_time = (SELECT max(update_time) FROM sessions)")

    def users(limit: int) -> list[str]:
        listed: list[str] = []
        cursor: str | None = None
        while cursor is not None or not listed:
            if read == "sessions":
                page: Any = lists.sessions(source, "booking", None, cursor, limit, actor=BOB)
            else:
                page = stored_sessions.load_page(stored_sessions.Selection(source, "booking"), cursor, limit, actor=BOB)
            listed += [row.ref.user_id for row in page.rows]
            if (cursor := page.next) is None:
                break
        return listed

    in_order = users(100)
    assert in_order == sorted(in_order, reverse=read == "sessions")
    hide_ids()
    assert users(100) == users(3)
    assert sorted(users(3)) == sorted(in_order)
    assert users(100) not in (in_order, in_order[::-1])


@pytest.mark.guarantee(
    "Safety",
    "Agents receive hidden user ids, but no one else can work out who a handle stands for by guessing, "
    "sorting or importing.",
)
def test_a_user_is_searched_for_by_what_is_seen(hidden: SessionRef) -> None:
    everything = ids("", actor=BOB)
    assert ids(f"user:{HANDLE}", actor=BOB) == ["s10", "s9"]
    assert ids(f'user:"{HANDLE}"', actor=BOB) == ["s10", "s9"]
    for guess in (f"user:{ID}", f'user:"{ID}"', "user:ana", "canary", f'"{ID}"'):
        assert ids(guess, actor=BOB) == []
        assert ids(f"not {guess}", actor=BOB) == everything
    for actor in (RITA, SYSTEM):
        assert ids(f"user:{HANDLE}", actor=actor) == ids(f"user:{ID}", actor=actor) == ["s10", "s9"]
    assert [each.text for each in complete("user:ana", 8, actor=BOB)] == []
    assert HANDLE in [each.text for each in complete("user:user", 9, actor=BOB)]


# --- Who sees ids -----------------------------------------------------------------------------------------------------


def test_machines_agents_the_terminal_and_who_may_reveal_see_ids() -> None:
    hide_ids("book*")
    for actor in (SYSTEM, AGENT, TERMINAL, RITA):
        assert handles.shown_user("store", "booking", ID, actor) == ID
    for actor in (PEOPLE, BOB, ALICE, Actor.holding(SYSTEM.name, "admin")):
        assert handles.shown_user("store", "booking", ID, actor) == HANDLE
    assert handles.shown_user("store", "weather", ID, RITA) == HANDLE


def test_where_no_rule_includes_ids_no_page_makes_or_looks_for_a_handle(
    known: SessionRef, viewer: Browser, monkeypatch: pytest.MonkeyPatch, django_assert_num_queries: Any
) -> None:
    def fail(*_names: str) -> str:
        raise AssertionError

    for module, name in ((handles, "handle_of"), (users, "handle_of"), (users, "_user_of"), (users, "order_of_users")):
        monkeypatch.setattr(module, name, fail)
    names = known._asdict()
    for page, kwargs in (("session", names), ("users", dict(list(names.items())[:2])), ("search", {}), ("home", {})):
        assert viewer.get(reverse(page, kwargs=kwargs)).status_code == 200
    monkeypatch.setattr(masking, "SECONDS", 60.0)  # rules are looked up again and again, by one query
    masking.forget()
    masking.mask_of_all()
    with django_assert_num_queries(0, using=known.source), django_assert_num_queries(0):
        assert users.ref_meant(known, actor=BOB) == handles.shown_ref(known, BOB) == known


def test_no_template_shows_the_id_of_a_user_as_it_is() -> None:
    """A page says `{{ ref|user }}` or `{% user_name … %}`. What somebody typed into a form is given back."""
    typed = {"edits/fork/fork.html", "home/sessions/new.html"}
    templates = ROOT / "templates"
    shown = [
        str(path.relative_to(templates))
        for path in templates.rglob("*.html")
        if re.search(r"\{\{[^}]*user_id|blocktranslate[^%]*user_id", Path(path).read_text())
    ]
    assert set(shown) <= typed
