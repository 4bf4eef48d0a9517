"""Reads the sessions of an app to which nobody has written for a time, the longest first, page by page."""

from collections.abc import Iterator
from typing import Final

from django.db.models import Q

from ..domain.session_ref import OWN_NAME, SessionRef
from ..models import Session
from ..sources import database

DAY: Final = 86400.0
PAGE: Final = 200


def idle_sessions(source: str, app_name: str, before: float) -> Iterator[tuple[SessionRef, float]]:
    """Yields sessions whose last write was before a time, each with its revision. Raises SourceError.

    Those in which adkweb keeps edits of shared state are left out. An index of adkweb's has this order, so that a page costs
    what it has, however many sessions there are."""
    last: tuple[float, str, str] | None = None
    while True:
        with database.using(source):
            rows = Session.objects.using(source).filter(app_name=app_name, update_time__lt=before)
            if last:
                moment, user, name = last
                same = Q(update_time=moment)
                rows = rows.filter(
                    Q(update_time__gt=moment) | same & Q(user_id__gt=user) | same & Q(user_id=user, id__gt=name),
                    update_time__gte=moment,
                )
            ordered = rows.order_by("update_time", "user_id", "id").values_list("update_time", "user_id", "id")
            page = list(ordered[:PAGE])
        for moment, user, name in page:
            if name != OWN_NAME:
                yield SessionRef(source, app_name, user, name), moment
        if len(page) < PAGE:
            return
        last = page[-1]
