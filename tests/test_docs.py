"""The documentation says what is true of the code."""

import json
import re
from argparse import ArgumentParser, _SubParsersAction
from pathlib import Path

import pytest
from django.core.management import get_commands, load_command_class
from django.core.management.base import BaseCommand

from sessions_app.access.actor import Actor
from sessions_app.domain.adk_fields import ACTION_FIELDS
from sessions_app.domain.event import check_event
from sessions_app.edits.edit import Entry, state_event
from tests.messages import gather

ROOT = Path(__file__).resolve().parent.parent
PAGES = [
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "examples" / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
]


def anchors_of(page: Path) -> set[str]:
    """The anchors that a page's headings get from GitHub and its like."""
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_of_a_page_leads_to_a_file_and_a_heading(page: Path) -> None:
    for link in re.findall(r"\]\((?!https?:)([^)]+)\)", page.read_text()):
        name, _hash, anchor = link.partition("#")
        target = page.parent / name if name else page
        assert target.exists(), link
        assert not anchor or anchor in anchors_of(target), link


def test_bold_words_are_those_of_the_interface() -> None:
    """Bold is a label as it is on a page, or a sentence with its stop or colon."""
    words = {re.sub(r"%\(\w+\)s", "…", text).removesuffix("…") for text, _context in gather()}
    other = []
    for page in sorted((ROOT / "docs").glob("*.md")):
        text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
        bold = [" ".join(label.split()) for label in re.findall(r"\*\*(.+?)\*\*", text, re.DOTALL)]
        other += [
            (page.name, label) for label in bold if label[-1] not in ".:" and label.removesuffix("…") not in words
        ]
    assert other == []


def test_every_page_that_the_code_names_is_there() -> None:
    files = [path for folder in ("sessions_app", "adkweb", "deploy", "tests") for path in (ROOT / folder).rglob("*")]
    texts = {path: path.read_text() for path in files if path.suffix in {".py", ".yaml", ".service", ".po"}}
    named = {(path.name, name) for path, text in texts.items() for name in re.findall(r"\bdocs/([\w-]+\.md)", text)}
    assert len(named) > 10
    assert [each for each in named if not (ROOT / "docs" / each[1]).exists()] == []


def test_the_readme_leads_to_every_page() -> None:
    shown = set(re.findall(r"\]\(docs/([\w-]+\.md)", (ROOT / "README.md").read_text()))
    assert shown == {path.name for path in (ROOT / "docs").glob("*.md")}


def test_each_test_that_the_table_of_accessibility_names_exists() -> None:
    named = re.findall(r"`([\w/]+\.py)::(\w+)`", (ROOT / "docs" / "accessibility.md").read_text())
    assert len(named) > 20
    assert [name for file, name in named if f"def {name}(" not in (ROOT / "tests" / file).read_text()] == []


def test_every_setting_is_documented_and_every_documented_setting_exists() -> None:
    read = set(re.findall(r'"(ADKWEB_\w+)"', (ROOT / "adkweb" / "environment.py").read_text()))
    told = set(re.findall(r"^\| `(ADKWEB_\w+)`", (ROOT / "docs" / "settings.md").read_text(), re.MULTILINE))
    assert told == read


def options_of(parser: ArgumentParser) -> set[str]:
    """The options of a command, and of its parts (`adkweb token create`)."""
    found = {option for action in parser._actions for option in action.option_strings}
    parts = [
        part for action in parser._actions if isinstance(action, _SubParsersAction) for part in action.choices.values()
    ]
    return found.union(*map(options_of, parts))


def test_every_command_is_documented_with_its_options() -> None:
    page = (ROOT / "docs" / "settings.md").read_text()
    own = [name for name, app in get_commands().items() if app == "sessions_app"]
    assert own
    for name in own:
        shown = r"adkweb \[SOURCE …\]" if name == "serve" else rf"adkweb {name}[ `]"
        (line,) = re.findall(rf"^\| `{shown}.*$", page, re.MULTILINE)
        options = load_command_class("sessions_app", name).create_parser("adkweb", name)
        builtin = BaseCommand().create_parser("adkweb", name)
        if name == "migrate":  # the other options are for whoever writes a migration
            builtin = load_command_class("django.core", name).create_parser("adkweb", name)
        mine = options_of(options) - options_of(builtin) | ({"--check"} if name == "migrate" else set())
        assert set(re.findall(r"(?<![\w-])--?[a-z][\w-]*", line)) == mine, name


def test_the_edit_that_the_docs_show_is_the_edit_that_is_written() -> None:
    (block,) = re.findall(r"```json\n(.*?)```", (ROOT / "docs" / "edits.md").read_text(), re.DOTALL)
    shown = json.loads(block)
    check_event(shown)
    assert shown["actions"].keys() <= ACTION_FIELDS
    reason = shown["custom_metadata"]["adkweb"]["reason"]
    written, _seen = state_event([Entry("user:tier", "gold", "silver")], Actor.holding("maria", "admin"), reason)
    for name in ("author", "custom_metadata"):
        assert written[name] == shown[name]
    assert written["actions"]["state_delta"] == shown["actions"]["state_delta"]


def test_the_readme_shows_the_targets_of_the_makefile() -> None:
    targets = set(re.findall(r"^(\w[\w-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    shown = set(re.findall(r"^make ([\w-]+)", (ROOT / "README.md").read_text(), re.MULTILINE))
    assert {"run", "test"} <= shown <= targets


def test_ci_runs_what_the_readme_says() -> None:
    assert (ROOT / ".ci" / "run").read_text().splitlines()[-1] == "make test"
