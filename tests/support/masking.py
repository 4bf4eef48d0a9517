"""Makes a mask of a function, to try at the doors what a mask does."""

from collections.abc import Callable
from typing import Any

from sessions_app.domain.masks import has_dots


class Hiding:
    """A mask that does with states and with events what a function does."""

    def __init__(self, hide: Callable[[Any], Any]) -> None:
        self.event = hide
        self.harmless: set[int] = set()
        self.has_dots = has_dots

    def passes(self, text: str) -> bool:
        """Looks at every text."""
        return False

    def __call__(self, state: Any) -> Any:
        """Returns what the function makes of a state."""
        return self.event(state)
