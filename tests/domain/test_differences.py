"""Differences of texts and of JSON values: nothing is lost or invented, and no value takes long."""

import copy
import json
import time
import unicodedata
from collections import defaultdict
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions_app.domain.differences import Piece, Place, places, words
from sessions_app.domain.json_values import equal
from sessions_app.domain.state import ABSENT
from tests.strategies import TEXTS, json_values, nested

SECONDS = 2.0  # half a second here; what grows with the square would take minutes
MEGABYTE = 1_000_000

# Texts that have much in common, of every script, with halves of surrogate pairs as SQLite may hold them.
_bits = st.sampled_from(
    [
        *TEXTS,
        "a ",
        "b ",
        "the ",
        "\n",
        "  ",
        ",",
        "日",
        "本",
        "é",
        "e\u0301",
        "\u0301",
        "\u200d",
        "\ud83d",
        "\udc69",
        "🇰🇷",
    ]
)
texts = st.lists(_bits | st.text(max_size=3), max_size=30).map("".join)


def joined(pieces: list[Piece], *kinds: str) -> str:
    return "".join(piece.text for piece in pieces if piece.kind in kinds)


def told(pieces: list[Piece]) -> str:
    """Pieces as one text: [-removed-]{+added+}."""
    marks = {"kept": "%s", "removed": "[-%s-]", "added": "{+%s+}"}
    return "".join(marks[piece.kind] % piece.text for piece in pieces)


# --- Texts ------------------------------------------------------------------------------------------------------------


@given(texts, texts)
def test_what_is_kept_and_removed_is_the_old_text_and_what_is_kept_and_added_the_new_one(old: str, new: str) -> None:
    pieces = words(old, new)
    assert joined(pieces, "kept", "removed") == old
    assert joined(pieces, "kept", "added") == new


@given(texts, texts)
def test_pieces_are_as_few_as_they_can_be_and_what_is_removed_stands_first(old: str, new: str) -> None:
    pieces = words(old, new)
    assert all(piece.text for piece in pieces)
    allowed = {("kept", "removed"), ("kept", "added"), ("removed", "added"), ("removed", "kept"), ("added", "kept")}
    assert set(pairwise(piece.kind for piece in pieces)) <= allowed


@given(texts)
def test_a_text_does_not_differ_from_itself(text: str) -> None:
    assert joined(words(text, text), "removed", "added") == ""


@given(texts, texts)
def test_no_character_is_parted_from_its_marks(old: str, new: str) -> None:
    for before, after in pairwise(words(old, new)):
        ends_a_line = before.text[-1] in "\r\n\x1c\x1d\x1e\x85\u2028\u2029"
        marked = unicodedata.category(after.text[0])[0] == "M" or "\u200d" in (before.text[-1], after.text[0])
        beside = before.kind != "removed" or after.kind != "added"  # the two do not follow each other in any text
        assert not (marked and beside and before.text[-1].isalpha()) or ends_a_line


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("gold", "silver", "[-gold-]{+silver+}"),
        ("foo", "foo bar", "foo{+ bar+}"),
        ("", "new", "{+new+}"),
        ("A flight to Seoul.", "A flight to Busan.", "A flight to [-Seoul-]{+Busan+}."),
        ("Book a seat, please.", "Book two seats, please.", "Book [-a seat-]{+two seats+}, please."),
        ("one\ntwo\nthree\n", "one\nthree\nfour\n", "one\n[-two\n-]three\n{+four\n+}"),
        ("今日は良い天気", "明日は良い天気です", "[-今-]{+明+}日は良い天気{+です+}"),
        ("ฉันรักแมว", "ฉันรักหมา", "ฉันรัก[-แ-]{+ห+}ม[-ว-]{+า+}"),
        ("नमस्ते दुनिया", "नमस्ते भारत", "नमस्ते [-दुनिया-]{+भारत+}"),
        ("שלום עולם טוב", "שלום ירח טוב", "שלום [-עולם-]{+ירח+} טוב"),
        ("hi 👩🏽\u200d🚀 there", "hi 👩🏻\u200d🚀 there", "hi [-👩🏽\u200d🚀-]{+👩🏻\u200d🚀+} there"),
        ("to 🇰🇷 now", "to 🇰🇵 now", "to [-🇰🇷-]{+🇰🇵+} now"),
        ("the cafe\u0301 here", "the cafe here", "the [-cafe\u0301-]{+cafe+} here"),
        ("one two three four five", "the answer is three", "[-one two three four five-]{+the answer is three+}"),
    ],
)
def test_words_are_compared_as_a_person_reads_them(old: str, new: str, expected: str) -> None:
    assert told(words(old, new)) == expected


