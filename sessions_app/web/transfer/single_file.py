"""Renders a session as one page that asks nobody for anything: its chat, its events, and the state at each of them.

The page holds its export (transfer/formats/html.py), from which adkweb imports the session again. Without scripts, it shows
chat, events and the last state. `static/js/single_file.js` goes through the events.
"""

import hashlib
import re
import secrets
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

from django.contrib.staticfiles import finders
from django.template.loader import render_to_string
from django.utils import translation
from django.utils.safestring import mark_safe

from ...access.actor import Actor
from ...domain.clock import Took
from ...domain.description import Description, Part
from ...domain.invocations import begins_turn
from ...domain.json_values import as_object, dumps
from ...domain.kinds import HIGHLIGHTS, describe
from ...domain.positions import Seq
from ...domain.state import ABSENT, PREFIXES, STORED, UNKNOWN, Change, State, scope_of, shown_order
from ...domain.units import event_in_seconds
from ...http.reader import read_by
from ...reads.event_views import EventView, timed
from ...reads.large_events import beginning_in
from ...reads.size_limits import LARGE, large, weight
from ...transfer.formats import html
from ...transfer.items import EventItem, canonical, parse
from ...transfer.single_file import WholeSession
from ..html.markdown import Texts
from ..session.chat import PLAIN, Message, messages
from ..templatetags.tags import register

BARS: Final = 300


@dataclass(slots=True)
class Turn:
    """A user message and what it caused. `number` is 0 for what comes before the first one."""

    number: int
    events: list[EventView] = field(default_factory=list)

    @property
    def begun(self) -> float:
        """Returns when it began."""
        return self.events[0].timestamp

    @property
    def took(self) -> Took:
        """Returns how long it took."""
        timed(self.events)
        return self.events[0].ended.until(max(each.ended for each in self.events))

    @property
    def tokens(self) -> int:
        """Returns the tokens of its model calls."""
        return sum(each.description.tokens or 0 for each in self.events)

    @property
    def errors(self) -> int:
        """Returns how many of its events failed."""
        return sum(each.description.failed for each in self.events)

    @property
    def keys(self) -> int:
        """Returns how many keys it wrote."""
        return len({key for each in self.events for key in each.description.delta})


@dataclass(frozen=True, slots=True)
class Bar:
    """Some events that follow each other: their numbers, how many values they wrote, and the most telling kind."""

    first: int
    last: int
    writes: int
    kind: str


@dataclass(frozen=True, slots=True)
class Numbers:
    """The figures of a whole session."""

    events: int
    turns: int
    tokens: int
    errors: int
    begun: float | None
    ended: float | None


def turns_of(whole: WholeSession) -> Iterator[Turn]:
    """Yields the turns of a session. Events are read when it is their turn."""
    turn = Turn(0)
    for event in _views(whole):
        if begins_turn(event.description):
            if turn.events:
                yield turn
            turn = Turn(turn.number + 1)
        turn.events.append(event)
    if turn.events:
        yield turn


def numbers_of(whole: WholeSession) -> Numbers:
    """Returns how many events, turns and tokens a session has, how many events failed, and from when to when it goes."""
    turns = tokens = errors = 0
    for _event, description in _described(whole):
        turns += begins_turn(description)
        tokens += description.tokens or 0
        errors += description.failed
    times = [event.timestamp for event in whole.events]
    return Numbers(len(times), turns, tokens, errors, times[0] if times else None, times[-1] if times else None)


def bars_of(whole: WholeSession) -> list[Bar]:
    """Returns the session's events in at most BARS bars."""
    kinds = [(_kind_of(description), len(description.delta)) for _event, description in _described(whole)]
    number = min(BARS, len(kinds))
    bars = []
    for bar in range(number):
        first, end = len(kinds) * bar // number, len(kinds) * (bar + 1) // number
        some = kinds[first:end]
        kind = max((kind for kind, _writes in some), key=lambda kind: HIGHLIGHTS.index(kind) if kind else -1)
        bars.append(Bar(first + 1, end, sum(writes for _kind, writes in some), kind))
    return bars


def _kind_of(description: Description) -> str:
    """Returns the most telling kind of an event that the strip has a colour for; empty for none."""
    kinds = [kind for kind in HIGHLIGHTS if kind in description.kinds]
    return "error" if description.failed else kinds[-1] if kinds else ""


def _described(whole: WholeSession) -> Iterator[tuple[EventItem, Description]]:
    for item in whole.events:
        yield item, describe(_data(item))


