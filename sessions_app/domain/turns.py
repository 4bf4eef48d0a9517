"""Says where a turn begins: a user message and everything that it caused are one turn. Pure."""

from .description import Description


def begins_turn(told: Description) -> bool:
    """Tells whether an event is a user message, written or spoken. An answer to a call is none: it goes on with the turn;
    nor is what was understood so far of somebody who is still speaking."""
    spoken = told.heard and not told.interim
    return told.author == "user" and not told.edit and bool(told.text or told.media or spoken)
