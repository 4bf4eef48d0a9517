"""Other users of this machine: adkweb's own files are closed to them, and what they once copied signs nobody in."""

from __future__ import annotations

import io
import json
import logging
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from adkweb.logs import Line
from sessions_app.sources import database
from tests.support import warm
from tests.support.own import started_before
from tests.web.conftest import DEMO
from tests.web.test_commands import LINK, environment, run, serve

OTHERS = 0o077


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """adkweb's own data, which is not there yet."""
    return tmp_path / "data"


@contextmanager
def umask(mask: int) -> Iterator[None]:
    """Processes that are started meanwhile have it."""
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def open_to_others(folder: Path) -> list[str]:
    """What others may read, write or enter, the folder itself included."""
    paths = [folder, *folder.rglob("*")]
    return [f"{path.name} {path.stat().st_mode & 0o777:o}" for path in paths if path.stat().st_mode & OTHERS]


@pytest.mark.guarantee("Safety", "Other users on the machine can't read adkweb's files.")
@pytest.mark.parametrize("mask", [0, 0o022])
def test_nobody_else_can_read_what_a_first_start_makes(data: Path, mask: int) -> None:
    with umask(mask), serve(data) as adkweb:
        adkweb.sign_in()
        names = {path.name for path in data.iterdir()}
        assert names >= {"adkweb.db", "adkweb.db-wal", "adkweb.db-shm", "demo.db", "secret-key"}
        assert open_to_others(data) == []


