"""The demo: the copy that adkweb keeps beside its own files, and what two people did there before its visitor came.

They act through the same functions as everyone else, so their edits are events and what they do is in the audit. They can't
sign in, and have roles in the demo alone.
"""

import os
import shutil
import sqlite3
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Final

from django.conf import settings
from django.contrib.auth.models import User
from django.core.management.base import CommandError

from ...access import approval, people, private_files, roles
from ...access.actor import TERMINAL, Actor
from ...access.audit.record import record
from ...checks import mask_rules, rules
from ...domain.errors import Held
from ...domain.session_ref import SessionRef
from ...edits import undo
from ...edits.edit import Entry, edit_state
from ...reads import views
from ...search.saved import views as saved_views
from ...sources import demo

# Accounts are never deleted, so these are names that no one who is invited later would want.
MAYA: Final = "maya.demo"
JONAS: Final = "jonas.demo"
_DAY: Final = 86_400


def copied() -> Path:
    """Returns the demo: a copy that can be edited and is kept from one start to the next."""
    copy = demo.file()
    if not copy.exists():
        if not settings.DEMO.exists():
            raise CommandError(f"The demo {settings.DEMO} is missing.", returncode=2)
        part = copy.with_suffix(f".{os.getpid()}")
        part.unlink(missing_ok=True)
        private_files.new_file(part)
        shutil.copyfile(settings.DEMO, part)
        demo.bring_to(time.time(), part)
        with closing(sqlite3.connect(part)) as file:
            file.execute("PRAGMA journal_mode = WAL")
        part.replace(copy)
    if not (files := demo.artifacts()).exists():
        _copy_closed(settings.DEMO.with_name(files.name), files)
    return copy


def _copy_closed(folder: Path, copy: Path) -> None:
    """Copies a folder for its owner alone."""
    copy.mkdir(mode=0o700)
    for each in folder.iterdir():
        if each.is_dir():
            _copy_closed(each, copy / each.name)
        else:
            private_files.new_file(copy / each.name)
            shutil.copyfile(each, copy / each.name)


def fill(source: str) -> None:
    """Makes what a new copy of the demo is shown with: edits, a temporary one, an undo, a proposal, a rule that two sessions
    break, a masked key and a saved view.

    Makes nothing where adkweb has other accounts than its admins': that would be someone's own list of people."""
    accounts = User.objects.exclude(is_superuser=True).values_list("username", flat=True)
    if settings.READ_ONLY or settings.OIDC_ISSUER or {*accounts} - {MAYA, JONAS}:
        return
    if not accounts:  # else this is another copy, for someone who deleted the first
        _people(source)
    maya, jonas = (roles.actor_of(User.objects.get(username=name)) for name in (MAYA, JONAS))
    _edits(source, maya, jonas)
    rules.create(
        source,
        "booking",
        "Once paid, never back to choose",
        "not (payment.status = paid and booking_step = choose)",
        actor=maya,
    )


def _people(source: str) -> None:
    """Makes the accounts, and what belongs to adkweb and not to the demo's file."""
    for name in (MAYA, JONAS):
        person = people.new_account(name)
        person.save()
        record("account-made", TERMINAL.name, name=name)
        roles.give("editor", by=TERMINAL, sources=source, person=name)
    mask_rules.create("booking", "key", "user:card_token", actor=TERMINAL)
    approval.make(by=TERMINAL, keys="ticket", apps="support", sources=source)
    maya = User.objects.get(username=MAYA)
    saved_views.save(maya, name="Not paid yet", query="amount_due > 0", sort="", columns="", shared=True)


def _edits(source: str, maya: Actor, jonas: Actor) -> None:
    """Makes five edits, and one that waits for someone else."""

    def edited(app: str, user: str, name: str, key: str, value: Any, who: Actor, reason: str, **of: Any) -> str:
        ref = SessionRef(source, app, user, name)
        seen = views.session(ref, actor=who).state.get(key)
        value = {**seen, **value} if isinstance(value, dict) else value
        return str(edit_state(ref, [Entry(key, value, seen)], actor=who, reason=reason, of=of).event["id"])

    omar = "omar@example.com"
    edited("booking", omar, "oslo-weekend", "amount_due", 0, maya, "Cancelled in time, so nothing is due any more")
    edited("booking", omar, "board-meeting", "user:seat", "aisle", jonas, "Omar called: always an aisle seat")
    madrid = SessionRef(source, "booking", "ana", "madrid-return")
    wrong = edited(*madrid[1:], "best_flight", "IB3107", jonas, "Ana wants to leave in the morning")
    planned = undo.undo(madrid, wrong, actor=maya)
    edit_state(madrid, planned.entries, actor=maya, reason="She meant another trip", of={"undoes": wrong})
    edited(
        "booking", "지우", "busan-jeju", "user:tier", "silver", jonas, "A free day of silver for the delay", lasts=_DAY
    )
    with suppress(Held):
        edited("support", omar, "refund", "ticket", {"status": "refunded"}, jonas, "The bank confirmed the refund")
