"""Template tags and filters: values, times, links. Built into every template."""

import re
import time
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Final

from django import template
from django.templatetags.static import static
from django.urls import reverse
from django.utils.html import conditional_escape, format_html, format_html_join
from django.utils.http import urlencode
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _

from .. import reads
from ..event_rows import EventView
from ..events import Part, describe
from ..keys import OWN_NAME, SessionKey, own_session
from ..reads import COUNT_LIMIT, ROW_COUNT_LIMIT
from ..state import ABSENT, UNKNOWN, scope_of
from ..units import number_of, seconds_of
from ..values import KEY_LENGTH, beginning, dumps, kind
from .json_tree import Tree, brief, name
from .targets import Row, Target, address_at

register = template.Library()

PRETTY_LENGTH: Final = 20_000  # characters of a value; templates show fewer

# The icon of each kind of event, in static/img/icons.svg.
ICONS: Final = {
    "edit": "edit",
    "rewind": "rewind",
    "compaction": "past",
    "error": "error",
    "interrupted": "error",
    "auth": "lock",
    "confirmation": "wait",
    "long_running": "wait",
    "transfer": "transfer",
    "escalation": "export",
    "call": "tool",
    "response": "return",
    "code": "code",
    "code_result": "return",
    "message": "model",
    "media": "image",
    "transcription": "message",
    "thought": "thought",
    "output": "export",
    "artifact": "file",
    "state": "state",
    "checkpoint": "check",
    "finish": "check",
    "unknown": "info",
}


# --- Values -----------------------------------------------------------------------------------------------------------


register.filter("brief", brief)
register.filter("key_name", name)


@register.filter
def words(value: Any, length: int = 240) -> str:
    """A text on one line, cut."""
    line = " ".join(plain(value)[: length * 4].split())
    return line if len(line) <= length else line[: length - 1] + "…"


@register.filter
def soft(name: str) -> SafeString:
    """A long name that may go on in the next line after a mark, `igor.kim@` and not `igor.kim@example.co`."""
    return mark_safe(re.sub(r"([-_/.,:;=@]+)(?=\w)", r"\1<wbr>", conditional_escape(name)))  # noqa: S308 - escaped


@register.filter
def pretty(value: Any) -> str:
    """A value as indented JSON text, cut."""
    return beginning(value, PRETTY_LENGTH)


@register.filter
def cut(text: Any) -> str:
    """A name for a title: all of one that adkweb would store, the beginning of one that is longer."""
    whole = str(text)
    return whole if len(whole) <= KEY_LENGTH else f"{whole[:KEY_LENGTH]}…"


@register.filter
def first(mapping: Any, number: int) -> list[tuple[str, Any]]:
    """A mapping's first keys and values."""
    return list(islice(mapping.items(), number)) if isinstance(mapping, dict) else []


@register.filter
def beyond(whole: Any, number: int) -> int:
    """How many there are beyond the first so many; 0 for none."""
    return max(0, len(whole) - number) if isinstance(whole, dict | list | tuple) else 0


@register.filter
def known(value: Any) -> bool:
    """Whether a previous value can be shown: there was one, and somebody knows it."""
    return value is not UNKNOWN and value is not ABSENT


@register.filter
def absent(value: Any) -> bool:
    """Whether there is no value."""
    return value is ABSENT


@register.filter
def scope(key: str) -> str:
    """The scope that a key's prefix names."""
    return scope_of(key)[0]


@register.filter
def type_name(value: Any) -> str:
    """A value's JSON type, for people."""
    names = {
        "object": _("object"),
        "array": _("array"),
        "string": _("string"),
        "number": _("number"),
        "boolean": _("boolean"),
        "null": _("null"),
    }
    return names[kind(value)]


@register.simple_tag
def get(mapping: dict[str, Any], key: str) -> Any:
    """A mapping's value by a key that is not an identifier."""
    return mapping.get(key)


@register.filter
def items(mapping: Any) -> Any:
    """A mapping's keys and values; `mapping.items` in a template would be the value of a key of that name."""
    return mapping.items() if isinstance(mapping, dict) else ()


# --- Events -----------------------------------------------------------------------------------------------------------


@register.filter
def result(response: Any) -> Any:
    """What a tool answered, without the wrapper that ADK puts around an answer that is no object."""
    if isinstance(response, dict) and len(response) == 1 and "result" in response:
        return response["result"]
    return response


