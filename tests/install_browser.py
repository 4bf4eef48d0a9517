"""Install a Chromium for the tests where there is none; run by `make test`, with the standard library only."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

# As a script this finds its own folder only, and as `tests.install_browser` only the folder above.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.servers import Unavailable, chromium

# The fonts are for text in other scripts than Latin, which a bare machine shows as boxes.
PACKAGES = ["chromium-headless-shell", "fonts-noto-core", "fonts-noto-cjk"]
APT = [["apt-get", "update", "-qq"], ["apt-get", "install", "-qq", "-y", "--no-install-recommends", *PACKAGES]]
PLAYWRIGHT = [[sys.executable, "-m", "playwright", "install", "chromium"]]


def missing() -> str | None:
    """What to install by hand, or None where a browser exists."""
    try:
        chromium()
    except Unavailable as error:
        return str(error)
    return None


def run(commands: list[list[str]]) -> bool:
    """Run commands until one fails, showing the output of that one only."""
    for command in commands:
        print("No Chromium yet:", " ".join(command), flush=True)
        done = subprocess.run(
            command,
            env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
        )
        if done.returncode:
            print(done.stdout, file=sys.stderr)
            return False
    return True


def main() -> int:
    """Install a browser unless there is one, and return the exit code."""
    advice = missing()
    # A wrong $CHROMIUM is the user's to correct; a browser installed beside it would not be used.
    if advice and not os.environ.get("CHROMIUM"):
        if os.geteuid() == 0 and shutil.which("apt-get") and run(APT):
            advice = missing()
        # Also after apt-get: on Ubuntu its chromium is only a pointer to a snap.
        if advice and run(PLAYWRIGHT):
            advice = missing()
    if advice:
        print(advice, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
