"""Gathers what is to be translated from code and templates into the catalogues, and compiles them: `make messages`.

A translation stays as long as its words are used. Nothing here needs gettext's tools, and a second run changes nothing.
"""

import ast
from collections.abc import Iterable, Iterator, Mapping
from io import BytesIO
from pathlib import Path
from typing import Final

import polib
from babel.messages.extract import extract_python
from django.utils.translation.template import templatize

ROOT: Final = Path(__file__).resolve().parent.parent
LOCALE: Final = ROOT / "sessions_app" / "locale"
PLURAL_FORMS: Final = {
    "en": "nplurals=2; plural=(n != 1);",
    "es": "nplurals=2; plural=(n != 1);",
    "ko": "nplurals=1; plural=0;",
}
_ARGUMENTS: Final = {
    "gettext": ("msgid",),
    "ngettext": ("msgid", "msgid_plural"),
    "pgettext": ("msgctxt", "msgid"),
    "npgettext": ("msgctxt", "msgid", "msgid_plural"),
}
_FUNCTIONS: Final = {"_": ("msgid",), **_ARGUMENTS, **{f"{name}_lazy": names for name, names in _ARGUMENTS.items()}}

Key = tuple[str, str]  # the words and their context: what tells one entry from another
Fields = dict[str, str]  # msgid, and where there is one msgid_plural and msgctxt


def key_of(entry: polib.POEntry) -> Key:
    """What the entry is found by."""
    return entry.msgid, entry.msgctxt or ""


def gather() -> dict[Key, polib.POEntry]:
    """Everything that is to be translated, in order, each with the files it stands in."""
    found: dict[Key, polib.POEntry] = {}
    for file in sorted([*ROOT.glob("sessions_app/**/*.py"), *ROOT.glob("templates/**/*.html")]):
        text, place = file.read_text("utf-8"), (file.relative_to(ROOT).as_posix(), "")
        for fields in _in_template(text) if file.suffix == ".html" else _in_code(text):
            new = polib.POEntry(**fields)
            entry = found.setdefault(key_of(new), new)
            if entry.msgid_plural != new.msgid_plural:
                raise ValueError(f"{place[0]}: “{new.msgid}” has another plural elsewhere, or none")
            if place not in entry.occurrences:
                entry.occurrences.append(place)
    return dict(sorted(found.items()))


def _in_code(text: str) -> Iterator[Fields]:
    """What Python code passes to gettext and its kin, inside f-strings too, and the docstrings that errors show."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            yield from _fields(node.func.id, [getattr(argument, "value", None) for argument in node.args])
        elif isinstance(node, ast.ClassDef) and "Error" in {node.name, *(getattr(b, "id", "") for b in node.bases)}:
            yield from _fields("_", [ast.get_docstring(node)])


def _in_template(text: str) -> Iterator[Fields]:
    """What {% translate %}, {% blocktranslate %} and _("…") hold, which Django spells as calls of gettext."""
    calls = f"({templatize(text)})"  # within parentheses, Python does not mind how HTML is indented
    for _line, name, words, _comments in extract_python(BytesIO(calls.encode()), _FUNCTIONS, [], {}):
        yield from _fields(name, [words] if isinstance(words, str) else words)


def _fields(function: str, arguments: Iterable[object]) -> Iterator[Fields]:
    fields = dict(zip(_FUNCTIONS.get(function, ()), arguments, strict=False))
    if isinstance(fields.get("msgid"), str):
        yield {name: value for name, value in fields.items() if isinstance(value, str)}


def catalogue(language: str, words: Mapping[Key, polib.POEntry], known: Iterable[polib.POEntry]) -> polib.POFile:
    """The words with the translations that are known already."""
    translated = {key_of(entry): entry for entry in known if not entry.obsolete}
    made = polib.POFile(wrapwidth=100)
    made.header = "Translate here, then run `make messages`."
    made.metadata = {
        "Language": language,
        "MIME-Version": "1.0",
        "Content-Type": "text/plain; charset=UTF-8",
        "Content-Transfer-Encoding": "8bit",
        "Plural-Forms": PLURAL_FORMS[language],
    }
    for key, found in words.items():
        entry = polib.POEntry(
            **{name: getattr(found, name) for name in ("msgid", "msgid_plural", "msgctxt", "occurrences")}
        )
        before = translated.get(key, entry)
        entry.flags = [flag for flag in before.flags if flag == "fuzzy"] + ["python-format"] * ("%(" in entry.msgid)
        entry.tcomment = before.tcomment
        if not entry.msgid_plural:
            entry.msgstr = before.msgstr
        elif language == "en":
            entry.msgstr_plural = {0: entry.msgid, 1: entry.msgid_plural}
        else:
            forms = int(PLURAL_FORMS[language].partition("=")[2].partition(";")[0])
            entry.msgstr_plural = {form: before.msgstr_plural.get(form, "") for form in range(forms)}
        made.append(entry)
    return made


def main() -> None:
    """Writes every catalogue and its compiled form, and says what is left to translate."""
    words = gather()
    for language in PLURAL_FORMS:
        file = LOCALE / language / "LC_MESSAGES" / "django.po"
        file.parent.mkdir(parents=True, exist_ok=True)
        made = catalogue(language, words, polib.pofile(str(file)) if file.exists() else [])
        made.save(str(file), newline="\n")
        made.save_as_mofile(str(file.with_suffix(".mo")))
        left = 0 if language == "en" else len(made.untranslated_entries()) + len(made.fuzzy_entries())
        print(f"{language}: {len(made)} entries, {left} to translate")


if __name__ == "__main__":
    main()