@register.filter
def plain(value: Any) -> str:
    """A text as it is, any other value as JSON text."""
    return value if isinstance(value, str) else dumps(value)


@register.filter
def summary(compaction: Any) -> str:
    """The text that a compaction puts in the place of earlier events."""
    return describe({"content": compaction.get("compacted_content")}).text if isinstance(compaction, dict) else ""


@register.filter
def asked_about(call: Part) -> str:
    """The tool that a confirmation is asked for."""
    original = call.value.get("originalFunctionCall") if isinstance(call.value, dict) else None
    return str(original.get("name", "")) if isinstance(original, dict) else call.name


@register.filter
def heard(data: dict[str, Any]) -> Any:
    """What was heard, or else what was said."""
    found = (data.get(f"{way}_transcription") for way in ("input", "output"))
    return next((text for spoken in found if isinstance(spoken, dict) and (text := spoken.get("text"))), "")


@register.filter
def keys_of(data: dict[str, Any]) -> str:
    """An unknown event's fields."""
    found = data.keys() - {"id", "invocation_id", "timestamp", "author", "actions"}
    return ", ".join(name[:100] for name in sorted(found)[:20])


@register.simple_tag
def kv(key: str, value: Any, by: str = "", whole: str = "", *, opened: bool = False) -> SafeString:
    """A key and its value as a row, nested values as a tree; `by` stands at the end, `whole` leads to all of it."""
    return Tree(whole, opened).top(key, value, by)


@register.simple_tag
def tree(value: Any, whole: str = "") -> SafeString:
    """A value's own rows, opened: the arguments of a call, say."""
    return Tree(whole, opened=True).children(value)


# --- Numbers and times ------------------------------------------------------------------------------------------------


@register.filter
def count(number: int | None, limit: int = 0) -> str:
    """A number with thin spaces between thousands, and a plus where counting stopped at a limit."""
    if number is None:
        return ""
    text = f"{min(number, limit) if limit else number:,}".replace(",", "\u202f")
    return f"{text}+" if limit and number > limit else text


@register.filter
def counted(number: int) -> str:
    """A number that reads.py counts up to COUNT_LIMIT."""
    return count(number, COUNT_LIMIT)


@register.filter
def percent(share: float) -> int:
    """How much of a whole is done, never all of it before it is."""
    return min(99, int(share * 100))


@register.filter
def row_counted(number: int) -> str:
    """A number that reads.py counts up to ROW_COUNT_LIMIT."""
    return count(number, ROW_COUNT_LIMIT)


@register.filter
def thousands(number: int | None) -> str:
    """A number of tokens: 840, 2.1k, 96.4k, 1.2M."""
    if number is None:
        return ""
    for limit, unit in ((1_000_000, "M"), (1_000, "k")):
        if number >= limit:
            return f"{min(number, 10**15) / limit:.1f}{unit}"  # an event may hold any number
    return str(number)


@register.filter
def duration(seconds: float | None) -> str:
    """Seconds as a person reads them: 0.8 s, 12 s, 3 min, 5 h, 2 d; never less than nothing."""
    if seconds is None:
        return ""
    size = max(0.0, seconds)
    if size < 10:
        return f"{size:.1f} s"
    for limit, divisor, unit in ((60, 1, "s"), (3600, 60, "min"), (86400, 3600, "h")):
        if size < limit:
            return f"{size / divisor:.0f} {unit}"
    return f"{size / 86400:.0f} d"


@register.simple_tag
def moment(seconds: float | None) -> SafeString:
    """A time relative to now, the exact one on hover; the browser keeps it up to date and in its own time zone."""
    if seconds is None:
        return mark_safe('<span class="z">–</span>')
    return _time(seconds, "data-relative", "%Y-%m-%d %H:%M")


@register.simple_tag
def clock(seconds: float) -> SafeString:
    """A time of day, date and exact time on hover, in the browser's time zone (UTC without scripts)."""
    return _time(seconds, "data-clock", "%H:%M:%S")


register.filter("number", number_of)


@register.filter
def named(place: int | None) -> str | SafeString:
    """An event's number; where events have none, its time of day."""
    if place is None or number_of(place) is not None:
        return "" if place is None else str(place)
    return clock(seconds_of(place))


@register.filter
def hashed(place: int | None) -> str | SafeString:
    """As `named`, a number as “#5”."""
    return f"#{place}" if number_of(place) is not None else named(place)


