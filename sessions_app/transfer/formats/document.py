"""Reads a file that holds one JSON value, as a whole and piece by piece."""

import json
from typing import Any, BinaryIO

from ...domain.errors import Invalid
from ..items import MOST, Fault, check_items, parse


def load(file: BinaryIO) -> Any:
    """Reads the JSON value of a file. Raises Fault with line and column."""
    data = file.read(MOST + 1)
    if len(data) > MOST:
        raise Fault(f"the file is larger than {MOST} bytes", place="")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise Fault(f"not UTF-8 (byte {error.start + 1} of the file)", place=f"line {line}") from error
    try:
        check_items(text)
        return json.loads(text)
    except Invalid as error:
        raise Fault(error.message, place="") from error
    except json.JSONDecodeError as error:
        cut = error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated string")
        problem = "the file is truncated" if cut else f"not valid JSON: {error.msg}"
        raise Fault(problem, place=f"line {error.lineno}, column {error.colno}") from error
    except RecursionError as error:
        raise Fault("nested deeper than any session", place="") from error
    except ValueError as error:  # int() of too many digits
        raise Fault(str(error), place="") from error


def piece(value: Any, strict: bool) -> Any:
    """Returns a part of the value, with numbers as ADK reads them. `strict` is for PostgreSQL. Raises Invalid."""
    try:
        text = json.dumps(value)
    except RecursionError as error:
        raise Invalid("nested deeper than any session") from error
    return parse(text, strict=strict)
