"""The history of a key: every value that it had, with who wrote it, where, when and why."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import dropwhile
from operator import itemgetter
from typing import Any, Final

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET

from ...access.actor import Actor
from ...domain.errors import Behind, Invalid
from ...domain.positions import Seq
from ...domain.session_ref import SessionRef
from ...domain.state import ABSENT, STORED, scope_of
from ...history import key_history, moments
from ...history.key_history import KeyWrite
from ...reads import views
from ...search import outline
from ..html import difference
from ..html.render import page
from ..html.state_panel import Target, of_app, of_session, of_user
from ..request import actor

KEYS: Final = 500  # that are offered for choosing
_WIDTH: Final = 600  # of the line, in its own units
_HEIGHT: Final = 48


@dataclass(frozen=True, slots=True)
class Row:
    """A write, with its difference. `elsewhere` tells whether another session wrote it."""

    write: KeyWrite
    shown: SafeString
    elsewhere: bool


@dataclass(frozen=True, slots=True)
class Line:
    """The values of a number as a line: the points of each stretch without a gap, and the extremes."""

    stretches: list[str]
    lowest: Any
    highest: Any
    first: Any
    last: Any
    width: int = _WIDTH
    height: int = _HEIGHT


@require_GET
def session(request: HttpRequest, **names: str) -> HttpResponse:
    """Shows the history of a key of any scope, as a session sees it."""
    return _history(request, of_session(views.session(SessionRef(**names), actor=actor(request))))


@require_GET
def app(request: HttpRequest, source: str, app_name: str) -> HttpResponse:
    """Shows the history of an `app:` key."""
    return _history(request, of_app(source, app_name, actor(request)))


@require_GET
def user(request: HttpRequest, source: str, app_name: str, user_id: str) -> HttpResponse:
    """Shows the history of a `user:` key."""
    return _history(request, of_user(source, app_name, user_id, actor(request)))


def line(values: Iterable[Any]) -> Line | None:
    """Draws the line of a number's values, the oldest first. None for fewer than two numbers."""
    heights = list(dropwhile(lambda each: each[0] is None, ((finite(value), value) for value in values)))
    known = [(height, value) for height, value in heights if height is not None]
    if len(known) < 2:
        return None
    (low, lowest), (high, highest) = (pick(known, key=itemgetter(0)) for pick in (min, max))
    span = high / 2 - low / 2  # halved first, so that no difference overflows
    stretches: list[list[str]] = [[]]
    for number, (height, _value) in enumerate(heights):
        if height is None:
            stretches.append([])
            continue
        share = (height / 2 - low / 2) / span if span else 0.5
        stretches[-1].append(f"{number * _WIDTH / (len(heights) - 1):.1f},{_HEIGHT * (1 - share):.1f}")
    drawn = [
        " ".join(points if len(points) > 1 else points * 2) for points in stretches if points
    ]  # a single point is not a line
    return Line(drawn, lowest, highest, known[0][1], known[-1][1])


def _history(request: HttpRequest, target: Target) -> HttpResponse:
    address = reverse(f"{target.kind}-history", kwargs=_names(target))
    name, before = request.GET.get("key", ""), request.GET.get("before")
    context: dict[str, Any] = {"target": target, "ref": target.ref, "address": address, "name": name}
    context |= {"keys": list(target.state)[:KEYS], "asked": "key" in request.GET}
    if not context["asked"]:
        context["gone"] = _gone(target, actor(request))
        return page(request, "history/history/history.html", context)
    scope = scope_of(name)[0]
    if target.kind not in ("session", scope):
        raise Invalid(_("%(key)s: here, a key begins with %(scope)s:") % {"key": name, "scope": target.kind})
    writes = key_history.history(target.ref, name, before, actor=actor(request))
    shown, now = difference.Differences(), target.state.get(name, ABSENT)
    context |= {
        "scope": scope,
        "now": now,
        "value": difference.value(now),
        "rows": [_row(write, target, shown) for write in writes.rows],
        "older": writes.next,
        "numbers": _numbers(target, writes.rows, actor(request)),
        "line": line(reversed(_values(writes.rows))),
    }
    more = before and request.htmx  # type: ignore[attr-defined]
    return page(request, "history/history/_rows.html" if more else "history/history/history.html", context)


def _gone(target: Target, who: Actor) -> list[str]:
    """Returns the keys that were removed, as far as the index knows now."""
    try:
        return moments.gone(target.ref, target.state, STORED if target.kind == "session" else [target.kind], actor=who)[
            :KEYS
        ]
    except (Behind, Invalid):
        return []


def _names(target: Target) -> dict[str, str]:
    names = target.ref._asdict()
    return dict(list(names.items())[: {"app": 2, "user": 3}.get(target.kind, 4)])


def _row(write: KeyWrite, target: Target, shown: difference.Differences) -> Row:
    return Row(
        write, shown.html(write.change.old, write.change.new), target.kind != "session" or write.ref != target.ref
    )


def _numbers(target: Target, writes: Sequence[KeyWrite], who: Actor) -> dict[Seq, int]:
    """Returns the numbers of the events of the session whose history is shown, by seq."""
    seqs = [write.seq for write in writes if write.event_id and write.ref == target.ref]
    return outline.numbers_of(target.ref, seqs, actor=who)


def _values(rows: Sequence[KeyWrite]) -> list[Any]:
    """Returns the values, the newest first, and the one before all of them."""
    return [row.change.new for row in rows] + ([rows[-1].change.old] if rows else [])


def finite(value: Any) -> float | None:
    """Returns a number as a float; None for infinity and for what is no number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:
        return None
