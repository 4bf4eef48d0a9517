"""A batch over ten thousand sessions, killed half-way, resumed, then undone, while an agent writes."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable

import pytest
from django.db import connections

from sessions_app.access.actor import SYSTEM, Actor
from sessions_app.batches import batch, reading, working
from sessions_app.domain.session_ref import SessionRef
from sessions_app.jobs import runner
from sessions_app.models import Job
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session
from tests.search.finding import feed
from tests.support import processes
from tests.support.at_work import settle
from tests.support.booking import APP
from tests.support.stored import query

pytestmark = [pytest.mark.usefixtures("own"), pytest.mark.long]

SESSIONS = 10_000
OTHERS = range(0, SESSIONS, 100)  # sessions to which somebody else writes after the batch
MARIA = Actor.holding("maria@example.com", "admin")


def fill(source: str) -> None:
    """Makes the sessions as an agent's database has them."""
    with connections[source].cursor() as cursor:
        columns = "app_name, user_id, id, state, create_time, update_time"
        first = SessionRef(source, APP, "u0", "s0")
        create_session(*first[:3], session_id="s0", actor=SYSTEM, state={"step": "search"})
        cursor.execute(
            f"SELECT {columns} FROM sessions",
        )
        (row,) = cursor.fetchall()
        cursor.executemany(
            f"INSERT INTO sessions ({columns}) VALUES (%s, %s, %s, %s, %s, %s)",
            [
                (APP, f"u{n % 500}", f"s{n}", json.dumps({"step": "search", "n": n}), *row[4:])
                for n in range(1, SESSIONS)
            ],
        )


def write(source: str, number: int, **delta: object) -> None:
    """Appends as an agent does whose invocation ended a while ago."""
    content = {"role": "model", "parts": [{"text": "…"}]}
    event = {"author": "agent", "timestamp": time.time() - 60, "content": content, "actions": {"state_delta": delta}}
    append_event(SessionRef(source, APP, f"u{number % 500}", f"s{number}"), event, actor=SYSTEM)


def steps(source: str) -> Counter[str]:
    rows = query(source, "SELECT state FROM sessions WHERE app_name = %s", [APP])
    return Counter(json.loads(state).get("step") for (state,) in rows)


@pytest.mark.parametrize("form", ["sqlite", "postgresql"])
def test_each_session_is_changed_once_and_then_back_but_none_that_somebody_else_changed_since(
    form: str,
    own: str,
    new_store: Callable[[str], str],
    open_source: Callable[[str], str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    name = new_store(form)
    source = open_source(name)
    fill(source)
    feed(source)
    began = time.monotonic()

    def lap(what: str) -> None:
        nonlocal began
        with capsys.disabled():
            print(f"\n{form}: {what}: {time.monotonic() - began:.1f} s")
        began = time.monotonic()

    made = batch.begin("edit", actor=MARIA, query='state.step = "search"')
    batch.try_(made, {"step": "pay"}, actor=MARIA, reason="all of them")
    settle("batch", 600)
    assert reading.get(made, actor=MARIA).to_do == SESSIONS
    lap("dry run")

    assert processes.run(processes.batch_then_die, own, name, str(made), SESSIONS // 2) == [processes.KILLED]
    assert steps(source) == {"pay": SESSIONS // 2, "search": SESSIONS // 2}
    lap("half of it, then killed")

    Job.objects.update(claimed_until=1.0)
    stop = threading.Event()
    took: list[float] = []

    def agent() -> None:
        create_session(source, "other", "bo", session_id="busy", actor=SYSTEM)
        while not stop.wait(0.05):
            start = time.perf_counter()
            append_event(SessionRef(source, "other", "bo", "busy"), {"author": "agent"}, actor=SYSTEM)
            took.append(time.perf_counter() - start)
        connections.close_all()

    writer = threading.Thread(target=agent)
    writer.start()
    assert runner.take_over() == 1
    settle("batch", 600)
    stop.set()
    writer.join()
    shown = reading.get(made, actor=MARIA)
    assert (shown.stage, shown.counts["changed"]) == ("done", SESSIONS)
    assert steps(source) == {"pay": SESSIONS}
    assert query(source, "SELECT count(*) FROM events WHERE app_name = %s", [APP]) == [(SESSIONS,)]
    took.sort()
    lap(
        f"the rest, while an agent appends: median {took[len(took) // 2] * 1000:.1f} ms, worst {took[-1] * 1000:.0f} ms"
    )

    for number in OTHERS:
        write(source, number, step="done")
    back = batch.undo(made, actor=MARIA)
    settle("batch", 600)
    shown = reading.get(back, actor=MARIA)
    assert (shown.stage, shown.counts["changed"], shown.counts["moved"]) == (
        "done",
        SESSIONS - len(OTHERS),
        len(OTHERS),
    )
    assert steps(source) == {"search": SESSIONS - len(OTHERS), "done": len(OTHERS)}
    lap("undone")
    assert working.MOST > SESSIONS
