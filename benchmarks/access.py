"""What roles, masks and approval cost: pages, answers to programs and appends, with many rules and with none.

Two adkwebs, one process each, on databases with the same rows. In one, whoever asks has 50 roles, and there are 100 rules
that mask and 20 keys that need approval; in the other, they have one role, and there are no rules. The sides take turns.
“noise” is how much the side without rules differs from itself: its odd requests from its even ones.
"""

import asyncio
import statistics
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from django.conf import settings

from benchmarks import harness as bench
from benchmarks.harness import APP, LONG, USER, Served, sized
from sessions_app.access import approval
from sessions_app.access.actor import TERMINAL
from sessions_app.access.roles import Role
from sessions_app.adk import DjangoSessionService
from sessions_app.checks import mask_rules
from sessions_app.domain.mask_patterns import FORMS
from sessions_app.domain.masks import FORM, KEY, PATH, TOOL
from tests.live.pages import signed_in

ROLES, MASKS, APPROVALS, SOURCES = 50, 100, 20, 20
SESSIONS, EVENTS, ROUNDS = sized(10_000, 100), sized(5_000, 100), sized(60, 4)
PAGE, API = f"/s/SOURCE/{APP}/{USER}/{LONG}/", f"/api/apps/{APP}/users"
ASKED = {
    "home": "/",
    "sessions": "/sessions/",
    "sessions with a word": "/sessions/?q=flights",
    "an app": f"/a/SOURCE/{APP}/",
    "a user": f"/u/SOURCE/{APP}/{USER}/",
    f"a session of {EVENTS:,} events": PAGE,
    "the same as a chat": f"{PAGE}?density=chat",
    "the form of its state": f"{PAGE}edit/",
    "edits": "/edits/",
    "proposals": "/proposals/",
    "REST: sessions": f"{API}/u0/sessions?limit=50",
    f"REST: all {EVENTS:,} events": f"{API}/{USER}/sessions/{LONG}",
    "REST: 100 events": f"{API}/{USER}/sessions/{LONG}/events?limit=100",
    "REST: search": "/api/sessions?q=flights",
    "REST: an export of 20 events": f"/api/export?app={APP}&user=u0&session=s0",
}


def set_up(place: str, ruled: bool) -> tuple[str, dict[str, str], dict[str, str]]:
    """In a worker, makes people and rules. Returns the alias of the source, and the headers of a person and of a program."""
    alias = bench.opened(place)
    cookie = {"Cookie": f"{settings.SESSION_COOKIE_NAME}={signed_in('maria')}"}
    if ruled:
        role = Role.objects.get()
        role.apps = "book*"
        role.save()
        for number in range(ROLES - 1):
            Role.objects.create(person=role.person, role="viewer", apps=f"team-{number}*", given_by="bench")
        made = [("*", FORM, form) for form in FORMS]
        made += [("book*", PATH, f"profile.card{number}.number") for number in range(20)]
        made += [("*", TOOL, f"charge_{number}: card.number") for number in range(15)]
        made += [("*" if number % 2 else "book*", KEY, f"*secret-{number}*") for number in range(MASKS - len(made))]
        for each in made:
            mask_rules.create(*each, actor=TERMINAL)
        for number in range(APPROVALS):
            approval.make(by=TERMINAL, keys=f"limit-{number}-*", apps="book*")
    return alias, cookie, bench.token()


def compared(what: str, none: list[float], ruled: list[float]) -> None:
    """Prints both sides."""
    slower = statistics.median(ruled) / statistics.median(none) - 1
    noise = statistics.median(none[::2]) / statistics.median(none[1::2]) - 1
    bench.row(what, none, ruled, f"{slower:+.0%}", f"{abs(noise):.0%}")


def over_http(aliases: list[str], people: list[Served], programs: list[Served]) -> None:
    """Prints pages, answers to programs and appends."""
    for what, address in ASKED.items():
        none, ruled = programs if address.startswith("/api/") else people
        first, second = (address.replace("SOURCE", alias) for alias in aliases)
        compared(what, *bench.taking_turns(ROUNDS, lambda: none.read(first), lambda: ruled.read(second)))  # noqa: B023

    def append(served: Served) -> None:
        served.ask("POST", f"{API}/u0/sessions/s0/events", bench.as_json(bench.event_of(time.monotonic_ns())))

    compared("REST: an append", *bench.taking_turns(ROUNDS * 5, *(lambda s=s: append(s) for s in programs)))


def in_process(places: list[str]) -> None:
    """Prints how long an agent's append takes."""
    with asyncio.Runner() as runner:
        services: list[Any] = [DjangoSessionService(place) for place in places]
        sessions = [runner.run(service.create_session(app_name=APP, user_id=USER)) for service in services]

        def append(side: int) -> None:
            runner.run(services[side].append_event(sessions[side], bench.event_of(1)))

        taken = bench.taking_turns(ROUNDS * 10, lambda: append(0), lambda: append(1))
        compared("an append through DjangoSessionService", *taken)
        for service in services:
            runner.run(service.close())


def ready(folder: Path) -> None:
    """Prints how long `/ready` takes with many sources."""
    places = [bench.make(str(folder / f"source{number}.db")) for number in range(SOURCES)]
    taken = []
    with bench.adkweb(*places) as served:
        served.read("/ready")
        for _ in range(sized(150, 10)):
            taken.append(bench.timed(lambda: served.read("/ready")))
            time.sleep(0.1)  # long enough for new looks
    bench.heading(f"`/ready` with {SOURCES} sources", *bench.LATE)
    bench.row(*bench.late(taken))


if __name__ == "__main__":
    with bench.benchmark("Roles, masks and approval") as (folder, server), ExitStack() as stack:
        first = bench.fill(server.create_database("none"), SESSIONS, each=2, long=EVENTS, of_a_user=SESSIONS)
        places = [first, server.create_database("ruled", template="none")]
        sides = []
        for ruled, place in enumerate(places):
            with bench.Worker(data := folder / f"data{ruled}") as worker:
                alias, cookie, token = worker.call(set_up, place, bool(ruled))
            served = stack.enter_context(bench.adkweb(place, data=data, headers=cookie))
            sides.append((alias, served, served.again(token)))
        time.sleep(sized(5.0, 1.0))
        bench.heading("Milliseconds", "", "no rules", "rules", "slower", "noise")
        over_http(*map(list, zip(*sides, strict=True)))
        in_process(places)
        ready(folder)
