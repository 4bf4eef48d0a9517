"""The tests that belong to a changed file: `make check FILE=sessions_app/writes/append.py`.

They are the file of its name in the folder of its name, tests/writes/test_append.py; without one, that folder's tests. For
what has no folder under tests/, they are the files of its name in any folder (tests/web/test_sign_in.py for
access/sign_in.py), or else those that look at all the code.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TESTS = ROOT / "tests"
EVERYWHERE = ("test_architecture.py", "test_docs.py")


def belonging(name: str) -> list[str]:
    """What to give to pytest for a file of the checkout."""
    file = Path(os.path.relpath(ROOT / name, ROOT))
    if file.parts[0] == "tests":
        if file.stem.startswith("test_"):
            return [str(file)]
        folder = file.parent
    else:
        # transfer/formats/jsonl.py has its tests in tests/transfer, access/audit/record.py in tests/audit.
        words = file.parts[1:-1]
        parts = [*(words[:end] for end in range(len(words), 0, -1)), words[1:], ()]
        folder = next(each for part in parts if (ROOT / (each := Path("tests", *part))).is_dir())
    anywhere = "*/" if folder == Path("tests") and len(file.parts) > 2 else ""
    own = sorted((ROOT / folder).glob(f"{anywhere}test_{file.stem.strip('_')}*.py"))
    if own:
        return [str(path.relative_to(ROOT)) for path in own]
    return [str(Path("tests", each)) for each in EVERYWHERE] if folder == Path("tests") else [str(folder)]


if __name__ == "__main__":
    import pytest

    if len(sys.argv) < 2 or not (ROOT / sys.argv[1]).exists():
        sys.exit("Name a file of the checkout: make check FILE=sessions_app/writes/append.py")
    sys.exit(pytest.main([*belonging(sys.argv[1]), *sys.argv[2:], "-q", "-x", "-m", "not long"]))
