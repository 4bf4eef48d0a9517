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
    """The input isn't valid."""


class NotFound(Error):
    """It doesn't exist or was deleted."""


class NotAllowed(Error):
    """You don't have permission to do this."""


class Held(NotAllowed):
    """This needs a second person; nothing was written yet."""


class AlreadyExists(Error):
    """It already exists."""


class StaleSession(Error):
    """The session has been modified in storage since it was loaded."""


class Conflict(Error):
    """Someone else changed it in the meantime. Nothing was written."""


class SourceError(Error):
    """Can't use the database."""


class NotKept(Error):
    """Couldn't store the file on this machine."""


class NotOpen(SourceError):
    """Its database isn't one of adkweb's sources right now."""


class Slow(Error):
    """This is taking too long."""


class NotRecorded(Error):
    """This couldn't be recorded in the audit, so nothing was changed. See adkweb's log for the reason."""


class TooOften(Error):
    """Too many requests."""


class Behind(Error):
    """This source is still being indexed."""


class AgentError(Error):
    """The agent can't be run."""
