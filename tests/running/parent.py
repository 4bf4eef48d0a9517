"""A program that starts a server of agents as adkweb does, says where it is, and then waits to be killed.

python parent.py FOLDER TOKEN
"""

import json
import subprocess
import sys
import time
from pathlib import Path

LAUNCHER = Path(__file__).parents[2] / "sessions_app" / "running" / "launcher.py"


def main() -> None:
    """Starts it, and prints its port and its process."""
    folder, token = sys.argv[1:]
    server = subprocess.Popen(
        [sys.executable, LAUNCHER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    )
    assert server.stdin
    assert server.stdout
    order = {"token": token, "agents": folder, "sessions": None, "artifacts": None, "idle": 600}
    server.stdin.write(json.dumps(order).encode() + b"\n")
    server.stdin.flush()
    print(json.dumps(json.loads(server.stdout.readline()) | {"pid": server.pid}), flush=True)
    time.sleep(600)


if __name__ == "__main__":
    main()
