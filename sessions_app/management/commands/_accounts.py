"""Records what Django's commands do to an account, just before it is saved."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.contrib.auth import get_user_model
from django.core.management.base import CommandError
from django.db.models.signals import pre_save

from ...access.actor import TERMINAL
from ...access.audit.record import record
from ...domain.errors import NotRecorded


@contextmanager
def recorded(act: str) -> Iterator[None]:
    """Records an act for each account that is saved in the block. What cannot be recorded is not saved."""

    def note(instance: Any, **_signal: Any) -> None:
        record(act, TERMINAL.name, name=instance.get_username())

    pre_save.connect(note, get_user_model())
    try:
        yield
    except NotRecorded as error:
        raise CommandError(error.message) from error
    finally:
        pre_save.disconnect(note, get_user_model())
