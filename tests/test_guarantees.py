"""docs/guarantees.md is what the marks on the tests say."""

import pytest

from tests.guarantees import PAGE, SECTIONS, Guarantee, guarantees, guarantees_of, written


def test_the_page_is_what_the_marks_say() -> None:
    assert PAGE.read_text() == written(), "make docs"


def test_every_promise_is_one_sentence_of_a_section_and_kept_by_a_test() -> None:
    assert [each for each in guarantees() if each.section not in SECTIONS or not each.test.startswith("test_")] == []
    assert [each.sentence for each in guarantees() if not each.sentence.endswith(".") or "\n" in each.sentence] == []
    assert len({each.sentence for each in guarantees()}) > 80
    assert {each.section for each in guarantees()} == {*SECTIONS}


def test_no_test_is_named_for_two_promises() -> None:
    names = [(each.file, each.test) for each in guarantees()]
    assert sorted(names) == sorted(set(names))


def test_no_sentence_is_in_two_sections() -> None:
    promises = {(each.section, each.sentence) for each in guarantees()}
    assert len(promises) == len({sentence for _section, sentence in promises})


@pytest.mark.parametrize("head", ["def test_it(): ...", "async def test_it(): ...", "@other\ndef test_it(): ..."])
def test_a_mark_is_read_in_any_form(head: str) -> None:
    source = '@pytest.mark.guarantee(\n    "Writing", "It is "\n    "so."\n)\n' + head
    assert list(guarantees_of("a/test_b.py", source)) == [Guarantee("Writing", "It is so.", "a/test_b.py", "test_it")]
