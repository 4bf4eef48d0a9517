"""The context processor of every page."""

from collections.abc import Callable
from functools import cache
from typing import Any
from uuid import UUID

from django.contrib.messages import get_messages
from django.contrib.messages.storage.base import Message
from django.http import HttpRequest

from ..access.actor import Actor
from ..access.roles import actor_of
from ..batches import held
from ..domain.roles import Permission
from ..edits import proposals, queue
from ..edits.queue import Queued
from ..search import inbox
from ..search.saved.views import ViewWatch
from ..sources import adopt_job, database
from . import settings
from . import sources as demo


def page(request: HttpRequest) -> dict[str, Any]:
    """Returns the CSP nonce, whether nothing is edited from the page (`read_only`), or nothing is sent to agents, either
    (`only_reads`), and its source if that is not adopted.

    The messages (`toasts`) and the outcomes of queued edits are read only if a template shows them."""
    match = request.resolver_match
    names = match.kwargs if match else {}
    who = _actor(request)
    source, app_name = names.get("source", ""), names.get("app_name", "")
    about = source if match and match.url_name != "adoption" and who and who.may_see(source, app_name) else ""
    unadopted = _unadopted(about, who)
    outcomes = cache(lambda: _outcomes(request))
    return {
        "csp_nonce": str(getattr(request, "csp_nonce", "")),
        "read_only": bool(unadopted) or not _may(who, "append", source, app_name),
        "only_reads": bool(unadopted) or not _may(who, "operate", source, app_name),
        "is_admin": not unadopted and _may(who, "admin", source, app_name),
        "who": who,
        "unadopted": unadopted,
        "newer": database.newer(about) if database.is_open(about) else "",
        "newer_source": about,
        "agreed": not database.is_open(about) or database.is_agreed(about),
        "demo": cache(lambda: demo.of(request)),
        "outcomes": outcomes,
        "inbox_count": cache(lambda: inbox.count(actor=who) if who else 0),
        "proposals_waiting": cache(lambda: proposals.count(actor=who) + held.count(actor=who) if who else 0),
        "watched": cache(lambda: _watched(request)),
        "settings_entries": lambda: settings.entries(who) if who else [],
        "keeps_people": bool(getattr(getattr(request, "user", None), "is_superuser", False)),
        "unserved": database.unserved(actor=who) if who and not (match and match.url_name == "home") else [],
        "toasts": lambda: _toasts(request, outcomes),
    }


def _actor(request: HttpRequest) -> Actor | None:
    person = getattr(request, "user", None)
    return actor_of(person) if person is not None and person.is_authenticated else None


def _may(who: Actor | None, permission: Permission, source: str, app_name: str) -> bool:
    """Tells whether buttons are shown that need a permission: in the app that the page is about, or in any app."""
    if who is None or database.is_read_only(source) or (database.is_open(source) and database.why_shown(source)):
        return False
    # An app that they may not see looks like one that is not there.
    return who.may(permission, source, app_name) if who.may_see(source, app_name) else who.has(permission)


def _unadopted(source: str, who: Actor | None) -> dict[str, Any] | None:
    """Describes a source that is open but not adopted, so that its events have no numbers. None for any other source."""
    if not database.is_open(source) or database.is_numbered(source):
        return None
    return {
        "source": source,
        "adoption": adopt_job.of(source),
        "read_only": who is None or not who.runs_everything or database.is_read_only(source),
        "ordered": database.has_order(source),
    }


def about(queued_id: UUID) -> str:
    """Returns a message tag for a queued edit. By it, the edit's outcome replaces the message."""
    return f"queued-{queued_id}"


def _toasts(request: HttpRequest, outcomes: Callable[[], list[Queued]]) -> list[Message]:
    """Returns the messages, except those about a queued edit whose outcome is shown."""
    shown = list(get_messages(request))
    finished = {about(edit.id) for edit in outcomes()} if any(each.extra_tags for each in shown) else set()
    return [each for each in shown if each.extra_tags not in finished]


def _watched(request: HttpRequest) -> list[ViewWatch]:
    person = getattr(request, "user", None)
    return ViewWatch.objects.listed(person) if person is not None and person.is_authenticated else []


def _outcomes(request: HttpRequest) -> list[Queued]:
    person = getattr(request, "user", None)
    return queue.outcomes(person) if person is not None and person.is_authenticated else []
