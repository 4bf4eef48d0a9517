"""Describes an event on one line of a terminal."""

from ...domain.kinds import say
from ...reads.event_views import EventView
from ._terminal import plain, words


def told(view: EventView) -> str:
    """Returns what happened in an event. For an edit, it starts with who made it and why."""
    if view.unread:
        return f"an event of {view.size:,} characters, too large to be shown here"
    text = "".join(piece.text for piece in say(view.description, view.data))
    if edit := view.description.edit:
        reason = edit.get("reason")
        text = f"by {edit.get('actor')} {f'“{reason}” ' if reason else ''}· {text}"
    return plain(words(text, 2_000))
