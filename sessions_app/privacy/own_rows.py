"""Deletes what adkweb itself stores about a session, or a user of an app: labels, the index, pending work, anything
that names them."""

import json
import time
from collections.abc import Collection
from typing import Any, Final

from django.db import transaction
from django.utils.timezone import get_default_timezone

from ..access.handles import handle_of
from ..domain.session_ref import SessionRef, digest_of
from ..history.index.tables import stored_key
from ..models import (
    Answer,
    BatchItem,
    Breach,
    Breakpoint,
    CheckedSession,
    Dismissal,
    DueSession,
    Job,
    Pause,
    Projection,
    Report,
    SearchOwner,
    SearchSession,
    SearchValue,
    SessionTag,
    SessionTitle,
    StateChange,
    StateOwner,
    TriedSession,
    Waiting,
)
from ..models.pages import in_pages
from ..search.index.tables import forget
from ..search.language import parse
from ..search.saved.views import SavedView
from ..search.saved.watching import ViewNews
from ..search.saved.webhooks import WebhookDelivery
from ..search.tree import Match, leaves
from ..search.words import folded
from ..sources import registry

_SOME: Final = 200


def forget_session(ref: SessionRef) -> None:
    """Deletes what adkweb stores about a deleted session."""
    where, digest = registry.identity(ref.source), digest_of(*ref[1:])
    of_session = (CheckedSession, DueSession, ViewNews, SessionTitle, SessionTag, Dismissal, Answer, Report)
    for model in (*of_session, Breakpoint, Pause):
        model.objects.filter(where=where, digest=digest).delete()
    Breach.objects.filter(rule__where=where, digest=digest).delete()
    for named in (Waiting, TriedSession):
        named.objects.filter(where=where, names=json.dumps(ref[1:])).delete()
    names = {"app_name": ref.app_name, "user_id": ref.user_id, "session_id": ref.session_id}
    Job.objects.of_agents().filter(where=where, **names).delete()
    forget(list(SearchSession.objects.filter(source__where=where, digest=digest).values_list("pk", flat=True)))


def forget_user(source: str, app_name: str, user_id: str, kept: Collection[str]) -> dict[str, int]:
    """Deletes what adkweb stores about a user, except about the sessions `kept`. Returns the number of rows by kind."""
    where = registry.identity(source)
    rows = {
        "labels": _named(SessionTitle, where, app_name, user_id, kept)
        + _named(SessionTag, where, app_name, user_id, kept),
        "dismissals": _named(Dismissal, where, app_name, user_id, kept),
        "answers": _named(Answer, where, app_name, user_id, kept),
        "reports": _named(Report, where, app_name, user_id, kept),
        "pauses": _named(Pause, where, app_name, user_id, kept) + _named(Breakpoint, where, app_name, user_id, kept),
        "queued": _queued(where, app_name, user_id, kept),
        "batches": _named(BatchItem, where, app_name, user_id, kept),
        "replays": _named(TriedSession, where, app_name, user_id, kept),
        "deliveries": _deliveries(source, app_name, user_id, kept),
        "views": _views(user_id),
    }
    if not kept:
        rows["history"] = _history(where, app_name, user_id)
        owners = SearchOwner.objects.filter(source__where=where, digest=digest_of(app_name, user_id))
        while numbers := list(SearchSession.objects.filter(user_owner__in=owners).values_list("pk", flat=True)[:_SOME]):
            forget(numbers)
        with transaction.atomic():
            SearchValue.objects.filter(
                owner_id__in=[-number for number in owners.values_list("pk", flat=True)]
            ).delete()
            owners.delete()
    return rows


def _named(model: Any, where: str, app_name: str, user_id: str, kept: Collection[str]) -> int:
    """Deletes the rows of a table that name a session of the user."""
    begins = json.dumps([app_name, user_id])[:-1] + ","
    rows = in_pages(model.objects.filter(where=where, names__startswith=begins))
    # SQLite compares without regard to case.
    gone = [row.pk for row in rows if row.names.startswith(begins) and json.loads(row.names)[2] not in kept]
    for start in range(0, len(gone), _SOME):
        model.objects.filter(pk__in=gone[start : start + _SOME]).delete()
    return len(gone)


def _queued(where: str, app_name: str, user_id: str, kept: Collection[str]) -> int:
    """Deletes edits that wait or waited, and other work on a session of the user."""
    jobs = Job.objects.filter(where=where, app_name=app_name, user_id=user_id).exclude(kind__in=("erase", "export"))
    gone = [pk for pk, session in jobs.values_list("pk", "session_id") if session not in kept]
    for start in range(0, len(gone), _SOME):
        Job.objects.filter(pk__in=gone[start : start + _SOME]).delete()
    return len(gone)


def _deliveries(source: str, app_name: str, user_id: str, kept: Collection[str]) -> int:
    """Deletes messages to webhooks that name a session of the user."""
    gone = []
    for row in in_pages(WebhookDelivery.objects.all()):
        session = json.loads(row.body)["session"] or {}  # a test is about none
        names = [session.get(name) for name in ("source", "app_name", "user_id")]
        if names == [source, app_name, user_id] and session["id"] not in kept:
            gone.append(row.pk)
    for start in range(0, len(gone), _SOME):
        WebhookDelivery.objects.filter(pk__in=gone[start : start + _SOME]).delete()
    return len(gone)


def _views(user_id: str) -> int:
    """Deletes saved views that select by exactly this user, whom a query may name by the handle."""
    gone = [row.pk for row in in_pages(SavedView.objects.all()) if names_user(row.query, user_id, handle_of(user_id))]
    SavedView.objects.filter(pk__in=gone).delete()
    return len(gone)


def names_user(query: str, *names: str) -> bool:
    """Returns whether a query has a condition on exactly this user, by one of some names: `user:ana` and
    `user:"ana"`."""
    tree = parse(query, now=time.time(), zone=get_default_timezone()).tree
    wanted = {*map(folded, names)}
    conditions = leaves(tree) if tree else ()
    return any(isinstance(each, Match) and each.name == "user" and folded(each.value) in wanted for each in conditions)


def _history(where: str, app_name: str, user_id: str) -> int:
    """Deletes where the user's keys were written, in the order in which the index is read on."""
    gone = 0
    for projection in Projection.objects.filter(where=where):
        with transaction.atomic():
            Projection.objects.select_for_update().filter(pk=projection.pk).first()
            owners = StateOwner.objects.filter(
                projection=projection, app_name=stored_key(app_name), user_id=stored_key(user_id)
            )
            numbers = list(owners.values_list("pk", flat=True))
            for start in range(0, len(numbers), _SOME):
                some = numbers[start : start + _SOME]
                gone += StateChange.objects.filter(owner_id__in=some).delete()[0]
            owners.delete()
    return gone
