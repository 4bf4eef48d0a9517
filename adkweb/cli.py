"""The `adkweb` command: `adkweb [SOURCE …]` serves; `adkweb adopt|create|release|…` are management commands."""

import os
import sys

import django
from django.core.management import execute_from_command_line, get_commands

DEFAULT_COMMAND = "serve"


def main() -> None:
    """Runs the management command that is named first, or `serve` with everything given."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "adkweb.settings")
    django.setup()  # before the commands are listed, which Django does once
    given = sys.argv[1:]
    if not given or (given[0] not in get_commands() and given[0] != "help"):
        given = [DEFAULT_COMMAND, *given]
    execute_from_command_line(["adkweb", *given])


def manage() -> None:
    """Django's own entry, for manage.py."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "adkweb.settings")
    execute_from_command_line(sys.argv)
