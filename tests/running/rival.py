"""Another adkweb on the same databases, which answers at the same moments: `python -m tests.running.rival`.

Reads one line of JSON: `source` (a path or URL), `agents`, `calls` (each a session with its event and call), `at` (when it
answers the first one, in seconds since 1970), `every` (seconds between two), and `dies`, to be killed after the claim and
before anything is sent. Prints the outcome of each as JSON.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from typing import Any

import django

django.setup()

from django.conf import settings  # noqa: E402
from django.db import connections  # noqa: E402

from sessions_app.access.actor import SYSTEM  # noqa: E402
from sessions_app.domain.errors import Conflict  # noqa: E402
from sessions_app.domain.session_ref import SessionRef  # noqa: E402
from sessions_app.models import Job  # noqa: E402
from sessions_app.running import answers, children  # noqa: E402
from sessions_app.running.answers import Given  # noqa: E402
from sessions_app.sources import database, registry  # noqa: E402


def killed(*_args: object, **_options: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def answered(ref: SessionRef, event: str, call: str) -> str:
    try:
        job = answers.answer(ref, event, {call: Given(confirmed=True)}, actor=SYSTEM)
    except Conflict as error:
        return error.message
    while (job := Job.objects.get(pk=job.pk)).state == "waiting":
        time.sleep(0.02)
    return job.message or job.state


def main() -> None:
    order: dict[str, Any] = json.loads(sys.stdin.readline())
    (source,) = registry.add(order["source"])
    database.open_source(source)
    settings.AGENTS, settings.RUN_AGENTS = {source.alias: order["agents"]}, True
    if order["dies"]:
        children.of = killed  # type: ignore[assignment]
    outcomes = []
    for number, (session, event, call) in enumerate(order["calls"]):
        time.sleep(max(0.0, order["at"] + number * order["every"] - time.time()))
        outcomes.append(answered(SessionRef(source.alias, "helper", "ana", session), event, call))
    print(json.dumps(outcomes), flush=True)
    children.stop_all(4)
    connections.close_all()


if __name__ == "__main__":
    main()
