"""axe-core finds nothing serious on any page, in light and in dark."""

from __future__ import annotations

import pytest
from playwright.sync_api import StorageState, expect

from tests.browser.conftest import Visit, Watch
from tests.browser.looks import Looks, check
from tests.browser.places import PLACES, STATUSES
from tests.browser.serving import Adkweb


@pytest.mark.parametrize("place", PLACES)
def test_a_page_is_accessible_in_light_and_dark(visit: Visit, watch: Watch, looks: Looks, place: str) -> None:
    watch.allow(STATUSES.get(place, 0))
    watch.stay = False
    look = looks.at(place, visit(color_scheme="light", reduced_motion="reduce"))
    assert not look.barriers, "\n".join(look.barriers)


def test_signing_in_is_accessible_in_light_and_dark(
    visitor: Visit, server: Adkweb, signed_in: StorageState, watch: Watch
) -> None:
    watch.allow(403)
    page = visitor(server, color_scheme="light", reduced_motion="reduce")
    page.goto("/")
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    check(page)
    page.goto(server.link)  # which signed_in has used up
    expect(page.get_by_role("alert")).to_contain_text("used already")
    check(page)
