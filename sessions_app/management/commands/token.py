"""`adkweb token create|list|renew|revoke`: manages the tokens with which programs sign in."""

import getpass
from argparse import ArgumentParser
from dataclasses import replace
from datetime import datetime
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from ...access import tokens
from ...access.actor import TERMINAL, Actor
from ...access.tokens import ApiToken
from ...domain.errors import Error
from ...domain.roles import OF_TOKENS
from ._terminal import plain

_HOLDER = "a person who has its text, as an account is called; may be given again"


class Command(BaseCommand):
    """Creates, lists, renews and revokes tokens."""

    help = "Manage the tokens with which programs sign in: HttpSessionService, ADK's REST routes, adkweb's own API."
    requires_system_checks = ()  # they load every page and route, which takes longer than the work

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Defines create NAME [--permission] [--apps] [--days] [--rate] | list | renew NAME [--hours] | revoke NAME"""
        verbs = parser.add_subparsers(dest="verb", required=True, metavar="create|list|renew|revoke")
        create = verbs.add_parser(
            "create", help="create a token; its text is printed only once, alone on standard output"
        )
        create.add_argument("name", metavar="NAME", help="the name of the program that uses it")
        create.add_argument(
            "--permission",
            "--right",
            "--scope",  # its former names, which scripts may still use
            choices=tuple(OF_TOKENS),
            default="append",
            help="what it may do: read; operate (also run agents); append (for agents and edits); admin (also "
            "delete and import); companion (only report what an agent does)",
        )
        create.add_argument(
            "--apps", metavar="PATTERN", default="*", help="the apps that it may use: booking, booking-* (*)"
        )
        create.add_argument("--days", metavar="N", type=int, help="days until it expires (never)")
        create.add_argument(
            "--rate", metavar="N", type=int, help="its limit of requests per minute (that of all tokens)"
        )
        create.add_argument("--holder", metavar="NAME", action="append", default=[], help=_HOLDER)
        verbs.add_parser("list", help="every token, without its text")
        renew = verbs.add_parser("renew", help="give a token a new text, printed only once, and as many days as before")
        renew.add_argument("name", metavar="NAME", help="the name of the token")
        renew.add_argument(
            "--hours",
            metavar="N",
            type=int,
            default=tokens.OVERLAP_HOURS,
            help=f"hours for which the old text still works ({tokens.OVERLAP_HOURS})",
        )
        renew.add_argument(
            "--holder", metavar="NAME", action="append", help=f"{_HOLDER}; by default, the same as before"
        )
        revoke = verbs.add_parser("revoke", help="end a token, within a second")
        revoke.add_argument("name", metavar="NAME", help="the name of the token")

    def handle(self, *args: Any, **options: Any) -> None:
        """Runs the verb that was given."""
        try:
            verbs = {"create": self._create, "list": self._list, "renew": self._renew, "revoke": self._revoke}
            verbs[options["verb"]](options)
        except Error as error:
            raise CommandError(error.message) from error

    def _create(self, options: dict[str, Any]) -> None:
        given = {name: options[name] for name in ("name", "permission", "apps", "days", "rate")}
        token, text = tokens.create(**given, by=_me(), holders=options["holder"])
        ends = f", until {_day(token.expires)}" if token.expires else ""
        self.stderr.write(
            f"Created the token {token.name}: permission {token.permission}, apps {token.apps}{ends}. It is shown only once:"
        )
        self.stdout.write(text)

    def _renew(self, options: dict[str, Any]) -> None:
        token = ApiToken.objects.named(options["name"])
        text = token.renew(by=_me(), hours=options["hours"], holders=options["holder"])
        before = f"works until {token.overlap:%Y-%m-%d %H:%M} UTC" if token.overlaps else "no longer works"
        self.stderr.write(f"Renewed the token {token.name}; its old text {before}. The new one is shown only once:")
        self.stdout.write(text)

    def _list(self, options: dict[str, Any]) -> None:
        listed = ApiToken.objects.listed()
        if not listed:
            self.stderr.write("No tokens yet. Create one: adkweb token create NAME")
            return
        head = ("NAME", "PERMISSION", "APPS", "CREATED", "EXPIRES", "LAST USED", "")
        rows = [head, *(_row(token) for token in listed)]
        widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
        for row in rows:
            self.stdout.write("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())

    def _revoke(self, options: dict[str, Any]) -> None:
        token = ApiToken.objects.named(options["name"])
        token.revoke(by=_me())
        self.stderr.write(f"Revoked the token {token.name}.")


def _row(token: ApiToken) -> tuple[str, ...]:
    return (
        plain(token.name),
        token.permission,
        plain(token.apps),
        f"{_day(token.created)} by {token.created_by}",
        _day(token.expires),
        f"{_day(token.used)} from {plain(token.used_from)}" if token.used_from else _day(token.used),
        "; ".join(filter(None, (_standing(token), _held(token)))),
    )


def _held(token: ApiToken) -> str:
    return f"held by {plain(', '.join(token.held_by))}" if token.held_by else ""


def _standing(token: ApiToken) -> str:
    if token.revoked:
        return f"revoked {_day(token.revoked)} by {token.revoked_by}"
    if token.expired:
        return "expired"
    if token.orphaned:
        return f"ended with {token.maker}"
    if token.overlaps:
        return f"renewed; the old text works until {_day(token.overlap)}"
    return "expires soon" if token.ends_soon else ""


def _day(moment: datetime | None) -> str:
    return "never" if moment is None else f"{moment:%Y-%m-%d}"


def _me() -> Actor:
    try:
        return replace(TERMINAL, name=getpass.getuser())
    except (KeyError, OSError):  # in a container, the user id may have no name
        return TERMINAL
