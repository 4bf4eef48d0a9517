"""`adkweb export` and `adkweb import` as a person types them, and as a machine kills them."""

from __future__ import annotations

import gzip
import json
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from sessions_app.access.actor import SYSTEM
from sessions_app.management.commands._output import output
from sessions_app.transfer import FORMATS
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session
from tests.support import warm
from tests.support.stored import execute, query
from tests.transfer.files import event_line, exported, file_of, furnish, session_line
from tests.web.conftest import DEMO, ROOT

SECONDS = 140
MEGABYTES = 150
FURNISHED = 7  # events
KILLED = 8_000  # events of an import that is killed: after a quarter it has far to go

# Of this program alone: what the system counts for a child begins with what its parent had.
MEASURED = """
from adkweb.cli import main
main()
with open("/proc/self/status") as status:
    print(next(line.split()[1] for line in status if line.startswith("VmHWM")))
"""


def command(
    tmp_path: Path, *words: str | Path, program: str = "from adkweb.cli import main; main()"
) -> subprocess.Popen[bytes]:
    """A command, started."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ADKWEB_", "DJANGO_"))}
    return warm.Popen(
        [sys.executable, "-c", program, *map(str, words)],
        cold=program == MEASURED,
        cwd=tmp_path,
        env={**kept, "ADKWEB_DATA_DIR": str(tmp_path / "data"), "PYTHONWARNINGS": "error", "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def run(tmp_path: Path, *words: str | Path) -> tuple[int, bytes, str]:
    """A command, to its end: exit code, output, complaints."""
    with command(tmp_path, *words) as started:
        out, errors = started.communicate(timeout=SECONDS)
    return started.returncode, out, errors.decode()


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A new store, for an agent."""
    assert run(tmp_path, "create", "store.db")[0] == 0
    return tmp_path / "store.db"


def test_a_store_leaves_and_enters_another(tmp_path: Path, store: Path) -> None:
    before = DEMO.read_bytes()
    code, file, errors = run(tmp_path, "export", DEMO)
    assert (code, errors) == (0, "")
    assert DEMO.read_bytes() == before
    assert run(tmp_path, "export", DEMO, "-o", "demo.jsonl") == (0, b"", "")
    assert (tmp_path / "demo.jsonl").read_bytes() == file
    untouched = store.read_bytes()
    code, told, errors = run(tmp_path, "import", "demo.jsonl", "--into", store, "--preview")
    assert (code, errors, store.read_bytes() == untouched) == (0, "", True)
    assert "18 │ new sessions would be imported" in told.decode()
    code, told, errors = run(tmp_path, "import", "demo.jsonl", "--into", store)
    assert (code, errors) == (0, "")
    assert "18 │ new sessions imported" in told.decode()
    assert run(tmp_path, "export", store) == (0, file, "")
    code, told, errors = run(tmp_path, "import", "demo.jsonl", "demo.jsonl", "--into", store)
    assert (code, errors, told.decode().count("18 │ sessions already exist")) == (0, "", 2)
    _code, part, _errors = run(tmp_path, "export", store, "--app", "support")
    assert 0 < part.count(b'"type":"session"') < 10


def test_a_bad_file_stops_all_before_anything_is_written(tmp_path: Path, store: Path) -> None:
    good, bad = tmp_path / "good.jsonl", tmp_path / "bad.jsonl"
    good.write_bytes(file_of(session_line()))
    bad.write_bytes(file_of(session_line("x", 2), event_line())[:-60])
    code, told, errors = run(tmp_path, "import", good, bad, "--into", store)
    assert (code, told) == (2, b"")
    assert f"{bad}, line 4: the file is truncated" in errors
    with closing(sqlite3.connect(store)) as db:
        assert db.execute("SELECT count(*) FROM sessions").fetchone() == (0,)
    packed = tmp_path / "good.jsonl.gz"
    packed.write_bytes(gzip.compress(good.read_bytes()))
    for words in (
        (packed, "--into", store),
        ("none.jsonl", "--into", store),
        (good, "--into", "none.db"),
        (tmp_path, "--into", store),
    ):
        code, _told, errors = run(tmp_path, "import", *words)
        assert code == 2
        assert "Traceback" not in errors


