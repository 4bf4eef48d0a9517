"""The `adkweb` command: `adkweb [SOURCE …]` serves; `adkweb adopt|create|export|…` are management commands."""

import os
import re
import sys
from difflib import get_close_matches
from pathlib import Path
from typing import Final

import django
from django.core.management import CommandError, call_command, execute_from_command_line

from . import __version__

# Django's other commands are left out, because a source's folder may have such a name.
COMMANDS: Final = {
    "serve": "what adkweb does without a command",
    "create": "create a database with ADK's tables",
    "migrate": "create or migrate the tables of adkweb's own database, as every start does",
    "adopt": "add what adkweb needs to databases, ahead of serving",
    "release": "remove it again",
    "reindex": "rebuild the search index and the key history",
    "export": "write the sessions of a source to a file",
    "export-user": "write everything of one user of an app to a file",
    "import": "import sessions into a source",
    "find": "search sessions, as on pages",
    "inbox": "list what waits for an answer",
    "answer": "answer what waits",
    "say": "send a message to an agent",
    "replay": "run stored sessions again with today's agents, without models",
    "stop": "stop an agent that adkweb runs",
    "tail": "follow a source in the terminal",
    "doctor": "check databases, sources and settings, and say what to do",
    "audit-head": "print the newest head of the audit, to keep elsewhere",
    "completion": "print a completion script for bash, zsh or fish",
    "token": "create, list, renew and revoke the tokens with which programs sign in",
    "backup": "copy adkweb's own database to a file, while adkweb runs",
    "restore": "replace adkweb's own database with a backup",
    "createsuperuser": "create an admin account with a password",
    "changepassword": "change a password",
}
ACCOUNTS: Final = ("token", "createsuperuser", "changepassword")
HELP: Final = """usage: adkweb [SOURCE …] [--host HOST] [--port PORT] [--read-only] [--adopt] [--demo]
              [--agents SOURCE=FOLDER] [--python PATH]
       adkweb COMMAND …

Opens ADK's session databases in the browser. A SOURCE is a folder (searched for .adk/session.db), a SQLite file or a
postgresql:// URL; with none, the demo is opened.

commands (for details: adkweb COMMAND --help):
"""


_PASSWORD: Final = re.compile(r"postgres\w*(\+\w+)?://([^/?#@]*:[^@]*[^:@]@|.*[?&]password=)")
_WARNING: Final = (
    "While adkweb runs, every user of this machine can read the password on its command line. Put it into ~/.pgpass, or the "
    "whole URL into ADKWEB_SOURCES.\n"
)


def main() -> None:
    """Runs the command that is named first, or `serve` with everything given."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "adkweb.settings")
    given = sys.argv[1:]
    if given == ["--version"]:
        print(f"adkweb {__version__}")  # noqa: T201
        return
    if given in (["help"], ["--help"], ["-h"]):
        print(HELP + "\n".join(f"  {name:<16} {what}" for name, what in COMMANDS.items()))  # noqa: T201
        return
    if given[:1] == ["help"] and given[1] in COMMANDS:
        given = [given[1], "--help"]
    if any(_PASSWORD.match(word) for word in given):
        sys.stderr.write(_WARNING)
    try:
        if given and (meant := _meant(given[0])):
            raise CommandError(f"No such command or path: {given[0]}. Did you mean adkweb {meant}?", returncode=2)
        if not given or given[0] not in COMMANDS:
            given = ["serve", *given]
        if given[0] in ACCOUNTS:  # adkweb's own tables may not be there yet
            django.setup()
            call_command("migrate", verbosity=0, interactive=False)
        # With --traceback, Django leaves a CommandError to whoever calls, and does not print the name of its class.
        execute_from_command_line(["adkweb", given[0], "--traceback", *given[1:]])
    except CommandError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(error.returncode)


def _meant(word: str) -> str:
    """Returns the command of which a word is a misspelling; "" if it is a command, or may be a source."""
    if not re.fullmatch(r"[a-z][a-z-]*", word) or word in COMMANDS or Path(word).exists():
        return ""
    return next(iter(get_close_matches(word, COMMANDS, 1)), "")


def manage() -> None:
    """Runs any of Django's commands, for manage.py."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "adkweb.settings")
    execute_from_command_line(sys.argv)
