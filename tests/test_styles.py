"""Style sheets hold nothing that makes a browser style half of a page anew at each step through a timeline."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from django.contrib.staticfiles.storage import staticfiles_storage

from sessions_app.http.bundles import bundle

STYLES: Final = Path(__file__).resolve().parents[1] / "static" / "css"


def selectors(text: str) -> Iterator[str]:
    """The selectors of a style sheet, one by one."""
    for rule in re.findall(r"([^{}]+)\{", re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)):
        start = depth = 0
        for at, sign in enumerate(f"{rule},"):
            depth += {"(": 1, ")": -1}.get(sign, 0)
            if sign == "," and not depth:
                yield " ".join(rule[start:at].split())
                start = at + 1


def arguments(selector: str) -> Iterator[str]:
    """What is between the brackets of each :has()."""
    for start in re.finditer(r":has\(", selector):
        depth = 1
        for at in range(start.end(), len(selector)):
            depth += {"(": 1, ")": -1}.get(selector[at], 0)
            if not depth:
                yield selector[start.end() : at]
                break


def costly(selector: str) -> str:
    """Why a selector is not to be used; "" if it may be."""
    if any(re.search(":(focus|hover|active)", each) for each in arguments(selector)):
        return "each move of the focus or the pointer styles everything around it anew"
    if re.search(r"(^|[ (>])(\*|:not\(:[^)]*\)) [+~]|[+~] \*", selector):
        return "each row that comes or goes styles all rows anew: :not(:first-child) does not"
    return ""


def test_no_selector_styles_a_page_anew_at_each_step():
    paths = sorted(STYLES.rglob("*.css"))
    assert [(path.name, each) for path in paths for each in selectors(path.read_text("utf-8")) if costly(each)] == []


@pytest.mark.parametrize(
    "selector",
    [
        ".ev:has(.line:focus-visible)",
        ".editbox:has(json-editor:focus-within) .add",
        ".lane:has(a:is(:hover, .x)) .guide",
        ".md > * + *",
        ".rangewords > :not(:empty) ~ :not(:empty)::before",
        ".lane > .name:hover ~ * .guide",
    ],
)
def test_such_a_selector_is_found(selector: str):
    assert costly(selector)
    assert not costly(".ev:focus-within > .line:hover + .meta, .md > :not(:first-child)")


def test_the_fonts_that_a_page_loads_first_are_those_of_its_style_sheet():
    """A font that comes after the first layout has the browser lay out the whole page again."""
    page = (STYLES.parents[1] / "templates" / "base.html").read_text("utf-8")
    asked = [staticfiles_storage.url(name) for name in re.findall(r"static '(vendor/[^']+\.woff2)'", page)]
    named = {f"/static/{name}" for name in re.findall(r'url\("\.\./([^"]+)"\)', bundle("css/pages.css"))}
    assert len(asked) == 2
    assert named.issuperset(asked)
