"""The commands as a person types them: what they do, what they refuse, and the exit code that a script sees."""

from __future__ import annotations

import http.client
import os
import pty
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from http.cookies import SimpleCookie
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.support import warm
from tests.support.own import started_before
from tests.web.conftest import DEMO, ROOT
from tests.web.html import Element, read

LINK = re.compile(r"adkweb is ready\. Open (\S+)")
SECONDS = 60


@pytest.fixture
def data(tmp_path: Path, blank: Path) -> Path:
    """adkweb's own data, after a first start."""
    return started_before(tmp_path / "data", blank)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A copy of the demo, as an agent would have written it: not adopted."""
    copy = Path(shutil.copy(DEMO, tmp_path / "agent.db"))
    if "initial_state" in columns(copy):
        with closing(sqlite3.connect(copy)) as db:
            found = db.execute("SELECT type, name FROM sqlite_master WHERE name LIKE 'adkweb_%' ORDER BY type DESC")
            for kind, name in found.fetchall():  # triggers first, then tables, then the indexes of other tables
                db.execute(f"DROP {kind} IF EXISTS {name}")
            db.execute("ALTER TABLE sessions DROP COLUMN initial_state")
            db.commit()
    return copy


def columns(path: Path) -> list[str]:
    """The columns of a file's sessions."""
    with closing(sqlite3.connect(path)) as db:
        return [row[1] for row in db.execute("PRAGMA table_info(sessions)")]


