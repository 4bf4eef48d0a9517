"""What a page really says: its HTML read as a browser would, and everything in it that the templates do not write."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html import unescape
from html.parser import HTMLParser
from typing import Final

from django.http import HttpResponseBase

VOID: Final = frozenset(re.findall(r"\w+", "area base br col embed hr img input link meta source track wbr"))

# Everything that templates and tags write. Another tag or attribute on a page is one that somebody's text has made.
TAGS: Final = frozenset(
    re.findall(
        r"[\w-]+",
        """a article aside b blockquote body br button caption circle code datalist dd del details dialog div dl dt
        ellipse em fieldset figcaption figure footer foreignobject form g h1 h2 h3 h4 h5 h6 head header hr html img
        input ins json-editor kbd label legend li link main mark meta nav noscript ol option p path polyline pre
        progress rect s script section select span strong summary svg table tbody td template text textarea th thead
        time title tr ul wbr""",
    )
)
ATTRIBUTES: Final = re.compile(
    r"""(data-[a-z-]+|aria-[a-z]+|accesskey|action|as|crossorigin
    |hx-(disabled-elt|get|include|post|preserve|push-url|target|select|swap|swap-oob|sync|trigger|headers|encoding)
    |alt|autocapitalize|autocomplete|autofocus|charset|checked|class|colspan|content|cx|cy|d|datetime|defer|dir|disabled|download|enctype
    |fill|for|form|inputmode
    |formnovalidate|hidden|href|id|lang|list|loading|max|maxlength|method|multiple|name|nonce|open|original|placeholder|plain|points
    |popover|popovertarget|popovertargetaction|preserveaspectratio|r|rel|required|role|rows|rx|ry|scope|selected|spellcheck|src|start|stroke|tabindex|target|title|type|value|viewbox|height|width|x|y)""",
    re.VERBOSE,
)
ADDRESSES: Final = ("href", "src", "action", "hx-get", "hx-post")
_HERE: Final = re.compile(r"(/(?!/)|\?|#|$)")  # an address on this server
_OUT: Final = re.compile(r"(https?://|mailto:)[^\s]")  # where a link of somebody's text may lead
_REL: Final = "noopener noreferrer nofollow"
_IMAGE: Final = re.compile(r"/s/.*/(data/\d+|artifacts/[^/]+/\d+/image)/$")

# A page as the templates write it: tags in small letters, and every value in quotes.
_DOCTYPE: Final = "<!doctype html>"
_TAG: Final = re.compile(r"""(<[^<>"']*(?:"[^"]*"[^<>"']*|'[^']*'[^<>"']*)*>)""")
_PAIR: Final = r"""[ \n]+([a-zA-Z][a-zA-Z:-]*)(?:=("[^"]*"|'[^']*'))?"""
_WRITTEN: Final = re.compile(rf"<([a-z][a-z0-9-]*)((?:{_PAIR})*)[ \n]*>")


@dataclass(eq=False)
class Element:
    """An element with its attributes and what is in it."""

    tag: str
    attributes: dict[str, str]
    inside: list[Element | str] = field(default_factory=list)

    def __getitem__(self, name: str) -> str:
        return self.attributes[name]

    def __contains__(self, name: str) -> bool:
        return name in self.attributes

    @property
    def text(self) -> str:
        """Its words, as they are read: blanks drawn together."""
        return " ".join("".join(self._texts()).split())

    @property
    def raw(self) -> str:
        """Its characters, every one."""
        return "".join(self._texts())

    @property
    def classes(self) -> list[str]:
        """Its classes."""
        return self.attributes.get("class", "").split()

    def _texts(self) -> Iterator[str]:
        for item in self.inside:
            if isinstance(item, str):
                yield item
            else:
                yield from item._texts()

    def every(self) -> Iterator[Element]:
        """Every element in it, in the page's order."""
        for item in self.inside:
            if isinstance(item, Element):
                yield item
                yield from item.every()

    def all(self, tag: str = "", class_: str = "", **attributes: str) -> list[Element]:
        """The elements in it of a tag, a class and attributes; `name_` for a name that is Python's, `a_b` for a-b."""
        wanted = {name.rstrip("_").replace("_", "-"): value for name, value in attributes.items()}
        return [
            element
            for element in self.every()
            if (not tag or element.tag == tag)
            and (not class_ or class_ in element.classes)
            and all(element.attributes.get(name) == value for name, value in wanted.items())
        ]

    def one(self, tag: str = "", class_: str = "", **attributes: str) -> Element:
        """The only such element."""
        found = self.all(tag, class_, **attributes)
        assert len(found) == 1, f"{len(found)} elements <{tag} .{class_} {attributes}>"
        return found[0]

    def texts(self, tag: str = "", class_: str = "", **attributes: str) -> list[str]:
        """The words of such elements."""
        return [element.text for element in self.all(tag, class_, **attributes)]

    def links(self) -> dict[str, str]:
        """The addresses of links by their words, or by the name that stands for these; the first of each."""
        found: dict[str, str] = {}
        for link in self.all("a"):
            if "href" not in link:
                continue
            found.setdefault(link.text or link.attributes.get("aria-label", ""), link["href"])
        return found

    def fields(self) -> dict[str, str]:
        """What this form would send, the buttons left out."""
        found = {}
        for element in self.every():
            name = element.attributes.get("name", "")
            if not name or element.tag == "button" or "disabled" in element:
                continue
            if element.tag == "input" and ("checked" in element or element.attributes.get("type") != "radio"):
                found[name] = element.attributes.get("value", "")
            elif element.tag == "textarea":
                found[name] = element.raw.removeprefix("\n")  # as HTML says
            elif element.tag == "select":
                options = element.all("option")
                chosen = [o for o in options if "selected" in o] or options[:1]
                found[name] = (chosen[0].attributes.get("value") or chosen[0].text) if chosen else ""
        return found

    def json_fields(self) -> dict[str, str]:
        """What this form would send with every value typed as JSON: of type string, the text is the value as it is."""
        found = self.fields()
        for name in [name for name, value in found.items() if name.startswith("type-") and value == "string"]:
            value = name.replace("type-", "value-")
            found |= {name: "json", value: json.dumps(found[value], ensure_ascii=False) if found[value] else ""}
        return found


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open = [Element("", {})]
        self.problems: list[str] = []

    def updatepos(self, i: int, j: int) -> int:
        """Counts no lines, which nobody asks for."""
        return j

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _value in attrs]
        if len(set(names)) < len(names):
            self.problems += [f"<{tag}> has {name} twice" for name in set(names) if names.count(name) > 1]
        element = Element(tag, {name: value or "" for name, value in attrs})
        self.open[-1].inside.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.problems.append(f"<{tag}/>")

    def handle_endtag(self, tag: str) -> None:
        if self.open[-1].tag == tag:
            self.open.pop()
        else:
            self.problems.append(f"</{tag}> ends <{self.open[-1].tag}>")

    def handle_data(self, data: str) -> None:
        self.open[-1].inside.append(data)


@functools.lru_cache(maxsize=10_000)
def _start_of(tag: str) -> tuple[str, dict[str, str], list[str]] | None:
    """The name of a tag, its attributes and what is wrong with these; None if no template writes a tag like this."""
    match = _WRITTEN.fullmatch(tag)
    given = re.findall(_PAIR, match[2]) if match else []
    element = Element(match[1] if match else "", {name.lower(): unescape(value[1:-1]) for name, value in given})
    if not match or len(element.attributes) < len(given):
        return None
    return element.tag, element.attributes, list(_foreign(element))


def _read_written(text: str) -> tuple[Element, list[str]] | None:
    """The page, if its tags are as the templates write them: a fifth of the work of Python's reader, since most of them
    were on the page before. None for any other page: that reader then says what is wrong with it."""
    page = Element("", {})
    opened, problems = [page], []
    for number, part in enumerate(_TAG.split(text.removeprefix(_DOCTYPE))):
        inside = opened[-1]
        if number % 2 == 0:
            if part:
                if "<" in part or inside.tag in ("script", "style"):
                    return None
                inside.inside.append(unescape(part))
        elif part.startswith("</"):
            if part != f"</{inside.tag}>":
                return None
            opened.pop()
        else:
            start = _start_of(part)
            if not start or inside.tag in ("script", "style"):
                return None
            tag, attributes, wrong = start
            problems += wrong
            element = Element(tag, attributes)
            inside.inside.append(element)
            if tag not in VOID:
                opened.append(element)
    return (page, problems) if len(opened) == 1 else None


@functools.lru_cache(maxsize=1)  # Browser looks through what the test then reads
def read(text: str) -> tuple[Element, list[str]]:
    """The page, and what is wrong with it: what does not end where it began, and what the templates do not write."""
    if written := _read_written(text):
        return written
    reader = _Reader()
    reader.feed(text)
    reader.close()
    page = reader.open[0]
    unclosed = [f"<{element.tag}> does not end" for element in reader.open[1:]]
    return page, reader.problems + unclosed + [p for element in page.every() for p in _foreign(element)]


def page_of(response: HttpResponseBase) -> Element:
    """What an answer says."""
    return read(response.content.decode())[0]  # type: ignore[attr-defined]


def _foreign(element: Element) -> Iterator[str]:
    return (f"<{element.tag} {element.attributes}>: {problem}" for problem in _problems(element))


def _problems(element: Element) -> Iterator[str]:
    if element.tag not in TAGS:
        yield "no template writes this tag"
    for name, value in element.attributes.items():
        if not ATTRIBUTES.fullmatch(name):
            yield f"no template writes {name}"
        if name in ADDRESSES and not _HERE.match(value) and not _leads_out(element, name):
            yield f"{name} leads elsewhere"
    if element.tag in ("script", "link") and not element.attributes.get(
        "src", element.attributes.get("href", "")
    ).startswith("/static/"):
        yield "not one of adkweb's own files"
    if element.tag == "script" and element.raw.strip():
        yield "a script within the page"
    if element.tag == "img" and not _IMAGE.search(element["src"]):
        yield "not an event's own image"


def _leads_out(element: Element, name: str) -> bool:
    """Tells whether an address is that of a link in rendered markdown or of a sign-in, which takes nothing along."""
    link = (element.tag, name) == ("a", "href") and element.attributes.keys() - {"class", "target"} == {"href", "rel"}
    return link and element["rel"] == _REL and bool(_OUT.match(element["href"]))
