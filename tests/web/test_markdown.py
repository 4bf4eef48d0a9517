"""Markdown becomes HTML in which nothing can act, whatever the text is, and at a cost that has an end."""

from __future__ import annotations

import time
from typing import Final

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sessions_app.web.html.markdown import LIMIT, ROOM, Texts, markdown
from tests.strategies import MANY, TEXTS
from tests.web.html import Element, read

REL: Final = "noopener noreferrer nofollow"
TAGS: Final = {
    *(
        "a",
        "blockquote",
        "br",
        "code",
        "div",
        "em",
        "h3",
        "h4",
        "h5",
        "h6",
        "hr",
        "li",
        "ol",
        "p",
        "pre",
        "s",
        "strong",
    ),
    *("table", "tbody", "td", "th", "thead", "tr", "ul"),
}
ATTRIBUTES: Final = {
    "a": {"href", "rel"},
    "div": {"class", "tabindex"},
    "ol": {"dir", "start"},
    "pre": {"dir", "tabindex"},
    "td": {"class", "dir"},
    "th": {"class", "dir"},
}
CLASSES: Final = {"tableframe", "middle", "end"}
ATTACKS: Final = (
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<svg/onload=alert(1)>",
    "<iframe src=javascript:alert(1)>",
    "<style>*{background:url(//evil.example)}</style>",
    "<math><mtext><table><mglyph><style><!--</style><img title=\"--&gt;&lt;img src=1 onerror=alert(1)&gt;\">",
    "<noscript><p title=\"</noscript><img src=x onerror=alert(1)>\">",
    "<a href='javascript:alert(1)'>x</a>",
    "[x](javascript:alert(1))",
    "[x](JaVaScRiPt:alert(1))",
    "[x](java\nscript:alert(1))",
    "[x](&#106;avascript:alert(1))",
    "[x](&#x6A&#x61&#x76&#x61&#x73&#x63&#x72&#x69&#x70&#x74&#x3A&#x61lert(1))",
    "[x](\\javascript:alert(1))",
    "[x](<javascript:alert(1)>)",
    "[x]( javascript:alert(1))",
    "[x](\x01javascript:alert(1))",
    "[x](vbscript:msgbox(1))",
    "[x](data:text/html,<script>alert(1)</script>)",
    "[x](data:text/html;base64,PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg==)",
    "[x](file:///etc/passwd)",
    "[x](/tokens/)",
    "[x](//evil.example)",
    "[x](\\\\evil.example)",
    "[x](?delete)",
    "[x](http:evil)",
    "[x]: javascript:alert(1)\n\n[x]",
    "<javascript:alert(1)>",
    "![x](javascript:alert(1))",
    "![x](https://evil.example/track.png)",
    "![x\" onerror=\"alert(1)](https://evil.example/x)",
    "![](https://evil.example/x.png 'a\" onload=\"alert(1)')",
    "![x](data:image/svg+xml;base64,PHN2Zz4=)",
    "[![x](https://evil.example/a)](https://b.example)",
    "[x](https://a.example 'a\" onmouseover=\"alert(1)')",
    "[x](https://a.example/\"onmouseover=alert(1))",
    "https://a.example/\"><script>alert(1)</script>",
    "https://a.example/'onmouseover='alert(1)",
    "<https://a.example/\"onclick=alert(1)>",
    "```\"><script>alert(1)</script>\nx\n```",
    "```js onload=alert(1)\n</code></pre><script>alert(1)</script>\n```",
    "    </code></pre><script>alert(1)</script>",
    "`</code><script>alert(1)</script>`",
    "| <script>alert(1)</script> | b |\n|:-:|--:|\n| <img src=x onerror=alert(1)> | `|` |",
    "# <b onclick=alert(1)>x</b> {#main .btn onclick=alert(1)}",
    "<h1 id=main class=btn>x</h1>",
    "<form action=/sign-out/ method=post><button>x</button></form>",
    "<input autofocus onfocus=alert(1)>",
    "<base href=//evil.example><link rel=stylesheet href=//evil.example><meta http-equiv=refresh content=0>",
    "<!--><script>alert(1)</script>-->",
    "<![CDATA[<script>alert(1)</script>]]>",
    "<?php alert(1) ?>",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "{{ 7|add:7 }}{% debug %}",
    "\ud83d half an emoji \udfff",
    "a\0b",
)  # fmt: skip
SOUP: Final = (
    *("[", "]", "(", ")", "![", "](", "<", ">", "</", "/>", "`", "```", "~~~", "*", "**", "_", "~~", "|", "|-|", "#", "> "),
    *("- ", "1. ", "\n", "\n\n", "    ", "\\", "&", "&#", ";", "\"", "'", "=", ":", "//", "https://a.example"),
    *("mailto:a@b.c", "javascript:", "data:", "<a ", "href=", "onclick=", "<img src=x ", "<script>", "</script>", "<style>"),
    *("<!--", "-->", "text", "é", "مرحبا", "\u202e", "\x01", "\u2028", "👩‍👩‍👧‍👦", "[x]: ", "[x]", *TEXTS),
)  # fmt: skip


