"""Another adkweb on the same databases, which starts children as it is told: `python -m tests.running.neighbour`.

Reads lines of JSON. The first one has the `source` (a path or URL), its `agents`, and after how many seconds of no use a
child is to leave (`idle`). Each other line has a `folder`, for whose child it asks `at` a time, in seconds since 1970. It
prints the address of that child, and what the page of the app says. At the end, it ends as adkweb does.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import django

django.setup()

from django.conf import settings  # noqa: E402

from sessions_app.access.actor import SYSTEM  # noqa: E402
from sessions_app.running import children, servers  # noqa: E402
from sessions_app.running.session_uris import session_uri  # noqa: E402
from sessions_app.sources import database, registry  # noqa: E402


def main() -> None:
    first = json.loads(sys.stdin.readline())
    (source,) = registry.add(first["source"])
    database.open_source(source)
    settings.AGENTS, settings.RUN_AGENTS = {source.alias: first["agents"]}, True
    children.IDLE_SECONDS = first["idle"]
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        settings.AGENTS = {source.alias: order["folder"]}
        time.sleep(max(0.0, order["at"] - time.time()))
        child = children.of(Path(order["folder"]), sessions=session_uri(source.alias), artifacts=None)
        (facts,) = servers.facts(source.alias, ["helper"], actor=SYSTEM)
        said = servers.output(source.alias, "helper", actor=SYSTEM)
        print(json.dumps([child.url, str(facts.since), said]), flush=True)
    children.stop_all(4)


if __name__ == "__main__":
    main()
