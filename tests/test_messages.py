"""Every word that a person reads is translated: into English, Spanish and Korean, and nothing is left out of it."""

import re
from html.parser import HTMLParser

import polib
import pytest
from django.test import Client
from django.utils.translation import gettext, ngettext, override

from tests.messages import LOCALE, PLURAL_FORMS, ROOT, Key, catalogue, gather, key_of

TRANSLATED = ("es", "ko")
TEMPLATES = sorted(ROOT.glob("templates/**/*.html"))
PLACEHOLDER = re.compile(r"%\(\w+\)s|\{\w+\}")
ADK_TERM = re.compile(r"(?<![(\w])(?:--[\w-]+|(?:user|app|temp):|\w+_\w+)")


def stored(language: str) -> polib.POFile:
    """The catalogue as it is committed."""
    return polib.pofile(str(LOCALE / language / "LC_MESSAGES" / "django.po"), wrapwidth=100)


def forms(entry: polib.POEntry) -> list[str]:
    """The entry's translations: one, or one for each plural form."""
    return list(entry.msgstr_plural.values()) if entry.msgid_plural else [entry.msgstr]


@pytest.fixture(params=PLURAL_FORMS)
def language(request: pytest.FixtureRequest) -> str:
    """Each language."""
    return str(request.param)


@pytest.fixture(params=TRANSLATED)
def entries(request: pytest.FixtureRequest) -> polib.POFile:
    """Each catalogue that is translated."""
    return stored(request.param)


@pytest.fixture(scope="session")
def words() -> dict[Key, polib.POEntry]:
    """Everything that is to be translated."""
    return gather()


# --- Catalogues -------------------------------------------------------------------------------------------------------


def test_catalogues_hold_the_words_in_use_and_no_others(language: str, words: dict[Key, polib.POEntry]) -> None:
    kept = stored(language)
    assert [key_of(entry) for entry in kept] == list(words), "run `make messages`"
    assert str(catalogue(language, words, kept)) == str(kept), "run `make messages`"


def test_compiled_catalogues_are_those_of_the_texts(language: str) -> None:
    compiled = LOCALE / language / "LC_MESSAGES" / "django.mo"
    assert compiled.read_bytes() == stored(language).to_binary(), "run `make messages`"


def test_everything_is_translated(entries: polib.POFile) -> None:
    assert [e.msgid for e in entries if e.fuzzy or not all(forms(e))] == []


def test_placeholders_survive_translation(entries: polib.POFile) -> None:
    changed = [
        (entry.msgid, form)
        for entry in entries
        for form in forms(entry)
        if sorted(PLACEHOLDER.findall(form)) != sorted(PLACEHOLDER.findall(entry.msgid))
    ]
    assert changed == []


def test_adk_terms_and_options_stay_as_they_are(entries: polib.POFile) -> None:
    lost = [
        (entry.msgid, term)
        for entry in entries
        for term in ADK_TERM.findall(entry.msgid)
        if not all(term in form for form in forms(entry))
    ]
    assert lost == []


def test_translations_can_stand_in_an_attribute(entries: polib.POFile) -> None:
    assert [form for entry in entries for form in forms(entry) if set('"<>&') & set(form)] == []


@pytest.mark.parametrize(
    ("language", "one", "many"),
    [
        ("en", "1 event", "5 events"),
        ("es", "1 evento", "5 eventos"),
        ("ko", "이벤트 1개", "이벤트 5개"),
    ],
)
def test_plurals(language: str, one: str, many: str) -> None:
    with override(language):
        shown = [ngettext("%(n)s event", "%(n)s events", n) % {"n": n} for n in (1, 5)]
    assert shown == [one, many]


@pytest.mark.parametrize(("language", "word"), [("en", "Sign in"), ("es", "Iniciar sesión"), ("ko", "로그인")])
@pytest.mark.django_db
def test_a_page_speaks_the_browsers_language(client: Client, language: str, word: str) -> None:
    page = client.get("/sign-in/", headers={"accept-language": language}).content.decode()
    assert f'<html lang="{language}">' in page
    assert f"<h1>{word}</h1>" in page
    with override(language):
        assert gettext("Sign in") == word


def test_the_json_editor_is_given_all_its_words() -> None:
    words = (ROOT / "frontend" / "json-check.js").read_text("utf-8").partition("WORDS = {")[2].partition("\n};")[0]
    needed = set(re.findall(r'^  "?([\w-]+)"?:', words, re.MULTILINE)) - {"true", "false", "null"}  # JSON's own words
    given = (ROOT / "templates" / "html" / "_editor_words.html").read_text("utf-8")
    assert set(re.findall(r'data-word-([\w-]+)="\{% translate ', given)) == needed


# --- Templates --------------------------------------------------------------------------------------------------------

MARKED = re.compile(
    r"\{#.*?#\}|\{% blocktranslate\b.*?\{% endblocktranslate %\}|\{% comment\b.*?\{% endcomment %\}", re.DOTALL
)
TAG = re.compile(r"\{%.*?%\}|\{\{.*?\}\}", re.DOTALL)
LITERAL = re.compile(r'\|(?:default|default_if_none|yesno|pluralize|add):"([^"]*)"')
WORD = re.compile(r"[^\W\d_]{2,}")
ATTRIBUTE = re.compile(r"\bdata-[\w-]+")  # a fragment or a block may hold a tag's attributes alone
NAMES = {"adkweb", "adk", "web", "SQLite", "PostgreSQL"}
READ_ALOUD = re.compile(
    r"placeholder|title|alt|aria-(?:label|description|roledescription|valuetext)|data-label|data-copied|data-word-.*"
)


class _Reader(HTMLParser):
    """Collects what a person reads: text outside code, and the attributes that are shown or read aloud."""

    def __init__(self) -> None:
        super().__init__()
        self.words: list[str] = []
        self._code = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._code += tag in ("pre", "code", "kbd", "script", "style")
        for name, value in attrs:
            if READ_ALOUD.fullmatch(name):
                self.read(value or "")

    def handle_endtag(self, tag: str) -> None:
        self._code -= tag in ("pre", "code", "kbd", "script", "style")

    def handle_data(self, data: str) -> None:
        if not self._code:
            self.read(data)

    def read(self, text: str) -> None:
        self.words += [word for word in WORD.findall(ATTRIBUTE.sub("", text)) if word not in NAMES]


def unmarked(template: str) -> list[str]:
    """The words of a template that would be shown untranslated."""
    left = MARKED.sub("", template)
    reader = _Reader()
    for literal in LITERAL.findall(left):
        reader.read(literal)
    reader.feed(TAG.sub(" ", left))
    reader.close()
    return reader.words


def test_no_word_of_a_template_is_left_unmarked() -> None:
    left = {str(file.relative_to(ROOT)): unmarked(file.read_text("utf-8")) for file in TEMPLATES}
    assert {file: words for file, words in left.items() if words} == {}


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ('<a title="{% translate "Open" %}">{% translate "Open" %} <kbd>esc</kbd></a>{# note #}', []),
        ("<b>{% blocktranslate count n=n trimmed %}{{ n }} key{% plural %}{{ n }} keys{% endblocktranslate %}</b>", []),
        ("<pre>adk web agents</pre> · adkweb on SQLite", ["on"]),
        ('<p>{{ n }} keys</p><input placeholder="Name">', ["keys", "Name"]),
        ('{{ author|default:"nobody" }}{{ number|default:"–" }}', ["nobody"]),
    ],
)
def test_unmarked_words_are_found(template: str, words: list[str]) -> None:
    assert unmarked(template) == words
