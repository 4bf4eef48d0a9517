"""Runs Python programs like subprocess does, but forks them from a process that has already imported what they need.

    with warm.Popen([sys.executable, "manage.py", "serve"], env=env, stdout=subprocess.PIPE) as process: ...
    done = warm.run([sys.executable, "-c", program], capture_output=True, text=True)

A new Python takes a second of both cores to import Django, google-adk and adkweb, and the tests start hundreds. A fork
has all modules; it reads the settings in its own environment, and sets Django up itself. If a variable for the interpreter
itself differs, or one that modules read while they are imported (ADKWEB_DEBUG), or an argument says so, or on other systems
than Linux, the program is started as usual.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import gc
import importlib
import inspect
import io
import logging
import os
import pickle
import pkgutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[2]
LINUX: Final = sys.platform == "linux"
_SUBREAPER, _DEATH_SIGNAL = 36, 1  # of prctl
_OWN: Final = ("PYTHONPATH", "PYTHONWARNINGS")  # variables of the interpreter that a fork can follow
_LOCALE: Final = ("LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE")
# What adkweb and google-adk import only when they need it; _import_all imports the rest.
LATE: Final = (
    *(
        "aiosqlite",
        "asyncpg",
        "channels_redis.pubsub",
        "django.contrib.admin.utils",
        "django.contrib.messages.middleware",
    ),
    *("django.contrib.messages.storage.session", "django.contrib.sessions.middleware", "django.core.asgi"),
    *("django.contrib.staticfiles.storage", "django.core.cache.backends.locmem", "django.core.servers.basehttp"),
    *("django.core.management.commands.check", "django.core.management.commands.migrate"),
    *("django.core.management.commands.shell", "django.db.backends.postgresql.base", "django.db.backends.sqlite3.base"),
    *("django.db.migrations.autodetector", "django.middleware.clickjacking", "django.middleware.common"),
    *("django.middleware.csrf", "django.middleware.locale", "django.middleware.security", "django.middleware.gzip"),
    *("django.template.backends.django", "django.template.defaulttags", "django.template.loader_tags"),
    *("django.templatetags.i18n", "django.views.debug", "django.views.i18n", "django.utils.translation.reloader"),
    *("allauth.account.middleware", "csp.checks", "csp.middleware", "django_htmx.middleware", "fido2.server"),
    *("google.adk.artifacts", "google.adk.runners", "google.adk.sessions.sqlite_session_service", "pickletools"),
    *("google.adk.cli.fast_api", "google.adk.cli.service_registry", "google.adk.cli.utils.local_storage"),
    *("ninja.openapi.docs", "prometheus_client.openmetrics.exposition", "qrcode", "redis.asyncio", "regex", "requests"),
    *("rich.progress", "rich.table", "servestatic.asgi", "servestatic.storage", "adkweb.urls", "adkweb.handler"),
    *("sqlalchemy.dialects.postgresql.asyncpg", "sqlalchemy.dialects.sqlite.aiosqlite", "sqlalchemy.ext.asyncio"),
    *("uvicorn.lifespan.on", "uvicorn.loops.uvloop", "uvicorn.main", "uvicorn.protocols.http.httptools_impl"),
    *("uvicorn.protocols.websockets.websockets_impl", "uvicorn.protocols.websockets.websockets_sansio_impl"),
)
STARTING_AGENTS: Final = ("sessions_app.running.children", "sessions_app.trying.process")  # with subprocess
SETTINGS: Final = ("adkweb.settings", "adkweb.environment")  # which each fork reads itself


class Popen(subprocess.Popen[Any]):
    """`subprocess.Popen` of a Python program. With `death_signal`, the program gets it when this process dies. With
    `forks_agents`, it forks the processes of agents that it starts, too."""

    def __init__(
        self,
        args: Sequence[str],
        *,
        death_signal: int = 0,
        cold: bool = False,
        forks_agents: bool = False,
        **options: Any,
    ) -> None:
        words, variables = _split([str(word) for word in args])
        env = {**(options.pop("env", None) or os.environ), **variables}
        usual = LINUX and not cold and words[0] == sys.executable and _same_interpreter(env)
        given = {"cwd", "start_new_session", "stdin", "stdout", "stderr", "text", "encoding", "errors"}
        self._warm = usual and _kind(words) is not None and options.keys() <= given
        self._death_signal, self._forks_agents = death_signal, forks_agents
        if not self._warm and not cold and signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
            options["preexec_fn"] = _heed_interrupts
        super().__init__(words, env=env, **options)

    def _execute_child(self, *given: Any) -> None:  # every version of Python passes other arguments, by position
        if not self._warm:
            super()._execute_child(*given)  # type: ignore[misc]
            return
        names = inspect.signature(subprocess.Popen._execute_child).bind(self, *given).arguments  # type: ignore[attr-defined]
        streams = [
            names[own] if names[own] != -1 else inherited
            for inherited, own in enumerate(("p2cread", "c2pwrite", "errwrite"))
        ]
        job = {
            "words": names["args"],
            "env": names["env"],
            "cwd": os.fspath(names["cwd"] or Path.cwd()),
            "umask": _umask(),
            "new_session": names["start_new_session"],
            "death_signal": int(self._death_signal),
            "forks_agents": self._forks_agents,
            "parent": os.getpid(),
        }
        self.pid = _source().fork(job, streams)
        self._child_created = True
        self._close_pipe_fds(  # type: ignore[attr-defined]
            *(names[name] for name in ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite"))
        )


def run(
    args: Sequence[str],
    *,
    input: str | None = None,
    capture_output: bool = False,
    timeout: float | None = None,
    check: bool = False,
    **options: Any,
) -> subprocess.CompletedProcess[Any]:
    """Runs a Python program like `subprocess.run`."""
    if capture_output:
        options |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    if input is not None:
        options["stdin"] = subprocess.PIPE
    with Popen(args, **options) as process:
        try:
            out, errors = process.communicate(input, timeout=timeout)
        except BaseException:
            process.kill()
            raise
    done = subprocess.CompletedProcess(process.args, process.returncode, out, errors)
    if check:
        done.check_returncode()
    return done


FORKING: Final = SimpleNamespace(**{**vars(subprocess), "Popen": Popen, "run": run})  # for who uses subprocess


@functools.cache
def ready() -> None:
    """Waits until programs can be forked at once."""
    run([sys.executable, "-c", ""], check=True)


class _Source:
    """The process that all programs of this one are forked from. It ends with this one.

    If this one was forked itself and has no threads yet, `here` makes it in 10 ms: it is a fork, too."""

    def __init__(self, *, here: bool) -> None:
        # A fork is an orphan at once. Orphans are given to this process instead of to init, so that it can wait for
        # them.
        ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
        self._lock = threading.Lock()
        self._socket, theirs = socket.socketpair()
        if here:
            if not (pid := os.fork()):
                self._socket.close()
                signal.signal(signal.SIGINT, signal.SIG_IGN)
                nothing = os.open(os.devnull, os.O_RDWR)  # who reads what this program says waits for its end
                for number in range(3):
                    os.dup2(nothing, number)
                _fork_on_request(theirs)
                sys.exit()
            theirs.close()
            self._wait: Callable[[], object] = lambda: os.waitpid(pid, 0)
            return
        code = f"from tests.support.warm import _serve; _serve({theirs.fileno()})"
        env = {name: value for name, value in os.environ.items() if name != "PYTHONWARNINGS"}
        self._wait = subprocess.Popen(
            [sys.executable, "-c", code],
            env={**env, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
        ).wait
        theirs.close()

    def fork(self, job: Mapping[str, Any], streams: Sequence[int]) -> int:
        """Forks a child of this process and returns its process id."""
        sent = pickle.dumps(job)
        with self._lock:
            socket.send_fds(self._socket, [len(sent).to_bytes(4)], streams)
            self._socket.sendall(sent)
            answer = self._socket.recv(4)
        if not answer:
            raise RuntimeError(f"the process of all forks has ended: {self._wait()}")
        return int.from_bytes(answer)

    def stop(self) -> None:
        """Ends the process, after the last fork."""
        self._socket.close()
        self._wait()


_forks_here = False


@functools.cache
def _source() -> _Source:
    source = _Source(here=_forks_here)
    owner = os.getpid()
    atexit.register(lambda: source.stop() if os.getpid() == owner else None)
    return source


def _split(args: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Returns a command line without the `env` before it, and the variables that this would set."""
    if Path(args[0]).name != "env":
        return list(args), {}
    count = next(number for number, word in enumerate(args[1:], 1) if "=" not in word)
    return list(args[count:]), dict(word.split("=", 1) for word in args[1:count])  # type: ignore[misc]


