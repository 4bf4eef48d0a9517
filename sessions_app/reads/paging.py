"""Pages of a list by key: some rows, and an opaque cursor to the next ones (pure)."""

import base64
import json
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from django.utils.translation import gettext as _

from ..domain.errors import Invalid
from ..domain.json_values import check_name

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Some rows, and the cursor of the next page; None if this is the last one."""

    rows: list[T]
    next: str | None = None


def write_cursor(*values: Any) -> str:
    """Returns an opaque cursor that holds these values."""
    return base64.urlsafe_b64encode(json.dumps(values).encode()).decode().rstrip("=")


def read_cursor(text: str, *types: type) -> list[Any]:
    """Returns the values of a cursor, which must have these types. Raises Invalid for any other text."""
    try:
        values = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        if not isinstance(values, list) or [type(value) for value in values] != list(types):
            raise ValueError
        for value in values:
            if isinstance(value, str):
                check_name(value, "", len(text))
            elif not 0 <= value < (2**63 if isinstance(value, int) else 2**33):
                raise ValueError
    except (ValueError, RecursionError, Invalid) as error:
        raise Invalid(_("The page in this link isn't valid.")) from error
    return values
