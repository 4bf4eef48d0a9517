"""Forgets sessions: deletes all that the index keeps of them. Each app counts its sessions."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from django.db import transaction
from django.db.models import F

from ..models import (
    DriftedSession,
    SearchDoc,
    SearchFact,
    SearchKey,
    SearchName,
    SearchOwner,
    SearchSession,
    SearchSource,
    SearchSpan,
    SearchValue,
)
from .learning import forget_users
from .word_tables import PIECES, delete_pieces, delete_rows


def forget(numbers: Sequence[int]) -> None:
    """Forgets sessions, by the numbers of their rows. Their words stay on SQLite, where nothing leads to them any more."""
    if not numbers:
        return
    with transaction.atomic():
        SearchFact.objects.filter(session_id__in=numbers).delete()
        SearchValue.objects.filter(owner_id__in=numbers).delete()
        for number in numbers:
            SearchDoc.objects.filter(id__gte=number << PIECES, id__lt=(number + 1) << PIECES).delete()
        delete_rows("title", numbers)
        SearchSpan.objects.filter(session_id__in=numbers).delete()
        DriftedSession.objects.filter(session_id__in=numbers).delete()
        sessions = SearchSession.objects.filter(pk__in=numbers)
        owners = {*sessions.values_list("app_owner", "user_owner")}
        gone = Counter(sessions.filter(listed=True).values_list("app_owner", flat=True))
        add_listed({app: -count for app, count in gone.items()})
        sessions.delete()
        delete_pieces(numbers)
        _forget_learnt(owners)


def _forget_learnt(owners: Collection[tuple[int, int]]) -> None:
    """Forgets the schemas of apps that have no session left; and of others the strings that only users wrote who have none.

    `owners` are the numbers of apps and their users."""
    there = SearchSession.objects.filter(user_owner__in={user for _app, user in owners})
    users = {user for _app, user in owners} - {*there.values_list("user_owner", flat=True).distinct()}
    for number in {app for app, user in owners if user in users}:
        if SearchSession.objects.filter(app_owner=number).exists():
            forget_users(number, users)
        else:
            SearchKey.objects.filter(app_owner_id=number).delete()


def forget_keys(source: SearchSource) -> None:
    """Forgets what was learnt of the keys of a source."""
    apps = SearchOwner.objects.filter(source=source, user_id="").values("pk")
    SearchKey.objects.filter(app_owner_id__in=apps).delete()


def forget_owners(source: SearchSource) -> None:
    """Forgets the apps and users of a source that has no session left, with their state."""
    owners = SearchOwner.objects.filter(source=source)
    SearchValue.objects.filter(owner_id__in=owners.values(number=-F("pk"))).delete()
    apps = set(owners.values_list("app_name", flat=True))
    owners.delete()
    forget_names(apps)


def forget_names(apps: Collection[str]) -> None:
    """Forgets the names that were seen in apps that no source has any more. Those of other apps, a process may remember."""
    gone = set(apps) - set(SearchOwner.objects.filter(app_name__in=apps).values_list("app_name", flat=True))
    SearchName.objects.filter(app_name__in=gone).delete()


def add_listed(more: Mapping[int, int]) -> None:
    """Counts more sessions of apps, or fewer of them, by the apps' numbers. A page cannot count them all."""
    for app, count in more.items():
        if count:
            SearchOwner.objects.filter(pk=app).update(sessions=F("sessions") + count)