def test_what_is_skipped_and_what_differs_is_said_and_is_no_success(tmp_path: Path, store: Path) -> None:
    app = {"type": "app", "app": "app", "state": {"plan": "[red]x"}, "updated": 1.0}
    file = tmp_path / "file.jsonl"
    file.write_bytes(file_of(app, session_line()))
    assert run(tmp_path, "import", file, "--into", store)[0] == 0
    file.write_bytes(
        file_of({**app, "state": {"plan": "y", "new": 1, "\x1b[2J": 2}}, session_line(events=1), event_line())
    )
    code, told, errors = run(tmp_path, "import", file, "--into", store)
    assert code == 1
    assert "1 sessions were skipped" in errors
    assert "skipped app/u/s1: it is there with other events: 0, the file has 1" in told.decode()
    assert 'kept; --state sets it: app app:plan: "[red]x" → "y"' in told.decode()
    code, told, errors = run(tmp_path, "import", file, "--into", store, "--state")
    assert "set: app app:new: absent → 1" in told.decode()
    assert "\x1b" not in told.decode()


def test_every_kind_of_file_leaves_and_enters_by_its_content(tmp_path: Path, store: Path) -> None:
    (line, *_rest) = (x for x in run(tmp_path, "export", DEMO)[1].splitlines() if b'"type":"session"' in x)
    only = [word for name in ("app", "user", "session") for word in (f"--{name}", json.loads(line)[name])]
    files = []
    for name, form in FORMATS.items():
        if form.write:
            files.append(tmp_path / f"{name}.txt")
            assert run(tmp_path, "export", DEMO, *only, "--format", name, "-o", files[-1]) == (0, b"", "")
    assert len(files) >= 3
    for file in files:
        code, told, errors = run(tmp_path, "import", file, "--into", store, "--preview")
        assert (code, errors) == (0, "")
        assert "1 │ new sessions would be imported" in told.decode()
    code, _told, errors = run(tmp_path, "import", files[1], "--into", store, "--format", "jsonl")
    assert (code, f"{files[1]}, line 1: " in errors) == (2, True)
    assert run(tmp_path, "import", files[1], "--into", store)[0] == 0
    assert run(tmp_path, "export", store, "--format", "adk-json")[1] == files[1].read_bytes()


def test_a_password_is_never_shown(tmp_path: Path, store: Path) -> None:
    for url in ("postgresql://ana:s3cr3t@127.0.0.1:1/x", "postgresql://ana@127.0.0.1:1/x?password=s3cr3t"):
        code, told, errors = run(tmp_path, "import", url, "--into", store)
        assert (code, told) == (2, b"")
        assert "127.0.0.1" in errors
        assert "s3cr3t" not in errors


def test_what_a_format_cannot_hold_leaves_no_file(tmp_path: Path) -> None:
    code, out, errors = run(tmp_path, "export", DEMO, "--format", "adk-json", "-o", "a.json")
    assert (code, out, "--session" in errors) == (1, b"", True)
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_an_output_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    code, _out, errors = run(tmp_path, "export", DEMO, "-o", "no/such/folder.jsonl")
    assert (
        code,
        "cannot be written" in errors,
    ) == (1, True)
    (tmp_path / "taken").mkdir()
    assert run(tmp_path, "export", DEMO, "-o", "taken")[0] == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "taken"]


