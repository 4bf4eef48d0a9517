"""Formats the lines of the log."""

import logging


class Line(logging.Formatter):
    """Writes each message on one line, whatever names are in it, so that none can forge another.

    Tracebacks are indented.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Returns the line, with a traceback if there is one."""
        record.exc_text = None  # another handler's formatter may have set it
        return super().format(record)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        """Returns the line."""
        return _escaped(super().formatMessage(record))

    def formatException(self, ei: object) -> str:  # noqa: N802
        """Returns the traceback of an error."""
        lines = super().formatException(ei).splitlines()  # type: ignore[arg-type]
        return "\n".join("  " + _escaped(line) for line in lines)


def _escaped(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
