"""Defines the template tags and filters for values, events and numbers, which are built into every template."""

import re
from collections import Counter
from collections.abc import Iterable
from itertools import islice
from typing import Any, Final

from django import template
from django.template import Context
from django.utils.html import conditional_escape
from django.utils.safestring import SafeString, mark_safe

from ...domain.description import Description
from ...domain.grounding import sources
from ...domain.json_values import KEY_LENGTH, beginning, dumps
from ...domain.kinds import say
from ...domain.masks import has_dots
from ...domain.positions import number_of
from ...domain.session_ref import SessionRef
from ...domain.shorten import brief, words
from ...domain.state import ABSENT, UNKNOWN, scope_of
from ...domain.summary import Piece, cut_off, media_name, summary, tool_name
from ...reads.event_views import EventView
from ...reads.lists import COUNT_LIMIT, ROW_COUNT_LIMIT
from ...transfer import FORMATS, TESTS, Format
from ...trying import whatif
from ..html.difference import value as whole_value
from ..html.json_tree import NODE_LIMIT, Tree, css_class, ends, name
from ..html.markdown import Text, Texts
from ..numbers import count, dollars, in_short, percentage, share, signed
from ..reasons import in_words, is_about_code
from ..request import actor

register = template.Library()
PRETTY_LENGTH: Final = 20_000  # characters of a value; templates show fewer


# --- Values -----------------------------------------------------------------------------------------------------------


register.filter("brief", brief)
register.filter("cut_off", cut_off)
register.filter("sources", sources)
register.filter("words", words)
register.filter("key_name", name)
register.filter("tool_name", tool_name)
register.filter("ends", ends)
register.filter("whole_value", whole_value)
register.filter("css_class", css_class)


@register.filter
def soft(name: str) -> SafeString:
    """Lets a long name break after punctuation: after `igor.kim@`, not after `igor.kim@example.co`."""
    return mark_safe(re.sub(r"([-_/.,:;=@]+)(?=\w)", r"\1<wbr>", conditional_escape(name)))  # noqa: S308 - escaped


@register.filter
def pretty(value: Any) -> str:
    """Returns a value as indented JSON, cut to PRETTY_LENGTH."""
    return beginning(value, PRETTY_LENGTH)


@register.filter
def cut(text: Any) -> str:
    """Returns a name for a title, cut if it is longer than any that adkweb would store."""
    whole = str(text)
    return whole if len(whole) <= KEY_LENGTH else f"{whole[:KEY_LENGTH]}…"


@register.filter
def first(mapping: Any, number: int) -> list[tuple[str, Any]]:
    """Returns a mapping's first keys and values."""
    return list(islice(mapping.items(), number)) if isinstance(mapping, dict) else []


@register.filter
def beyond(whole: Any, number: int) -> int:
    """Returns how many entries there are beyond the first `number`."""
    return max(0, len(whole) - number) if isinstance(whole, dict | list | tuple) else 0


@register.filter
def known(value: Any) -> bool:
    """Tells whether a value exists and is known."""
    return value is not UNKNOWN and value is not ABSENT


@register.filter
def absent(value: Any) -> bool:
    """Tells whether a value is ABSENT."""
    return value is ABSENT


@register.filter
def scope(key: str) -> str:
    """Returns the scope that a key's prefix names."""
    return scope_of(key)[0]


@register.simple_tag
def get(mapping: dict[str, Any], key: str) -> Any:
    """Returns a mapping's value by a key that is not an identifier."""
    return mapping.get(key)


@register.filter
def items(mapping: Any) -> Any:
    """Returns a mapping's keys and values. In a template, `mapping.items` would be the value of the key `items`."""
    return mapping.items() if isinstance(mapping, dict) else ()


# --- Events -----------------------------------------------------------------------------------------------------------


register.filter("media_name", media_name)
register.filter("about_code", is_about_code)
register.filter("reason", in_words)
register.filter("summary", summary)


@register.filter
def said(view: EventView) -> Iterable[Piece]:
    """Returns what happened in an event, in pieces of a line."""
    return say(view.description, view.data)


@register.filter
def has_texts(described: Description) -> bool:
    """Tells whether an event has texts that may be markdown."""
    told = described.actions.get("compaction") or described.actions.get("transfer_reason")
    return bool(described.of("text", "thought") or told)


@register.filter
def plain(value: Any) -> str:
    """Returns a string as it is, and any other value as JSON."""
    return value if isinstance(value, str) else dumps(value)


@register.simple_tag
def kv(key: str, value: Any, by: str = "", whole: str = "", *, opened: bool = False) -> SafeString:
    """Returns a key and its value as a row, with nested values as a tree.

    `by` comes at the end of the row. `whole` is the URL of the whole value.
    """
    return Tree(whole, opened).top(key, value, by)