def environment(data: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ADKWEB_", "DJANGO_"))}
    return {**kept, "ADKWEB_DATA_DIR": str(data), "PYTHONWARNINGS": "error", "PYTHONPATH": str(ROOT)}


def run(data: Path, *words: str | Path, manage: bool = True) -> subprocess.CompletedProcess[str]:
    """A command, to its end."""
    program = [str(ROOT / "manage.py")] if manage else ["-c", "from adkweb.cli import main; main()"]
    return warm.run(
        [sys.executable, *program, *map(str, words)],
        cwd=data.parent,
        env=environment(data),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


def on_a_terminal(data: Path, *words: str) -> tuple[int, list[str]]:
    """The exit code of a command, and the lines that it wrote to a terminal, up to the link if it serves."""
    ours, theirs = pty.openpty()
    process = warm.Popen(
        [sys.executable, "-c", "from adkweb.cli import main; main()", *words],
        cwd=data.parent,
        env=environment(data),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    said = b""
    with suppress(OSError):  # the end of a terminal
        while b"Ctrl+C ends" not in said and (more := os.read(ours, 1000)):
            said += more
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
    code = process.wait(SECONDS)
    os.close(ours)
    return code, [line for line in said.decode().splitlines() if line.strip()]


class Served:
    """adkweb while it serves, and one browser."""

    def __init__(self, output: str) -> None:
        self.output = output
        self.link = LINK.findall(output)[-1]
        self.cookies: SimpleCookie = SimpleCookie()

    def get(self, address: str) -> tuple[int, str, str]:
        """Status, where to, and body."""
        with closing(http.client.HTTPConnection(urlsplit(self.link).netloc, timeout=SECONDS)) as connection:
            cookies = "; ".join(f"{name}={morsel.value}" for name, morsel in self.cookies.items())
            connection.request("GET", address, headers={"Cookie": cookies})
            answer = connection.getresponse()
            for cookie in answer.headers.get_all("Set-Cookie") or []:
                self.cookies.load(cookie)
            return answer.status, answer.headers.get("Location", ""), answer.read().decode()

    def open(self, address: str) -> Element:
        """A page."""
        status, _to, body = self.get(address)
        page, problems = read(body)
        assert (status, problems) == (200, [])
        return page

    def sign_in(self) -> None:
        parts = urlsplit(self.link)
        (wanted,) = parse_qs(parts.query).get("next", ["/"])
        assert self.get(f"{parts.path}?{parts.query}")[:2] == (302, wanted)


@contextmanager
def serve(data: Path, *words: str | Path) -> Iterator[Served]:
    """`serve` on a free port until the test is done; it has to end by itself when asked, and to log nothing bad."""
    log = data.parent / "log"
    with log.open("w") as out:
        process = warm.Popen(
            [sys.executable, str(ROOT / "manage.py"), "serve", "--port", "0", *map(str, words)],
            cwd=data.parent,
            env=environment(data),
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    try:
        until = time.monotonic() + SECONDS
        while not LINK.search(log.read_text()):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < until, log.read_text()
            time.sleep(0.05)
        yield Served(log.read_text())
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(SECONDS)
        finally:
            process.kill()
    assert "Traceback" not in log.read_text(), log.read_text()


# --- serve ------------------------------------------------------------------------------------------------------------


def test_serve_prints_a_link_that_signs_in_once_and_shows_the_sources(data: Path, file: Path) -> None:
    with serve(data, file) as adkweb:
        assert "agent" in adkweb.output
        assert adkweb.get("/")[:2] == (302, "/sign-in/?next=/")
        adkweb.sign_in()
        assert adkweb.open("/").texts("h2")[1] == "agent"
        assert adkweb.open("/s/agent/booking/ana/seoul-trip/").all("li", "ev") != []
        other = Served(adkweb.output)
        parts = urlsplit(adkweb.link)
        assert other.get(f"{parts.path}?{parts.query}")[0] == 403
    assert "initial_state" in columns(file)


def test_serve_read_only_changes_nothing_in_the_file(data: Path, file: Path) -> None:
    before = file.read_bytes()
    with serve(data, file, "--read-only") as adkweb:
        adkweb.sign_in()
        assert adkweb.open("/s/agent/booking/ana/seoul-trip/").all("li", "ev") != []
        assert "read-only" in adkweb.open("/").one("header", "topbar").text
        assert adkweb.get("/s/agent/booking/ana/seoul-trip/edit/")[0] == 403
    assert file.read_bytes() == before
    assert sorted(path.name for path in file.parent.glob("agent.db*")) == ["agent.db"]


def test_serve_without_a_source_opens_the_demo_on_its_best_session(data: Path) -> None:
    with serve(data) as adkweb:
        parts = urlsplit(adkweb.link)
        assert adkweb.get(f"{parts.path}?{parts.query}")[:2] == (302, "/demo/")
        assert adkweb.get("/demo/")[:2] == (302, "/s/demo/booking/ana/december-trip/")
        adkweb.sign_in()
        assert "maya.demo" in adkweb.open("/edits/").one("main").text  # edits are there from the start
        # The files that its agents saved are there.
        kept = adkweb.open("/s/demo/booking/ana/december-trip/artifacts/?name=receipt.pdf")
        assert "read the content here" not in kept.one("main").text
        assert adkweb.get("/s/demo/booking/ana/december-trip/artifacts/receipt.pdf/0/")[0] == 200


def test_serve_demo_opens_a_copy_beside_the_sources_given(data: Path, file: Path) -> None:
    before = DEMO.read_bytes()
    with serve(data, file, "--demo") as adkweb:
        adkweb.sign_in()
        assert adkweb.open("/").texts("h2")[1:3] == ["agent", "demo"]
    assert DEMO.read_bytes() == before
    assert (data / "demo.db").exists()


def test_serve_a_folder_without_a_database_waits_for_one(data: Path, tmp_path: Path) -> None:
    (tmp_path / "agents").mkdir()
    with serve(data, tmp_path / "agents") as adkweb:
        assert "it appears as soon as an agent has written it" in adkweb.output
        adkweb.sign_in()
        assert "No database yet" in adkweb.open("/").texts("h2")


def test_the_command_without_words_would_serve_and_says_how(data: Path) -> None:
    done = run(data, "--help", manage=False)
    assert done.returncode == 0
    assert "--read-only" in done.stdout
    assert "--demo" in done.stdout


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1"])
def test_serve_to_other_machines_needs_an_admin_first(data: Path, host: str) -> None:
    done = run(data, "serve", "--host", host, "--port", "0")
    assert done.returncode == 2
    assert "Create an admin account first: adkweb createsuperuser" in done.stderr
    assert "Traceback" not in done.stderr


def test_serve_on_a_port_in_use_says_which_to_take(data: Path) -> None:
    with closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = run(data, "serve", "--port", str(port))
    assert done.returncode == 2
    assert (
        f"Cannot listen on 127.0.0.1:{port}: Address already in use. Choose another: --port {port + 1}" in done.stderr
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["missing.db"],
            "No such file or folder: missing.db. To create a new database there, run: adkweb create missing.db",
        ),
        (["mysql://localhost/x"], "mysql:// isn't supported"),
        (["--port", "70000"], "70000 is not a port"),
        (["postgresql://nobody@127.0.0.1:1/x"], "no server is listening there"),
    ],
)
def test_serve_says_what_it_cannot_open(data: Path, words: list[str], message: str) -> None:
    done = run(data, *words, *([] if "--port" in words else ["--port", "0"]), manage=False)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_what_is_refused_stops_nothing_else_and_home_says_why(data: Path, file: Path, tmp_path: Path) -> None:
    old = tmp_path / "old.db"
    with closing(sqlite3.connect(old)) as db:
        db.execute("CREATE TABLE sessions (id TEXT, state TEXT)")
    with serve(data, old, tmp_path / "missing.db", file) as served:
        assert "old.db: This isn't an ADK database" in served.output
        assert "No such file or folder: missing.db" in served.output
        served.sign_in()
        home = served.open("/").text
        assert "This isn't an ADK database" in home
        assert "No such file or folder: missing.db" in home
        assert "No activity yet" not in home


# --- create, adopt, release -------------------------------------------------------------------------------------------


def test_a_database_is_created_adopted_and_released(data: Path, tmp_path: Path) -> None:
    path = tmp_path / "new.db"
    assert run(data, "create", path).stdout == "created new.db\n"
    assert "state" in columns(path)
    before = columns(path)
    assert run(data, "adopt", path).stdout == "adopted new.db\n"
    assert columns(path) == [*before, "initial_state", "initial_place"]
    assert run(data, "release", path).stdout == "released new.db\n"
    assert columns(path) == before


def test_an_agents_database_is_created_before_its_first_run(data: Path, tmp_path: Path) -> None:
    (tmp_path / "agents" / "booking").mkdir(parents=True)
    name = "agents/booking/.adk/session.db"
    assert run(data, "create", name).stdout == f"created {name}\n"
    assert "state" in columns(tmp_path / name)
    missing = run(data, "create", "agents/typo/.adk/session.db")
    assert "agents/typo/.adk/session.db can't be created: No such file or directory" in missing.stderr
    assert not (tmp_path / "agents" / "typo").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["create", "agent.db"], "agent.db has ADK's tables already."),
        (["create", "no/such/folder/new.db"], "no/such/folder/new.db can't be created: No such file or directory"),
        (["adopt", "missing.db"], "No such file or folder: missing.db."),
        (["adopt", "empty"], "no .adk/session.db in this folder"),
        (["release", "text.db"], "this isn't a SQLite database."),
        (["adopt"], "the following arguments are required: SOURCE"),
    ],
)
def test_a_command_that_cannot_do_its_work_says_so_and_fails(
    data: Path, file: Path, tmp_path: Path, words: list[str], message: str
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "text.db").write_text("this is no database, but some text" * 100)
    before = file.read_bytes()
    done = run(data, *words)
    assert done.returncode != 0
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert file.read_bytes() == before


