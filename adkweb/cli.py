"""The `adkweb` command: `adkweb [SOURCE …]` serves; `adkweb adopt|create|export|…` are management commands."""

import os
import sys
from typing import Final

import django
from django.core.management import call_command, execute_from_command_line

from . import __version__

# A folder may have the name of any other of Django's commands, and be a source.
COMMANDS: Final = ("serve", "create", "adopt", "release", "export", "import", "createsuperuser", "changepassword")
ACCOUNTS: Final = ("createsuperuser", "changepassword")


def main() -> None:
    """Runs the command that is named first, or `serve` with everything given."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "adkweb.settings")
    given = sys.argv[1:]
    if given == ["--version"]:
        print(f"adkweb {__version__}")  # noqa: T201
        return
    if not given or given[0] not in COMMANDS:
        given = ["serve", *given]
    if given[0] in ACCOUNTS:  # adkweb's own tables may not be there yet
        django.setup()
        call_command("migrate", verbosity=0, interactive=False)
    execute_from_command_line(["adkweb", *given])


def manage() -> None:
    """Django's own entry, for manage.py."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "adkweb.settings")
    execute_from_command_line(sys.argv)