def test_files_that_were_open_to_others_are_closed_the_log_of_a_killed_process_too(data: Path) -> None:
    with umask(0):
        process = warm.Popen(
            [sys.executable, "-c", "from adkweb.cli import main; main()", "--port", "0"],
            cwd=data.parent,
            env=environment(data),
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout
        assert any(LINK.search(line) for line in process.stdout)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
    assert (data / "adkweb.db-wal").exists()
    for path in (data, *data.iterdir()):
        path.chmod(0o777 if path.is_dir() else 0o666)
    assert run(data, "token", "list", manage=False).returncode == 0
    assert open_to_others(data) == []


def test_a_folder_behind_a_link_is_closed(data: Path, tmp_path: Path) -> None:
    with umask(0):
        (tmp_path / "disk").mkdir()
        data.symlink_to(tmp_path / "disk")
        run(data, "token", "list", manage=False)
    assert (tmp_path / "disk" / "adkweb.db").exists()
    assert open_to_others(tmp_path / "disk") == []


def test_a_database_elsewhere_is_closed_and_its_folder_left_alone(data: Path, tmp_path: Path) -> None:
    folder = tmp_path / "elsewhere"
    folder.mkdir(mode=0o755)
    program = "import os; os.umask(0); from adkweb.cli import main; main()"
    given = environment(data) | {"ADKWEB_DATABASE_URL": f"sqlite:///{folder / 'own.db'}"}
    warm.run([sys.executable, "-c", program, "token", "list"], cwd=tmp_path, env=given, check=True)
    assert open_to_others(folder) == ["elsewhere 755"]


def test_a_folder_that_adkweb_shares_with_others_keeps_its_mode_but_adkwebs_files_are_closed(data: Path) -> None:
    data.mkdir()
    shutil.copy(DEMO, data / "agent.db")
    data.chmod(0o755)
    (data / "agent.db").chmod(0o664)
    with umask(0):
        run(data, "token", "list", manage=False)
    assert sorted(open_to_others(data)) == ["agent.db 664", "data 755"]
    assert f"{data} is open to others of this machine (mode 755)" in run(data, "doctor", manage=False).stdout


def test_nobody_signs_in_with_what_the_database_holds(data: Path) -> None:
    with serve(data) as adkweb:
        adkweb.sign_in()
        with closing(sqlite3.connect(data / "adkweb.db")) as own:
            ((stored,),) = own.execute("SELECT session_key FROM django_session").fetchall()
        (name,) = [name for name in adkweb.cookies if "session" in name]
        assert adkweb.cookies[name].value != stored
        assert adkweb.get("/tokens/")[0] == 200
        adkweb.cookies[name] = stored
        assert adkweb.get("/tokens/")[:2] == (302, "/sign-in/?next=/tokens/")


# --- Passwords of sources ---------------------------------------------------------------------------------------------

SECRET = "hunter2"
BADLY_QUOTED = [
    "postgresql://u:pa/{}@127.0.0.1:1/db",
    "postgresql://u:{}/pa@127.0.0.1:1/db",
    "postgresql://u:pa?{}@127.0.0.1:1/db",
    "postgresql://u:12?{}@127.0.0.1:1/db",
    "postgresql://u:pa#{}@127.0.0.1:1/db",
    "postgresql://u:pa@{}/x@127.0.0.1:1/db",
]
# A bracket or a strange letter is no mark of a URL where a password is, and of several @ the last one ends it.
UNDERSTOOD = [f"postgresql://u:{start}{{}}@127.0.0.1:1/db" for start in ("[", "℀", "pa@")]
NONE = ["postgresql://u:{}@127.0.0.1:x/db", "mysql://u:{}@h/db"]


# Each command is a process of its own, but all of them are forked from one that has set Django up.
EACH = """
import json, os, sys
import django
os.environ["DJANGO_SETTINGS_MODULE"] = "adkweb.settings"
django.setup()
from adkweb.cli import main
for number, words in enumerate(json.loads(sys.argv[1])):
    if not os.fork():
        for stream in (1, 2):
            os.dup2(os.open(f"said-{number}-{stream}", os.O_WRONLY | os.O_CREAT), stream)
        sys.argv[1:] = words
        main()
        sys.exit()
    _process, status = os.wait()
    print(os.waitstatus_to_exitcode(status))
"""


def run_each(data: Path, blank: Path, commands: Iterable[Sequence[str]]) -> list[tuple[int, str, str]]:
    """Commands, to their end, after a first start: exit code, output, complaints."""
    commands, folder = list(commands), started_before(data, blank).parent
    done = warm.run(
        [sys.executable, "-c", EACH, json.dumps(commands)],
        cwd=folder,
        env=environment(data),
        capture_output=True,
        text=True,
        check=True,
    )
    said = [[(folder / f"said-{number}-{stream}").read_text() for stream in (1, 2)] for number in range(len(commands))]
    return [(int(code), *each) for code, each in zip(done.stdout.split(), said, strict=True)]


@pytest.mark.guarantee("Safety", "A database password is never shown.")
def test_a_password_is_shown_nowhere_however_it_is_quoted(data: Path, blank: Path) -> None:
    urls = [*BADLY_QUOTED, *UNDERSTOOD, *NONE]
    tried = [(url, words) for words in (["--port", "0"], ["doctor"]) for url in urls]
    commands = [[*words, url.format(SECRET)] for url, words in tried]
    sentence = "postgresql://…: in a password, write / ? # @ as %2F %3F %23 %40."
    for (url, words), (code, out, errors) in zip(tried, run_each(data, blank, commands), strict=True):
        assert code != 0, (words, url)
        assert SECRET not in out + errors, (words, url)
        assert "Traceback" not in errors, (words, url)
        said = (sentence in out + errors, "Connection refused" in out + errors)
        assert said == (url in BADLY_QUOTED, url in UNDERSTOOD), (words, url, out, errors)


def test_a_password_on_the_command_line_is_warned_of(data: Path, blank: Path) -> None:
    urls = {
        "postgresql://u:hunter2@127.0.0.1:1/db": True,
        "postgresql+asyncpg://u:hunter2@127.0.0.1:1/db": True,
        "postgresql://127.0.0.1:1/db?user=u&password=hunter2": True,
        "postgresql://u@127.0.0.1:1/db": False,
        "postgresql://[::1]:1/db": False,
    }
    done = run_each(data, blank, (["doctor", url] for url in urls))
    for (url, warned), (_code, out, errors) in zip(urls.items(), done, strict=True):
        assert ("every user of this machine can read the password" in errors) == warned, url
        assert SECRET not in out + errors, url


def test_a_password_can_come_from_a_file(
    data: Path,
    tmp_path: Path,
    new_database: Callable[[str], str],
    open_source: Callable[[str], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "pgpass").touch(mode=0o600)
    (tmp_path / "pgpass").write_text(f"*:*:*:postgres:{SECRET}\n")
    monkeypatch.setenv("PGPASSFILE", str(tmp_path / "pgpass"))
    alias = open_source(new_database("postgresql"))
    with database.using(alias) as connection:
        connection.ensure_connection()
        assert connection.connection.info.password == SECRET


# --- The log ----------------------------------------------------------------------------------------------------------

FORGED = "x\n2026-11-22 00:00:00,000 INFO adkweb.tokens: boss revoked the token prod"


def test_a_name_cannot_forge_a_line_of_the_log(data: Path, blank: Path) -> None:
    names = (FORGED, "a\x1b[2J", "a\u2028b", "a\rb", "a\u202eb")
    *made, listed = run_each(data, blank, [*(["token", "create", name] for name in names), ["token", "list"]])
    for name, (code, out, errors) in zip(names, made, strict=True):
        assert (code, out) == (1, ""), name
        assert "Names can't contain line breaks or invisible characters" in errors, name
    assert listed[:2] == (0, "")


@pytest.mark.parametrize(
    "name",
    [FORGED, FORGED.replace("\n", "\r\n"), FORGED.replace("\n", "\u2028"), "\x1b[2K", "\x00\x9b2K"],
    ids=["line", "lines", "separator", "escape", "control"],
)
def test_a_line_of_the_log_is_one_line_and_a_traceback_is_indented(name: str) -> None:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(Line(as_json=False))
    log = logging.getLogger("test.of.lines")
    log.propagate = False
    log.addHandler(handler)
    log.warning("somebody is called %s", name)
    try:
        raise ValueError(name)
    except ValueError:
        log.exception("it failed")
    log.removeHandler(handler)
    first, second, *traceback = stream.getvalue().split("\n")
    assert "somebody is called" in first
    assert second.endswith("it failed")
    assert all(line.startswith("  ") for line in traceback[:-1])
    assert all(line.isprintable() for line in (first, second, *traceback))


def test_a_folder_with_a_line_break_in_its_name_prints_one_line(data: Path, tmp_path: Path) -> None:
    folder = tmp_path / "agents" / FORGED / ".adk"
    folder.mkdir(parents=True)
    shutil.copy(DEMO, folder / "session.db")
    with serve(data, tmp_path / "agents") as adkweb:
        assert adkweb.get("/health")[0] == 200
        assert not any(line.startswith("2026-11-22") for line in adkweb.output.splitlines())
