"""Replays sessions in the interpreter of their agents: `python replayer.py`.

replaying.py starts it. This file imports the standard library, google-adk and adk/replay.py; adkweb isn't installed there.
Its first line of standard input says which agent, in JSON, and each line after it is a recording. It answers each with a
line: {"ready": true} or {"error": …}, then an outcome for each recording.

Once the agent is loaded, nothing here can reach the network or start a process, unless the code of agents may run.
"""

import asyncio
import json
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

_REFUSED: Final = {
    *("socket.connect", "socket.bind", "socket.sendto", "socket.sendmsg", "socket.getaddrinfo", "socket.gethostbyname"),
    *("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "os.forkpty", "pty.spawn"),
}


def main() -> None:
    """Answers until standard input ends."""
    orders, answers = _take_over_streams()
    here = Path(__file__).resolve()
    sys.path[:] = [each for each in sys.path if Path(each).resolve() != here.parent]  # an agent has modules of its own
    sys.path.insert(0, str(here.parent.parent / "adk"))
    import replay  # type: ignore[import-not-found]

    del sys.path[0], sys.modules["replay"]
    order = json.loads(orders.readline())
    try:
        from google.adk.cli.utils.agent_loader import AgentLoader

        agent: Any = AgentLoader(order["folder"]).load_agent(order["app"])
    except Exception as error:  # whatever an agent's own code raises
        _answer(answers, {"error": f"{type(error).__name__}: {error}"})
        return
    if not order["run_code"]:
        sys.addaudithook(_refuse)
    _answer(answers, {"ready": True})
    for line in orders:
        outcome = asyncio.run(replay.Replay(line).run(agent, run_code=order["run_code"]))
        _answer(answers, asdict(outcome))


def _take_over_streams() -> tuple[Any, Any]:
    """Returns standard input and output. Agents get an empty input, and what they print goes to standard error."""
    orders, answers = os.dup(0), os.dup(1)
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    os.dup2(2, 1)
    return open(orders, encoding="utf-8"), open(answers, "w", encoding="utf-8")


def _refuse(event: str, _args: Any) -> None:
    if event in _REFUSED:
        raise PermissionError("A replay reaches no network and starts no process.")


def _answer(answers: Any, answer: dict[str, Any]) -> None:
    answers.write(json.dumps(answer, default=str) + "\n")
    answers.flush()


if __name__ == "__main__":
    main()
