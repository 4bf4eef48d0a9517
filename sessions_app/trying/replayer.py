"""Replays sessions in the interpreter of their agents: `python replayer.py`.

replaying.py starts it. This file imports the standard library, google-adk, closing.py and adk/replay.py; adkweb isn't
installed there.
Its first line of standard input says which agent, in JSON, and each line after it is a recording. It answers each with a
line: {"ready": true} or {"error": …}, then an outcome for each recording.

Once the agent is loaded, closing.py lets nothing reach the network or start a process, unless the code of agents may run.
"""

import asyncio
import json
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any


def main() -> None:
    """Answers until standard input ends."""
    orders, answers = _take_over_streams()
    here = Path(__file__).resolve()
    sys.path[:] = [each for each in sys.path if Path(each).resolve() != here.parent]  # an agent has modules of its own
    sys.path[:0] = [str(here.parent), str(here.parent.parent / "adk")]
    import closing  # type: ignore[import-not-found]
    import replay  # type: ignore[import-not-found]

    del sys.path[:2], sys.modules["closing"], sys.modules["replay"]
    order = json.loads(orders.readline())
    try:
        from google.adk.cli.utils.agent_loader import AgentLoader

        agent: Any = AgentLoader(order["folder"]).load_agent(order["app"])
    except Exception as error:  # whatever an agent's own code raises
        _answer(answers, {"error": f"{type(error).__name__}: {error}"})
        return
    if not order["run_code"]:
        closing.close()
    _answer(answers, {"ready": True})
    for line in orders:
        try:
            recorded = replay.Replay(line)
        except Exception as error:  # an agent can store anything as an event
            said = str(error).partition("\n")[0]  # the next lines of pydantic have values
            _answer(
                answers, asdict(replay.Outcome(replay.UNDECIDED, why=f"google-adk can't read this session: {said}"))
            )
            continue
        outcome = asyncio.run(recorded.run(agent, run_code=order["run_code"]))
        _answer(answers, asdict(outcome))


def _take_over_streams() -> tuple[Any, Any]:
    """Returns standard input and output. Agents get an empty input, and what they print goes to standard error."""
    orders, answers = os.dup(0), os.dup(1)
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    os.dup2(2, 1)
    return open(orders, encoding="utf-8"), open(answers, "w", encoding="utf-8")


def _answer(answers: Any, answer: dict[str, Any]) -> None:
    answers.write(json.dumps(answer, default=str) + "\n")
    answers.flush()


if __name__ == "__main__":
    main()