def _kind(words: Sequence[str]) -> str | None:
    """Returns how Python is told what to run:

    -c, -m or a file's name. Returns None for an option that a fork cannot obey.
    """
    return words[1] if words[1] in ("-c", "-m") or not words[1].startswith("-") else None


def _same_interpreter(env: Mapping[str, str]) -> bool:
    """Tells whether a Python that starts in this environment would be like this one."""

    def own(variables: Mapping[str, str]) -> dict[str, str]:
        kept = (*_LOCALE, "ADKWEB_DEBUG")
        return {k: v for k, v in variables.items() if k in kept or (k.startswith("PYTHON") and k not in _OWN)}

    return own(env) == own(os.environ)


def _umask() -> int:
    """Returns this process's umask without changing it."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("Umask:"))
    return int(line.split()[1], 8)


def _heed_interrupts() -> None:
    """Makes a child obey SIGINT.

    A process that a script starts in the background ignores it, and so would its children.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)


# --- In the process that is forked ------------------------------------------------------------------------------------


def _serve(descriptor: int) -> None:
    """Forks as long as the process of the tests exists. It returns only in a fork, when its program has ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl+C is for the tests
    _import_all()
    if threading.active_count() > 1:
        raise AssertionError(f"what has threads cannot be forked: {threading.enumerate()}")
    gc.collect()
    gc.freeze()
    _fork_on_request(socket.socket(fileno=descriptor))


def _fork_on_request(requests: socket.socket) -> None:
    """Forks a program for each request. It returns only in a fork, when its program has ended."""
    while True:
        head, streams, _flags, _address = socket.recv_fds(requests, 4, 3)
        if not head:
            os._exit(0)
        wanted = int.from_bytes(head)
        sent = b""
        while len(sent) < wanted:
            sent += requests.recv(wanted - len(sent))
        if not (between := os.fork()):
            if os.fork():
                os._exit(0)
            job = pickle.loads(sent)
            _become(job, streams, requests)
            if job["forks_agents"]:
                _fork_agents()
            _play(job["words"])
            _leave(0)
            return
        os.waitpid(between, 0)
        for stream in streams:
            os.close(stream)


def _import_all() -> None:
    """Imports adkweb and what it needs, and leaves Django as before its setup: a fork does that with its own settings."""
    for name in [name for name in os.environ if name.startswith(("ADKWEB_", "DJANGO_"))]:
        del os.environ[name]
    os.environ |= {"DJANGO_SETTINGS_MODULE": SETTINGS[0], "ADKWEB_SECRET_KEY": "of no fork"}
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        os.environ["ADKWEB_DATA_DIR"] = folder
        import django
        from django.apps import apps
        from django.conf import settings
        from django.db import connections
        from django.utils.functional import empty

        django.setup()
        import sessions_app

        for module in pkgutil.walk_packages(sessions_app.__path__, "sessions_app."):
            importlib.import_module(module.name)
        for name in LATE:
            with suppress(ImportError):  # a module that this version lacks is not needed
                importlib.import_module(name)
    settings._wrapped = empty
    for name in SETTINGS:
        package, _dot, module = name.partition(".")
        del sys.modules[name]
        delattr(sys.modules[package], module)
    connections.__dict__.clear()
    connections.__init__()  # type: ignore[misc]
    apps.app_configs.clear()
    apps.apps_ready = apps.models_ready = apps.ready = apps.loading = False
    apps.ready_event.clear()
    apps.clear_cache()
    logging.root.handlers.clear()


def _become(job: Mapping[str, Any], streams: Sequence[int], requests: socket.socket) -> None:
    """Does what Popen and a starting interpreter do."""
    while os.getppid() != job["parent"]:
        time.sleep(0.0005)
    if job["death_signal"]:
        ctypes.CDLL(None).prctl(_DEATH_SIGNAL, job["death_signal"], 0, 0, 0)
        if os.getppid() != job["parent"]:
            os._exit(1)
    if job["new_session"]:
        os.setsid()
    requests.sendall(os.getpid().to_bytes(4))
    kept = [os.dup(stream) for stream in streams]
    for number, stream in enumerate(kept):
        os.dup2(stream, number)
    os.closerange(3, max(*kept, *streams, requests.detach()) + 1)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.umask(job["umask"])
    os.chdir(job["cwd"])
    before = {str(ROOT), ""}
    os.environ.clear()
    os.environ.update(job["env"])
    time.tzset()
    path = [folder for folder in os.environ.get("PYTHONPATH", "").split(os.pathsep) if folder]
    sys.path[:] = [*path, *(folder for folder in sys.path if folder not in before)]
    if options := [option for option in os.environ.get("PYTHONWARNINGS", "").split(",") if option]:
        sys.warnoptions[:] = options
        warnings._processoptions(options)  # type: ignore[attr-defined]
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = _stream(getattr(sys, f"__{name}__"), mode)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def _fork_agents() -> None:
    """Has this program, which hasn't begun yet, fork the processes of agents from a copy of what it is now."""
    global _forks_here
    _forks_here = True
    _source()
    for name in STARTING_AGENTS:
        vars(sys.modules[name])["subprocess"] = FORKING