def write_large(path: Path, events: int) -> None:
    """One session of so many events."""
    with path.open("wb") as file:
        first, *_, end = file_of(session_line(events=events)).splitlines(keepends=True)
        file.write(first)
        file.write(json.dumps(session_line(events=events, state={"n": events})).encode() + b"\n")
        for n in range(events):
            data = {
                "id": f"6e0c8a4e-0000-4000-8000-{n:012}",
                "invocation_id": f"e-6e0c8a4e-0000-4000-8000-{n // 10:012}",
                "timestamp": 1_700_000_000.123456 + n,
                "author": "agent",
                "content": {"role": "model", "parts": [{"text": "Where would you like to fly? " * 5}]},
                "actions": {"state_delta": {"n": n}},
            }
            file.write(json.dumps({"type": "event", "data": data}).encode() + b"\n")
        file.write(json.dumps({**json.loads(end), "events": events}).encode() + b"\n")


def measured(tmp_path: Path, *words: str | Path) -> float:
    """Runs a command, which must succeed; the most memory it had, in MB."""
    begun = time.monotonic()
    with command(tmp_path, *words, program=MEASURED) as started:
        output, errors = started.communicate(timeout=SECONDS * 5)
    assert (started.returncode, errors) == (0, b"")
    most = int(output.split()[-1]) / 1024
    print(f"{words[0]}: {most:.0f} MB, {time.monotonic() - begun:.1f} s")
    return most


def stays_small(tmp_path: Path, into: str | Path, events: int) -> None:
    file, again = tmp_path / "large.jsonl", tmp_path / "again.jsonl"
    write_large(file, events)
    assert measured(tmp_path, "import", file, "--into", into) < MEGABYTES
    assert measured(tmp_path, "export", into, "-o", again) < MEGABYTES
    assert measured(tmp_path, "import", again, "--into", into) < MEGABYTES  # compares
    with again.open("rb") as lines:
        assert sum(1 for _line in lines) == events + 3


@pytest.mark.parametrize("form", ["sqlite", "postgresql"])
def test_memory_does_not_grow_with_a_session(tmp_path: Path, form: str, new_database: Callable[[str], str]) -> None:
    stays_small(tmp_path, new_database(form), 20_000)


@pytest.mark.long
@pytest.mark.parametrize("form", ["sqlite", "postgresql"])
@pytest.mark.parametrize("events", [200_000, 1_000_000])
def test_a_million_events_pass_within_150_mb(
    tmp_path: Path, form: str, events: int, new_database: Callable[[str], str]
) -> None:
    stays_small(tmp_path, new_database(form), events)


