"""`adkweb token create|list|revoke`: manages the tokens with which programs sign in."""

import getpass
from argparse import ArgumentParser
from datetime import datetime
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from ...access import tokens
from ...access.actor import RIGHTS, SYSTEM
from ...errors import Error
from ._terminal import plain


class Command(BaseCommand):
    """Creates, lists and revokes tokens."""

    help = "Tokens, with which programs sign in: HttpSessionService, ADK's REST routes, adkweb's own API."
    requires_system_checks = ()  # they load every page and route, which takes longer than the work

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Defines create NAME [--right] [--apps] | list | revoke NAME"""
        verbs = parser.add_subparsers(dest="verb", required=True, metavar="create|list|revoke")
        create = verbs.add_parser(
            "create", help="make a token; its text is printed this once, alone on standard output"
        )
        create.add_argument("name", metavar="NAME", help="of the program that uses it")
        create.add_argument(
            "--right",
            "--scope",  # its former name, which scripts may still use
            choices=RIGHTS,
            default="append",
            help="what it may do: read; append, what an agent needs, edits too; admin, which also deletes and imports",
        )
        create.add_argument(
            "--apps", metavar="PATTERN", default="*", help="apps that it may use: booking, booking-* (*)"
        )
        verbs.add_parser("list", help="every token, without its text")
        revoke = verbs.add_parser("revoke", help="end a token, within a second")
        revoke.add_argument("name", metavar="NAME", help="of the token")

    def handle(self, *args: Any, **options: Any) -> None:
        """Runs the verb that was given."""
        try:
            {"create": self._create, "list": self._list, "revoke": self._revoke}[options["verb"]](options)
        except Error as error:
            raise CommandError(error.message) from error

    def _create(self, options: dict[str, Any]) -> None:
        token, text = tokens.create(options["name"], options["right"], options["apps"], by=_me())
        self.stderr.write(f"The token {token.name}: right {token.right}, apps {token.apps}. It is shown only now:")
        self.stdout.write(text)

    def _list(self, options: dict[str, Any]) -> None:
        listed = tokens.listed()
        if not listed:
            self.stderr.write("There is no token yet: adkweb token create NAME")
            return
        head = ("NAME", "RIGHT", "APPS", "CREATED", "LAST USED", "")
        rows = [head, *(_row(token) for token in listed)]
        widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
        for row in rows:
            self.stdout.write("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())

    def _revoke(self, options: dict[str, Any]) -> None:
        token = tokens.revoke(options["name"], by=_me())
        self.stderr.write(f"The token {token.name} is revoked.")


def _row(token: tokens.Token) -> tuple[str, ...]:
    ended = f"revoked {_day(token.revoked)} by {token.revoked_by}" if token.revoked else ""
    return (
        plain(token.name),
        token.right,
        plain(token.apps),
        f"{_day(token.created)} by {token.created_by}",
        _day(token.used),
        ended,
    )


def _day(moment: datetime | None) -> str:
    return "never" if moment is None else f"{moment:%Y-%m-%d}"


def _me() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # in a container, the user id may have no name
        return SYSTEM.name
