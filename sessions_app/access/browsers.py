"""Lists the browsers that a person is signed in with, and signs them out.

for each in browsers.listed(person.pk, request.session.session_key): ...
browsers.end(person.pk, each.digest)
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from django.contrib.auth import SESSION_KEY
from django.contrib.sessions.models import Session as SignIn
from django.http import HttpRequest
from django.utils import timezone

from .sign_ins import BEGAN, USED, digest, has_ended

_LONGEST: Final = 400  # characters of what a browser says of itself


@dataclass(frozen=True, slots=True)
class Browser:
    """A sign-in. `digest` stands for its key, which nobody can get from it; `agent` is what the browser says of itself."""

    digest: str
    agent: str
    address: str
    began: datetime
    used: datetime
    ends: datetime
    current: bool


def note(request: HttpRequest) -> None:
    """Notes in a new sign-in which browser it is and where it came from."""
    request.session["agent"] = request.headers.get("User-Agent", "")[:_LONGEST]
    request.session["address"] = request.META.get("REMOTE_ADDR", "")


def listed(person_id: int, current_key: str | None = None) -> list[Browser]:
    """Returns a person's sign-ins that have not ended: the one with this key first, then by their last use."""
    current = digest(current_key) if current_key else ""
    rows = [_browser(row, data, current) for row, data in _rows(person_id)]
    return sorted(rows, key=lambda each: (each.current, each.used), reverse=True)


def end(person_id: int, which: str) -> bool:
    """Signs one of a person's browsers out. Returns False if it was signed out already, or is not theirs."""
    rows = [row.pk for row, _data in _rows(person_id) if row.pk == which]
    return bool(SignIn.objects.filter(pk__in=rows).delete()[0])


def end_all(person_id: int) -> int:
    """Signs a person out in every browser. Returns how many there were."""
    return SignIn.objects.filter(pk__in=[row.pk for row, _data in _rows(person_id)]).delete()[0]


def _rows(person_id: int) -> list[tuple[SignIn, dict[str, Any]]]:
    rows = [(row, row.get_decoded()) for row in SignIn.objects.filter(expire_date__gt=timezone.now())]
    return [(row, data) for row, data in rows if data.get(SESSION_KEY) == str(person_id) and not has_ended(data)]


def _browser(row: SignIn, data: dict[str, Any], current: str) -> Browser:
    began = data.get(BEGAN, 0.0)
    used = datetime.fromtimestamp(data.get(USED, began), UTC)
    agent, address = str(data.get("agent", "")), str(data.get("address", ""))
    return Browser(row.pk, agent, address, datetime.fromtimestamp(began, UTC), used, row.expire_date, row.pk == current)
