"""Boxes measured: on every page, in every language and at every width, no word is broken and nothing is out of reach."""

from __future__ import annotations

from typing import Final

import pytest

from tests.browser import boxes
from tests.browser.conftest import Sweep, Visit, Watch
from tests.browser.places import EACH_PAGE, PLACES, SEOUL, path
from tests.browser.seed import TRAVEL
from tests.browser.serving import Adkweb
from tests.parts import in_two_parts, long_but

LANGUAGES: Final = ("en", "es", "ko")
ONE_LINE: Final = 44  # px: a button and the room around it
HIGHEST: Final = {"momentactions": 58}  # px: its buttons say in a second line what they do
HEADS: Final = {
    "session": path("s", *SEOUL, end="?density=events"),
    "session at an event": path("s", *TRAVEL, end="?density=events&at=t100"),
}
# From 1280 px, something of hostile names is cut there.
NOT_YET: Final = {"all sessions, some selected"}
MEASURED: Final = [name for name in EACH_PAGE if name not in NOT_YET]
OTHERS: Final = (
    *("batch, dry run", "batches", "apps", "app", "app of long names", "users of long names", "user"),
    *("user of long names", "sessions", "state health", "schema", "session", "session of long names"),
    *("session at an event", "markdown", "chat of long names", "trace of long names", "edit form"),
    *("undo, with a choice", "restore a scope", "rewind", "fork", "forks", "history of a number", "compare"),
    *("other runs", "artifacts", "artifact that is text", "drift", "edits", "new session", "add event"),
    *("delete, long names", "hold", "export everything", "erase a user", "retention", "import", "tokens", "people"),
    *("masking", "approval", "proposals", "temporary edits", "password", "sign-ins", "second factor", "new passkey"),
    "error 404",
)
ALL: Final = [*MEASURED, *OTHERS]
ADDRESSES: Final = {name: there for name in ALL if isinstance(there := PLACES[name], str)}
CROWDED_PAGES: Final = ("home", "session of long names", "chat of long names", "edit form of a user", "roles")


@in_two_parts(MEASURED, ALL)
def test_no_page_breaks_a_word_or_hides_what_it_says(sweep: Sweep, names: list[str]) -> None:
    wrong = [f"{name}, {line}" for name in names for line in sweep(name).boxes]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("language", long_but(["es", "ko"], "es"))
@in_two_parts(CROWDED_PAGES, ADDRESSES)
def test_no_page_breaks_a_word_or_hides_what_it_says_in_another_language(
    visit: Visit, server: Adkweb, watch: Watch, language: str, names: list[str]
) -> None:
    watch.allow(400, 404)
    page = visit(reduced_motion="reduce")
    page.context.add_cookies([{"name": "adkweb_language", "value": language, "url": server.address}])
    wrong = []
    for name in names:
        page.goto(ADDRESSES[name])
        wrong += [f"{name}, {fault}" for fault in boxes.faults(page, boxes.SOME_WIDTHS)]
    assert not wrong, "\n".join(wrong)


@pytest.mark.long
@pytest.mark.parametrize("language", LANGUAGES)
def test_signing_in_breaks_no_word_and_hides_nothing(
    visitor: Visit, server: Adkweb, watch: Watch, language: str
) -> None:
    watch.allow(403)
    page = visitor(server, reduced_motion="reduce")
    page.context.add_cookies([{"name": "adkweb_language", "value": language, "url": server.address}])
    page.goto("/")
    assert boxes.faults(page, boxes.WIDTHS) == []


@pytest.mark.parametrize("language", long_but(LANGUAGES, "es"))
@pytest.mark.parametrize("address", HEADS)
def test_each_head_of_the_state_is_one_line(visit: Visit, server: Adkweb, language: str, address: str) -> None:
    page = visit(viewport={"width": 1440, "height": 900})
    page.context.add_cookies([{"name": "adkweb_language", "value": language, "url": server.address}])
    page.goto(HEADS[address])
    heads = page.locator("#side > :not([hidden]) :is(.sidehead, .then, .momentsteps, .momentactions)")
    heights = heads.evaluate_all("(all) => all.map(({ classList, offsetHeight }) => [classList[0], offsetHeight])")
    assert heights
    assert [(name, height) for name, height in heights if height > HIGHEST.get(name, ONE_LINE)] == []


@pytest.mark.long
@pytest.mark.parametrize("language", LANGUAGES)
def test_every_filter_is_in_sight_beside_a_pane(visit: Visit, server: Adkweb, language: str) -> None:
    page = visit(viewport={"width": 1440, "height": 900})
    page.context.add_cookies([{"name": "adkweb_language", "value": language, "url": server.address}])
    page.goto(path("s", *SEOUL, end="?pane=drift"))
    page.locator("#pane:not([hidden])").wait_for()
    beyond = page.locator(".toolbar").evaluate("(filters) => filters.scrollWidth - filters.clientWidth")
    assert beyond <= 0