def _views(whole: WholeSession) -> Iterator[EventView]:
    """Yields the events with what they changed. Their number stands where a source has its own (`seq`)."""
    state: State = dict(whole.past.start) if whole.past else {}
    for index, item in enumerate(whole.events):
        data = _data(item)
        description = describe(data)
        view = EventView(whole.ref, item.id, Seq(index + 1), item.invocation_id, item.timestamp, data, description)
        view.size = large(item.text)
        view.unread = _has_many_items(item.text)
        after = whole.past.changes[index] if whole.past else {}
        view.changes = list(_changes(description, state, after, known=whole.past is not None))
        state |= after
        yield view


def _changes(description: Description, before: State, after: State, *, known: bool) -> Iterator[Change]:
    for key, value in description.delta.items():
        stored = known and scope_of(key)[0] in STORED
        new = ABSENT if key in description.removed else value
        yield Change(key, before.get(key, ABSENT) if stored else UNKNOWN, after.get(key, new) if stored else new)


def _has_many_items(text: str) -> bool:
    """Tells whether an event would take much more memory than its text."""
    return weight(text) - len(text) > LARGE


def _data(item: EventItem) -> dict[str, Any]:
    """Returns an event with the values of its row, as `view_of` of reads/event_views.py does."""
    if _has_many_items(item.text):
        stored = {"timestamp": item.timestamp}
    else:
        stored = as_object(parse(item.text))
        stored = beginning_in(stored) if large(item.text) else stored
    return {**event_in_seconds(stored), "id": item.id, "invocation_id": item.invocation_id}


VALUE: Final = 20_000  # characters of a value that are kept
PITCH: Final = 6  # from bar to bar, in the picture's own units
WIDEST: Final = 18  # pixels of a bar in a short session
_FORMATTED: Final = 500_000  # characters of all texts that are rendered as markdown
_IMAGE: Final = 200_000  # characters of an image that is shown
_STYLES: Final = (
    "tokens",
    "base",
    "html/shared",
    "html/values",
    "html/markdown",
    "session/chat",
    "transfer/single_file",
)
_SCRIPTS: Final = ("numbers", "dates", "time", "single_file")
_FONT: Final = re.compile(r"@font-face \{.*?\n\}", re.S)
_COMMENT: Final = re.compile(r"/\*.*?\*/", re.S)
_RASTER: Final = {"image/png": b"\x89PNG", "image/jpeg": b"\xff\xd8\xff", "image/gif": b"GIF8", "image/webp": b"RIFF"}


def page(whole: WholeSession) -> Iterator[bytes]:
    """Returns the page piece by piece, in the language of the moment."""
    return _pieces(whole, _rendering(translation.get_language() or "en", whole.actor))


Render = Callable[[str, dict[str, Any]], bytes]


def _rendering(language: str, actor: Actor) -> Render:
    """Returns what renders a template for an actor. Pieces are made when the request, with its language, is over."""

    def render(template: str, context: dict[str, Any]) -> bytes:
        with translation.override(language), read_by(actor):
            return render_to_string(f"transfer/single_file/{template}.html", context).encode("utf-8", "replace")

    return render


def _pieces(whole: WholeSession, render: Render) -> Iterator[bytes]:
    begin, middle, pane, end = _around(whole, render)
    texts = Texts(most=PLAIN, room=_FORMATTED)
    yield begin
    for turn in turns_of(whole):
        rows = [(message, *_numbers_of(message)) for message in messages(turn.events, texts)]
        yield render("_chat", {"turn": turn, "rows": rows})
    yield middle
    for turn in turns_of(whole):
        yield render("_events", {"turn": turn})
    yield pane
    yield from _states(whole)
    yield from html.element(whole.items, whole.left_out)
    yield end


def _around(whole: WholeSession, render: Render) -> list[bytes]:
    """Returns what stands around chat, events and data. Nobody can guess the word that the page is split by."""
    part, last = secrets.token_hex(16), _last_state(whole)
    bars = _drawn(bars_of(whole))
    context = {
        **_frame(),
        "part": part,
        "ref": whole.ref,
        "whole": whole,
        "version": html.VERSION,
        "numbers": numbers_of(whole),
        "bars": bars,
        "width": PITCH * len(bars),
        "widest": WIDEST * len(bars),
        "most": len(whole.events),
        "groups": [(scope, _rows(last, PREFIXES[scope], scope)) for scope in STORED],
        "known": whole.past is not None,
    }
    return render("single_file", context).split(f"{part}\n".encode())


