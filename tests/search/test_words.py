"""Tests of words: which are the same, and which stand in which."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions_app.search import lines, vocabulary
from sessions_app.search.index import read
from sessions_app.search.words import LONGEST, asked, folded, has_parts, is_part, spans, tokens, where_in
from tests.strategies import MANY

WORDS: Final[list[tuple[str, list[str]]]] = [
    ("", []),
    (" \t\n\0 …!?", []),
    ("Fare expired!", ["fare", "expired"]),
    ("Q-88213", ["q", "88213"]),
    ("nadia.kim@example.com", ["nadia", "kim", "example", "com"]),
    ("user:tier_level=5.5", ["user", "tier_level", "5", "5"]),
    ("don't", ["don", "t"]),
    # case, accents, forms of letters
    ("CAFÉ café cafe\u0301", ["cafe", "cafe", "cafe"]),
    ("Straße STRASSE", ["strasse", "strasse"]),
    ("İstanbul ISTANBUL", ["istanbul", "istanbul"]),
    ("ﬁne ½ ２４ ㈜대한", ["fine", "1", "2", "24", "주", "대한"]),
    ("ｶﾞｽ", ["ガス", "ス"]),
    ("Ångström naïve Čeština", ["angstrom", "naive", "cestina"]),
    # scripts with spaces
    ("서울행 항공권을 예약했어요", ["서울행", "항공권을", "예약했어요"]),
    ("تذكرة الطيران", ["تذكرة", "الطيران"]),
    ("Привет мир", ["привет", "мир"]),
    ("हिन्दी में", ["हिन्दी", "में"]),
    ("שלום", ["שלום"]),
    # scripts without, in pairs
    ("机票已过期", ["机票", "票已", "已过", "过期", "期"]),
    ("票", ["票"]),
    ("運賃の期限", ["運賃", "賃の", "の期", "期限", "限"]),
    ("KE924机票OK", ["ke924", "机票", "票", "ok"]),
    ("ตั๋ว", ["ตั", "ั๋", "๋ว", "ว"]),
    # pictures are words
    ("💳paid👍🏽", ["💳", "paid", "👍", "🏽"]),
    ("a" * 130, ["a" * 64, "a" * 64, "aa"]),
]


@pytest.mark.parametrize(("text", "words"), WORDS, ids=range(len(WORDS)))
def test_a_text_is_cut_into_the_words_of_the_table(text: str, words: list[str]) -> None:
    assert tokens(text) == words


def test_a_text_that_is_looked_for_may_go_on() -> None:
    assert asked("机票") == ["机票"]
    assert asked("票") == ["票"]
    assert asked("机票已") == ["机票", "票已"]
    assert asked("fare exp") == ["fare", "exp"]
    assert asked("KE924机票") == ["ke924", "机票"]


FINDS: Final[list[tuple[str, str]]] = [
    ("fare", "airfare expired"),
    ("are expi", "The fare expired"),
    ("FARE EXP", "airfare, expired"),
    ("ex", "expired"),
    ("cafe", "Café añejo"),
    ("anejo", "Café añejo"),
    ("기", "위기가"),
    ("机票", "我的机票已经"),
    ("票已经", "我的机票已经过期"),
    ("الطي", "تذكرة الطيران"),
    ("💳", "paid by💳"),
    ("88213", "quote Q-88213"),
    ("q-88213", "quote Q-88213"),
    ("7f3a9c", "7f3a9c4d5e6f7a8b"),
    ("quote q-8", "quote Q-88213"),
]
FINDS_NOT: Final[list[tuple[str, str]]] = [
    ("fare expired", "expired fare"),
    ("fare expired", "fare was expired"),
    ("xp", "expired"),
    ("far expired", "fare expired"),
    ("机期", "机票过期"),
    ("9c4d5e", "7f3a9c4d5e6f7a8b"),
    ("...", "..."),
    ("", "expired"),
]


@pytest.mark.parametrize(("term", "line"), FINDS, ids=range(len(FINDS)))
def test_words_stand_in_a_line(term: str, line: str) -> None:
    assert where_in(asked(term), tokens(line)) is not None


@pytest.mark.parametrize(("term", "line"), FINDS_NOT, ids=range(len(FINDS_NOT)))
def test_words_do_not_stand_in_a_line(term: str, line: str) -> None:
    assert where_in(asked(term), tokens(line)) is None


def test_short_words_and_ids_are_only_found_from_their_beginning() -> None:
    assert [is_part(word) for word in ("a", "ab", "abc", "가")] == [False, False, True, True]
    assert [has_parts(word) for word in ("abcdefghijkl", "abcdefghij1", "abcdefghijk1")] == [True, True, False]


SPANS: Final[list[tuple[str, list[tuple[str, str]]]]] = [
    ("Fare Expired!", [("fare", "Fare"), ("expired", "Expired")]),
    ("CAFÉ cafe\u0301.", [("cafe", "CAFÉ"), ("cafe", "cafe\u0301")]),
    ("机票过 x", [("机票", "机票"), ("票过", "票过"), ("过", "过"), ("x", "x")]),
    ("ﬁne Straße", [("fine", "ﬁne"), ("strasse", "Straße")]),
    ("💳 서울", [("💳", "💳"), ("서울", "서울")]),
    ("㈜대한", [("주", "㈜"), ("대한", "대한")]),
    ("aｶﾞｽ", [("a", "a"), ("ガス", "ｶﾞｽ"), ("ス", "ｽ")]),
]


@pytest.mark.parametrize(("text", "spanned"), SPANS, ids=range(len(SPANS)))
def test_each_word_says_where_it_stands(text: str, spanned: list[tuple[str, str]]) -> None:
    assert [(word, text[start:end]) for word, start, end in spans(text)] == spanned


letters = st.text(
    st.sampled_from("aB1é\u0301ﬁß½İǅ기機票のบั💳🏽 -._'\\\0\u0939\u093f\u094d\u2028あｶ\uff9e\u1100\u1161"), max_size=12
)


@MANY
@given(letters | st.text(max_size=20))
def test_the_words_of_any_text_are_those_of_its_spans_in_order(text: str) -> None:
    assert [word for word, _start, _end in spans(text)] == tokens(text)
    assert all(0 <= start < end <= len(text) for _word, start, end in spans(text))
    assert all(0 < len(word) <= LONGEST and word == folded(word) for word in tokens(text))
    assert not {"'", "\\"} & set("".join(tokens(text)))  # which would be signs in a tsvector


@MANY
@given(letters, letters, letters)
def test_a_part_that_begins_with_a_word_is_found_in_the_whole(before: str, part: str, after: str) -> None:
    line = f"{before} {part} {after}"
    if asked(part):
        assert where_in(asked(part), tokens(line)) is not None


def test_a_long_text_is_cut_in_linear_time() -> None:
    for text in ("a" * 10**6, "é" * 10**6, "票" * 10**6, "\u0301" * 10**6, " " * 10**6, "a " * 500_000):
        began = time.process_time()
        tokens(text)
        assert time.process_time() - began < 5
    assert sys.getrecursionlimit() < 10**6


def test_the_page_names_the_limits_of_the_code() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "search.md").read_text()
    for limit in (
        f"first {lines.LENGTH:,} characters of a line",
        f"first {lines.MOST_LINES:,} lines of an event",
        f"more than {vocabulary.MOST:,} different words",
        f"first {read.OVERLAP:,} words of a phrase",
    ):
        assert limit in page, limit
