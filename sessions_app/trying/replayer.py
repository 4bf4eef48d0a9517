"""Replays sessions in the interpreter of their agents, or continues one (what-if): `python replayer.py`.

replaying.py and whatif.py start it. This file imports the standard library, google-adk, closing.py, adk/replay.py
and adk/whatif.py; adkweb isn't installed there. Its first line of standard input says which agent, in JSON, and it answers
with a line: {"ready": true} or {"error": …}. Each line after it is a recording, which it answers with the outcome.

Once the agent is loaded, closing.py lets nothing reach the network or start a process, unless the code of agents may run.

For a what-if, the second line is a `change`, which a recording follows. It answers with {"begins": …}, the id of the message
from which the agent runs, an {"event": …} for each event from there on, an {"ask": …} for each call of a tool that someone
has to decide, who answers with a line, and {"ended": …}. Its models need the network, so that is open.
"""

import asyncio
import importlib
import json
import os
import sys
from dataclasses import asdict
from pathlib import Path
from types import ModuleType
from typing import Any, Final


def main() -> None:
    """Answers until standard input ends."""
    orders, answers = _take_over_streams()
    here = Path(__file__).resolve()
    sys.path[:] = [each for each in sys.path if Path(each).resolve() != here.parent]  # an agent has modules of its own
    ours = sys.modules[_OURS] = ModuleType(_OURS)
    ours.__path__ = [str(here.parent.parent / "adk"), str(here.parent)]
    closing = importlib.import_module(f"{_OURS}.closing")
    order = json.loads(orders.readline())
    module = importlib.import_module(f"{_OURS}.{'whatif' if order['what_if'] else 'replay'}")
    try:
        from google.adk.cli.utils.agent_loader import AgentLoader

        agent: Any = AgentLoader(order["folder"]).load_agent(order["app"])
    except Exception as error:  # whatever an agent's own code raises
        _answer(answers, {"error": f"{type(error).__name__}: {error}"})
        return
    if not order["run_code"] and not order["what_if"]:
        closing.close()
    _answer(answers, {"ready": True})
    for line in orders:
        if order["what_if"]:
            asyncio.run(_what_if(module, agent, json.loads(line), orders, answers, run_code=order["run_code"]))
            continue
        try:
            recorded = module.Replay(line)
        except Exception as error:  # an agent can store anything as an event
            said = str(error).partition("\n")[0]  # the next lines of pydantic have values
            _answer(
                answers, asdict(module.Outcome(module.UNDECIDED, why=f"google-adk can't read this session: {said}"))
            )
            continue
        outcome = asyncio.run(recorded.run(agent, run_code=order["run_code"]))
        _answer(answers, asdict(outcome))


_OURS: Final = "adkweb_adk"  # the package as which adk/ is imported, without adkweb around it


async def _what_if(module: Any, agent: Any, change: Any, orders: Any, answers: Any, *, run_code: bool) -> None:
    def say(event: Any) -> None:
        _answer(answers, {"event": event.model_dump(mode="json", exclude_none=True)})

    async def ask(call: dict[str, Any]) -> Any:
        _answer(answers, {"ask": call})
        return json.loads(await asyncio.to_thread(orders.readline))

    try:
        what_if = module.WhatIf(orders.readline(), change, ask=ask, say=say)
        _answer(answers, {"begins": what_if.begins})
        ended = await what_if.run_on(agent, run_code=run_code)
    except module.Impossible as error:
        ended = {"impossible": str(error), "needs_code": isinstance(error, module.NeedsCode)}
    except ValueError as error:  # of pydantic: its next lines have values
        ended = {"impossible": f"google-adk can't read this session: {str(error).partition(chr(10))[0]}"}
    _answer(answers, {"ended": ended})


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
