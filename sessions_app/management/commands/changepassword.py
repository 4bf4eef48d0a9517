"""`adkweb changepassword NAME`: Django's command, recorded in the audit."""

from typing import Any

from django.contrib.auth.management.commands import changepassword

from ._accounts import recorded


class Command(changepassword.Command):
    """Gives an account a new password."""

    help = "Give an account a new password. Its browsers are signed out."

    def handle(self, *args: Any, **options: Any) -> str | None:
        """Does what Django's command does."""
        with recorded("password-changed"):
            return super().handle(*args, **options)
