"""Accounts are made with passwords that are worth their name, from a terminal and from a script."""

from __future__ import annotations

import os
import pty
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.management.conftest import PROGRAM, SECONDS, environment, run
from tests.support import warm

WORDS = ("createsuperuser", "--noinput", "--username", "marias-account", "--email", "maria@example.com")


WEAK = {
    "a": "This password is too short. It must contain at least 12 characters.",
    "qwerty123456": "This password is too common.",
    "482915736091": "This password is entirely numeric.",
    "marias-account1": "The password is too similar to the username.",
}


@pytest.mark.usefixtures("ready")
def test_a_script_cannot_make_an_account_with_a_weak_password(tmp_path: Path) -> None:
    for password, why in WEAK.items():
        code, _out, errors = run(tmp_path, *WORDS, DJANGO_SUPERUSER_PASSWORD=password)
        assert code == 1
        assert why in errors
    assert run(tmp_path, *WORDS, DJANGO_SUPERUSER_PASSWORD="correct horse battery")[0] == 0


def test_a_terminal_refuses_a_weak_password_and_asks_again(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    process = warm.Popen(
        [sys.executable, "-c", PROGRAM, "createsuperuser", "--username", "maria", "--email", "maria@example.com"],
        cwd=tmp_path,
        env=environment(tmp_path),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    weak, good = ["a", "a"], ["correct horse battery"] * 2
    said = ""
    for prompt, words in zip(
        ["Password:", "(again):", "[y/N]:", "Password:", "(again):"], [*weak, "n", *good], strict=True
    ):
        while not said.rstrip().endswith(prompt):
            said += os.read(ours, 1000).decode()
        os.write(ours, f"{words}\n".encode())
        said += "\n"
    with suppress(OSError):  # the end of a terminal
        while more := os.read(ours, 1000):
            said += more.decode()
    os.close(ours)
    assert "It must contain at least 12 characters" in said
    assert process.wait(SECONDS) == 0, said
