"""adkweb's own database from before the first release is taken over if its tables are those of the first migration."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.db import connections
from django.db.migrations.recorder import MigrationRecorder

from sessions_app.access.people import User
from sessions_app.domain.errors import Invalid
from sessions_app.sources import health, own_backups, versions
from tests.support.own import own_database
from tests.support.people import somebody

BOTH = pytest.mark.parametrize("own", ["sqlite", "postgresql"], indirect=True)
FIRST = "0001_initial"
NOW = {
    *(FIRST, "0002_searchwrite", "0003_invitation_role", "0004_token_permission", "0005_inbox", "0006_answer"),
    *("0007_agentaddress", "0008_report", "0009_approvalrule_tools", "0010_agentchild", "0011_agentversion"),
    *("0012_replayitem", "0013_breakpoint", "0014_trial", "0015_triedsession"),
}
OLDER = ("0002_queued_edit", "0026_roles")
LAST = (*OLDER, "0043_user_handles")


def made_by(*names: str) -> None:
    """Takes the database back to what the first migration makes, and notes further ones in it."""
    call_command("migrate", "sessions_app", FIRST, verbosity=0)
    recorder = MigrationRecorder(connections["default"])
    for name in names:
        recorder.record_applied("sessions_app", name)


def own_migrations() -> set[str]:
    return {name for app, name in versions.applied() if app == "sessions_app"}


@BOTH
def test_the_last_one_is_taken_over_with_all_that_it_has(own: str) -> None:
    somebody("ana", "viewer")
    made_by(*LAST)
    with pytest.raises(SystemExit):  # there is something to do
        call_command("migrate", check_unapplied=True, verbosity=0)
    assert own_migrations() == {FIRST, *LAST}, "--check only looks"
    call_command("migrate", verbosity=0, interactive=False)
    assert own_migrations() == NOW
    assert User.objects.get().username == "ana"


@BOTH
def test_an_older_one_is_refused_and_left_as_it_is_with_what_to_do(own: str) -> None:
    made_by(*OLDER)
    with pytest.raises(CommandError, match=r"before the first release.*0026_roles.*docs/operations\.md") as refused:
        call_command("migrate", verbosity=0, interactive=False)
    assert refused.value.returncode == 2
    assert own_migrations() == {FIRST, *OLDER}


@BOTH
def test_backups_are_taken_over_or_refused_by_the_same_rule(own: str, tmp_path: Path) -> None:
    somebody("ana", "viewer")
    for name, migrations in (("older", OLDER), ("last", LAST)):
        own_backups.backup(tmp_path / name)
        with own_database(f"sqlite:///{tmp_path / name}"):
            made_by(*migrations)
    User.objects.all().delete()
    own_backups.restore(tmp_path / "last", replace=True)
    assert own_migrations() == NOW
    assert User.objects.get().username == "ana"
    with pytest.raises(Invalid, match="before the first release"):
        own_backups.restore(tmp_path / "older", replace=True)
    assert User.objects.get().username == "ana"


@BOTH
@pytest.mark.parametrize("name", ["0026_roles", "0999_later"])
def test_nobody_is_sent_to_a_process_whose_database_is_of_another_version(own: str, name: str) -> None:
    made_by(OLDER[0], name)
    health.forget()
    assert health.look().own.lacks == (health.SCHEMA,)
