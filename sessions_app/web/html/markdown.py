"""Renders what people and models wrote as markdown, as HTML that is safe whatever the text is.

Two things stand between a text and the page: the parser takes no HTML from the text, and `nh3` then removes every tag,
attribute and address that is not listed here. No image is loaded: its alternative text is a link to it.
"""

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import nh3
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt
from markdown_it.common.utils import escapeHtml
from markdown_it.rules_core import StateCore
from markdown_it.token import Token

LIMIT: Final = 20_000  # characters of a text that is rendered; a longer one is shown as it is, to this length
ROOM: Final = 100_000  # characters that are rendered for one page: the worst of them take a second and a half
_NESTING: Final = 20  # levels of quotes, lists, links and emphasis
_TOP: Final = 3  # the level of a text's highest heading: pages have <h1> and <h2>
_REL: Final = "noopener noreferrer nofollow"
_SCHEMES: Final = frozenset({"http", "https", "mailto"})
_ADDRESS: Final = re.compile(r"(?:https?://|mailto:)[^\s\x00-\x20]", re.IGNORECASE)
_BARE: Final = re.compile(r"\bhttps?://[^\s<>\"`|\\^{}\[\]]{1,2000}", re.IGNORECASE)  # an address within a text
_BLOCKS: Final = frozenset({"p", "ul", "ol", "blockquote", "pre", "th", "td", "h3", "h4", "h5", "h6"})
_CELLS: Final = {"text-align:center": "middle", "text-align:right": "end"}  # to classes: the CSP refuses inline styles
_INLINE: Final = frozenset({"a", "br", "code", "em", "s", "strong"})
_CLEANER: Final = nh3.Cleaner(
    tags={*_BLOCKS, *_INLINE, "div", "hr", "li", "table", "tbody", "thead", "tr"},
    clean_content_tags={"script", "style"},
    attributes={"a": {"href"}, "ol": {"start"}},
    tag_attribute_values={
        **{tag: {"dir": {"auto"}} for tag in _BLOCKS - {"pre"}},
        "pre": {"dir": {"auto"}, "tabindex": {"0"}},
        "div": {"tabindex": {"0"}},
    },
    allowed_classes={"div": {"tableframe"}, "td": set(_CELLS.values()), "th": set(_CELLS.values())},
    link_rel=_REL,
    url_schemes=set(_SCHEMES),
    url_relative="deny",
)


@dataclass(frozen=True, slots=True)
class Text:
    """A text as HTML. `formatted`: as markdown, otherwise as it is. `cut`: this is only its beginning."""

    html: SafeString
    formatted: bool
    cut: bool


class Texts:
    """Renders the texts of one page: as markdown until ROOM is used up, or as they are if the page is to be `raw`.

    A text that is shown as it is, is cut to `most` characters. `room` is for a page that is made once and kept.
    """

    def __init__(self, *, raw: bool = False, most: int = LIMIT, room: int = ROOM) -> None:
        self.raw = raw
        self.most = most
        self._left = 0 if raw else room

    def render(self, text: str) -> Text:
        """Returns a text as HTML."""
        if len(text) > min(LIMIT, self._left):
            return Text(SafeString(escape(text[: self.most])), formatted=False, cut=len(text) > self.most)
        self._left -= len(text)
        return Text(markdown(text), formatted=True, cut=False)


def markdown(text: str) -> SafeString:
    """Returns markdown as HTML: `**yes**` is `<p dir="auto"><strong>yes</strong></p>`."""
    whole = text.encode("utf-8", "replace").decode()  # SQLite may hold half of a surrogate pair
    return mark_safe(_CLEANER.clean(_parser().render(whole)))  # noqa: S308 - this is what nh3 is for


@functools.cache
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False, "breaks": True, "maxNesting": _NESTING})
    parser.enable(["table", "strikethrough"])
    parser.validateLink = _leads_out  # type: ignore[method-assign, assignment]
    parser.core.ruler.push("adkweb", _adapt)
    for name in ("fence", "code_block"):
        parser.add_render_rule(name, _code)
    parser.add_render_rule("table_open", _table)
    parser.add_render_rule("table_close", _table_end)
    return parser


def _leads_out(address: str) -> bool:
    """Tells whether a text may link to an address: never to a page of adkweb by its path."""
    return bool(_ADDRESS.match(address))


# --- What the parser makes of a text, adapted -------------------------------------------------------------------------


def _adapt(state: StateCore) -> None:
    levels = sorted({token.tag for token in state.tokens if token.type == "heading_open"})
    for token in state.tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(_TOP + levels.index(token.tag), 6)}"
        if token.type in ("th_open", "td_open"):
            style = str(token.attrs.pop("style", ""))
            if style in _CELLS:
                token.attrs["class"] = _CELLS[style]
        if token.nesting == 1 and token.tag in _BLOCKS:
            token.attrs["dir"] = "auto"
        if token.type == "inline":
            token.children = _links(state.md, token.children or [])


def _links(parser: MarkdownIt, tokens: list[Token]) -> list[Token]:
    """Makes links of images and of addresses that stand in the text, and takes away emphasis that is too deep."""
    adapted: list[Token] = []
    within = depth = 0
    for token in tokens:
        if token.type in ("link_open", "link_close"):
            within += token.nesting
            token.attrs.pop("title", None)
        if token.type in ("em_open", "em_close", "strong_open", "strong_close", "s_open", "s_close"):
            depth += token.nesting
            if depth + (token.nesting == -1) > _NESTING:
                continue
        if token.type == "image":
            address = str(token.attrs["src"])
            words = "".join(child.content for child in token.children or []) or address
            adapted += [_text(words)] if within else _link(address, words)
        elif token.type == "text" and not within:
            adapted += _with_bare_links(parser, token)
        else:
            adapted.append(token)
    return adapted


def _with_bare_links(parser: MarkdownIt, token: Token) -> list[Token]:
    pieces: list[Token] = []
    end = 0
    for match in _BARE.finditer(token.content):
        address = _without_end(match[0])
        target = parser.normalizeLink(address)
        if parser.validateLink(target):
            pieces += [_text(token.content[end : match.start()]), *_link(target, address)]
            end = match.start() + len(address)
    return [*pieces, _text(token.content[end:])] if pieces else [token]


def _without_end(address: str) -> str:
    """Takes from an address what ends the sentence around it: the bracket of “(see https://a.example/)”."""
    shorter = address.rstrip(".,;:!?'*_~…")
    while shorter.endswith(")") and shorter.count("(") < shorter.count(")"):
        shorter = shorter[:-1].rstrip(".,;:!?'*_~…")
    return shorter


def _text(content: str) -> Token:
    return Token("text", "", 0, content=content)


def _link(address: str, words: str) -> list[Token]:
    return [Token("link_open", "a", 1, attrs={"href": address}), _text(words), Token("link_close", "a", -1)]


# --- What is rendered otherwise than the parser would -----------------------------------------------------------------


def _code(_self: Any, tokens: Sequence[Token], index: int, _options: Any, _env: Any) -> str:
    return f'<pre dir="auto" tabindex="0"><code>{escapeHtml(tokens[index].content)}</code></pre>\n'


def _table(_self: Any, _tokens: Sequence[Token], _index: int, _options: Any, _env: Any) -> str:
    return '<div class="tableframe" tabindex="0"><table>\n'


def _table_end(_self: Any, _tokens: Sequence[Token], _index: int, _options: Any, _env: Any) -> str:
    return "</table></div>\n"
