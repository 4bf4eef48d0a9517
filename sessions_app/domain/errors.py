"""The errors that can occur, in words for the person who has to act on it.

Each class's docstring is its message where no better one is given; `detail` carries what a page shows beside it.
"""

from typing import Any

from .translation import Message


class Error(Exception):
    """Something went wrong."""

    def __init__(self, message: str | Message | None = None, **detail: Any) -> None:
        super().__init__(message or Message(type(self).__doc__ or ""))
        self.detail = detail

    @property
    def message(self) -> str:
        """Returns the sentence to show, in the language of the reader."""
        return str(self.args[0])


class Invalid(Error):
    """The input is not valid."""


class NotFound(Error):
    """It does not exist, or it was deleted."""


class NotAllowed(Error):
    """This is not allowed."""


class Held(NotAllowed):
    """This needs a second person; nothing was written yet."""


class AlreadyExists(Error):
    """It exists already."""


class StaleSession(Error):
    """The session has been modified in storage since it was loaded."""


class Conflict(Error):
    """Somebody else changed it meanwhile; nothing was written."""


class SourceError(Error):
    """The database cannot be used."""


class NotKept(Error):
    """The file cannot be kept on this machine."""


class NotOpen(SourceError):
    """Its database is not among adkweb's sources now."""


class Slow(Error):
    """This takes too long."""


class NotRecorded(Error):
    """This could not be recorded in the audit, so it was not done. The log of adkweb says what is in the way."""


class TooOften(Error):
    """Too many requests."""


class Behind(Error):
    """The events of this source are still being read."""
