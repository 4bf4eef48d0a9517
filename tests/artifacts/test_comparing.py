"""Two versions compared: the lines of a comparison make up both texts, whatever these are, and it costs little."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions_app.access.actor import SYSTEM, Actor
from sessions_app.artifacts import comparing, contents
from sessions_app.artifacts.comparing import Line, compare, folded, line_by_line
from sessions_app.domain.errors import NotFound
from sessions_app.domain.session_ref import SessionRef
from sessions_app.writes.sessions import create_session
from tests.artifacts.saving import PNG, Saving, beside
from tests.support.people import ALICE

LINES = st.lists(st.sampled_from(["", "a", "b", "a b c", "a x c", "  ", "long " * 9, "é 日本"]), max_size=30)


@pytest.fixture
def kept(tmp_path: Path, new_store: Callable[..., str], open_source: Callable[[str], str]) -> tuple[str, Path]:
    return beside(new_store("sqlite"), tmp_path, open_source)


@pytest.fixture
def ref(kept: tuple[str, Path]) -> SessionRef:
    return create_session(kept[0], "booking", "ana", session_id="s1", actor=ALICE)


@pytest.fixture
def saving(kept: tuple[str, Path]) -> Saving:
    return Saving(kept[1])


def text_of(line: Line) -> str:
    return "".join(piece.text for piece in line.pieces)


def told(lines: list[Line]) -> list[str]:
    signs = {"kept": " ", "removed": "-", "added": "+"}
    return [f"… {line.count}" if line.kind == "fold" else signs[line.kind] + text_of(line) for line in lines]


@given(old=LINES, new=LINES)
def test_the_lines_make_up_both_texts_with_their_numbers(old: list[str], new: list[str]) -> None:
    lines = line_by_line(old, new)
    assert [text_of(line) for line in lines if line.old] == old
    assert [text_of(line) for line in lines if line.new] == new
    assert [line.old for line in lines if line.old] == [*range(1, len(old) + 1)]
    assert [line.new for line in lines if line.new] == [*range(1, len(new) + 1)]
    assert all((line.kind == "kept") == bool(line.old and line.new) for line in lines)
    short = folded(lines)
    assert sum(line.count or 1 for line in short) == len(lines)
    assert [line for line in short if line.kind in ("removed", "added")] == [
        line for line in lines if line.kind != "kept"
    ]


def test_lines_far_from_what_differs_are_folded_and_words_that_differ_stand_out() -> None:
    old = [f"line {number}" for number in range(20)]
    new = [*old[:10], "line ten", *old[11:], "end"]
    lines = folded(line_by_line(old, new))
    assert told(lines) == [
        *("… 7", " line 7", " line 8", " line 9", "-line 10", "+line ten", " line 11", " line 12", " line 13"),
        *("… 3", " line 17", " line 18", " line 19", "+end"),
    ]
    differs = [[(piece.kind, piece.text) for piece in line.pieces] for line in lines if line.kind != "kept"][1:3]
    assert differs == [[("kept", "line "), ("removed", "10")], [("kept", "line "), ("added", "ten")]]


@pytest.mark.parametrize(
    ("old", "new", "lines"),
    [
        ("a\nb\n", "a\nc\n", [" a", "-b", "+c"]),
        ("a\nb", "a\r\nb\r\n", []),
        ("", "a", ["+a"]),
        ("same", "same", []),
    ],
)
def test_texts_are_compared_line_by_line(ref: SessionRef, saving: Saving, old: str, new: str, lines: list[str]) -> None:
    for text in (old, new):
        saving.save(ref, "plan.txt", text.encode(), "text/plain")
    compared = compare(ref, "plan.txt", 0, 1, actor=SYSTEM)
    assert compared.same is (old == new)
    assert told(compared.lines) == lines


def test_other_files_are_compared_by_their_bytes(
    ref: SessionRef, saving: Saving, monkeypatch: pytest.MonkeyPatch
) -> None:
    for content in (PNG, PNG, PNG[:-1] + b"x", b"", b"text"):
        saving.save(ref, "file", content, "image/png" if content else "application/octet-stream")
    versions = [(0, 1), (0, 2), (0, 4), (0, 3), (0, 9)]
    assert [compare(ref, "file", *pair, actor=SYSTEM).same for pair in versions] == [True, False, False, None, None]
    monkeypatch.setattr(comparing, "LARGEST", 10)
    assert compare(ref, "file", 0, 1, actor=SYSTEM).same is None


def test_large_texts_are_compared_as_far_as_they_are_shown(ref: SessionRef, saving: Saving) -> None:
    long = "x\n" * contents.EXCERPT
    for text in (long, long + "y", "y\n" + long):
        saving.save(ref, "log", text)
    compared = compare(ref, "log", 0, 1, actor=SYSTEM)
    assert (compared.same, compared.lines, compared.beginning) == (False, [], True)
    assert "+y" in told(compare(ref, "log", 0, 2, actor=SYSTEM).lines)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("\n" * 100_000, "a\n" * 50_000),
        ("".join(f"{n}\n" for n in range(15_000)), "".join(f"{n}\n" for n in range(15_000, 0, -1))),
        ("a b " * 25_000, "b a " * 25_000),
        (("a b " * 240 + "\n") * 100, ("b a " * 240 + "\n") * 100),
    ],
)
def test_a_comparison_takes_no_long_time_and_shows_no_long_page(
    ref: SessionRef, saving: Saving, old: str, new: str
) -> None:
    for text in (old, new):
        saving.save(ref, "log", text)
    began = time.process_time()
    compared = compare(ref, "log", 0, 1, actor=SYSTEM)
    assert time.process_time() - began < 3
    assert 0 < len(compared.lines) <= comparing.MOST_LINES


def test_who_may_not_see_the_app_compares_nothing(ref: SessionRef, saving: Saving) -> None:
    saving.save(ref, "plan.txt", "text")
    with pytest.raises(NotFound):
        compare(ref, "plan.txt", 0, 0, actor=Actor.holding("bob", "read", "weather*"))