def fault(element: Element) -> str:
    """What an element has that rendered markdown may not have."""
    attributes = element.attributes
    if element.tag not in TAGS:
        return f"<{element.tag}>"
    if more := attributes.keys() - ATTRIBUTES.get(element.tag, {"dir"}):
        return f"<{element.tag} {more}>"
    if not set(element.classes) <= CLASSES:
        return f"class {element.classes}"
    if attributes.get("dir", "auto") != "auto" or attributes.get("tabindex", "0") != "0":
        return f"{attributes}"
    if element.tag == "a" and "href" not in attributes:
        return ""  # what is no address leads nowhere
    if element.tag == "a" and not attributes["href"].lower().startswith(("http://", "https://", "mailto:")):
        return f"a link to {attributes.get('href')!r}"
    return "" if element.tag != "a" or attributes.get("rel") == REL else "no rel"


def looked_through(text: str) -> Element:
    """The HTML of a text, in which nothing is that may not be."""
    page, problems = read(markdown(text))
    assert problems == []
    assert [problem for problem in map(fault, page.every()) if problem] == []
    return page


@pytest.mark.parametrize("text", [*ATTACKS, *TEXTS])
def test_an_attack_becomes_text_or_nothing(text: str) -> None:
    looked_through(text)
    looked_through(f"> - **{text}**\n\n| a |\n|---|\n| {text} |\n\n[a {text} b](https://a.example)")


@pytest.mark.guarantee(
    "Safety", "Markdown can produce only HTML elements from a fixed list, and its links can only point to other sites."
)
@MANY
@given(text=st.lists(st.sampled_from(SOUP), max_size=60).map("".join) | st.text(max_size=200))
@example(text="*a " * 60 + "a* " * 60)
@example(text="[a](https://x.example) " * 40)
@example(text="https://a.example[")
@example(text="[a](https://a.example[)")
def test_any_text_becomes_html_of_the_allowed_elements_only(text: str) -> None:
    looked_through(text)


def test_what_people_write_is_rendered() -> None:
    page = looked_through(
        "## Fares\n\n**three** _flights_ ~~soon~~ `x < y`\nnext line\n\n- one\n  - two\n\n3. three\n\n> said\n\n"
        "| a | b | c |\n|---|:-:|--:|\n| 1 | 2 | 3 |\n\n```python\nprint('<b>')\n```\n\n---\n"
    )
    assert page.one("h3").text == "Fares"
    assert (page.one("strong").text, page.one("em").text, page.one("s").text) == ("three", "flights", "soon")
    assert [code.raw for code in page.all("code")] == ["x < y", "print('<b>')\n"]
    assert len(page.all("br")) == len(page.all("hr")) == 1  # a line that a person ended ends
    assert page.one("ol")["start"] == "3"
    assert page.one("blockquote").text == "said"
    assert [cell.attributes.get("class", "") for cell in page.all("td")] == ["", "middle", "end"]
    assert page.one("div", "tableframe").one("table")


@pytest.mark.parametrize(
    ("text", "levels"),
    [("# a", ["h3"]), ("### a", ["h3"]), ("# a\n## b\n#### c\n##### d\n###### e", ["h3", "h4", "h5", "h6", "h6"])],
)
def test_headings_are_below_those_of_the_page(text: str, levels: list[str]) -> None:
    assert [each.tag for each in looked_through(text).every()] == levels


