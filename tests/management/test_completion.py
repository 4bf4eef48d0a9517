"""Completion as a shell does it, and the help that lists what there is."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from django.core.management import get_commands, load_command_class

from adkweb import cli
from sessions_app.management.commands.completion import SHELLS, forms
from tests.management.conftest import run


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What `adkweb completion bash` prints."""
    code, out, errors = run(tmp_path_factory.mktemp("completion"), "completion", "bash")
    assert (code, errors) == (0, "")
    return out


def completed(tmp_path: Path, script: str, line: str) -> set[str]:
    """What bash offers at the end of a line, in a folder with a file and a folder; no adkweb is there to be run."""
    (tmp_path / "my agents").mkdir(exist_ok=True)
    (tmp_path / "agent.db").touch()
    words = [*line.split(" ")]
    values = " ".join(f"'{word}'" for word in words)
    program = f"""{script}
        [[ $(complete -p adkweb) == 'complete -F _adkweb adkweb' ]] || exit 9
        COMP_WORDS=({values}) COMP_CWORD={len(words) - 1}
        _adkweb && printf '%s\\n' "${{COMPREPLY[@]}}" """
    done = subprocess.run(
        ["bash", "--norc", "-c", program],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return set(done.stdout.splitlines()) - {""}


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("adkweb do", {"doctor"}),
        ("adkweb a", {"adopt", "answer", "audit-head", "agent.db"}),
        ("adkweb my", {"my agents"}),
        ("adkweb --re", {"--read-only"}),
        ("adkweb agent.db --p", {"--port", "--python"}),
        ("adkweb agent.db --port ", set()),
        ("adkweb tail --", {"--help", "--app", "--user", "--session", "--lines"}),
        ("adkweb tail --app ", set()),
        ("adkweb tail a", {"agent.db"}),
        ("adkweb create --format ", {"sqlite", "database"}),
        ("adkweb create --format = d", {"database"}),  # as bash hands over --format=d
        ("adkweb create --format =", {"sqlite", "database"}),
        ("adkweb import x --into a", {"agent.db"}),
        ("adkweb export -o ", {"agent.db", "my agents"}),
        ("adkweb completion ", {"bash", "zsh", "fish"}),
        ("adkweb doctor --d", {"--drift"}),
        ("adkweb find --", {"--help", "--sort", "--reverse", "--limit", "--json"}),
        ("adkweb inbox --", {"--help", "--passed-over", "--json", "--agents"}),
        ("adkweb find late --sort t", {"title", "took", "turns", "tokens"}),
        ("adkweb find late a", {"agent.db"}),
    ],
)
def test_bash_offers_what_can_come_next(tmp_path: Path, script: str, line: str, offered: set[str]) -> None:
    assert completed(tmp_path, script, line) == offered


def test_at_the_beginning_every_command_is_offered_and_files_too(tmp_path: Path, script: str) -> None:
    assert completed(tmp_path, script, "adkweb ") == {*cli.COMMANDS, "agent.db", "my agents"}


@pytest.mark.parametrize("shell", SHELLS)
def test_every_command_and_option_is_in_the_script_of_each_shell(shell: str) -> None:
    text = SHELLS[shell](list(forms()))
    for form in forms():
        assert form.name in text
        for option in form.options:
            for name in option.names:
                assert (f"-l {name[2:]} " in f"{text} " if shell == "fish" and name[:2] == "--" else name in text) or (
                    shell == "fish" and f"-s {name[1:]}" in text
                )


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_a_shell_that_is_here_can_read_its_script(tmp_path: Path, shell: str) -> None:
    """Where it is not, the script is at least whole in its brackets and quotes."""
    text = SHELLS[shell](list(forms()))
    if program := shutil.which(shell):
        subprocess.run([program, "-n"], input=text, text=True, check=True, timeout=30)
    quoted = re.sub(r"'(?:[^'\\]|\\.)*'", "''", re.sub(r"(?m)^#.*$", "", text))
    assert quoted.count("'") % 2 == 0
    assert quoted.count("{") == quoted.count("}")
    assert quoted.count("case ") == quoted.count("esac")


def test_another_shell_is_refused(tmp_path: Path) -> None:
    code, out, errors = run(tmp_path, "completion", "tcsh")
    assert (code, out) == (2, "")
    assert "'bash', 'zsh', 'fish'" in errors


# --- Help -------------------------------------------------------------------------------------------------------------


def test_every_command_can_be_called_and_is_in_the_help_with_the_options_of_serving(tmp_path: Path) -> None:
    own = {name for name, app in get_commands().items() if app == "sessions_app"}
    assert {*cli.COMMANDS} == own >= {*cli.ACCOUNTS}
    for words in (["help"], ["--help"], ["-h"]):
        code, out, errors = run(tmp_path, *words)
        assert (code, errors) == (0, "")
        for name in cli.COMMANDS:
            assert re.search(rf"^  {name} +\w", out, re.MULTILINE)
        serve = load_command_class("sessions_app", "serve").create_parser("adkweb", "serve")
        shown = set(re.findall(r"--[a-z-]+", out.partition("COMMAND")[0]))
        assert shown
        assert shown <= {name for action in serve._actions for name in action.option_strings}


def test_help_of_a_command_is_that_commands(tmp_path: Path) -> None:
    code, out, _errors = run(tmp_path, "help", "tail")
    assert code == 0
    assert out.startswith("usage: adkweb tail ")
