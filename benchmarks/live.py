"""How soon a live page shows what was written, to one browser and to 200 watchers.

In the browser, a MutationObserver notes when an event's row is there. A watcher is a websocket of another process. Events
count from the moment when the append returned; those through adkweb's API from when the request was sent. All clocks are
this machine's. Targets stand beside the figures.
"""

import asyncio
import random
import re
import time
from collections.abc import Iterator
from typing import Any

from playwright.sync_api import Page
from websockets.asyncio.client import connect
from websockets.typing import Origin

from benchmarks import harness as bench
from benchmarks.harness import APP, USER, Served, Worker, sized
from sessions_app.adk import DjangoSessionService

SECONDS = sized(10.0, 2.0)
SESSIONS, WATCHERS, RATE = 20, sized(200, 20), 50  # events a second, in all sessions together
PAGE_RATE = 10  # events a second before one page
WARM = 3  # events that are not counted
PATIENCE = 15.0  # seconds that the last event may take before it counts as lost
CROWDS = {side: [f"{side}.{number}" for number in range(SESSIONS)] for side in ("google-adk", "adkweb")}
OBSERVE = """
window.seen = [];
addEventListener("DOMContentLoaded", () => {
  new MutationObserver((records) => {
    for (const record of records)
      for (const node of record.addedNodes) if (node.id?.startsWith("event-")) seen.push([node.id.slice(6), Date.now()]);
  }).observe(document.querySelector("#events"), { childList: true, subtree: true });
});
"""


def moments(rate: float, seconds: float) -> Iterator[float]:
    """Times (of time.monotonic) at this rate on the average, and not in step with anybody who looks."""
    at = time.monotonic() + random.random() / rate
    for _ in range(round(rate * seconds)):
        yield at
        at += (0.5 + random.random()) / rate


def write(side: str, place: str, names: list[str], rate: float) -> dict[str, float]:
    """In a worker, appends to these sessions, `rate` events a second in all. Returns by event when its append returned."""

    async def write_all() -> dict[str, float]:
        service: Any = DjangoSessionService(place) if side == "adkweb" else bench.adk(place, writers=SESSIONS)
        written = {}

        async def work(name: str) -> None:
            session = await service.get_session(app_name=APP, user_id=USER, session_id=name)
            for number, at in enumerate(moments(rate / len(names), SECONDS)):
                await asyncio.sleep(max(0.0, at - time.monotonic()))
                event = bench.event_of(number)
                try:
                    await service.append_event(session, event)
                    written[event.id] = time.time()
                except Exception:  # whatever it raises is a failed append, after which a session is loaded anew
                    session = await service.get_session(app_name=APP, user_id=USER, session_id=name)

        await asyncio.gather(*map(work, names))
        await service.close()
        return written

    return asyncio.run(write_all())


def watch(address: str, cookie: str, paths: list[str]) -> dict[tuple[int, str], float]:
    """In a worker, watches until all events are there, or it is too late. Returns by watcher and event when it came."""

    async def watch_all() -> dict[tuple[int, str], float]:
        row, received = re.compile(r'id=\\"event-([^"\\]+)\\"'), dict[tuple[int, str], float]()

        async def one(number: int, socket: Any) -> None:
            async with socket:  # a server has room for so many of one person
                async for frame in socket:
                    received.update({(number, found): time.time() for found in row.findall(frame)})

        tasks = []
        for number in range(WATCHERS):
            url, headers = address.replace("http", "ws") + paths[number % len(paths)], {"Cookie": cookie}
            socket = await connect(
                url, origin=Origin(address), additional_headers=headers, compression=None, max_size=None
            )
            tasks.append(asyncio.create_task(one(number, socket)))
        bench.tell("ready")
        expected, deadline = RATE * SECONDS * WATCHERS / SESSIONS, time.monotonic() + SECONDS + PATIENCE
        while time.monotonic() < deadline and len(received) < expected:
            await asyncio.sleep(0.1)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return received

    return asyncio.run(watch_all())


def path(alias: str, name: str, kind: str = "s") -> str:
    """Of a session's page, or with “live/session” of its websocket."""
    return f"/{kind}/{alias}/{APP}/{USER}/{name}/"


def rows_of(page: Page, count: int) -> list[tuple[str, float]]:
    """The rows that were added and when, as soon as there are so many."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline and page.evaluate("seen.length") < count:
        page.wait_for_timeout(50)
    page.wait_for_timeout(200)
    return [(name, moment / 1000) for name, moment in page.evaluate("seen")]


def one_page(what: str, place: str, alias: str, served: Served, writer: Worker) -> None:
    """Prints commit → browser, of writes through this server and of others'."""

    def told(side: str, began: dict[str, float], page: Page, target: str) -> None:
        rows = rows_of(page, len(began))
        times = [(shown - began[name]) * 1000 for name, shown in rows][WARM:]
        bench.row(what, side, len(began), len(began) - len(rows), *bench.late(times), target)

    program = served.again(bench.token())
    with bench.chromium_at(served, path(alias, "own"), OBSERVE) as page:
        began = {}
        for number, at in enumerate(moments(PAGE_RATE, SECONDS)):
            page.wait_for_timeout(max(0.0, at - time.monotonic()) * 1000)
            event = bench.event_of(number)
            began[event.id] = time.time()
            program.ask("POST", f"/api/apps/{APP}/users/{USER}/sessions/own/events", bench.as_json(event))
        told("adkweb's API", began, page, "median < 50, 99 < 200")
    with bench.chromium_at(served, path(alias, "foreign"), OBSERVE) as page:
        writer.begin(write, "google-adk", place, ["foreign"], PAGE_RATE)
        while not writer.pipe.poll():
            page.wait_for_timeout(50)  # Playwright's own work goes on
        told("google-adk", writer.hear(), page, "median < 300")


def crowd(what: str, place: str, alias: str, served: Served, writer: Worker, watchers: Worker) -> None:
    """Prints many watchers of many sessions, which google-adk and adkweb write to."""
    for side, names in CROWDS.items():
        paths = [path(alias, name, "live/session") + "?after=0&language=en" for name in names]
        assert watchers.call(watch, served.address, served.headers["Cookie"], paths) == "ready"
        written, received = writer.call(write, side, place, names, RATE), watchers.hear()
        times = [(at - written[name]) * 1000 for (_number, name), at in received.items() if name in written]
        lost = len(written) * WATCHERS // SESSIONS - len(times)
        bench.row(what, side, len(written), lost, *bench.late(times), served.memory())


if __name__ == "__main__":
    with (
        bench.benchmark("Live pages") as (folder, server),
        Worker(folder / "writer") as writer,
        Worker(folder / "watchers") as watchers,
    ):
        places, aliases = bench.both(folder, server), {}
        for what, place in places.items():
            bench.make(place, "own", "foreign", *CROWDS["google-adk"], *CROWDS["adkweb"])
            aliases[what] = bench.opened(place)
        bench.heading("From commit to the row in the browser", "", "writer", "events", "lost", *bench.LATE, "target")
        for what, place in places.items():
            with bench.adkweb(place) as served:
                one_page(what, place, aliases[what], served, writer)
        title = f"{WATCHERS} watchers of {SESSIONS} sessions, {RATE} events a second: none lost, 99 < 500 ms, < 250 MB"
        bench.heading(title, "", "writer", "events", "lost", *bench.LATE, "MB of the server")
        for what, place in places.items():
            with bench.adkweb(place) as served:
                crowd(what, place, aliases[what], served, writer, watchers)
