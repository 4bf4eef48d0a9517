"""Closes this process: nothing in it reaches the network or starts a process any longer. replayer.py imports it; it uses the
standard library only.

Python's own calls are refused by an audit hook. Linux refuses those of other libraries, too, such as grpc: a filter of
system calls needs no rights, and holds for all threads and for good.
"""

import ctypes
import os
import platform
import re
import socket
import struct
import sys
from contextlib import suppress
from typing import Any, Final

_EVENTS: Final = {
    *("socket.connect", "socket.bind", "socket.sendto", "socket.sendmsg", "socket.getaddrinfo", "socket.gethostbyname"),
    *("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "os.forkpty", "pty.spawn"),
}
_INTERNET: Final = (socket.AF_INET, socket.AF_INET6)
_SECRET: Final = re.compile("KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL", re.IGNORECASE)

# Of each machine: its number, and the numbers of its calls `seccomp`, `socket`, and connect, bind, sendmsg, sendmmsg,
# execve, execveat, io_uring_setup.
_CALLS: Final = {
    "x86_64": (0xC000003E, 317, 41, (42, 49, 46, 307, 59, 322, 425)),
    "aarch64": (0xC00000B7, 277, 198, (203, 200, 211, 269, 221, 281, 425)),
}
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06  # instructions of a filter
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050001  # with EPERM


def close() -> None:
    """Closes the process. Where only Python's own calls are refused, keys in the environment are overwritten."""
    dead = socket.socket(socket.AF_UNIX)  # no one is at its other end
    for number in map(int, os.listdir("/dev/fd")):
        with suppress(OSError), socket.socket(fileno=os.dup(number)) as one:
            if one.family in _INTERNET:
                os.dup2(dead.fileno(), number)
    if not _filter():
        for name in filter(_SECRET.search, list(os.environ)):
            os.environ[name] = "replay"
    sys.addaudithook(_refuse)


def _refuse(event: str, args: Any) -> None:
    if event in _EVENTS or (event == "socket.__new__" and args[1] in _INTERNET):
        raise PermissionError("A replay reaches no network and starts no process.")


def _filter() -> bool:
    """Has Linux refuse system calls. Returns whether it does."""
    if sys.platform != "linux" or platform.machine() not in _CALLS:
        return False
    machine, seccomp, to_socket, refused = _CALLS[platform.machine()]
    code = [
        (_LOAD, 4, "", ""),
        (_EQUAL, machine, "", "refuse"),
        (_LOAD, 0, "", ""),
        (_AT_LEAST, 0x40000000, "refuse", ""),  # the calls of x32
        *((_EQUAL, number, "refuse", "") for number in refused),
        (_EQUAL, to_socket, "", "allow"),
        (_LOAD, 16, "", ""),  # the family of the socket
        (_EQUAL, socket.AF_UNIX, "allow", "refuse"),
        (_RETURN, _ALLOW, "", ""),
        (_RETURN, _REFUSE, "", ""),
    ]
    ends = {"allow": len(code) - 2, "refuse": len(code) - 1}
    steps = [[ends[to] - number - 1 if to else 0 for to in each[2:]] for number, each in enumerate(code)]
    text = b"".join(struct.pack("HBBI", each[0], *jumps, each[1]) for each, jumps in zip(code, steps, strict=True))
    kept = ctypes.create_string_buffer(text, len(text))
    program = struct.pack("HP", len(code), ctypes.addressof(kept))
    libc = ctypes.CDLL(None)
    libc.prctl(38, 1, 0, 0, 0)  # no new privileges
    return bool(libc.syscall(seccomp, 1, 1, program) == 0)  # a filter, for all threads
