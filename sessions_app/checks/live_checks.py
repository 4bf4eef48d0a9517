"""Checks the sessions that the index has just read against the rules of their app, from where they were checked
last."""

import time
from collections.abc import Sequence
from typing import Any

from django.db import IntegrityError

from ..domain.errors import Behind, Error, SourceError
from ..domain.session_ref import digest_of
from ..models import CheckedSession, DueSession, Rule, SearchSession, SearchSource
from ..search.index import feed
from ..sources import registry
from .checking import TOGETHER, Checked, Subject, check, checked, look_again, subjects


def check_due(source: str, seconds: float) -> bool:
    """Checks for some seconds, if this process feeds the index. Returns whether there is more. Raises SourceError."""
    where, until = registry.identity(source), time.monotonic() + seconds
    while due := list(DueSession.objects.filter(where=where).order_by("pk")[:TOGETHER]):
        if not SearchSource.objects.filter(where=where, claim=feed.PROCESS).exists():
            return False
        there = subjects(source, SearchSession.objects.filter(source__where=where, digest__in=[x.digest for x in due]))
        rules = _rules(where)  # read after the sessions: the job of a newer rule checks their events itself
        for subject in there:
            of_app = rules.get(digest_of(subject.ref.app_name, ""), [])
            try:
                if of_app and not _check(of_app, subject, where, until):
                    return True
            except Behind:  # its history is still being read
                return False
            except IntegrityError:  # a rule was deleted in the meantime, or its job noted the same
                return True
            except SourceError:
                raise
            except Error:  # it is gone, or cannot be read
                continue
        DueSession.objects.filter(pk__in=[each.pk for each in due]).delete()
        if time.monotonic() >= until:
            return True
    return False


def _rules(where: str) -> dict[str, list[Checked]]:
    """Returns the rules of a source by app."""
    rules: dict[str, list[Checked]] = {}
    for rule in Rule.objects.filter(where=where):
        if (read := checked(rule)) is not None:
            rules.setdefault(rule.digest, []).append(read)
    return rules


def _check(rules: Sequence[Checked], subject: Subject, where: str, until: float) -> bool:
    """Checks what is new in a session. Returns False if the time is up first."""
    of_session: dict[str, Any] = {"where": where, "digest": subject.digest}
    at = CheckedSession.objects.filter(**of_session, created=subject.created).first()
    after = at.upto if at else None
    while True:
        came = check(rules, subject, after)
        for rule in rules:
            if not came.shared.isdisjoint(rule.keys):
                look_again(rule, subject.ref.source)
        after = came.after
        kept = {"created": subject.created, "upto": subject.until if after is None else after}
        CheckedSession.objects.update_or_create(**of_session, defaults=kept)
        if after is None or time.monotonic() >= until:
            return after is None
