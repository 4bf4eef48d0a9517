"""Acts that are no event of a session are in the audit, with who did them, from where, and about what."""

import json
import re
import sqlite3
from collections import deque
from collections.abc import Iterator
from contextlib import closing, contextmanager
from io import StringIO
from pathlib import Path
from uuid import UUID

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from sessions_app import transfer
from sessions_app.access import groups, invitations, people, roles, sign_in, tokens
from sessions_app.access.actor import AGENT, TERMINAL
from sessions_app.access.audit import acts, refusals
from sessions_app.access.audit.record import record
from sessions_app.access.tokens import ApiToken
from sessions_app.checks import rules
from sessions_app.domain.errors import NotRecorded
from sessions_app.domain.session_ref import SessionRef
from sessions_app.models import AuditRow
from sessions_app.reads import views as reads_views
from sessions_app.search.saved import views, webhooks
from sessions_app.search.saved.views import ViewWatch
from sessions_app.search.saved.webhooks import Webhook
from sessions_app.sources import adopt_job
from sessions_app.transfer import import_job, uploads
from sessions_app.writes.sessions import create_session, delete_session
from tests.api.program import Program
from tests.management.conftest import environment, run
from tests.support.people import ALICE, BOB, an_admin, as_admin, somebody
from tests.web.conftest import DEMO, ROOT, Browser

pytestmark = pytest.mark.django_db
PASSWORD = "correct horse battery"


@pytest.fixture(autouse=True)
def _nothing_yet(db: None) -> Iterator[None]:
    AuditRow.objects.all().delete()  # a test without a transaction may have left some
    refusals.known.clear()
    yield
    refusals.known.clear()


@contextmanager
def refusing_rows() -> Iterator[None]:
    """The audit takes no row, and every other table does."""
    with connection.cursor() as cursor:
        cursor.execute(
            """CREATE TRIGGER refusing BEFORE INSERT ON sessions_app_auditrow
            BEGIN SELECT RAISE(ABORT, 'the audit is full'); END"""
        )
        yield
        cursor.execute("DROP TRIGGER refusing")


def rows() -> list[tuple[str, str, str, dict[str, str]]]:
    fields = AuditRow.objects.order_by("number").values_list("act", "by", "address", "detail")
    return [(act, by, address, json.loads(detail)) for act, by, address, detail in fields]


def recorded() -> list[tuple[str, str]]:
    return [(act, by) for act, by, _address, _detail in rows()]


# --- People -----------------------------------------------------------------------------------------------------------


def test_sign_ins_failures_and_sign_outs_are_recorded_with_their_address(client: Client) -> None:
    get_user_model().objects.create_superuser("maria", password=PASSWORD)
    for name, password in (("maria", "wrong"), ("my secret", "typed here"), ("maria", PASSWORD)):
        client.post("/sign-in/", {"username": name, "password": password})
    client.post("/sign-out/")
    assert rows() == [
        ("sign-in-failed", "maria", "127.0.0.1", {"how": "password"}),
        # who is no account may have typed a password as a name
        ("sign-in-failed", "", "127.0.0.1", {"how": "password"}),
        ("sign-in", "maria", "127.0.0.1", {"how": "password"}),
        ("sign-out", "maria", "127.0.0.1", {}),
    ]


def test_spent_links_and_unknown_tokens_are_recorded_without_their_text(client: Client) -> None:
    for _again in range(3):
        client.get("/sign-in/", {"token": "spent"})
        Program("adkweb_unknown").get("/api/apps")
    assert rows() == [
        ("sign-in-failed", "", "127.0.0.1", {"what": "link"}),
        ("sign-in-failed", "", "127.0.0.1", {"what": "token"}),
    ]


