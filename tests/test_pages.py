"""A page's view, template and style have the same name, so that one leads to the others.

The view of `/s/…/compare/` is web/compare/compare.py, its template templates/compare/compare/compare.html, its style
static/css/compare/compare.css. Fragments that several folders share are in html/, as the code that makes them.
"""

import ast
from pathlib import Path, PurePosixPath
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parent.parent
Files = dict[str, str]  # path → text; of a template and a style only the path counts

SHARED: Final = "html"  # its folders are named by what they show
FRAME: Final = {"tokens", "base", "layout", "menu"}  # styles of every page, as templates/base.html is


def files() -> Files:
    """The views as `web/…`, beside every template and style."""
    web = ROOT / "sessions_app" / "web"
    views = {f"web/{path.relative_to(web).as_posix()}": path.read_text("utf-8") for path in web.rglob("*.py")}
    shown = [*(ROOT / "templates").rglob("*.html"), *(ROOT / "static" / "css").rglob("*.css")]
    return views | {path.relative_to(ROOT).as_posix(): "" for path in shown}


def rendered(source: str) -> list[str]:
    """The templates that a module names; `{}` stands for what an f-string puts in."""
    texts = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.JoinedStr):
            texts.append("".join(part.value if isinstance(part, ast.Constant) else "{}" for part in node.values))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            texts.append(node.value)
    return [text for text in texts if text.endswith(".html") and "/" in text and " " not in text]


def templates_elsewhere(files: Files) -> list[str]:
    """Views whose page is not in the folder named as their module, or whose fragment is in another family's folder."""
    problems = []
    for path, source in files.items():
        if not path.startswith("web/"):
            continue
        own = PurePosixPath(path).relative_to("web").with_suffix("")
        for template in rendered(source):
            folder, name = PurePosixPath(template).parent, PurePosixPath(template).name
            allowed = name.startswith("_") and folder.parts[0] in {own.parts[0], SHARED}
            if folder != own and not allowed:
                problems.append(f"{path} renders {template}")
    return problems


def named_as_no_view(files: Files) -> list[str]:
    """Folders of templates, and styles, that no module of web/ has the name of."""
    views = {PurePosixPath(path).relative_to("web").with_suffix("") for path in files if path.startswith("web/")}
    problems = []
    for path in files:
        if path.startswith("templates/"):
            name = PurePosixPath(path).relative_to("templates").parent
        elif path.startswith("static/css/"):
            name = PurePosixPath(path).relative_to("static/css").with_suffix("")
        else:
            continue
        if name.parts and name.parts[0] != SHARED and name not in views and name.as_posix() not in FRAME:
            problems.append(path)
    return problems


def test_a_view_renders_the_templates_of_its_own_name():
    assert templates_elsewhere(files()) == []


def test_a_folder_of_templates_and_a_style_are_named_as_a_view():
    assert named_as_no_view(files()) == []


def test_every_view_that_has_a_page_is_looked_at():
    assert sum(len(rendered(source)) for source in files().values()) > 50


HOUSE: Final[Files] = {
    "web/errors.py": 'page(request, "errors/error.html")',
    "web/session/event.py": 'page("session/event/event.html", "session/timeline/_line.html", "html/_words.html")',
    "web/session/timeline.py": 'x = "any text"',
    "templates/base.html": "",
    "templates/errors/error.html": "",
    "templates/session/event/event.html": "",
    "templates/html/event/_words.html": "",
    "static/css/base.css": "",
    "static/css/html/tables.css": "",
    "static/css/session/event.css": "",
}
BROKEN: Final = [
    (templates_elsewhere, "web/session/event.py", 'page("session/page/event.html")'),
    (templates_elsewhere, "web/session/event.py", 'page("home/home/_feed.html")'),
    (templates_elsewhere, "web/session/event.py", 'fragment(f"home/home/_{name}.html")'),
    (templates_elsewhere, "web/errors.py", 'page("html/error.html")'),
    (named_as_no_view, "templates/session/undo/_rows.html", ""),
    (named_as_no_view, "templates/session/_rows.html", ""),
    (named_as_no_view, "static/css/session/travel.css", ""),
    (named_as_no_view, "static/css/event.css", ""),
]


@pytest.mark.parametrize(("check", "path", "source"), BROKEN)
def test_a_check_finds_what_it_looks_for(check, path, source):
    assert check(HOUSE) == []
    assert [problem for problem in check({**HOUSE, path: source}) if path in problem]
