"""Other users of this machine: adkweb's own files are closed to them, and what they once copied signs nobody in."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from .conftest import DEMO
from .test_commands import LINK, environment, run, serve

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


@pytest.mark.parametrize("mask", [0, 0o022])
def test_nobody_else_can_read_what_a_first_start_makes(data: Path, mask: int) -> None:
    with umask(mask), serve(data) as adkweb:
        adkweb.sign_in()
        names = {path.name for path in data.iterdir()}
        assert names >= {"adkweb.db", "adkweb.db-wal", "adkweb.db-shm", "demo.db", "secret-key"}
        assert open_to_others(data) == []


def test_files_of_an_older_adkweb_are_closed_the_log_of_a_killed_one_too(data: Path) -> None:
    with umask(0):
        process = subprocess.Popen(
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
    subprocess.run([sys.executable, "-c", program, "token", "list"], cwd=tmp_path, env=given, check=True)
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


def test_sign_ins_whose_keys_an_older_adkweb_stored_are_ended(data: Path) -> None:
    for app, number in (("sessions_app", "0007"), ("sessions", "0001")):
        run(data, "migrate", app, number)
    with closing(sqlite3.connect(data / "adkweb.db")) as own:
        own.execute("INSERT INTO django_session VALUES ('plain', '', '2099-01-01')")
        own.commit()
        run(data, "token", "list", manage=False)
        assert own.execute("SELECT * FROM django_session").fetchall() == []