def test_a_password_that_a_command_changes_is_recorded_and_not_changed_where_that_cannot_be(
    person: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("getpass.getpass", lambda prompt="": PASSWORD)
    call_command("changepassword", "maria", stdout=StringIO())
    assert rows() == [("password-changed", "terminal", "", {"name": "maria"})]
    before = User.objects.get().password
    with (
        refusing_rows(),
        pytest.raises(CommandError, match="This couldn't be recorded in the audit, so nothing was changed"),
    ):
        call_command("changepassword", "maria", stdout=StringIO())
    assert User.objects.get().password == before


def test_signing_other_browsers_out_is_recorded(person: User, maria: Browser) -> None:
    maria.send("sign-ins", {"which": "another"})
    people.end_sign_in("maria", "", actor=TERMINAL)
    assert rows() == [
        ("sign-out", "maria", "127.0.0.1", {"browsers": "one"}),
        ("sign-out", "terminal", "", {"browsers": "all", "name": "maria"}),
    ]


def test_the_account_of_whoever_starts_adkweb_is_recorded_once() -> None:
    sign_in.sign_in_token()
    sign_in.sign_in_token()
    assert recorded() == [("account-made", "terminal"), ("admin-made", "terminal")]


def test_people_groups_and_roles_are_recorded(maria: Browser) -> None:
    groups.make("Support", actor=TERMINAL)
    groups.rename("Support", "Help", actor=TERMINAL)
    _invitation, text = invitations.make("Ana", ["Help"], actor=TERMINAL)
    invitations.accept(text, "ana", PASSWORD)
    other, _text = invitations.make("Bob", [], actor=TERMINAL)
    for _again in range(2):
        invitations.cancel(other.id, actor=TERMINAL)
    get_user_model().objects.create_superuser("root", password=PASSWORD)
    people.change("ana", actor=TERMINAL, active=False, admin=False, groups=[])
    role = roles.give("editor", by=TERMINAL, person="maria", apps="booking*")
    roles.remove(role.pk, by=TERMINAL)
    groups.delete("Help", actor=TERMINAL)
    maria.send("new-password", {"password": PASSWORD})
    assert recorded() == [
        ("group-made", "terminal"),
        ("group-renamed", "terminal"),
        ("invited", "terminal"),
        ("joined", "ana"),
        ("invited", "terminal"),
        ("invitation-withdrawn", "terminal"),
        ("account-changed", "terminal"),
        ("role-given", "terminal"),
        ("role-taken", "terminal"),
        ("group-deleted", "terminal"),
        ("password-changed", "maria"),
        ("sign-in", "maria"),
    ]
    given = AuditRow.objects.get(act="role-given")
    assert (given.app_name, json.loads(given.detail)["role"]) == ("booking*", "editor")
    assert text not in str(rows())


def test_the_roles_that_go_with_a_group_are_recorded() -> None:
    groups.make("Support", actor=TERMINAL)
    roles.give("editor", by=TERMINAL, group="Support", apps="booking*")
    groups.delete("Support", actor=TERMINAL)
    assert [act for act, _by in recorded()][-2:] == ["role-taken", "group-deleted"]
    taken = AuditRow.objects.get(act="role-taken")
    assert (taken.app_name, json.loads(taken.detail)["group"]) == ("booking*", "Support")


def test_an_invitation_that_is_spent_is_recorded_without_its_text(client: Client) -> None:
    for _again in range(3):
        assert client.post("/join/", {"token": "http://testserver/join/#spent"}).status_code == 404
    assert rows() == [("sign-in-failed", "", "127.0.0.1", {"what": "invitation"})]


def test_a_token_that_is_made_or_revoked_is_recorded_once_and_its_text_is_not() -> None:
    _token, text = tokens.create("agent", "append", "booking*", by=as_admin("maria"))
    ApiToken.objects.named("agent").revoke(by=as_admin("bob"))
    ApiToken.objects.named("agent").revoke(by=as_admin("eve"))
    assert rows() == [
        ("token-created", "maria", "", {"name": "agent", "permission": "append"}),
        ("token-revoked", "bob", "", {"name": "agent"}),
    ]
    assert text not in str(rows())


# --- Sessions ---------------------------------------------------------------------------------------------------------


def test_exports_of_pages_and_programs_are_recorded(ref: SessionRef, maria: Browser) -> None:
    maria.get(reverse("session-export", kwargs=ref._asdict()))
    maria.get(reverse("app-export", kwargs={"source": ref.source, "app_name": "booking"}))
    maria.send("chosen", {"act": "export", "ref": reverse("session", kwargs=ref._asdict())})
    program = Program(tokens.create("reader", "read", "*", by=as_admin("maria"))[1])
    program.get("/api/export")
    exports = AuditRow.objects.filter(act="exported").order_by("number")
    assert [(row.by, row.app_name, row.user_id, row.session_id) for row in exports] == [
        ("maria", *ref[1:]),
        ("maria", "booking", "", ""),
        ("maria", "", "", ""),
        ("token reader", "", "", ""),
    ]
    assert json.loads(exports[2].detail) == {"chosen": True, "format": "jsonl", "sessions": 1}


def test_an_import_is_recorded_and_its_preview_is_not(ref: SessionRef) -> None:
    upload = uploads.receive(transfer.export("jsonl", ref.source, transfer.exporting.Filter(), actor=ALICE))
    uploads.preview(upload, ref.source, ALICE)
    uploads.bring(upload, ref.source, ALICE)
    uploads.discard(upload)
    assert recorded() == [("exported", "alice"), ("imported", "alice")]


def test_a_deletion_names_its_session_and_what_an_agent_deletes_is_its_own_matter(ref: SessionRef) -> None:
    other = create_session(ref.source, "booking", "ana", session_id="s2", actor=AGENT)
    delete_session(other, actor=AGENT)
    delete_session(ref, actor=ALICE)
    (row,) = AuditRow.objects.all()
    assert (row.act, row.by, row.source, row.app_name, row.user_id, row.session_id) == (
        "session-deleted",
        "alice",
        *ref,
    )


def test_views_webhooks_and_rules_are_recorded(ref: SessionRef, person: User, settings: Settings) -> None:
    settings.WEBHOOK_HOSTS = ["127.0.0.1"]
    view = views.save(person, name="Stuck", query="error", sort="", columns="", shared=False)
    view.change(by=person, shared=True)
    view.watch(person, "UTC")
    watch = ViewWatch.objects.of(view.id, person)
    webhooks.set_up(watch, "http://127.0.0.1/secret-path", "http://adkweb")
    hook = Webhook.objects.of(watch)
    assert hook
    hook.remove()
    view.remove(by=person)
    number = rules.create(ref.source, "booking", "Steps", "step = pay", actor=ALICE)
    rules.change(ref.source, "booking", number, "Step", "step = pay", actor=ALICE)
    rules.delete(ref.source, "booking", number, actor=ALICE)
    names = "view-saved view-changed webhook-set webhook-removed view-deleted"
    assert recorded() == [
        *((act, "maria") for act in names.split()),
        *((f"rule-{act}", "alice") for act in ("created", "changed", "deleted")),
    ]
    assert "secret-path" not in str(rows())


def test_adopting_is_recorded(ref: SessionRef, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adopt_job.database, "keeps_creations", lambda alias: False)
    adopt_job.start(ref.source, ALICE)
    adopt_job.wait(ref.source)
    assert recorded() == [("adopted", "alice")]


def test_commands_are_recorded_once_adkweb_has_its_tables(tmp_path: Path, ready: None) -> None:
    (tmp_path / "agent.db").write_bytes(DEMO.read_bytes())
    (tmp_path / "file.jsonl").write_text(run(tmp_path, "export", "agent.db")[1])
    for words in (("import", "file.jsonl", "--into", "agent.db"), ("adopt", "agent.db"), ("release", "agent.db")):
        assert run(tmp_path, *words)[0] == 0
    made = {"DJANGO_SUPERUSER_PASSWORD": PASSWORD}
    assert (
        run(tmp_path, "createsuperuser", "--noinput", "--username", "ana", "--email", "ana@example.com", **made)[0] == 0
    )
    own = Path(environment(tmp_path)["ADKWEB_DATA_DIR"], "adkweb.db")
    with closing(sqlite3.connect(own)) as db:
        told = db.execute('SELECT act, "by" FROM sessions_app_auditrow ORDER BY number').fetchall()
    names = ("exported", "imported", "adopted", "released", "admin-made")
    assert told == [(act, "terminal") for act in names]


def test_a_command_before_adkweb_was_ever_started_makes_no_database(tmp_path: Path) -> None:
    (tmp_path / "agent.db").write_bytes(DEMO.read_bytes())
    assert run(tmp_path, "export", "agent.db")[0] == 0
    assert not (tmp_path / "data" / "adkweb.db").exists()


# --- Where it cannot be recorded --------------------------------------------------------------------------------------


@pytest.fixture
def full(ref: SessionRef, own: str) -> str:
    """adkweb's own database on a full disk. Returns the text of a token."""
    an_admin("maria")
    _token, text = tokens.create("agent", "append", "*", by=as_admin("maria"))
    with connection.cursor() as cursor:
        (pages,) = cursor.execute("PRAGMA page_count").fetchone()
        cursor.execute(f"PRAGMA max_page_count = {pages}")
    for size in (900, 1):
        with pytest.raises(NotRecorded):
            deque(iter(lambda size=size: record("exported", "maria", why="x" * size), 0), 0)  # type: ignore[misc]
    return text


def test_on_a_full_disk_nothing_is_deleted_exported_imported_or_given(ref: SessionRef, full: str) -> None:
    for act in (
        lambda: delete_session(ref, actor=ALICE),
        lambda: import_job.bring(lambda: pytest.fail("read"), ref.source, actor=ALICE),
        lambda: roles.give("viewer", by=TERMINAL, person="maria"),
        lambda: groups.make("Support", actor=TERMINAL),
    ):
        with pytest.raises(NotRecorded):
            act()
    ApiToken.objects.named("agent").revoke(by=as_admin("maria"))  # this takes access away, and happens all the same
    assert tokens.actor_of(full) is None
    assert reads_views.session(ref, actor=BOB).ref == ref
    assert [role.role for role in roles.Role.objects.all()] == ["admin"]
    assert not groups.listed(actor=TERMINAL).exists()


@pytest.mark.usefixtures("own")
def test_a_token_is_revoked_even_where_a_full_disk_undoes_the_whole_transaction() -> None:
    _token, text = tokens.create("agent", "append", "*", by=as_admin("maria"))
    with connection.cursor() as cursor:
        cursor.execute(
            """CREATE TRIGGER full BEFORE INSERT ON sessions_app_auditrow
            BEGIN SELECT RAISE(ROLLBACK, 'database or disk is full'); END"""
        )
    token = ApiToken.objects.named("agent")
    token.revoke(by=as_admin("maria"))
    assert token.revoked
    assert tokens.actor_of(text) is None


# --- Refusals ---------------------------------------------------------------------------------------------------------


def test_what_is_refused_is_recorded_once_and_then_counted(ref: SessionRef) -> None:
    bob = Browser()
    bob.force_login(somebody("bob", "viewer"))
    for _again in range(5):
        bob.open("session-edit", status=403, **ref._asdict())
    bob.open("session", status=200, **ref._asdict())
    (row,) = AuditRow.objects.all()
    assert (row.act, row.by, row.session_id, row.address) == ("refused", "bob", "s1", "127.0.0.1")
    refusals.record_ended(all_of_them=True)
    refusals.record_ended(all_of_them=True)
    assert [detail for *_names, detail in rows()] == [
        {"what": "GET session-edit"},
        {"again": 4, "what": "GET session-edit"},
    ]


def test_a_token_that_lacks_a_right_is_recorded(ref: SessionRef) -> None:
    program = Program(tokens.create("reader", "read", "*", by=as_admin("maria"))[1])
    assert program.delete(f"/apps/booking/users/ana/sessions/{ref.session_id}").status == 403
    assert recorded() == [("token-created", "maria"), ("refused", "token reader")]


def test_a_token_that_asks_for_an_app_that_it_is_not_for_is_recorded_if_there_is_one_or_not(ref: SessionRef) -> None:
    for number, app in enumerate(("booking", "atlantis")):
        program = Program(tokens.create(f"clerk{number}", "admin", "support*", by=as_admin("maria"))[1])
        assert program.get(f"/api/apps/{app}/users").status == 404
        assert recorded()[-1] == ("refused", f"token clerk{number}")


def test_who_is_refused_in_a_thousand_ways_makes_few_rows() -> None:
    for number in range(1_000):
        refusals.note("refused", "bob", f"GET {number}")
    refusals.note("refused", "eve", "GET 1")
    refusals.record_ended(all_of_them=True)
    by_bob = [detail for _act, by, _address, detail in rows() if by == "bob"]
    assert len(by_bob) == refusals.MOST + 2
    assert by_bob[-1] == {"again": 1_000 - refusals.MOST - 1}


def test_who_is_not_signed_in_is_not_recorded_as_refused(client: Client) -> None:
    assert client.get("/edits/", headers={"HX-Request": "true"}).status_code == 403
    assert rows() == []


# --- All of them ------------------------------------------------------------------------------------------------------


def test_every_act_is_documented_and_stands_in_one_of_the_two_lists() -> None:
    page = (ROOT / "docs" / "audit.md").read_text()
    (table,) = re.findall(r"## Actions\n(.*?)\n## ", page, re.DOTALL)
    assert set(re.findall(r"`([a-z-]+)`", table.partition("The same refusal")[0])) >= acts.ACTS
    assert not acts.MUST & acts.ANYWAY


def test_an_act_without_a_name_in_the_list_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="danced"):
        record("danced", "maria", view=UUID(int=0))
