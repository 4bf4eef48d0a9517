"""Chooses the session that a run is compared with: from a list of its app's sessions, or by a link or an id."""

import time
from typing import Any, Final

from django.http import Http404, HttpRequest
from django.urls import reverse
from django.utils.translation import gettext as _

from ...access.actor import Actor
from ...domain.errors import Invalid, NotFound, Slow
from ...domain.json_values import check_name
from ...domain.session_ref import SessionRef
from ...http.reader import user_for_reader, zone_of
from ...reads import views
from ...search.language import parse, with_filter
from ...search.results import search
from ...search.selecting import HASTY, patience
from ..links import page_of
from ..request import actor

NOW: Final = "now"
_NAME_LENGTH: Final = 128  # of an id in ADK's tables
_SHOWN: Final = 30
_EXAMPLE: Final = "user:ana status:failed"  # of the language of search


def other(ref: SessionRef, asked: str, who: Actor) -> tuple[SessionRef, str]:
    """Returns the session that `asked` names by its link or its id, and the link's event, or `now`."""
    try:
        names = page_of(asked, who).kwargs
        return SessionRef(*(names[field] for field in SessionRef._fields)), names.get("event_id", NOW)
    except (Http404, KeyError, ValueError) as error:
        if is_link(asked):
            raise Invalid(_("This isn't a session link. Session links start with /s/.")) from error
    try:
        check_name(asked, _("A session id"), _NAME_LENGTH)
        return views.session(ref._replace(session_id=asked), partly=True, actor=who).ref, NOW
    except (NotFound, Invalid) as error:
        raise Invalid(
            _("%(user)s has no session “%(id)s” in this app. Enter a session id or link.")
            % {"user": user_for_reader(*ref[:3]), "id": asked}
        ) from error


def is_link(text: str) -> bool:
    """Tells whether a text is meant as a link."""
    return text.startswith("/") or "://" in text


def choices(request: HttpRequest, ref: SessionRef) -> dict[str, Any]:
    """Returns the sessions of the same app that ?find= selects, those that were active last first."""
    text, now, zone = request.GET.get("find", "").strip(), time.time(), zone_of(request)
    here = reverse("compare", kwargs=ref._asdict())
    query = with_filter(with_filter(text, "source", ref.source, exact=True), "app", ref.app_name, exact=True)
    typed = parse(text, now=now, zone=zone)
    context: dict[str, Any] = {
        "find": text,
        "example": _EXAMPLE,
        "here": here,
        "wrong": [(text[each.start : each.end], each.message) for each in typed.problems],
    }
    try:
        with patience(HASTY):
            rows = search(parse(query, now=now, zone=zone), actor=actor(request), limit=_SHOWN + 1)
    except Slow as error:
        return context | {"slow": error.message}
    return context | {"rows": [row for row in rows.rows if row.ref != ref][:_SHOWN], "behind": rows.behind}