def _stream(like: io.TextIOWrapper, mode: str) -> io.TextIOWrapper:
    """Returns a new standard stream, on the file that its number stands for now."""
    number = like.fileno()
    raw = os.fdopen(number, f"{mode}b", buffering=-1 if mode == "r" or not like.write_through else 0, closefd=False)
    line_buffering = mode == "w" and (number == 2 or os.isatty(number))
    return io.TextIOWrapper(
        raw,  # type: ignore[arg-type]
        encoding=like.encoding,
        errors=like.errors,
        newline="\n" if mode == "w" else None,
        line_buffering=line_buffering,
        write_through=like.write_through,
    )


def _play(words: Sequence[str]) -> None:
    """Runs the program as `__main__`. An error is left to Python, which prints it."""
    import runpy

    main = sys.modules["__main__"].__dict__
    for name in [name for name in main if not name.startswith("__")]:
        del main[name]
    kind, sys.orig_argv = words[1], list(words)
    try:
        if kind == "-c":
            sys.argv, sys.path[:0] = ["-c", *words[3:]], [""]
            exec(compile(words[2], "<string>", "exec"), main)
        elif kind == "-m":
            sys.argv, sys.path[:0] = [words[2], *words[3:]], [os.getcwd()]
            runpy._run_module_as_main(words[2])  # type: ignore[attr-defined]
        else:
            sys.argv, sys.path[:0] = [*words[1:]], [str(Path(words[1]).resolve().parent)]
            main["__file__"] = words[1]
            exec(compile(Path(words[1]).read_bytes(), words[1], "exec"), main)
    except SystemExit as end:
        if isinstance(end.code, int | None):
            _leave(end.code or 0)
        raise


def _leave(code: int) -> None:
    """Ends the process, but takes no modules apart: that would copy 80 MB of the first process, in a tenth of a second.

    Returns where output cannot be written; Python says so.
    """
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    with suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
