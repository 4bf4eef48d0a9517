"""Opens the file that a command writes, or standard output."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from ...access import private_files


@contextmanager
def output(name: str | None) -> Iterator[BinaryIO]:
    """Yields the file to write. It gets its name only when it is complete; a link then leads to the new file.

    Anything that isn't a file, such as /dev/null or a pipe, is written directly."""
    if name is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    if Path(name).exists() and not Path(name).is_file():
        with Path(name).open("wb") as file:
            yield file
        return
    name = os.path.realpath(name)
    part = Path(f"{name}.part")
    part.unlink(missing_ok=True)
    try:
        private_files.new_file(part)
        with part.open("wb") as file:
            yield file
        part.replace(name)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
