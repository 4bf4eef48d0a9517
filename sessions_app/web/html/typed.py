"""Compares what somebody typed with the name that they were to type."""

import unicodedata


def typed(name: str) -> str:
    """Normalizes a name as a text field does, which drops line breaks. confirm.js has the same rule."""
    return unicodedata.normalize("NFC", "".join(name.split()))


def to_type(name: str) -> str:
    """Returns what confirms a name. One that nobody could type is confirmed by a word instead."""
    return name if typed(name) else "delete"
