"""`adkweb token`: for scripts, the text alone on standard output; for people, everything else on standard error."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.own import started_before
from tests.web.test_commands import run


@pytest.fixture
def data(tmp_path: Path, blank: Path) -> Path:
    """adkweb's own data, after a first start."""
    return started_before(tmp_path / "data", blank)


def token(data: Path, *words: str) -> tuple[int, str, str]:
    """Exit code, standard output, standard error."""
    done = run(data, "token", *words, manage=False)
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout, done.stderr


def test_a_token_names_the_people_who_hold_it(data: Path) -> None:
    code, _text, told = token(data, "create", "bot", "--holder", "ghost")
    assert (code != 0, "There's no account “ghost”" in told) == (True, True)
    assert token(data, "create", "bot")[0] == 0
    code, _text, told = token(data, "renew", "bot", "--holder", "ghost")
    assert (code != 0, "There's no account “ghost”" in told) == (True, True)


def test_a_token_is_made_listed_and_revoked(data: Path) -> None:
    code, text, told = token(data, "create", "booking agent", "--permission", "append", "--apps", "booking*")
    assert code == 0
    assert text.startswith("adkweb_")
    assert text.count("\n") == 1
    assert len(text) > 40
    assert "booking agent: permission append, apps booking*. It is shown only once" in told
    assert text.strip() not in told

    code, listed, told = token(data, "list")
    head, row = listed.splitlines()
    assert head.split() == ["NAME", "PERMISSION", "APPS", "CREATED", "EXPIRES", "LAST", "USED"]
    assert row.split()[:4] == ["booking", "agent", "append", "booking*"]
    assert row.endswith("never")
    assert text.strip() not in listed

    assert token(data, "revoke", "booking agent")[0] == 0
    assert "revoked" in token(data, "list")[1]


def test_a_token_is_renewed_and_only_the_new_text_is_on_standard_output(data: Path) -> None:
    before = token(data, "create", "agent", "--rate", "60")[1]
    code, text, told = token(data, "renew", "agent", "--hours", "2")
    assert (code, text.count("\n"), text != before) == (0, 1, True)
    assert text.startswith("adkweb_")
    assert "its old text works until" in told
    assert "renewed; the old text works until" in token(data, "list")[1]
    assert "its old text no longer works" in token(data, "renew", "agent", "--hours", "0")[2]


def test_a_script_that_says_scope_still_works(data: Path) -> None:
    for number, former in enumerate(("--right", "--scope")):
        assert "permission read" in token(data, "create", f"agent {number}", former, "read")[2]


def test_only_a_hash_of_a_token_is_kept(data: Path) -> None:
    text = token(data, "create", "agent")[1].strip()
    assert text.encode() not in b"".join(path.read_bytes() for path in data.glob("adkweb.db*"))
    with closing(sqlite3.connect(data / "adkweb.db")) as db:
        assert db.execute('SELECT name, "right", apps FROM sessions_app_apitoken').fetchall() == [
            ("agent", "append", "*")
        ]


def test_without_any_token_the_list_says_how_to_make_one(data: Path) -> None:
    assert token(data, "list") == (0, "", "No tokens yet. Create one: adkweb token create NAME\n")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["create", "twice"], "There's already a token “twice”"),
        (["create", " "], "Enter a name for the token, such as the program that uses it"),
        (["create", "x" * 101], "100"),
        (["create", "agent", "--permission", "all"], "invalid choice: 'all'"),
        (["revoke", "nobody"], "There's no token “nobody”."),
        (["renew", "nobody"], "There's no token “nobody”."),
        (["renew", "twice", "--hours", "-1"], "from 0 to 720"),
        (["create", "agent", "--rate", "0"], "from 1 to 1000000"),
        ([], "create|list|renew|revoke"),
        (["create"], "NAME"),
    ],
    ids=" ".join,
)
def test_what_cannot_be_done_is_said_and_nothing_is_on_standard_output(
    data: Path, words: list[str], message: str
) -> None:
    token(data, "create", "twice")
    code, text, told = token(data, *words)
    assert code != 0
    assert text == ""
    assert message in told