def test_in_a_long_text_only_what_changed_is_marked() -> None:
    lines = [f"Line {n} of the transcript.\n" for n in range(20_000)]
    new = [*lines[:500], "Line 500 of a transcript.\n", *lines[501:], "The end.\n"]
    found = [piece for piece in words("".join(lines), "".join(new)) if piece.kind != "kept"]
    assert told(found) == "[-the-]{+a+}{+The end.\n+}"


@pytest.mark.parametrize("count", [20, 1_000, 5_000])
def test_in_a_long_paragraph_only_the_words_that_changed_are_marked(count: int) -> None:
    old = [f"{('the', 'of', 'a')[n % 3] if n % 2 else 'word' * (n % 7)}," for n in range(count)]
    new = [f"changed{n}" if n % 20 == 10 else each for n, each in enumerate(old)]
    assert told(words(" ".join(old), " ".join(new))).count("[-") == count // 20
    assert told(words(" ".join(old[1:]), " ".join(old))) == f"{{+{old[0]} +}}{' '.join(old[1:])}"


def test_in_a_transcript_with_many_changes_no_line_between_them_is_marked() -> None:
    old = [f"Line {n}.\n" for n in range(30_000)]
    new = [each.replace("Line", "Row") if n % 100 == 50 else each for n, each in enumerate(old)]
    assert told(words("".join(old), "".join(new))) == "".join(
        f"[-Line-]{{+Row+}} {n}.\n" if n % 100 == 50 else each for n, each in enumerate(old)
    )


def test_blanks_alone_are_not_what_two_texts_have_in_common() -> None:
    same = "and so it goes on and on "
    assert told(words(f"{same}a b c d", f"{same}e f g h")) == f"{same}[-a b c d-]{{+e f g h+}}"
    assert told(words("a\n\nb\n\nc\nd", "e\n\nf\n\ng\nd")) == "[-a\n\nb\n\nc\n-]{+e\n\nf\n\ng\n+}d"


# --- JSON values ------------------------------------------------------------------------------------------------------


def applied(old: Any, rows: list[Place]) -> Any:
    """The old value with what the rows say done to it, one list or object after the other from the top."""
    top = {"value": copy.deepcopy(old)}
    by_parent: dict[tuple[str | int, ...], list[Place]] = defaultdict(list)
    for row in rows:
        path = ("value", *row.path)
        by_parent[path[:-1]].append(row._replace(path=path))
    for parent in sorted(by_parent, key=len):
        holder: Any = top
        for step in parent:
            holder = holder[step]
        _apply_to(holder, by_parent[parent])
    return top["value"]


def _apply_to(holder: Any, rows: list[Place]) -> None:
    removed = [row for row in rows if row.new is ABSENT]
    for row in sorted(removed, key=lambda row: row.path[-1] if isinstance(holder, list) else 0, reverse=True):
        assert equal(holder[row.path[-1]], row.old)
        del holder[row.path[-1]]
    for row in rows:
        if row.new is ABSENT:
            continue
        step, value = row.path[-1], copy.deepcopy(row.new)
        if row.old is ABSENT and isinstance(holder, list):
            holder.insert(step, value)
        else:
            assert equal(holder[step], row.old) if row.old is not ABSENT else step not in holder
            holder[step] = value


def edited(value: Any) -> st.SearchStrategy[Any]:
    """Values that have much in common with one."""
    if isinstance(value, list):
        pieces = st.lists(
            st.sampled_from([[item] for item in value] or [[]]) | json_values.map(lambda v: [v]), max_size=6
        )
        return pieces.map(lambda lists: [item for items in lists for item in items])
    if isinstance(value, dict):
        return st.tuples(st.sets(st.sampled_from(sorted(value) or [""])), st.dictionaries(st.text(), json_values)).map(
            lambda given: {**{k: v for k, v in value.items() if k not in given[0]}, **given[1]}
        )
    return json_values


pairs = json_values.flatmap(lambda old: st.tuples(st.just(old), edited(old) | json_values))
# Two lists of the same few items, in any order.
few = st.lists(st.integers(0, 3) | st.lists(st.integers(0, 2), max_size=3), max_size=12)


def removals_last_to_first(rows: list[Place]) -> None:
    """Of one list, removals and insertions stand in the order of their places."""
    for kept in ("old", "new"):
        seen: dict[tuple[str | int, ...], int] = {}
        for row in rows:
            if row.path and isinstance(row.path[-1], int) and getattr(row, kept) is ABSENT:
                assert seen.get(row.path[:-1], -1) < row.path[-1]
                seen[row.path[:-1]] = row.path[-1]


@given(pairs | st.tuples(few, few))
def test_the_places_applied_to_the_old_value_give_the_new_one(pair: tuple[Any, Any]) -> None:
    found = places(*pair, limit=10**9)
    assert found.more == 0
    removals_last_to_first(found.rows)
    assert equal(applied(pair[0], found.rows), pair[1])


@given(json_values)
def test_a_value_differs_nowhere_from_an_equal_one(value: Any) -> None:
    assert places(value, json.loads(json.dumps(value))).rows == []


