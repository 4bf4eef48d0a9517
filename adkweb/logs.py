"""Formats the lines of the log: for people in a terminal, as JSON for everything else."""

import json
import re
from typing import Any, Final

import structlog
from structlog.typing import EventDict, Processor

LONGEST: Final = 4_000  # characters of one line, of a traceback, too

# PostgreSQL repeats values of the row behind these words, and pydantic behind the last one.
_ROWS: Final = re.compile(r"(?ms)^(DETAIL|CONTEXT):.*?(?=\n\n(?:The above|During)|\Z)")
_INPUT: Final = re.compile(r"input_value=.*?(?=, input_type=|$)", re.M)
_SECRETS: Final = (
    (re.compile(r"\badkweb_[0-9A-Za-z_-]{20,}"), "adkweb_…"),
    (re.compile(r"(?i)\b(bearer|basic)\s+[^\s'\"]{6,}"), r"\1 …"),
    (re.compile(r"(?i)([?&\s'\"](?:token|password|passwd|secret|code|key|sslpassword)=)[^\s&'\"]+"), r"\1…"),
    (re.compile(r"(://[^\s:/@?#]*:)[^\s@]+(?=@)"), r"\1…"),
)


def without_secrets(text: str) -> str:
    """Returns a text without tokens, passwords and values of rows, each line cut to LONGEST characters."""
    text = _INPUT.sub("input_value=…", _ROWS.sub(r"\1: …", text))
    lines = [line if len(line) <= LONGEST else line[:LONGEST] + "…" for line in text.split("\n")]
    text = "\n".join(lines)
    for pattern, instead in _SECRETS:
        text = pattern.sub(instead, text)
    return text


def _clean(_logger: Any, _method: str, event: EventDict) -> EventDict:
    return {name: without_secrets(value) if isinstance(value, str) else value for name, value in event.items()}


def _readable(_logger: Any, _method: str, event: EventDict) -> str:
    """Writes each message on one line, whatever it contains, so that none can forge another.

    Tracebacks are indented.
    """
    asked = f" (request {event['request_id']})" if event.get("request_id") else ""
    line = f"{event['time']} {event['level'].upper()} {event['logger']}: {event['event']}{asked}"
    below = ["  " + _escaped(each) for each in event.get("exception", "").splitlines()]
    return "\n".join([_escaped(line), *below])


def _json(_logger: Any, _method: str, event: EventDict) -> str:
    """Writes an object on one line. What cannot be printed is escaped."""
    text = json.dumps(event, ensure_ascii=False, default=str)
    return text if text.isprintable() else "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)


class Line(structlog.stdlib.ProcessorFormatter):
    """Formats a record of the log, with the id of the request that it belongs to."""

    def __init__(self, as_json: bool) -> None:
        before: list[Processor] = [
            structlog.contextvars.merge_contextvars,
            structlog.stdlib.add_log_level,
            structlog.stdlib.add_logger_name,
            structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
        ]
        super().__init__(
            processors=[
                structlog.processors.format_exc_info,
                self.remove_processors_meta,
                _clean,
                _json if as_json else _readable,
            ],
            foreign_pre_chain=before,
        )


def _escaped(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
