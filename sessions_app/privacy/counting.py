"""Counts events by the index that every source has, which no other user's events slow down."""

from ..models import Event
from ..sources import database


def count_events(source: str, app_name: str, user_id: str, session_id: str | None = None) -> int:
    """Returns how many events a user has, or one of their sessions. Raises SourceError."""
    names = {"app_name": app_name, "user_id": user_id}
    if session_id is not None:
        names["session_id"] = session_id
    with database.using(source):
        return Event.objects.using(source).filter(**names).count()
