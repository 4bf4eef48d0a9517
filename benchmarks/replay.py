"""Measures how many stored sessions a replay runs again: sessions of 31 events, half of which are about calls of a tool.

The whole time counts: starting the agent's processes, reading the sessions, replaying and comparing them. Beside it,
google-adk runs the same turns for the first time, with a model and a tool that take no time.
"""

import time
from collections import Counter

from benchmarks import harness as bench
from benchmarks.companion import CALLS, invoke
from benchmarks.harness import sized
from sessions_app.access.actor import TERMINAL
from sessions_app.domain.session_ref import SessionRef
from sessions_app.trying import replaying
from tests.trying.conftest import AGENTS, say, visit

SESSIONS, TURNS = sized(100, 2), 7


def session(source: str, number: int) -> SessionRef:
    """A session of 31 events: a visit, and turns with a call of a tool each."""
    ref = visit(source, f"s{number}", 1, user=f"u{number}")
    for turn in range(2, TURNS + 2):
        call = {"id": f"c{turn}", "name": "order"}
        say(ref, "user", {"text": "Tea, please"}, turn=str(turn))
        say(ref, "shop", {"function_call": {**call, "args": {"item": "tea"}}}, turn=str(turn))
        say(ref, "shop", {"function_response": {**call, "response": {"status": "done"}}}, turn=str(turn))
        say(ref, "shop", {"text": "Done."}, turn=str(turn), state_delta={"said": "Done."})
    return ref


if __name__ == "__main__":
    with bench.benchmark("Replay") as (folder, _server):
        alias = bench.opened(bench.make(str(folder / "store.db")))
        refs = [session(alias, number) for number in range(SESSIONS)]
        began = time.perf_counter()
        results = Counter(each.result for each in replaying.replays(refs, actor=TERMINAL, folder=AGENTS))
        took = time.perf_counter() - began
        assert results == {"same": SESSIONS}, results
        taken, _processor = invoke(False, {})
        bench.heading(f"{SESSIONS} sessions of 31 events", "", "value", "target")
        bench.row("all of them, s", took, "60")
        bench.row("an event of a replay, ms", took * 1000 / (SESSIONS * 31), "")
        bench.row("an event that google-adk makes, ms", sorted(taken)[len(taken) // 2] / (2 * CALLS + 2), "")
