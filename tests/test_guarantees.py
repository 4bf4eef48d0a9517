"""docs/guarantees.md is what the marks on the tests say."""

import pytest

from tests.guarantees import PAGE, SECTIONS, Mark, marks, marks_of, written


def test_the_page_is_what_the_marks_say() -> None:
    assert PAGE.read_text() == written(), "make docs"


def test_every_promise_is_one_sentence_of_a_section_and_kept_by_a_test() -> None:
    assert [mark for mark in marks() if mark.section not in SECTIONS or not mark.test.startswith("test_")] == []
    assert [mark.sentence for mark in marks() if not mark.sentence.endswith(".") or "\n" in mark.sentence] == []
    assert len({mark.sentence for mark in marks()}) > 80
    assert {mark.section for mark in marks()} == {*SECTIONS}


def test_no_test_is_named_for_two_promises() -> None:
    names = [(mark.file, mark.test) for mark in marks()]
    assert sorted(names) == sorted(set(names))


def test_no_sentence_stands_in_two_sections() -> None:
    promises = {(mark.section, mark.sentence) for mark in marks()}
    assert len(promises) == len({sentence for _section, sentence in promises})


@pytest.mark.parametrize("head", ["def test_it(): ...", "async def test_it(): ...", "@other\ndef test_it(): ..."])
def test_a_mark_is_read_wherever_it_stands(head: str) -> None:
    source = '@pytest.mark.guarantee(\n    "Writing", "It is "\n    "so."\n)\n' + head
    assert list(marks_of("a/test_b.py", source)) == [Mark("Writing", "It is so.", "a/test_b.py", "test_it")]
