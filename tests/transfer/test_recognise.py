"""The format of a file is known by what is in it, whatever its name."""

from __future__ import annotations

import gzip
import json
import re
import zipfile
from pathlib import Path

import pytest

from sessions_app.transfer import FORMATS, recognise
from sessions_app.transfer.items import Fault
from tests.transfer.conftest import Make
from tests.transfer.files import exported, furnish
from tests.web.conftest import ROOT

WRITTEN = [name for name, form in FORMATS.items() if form.write]


@pytest.mark.parametrize("form", WRITTEN)
def test_what_is_exported_is_recognised(form: str, make: Make, tmp_path: Path) -> None:
    source = make("sqlite")
    furnish(source)
    file = tmp_path / "named.txt"
    file.write_bytes(exported(source, form, session="s1"))
    assert recognise(str(file)) == form
    if form != "jsonl":
        file.write_text("\ufeff" + json.dumps(json.loads(file.read_bytes()), indent=2))
        assert recognise(str(file)) == form


def test_the_snake_case_of_adk_is_recognised(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text('{"id": "s", "app_name": "a", "user_id": "u", "state": {}, "events": []}')
    assert recognise(str(file)) == "adk-json"


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"", "empty"),
        (b"\n\n", "begins like none"),
        (gzip.compress(b'{"adkweb":"jsonl","version":1}\n', mtime=0), "gzip: unpack"),
        (b"PGDMP\x01\x0e", "dump of PostgreSQL"),
        (b"hello", "begins like none"),
        (b"\xff\xfe\x00", "begins like none"),
        (b"[1]", "its JSON is like none"),
        (b'{"sessions": []}', "its JSON is like none"),
    ],
)
def test_anything_else_is_refused_with_what_it_is_and_what_there_is(content: bytes, found: str, tmp_path: Path) -> None:
    file = tmp_path / "file.jsonl"
    file.write_bytes(content)
    with pytest.raises(Fault, match=found) as raised:
        recognise(str(file))
    assert all(name in raised.value.message for name, form in FORMATS.items() if form.read)


@pytest.mark.parametrize(
    ("content", "place", "found"),
    [
        (b'{"id": "s",\n "appName": "a', "line 2, column 13", "truncated"),
        (b'{"id": "s",\n "events": []', "line 2, column 14", "truncated"),
        (b'{"id": "s"}\n{"id": "t"}\n', "line 2, column 1", "not valid JSON"),
        (b"[" * 100_000, "", "deeper"),
    ],
)
def test_json_that_is_broken_is_refused_where_it_breaks(content: bytes, place: str, found: str, tmp_path: Path) -> None:
    file = tmp_path / "session.json"
    file.write_bytes(content)
    with pytest.raises(Fault, match=found) as raised:
        recognise(str(file))
    assert raised.value.detail["place"] == place


def test_every_format_is_in_the_documentation() -> None:
    page = (ROOT / "docs" / "transfer.md").read_text()
    shown = re.findall(r"^\| \[?`([\w-]+)`.*\| (yes|no) \| (yes|no)? ?\|$", page, re.MULTILINE)
    told = {name: (written == "yes", lossless == "yes") for name, written, lossless in shown}
    assert told == {name: (bool(form.write or form.write_one), form.lossless) for name, form in FORMATS.items()}


def test_an_archive_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("a.jsonl", "{}")
    with pytest.raises(Fault, match="zip archive: unpack"):
        recognise(str(tmp_path / "a.zip"))
