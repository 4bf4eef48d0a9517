"""What each role may change by a page, in one table over all pages that take a form. The ids in it are real.

Whoever lacks what a page needs changes nothing, in no table; the least who has it is not refused. So a 404 for an id that
is made up hides nothing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from inspect import getclosurevars
from typing import Any, Final

import pytest
from django.apps import apps
from django.contrib.auth.models import Group, User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connections
from django.urls import URLPattern, reverse

from sessions_app.access import approval, groups, invitations, masking, roles
from sessions_app.access.actor import SYSTEM, TERMINAL
from sessions_app.access.approval import ApprovalRule
from sessions_app.access.roles import Role
from sessions_app.access.tokens import ApiToken
from sessions_app.batches import batch
from sessions_app.checks import mask_rules
from sessions_app.checks import rules as health_rules
from sessions_app.domain.errors import Held
from sessions_app.domain.session_ref import SessionRef
from sessions_app.edits import expiry, proposals, queue
from sessions_app.edits.edit import Entry, edit_state
from sessions_app.models import Job, Trial, TriedSession
from sessions_app.privacy import retention
from sessions_app.privacy.retention import RetentionRule
from sessions_app.reads import views as reads_views
from sessions_app.running import servers
from sessions_app.search import inbox
from sessions_app.search.saved import views
from sessions_app.search.saved.views import SavedView, ViewWatch
from sessions_app.search.saved.webhooks import Webhook
from sessions_app.sources import registry
from sessions_app.transfer import imports, uploads
from sessions_app.trying import whatif, whatifs
from sessions_app.web import urls
from sessions_app.writes.append import append_event
from tests.search.finding import feed
from tests.support.at_work import settle
from tests.support.people import ALICE, somebody
from tests.web.conftest import Browser
from tests.web.test_roles import MAY, signed_in

# The work is done by threads, which see only what is committed.
pytestmark = pytest.mark.django_db(transaction=True)

# What anybody may send who has an account, about themselves, or whoever has none, to get in. Other tests try these.
OWN: Final = {
    *("sign-in", "second-step", "join", "sign-out", "set_language", "new-password", "sign-ins"),
    *("second-factor", "new-codes", "remove-second-factor", "add-passkey", "remove-passkey", "connect-provider"),
    *("schema-check", "context"),  # they compute with what is sent, and change nothing
    *("test-agent", "stop-agent"),  # they start and end a process, and change no row
}
# These tables change with every request, or follow from the others.
_PASSING: Final = {"AuditRow", "PasswordTries", "Breach", "Projection", "StateOwner", "StateChange", "Waiting"}
_STORED: Final = ("sessions", "events", "app_states", "user_states")


@dataclass
class World:
    """A session, and one of each thing that a page changes. Eve, an editor of the app, made what people make."""

    ref: SessionRef
    eve: User
    key: str = ""

    def __post_init__(self) -> None:
        for number in (1, 2):
            delta = {"step": f"pay{number}", "late": number}
            event = {
                "id": f"e{number}",
                "author": "agent",
                "invocation_id": f"i{number}",
                "actions": {"state_delta": delta},
            }
            append_event(self.ref, event, actor=ALICE)
        self.eves = roles.actor_of(self.eve)

    # --- What stands in an address ---

    def queued(self) -> dict[str, Any]:
        """An edit that waits."""
        return {"queued_id": queue.queue_edit(self.ref, [Entry("step", "later", "pay2")], person=self.eve).id}

    def outcome(self) -> dict[str, Any]:
        """What became of one, whose author cannot sign in any more."""
        names = self.queued()
        queue.cancel(names["queued_id"], self.eve)
        Job.objects.filter(kind="edit").update(told=False)
        User.objects.filter(pk=self.eve.pk).update(is_active=False)
        return names

    def asking(self) -> dict[str, Any]:
        """The session, whose agent waits for an answer."""
        part = {"function_call": {"id": "c1", "name": "approve"}}
        asks = {"author": "agent", "content": {"parts": [part]}, "long_running_tool_ids": ["c1"]}
        append_event(self.ref, asks, actor=ALICE)
        feed(self.ref.source)
        self.key = inbox.waiting(actor=SYSTEM).rows[0].key
        return self.session()

    def expiring(self) -> dict[str, Any]:
        """An edit that is taken back in an hour."""
        edit_state(self.ref, [Entry("step", "trial", "pay2")], actor=self.eves, of={"lasts": 3600})
        (kept,) = expiry.listed(actor=SYSTEM)
        return {"expiry_id": kept.id}

    def proposed(self) -> dict[str, Any]:
        """An edit that waits for a second person."""
        approval.make(by=TERMINAL, keys="late", apps="booking")
        with pytest.raises(Held):
            edit_state(self.ref, [Entry("late", 9, 2)], actor=self.eves)
        return {"proposal_id": proposals.listed(actor=SYSTEM)[0].id}

    def batch(self, act: Any = "edit") -> dict[str, Any]:
        """A batch that was tried."""
        made = batch.begin(act, actor=self.eves, refs=[self.ref])
        batch.try_(made, {"step": "gift"}, actor=self.eves)
        settle("batch")
        return {"batch_id": made}

    def replay(self) -> dict[str, Any]:
        """A replay that was not begun."""
        task = {"apps": [self.ref.app_name], "run_code": False, "query": ""}
        job = Job.objects.make("replay", registry.identity(self.ref.source), task, state="draft", actor="eve")
        return {"replay_id": job.pk}

    def what_ifs(self) -> dict[str, Any]:
        """A what-if of many sessions that was not begun."""
        task = {"apps": [self.ref.app_name], "run_code": False, "query": "", "change": asdict(whatif.Change(""))}
        task |= {"unknown": "fail", "agents": {}, "estimate": asdict(whatifs.Estimate(0, None, 0, None, 0))}
        job = Job.objects.make("whatifs", registry.identity(self.ref.source), task, state="draft", actor="eve")
        names = json.dumps(self.ref[1:])
        TriedSession.objects.create(job=job, number=0, where=job.where, names=names)
        return {"what_ifs_id": job.pk}

    def view(self) -> dict[str, Any]:
        """A view that Eve shares, of an app that is indexed."""
        feed(self.ref.source)
        fields = {"name": "vip", "query": "app:booking", "sort": "", "columns": "", "shared": True}
        return {"view_id": views.save(self.eve, **fields).id}

    def brought(self) -> dict[str, Any]:
        """A file that an admin of the app sent, and that waits to be imported."""
        admin = roles.actor_of(somebody("adele", "admin", "booking"))
        upload = uploads.receive([b'{"format": "adk-jsonl", "version": 1}\n'])
        made = imports.begin(upload, "a.jsonl", self.ref.source, admin)
        settle("import")
        return {"import_id": made}

    def what_if(self) -> dict[str, Any]:
        """A what-if whose agent waits for a decision."""
        names = {name: value for name, value in self.session().items() if name != "source"}
        task = {"change": asdict(whatif.Change("e1")), "revealed": False, "edit": None, "repeats": 1}
        job = Job.objects.make(whatif.KIND, registry.identity(self.ref.source), task, **names)
        question = json.dumps({"agent": "booking", "tool": "pay", "args": {}})
        events = [{"id": "t1", "author": "booking", "invocation_id": "i3", "timestamp": 1.0}]
        Trial.objects.create(job=job, number=0, question=question, events=json.dumps(events))
        return {**self.session(), "what_if_id": job.pk}

    def app(self) -> dict[str, Any]:
        """The app."""
        return {"source": self.ref.source, "app_name": self.ref.app_name}

    def user(self) -> dict[str, Any]:
        """The user."""
        return {**self.app(), "user_id": self.ref.user_id}

    def session(self) -> dict[str, Any]:
        """The session."""
        return self.ref._asdict()

    def event(self) -> dict[str, Any]:
        """The last event but one."""
        return {**self.session(), "event_id": "e1"}

    def rule(self) -> dict[str, Any]:
        """A rule about the state of the app."""
        return {**self.app(), "number": health_rules.create(*self.ref[:2], "", "step exists", actor=self.eves)}


def row(key: str, old: Any, new: Any) -> dict[str, str]:
    """The fields of the form that edits one key."""
    said = {"key-0": key, "operation-0": "set", "value-0": json.dumps(new), "seen-0": json.dumps(old)}
    return {"rows": "0", **said, "action": "apply", "reason": "r"}


def none(world: World) -> dict[str, Any]:
    return {}


def path_of(world: World) -> str:
    return reverse("session", kwargs=world.ref._asdict())


@dataclass(frozen=True)
class Post:
    """A form: what it needs (see test_roles.py), what stands in its address, and what is sent."""

    page: str
    need: str
    names: Callable[[World], dict[str, Any]] = none
    sent: Callable[[World], dict[str, Any]] = none
    query: str = ""


def fixed(**sent: Any) -> Callable[[World], dict[str, Any]]:
    return lambda world: sent


def of_token(world: World) -> dict[str, Any]:
    ApiToken.objects.create(name="agent", digest="d", permission="append", apps="booking", created_by="eve")
    return {"name": "agent"}


def of_invitation(world: World) -> dict[str, Any]:
    return {"invitation_id": invitations.make("ana", (), actor=TERMINAL)[0].id}


def of_address(world: World) -> dict[str, Any]:
    servers.set_address(*world.ref[:2], url="https://1.1.1.1", header="", value="", actor=ALICE)
    return world.app()


def of_group(world: World) -> dict[str, Any]:
    return {"name": groups.make("support", actor=TERMINAL).name}


def of_role(world: World) -> dict[str, Any]:
    return {"number": Role.objects.get(person=world.eve).pk}


def of_mask(world: World) -> dict[str, Any]:
    mask_rules.create("booking", "key", "card", actor=SYSTEM)
    return {"number": mask_rules.listed(actor=SYSTEM)[0].pk}


def of_approval(world: World) -> dict[str, Any]:
    approval.make(by=TERMINAL, keys="late", apps="booking")
    return {"number": ApprovalRule.objects.get().pk}


def of_retention(world: World) -> dict[str, Any]:
    retention.save(world.ref.source, "booking", 90, export=False, actor=ALICE)
    return {"number": RetentionRule.objects.get().pk}


def hidden(names: Callable[[World], dict[str, Any]]) -> Callable[[World], dict[str, Any]]:
    """Hides all values first."""

    def masked(world: World) -> dict[str, Any]:
        mask_rules.create("booking", "key", "*", actor=SYSTEM)
        return names(world)

    return masked


def revised(world: World) -> dict[str, Any]:
    return {"revision": repr(reads_views.session(world.ref, actor=SYSTEM).revision)}


def of_hook(world: World) -> dict[str, Any]:
    """A view of somebody else's, with a webhook: of one's own, which one does not have, nothing is changed."""
    names = world.view()
    SavedView.objects.of(names["view_id"], world.eve).watch(world.eve, "UTC")
    Webhook.objects.create(watch=ViewWatch.objects.get(), url="https://a.example/x", salt="s", link="", created=0.0)
    return names


def chosen(act: str) -> Callable[[World], dict[str, Any]]:
    return lambda world: {"act": act, "ref": [path_of(world)], "tag": "vip"}


POSTS: Final = [
    Post("save-view", "read", sent=fixed(name="mine", q="app:booking", sort="", cols="")),
    Post("change-view", "own", World.view, fixed(name="other", q="", sort="", cols="")),
    Post("delete-view", "own", World.view),
    Post("make-test", "read", World.session, fixed(format="test")),
    Post("make-test", "reveal", World.session, fixed(format="evalset", reason="r")),
    Post("watch-view", "read", World.view, fixed(on="1")),
    Post("webhook", "own", of_hook, fixed(do="remove")),
    Post("chosen", "append", sent=chosen("edit")),
    Post("chosen", "admin", sent=chosen("delete")),
    Post("chosen", "append", sent=chosen("tag")),
    Post("batch", "everything", World.batch, fixed(action="do")),
    Post("batch", "everything", World.batch, fixed(action="discard")),
    Post("replay", "operate", World.replay, fixed(action="discard")),
    Post("what-ifs", "operate", World.what_ifs, fixed(action="discard")),
    Post("new-session", "append", sent=lambda world: {**world.user(), "session_id": "s2", "state": "{}"}),
    Post("retention", "admin", sent=lambda world: {**world.app(), "days": "90", "do": "save", "action": "save"}),
    Post("remove-retention", "admin", of_retention),
    Post(
        "imports",
        "admin",
        sent=lambda world: {"source": world.ref.source, "file": SimpleUploadedFile("a.jsonl", b"{}")},
    ),
    Post("import", "everything", World.brought, fixed(action="discard")),
    Post("adoption", "everything", lambda world: {"source": world.ref.source}),
    Post("agent", "everything", World.app, fixed(url="https://1.1.1.1/")),
    Post("remove-agent-address", "everything", of_address),
    Post("start-sessions", "everything", sent=fixed(folder="/nowhere")),
    Post("tokens", "everything", sent=fixed(name="t", permission="read", apps="*", days="9", rate="", holders="eve")),
    Post("renew-token", "everything", of_token, fixed(hours="0", days="9")),
    Post("revoke-token", "everything", of_token),
    Post("person", "people", fixed(name="eve"), fixed(active="1")),
    Post("sign-somebody-out", "people", fixed(name="eve"), fixed(which="")),
    Post("reset-second-factor", "people", fixed(name="eve")),
    Post("invite", "people", sent=fixed(note="for ana")),
    Post("cancel-invitation", "people", of_invitation),
    Post("new-group", "people", sent=fixed(name="support")),
    Post("group", "people", of_group, fixed(name="helpers")),
    Post("delete-group", "people", of_group),
    Post("roles", "everything", sent=fixed(holder="person:eve", role="admin", apps="*")),
    Post("remove-role", "everything", of_role),
    Post("masking", "everything", sent=fixed(apps="*", kind="key", pattern="step")),
    Post("remove-mask", "everything", of_mask),
    Post("approval", "everything", sent=fixed(keys="step", apps="*", sources="*", days="7", sessions="")),
    Post("delete-approval", "everything", of_approval),
    Post("proposal", "append", World.proposed, fixed(action="apply")),
    Post("proposal", "append", World.proposed, fixed(action="decline")),
    Post("proposal", "own", World.proposed, fixed(action="cancel")),
    Post("extend-edit", "append", World.expiring, fixed(lasts="86400")),
    Post("keep-edit", "append", World.expiring),
    Post("cancel-queued", "append", World.queued),
    Post("queued-dismiss", "append", World.outcome),
    Post("state-health", "append", World.app, fixed(title="", condition="step exists")),
    Post("rule", "append", World.rule, fixed(action="delete")),
    Post("rule", "append", World.rule, fixed(action="save", title="t", condition="late exists")),
    Post("app-edit", "append", World.app, lambda world: row("app:limit", 10, 11)),
    Post("user-edit", "append", World.user, lambda world: row("user:tier", "gold", "vip")),
    Post("session-edit", "append", World.session, lambda world: row("step", "pay2", "gift")),
    Post("session-edit", "append", World.session, lambda world: {**row("step", "pay2", "gift"), "action": "queue"}),
    Post("app-reveal", "reveal", hidden(World.app), fixed(reason="r"), "?key=app:limit"),
    Post("user-reveal", "reveal", hidden(World.user), fixed(reason="r"), "?key=user:tier"),
    Post("session-reveal", "reveal", hidden(World.session), fixed(reason="r"), "?key=step"),
    Post("event-reveal", "reveal", hidden(World.event), fixed(reason="r")),
    Post("export-everything", "admin", World.user),
    Post("erase-user", "admin", World.user, fixed(confirm="ana")),
    Post("session-title", "append", World.session, fixed(title="Late")),
    Post("session-tags", "append", World.session, fixed(tag="vip")),
    Post("dismiss", "operate", World.asking, lambda world: {"key": world.key, "reason": "r"}),
    Post(
        "decide",
        "operate",
        sent=lambda world: {"ref": f"{reverse('session', kwargs=world.session())}#key", "confirmed": "yes"},
    ),
    Post("answer", "operate", World.asking, lambda world: {"event": "e1", f"{world.key}.json": "1"}),
    Post("say", "operate", World.session, fixed(text="hello")),
    Post("continue", "operate", World.session),
    Post("stop", "operate", World.session),
    Post("resume", "operate", World.session, fixed(pause="0" * 32, go="continue")),
    Post("breakpoints", "operate", World.session, fixed(kind="tool", what="pay", scope="session")),
    Post("delete-session", "admin", World.session, fixed(confirm="s1")),
    Post("hold-session", "admin", World.session, fixed(reason="r")),
    Post("drift", "append", World.session, fixed(action="apply")),
    Post("add-event", "append", World.session, fixed(event='{"author": "agent"}', reason="r")),
    Post("fork", "admin", World.event, fixed(user_id="ana", session_id="s9")),
    Post("what-if", "operate", World.session, fixed(action="try"), "?at=e1"),
    Post("decide-call", "operate", lambda world: {**world.what_if(), "number": 0}, fixed(way="fail")),
    Post("stop-what-if", "operate", World.what_if),
    Post("keep-what-if", "admin", lambda world: {**world.what_if(), "number": 0}),
    Post("rewind", "append", World.session, revised, "?before=i2"),
    Post("undo", "append", lambda world: {**world.session(), "event_id": "e2"}, fixed(once="o1")),
]
# Eve's own things: whoever did not make them changes nothing, whatever they may do.
ORDER: Final = ("nobody", "auditor", "viewer", "editor", "admin", "root", "superuser")


@pytest.fixture
def world(ref: SessionRef) -> Iterator[World]:
    """A source whose state was adopted, with Eve."""
    yield World(ref, somebody("eve", "editor", "booking"))
    for kind in ("batch", "import", "export", "fork", "rule", "erasure"):
        settle(kind)
    masking.forget()


def stored(ref: SessionRef) -> dict[str, str]:
    """What every table holds, as a digest: adkweb's own, and the agents'."""
    own = [each for each in apps.get_app_config("sessions_app").get_models() if each._meta.managed]
    tables = {each.__name__: ("default", each._meta.db_table) for each in (*own, Group)}
    tables |= {name: (ref.source, name) for name in _STORED}
    held = {}
    for name, (alias, table) in tables.items():
        if name in _PASSING or name.startswith("Search") or "Sign" in name or name == "Role":
            continue
        with connections[alias].cursor() as cursor:
            cursor.execute(f"SELECT * FROM {table}")
            held[name] = sorted(map(repr, cursor.fetchall()))
    people = User.objects.exclude(username__in=("ria", "rita", "sue"))
    held["User"] = sorted(map(repr, people.values_list("pk", "is_active")))
    held["Role"] = sorted(map(repr, Role.objects.filter(person__username="eve").values_list()))
    return {name: hashlib.sha256("\n".join(rows).encode()).hexdigest() for name, rows in held.items()}


def takes_a_form(pattern: URLPattern) -> bool:
    """Whether an address answers POST, by its decorators."""
    view: Any = pattern.callback
    while view is not None:
        methods = getclosurevars(view).nonlocals.get("request_method_list")
        if methods is not None:
            return "POST" in methods
        view = getattr(view, "__wrapped__", None)
    return True


@pytest.mark.guarantee(
    "Safety", "No one can change anything on a page without the required permission, no matter which ids they know."
)
def test_every_page_that_takes_a_form_has_a_line() -> None:
    patterns = [each for each in urls.urlpatterns if isinstance(each, URLPattern) and takes_a_form(each)]
    assert {str(each.name) for each in patterns} == {post.page for post in POSTS} | OWN


@pytest.mark.guarantee(
    "Safety", "No one can change anything on a page without the required permission, no matter which ids they know."
)
@pytest.mark.parametrize("post", POSTS, ids=lambda post: f"{post.page}-{post.need}")
def test_who_lacks_what_a_page_needs_changes_nothing_by_it_and_who_has_it_is_not_refused(
    world: World, post: Post
) -> None:
    address = reverse(post.page, kwargs=post.names(world)) + post.query
    before = stored(world.ref)
    for role in ORDER:
        if post.need in MAY[role]:
            break
        answer = signed_in(role).post(address, post.sent(world))
        # Another's view or webhook is not touched; whoever may watch it has none of their own.
        assert answer.status_code in (403, 404, *((200, 302, 409) if post.need == "own" else ())), role
    if post.need == "own":
        owner = Browser()
        owner.force_login(world.eve)
    else:
        stranger = signed_in("editor" if post.need in ("operate", "append") else "admin", "weather*")
        if post.need in ("operate", "append", "admin") and post.page not in ("chosen", "imports"):
            assert stranger.post(address, post.sent(world)).status_code in (403, 404)
        owner = signed_in(role)
    assert stored(world.ref) == before
    answer = owner.post(address, post.sent(world))
    assert answer.status_code in (200, 302, 204) or (
        answer.status_code in (400, 409) and post.page in _REFUSED_LATER
    ), answer.content.decode()


# Nothing drifted; it is adopted; there is none; no folder has its agent; it has not ended.
_REFUSED_LATER: Final = {"drift", "adoption", "reset-second-factor", "what-if", "keep-what-if"}