@given(pairs)
def test_equal_is_what_equal_means_everywhere_else(pair: tuple[Any, Any]) -> None:
    assert bool(places(*pair).rows) != equal(*pair)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (1, 1.0, []),
        (float("nan"), float("nan"), []),
        (1, True, [((), 1, True)]),
        (None, ABSENT, [((), None, ABSENT)]),
        ({"a": 1}, {"a": None}, [(("a",), 1, None)]),
        ({"a": None}, {}, [(("a",), None, ABSENT)]),
        ({"b": 1, "a": 2}, {"a": 2, "b": 1}, []),
        ([1, 2, 3], [0, 1, 2, 3], [((0,), ABSENT, 0)]),
        ([1, 2, 3], [1, 3], [((1,), 2, ABSENT)]),
        ([{"id": 1, "n": 1}], [{"id": 0}, {"id": 1, "n": 1}], [((0,), ABSENT, {"id": 0})]),
        ([{"id": 1, "n": 1}, "x"], [{"id": 1, "n": 2}, "x"], [((0, "n"), 1, 2)]),
        ({"a": {"b": [1]}}, {"a": {"b": {}}}, [(("a", "b"), [1], {})]),
        ([], {}, [((), [], {})]),
    ],
)
def test_places_are_named_as_a_person_would(old: Any, new: Any, expected: list[Any]) -> None:
    assert [tuple(row) for row in places(old, new).rows] == expected


def test_of_a_long_list_only_the_items_that_changed_are_listed() -> None:
    old = list(range(20_000))
    found = places(old, [n for n in old if n % 200])
    assert [row.path for row in found.rows] == [(n,) for n in range(0, 20_000, 200)]


def test_values_of_the_same_hash_differ() -> None:
    assert hash(-1) == hash(-2)
    assert [tuple(row) for row in places([0, -1, 1], [0, -2, 1]).rows] == [((1,), -1, -2)]


def test_places_that_are_not_listed_are_counted() -> None:
    found = places(dict.fromkeys(map(str, range(50)), 1), {}, limit=20)
    assert (len(found.rows), found.more) == (20, 30)


def test_what_is_nested_too_deep_differs_as_a_whole() -> None:
    deep, deeper = nested(300), nested(301)
    assert len(places(deep, deeper).rows) == 1
    assert places(deep, nested(300)).rows == []


# --- Time -------------------------------------------------------------------------------------------------------------

_HOSTILE: dict[str, tuple[str, str]] = {
    "one word": ("a" * MEGABYTE, "b" * MEGABYTE),
    "empty lines": ("\n" * MEGABYTE, "x\n" * (MEGABYTE // 2)),
    "two lines again and again": ("a\nb\n" * (MEGABYTE // 4), "b\nc\n" * (MEGABYTE // 4)),
    "every line moved": ("\n".join(map(str, range(150_000))), "\n".join(map(str, range(150_000, 0, -1)))),
    "a line between each": ("\n".join(map(str, range(150_000))), "\ny\n".join(map(str, range(125_000)))),
    "five long lines of two words": (
        "".join(f"{'a b ' * 49_000}{n}\nkept {n}\n" for n in range(5)),
        "".join(f"{'b a c ' * 33_000}{n}\nkept {n}\n" for n in range(5)),
    ),
    "five long lines of punctuation": (
        "".join(f"{'!?' * 99_000}{n}\nkept {n}\n" for n in range(5)),
        "".join(f"{'?!.' * 66_000}{n}\nkept {n}\n" for n in range(5)),
    ),
    "marks": ("e" + "\u0301" * MEGABYTE, "e" + "\u0302" * MEGABYTE),
    "joiners": ("\u200d" * MEGABYTE, "\u200d" * (MEGABYTE // 2) + "a"),
}


@pytest.mark.parametrize("name", _HOSTILE)
def test_no_text_of_a_megabyte_takes_long(name: str) -> None:
    old, new = _HOSTILE[name]
    pieces, seconds = timed(lambda: words(old, new))
    assert joined(pieces, "kept", "removed") == old
    assert joined(pieces, "kept", "added") == new
    assert seconds < SECONDS


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ([0] * 50_000, [0, 1] * 25_000),
        (list(range(50_000)), list(range(50_000, 0, -1))),
        (
            [[n % 3 for n in range(m, m + 100)] for m in range(500)],
            [[n % 2 for n in range(m, m + 99)] for m in range(500)],
        ),
        ({str(n): [n] for n in range(20_000)}, {str(n): [n, n] for n in range(20_000)}),
    ],
)
def test_no_large_value_takes_long(old: Any, new: Any) -> None:
    found, seconds = timed(lambda: places(old, new))
    assert found.rows
    assert seconds < SECONDS


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """The answer, and the processor's time that it took: other processes do not count."""
    start = time.process_time()
    answer = work()
    return answer, time.process_time() - start
