"""Returns whether the process that had a job has died, if it was on this machine.

    this()                                    # "3f9a…/4026531836/812/19345": machine, namespace, pid, when it started
    has_died("3f9a…/4026531836/812/19345")    # True as soon as it has

For another machine, another container, or a system without /proc, nothing is known: has_died returns False.
"""

import os
import signal
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")


def this() -> str:
    """Returns the unique name of this process; empty if there is none."""
    return name_of(os.getpid())


def name_of(pid: int) -> str:
    """Returns the name of a process on this machine."""
    began = _began(pid)
    return f"{machine()}/{pid}/{began}" if machine() and began else ""


def has_died(name: str) -> bool:
    """Returns whether a process is known to have ended."""
    where, _slash, rest = name.rpartition("/")[0].rpartition("/")
    if not rest or where != machine():
        return False
    try:
        os.kill(int(rest), 0)  # sends nothing
    except ProcessLookupError:
        return True
    except OSError:
        pass  # it is another user's, who may have got the number since
    began = _began(int(rest))
    return began != "" and began != name.rpartition("/")[2]  # the number may be another process's by now


def kill(name: str) -> None:
    """Ends a process on this machine at once, if it is there and this process may."""
    if name and not has_died(name):
        with suppress(OSError):
            os.kill(int(name.split("/")[-2]), signal.SIGKILL)


@cache
def machine() -> str:
    """Returns the part shared by all processes that can see each other: the boot of the machine, and the container; empty
    without /proc."""
    with suppress(OSError):
        boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{(_PROC / 'self/ns/pid').readlink()}"
    return ""


def _began(pid: int) -> str:
    """Returns when a process started, in ticks since the boot; "0" for one that has ended but was not waited for."""
    with suppress(OSError):
        # After the name in brackets, which may have spaces: the state, and 19 further on, the time.
        state, *more = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
        return "0" if state == "Z" else more[18]
    return ""