@register.simple_tag
def exact(seconds: float) -> SafeString:
    """Date and time to the millisecond, in the browser's time zone (UTC without scripts)."""
    return _time(seconds, "data-exact", "%Y-%m-%d %H:%M:%S UTC")


@register.simple_tag
def elapsed(since: float) -> SafeString:
    """How long something has been going on; the browser counts on."""
    return format_html(
        '<time datetime="{}" data-elapsed>{}</time>',
        datetime.fromtimestamp(since, UTC).isoformat(timespec="milliseconds"),
        duration(time.time() - since),
    )


def _time(seconds: float, mark: str, form: str) -> SafeString:
    try:
        instant = datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, TypeError, ValueError, OSError):  # an event may hold anything
        return format_html('<span class="z">{}</span>', seconds)
    return format_html(
        '<time datetime="{}" title="{}" {}>{}</time>',
        instant.isoformat(timespec="milliseconds"),
        instant.strftime("%Y-%m-%d %H:%M:%S UTC"),
        mark_safe(mark),  # noqa: S308 - one of three constants
        instant.strftime(form),
    )


# --- Links ------------------------------------------------------------------------------------------------------------


@register.simple_tag
def session_url(key: SessionKey, name: str = "session") -> str:
    """A page of a session."""
    return reverse(name, kwargs=key._asdict())


@register.simple_tag
def live_url(key: SessionKey) -> str:
    """The websocket of a session."""
    return "/live/session/" + reverse("session", kwargs=key._asdict()).partition("/s/")[2]


@register.simple_tag
def event_url(view: EventView, name: str = "event") -> str:
    """A page of an event."""
    return reverse(name, kwargs={**view.key._asdict(), "event_id": view.id})


@register.simple_tag
def sibling_link(view: EventView, event_id: Any) -> SafeString:
    """A link to another event of the same session, by what an event noted as its id."""
    name = plain(event_id)[:KEY_LENGTH]
    url = reverse("event", kwargs={**view.key._asdict(), "event_id": name}) if name else ""
    return format_html('<a class="mono bidi" href="{}">{}</a>', url, name) if url else format_html("{}", name)


@register.simple_tag
def media_url(view: EventView, part: Part) -> str:
    """Where inline data can be had; empty where the event does not hold the data itself."""
    if not isinstance(part.value.get("data"), str):
        return ""
    number = view.description.number_of(part)
    return reverse("event-data", kwargs={**view.key._asdict(), "event_id": view.id, "number": number})


@register.simple_tag
def query(**values: str) -> str:
    """A query string; half of a surrogate pair, which no address can hold, becomes a question mark. What is longer than any
    address is cut: it led nowhere before, too.
    """
    return urlencode({name: value[: 4 * KEY_LENGTH].encode("utf-8", "replace") for name, value in values.items()})


@register.simple_tag
def whole_url(target: Target, key: str) -> str:
    """Where all of a key's value can be read."""
    return f"{target.value}?{query(key=key)}"


@register.simple_tag
def crumbs(source: str, app_name: str = "", user_id: str | None = None) -> SafeString:
    """The way here: source, app, user."""
    return _trail(_links(source, app_name, user_id))


@register.simple_tag
def session_crumbs(key: SessionKey, title: str | None = None, *, here: bool = False) -> SafeString:
    """The way to a session, and with `here` no further: source, app, user, session; its title is looked up if not given."""
    of_app = key == own_session(key.source, key.app_name)
    links = _links(key.source, key.app_name, None if of_app else key.user_id)
    name = session_name(key, reads.title(key) if title is None else title)
    return _trail(links, name) if here else _trail([*links, (session_url(key), name)])


@register.simple_tag
def session_name(key: SessionKey, title: str = "") -> str:
    """A session's title or else its id; one in which adkweb edits state is called after whose state that is."""
    if key == own_session(key.source, key.app_name):
        return _("Changes of this app")
    return _("Changes of this user") if key.session_id == OWN_NAME else title or key.session_id


@register.simple_tag
def where(key: SessionKey) -> str:
    """App, user and session in one line; of a session in which adkweb edits state, whose state that is."""
    names = [key.app_name] if key == own_session(key.source, key.app_name) else [key.app_name, key.user_id]
    return " / ".join(names if key.session_id == OWN_NAME else [*names, key.session_id])


