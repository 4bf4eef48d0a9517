"""How a line of the log is written."""

import logging


class Line(logging.Formatter):
    """One line for each message, whatever names are in it, so that none can forge another; a traceback is indented."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, and a traceback where there is one."""
        record.exc_text = None  # as another handler's formatter may have written it
        return super().format(record)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        """The line."""
        return _escaped(super().formatMessage(record))

    def formatException(self, ei: object) -> str:  # noqa: N802
        """The traceback of an error."""
        lines = super().formatException(ei).splitlines()  # type: ignore[arg-type]
        return "\n".join("  " + _escaped(line) for line in lines)


def _escaped(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
