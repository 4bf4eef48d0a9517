"""A real adkweb, a real Chromium, and pages on which nothing may go wrong unnoticed."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Dialog,
    Page,
    Playwright,
    StorageState,
    WebError,
    expect,
    sync_playwright,
)

from tests.browser.agent import Agent
from tests.browser.looks import Look, look
from tests.browser.places import STATUSES, go
from tests.browser.serving import Adkweb
from tests.browser.watching import World, sign_in, watching
from tests.servers import CHROMIUM_ARGS, PostgreSQL, chromium

REPORT_VIOLATIONS = """document.addEventListener("securitypolicyviolation", (event) =>
    console.error(`CSP: ${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}:${event.lineNumber}`));"""
expect.set_options(timeout=15_000)


# Playwright's event loop runs in the test's own thread as long as Playwright does, and no other asyncio code and no Django
# database code could run there: so its fixtures end with this package, not with the session as pytest-playwright's do.


@pytest.fixture(scope="package")
def playwright() -> Iterator[Playwright]:
    """Playwright, for the tests of this package."""
    with sync_playwright() as running:
        yield running


@pytest.fixture(scope="package")
def browser(playwright: Playwright) -> Iterator[Browser]:
    """A Chromium without a window."""
    started = playwright.chromium.launch(executable_path=chromium(), args=CHROMIUM_ARGS)
    yield started
    started.close()


@pytest.fixture(scope="package")
def browser_context_args() -> dict[str, Any]:
    """What pytest-playwright gives to every context."""
    return {"locale": "en-GB", "timezone_id": "Europe/Lisbon"}


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Adkweb]:
    """adkweb on the demo and on what seed.py writes; it logs no error."""
    folder = tmp_path_factory.mktemp("adkweb")
    yield from serve(folder, seeded=True, ADKWEB_ARTIFACTS=str(folder / "files"))


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[Adkweb]:
    """adkweb on a fresh copy of the demo, whose link nobody has opened yet."""
    yield from serve(tmp_path)


def serve(folder: Path, *sources: str, seeded: bool = False, **variables: str) -> Iterator[Adkweb]:
    """A server for as long as a fixture lives."""
    adkweb = Adkweb(folder, *sources, **variables)
    if seeded:
        adkweb.run("-m", "tests.browser.seed", str(folder))
    yield from watched(adkweb)


def watched(adkweb: Adkweb) -> Iterator[Adkweb]:
    """A server, started, in whose log nothing may go wrong."""
    with adkweb:
        yield adkweb
        assert "Traceback" not in adkweb.log, adkweb.log
        assert "ERROR" not in adkweb.log, adkweb.log


@pytest.fixture(scope="package")
def signed_in(browser: Browser, server: Adkweb) -> StorageState:
    """The cookies of somebody who opened the printed link."""
    with browser.new_context() as context:
        context.new_page().goto(server.link)
        return context.storage_state()


# htmx reports a request that a newer one or the next page cancels, as two errors. One that fails says
# htmx:sendError or htmx:timeout beside the first.
CANCELLED = {"htmx:afterRequest", "htmx:sendAbort"}


@dataclass
class Watch:
    """What went wrong on the pages of a test; statuses that a test provokes are named by it beforehand.

    A dialog is a problem, but for the question before leaving where a test answers it by `stay`.
    """

    problems: list[str] = field(default_factory=list)
    allowed: set[int] = field(default_factory=set)
    excused: set[str] = field(default_factory=set)
    stay: bool | None = None  # None: nobody should be asked
    asked: int = 0

    def allow(self, *statuses: int) -> None:
        """The browser reports each answer with such a status as an error; here they are what is tested."""
        self.allowed |= set(statuses)

    def excuse(self, *texts: str) -> None:
        """The browser reports what a test provokes in messages that contain such a text."""
        self.excused |= set(texts)

    def over(self, context: BrowserContext) -> None:
        """Watches every page of a context."""
        context.add_init_script(REPORT_VIOLATIONS)
        context.on("console", self._console)
        context.on("weberror", self._error)
        context.on("dialog", self._dialog)

    def _console(self, message: ConsoleMessage) -> None:
        reports = ("responded with a status of {} ", "Response Status Error Code {} from")  # the browser's, htmx's
        provoked = any(report.format(status) in message.text for status in self.allowed for report in reports)
        provoked = provoked or any(text in message.text for text in self.excused | CANCELLED)
        if message.type in ("error", "warning") and not provoked:
            self.problems.append(f"{message.type}: {message.text} ({message.location.get('url')})")

    def _dialog(self, dialog: Dialog) -> None:
        if dialog.type == "beforeunload" and self.stay is not None:
            self.asked += 1
        else:
            self.problems.append(f"dialog: {dialog.type} {dialog.message!r} on {dialog.page and dialog.page.url}")
        if self.stay:
            dialog.dismiss()
        else:
            dialog.accept()

    def _error(self, error: WebError) -> None:
        self.problems.append(f"page error: {error.error}")


@pytest.fixture
def watch() -> Watch:
    """What may happen on this test's pages."""
    return Watch()


