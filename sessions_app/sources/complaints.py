"""Explains a database driver's error messages to the person who has to act on them."""

from django.conf import settings
from django.utils.translation import gettext as _


def sentence(text: str) -> str:
    """Returns what a driver's message means and what to do; an empty text for an unknown message."""
    lowered = text.lower()
    return next((said for sign, said in _signs() if sign in lowered), "")


def _signs() -> list[tuple[str, str]]:
    return [
        ("database is locked", _("another program holds the file locked; nothing was written. Try again.")),
        (
            "readonly database",
            _(
                "the file has a write-ahead log, beside which SQLite keeps files even while it only reads, and this folder "
                "may not be written. Copy it to one that may."
            )
            if settings.READ_ONLY
            else _("the file may not be written; adkweb shows it with --read-only."),
        ),
        ("unable to open", _("the file cannot be opened: is it readable, and its folder writable?")),
        ("not a database", _("this file is not a SQLite database.")),
        ("image is malformed", _("the file is damaged or half-written. SQLite's “.recover” may save what is in it.")),
        ("disk i/o", _("the disk does not answer; nothing was written.")),
        ("disk is full", _("the disk is full; nothing was written.")),
        ("password authentication", _("the server refuses this user and password.")),
        ("no password supplied", _("the server asks for a password: it belongs in ~/.pgpass, or in the URL.")),
        ("does not exist", _("the server answers, but this is not there.")),
        ("permission denied", _("this user may not do that.")),
        ("must be owner", _("this user does not own ADK's tables.")),
        ("could not translate host", _("there is no host with this name.")),
        ("failed to resolve", _("there is no host with this name.")),
        ("refused", _("no server answers there. adkweb tries again with every request.")),
        ("couldn't get a connection", _("the server does not answer. adkweb tries again with every request.")),
        ("timeout", _("the server does not answer in time. adkweb tries again with every request.")),
        ("terminat", _("the server closed the connection; nothing was half-written. Try again.")),
        ("connection", _("the connection to the server is lost; nothing was half-written. Try again.")),
    ]