def test_an_account_can_be_made_before_adkweb_was_ever_started(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DJANGO_SUPERUSER_PASSWORD", "correct horse")
    made = run(
        data, "createsuperuser", "--noinput", "--username", "admin", "--email", "admin@example.com", manage=False
    )
    assert (made.returncode, made.stderr) == (0, "")


@pytest.mark.parametrize(
    "words",
    [
        ["postgresql://"],
        ["postgresql://[bad"],
        ["sqlite://"],
        ["create", "."],
        ["create", "/no/such.db"],
        ["--port", "70000"],
    ],
    ids=" ".join,
)
def test_no_argument_ends_in_a_traceback(data: Path, words: list[str]) -> None:
    ended = run(data, *words, manage=False)
    assert ended.returncode == 2
    assert ended.stderr
    assert "CommandError" not in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["serv"], "No such command or path: serv. Did you mean adkweb serve?"),
        (["exprot", "a.db"], "No such command or path: exprot. Did you mean adkweb export?"),
        (
            ["nothing-like-it", "--port", "0"],
            "No such file or folder: nothing-like-it. To create a new database there, run: adkweb create nothing-like-it",
        ),
        (["text.db", "--port", "0"], "text.db: this isn't a SQLite database. (file is not a database)"),
    ],
    ids=lambda each: each[0] if isinstance(each, list) else "",
)
def test_on_a_terminal_an_error_is_one_sentence(data: Path, words: list[str], said: str) -> None:
    (data.parent / "text.db").write_text("no database " * 99)
    assert on_a_terminal(data, *words) == (2, [said])


def test_on_a_terminal_nothing_stands_before_what_adkweb_says(data: Path, file: Path) -> None:
    on_a_terminal(data, str(file), "--port", "0")
    moved = file.rename(file.with_name("moved.db"))  # the log says so
    _code, lines = on_a_terminal(data, str(moved), "--port", "0")
    assert lines[0].split() == ["moved", "moved.db"]
    assert lines[1].startswith("adkweb is ready. Open http://")


def test_a_folder_may_have_the_name_of_a_command_misspelt(data: Path) -> None:
    (data.parent / "serv").mkdir()
    assert "70000" in run(data, "serv", "--port", "70000", manage=False).stderr


def test_a_folder_may_have_the_name_of_one_of_djangos_commands(data: Path) -> None:
    (data.parent / "check").mkdir()
    ended = run(data, "check", "--port", "70000", manage=False)
    assert "70000" in ended.stderr  # it was served, as far as the port allowed


def test_the_version_is_adkwebs(data: Path) -> None:
    assert run(data, "--version", manage=False).stdout.startswith("adkweb ")
