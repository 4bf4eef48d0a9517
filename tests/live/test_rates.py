"""Who opens too many live pages, or says too much on one, is closed; nobody else is."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.browser.serving import Adkweb
from tests.live.conftest import Stage
from tests.live.pages import FEED, Page, sign_in

CLOSED = (4429, "too many requests")


@pytest.fixture
def strict(stage: Stage, new_server: Callable[..., Adkweb]) -> Iterator[Adkweb]:
    """A server that allows a person three requests at once, and then one each second."""
    server = new_server(stage.places["sqlite"], beside=stage.server, ADKWEB_RATE_PERSON="3")
    yield server
    server.close()


def test_who_opens_too_many_is_closed_and_others_are_not(stage: Stage, strict: Adkweb) -> None:
    mallory, bob = (sign_in(strict, name) for name in ("mallory", "bob"))
    kept = [stage.page(FEED, mallory, strict, after=None) for _each in range(3)]
    for page in kept:
        page.until(lambda page: "feed" in page.parts, "home")
    late = stage.page(FEED, mallory, strict, after=None)
    assert late.until_end() == CLOSED
    assert late.messages == []
    other = stage.page(FEED, bob, strict, after=None)
    other.until(lambda page: "feed" in page.parts, "home")
    assert [page.end for page in kept] == [None, None, None]


def test_a_person_watches_one_place_with_twenty_sockets_at_most(stage: Stage) -> None:
    dave = sign_in(stage.server, "dave")
    kept = [stage.page(FEED, dave, after=None) for _each in range(20)]
    for page in kept:
        page.until(lambda page: "feed" in page.parts, "home")
    assert stage.page(FEED, dave, after=None).until_end() == (4429, "too many sockets of one person")
    stage.page(stage.new_session(events=1), dave).until_all()


def test_who_says_too_much_is_closed(stage: Stage, strict: Adkweb) -> None:
    ref = stage.new_session(events=1)
    page: Page = stage.page(ref, sign_in(strict, "carol"), strict).until_all()
    for _each in range(3):
        page.say({"after": page.place})
    assert page.until_end() == CLOSED
