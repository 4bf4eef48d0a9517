"""adkweb as a user starts it: a process of its own, on copies of databases, with the link that it prints."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.servers import HOST, Server
from tests.support import warm
from tests.support.own import tables

ROOT = Path(__file__).resolve().parents[2]
DEMO = ROOT / "examples" / "demo.db"
_LINK = re.compile(r"adkweb is ready\. Open (\S+)")


class Adkweb(Server):
    """`manage.py serve` on a copy of the demo and whatever else stands in the folder that is given; on more `sources`,
    and with more environment `variables`, where there are any.
    """

    name = "adkweb"
    stop_signals = (signal.SIGINT,)

    def __init__(self, folder: Path, *sources: str, **variables: str) -> None:
        super().__init__()
        self.folder = folder
        self.demo = folder / "demo.db"
        self.sources = sources
        self.variables = variables

    @property
    def address(self) -> str:
        """Where it answers."""
        return f"http://{HOST}:{self.port}"

    @property
    def log(self) -> str:
        """Everything that it has printed so far."""
        file = self.directory and self.directory / "server.log"
        return file.read_text("utf-8") if file and file.exists() else ""

    @property
    def link(self) -> str:
        """The link that signs a person in once, as it was printed."""
        *_, newest = _LINK.finditer(self.log)
        return newest[1]

    def command(self, *words: str, **variables: str) -> list[str]:
        """The command line of a management command, of a module (-m) or of code (-c), beside this server's own data."""
        env = shutil.which("env")
        assert env
        given = {
            "ADKWEB_DATA_DIR": str(self.folder / "data"),
            "DJANGO_SETTINGS_MODULE": "adkweb.settings",
            "PYTHONPATH": str(ROOT),
            **self.variables,
            **variables,
        }
        program = words if words[0] in ("-m", "-c") else (str(ROOT / "manage.py"), *words)
        return [env, *(f"{name}={value}" for name, value in given.items()), sys.executable, *program]

    def run(self, *words: str, variables: Mapping[str, str] | None = None) -> None:
        """Runs such a command to its end."""
        done = warm.run(
            self.command(*words, **(variables or {})), cwd=self.folder, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def _prepare(self, directory: Path) -> None:
        if not self.demo.exists():
            shutil.copy(DEMO, self.demo)
        data = self.folder / "data"
        if not (data / "adkweb.db").exists():
            data.mkdir(mode=0o700, exist_ok=True)
            shutil.copy(tables(), data)

    def _command(self, directory: Path) -> list[str]:
        files = sorted(map(str, self.folder.glob("*.db")))
        return self.command("serve", "--adopt", *files, *self.sources, "--port", str(self.port))

    def _begin(self, directory: Path, **options: Any) -> subprocess.Popen[bytes]:
        return warm.Popen(self._command(directory), death_signal=self.stop_signals[0], forks_agents=True, **options)

    def _launch(self, directory: Path) -> None:
        self._told = len(self.log)
        super()._launch(directory)

    def _answers(self, directory: Path) -> bool:
        return bool(_LINK.search(self.log, self._told))
