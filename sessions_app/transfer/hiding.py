"""Hides values in a file that someone shares, beside what rules hide for everyone, with the same masks.

    hiding = Hiding()                       # all values of the state and of tools
    hiding = Hiding([Rule(KEY, "*token*")])  # only values of these keys

Both also hide what looks like an email address, a phone or card number or a token, in messages, too, and give users
whose ids do a handle. The session's own state says so (HIDDEN): with dots in place of values, it is only for reading,
and no import takes it.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from ..access.handles import handle_of
from ..access.shown import masked
from ..domain.mask_patterns import EMAIL, FORMS
from ..domain.masks import FORM, PATH, STATE, TOOL, Mask, Rule, is_handle
from ..domain.state import ABSENT, UNKNOWN, State
from ..reads import lists
from .items import HIDDEN, EventItem, Item, SessionItem, canonical, parse

_ALL: Final = (
    Rule(STATE, "*"),
    Rule(TOOL, "*: *"),
    Rule(PATH, "agent*state.*"),  # of events, in both spellings: agent_state, agentState
    Rule(PATH, "partial*args.*"),
    Rule(PATH, "requested*confirmations.*.payload"),
    Rule(PATH, "output.*"),
)
_FORMS: Final = [Rule(FORM, form, ids=form == EMAIL) for form in FORMS]


class Hiding:
    """Hides values in a file."""

    def __init__(self, rules: Iterable[Rule] = ()) -> None:
        self._mask = Mask([*_FORMS, *(list(rules) or _ALL)])

    def items(self, items: Iterable[Item]) -> Iterator[Item]:
        """Yields the items of an export without what is hidden."""
        return map(self._item, items)

    def _item(self, item: Item) -> Item:
        if isinstance(item, EventItem):
            event = parse(item.text)
            seen = self._mask.event(event)
            return item if seen is event else item._replace(text=canonical(seen))
        if isinstance(item, SessionItem):
            own, initial = (
                canonical({**self.state(parse(text)), HIDDEN: True})
                for text in (item.state, item.initial_state or "{}")
            )
            return item._replace(user=self.user(item.user), state=own, initial_state=initial)
        if item.user is None:
            return item._replace(state=masked(self._mask, item.state, "app"))
        return item._replace(user=self.user(item.user), state=masked(self._mask, item.state, "user"))

    def state(self, state: State) -> State:
        """Returns a state with full keys without what is hidden. What is unknown or absent stays so."""
        return {**state, **self._mask({key: value for key, value in state.items() if value not in (ABSENT, UNKNOWN)})}

    def title(self, title: str) -> str:
        """Returns a session's title; empty if the key of the state that frameworks keep it in is hidden."""
        return lists.title_of(self.state(lists.titled(title)))

    def user(self, user_id: str) -> str:
        """Returns the name of a user, or a handle in its place. A handle stays."""
        return handle_of(user_id) if self._mask.hides_id(user_id) and not is_handle(user_id) else user_id

    def names(self, names: Iterable[str]) -> list[str]:
        """Returns names of rows, in which the id of a user may be."""
        return [self._mask.event({"error_message": name})["error_message"] for name in names]
