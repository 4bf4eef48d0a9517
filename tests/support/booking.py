"""Defines the app and the state that many tests begin with: a key in every scope."""

from typing import Any, Final

APP: Final = "booking"
START: Final[dict[str, Any]] = {"step": "search", "draft": {"a": [1]}, "user:tier": "gold", "app:limit": 3}
