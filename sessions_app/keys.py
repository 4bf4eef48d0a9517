"""Which session: the four names that every read and write starts from (pure)."""

from typing import NamedTuple


class SessionKey(NamedTuple):
    """A source's alias and ADK's three names."""

    source: str
    app_name: str
    user_id: str
    session_id: str
