"""Measures a session's page in the browser, by the DevTools protocol.

    python -m benchmarks.reading [--events 100000]

A long session of 100,000 events with 300 keys is opened in Chromium at 1440 × 900, by adkweb in a process of its own.
Targets are printed beside the figures; nothing is asserted.

- First load: requests and what they transferred, compressed, with an empty cache; the longest task.
- A step: `[` or `]` in the past, from the key to the frame that shows the other state, and how many requests that took.
- Interactions: the longest time from an input to the next paint (in steps of 8 ms), over keys, folding and typing.
- Scrolling: frames while the wheel turns upwards through what is loaded as one goes; then the heap, and the memory of the
  tab's process that it shares with no other, as a browser's task manager tells it.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
from playwright.sync_api import Browser, BrowserContext, CDPSession, Page, sync_playwright

from benchmarks.appends import dashboard, prepare
from tests.servers import CHROMIUM_ARGS, chromium

KEYS = 300
STEPS = 60
SCROLL_SECONDS = 10.0
MB = 2**20
OBSERVE = """
window.told = {tasks: [], inputs: [], frames: []};
new PerformanceObserver((list) => told.tasks.push(...list.getEntries().map(({duration}) => duration)))
  .observe({type: "longtask", buffered: true});
new PerformanceObserver((list) => told.inputs.push(...list.getEntries().filter(({interactionId}) => interactionId)
  .map(({name, duration}) => [name, duration]))).observe({type: "event", durationThreshold: 16, buffered: true});
