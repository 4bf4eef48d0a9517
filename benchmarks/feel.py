"""How soon Chromium shows what was asked for, at 1440 × 900: steps, clicks, pages, and Chat, Events and Trace.

Three rounds, each in a fresh browser, with the load of the machine before it. Targets stand beside the figures.

- A step: from the key to the end of the next paint, in a session of 5,000 events, now and in the past.
- The longest task: of the script, styles and layout, while the session's page opens.
- A click: the longest of them to the next paint, in steps of 8 ms, as browsers measure INP.
- Another density: from the key to the paint of the other timeline.
- LCP: when the largest part of a page was painted, with an empty cache and with a full one.
"""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, Page, sync_playwright

from benchmarks import harness as bench
from benchmarks.harness import APP, LONG, USER, Served, sized
from tests.servers import CHROMIUM_ARGS, chromium

EVENTS, SESSIONS, ROUNDS, STEPS, TIMES = sized(5_000, 200), sized(20_000, 100), sized(3), sized(40, 5), sized(5, 2)
DEMO = "/s/demo/booking/ana/seoul-trip/"  # its longest session
DENSITIES = {"1": "chat", "2": "events", "3": "trace"}  # by key
OBSERVE = """
window.told = {tasks: [], inputs: [], steps: [], painted: 0};
const observe = (type, take, more) =>
  new PerformanceObserver((list) => list.getEntries().forEach(take)).observe({type, buffered: true, ...more});
observe("longtask", ({duration}) => told.tasks.push(duration));
observe("event", ({duration, interactionId}) => interactionId && told.inputs.push(duration), {durationThreshold: 16});
observe("largest-contentful-paint", ({startTime}) => told.painted = startTime);
addEventListener("keydown", ({timeStamp}) => requestAnimationFrame(() => {
  const {port1, port2} = new MessageChannel();
  port1.onmessage = () => told.steps.push(performance.now() - timeStamp);
  port2.postMessage(0);
}), true);
"""
SHOWN = """(density) => document.readyState === "complete" &&
  document.querySelector("#events")?.dataset.density === density"""


@contextmanager
def signed_in(browser: Browser, served: Served) -> Iterator[Page]:
    """A page of a browser with an empty cache."""
    with browser.new_context(viewport={"width": 1440, "height": 900}) as context:
        cookies = (each.split("=", 1) for each in served.headers["Cookie"].split("; "))
        context.add_cookies([{"name": name, "value": value, "url": served.address} for name, value in cookies])
        context.add_init_script(OBSERVE)
        yield context.new_page()


def opened(page: Page, address: str) -> Page:
    """The page, once everything is there."""
    page.goto(address, wait_until="load")
    page.wait_for_timeout(2_000)
    return page


def pressed(page: Page, key: str) -> list[float]:
    """Milliseconds to the next paint, each time a key is pressed."""
    page.evaluate("told.steps.length = 0")
    for _ in range(STEPS):
        page.keyboard.press(key)
        page.wait_for_timeout(60)
    page.wait_for_timeout(300)
    return list(page.evaluate("told.steps"))


def step(what: str, times: list[float], target: str) -> None:
    """Prints a row of steps."""
    bench.row(what, bench.quantile(times, 0.5), bench.quantile(times, 0.95), target)


def steps(page: Page) -> None:
    """Prints steps through a session's page, and clicks on its events."""
    bench.row("the longest task while it opens, ms", page.evaluate("Math.max(0, ...told.tasks)"), "", "50")
    for key in "kj":
        step(f"{key}, ms", pressed(page, key), "8, 16")
    page.evaluate("told.inputs.length = 0")
    lines = page.locator(".ev .line")
    for number in range(STEPS // 4):
        lines.nth(-2 - number).click()
        page.wait_for_timeout(300)
    bench.row("a click on an event, the longest, ms", page.evaluate("Math.max(0, ...told.inputs)"), "", "40")
    for key in "kj[]":
        step(f"{key} in the past, ms", pressed(page, key), "16, 32")


def densities(page: Page) -> None:
    """Prints how long it takes to see the session in another way."""
    times = []
    for key in "3123213":
        page.keyboard.press("k")
        began = time.perf_counter()
        page.keyboard.press(key)
        page.wait_for_function(SHOWN, arg=DENSITIES[key], timeout=20_000)
        page.evaluate("new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")
        times.append((time.perf_counter() - began) * 1000)
        page.wait_for_timeout(700)
    bench.row("Chat, Events, Trace, ms", bench.quantile(times, 0.5), bench.quantile(times, 0.95), "150")


def painted(browser: Browser, served: Served, path: str, what: str, targets: tuple[int, int]) -> None:
    """Prints when a page was painted, with an empty cache and with a full one."""
    cold, warm = list[float](), list[float]()
    for _ in range(TIMES):
        with signed_in(browser, served) as page:
            for times in (cold, warm):
                times.append(opened(page, served.address + path).evaluate("told.painted"))
    bench.row(f"LCP of {what}, cold, ms", *(bench.quantile(cold, share) for share in (0.5, 0.95)), targets[0])
    bench.row(f"LCP of {what}, warm, ms", *(bench.quantile(warm, share) for share in (0.5, 0.95)), targets[1])


def felt(browser: Browser, large: Served, demo: Served, session: str) -> None:
    """Prints all of it."""
    for what, served, path in ((f"{EVENTS:,} events", large, session), ("the demo's longest session", demo, DEMO)):
        bench.heading(f"A session: {what}", "", "median", "95 of 100", "target")
        with signed_in(browser, served) as page:
            steps(opened(page, served.address + path))
        with signed_in(browser, served) as page:
            densities(opened(page, served.address + path))
        painted(browser, served, path, "it", (450, 350))
    bench.heading(f"A store of {SESSIONS:,} sessions", "", "median", "95 of 100", "target")
    painted(browser, large, "/", "home", (350, 350))


if __name__ == "__main__":
    with bench.benchmark("Speed as felt") as (folder, _server):
        alias = bench.opened(bench.fill(str(folder / "store.db"), SESSIONS, each=2, long=EVENTS))
        path = f"/s/{alias}/{APP}/{USER}/{LONG}/"
        with bench.adkweb(str(folder / "store.db")) as large, bench.adkweb("--demo", data=folder / "demo") as demo:
            time.sleep(sized(5.0, 1.0))
            for _ in range(ROUNDS):
                print("\nload:", *(f"{load:.1f}" for load in os.getloadavg()), flush=True)
                with sync_playwright() as playwright:
                    browser = playwright.chromium.launch(executable_path=chromium(), args=CHROMIUM_ARGS)
                    felt(browser, large, demo, path)
                    browser.close()
