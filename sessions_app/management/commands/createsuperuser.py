"""`adkweb createsuperuser`: Django's command, which accepts any password if there is no terminal."""

import os
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.management.commands import createsuperuser
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.core.management.base import CommandError

from ._accounts import recorded


class Command(createsuperuser.Command):
    """Makes an account with every permission."""

    def handle(self, *args: Any, **options: Any) -> str | None:
        """Checks the password of --noinput, and then does what Django's command does."""
        password = os.environ.get("DJANGO_SUPERUSER_PASSWORD")
        if password and not options["interactive"]:
            given = {"username": options["username"] or "", "email": options.get("email") or ""}
            try:
                validate_password(password, get_user_model()(**given))
            except ValidationError as error:
                raise CommandError(f"DJANGO_SUPERUSER_PASSWORD: {' '.join(error.messages)}") from error
        with recorded("admin-made"):
            return super().handle(*args, **options)
