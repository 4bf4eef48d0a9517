"""adkweb as a user starts it: a process of its own, on copies of databases, with the link that it prints."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.servers import HOST, _Server

ROOT = Path(__file__).resolve().parents[2]
DEMO = ROOT / "examples" / "demo.db"
_LINK = re.compile(r"adkweb is ready\. Open (\S+)")


class Adkweb(_Server):
    """`manage.py serve` on a copy of the demo and whatever else stands in the folder that is given."""

    name = "adkweb"
    stop_signals = (signal.SIGINT,)

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder
        self.demo = folder / "demo.db"

    @property
    def address(self) -> str:
        """Where it answers."""
        return f"http://{HOST}:{self.port}"

    @property
    def log(self) -> str:
        """Everything that it has printed so far."""
        return (self.directory / "server.log").read_text("utf-8") if self.directory else ""

    @property
    def link(self) -> str:
        """The link that signs a person in once, as it was printed."""
        found = _LINK.search(self.log)
        assert found
        return found[1]

    def command(self, *words: str, **variables: str) -> list[str]:
        """The command line of a management command, or of a module after -m, beside this server's own data."""
        env = shutil.which("env")
        assert env
        given = {
            "ADKWEB_DATA_DIR": str(self.folder / "data"),
            "DJANGO_SETTINGS_MODULE": "adkweb.settings",
            "PYTHONPATH": str(ROOT),
            **variables,
        }
        program = words if words[0] == "-m" else (str(ROOT / "manage.py"), *words)
        return [env, *(f"{name}={value}" for name, value in given.items()), sys.executable, *program]

    def run(self, *words: str, variables: Mapping[str, str] | None = None) -> None:
        """Runs such a command to its end."""
        done = subprocess.run(
            self.command(*words, **(variables or {})), cwd=self.folder, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def _prepare(self, directory: Path) -> None:
        if not self.demo.exists():
            shutil.copy(DEMO, self.demo)

    def _command(self, directory: Path) -> list[str]:
        files = sorted(map(str, self.folder.glob("*.db")))
        return self.command("serve", *files, "--port", str(self.port))

    def _answers(self, directory: Path) -> bool:
        return bool(_LINK.search(self.log))
