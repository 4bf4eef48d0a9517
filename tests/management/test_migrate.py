"""adkweb's own tables are made by one process at a time, once their database is there, and never for a newer adkweb."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path

import psycopg
import pytest

from tests.parts import long_but
from tests.servers import PostgreSQL, free_port
from tests.support import warm
from tests.support.pooler import pooler

COMMAND = [sys.executable, "-c", "from adkweb.cli import main; main()"]


def begin(folder: Path, own: str, *words: str, **more: str) -> warm.Popen:
    folder.mkdir(exist_ok=True)
    settings = {"ADKWEB_DATA_DIR": str(folder), "ADKWEB_DATABASE_URL": own, "ADKWEB_WAIT_SECONDS": "0", **more}
    settings["DJANGO_SETTINGS_MODULE"] = "adkweb.settings"
    return warm.Popen(
        [*COMMAND, *words], env=os.environ | settings, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )


@pytest.fixture(params=long_but(["sqlite", "postgresql", "pooler"], "postgresql"))
def own(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of an empty database for adkweb itself."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'own.db'}"
        return
    url: str = request.getfixturevalue("new_database")("postgresql")
    with pooler(url) if request.param == "pooler" else nullcontext(url) as address:
        yield address


def result(begun: warm.Popen) -> tuple[int, str]:
    """The exit code of a command, and what it said."""
    output, _ = begun.communicate(timeout=240)
    return begun.returncode, output


@pytest.mark.guarantee(
    "Writing",
    "Several processes can start at the same time, even if adkweb's own database is still empty.",
)
def test_three_processes_that_begin_at_once_all_find_their_tables(own: str, tmp_path: Path) -> None:
    begun = [begin(tmp_path / "data", own, "migrate") for _ in range(3)]
    ended = [result(each) for each in begun]
    assert [code for code, _output in ended] == [0, 0, 0], ended
    assert sum("Applying sessions_app.0001_initial" in output for _code, output in ended) == 1
    assert result(begin(tmp_path / "data", own, "migrate", "--check"))[0] == 0


def test_check_only_looks(tmp_path: Path, new_database: Callable[[str], str]) -> None:
    own = new_database("postgresql")
    assert result(begin(tmp_path / "data", own, "migrate", "--check"))[0] == 1
    with psycopg.connect(own) as connection:
        assert connection.execute("SELECT count(*) FROM pg_tables WHERE tablename LIKE 'sessions_app%'").fetchone() == (
            0,
        )


def test_the_database_of_a_newer_adkweb_is_refused_and_named(
    tmp_path: Path, new_database: Callable[[str], str]
) -> None:
    own = new_database("postgresql")
    assert result(begin(tmp_path / "data", own, "migrate"))[0] == 0
    with psycopg.connect(own) as connection:
        connection.execute(
            "INSERT INTO django_migrations (app, name, applied) VALUES ('sessions_app', '0999_later', now())"
        )
    for words in (["--port", str(free_port())], ["token", "create", "a"], ["migrate"]):
        code, output = result(begin(tmp_path / "data", own, *words))
        assert (code, "was made by a newer adkweb" in output, "0999_later" in output) == (2, True, True), output
        assert "Traceback" not in output
    assert "was made by a newer adkweb (sessions_app 0999_later)" in result(begin(tmp_path / "data", own, "doctor"))[1]


def test_a_start_waits_for_its_database_and_says_so(tmp_path: Path) -> None:
    with PostgreSQL() as server:
        server.stop()
        waiting = begin(tmp_path / "data", server.url(), "migrate", ADKWEB_WAIT_SECONDS="100")
        assert waiting.stdout is not None
        first = waiting.stdout.readline()
        assert "Waiting up to 100 s for adkweb's own database" in first
        assert "refused" in first
        server.start()
        code, output = result(waiting)
        assert code == 0, output


@pytest.mark.parametrize(("server", "seconds"), [("127.0.0.1:1/x", "1"), ("", "600")], ids=["no server", "no database"])
def test_a_start_gives_up_in_the_end_and_at_once_where_waiting_is_in_vain(
    tmp_path: Path, new_database: Callable[[str], str], server: str, seconds: str
) -> None:
    own = f"postgresql://postgres@{server}" if server else new_database("postgresql") + "_is_not_there"
    code, output = result(begin(tmp_path / "data", own, "migrate", ADKWEB_WAIT_SECONDS=seconds))
    assert (code, "cannot be used" in output) == (2, True), output