# --- What the browser goes through ------------------------------------------------------------------------------------


def _last_state(whole: WholeSession) -> State:
    if whole.past is None or not whole.past.changes:
        return whole.state
    state = dict(whole.past.start)
    for values in whole.past.changes:
        state |= values
    return {key: value for key, value in state.items() if value is not ABSENT}


def _states(whole: WholeSession) -> Iterator[bytes]:
    """Yields the element with the state before the first event, and what each event changed: one JSON list a line.

    Values are texts, because a script would read NaN and large numbers as something else.
    """
    yield b'<script type="application/x-adkweb-states" id="adkweb-states">\n'
    if whole.past is not None and whole.past.changes:
        yield _line(whole.past.start, frozenset())
        for values, own in zip(whole.past.changes, whole.past.own, strict=True):
            yield _line(values, own)
    yield b"</script>\n"


def _line(values: State, own: frozenset[str]) -> bytes:
    """Returns the line of some values: [[key, text, 1 if the event itself wrote it], …].

    The text of a removed key is null, and that of a value that nobody knows is 0.
    """
    rows = [[key, _text(values[key]), int(key in own)] for key in sorted(values)]
    return html.inert(canonical(rows).encode()) + b"\n"


def _text(value: Any) -> str | int | None:
    if value is ABSENT:
        return None
    if value is UNKNOWN:
        return 0
    text = dumps(value)
    return text if len(text) <= VALUE else text[:VALUE] + "…"


# --- What the templates show ------------------------------------------------------------------------------------------


def _rows(state: State, prefix: str, scope: str) -> list[tuple[str, Any]]:
    """Returns the keys of a scope with the texts of their values; None for a value that nobody knows."""
    keys = sorted((key for key in state if key.startswith(prefix) and scope_of(key)[0] == scope), key=shown_order)
    return [(key, None if state[key] is UNKNOWN else _text(state[key])) for key in keys]


def _numbers_of(message: Message) -> tuple[int, int]:
    """Returns the numbers of the events with which a message began and ended."""
    begun = message.event.seq or 0
    ended = message.last.seq if message.last else begun
    return begun, max(begun, ended or 0)


def _drawn(bars: list[Bar]) -> list[tuple[Bar, int, str, str]]:
    """Returns bars with where they stand and how high they are, as texts, so that no language writes a comma in them."""
    most = max((bar.writes for bar in bars), default=0) or 1
    drawn = []
    for number, bar in enumerate(bars):
        level = 1.0 if bar.kind == "error" else 0.85 if bar.kind in ("edit", "rewind") else 0.7 * bar.writes / most
        height = 8 + 28 * level
        drawn.append((bar, number * PITCH, f"{36 - height:.1f}", f"{height:.1f}"))
    return drawn


@register.simple_tag
def data_image(part: Part) -> str:
    """Returns a small raster image as an address that holds it; empty for anything else."""
    kind, data = str(part.value.get("mime_type") or ""), part.value.get("data")
    if kind not in _RASTER or not isinstance(data, str) or len(data) > _IMAGE:
        return ""
    try:
        content = b64decode(data.translate(str.maketrans("-_", "+/")) + "=" * (-len(data) % 4), validate=True)
    except ValueError:
        return ""
    return f"data:{kind};base64,{b64encode(content).decode()}" if content.startswith(_RASTER[kind]) else ""


# --- Its style and its script -----------------------------------------------------------------------------------------


def _frame() -> dict[str, Any]:
    style, script = _style(), _script()
    return {
        "script": mark_safe(script),  # noqa: S308 - from static/js
        "style": mark_safe(style),  # noqa: S308 - from static/css
        "policy": f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'",
    }


@cache
def _style() -> str:
    together = "\n".join(_static(f"css/{name}.css") for name in _STYLES)
    lines = (line.strip() for line in _COMMENT.sub("", _FONT.sub("", together)).splitlines())
    return "\n".join(line for line in lines if line)


@cache
def _script() -> str:
    return "\n".join(_static(f"js/{name}.js") for name in _SCRIPTS)


def _static(name: str) -> str:
    path = finders.find(name)
    assert isinstance(path, str)  # noqa: S101  it is adkweb's own
    return Path(path).read_text("utf-8")


def _digest(text: str) -> str:
    return "sha256-" + b64encode(hashlib.sha256(text.encode()).digest()).decode()
