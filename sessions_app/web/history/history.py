"""The history of a key: every value that it had, with who wrote it, where, when and why."""

import math
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import accumulate, dropwhile, pairwise
from operator import itemgetter
from typing import Any, Final

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET

from ...access.actor import Actor
from ...domain.errors import Behind, Invalid, NotFound
from ...domain.positions import Seq
from ...domain.session_ref import OWN_NAME, SessionRef
from ...domain.shorten import words
from ...domain.state import ABSENT, STORED, UNKNOWN, scope_of
from ...history import key_history, moments
from ...history.key_history import KeyWrite
from ...reads import lists, timeline, views
from ...search import outline
from ..html import difference
from ..html.render import page
from ..html.state_panel import Target, of_app, of_session, of_user
from ..request import actor
from ..templatetags.links import session_name
from ..templatetags.links import user as user_of
from .strip_axis import Fold, Label, axis_of_times, label, share

KEYS: Final = 500  # that are offered for choosing
_TOLD: Final = 12  # sessions of a page whose turns and tools are named
_WIDTH: Final = 600  # of the line, in its own units
_HEIGHT: Final = 48
_HOUR: Final = 3_600.0
_WORD: Final = 40  # characters of a value that is drawn as a word
_WORDS: Final = 8  # that a key has, each with a colour
_LEAST: Final = 12.0  # of 100, for a word that stood for a moment only
_ALL_LEAST: Final = 60.0  # of 100, which that takes for all at most
_LATE: Final = 80  # of 100: a value that begins behind this is told from the right


@dataclass(frozen=True, slots=True)
class Row:
    """A write, with its difference. `elsewhere` tells whether another session wrote it, `where` what the session is called,
    with its user if the key is an app's; `turn` is 0, and `tools` are none, if nobody knows."""

    write: KeyWrite
    shown: SafeString
    elsewhere: bool
    where: str
    turn: int = 0
    tools: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class LineStep:
    """A value for as long as it stood: from where to where, and where it is told, from the right if it `is_late`."""

    x: str
    width: str
    at: str
    is_late: bool
    value: Any
    seconds: float
    is_folded: bool
    colour: int = 0


@dataclass(frozen=True, slots=True)
class _OverTime:
    """The values of a key over time, as steps, until now."""

    steps: list[LineStep]
    folds: list[Label]
    began: float
    is_short: bool  # so that it needs seconds to say when it began


@dataclass(frozen=True, slots=True)
class Line(_OverTime):
    """The values of a number over time: also the points of each stretch without a gap, and the extremes."""

    stretches: list[str]
    lowest: Any
    highest: Any
    first: Any
    last: Any
    width: int = _WIDTH
    height: int = _HEIGHT


@dataclass(frozen=True, slots=True)
class Lane(_OverTime):
    """The values over time of a key that has a few words: a step for each but for when the key was not there. Equal values
    have one colour."""


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


def line(written: Iterable[tuple[float, Any]], now: float) -> Line | None:
    """Draws the values of a number over time, each with the time at which it was written, the oldest first. None for fewer
    than two numbers."""
    values = [(at, value, finite(value)) for at, value in written]
    values = list(dropwhile(lambda each: each[2] is None, values))
    known = [(height, value) for _at, value, height in values if height is not None]
    if len(known) < 2:
        return None
    (low, lowest), (high, highest) = (pick(known, key=itemgetter(0)) for pick in (min, max))
    span = high / 2 - low / 2  # halved first, so that no difference overflows
    edges, folds = axis_of_times([at for at, _value, _height in values], now)
    stretches: list[list[str]] = [[]]
    for (_at, _value, height), (left, right) in zip(values, pairwise(edges), strict=True):
        if height is None:
            stretches.append([])
            continue
        y = f"{_HEIGHT * (1 - ((height / 2 - low / 2) / span if span else 0.5)):.1f}"
        stretches[-1] += [f"{left * _WIDTH / 100:.1f},{y}", f"{right * _WIDTH / 100:.1f},{y}"]
    return Line(
        *_over_time(edges, folds, [(at, value) for at, value, _height in values], now),
        [" ".join(points) for points in stretches if points],
        *(lowest, highest, known[0][1], known[-1][1]),
    )


def lane(written: Iterable[tuple[float, Any]], now: float) -> Lane | None:
    """Draws the values over time of a key that has a few words, each with the time at which it was written, the oldest
    first: "choose", "pay", "done", or yes and no. None for other values, and for fewer than two."""
    values = list(dropwhile(lambda each: _is_gone(each[1]), written))
    known = [value for _at, value in values if not _is_gone(value)]
    if not all(map(_is_word, known)) or not 2 <= len(known := list(dict.fromkeys(known))) <= _WORDS:
        return None
    return Lane(*_over_time(*_roomy(*axis_of_times([at for at, _value in values], now)), values, now, known))


