"""Defines how a kind of database stores sessions, and parses the values of its columns."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from ...domain.errors import Invalid
from ...domain.json_values import looks_encrypted
from ..items import canonical, moment
from ..items import parse as parse_json
from .opened import Row


@dataclass(frozen=True, slots=True)
class Layout:
    """The layout in which a kind of database keeps sessions.

    `event` turns a row of `events` into an event, without its id, invocation_id and timestamp. It gets a `Json` to
    parse the columns with. `state` turns the stored state of a session into its own state.
    """

    name: str
    event: Callable[[Row, "Json"], dict[str, Any]]
    columns: frozenset[str]  # columns of `events` that a database of this kind must have
    state: Callable[[dict[str, Any]], dict[str, Any]] = lambda stored: stored
    session: str = "id"  # names of columns of `sessions` and the states
    created: str = "create_time"
    updated: str = "update_time"


class Json:
    """Parses the JSON in columns. With `strict`, it refuses what PostgreSQL cannot hold."""

    def __init__(self, strict: bool) -> None:
        self.strict = strict

    def parse(self, value: Any, what: str) -> Any:
        """Parses a column's JSON, or returns None for NULL. Raises Invalid."""
        if value is None:
            return None
        raw = value if isinstance(value, str) else blob(value, what)
        text = ""
        try:
            text = raw if isinstance(raw, str) else raw.decode()
            return parse_json(text, strict=self.strict)
        except UnicodeDecodeError as error:
            raise Invalid(f"{what}: not JSON") from error
        except Invalid as error:
            if looks_encrypted(text):
                raise Invalid(f"{what} is encrypted: only a program with the key can read it") from error
            raise Invalid(f"{what}: {error.message}") from error

    def again(self, value: Any, what: str) -> Any:
        """Turns a Python value into what it would be if it were read from JSON. Raises Invalid."""
        try:
            return self.parse(canonical(value), what)
        except (ValueError, RecursionError) as error:
            raise Invalid(f"{what}: {error}") from error

    def object(self, value: Any, what: str) -> dict[str, Any]:
        """Parses a column's JSON object, or returns {} for NULL. Raises Invalid."""
        parsed = self.parse(value, what)
        if not isinstance(parsed, dict | None):
            raise Invalid(f"{what}: not a JSON object")
        return parsed or {}


def blob(value: Any, what: str) -> bytes:
    """Returns a column's bytes. Raises Invalid for another type, which SQLite allows in any column."""
    if not isinstance(value, bytes | memoryview):
        raise Invalid(f"{what}: neither text nor bytes")
    return bytes(value)


def keep(event: dict[str, Any], adk: str, rest: Mapping[str, Any]) -> None:
    """Adds to an event's `custom_metadata` what another ADK stores but ADK's events have no field for."""
    if kept := {name: value for name, value in rest.items() if value is not None}:
        event["custom_metadata"] = {**event.get("custom_metadata", {}), adk: kept}


# As Go prints a time: 2026-01-02 03:04:05.678901234 +0000 UTC m=+0.1
_GO_TIME: Final = re.compile(r"([\d-]+[ T][\d:.]+) ([+-]\d\d):?(\d\d)(?: .*)?")


def seconds(value: Any, what: str) -> float:
    """Converts a row's time to seconds since 1970. A time without a zone is in UTC. Raises Invalid.

    It can be a number, a datetime or a string such as 2026-01-02 03:04:05 +0000 UTC.
    """
    if isinstance(value, str):
        text = value.strip()
        if (go := _GO_TIME.fullmatch(text)) is not None:
            text = f"{go[1]}{go[2]}:{go[3]}"
        try:
            value = datetime.fromisoformat(text)
        except ValueError:
            value = None
    if isinstance(value, datetime):
        try:
            value = (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()
        except OverflowError:
            value = None
    parsed = moment(value)
    if parsed is None:
        raise Invalid(f"{what}: this is not a time")
    return parsed
