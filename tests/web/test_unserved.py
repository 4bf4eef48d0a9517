"""What is named but not served is an error on every page, for whoever may know of it."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from django.urls import reverse

from sessions_app.domain.errors import SourceError
from sessions_app.domain.session_ref import SessionRef
from sessions_app.sources import database, registry
from tests.support.people import somebody
from tests.web.conftest import DEMO, Browser
from tests.web.html import Element

pytestmark = pytest.mark.django_db

PAGES = ("edits", "audit", "search", "tokens")


@pytest.fixture(autouse=True)
def _nothing_refused() -> Iterator[None]:
    registry.refusals.clear()
    yield
    registry.refusals.clear()


@pytest.fixture
def broken(tmp_path: Path, open_source: Callable[[str], str]) -> str:
    """A source that cannot be opened any more."""
    alias = open_source(str(shutil.copy(DEMO, tmp_path / "broken.db")))
    (tmp_path / "broken.db").write_bytes(b"this is no database, but some other file" * 100)
    registry.opened_files.pop(alias, None)
    with pytest.raises(SourceError):
        database.get(alias)
    return alias


def alerts(page: Element) -> list[str]:
    """The errors at the top of a page."""
    return [" ".join(each.text.split()) for each in page.one("main").all("p", "band") if each.all("b")]


@pytest.mark.guarantee(
    "Databases and files", "If adkweb can't serve a source that you specified, every page shows an error."
)
def test_what_is_not_served_is_an_error_on_every_page(demo: str, broken: str, maria: Browser, tmp_path: Path) -> None:
    registry.refuse("mysql://ana:s3cret@host/db", "mysql:// isn't supported")
    os.link(tmp_path / "demo.db", tmp_path / "again.db")
    registry.add(str(tmp_path / "again.db"))
    session = reverse("session", kwargs=SessionRef(demo, "booking", "ana", "seoul-trip")._asdict())
    for name in (*PAGES, session):
        problem, refused, twice = alerts(maria.open(name))
        assert problem.startswith(f"{broken}: ")
        assert "this isn't a SQLite database" in problem
        assert refused == "mysql://ana@host/db: mysql:// isn't supported"
        assert twice.startswith(f"{tmp_path}/again.db: This is the same file as “{demo}”")
    home = maria.open("home")
    assert len(home.all(role="alert")) == 3, "home says it beside each"


def test_who_has_no_right_to_know_why_learns_only_that_it_is_not_served(demo: str, broken: str) -> None:
    registry.refuse("postgresql://ana@host/secret", "no server is listening there")
    for sources, expected in (("*", [f"{broken}: can't be shown right now. An admin can see why."]), (demo, [])):
        viewer = Browser()
        viewer.force_login(somebody("vera", "viewer", sources=sources))
        assert alerts(viewer.open("edits")) == expected


def test_a_long_list_is_cut(maria: Browser) -> None:
    for number in range(50):
        registry.refuse(f"/nowhere/{number}.db", "doesn't exist")
    page = maria.open("edits")
    assert len(alerts(page)) == 3
    assert page.links()["Show all 50"] == reverse("home")


def test_it_is_gone_once_the_source_is_served(demo: str, broken: str, maria: Browser, tmp_path: Path) -> None:
    shutil.copy(DEMO, tmp_path / "broken.db")
    database.get(broken)
    assert alerts(maria.open("edits")) == []