def _roomy(edges: Sequence[float], folds: Sequence[Fold]) -> tuple[list[float], list[Fold]]:
    """Returns an axis on which each step has room for its word. If all have it, nothing changes."""
    widths = [right - left for left, right in pairwise(edges)]
    least = min(_LEAST, _ALL_LEAST / len(widths))
    spare = [max(0.0, width - least) for width in widths]
    scale = (100 - least * len(widths)) / sum(spare)
    wider = list(accumulate((least + each * scale for each in spare), initial=0.0))

    def moved(fold: Fold) -> Fold:
        left, right = wider[fold.step - 1 : fold.step + 1]
        share_of_step = (fold.right - fold.left) / widths[fold.step - 1]
        return replace(fold, left=right - (right - left) * share_of_step, right=right)

    return wider, [moved(fold) for fold in folds]


def _over_time(
    edges: Sequence[float],
    folds: Sequence[Fold],
    values: Sequence[tuple[float, Any]],
    now: float,
    colours: Sequence[Any] | None = None,
) -> tuple[list[LineStep], list[Label], float, bool]:
    """Returns what _OverTime has. With `colours`, only the steps of values that are among them."""
    steps, times, folded = [], [*(at for at, _value in values), now], {fold.step for fold in folds}
    for number, (left, right) in enumerate(pairwise(edges)):
        value, seconds = values[number][1], times[number + 1] - times[number]
        if colours is not None and value not in colours:
            continue
        is_late = left > _LATE
        ends = share(left), share(right - left), share(right if is_late else left)
        colour = colours.index(value) if colours else 0
        steps.append(LineStep(*ends, is_late, value, seconds, number + 1 in folded, colour))
    return steps, [label(fold) for fold in folds], times[0], now - times[0] < _HOUR


def _is_gone(value: Any) -> bool:
    return value is ABSENT or value is UNKNOWN


def _is_word(value: Any) -> bool:
    return value is None or isinstance(value, bool) or (isinstance(value, str) and len(value) <= _WORD)


def _history(request: HttpRequest, target: Target) -> HttpResponse:
    address = reverse(f"{target.kind}-history", kwargs=_names(target))
    name, before = request.GET.get("key", ""), request.GET.get("before")
    context: dict[str, Any] = {"target": target, "ref": target.ref, "address": address, "name": name}
    context |= {"keys": list(target.state)[:KEYS], "of_key": "key" in request.GET}
    if not context["of_key"]:
        context["gone"] = _gone(target, actor(request))
        return page(request, "history/history/history.html", context)
    scope = scope_of(name)[0]
    if target.kind not in ("session", scope):
        raise Invalid(_("%(key)s: keys here must start with %(scope)s:") % {"key": name, "scope": target.kind})
    writes = key_history.history(target.ref, name, before, actor=actor(request))
    now = target.state.get(name, ABSENT)
    context |= {
        "scope": scope,
        "now": now,
        "value": difference.value(now),
        "rows": _rows(writes.rows, target, scope, actor(request)),
        "older": writes.next,
        "numbers": _numbers(target, writes.rows, actor(request)),
    }
    if not before:
        written = [(write.timestamp, write.change.new) for write in reversed(writes.rows)]
        context |= {"line": line(written, time.time()), "lane": lane(written, time.time())}
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


def _where(ref: SessionRef, called: str, scope: str) -> str:
    name = words(session_name(ref, called), 60)
    return f"{words(user_of(ref), 40)} / {name}" if scope == "app" and ref.session_id != OWN_NAME else name


def _rows(writes: Sequence[KeyWrite], target: Target, scope: str, who: Actor) -> list[Row]:
    """Returns the rows of some writes. Of the sessions that wrote last, says also in which turns, and by which tools."""
    shown = difference.Differences()
    by_ref: dict[SessionRef, list[Seq]] = {}
    for write in writes:
        by_ref.setdefault(write.ref, []).extend([write.seq] if write.event_id else [])
    called = lists.titles(by_ref, actor=who)
    turns: dict[tuple[SessionRef, Seq], int] = {}
    tools: dict[tuple[SessionRef, Seq], list[str]] = {}
    for ref, seqs in list(by_ref.items())[:_TOLD]:
        with suppress(NotFound):  # deleted since
            known = outline.outline(ref, (), also=seqs, actor=who).turn_numbers(seqs)
            turns |= {(ref, seq): number for seq, number in known.items()}
            tools |= {(ref, seq): names for seq, names in timeline.tools_of(ref, seqs, actor=who).items()}
    return [
        Row(
            write,
            shown.html(write.change.old, write.change.new),
            target.kind != "session" or write.ref != target.ref,
            _where(write.ref, called[write.ref], scope),
            turns.get((write.ref, write.seq), 0),
            tools.get((write.ref, write.seq), ()),
        )
        for write in writes
    ]


def _numbers(target: Target, writes: Sequence[KeyWrite], who: Actor) -> dict[Seq, int]:
    """Returns the numbers of the events of the session whose history is shown, by seq."""
    seqs = [write.seq for write in writes if write.event_id and write.ref == target.ref]
    return outline.numbers_of(target.ref, seqs, actor=who)


def finite(value: Any) -> float | None:
    """Returns a number as a float; None for infinity and for what is no number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:
        return None