Sweep = Callable[[str], Look]


@pytest.fixture(scope="package")
def sweep(browser: Browser, browser_context_args: dict[str, Any], server: Adkweb, signed_in: StorageState) -> Sweep:
    """Makes what all rulers say of one of PLACES. It is opened once for all tests that ask."""
    given = {**browser_context_args, "storage_state": signed_in, "base_url": server.address}
    given |= {"viewport": {"width": 1440, "height": 900}, "color_scheme": "light", "reduced_motion": "reduce"}

    @functools.cache
    def at(name: str) -> Look:
        watch = Watch(allowed={STATUSES.get(name, 0)}, stay=False)
        with browser.new_context(**given) as context:
            watch.over(context)
            page = context.new_page()
            go(page, name)
            return look(page, watch.problems)

    return at


Visit = Callable[..., Page]


@pytest.fixture
def visitor(
    request: pytest.FixtureRequest,
    browser: Browser,
    browser_context_args: dict[str, Any],
    watch: Watch,
    output_path: str,
) -> Iterator[Visit]:
    """Makes a page in a context of its own; the test fails on any console error, page error or CSP violation in it.

    A failed test leaves a picture of each of its pages in test-results/. Others take none: a picture costs 0.1 s.
    """
    contexts: list[BrowserContext] = []
    failed = request.session.testsfailed

    def make(server: Adkweb, **options: Any) -> Page:
        usual = {"base_url": server.address, "viewport": {"width": 1440, "height": 900}}
        context = browser.new_context(**{**browser_context_args, **usual, **options})
        contexts.append(context)
        watch.over(context)
        return context.new_page()

    yield make
    pages = [page for context in contexts for page in context.pages]
    for page in pages:
        page.locator("html").wait_for(state="attached")  # comes after every message before it, in a page that loads too
    if watch.problems or request.session.testsfailed > failed:
        for number, page in enumerate(pages, 1):
            page.screenshot(path=Path(output_path) / f"test-failed-{number}.png")
    for context in contexts:
        context.close()
    assert not watch.problems, "\n".join(watch.problems)


@pytest.fixture
def visit(visitor: Visit, server: Adkweb, signed_in: StorageState) -> Visit:
    """Makes a page of a signed-in person, in a context of its own."""

    def make(**options: Any) -> Page:
        return visitor(server, **{"storage_state": signed_in, **options})

    return make


@pytest.fixture
def page(visit: Visit) -> Page:
    """A page of a signed-in person, 1440 px wide."""
    return visit()


@pytest.fixture(scope="package")
def world(tmp_path_factory: pytest.TempPathFactory, browser: Browser, postgresql_server: PostgreSQL) -> Iterator[World]:
    """An agent on SQLite, another on PostgreSQL, and adkweb on both."""
    folder = tmp_path_factory.mktemp("live")
    lite, url = folder / "lite.db", postgresql_server.create_database("pg")
    lite.touch()
    servers = serve(folder, url)
    with Agent(str(lite)) as on_sqlite, Agent(url) as on_postgresql:
        server = next(servers)
        yield World(server, {"lite": on_sqlite, "pg": on_postgresql}, *sign_in(browser, server))
    assert next(servers, None) is None  # nothing is wrong in its log


@pytest.fixture
def me(visitor: Visit, world: World) -> Visit:
    """A page of mine, who watches what an agent does."""
    return lambda **options: watching(visitor, world, **options)


@pytest.fixture
def maria(visitor: Visit, world: World) -> Visit:
    """A page of somebody else's."""
    return lambda **options: watching(visitor, world, world.maria, **options)