@register.simple_tag
def where_link(key: SessionKey) -> SafeString:
    """A link to what `where` names: a session, a user or an app."""
    url = session_url(key)
    if key == own_session(key.source, key.app_name):
        url = reverse("app", args=[key.source, key.app_name])
    elif key.session_id == OWN_NAME:
        url = reverse("user", args=[key.source, key.app_name, key.user_id])
    return format_html('<a class="bidi" href="{}">{}</a>', url, soft(where(key)))


def _links(source: str, app_name: str, user_id: str | None) -> list[tuple[str, str]]:
    links = [(reverse("home"), source)]
    if app_name:
        links.append((reverse("app", args=[source, app_name]), app_name))
    if user_id is not None:
        links.append((reverse("user", args=[source, app_name, user_id]), user_id))
    return links


def _trail(links: list[tuple[str, str]], here: str | None = None) -> SafeString:
    """Crumbs, each cut where there is no room, and then whole on hover."""
    trail = format_html_join(
        "", '<li><a class="bidi" href="{}" title="{}">{}</a></li>', [(url, name, name) for url, name in links]
    )
    if here is None:
        return trail
    return trail + format_html('<li aria-current="page"><span class="bidi" title="{}">{}</span></li>', here, here)


@register.simple_tag(takes_context=True)
def written_by(context: dict[str, Any], row: Row, target: Target) -> SafeString:
    """The end of a key's row: the button that edits it, and the event that last wrote it."""
    if context["read_only"] or len(row.key) > KEY_LENGTH:
        return wrote(row, target.key, target.kind)
    address = f"{target.edit}?{query(key=row.key)}"
    edit = format_html(
        '<a class="iconbtn small act" href="{}" hx-get="{}" hx-target="#edit" aria-label="{}">{}</a>',
        address,
        address,
        _("Edit %(key)s") % {"key": row.key[:100]},
        icon("edit"),
    )
    return wrote(row, target.key, target.kind, edit)


@register.simple_tag
def wrote(row: Row, key: SessionKey, kind: str = "session", edit: str = "") -> SafeString:
    """The end of a key's row: what can be done with it, the way to everything that it ever was among that, and who wrote
    it last, seen from a session: its number leads to the state just after that, in whichever session.
    """
    acts = format_html('<span class="rowacts">{}{}</span>', edit, _history(row.key, key, kind))
    if row.writer is None:
        return acts + format_html('<span class="wrote">{}</span>', _("at creation")) if row.initial else acts
    number = f"#{row.writer.seq}" if number_of(row.writer.seq) is not None else _("event")
    there = address_at(row.writer.key, row.writer.event_id)
    who = row.writer.actor.partition("@")[0]
    if row.writer.key == key:
        by = format_html('<a href="{}" data-at="{}">{}</a>', there, row.writer.event_id, number)
    else:
        other = session_name(row.writer.key)
        edited = row.writer.key.session_id == OWN_NAME
        name = "" if edited else format_html('<span class="bidi">{}</span> ', words(other, 40))
        by = format_html('<a href="{}" title="{}">{}{}</a>', there, other, name, number)
    return acts + format_html('<span class="wrote">{}{}</span>', by, who and format_html(" <span>{}</span>", who))


def _history(name: str, key: SessionKey, kind: str) -> SafeString:
    if len(name) > KEY_LENGTH:
        return SafeString()  # no address is so long
    names = dict(list(key._asdict().items())[: {"app": 2, "user": 3}.get(kind)])
    url = reverse(f"{kind}-history", kwargs=names)
    return format_html(
        '<a class="iconbtn small act" href="{}?{}" aria-label="{}" data-row-key="h">{}</a>',
        url,
        query(key=name),
        _("History of %(key)s") % {"key": name[:100]},
        icon("past"),
    )


@register.simple_tag
def at_url(session: SessionKey, event_id: str, name: str = "session", **more: str) -> str:
    """A page of a session at an event."""
    return address_at(session, event_id, name, **more)


@register.simple_tag
def icon(name: str, extra: str = "") -> SafeString:
    """An icon of the sprite; decoration only."""
    return format_html(
        '<svg class="icon {}" aria-hidden="true"><use href="{}#{}"></use></svg>', extra, static("img/icons.svg"), name
    )


@register.simple_tag
def kind_icon(view: EventView) -> SafeString:
    """The icon of an event's kind."""
    name = ICONS[view.description.kind]
    if view.description.kind == "message" and view.description.author == "user":
        name = "user"
    if view.description.kind == "response" and view.description.failed:
        name = "warn"
    return icon(name, "bad" if view.description.failed else "")