"""
STEP = """(key) => new Promise((done) => {
  const began = performance.now();
  const before = document.querySelector("#moment [data-moment]")?.dataset.at;
  const look = () => {
    const now = document.querySelector("#moment [data-moment]")?.dataset.at;
    if (now !== before) requestAnimationFrame(() => setTimeout(() => done(performance.now() - began)));
    else if (performance.now() - began > 5000) done(null);
    else requestAnimationFrame(look);
  };
  document.activeElement.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true, cancelable: true}));
  look();
})"""
FRAMES = """() => {
  let last = performance.now();
  const tick = (now) => { told.frames.push(now - last); last = now; if (!told.over) requestAnimationFrame(tick); };
  requestAnimationFrame(tick);
}"""


def make(file: Path, events: int) -> str:
    """Makes the session. Returns its address."""
    from django.urls import reverse

    from sessions_app.access.actor import Actor
    from sessions_app.sources import database, registry
    from sessions_app.writes.sessions import create_session
    from tests.support.bulk import fill

    file.touch()
    (source,) = registry.add(str(file))
    state = {f"key_{number:03}": {"value": number} for number in range(KEYS - 1)}
    ref = create_session(source.alias, "app", "ana", actor=Actor.holding("b", "admin"), session_id="long", state=state)
    fill(ref, events)
    database.forget(source.alias)
    return reverse("session", kwargs=ref._asdict())


def quantile(numbers: list[float], share: float) -> float:
    """The value below which a share of the numbers is."""
    return sorted(numbers)[min(len(numbers) - 1, int(share * len(numbers)))]


@contextmanager
def counted(devtools: CDPSession) -> Iterator[dict[str, int]]:
    """Counts requests and the bytes that they transferred, while something is done."""
    counts = {"requests": 0, "bytes": 0}

    def sent(_event: Any) -> None:
        counts["requests"] += 1

    def received(event: Any) -> None:
        counts["bytes"] += int(event["encodedDataLength"])

    devtools.on("Network.requestWillBeSent", sent)
    devtools.on("Network.loadingFinished", received)
    yield counts
    devtools.remove_listener("Network.requestWillBeSent", sent)
    devtools.remove_listener("Network.loadingFinished", received)


def load(page: Page, devtools: CDPSession, address: str) -> None:
    """Prints what the first load costs."""
    with counted(devtools) as counts:
        page.goto(address)
        page.wait_for_selector("[data-live][data-state=live]")
        page.wait_for_timeout(1_500)
    longest = max(page.evaluate("told.tasks"), default=0.0)
    print(f"first load         {counts['requests']:>4} requests, {counts['bytes'] / 1000:.0f} kB (12, 150 kB)")
    print(f"longest task       {longest:>4.0f} ms with {KEYS} keys (50 ms)")


def steps(page: Page, devtools: CDPSession) -> None:
    """Prints how long a step from one loaded event to the next takes."""
    page.locator(".ev .line").last.click()
    page.wait_for_selector("#moment [data-moment]")
    page.wait_for_timeout(500)
    times: list[float] = []
    with counted(devtools) as counts:
        for number in range(STEPS):
            took = page.evaluate(STEP, "[" if number % 20 < 10 else "]")
            times += [took] if took is not None else []
            page.wait_for_timeout(60)
    print(
        f"a step             {statistics.median(times):>4.0f} ms median, {quantile(times, 0.99):.0f} ms p99 (16 ms), "
        f"{counts['requests'] / max(1, len(times)):.1f} requests (0), {STEPS - len(times)} lost"
    )


def interactions(page: Page) -> None:
    """Prints the longest time from an input to the paint after it."""
    page.keyboard.press("Escape")
    page.evaluate("told.inputs.length = 0")
    for key in "jjjjjkkkkkj":
        page.keyboard.press(key)
        page.wait_for_timeout(80)
    page.keyboard.press("f")
    page.keyboard.type("key_1", delay=80)
    page.keyboard.press("Escape")
    for _ in range(2):
        if page.locator("[data-turn-fold]").count():
            page.locator("[data-turn-fold]").last.click()
        page.wait_for_timeout(150)
    page.wait_for_timeout(500)
    inputs = page.evaluate("told.inputs")
    name, longest = max(inputs, key=lambda each: each[1], default=("none above 16 ms", 0.0))
    print(f"interactions       {longest:>4.0f} ms at most (50 ms): {name}")


def scrolling(page: Page, devtools: CDPSession, tab: psutil.Process | None) -> None:
    """Prints how many frames a second are drawn while one scrolls up, and what the tab then holds."""
    page.goto(page.url.partition("?")[0])
    page.wait_for_selector("[data-live][data-state=live]")
    page.mouse.move(300, 500)
    page.evaluate(FRAMES)
    began = time.monotonic()
    while time.monotonic() - began < SCROLL_SECONDS:
        page.mouse.wheel(0, -700)
        page.wait_for_timeout(30)
    page.evaluate("told.over = true")
    frames = page.evaluate("told.frames.slice(5)")
    rows = page.locator(".ev").count()
    lowest = page.evaluate("Math.min(...[...document.querySelectorAll('.ev')].map(({dataset}) => Number(dataset.seq)))")
    devtools.send("HeapProfiler.collectGarbage")
    heap = page.evaluate("performance.memory?.usedJSHeapSize ?? 0")
    memory = f"{tab.memory_full_info().uss / MB:.0f} MB" if tab else "unknown"
    print(
        f"scrolling          {1000 / statistics.median(frames):>4.0f} frames/s median, longest frame "
        f"{quantile(frames, 0.99):.0f} ms p99 (60/s); down to seq {lowest}, {rows} rows in the page\n"
        f"memory             {heap / MB:>4.0f} MB heap, {memory} of the tab's own (150 MB)"
    )


def tab_of(driver: psutil.Process) -> psutil.Process | None:
    """The process of the page: the renderer that holds the most memory."""
    renderers = [each for each in driver.children(recursive=True) if "--type=renderer" in " ".join(each.cmdline())]
    return max(renderers, key=lambda each: each.memory_info().rss, default=None)


def signed_in(browser: Browser, address: str, opener: Any) -> BrowserContext:
    """A browser with the cookies of somebody who opened the printed link."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    jar = next(each.cookiejar for each in opener.handlers if hasattr(each, "cookiejar"))
    context.add_cookies([{"name": each.name, "value": str(each.value), "url": address} for each in jar])
    context.add_init_script(OBSERVE)
    return context


def main() -> None:
    """Prints all of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=100_000)
    events = parser.parse_args().events
    prepare()
    with tempfile.TemporaryDirectory(prefix="adkweb-reading-") as folder:
        file = Path(folder) / "sessions.db"
        path = make(file, events)
        with dashboard(str(file)) as (_process, address, opener), sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium(), args=CHROMIUM_ARGS)
            time.sleep(5)  # the source is adopted and read
            with signed_in(browser, address, opener) as context:
                page = context.new_page()
                devtools = context.new_cdp_session(page)
                devtools.send("Network.enable")
                print(f"\nReading a session of {events:,} events in Chromium (targets in brackets)\n")
                load(page, devtools, address + path)
                steps(page, devtools)
                interactions(page)
                scrolling(page, devtools, tab_of(psutil.Process()))
            browser.close()


if __name__ == "__main__":
    main()
