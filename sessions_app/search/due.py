"""Notes which sessions the index has read again, for whoever checks them against rules. Where there are no rules, none."""

from collections.abc import Iterable

from ..domain.session_ref import SessionRef, digest_of
from ..models import DueSession, Rule


def note(where: str, refs: Iterable[SessionRef]) -> None:
    """Notes those sessions of a source whose app has rules."""
    apps = {*Rule.objects.filter(where=where).values_list("digest", flat=True).distinct()}
    due = [DueSession(where=where, digest=digest_of(*ref[1:])) for ref in refs if digest_of(ref.app_name, "") in apps]
    DueSession.objects.bulk_create(due)