@register.simple_tag
def tree(value: Any, whole: str = "", most: int = NODE_LIMIT) -> SafeString:
    """Returns at most `most` rows of a value, opened, for example the arguments of a call."""
    return Tree(whole, opened=True, most=most).children(value)


@register.simple_tag
def rendered(texts: Texts, text: str) -> Text:
    """Returns one of a page's texts as markdown, or as it is."""
    return texts.render(text)


@register.filter
def dotted(value: Any) -> bool:
    """Tells whether dots stand for something hidden in a value."""
    return has_dots(value)


@register.simple_tag(takes_context=True)
def may_reveal(context: Context, ref: SessionRef) -> bool:
    """Tells whether the person who looks may reveal masked values here."""
    return actor(context["request"]).may_reveal(ref.source, ref.app_name)


@register.simple_tag
def why_no_what_if(ref: SessionRef) -> str:
    """Returns why nothing can be tried with a session's agent; "" if it can."""
    return whatif.why_not(ref)


@register.simple_tag
def export_formats(one: bool) -> list[tuple[str, Format]]:
    """Returns the formats that the menu of exports offers, by name: of one session, or of several. Tests of one have a page
    of their own."""
    offered = [(name, form) for name, form in FORMATS.items() if form.offer]
    return [(name, form) for name, form in offered if (name not in TESTS if one else not form.one_session)]


# --- Numbers ---------------------------------------------------------------------------------------------------------


register.filter("count", count)
register.filter("dollars", dollars)
register.filter("in_short", in_short)
register.filter("share", share)
register.filter("percentage", percentage)
register.filter("signed", signed)


@register.filter
def counted(number: int) -> str:
    """Returns a number that reads/lists.py counts up to COUNT_LIMIT."""
    return count(number, COUNT_LIMIT)


@register.filter
def percent(share: float) -> int:
    """Returns how much of something is done as a percentage, at most 99."""
    return min(99, int(share * 100))


@register.filter
def row_counted(number: int) -> str:
    """Returns a number that reads/lists.py counts up to ROW_COUNT_LIMIT."""
    return count(number, ROW_COUNT_LIMIT)


register.filter("number", number_of)


# --- Agents and other names -------------------------------------------------------------------------------------------

SHORT: Final = 24  # characters
_LONGEST: Final = 128


def shortened(names: Iterable[str], length: int = SHORT) -> dict[str, str]:
    """Returns each name without its middle if it is long: “researcher…direct_flights”.

    Where the cut would be within a word, the word is whole. Where two names would look alike, both keep more characters.
    Names outside ASCII are only cut at their end, because a cut in the middle could split a sign or reorder it.
    """
    whole = set(names)
    shown: dict[str, str] = {}
    while whole and length <= _LONGEST:
        cut = {name: _cut(name, length) for name in whole}
        times = Counter(cut.values())
        shown |= {name: short for name, short in cut.items() if times[short] == 1}
        whole -= shown.keys()
        length *= 2
    return shown | {name: name for name in whole}


@register.filter
def short_name(name: str) -> str:
    """Returns an agent's name without its middle if it is long."""
    return shortened([name])[name]


def _cut(name: str, length: int) -> str:
    if len(name) <= length:
        return name
    if not name.isascii():
        return name if len(name) <= _LONGEST else name[: _LONGEST - 1] + "…"
    end = length // 2
    if begun := re.search(r"(?<=[_\W])\w{1,4}$", name[:-end].replace("_", " ")):
        end += len(begun[0])
    return f"{name[: length - end - 1].rstrip('_')}…{name[-end:]}"


# In this order: most browsers also say that they are Chrome and Safari, and most systems that they are another one, too.
_BROWSERS: Final = {"Edg": "Edge", "OPR": "Opera", "SamsungBrowser": "Samsung Internet", "FxiOS": "Firefox"} | {
    "CriOS": "Chrome",
    "Firefox": "Firefox",
    "HeadlessChrome": "Chrome",
    "Chrome": "Chrome",
    "Version": "Safari",
}
_SYSTEMS: Final = {"Android": "Android", "iPhone": "iPhone", "iPad": "iPad", "Windows": "Windows"} | {
    "Mac OS X": "macOS",
    "CrOS": "ChromeOS",
    "Linux": "Linux",
}


@register.filter
def browser_name(agent: str) -> str:
    """Returns what a person calls a browser: “Firefox 140 · Linux”. What is not known is shown as it names itself."""
    for product, called in _BROWSERS.items():
        if version := re.search(rf"\b{product}[A-Za-z]*/(\d+)", agent):
            system = next((each for sign, each in _SYSTEMS.items() if sign in agent), "")
            return " · ".join(filter(None, (f"{called} {version[1]}", system)))
    return words(agent, 60)