@pytest.mark.parametrize(
    ("text", "links"),
    [
        ("[a](https://a.example/?x=1&y=2 'title')", {"a": "https://a.example/?x=1&y=2"}),
        ("<me@a.example>", {"me@a.example": "mailto:me@a.example"}),
        ("![a **map**](https://a.example/m.png)", {"a map": "https://a.example/m.png"}),
        ("![](https://a.example/m.png)", {"https://a.example/m.png": "https://a.example/m.png"}),
        ("(see https://a.example/b_c_d).", {"https://a.example/b_c_d": "https://a.example/b_c_d"}),
        ("https://a.example/(x), and", {"https://a.example/(x)": "https://a.example/(x)"}),
        ("**https://a.example/x**", {"https://a.example/x": "https://a.example/x"}),
        ("`https://a.example/x`", {}),
        ("[https://b.example](https://a.example)", {"https://b.example": "https://a.example"}),
        ("[![m](https://a.example/m)](https://b.example)", {"m": "https://b.example"}),
        ("xhttps://a.example", {}),
        ("[a](/tokens/) [b](//b.example) [c](#main)", {}),
    ],
)
def test_a_link_leads_out_and_an_image_is_a_link(text: str, links: dict[str, str]) -> None:
    assert looked_through(text).links() == links


def test_each_block_has_the_direction_of_its_own_text() -> None:
    page = looked_through("مرحبا\n\nHello\n\n- a\n\n> b\n\n| c |\n|---|\n| d |\n\n```\ne\n```")
    directed = {each.tag for each in page.every() if each.attributes.get("dir") == "auto"}
    assert directed == {"p", "ul", "blockquote", "th", "td", "pre"}


def test_emphasis_goes_only_so_deep() -> None:
    def depth(element: Element) -> int:
        return 1 + max((depth(each) for each in element.inside if isinstance(each, Element)), default=0)

    assert depth(looked_through("*a " * 2_000 + "a* " * 2_000)) < 30
    assert depth(looked_through("> " * 5_000 + "a")) < 60
    assert depth(looked_through("".join("  " * level + "- a\n" for level in range(100)))) < 60


SIGNS: Final = (
    "[",
    "]",
    "![",
    "[x][",
    "[a](",
    "> ",
    "*",
    "*a ",
    "**a *b ",
    "_a ",
    "~~a",
    "|",
    "`",
    "<",
    "&",
    "- ",
    "://",
)
WORST: Final = {
    **{sign: sign for sign in SIGNS},
    "table": "|a|b\n|-|-\n",
    "references": "[a]: x\n",
    "cdata": "<![CDATA[",
    "comments": "<!--",
    "addresses": "http://a.b ",
    "brackets": "http://" + ")" * 99,
    "lines": "x\n",
    "headings": "a\n=\n",
}


@pytest.mark.parametrize("name", WORST)
def test_the_worst_text_takes_less_than_it_would_take_to_notice(name: str) -> None:
    text = (WORST[name] * 100_000)[:100_000]
    before = time.process_time()
    assert not Texts().render(text).formatted  # it is shown as it is
    markdown(text[:LIMIT])
    assert time.process_time() - before < 3  # 0.3 s on a quiet machine


def test_a_page_renders_so_much_and_shows_the_rest_as_it_is() -> None:
    texts = Texts(most=100)
    rendered = [texts.render("**a** " * 1_000) for _ in range(ROOM // 6_000 + 1)]
    assert [each.formatted for each in rendered] == [True] * (ROOM // 6_000) + [False]
    assert rendered[-1].html == ("**a** " * 1_000)[:100]
    assert (rendered[0].cut, rendered[-1].cut) == (False, True)
    assert texts.render("**a**").formatted  # what is left is enough for this


def test_raw_texts_are_shown_as_they_are() -> None:
    text = Texts(raw=True).render("**a** <b>")
    assert (text.html, text.formatted, text.cut) == ("**a** &lt;b&gt;", False, False)