@pytest.mark.parametrize("form", ["sqlite", "postgresql"])
def test_an_import_killed_twice_ends_as_one_that_was_not(
    tmp_path: Path, form: str, new_database: Callable[[str], str], open_source: Callable[[str, str], str]
) -> None:
    text = new_database(form)
    source = open_source(text, form)
    furnish(source)
    file = tmp_path / "file.jsonl"
    write_large(file, KILLED)
    for events in (1, KILLED // 4):
        with command(tmp_path, "import", file, "--into", text) as started:
            until = time.monotonic() + SECONDS
            while query(source, "SELECT count(*) FROM events")[0][0] < FURNISHED + events:
                assert time.monotonic() < until
                assert started.poll() is None
                time.sleep(0.01)
            started.kill()
    code, told, errors = run(tmp_path, "import", file, "--into", text)
    assert (code, errors) == (0, "")
    assert "1 │ partly imported sessions finished" in told.decode()
    with_path = tmp_path / "whole.jsonl"
    with_path.write_bytes(exported(source))
    fresh = new_database("sqlite")
    assert run(tmp_path, "create", fresh)[0] == 0
    assert run(tmp_path, "import", with_path, "--into", fresh)[0] == 0
    assert run(tmp_path, "export", fresh, "--with-secrets")[1] == with_path.read_bytes()
    ids = [json.loads(line)["data"]["id"] for line in with_path.read_bytes().split(b"\n") if b"-8000-" in line]
    assert len(ids) == KILLED
    assert ids == sorted(ids)


def test_an_export_is_readable_by_its_owner_only_whatever_stood_there(tmp_path: Path) -> None:
    for name in ("out.jsonl", "out.jsonl.part"):  # the one of another time, and what a killed export left
        (tmp_path / name).touch()
        (tmp_path / name).chmod(0o666)
    before = os.umask(0)
    try:
        assert run(tmp_path, "export", DEMO, "-o", "out.jsonl")[0] == 0
    finally:
        os.umask(before)
    assert (tmp_path / "out.jsonl").stat().st_mode & 0o777 == 0o600
    assert not (tmp_path / "out.jsonl.part").exists()


def test_what_is_no_file_is_written_as_it_is_and_a_link_stays_one(tmp_path: Path) -> None:
    pipe, link, there = (tmp_path / name for name in ("pipe", "link", "there.jsonl"))
    os.mkfifo(pipe)
    link.symlink_to(there)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    for name in (pipe, link):
        with output(str(name)) as file:
            file.write(b"a session")
    assert (os.read(reader, 100), pipe.is_fifo()) == (b"a session", True)
    assert (there.read_bytes(), link.is_symlink()) == (b"a session", True)
    os.close(reader)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["link", "pipe", "there.jsonl"]


def test_a_pipe_is_no_file_to_import(tmp_path: Path, store: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", "/dev/null", "/dev/zero"):
        code, _out, errors = run(tmp_path, "import", name, "--into", store)
        assert (code, errors) == (2, f"{name} is not a file.\n")


def test_secrets_of_credentials_are_exported_only_when_asked(
    tmp_path: Path, new_store: Callable[[str], str], open_source: Callable[[str], str]
) -> None:
    alias, other = open_source(store := new_store("sqlite")), new_store("sqlite")
    login = {"auth_type": "oauth2", "oauth2": {"client_id": "me", "access_token": "hunter2"}}
    create_session(alias, "booking", "ana", session_id="s1", state={"login": login, "user:login": login}, actor=SYSTEM)
    code, plain, _errors = run(tmp_path, "export", store)
    assert (code, b"hunter2" in plain, b"access_token" in plain) == (0, False, False)
    code, whole, _errors = run(tmp_path, "export", store, "--with-secrets")
    assert (code, whole.count(b"hunter2"), whole.splitlines()[0]) == (0, 4, b'{"adkweb":"jsonl","version":1}')
    for form in ("adk-json", "evalset", "html"):
        code, told, errors = run(tmp_path, "export", store, "--with-secrets", "--format", form, "--session", "s1")
        assert (code, told, "Only jsonl is exported with secrets." in errors) == (1, b"", True)

    (tmp_path / "whole.jsonl").write_bytes(whole)
    (tmp_path / "plain.jsonl").write_bytes(plain)
    warning = "This export is without secrets: agents ask for credentials again."
    assert warning in run(tmp_path, "import", "plain.jsonl", "--into", other, "--preview")[1].decode()
    assert warning not in run(tmp_path, "import", "whole.jsonl", "--into", other)[1].decode()
    assert run(tmp_path, "export", other, "--with-secrets")[1] == whole
    code, told, _errors = run(tmp_path, "import", "plain.jsonl", "--into", other, "--state")
    assert (code, "1 │ sessions already exist" in told.decode(), warning in told.decode()) == (0, True, True)
    assert run(tmp_path, "export", other, "--with-secrets")[1] == whole


def test_a_damaged_row_is_left_out_and_named_when_asked(
    tmp_path: Path, new_store: Callable[[str], str], open_source: Callable[[str], str]
) -> None:
    alias = open_source(store := new_store("sqlite"))
    ref = create_session(alias, "booking", "ana", session_id="s1", actor=SYSTEM)
    append_event(ref, {"id": "e1", "author": "a"}, actor=SYSTEM)
    execute(alias, "UPDATE events SET event_data = '{'")
    code, _out, errors = run(tmp_path, "export", store)
    assert (code, "booking/ana/s1/e1 cannot be exported" in errors) == (1, True)
    code, out, errors = run(tmp_path, "export", store, "--skip-damaged")
    assert (code, errors.startswith("Left out: booking/ana/s1/e1 (")) == (0, True)
    assert json.loads(out.splitlines()[0])["left_out"] == ["booking/ana/s1/e1"]
