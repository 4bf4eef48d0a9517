"""Reading a session of 100,000 events with 300 keys in Chromium at 1440 × 900. Targets stand beside the figures.

- Opening it: requests and what they transferred, compressed, with an empty cache; the longest task.
- A step: `[` or `]` in the past, from the key to the frame that shows the other state, and how many requests that took.
- Inputs: the longest time to the next paint (in steps of 8 ms), over keys, typing and a click.
- Scrolling: frames while the wheel turns upwards through what is loaded as one goes; then the heap, and the memory of the
  tab's process that it shares with no other, as a browser's task manager tells it.
"""

import statistics
import time
from pathlib import Path

import psutil
from django.urls import reverse
from playwright.sync_api import Page

from benchmarks import harness as bench
from benchmarks.harness import APP, MB, USER, sized
from sessions_app.access.actor import SYSTEM
from sessions_app.writes.sessions import create_session
from tests.support.bulk import fill

EVENTS, KEYS, STEPS, SECONDS = sized(100_000, 2_000), 300, sized(60, 10), sized(10.0, 2.0)
# In the page: how long tasks, inputs until their paint, and frames took, since `told` was last emptied.
OBSERVE = """
window.told = {tasks: [], inputs: [], frames: []};
new PerformanceObserver((list) => told.tasks.push(...list.getEntries().map(({duration}) => duration)))
  .observe({type: "longtask", buffered: true});
new PerformanceObserver((list) => told.inputs.push(...list.getEntries().filter(({interactionId}) => interactionId)
  .map(({duration}) => duration))).observe({type: "event", durationThreshold: 16, buffered: true});
let last = performance.now();
requestAnimationFrame(function tick(now) {
  told.frames.push(now - last);
  last = now;
  requestAnimationFrame(tick);
});
"""
FORGET = "for (const list of Object.values(told)) list.length = 0"
TRANSFERRED = "performance.getEntries().map(({transferSize}) => transferSize).filter((size) => size !== undefined)"
STEP = """(key) => new Promise((done) => {
  const began = performance.now();
  const before = document.querySelector("#moment [data-moment]")?.dataset.at;
  const look = () => {
    const now = document.querySelector("#moment [data-moment]")?.dataset.at;
    if (now !== before) requestAnimationFrame(() => setTimeout(() => done(performance.now() - began)));
    else if (performance.now() - began > 5000) done(5000);
    else requestAnimationFrame(look);
  };
  document.activeElement.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true, cancelable: true}));
  look();
})"""
LOWEST = "Math.min(...[...document.querySelectorAll('.ev')].map(({dataset}) => Number(dataset.seq)))"


def make(file: Path) -> str:
    """Makes the session. Returns its address."""
    file.touch()
    alias = bench.opened(str(file))
    state = {f"key_{number:03}": {"value": number} for number in range(KEYS - 1)}
    fill(ref := create_session(alias, APP, USER, actor=SYSTEM, session_id="long", state=state), EVENTS)
    return reverse("session", kwargs=ref._asdict())


def read(page: Page) -> None:
    """Prints what somebody notices who reads it."""
    sizes = page.evaluate(TRANSFERRED)
    bench.row("opening it, with an empty cache: requests", len(sizes), 12)
    bench.row("kB that they transferred", sum(sizes) / 1000, 150)
    bench.row("the longest task meanwhile, ms", page.evaluate("Math.max(0, ...told.tasks)"), 50)

    page.locator(".ev .line").last.click()
    page.wait_for_selector("#moment [data-moment]")
    page.wait_for_timeout(500)
    times, before = [], len(page.evaluate(TRANSFERRED))
    for number in range(STEPS):
        times.append(page.evaluate(STEP, "[" if number % 20 < 10 else "]"))
        page.wait_for_timeout(60)
    bench.row("a step to another event, ms", times, 16)
    bench.row("99 of 100 steps, ms", bench.quantile(times, 0.99), 16)
    bench.row("requests of a step", (len(page.evaluate(TRANSFERRED)) - before) / STEPS, 0)

    page.keyboard.press("Escape")
    page.evaluate(FORGET)
    for key in "jjjjjkkkkkj":
        page.keyboard.press(key)
        page.wait_for_timeout(80)
    page.keyboard.press("f")
    page.keyboard.type("key_1", delay=80)
    page.keyboard.press("Escape")
    page.locator(".ev .line").last.click()
    page.wait_for_timeout(500)
    bench.row("the longest wait after a key or click, ms", page.evaluate("Math.max(0, ...told.inputs)"), 50)

    page.goto(page.url.partition("?")[0])
    page.wait_for_selector("[data-live][data-state=live]")
    page.mouse.move(300, 500)
    page.evaluate(FORGET)
    began = time.monotonic()
    while time.monotonic() - began < SECONDS:
        page.mouse.wheel(0, -700)
        page.wait_for_timeout(30)
    frames = page.evaluate("told.frames")
    bench.row(f"frames a second, scrolling up to event {page.evaluate(LOWEST):,}", 1000 / statistics.median(frames), 60)
    bench.row("the longest hundredth of them, ms", bench.quantile(frames, 0.99), "")

    page.context.new_cdp_session(page).send("HeapProfiler.collectGarbage")
    bench.row("MB of heap", page.evaluate("performance.memory.usedJSHeapSize") / MB, "")
    processes = psutil.Process().children(recursive=True)
    tabs = [each for each in processes if "--type=renderer" in " ".join(each.cmdline())]
    bench.row("MB of the tab's own", max(tab.memory_full_info().uss for tab in tabs) / MB, 150)


if __name__ == "__main__":
    with bench.benchmark(f"Reading a session of {EVENTS:,} events with {KEYS} keys") as (folder, _server):
        address = make(file := folder / "long.db")
        with bench.adkweb(str(file)) as served:
            time.sleep(sized(5.0, 1.0))  # it is read
            with bench.chromium_at(served, address, OBSERVE) as page:
                bench.heading("In Chromium", "", "measured", "target")
                read(page)
