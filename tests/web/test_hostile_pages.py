"""Every page shows the attacks of tests/browser/seed.py and seed_trust.py as text, and so does what it loads by itself."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import unquote
from uuid import UUID

import pytest
from django.contrib.auth.models import User
from django.test import override_settings
from django.urls import resolve
from pytest_django import DjangoDbBlocker

from sessions_app.access import roles
from sessions_app.sources import database, registry
from tests.browser import seed, seed_trust
from tests.browser.hostile import ELSEWHERE, PAGES, SESSION, STATUSES, WITHOUT_ATTACKS, address_of
from tests.support.own import own_database
from tests.web.conftest import DEMO, NAME, Browser
from tests.web.html import Element
from tests.web.test_roles import PATTERNS, POSTED

NOBODY: Final = str(UUID(int=0))


@pytest.fixture(scope="module")
def made(
    tmp_path_factory: pytest.TempPathFactory, blank: Path, django_db_blocker: DjangoDbBlocker
) -> Iterator[dict[str, str]]:
    """Makes the hostile database, and what people made, with attacks in it. Yields the ids of that."""
    folder = tmp_path_factory.mktemp("hostile")
    url = f"sqlite:///{shutil.copy(blank, folder / 'adkweb-own.db')}"
    with override_settings(ARTIFACTS={"*": str(folder / "files")}), django_db_blocker.unblock(), own_database(url):
        (demo,) = registry.add(str(shutil.copy(DEMO, folder / "demo.db")))
        database.open_source(demo)
        seed.fill_runs()
        seed.fill_hostile(folder)
        roles.make_admin(User.objects.create_superuser(NAME))
        yield seed_trust.fill()
        for alias in (demo.alias, seed.HOSTILE.source):
            database.forget(alias)


@pytest.fixture
def maria(made: dict[str, str]) -> Browser:
    """Somebody who may see everything."""
    signed_in = Browser()
    signed_in.force_login(User.objects.get(username=NAME))
    return signed_in


def ids_twice(page: Element) -> list[str]:
    """Returns the ids that stand more than once on a page."""
    ids = Counter(element["id"] for element in page.every() if "id" in element)
    return [name for name, times in ids.items() if times > 1]


def test_every_page_is_looked_at_or_says_why_not() -> None:
    read = {str(pattern.name) for pattern in PATTERNS} - POSTED
    named = [name for names in ELSEWHERE.values() for name in names.split()]
    looked_at = set()
    for name, address in PAGES.items():
        if name not in STATUSES:
            known = address.partition("?")[0].replace("RULE", "1")
            for kind in ("VIEW", "BATCH", "REPLAY", "WHATIFS", "DRAFT"):
                known = known.replace(kind, NOBODY)
            looked_at.add(resolve(unquote(known)).url_name)
    assert read - looked_at == set(named)
    assert len(named) == len(set(named))


@pytest.mark.parametrize("name", PAGES)
def test_a_page_shows_hostile_names_as_text(maria: Browser, made: dict[str, str], name: str) -> None:
    page = maria.open(address_of(name, made), status=STATUSES.get(name, 200))
    main = page.one("main")
    attacked = "injected" in main.raw or any("injected" in str(each.attributes) for each in main.every())
    assert attacked == (name not in WITHOUT_ATTACKS)
    assert ids_twice(page) == []
    for part in page.every():
        if "hx-get" in part and part.attributes.get("hx-trigger", "").startswith(("load", "intersect")):
            maria.open(part["hx-get"], htmx=True)


def test_a_hostile_event_of_each_kind_is_text_on_its_own_page(maria: Browser) -> None:
    newest = maria.open(SESSION)
    pages = (maria.open(newest.links()["Earlier events"]), newest)
    addresses = [line["href"] for page in pages for line in page.all("a", class_="line")]
    assert len(addresses) > 8 * len(seed.TEXTS)
    for address in addresses[:9] + addresses[-5:]:
        assert ids_twice(maria.open(address)) == [], address
