"""The words that the glossary rules out are used nowhere: not as names in code, not in the interface, not in the docs.

`glossary_exceptions.txt` names the files that still use one. A line that is no longer needed fails, so it only gets shorter.
"""

import ast
import re
from collections.abc import Iterator
from fnmatch import filter as filter_names
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

import pytest

ROOT: Final = Path(__file__).resolve().parent.parent
EXCEPTIONS: Final = ROOT / "tests" / "glossary_exceptions.txt"
MOST_WORDS: Final = 30  # of a table
GENERAL: Final = {"found"}  # ruled out for everything, by the sentence below the table
INTERFACE: Final = "interface"


class Word(NamedTuple):
    """A row of one of the glossary's tables."""

    word: str
    meaning: str
    example: str
    names: list[str]  # patterns of names in code
    phrases: list[str]  # for people


@cache
def tables() -> list[list[Word]]:
    """The words of things, and the names in the interface."""
    text = (ROOT / "docs" / "glossary.md").read_text()
    tables = re.findall(r"^\| .*\n\| --- .*\n((?:\| .*\n)+)", text, re.MULTILINE)
    return [[_word(line) for line in table.splitlines()] for table in tables]


def _word(line: str) -> Word:
    word, meaning, example, rest = re.split(r" \| ", line.strip("| "))
    return Word(word, meaning, example, re.findall(r"`([^`]+)`", rest), re.findall(r"“([^”]+)”", rest))


def glossary() -> list[Word]:
    return [row for table in tables() for row in table]


# --- What is looked through -------------------------------------------------------------------------------------------


def python_names(source: str) -> Iterator[str]:
    """The names that a module itself gives: to variables, parameters, attributes, functions and classes."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name


def script_names(source: str) -> Iterator[str]:
    """The names that a script gives to variables, functions and classes."""
    yield from re.findall(r"\b(?:const|let|function|class)\s+(\w+)", source)


def prose(page: str) -> str:
    """The sentences of a page, without code."""
    page = re.sub(r"```.*?```", "", page, flags=re.DOTALL)
    return re.sub(r"`[^`\n]*`", "", page)


def messages() -> str:
    """Every sentence of the interface, in English; not what somebody may type instead of adkweb's words."""
    catalogue = (ROOT / "sessions_app/locale/es/LC_MESSAGES/django.po").read_text()
    blocks = re.findall(r'(?<!^msgctxt "other words"\n)^msgid (?:".*"\n)+', catalogue, re.M)
    return "\n\n".join("".join(re.findall(r'"(.*)"', block)) for block in blocks)


def used_names(path: str, source: str) -> set[str]:
    """The names of a file: its own and those in it. A leading underscore is no part of a word."""
    names = python_names(source) if path.endswith(".py") else script_names(source)
    return {Path(path).stem.lstrip("_"), *(name.strip("_") for name in names)}


def words_of(path: str, source: str) -> set[str]:
    """What a file uses of the words that are ruled out: patterns of names, or phrases."""
    if path.endswith((".py", ".js")):
        patterns = {pattern for row in glossary() for pattern in row.names} | GENERAL
        names = used_names(path, source)
        names |= {name.lower() for name in names if name.isupper()}
        return {pattern for pattern in patterns if filter_names(names, pattern)}
    text = " ".join(source.split())
    return {
        phrase for row in glossary() for phrase in row.phrases if re.search(rf"\b{re.escape(phrase)}s?\b", text, re.I)
    }


@cache
def uses() -> dict[str, set[str]]:
    """By file, what it uses of the words that are ruled out."""
    files = {
        path.relative_to(ROOT).as_posix(): path.read_text()
        for folder, ending in (("sessions_app", "py"), ("adkweb", "py"), ("tests", "py"), ("static/js", "js"))
        for path in sorted((ROOT / folder).rglob(f"*.{ending}"))
        if "migrations" not in path.parts
    }
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    texts = {page.relative_to(ROOT).as_posix(): prose(page.read_text()) for page in pages if page.name != "glossary.md"}
    found = {path: words_of(path, text) for path, text in {**files, **texts, INTERFACE: messages()}.items()}
    return {path: words for path, words in found.items() if words}


def exceptions() -> dict[str, set[str]]:
    """By file, the words that it may use for now."""
    lines = (line.partition(": ") for line in EXCEPTIONS.read_text().splitlines() if not line.startswith("#"))
    return {path: set(words.split(", ")) for path, _colon, words in lines if path}


# --- The promises -----------------------------------------------------------------------------------------------------


def test_the_glossary_has_few_words_each_with_a_meaning_and_an_example() -> None:
    assert len(tables()) == 2
    assert [table for table in tables() if not 15 <= len(table) <= MOST_WORDS] == []
    words = [row.word for row in glossary()]
    assert len(set(words)) == len(words)
    assert [row.word for row in glossary() if not (row.meaning and row.example and (row.names or row.phrases))] == []


def test_no_word_stands_for_two_things() -> None:
    ruled_out = [word for row in glossary() for word in (*row.names, *row.phrases)]
    assert len(set(ruled_out)) == len(ruled_out)
    assert {row.word for row in glossary()} & set(ruled_out) == set()


def test_no_file_uses_a_word_that_the_glossary_rules_out() -> None:
    allowed = exceptions()
    assert {
        path: sorted(words - allowed.get(path, set()))
        for path, words in uses().items()
        if words - allowed.get(path, set())
    } == {}


def test_every_exception_is_still_needed() -> None:
    used = uses()
    assert {
        path: sorted(words - used.get(path, set()))
        for path, words in exceptions().items()
        if words - used.get(path, set())
    } == {}, "take these out of tests/glossary_exceptions.txt: the files do not use them"


@pytest.mark.parametrize(
    ("path", "source", "words"),
    [
        ("a.py", "def f(session_key): ...", {"session_key"}),
        ("a.py", "class SessionKey: ...", {"SessionKey"}),
        ("a.py", "for place in rows: ...", {"place"}),
        ("a.py", "self._place = 1", {"place"}),
        ("a.py", "_FIRST_PLACE = 1", {"*_place"}),
        ("a.py", "found = [place for _ in x]", {"found"}),
        ("place.py", "", {"place"}),
        ("a.py", "raise NotFound; replace = displaced = 1", set()),
        ("a.js", "const place = 1", {"place"}),
        ("a.md", "Reverts, and out of\nsync.", {"revert", "out of sync"}),
        ("a.md", prose("`revert`\n```\nrevert\n```"), set()),
    ],
)
def test_a_word_that_is_ruled_out_is_seen_wherever_it_stands(path: str, source: str, words: set[str]) -> None:
    assert words_of(path, source) == words


if __name__ == "__main__":  # prints the exceptions that are needed; only to take lines away
    for path, words in sorted(uses().items()):
        print(f"{path}: {', '.join(sorted(words))}")
