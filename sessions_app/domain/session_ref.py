"""Names a session: the four names that every read and write starts from (pure)."""

import hashlib
import json
from typing import Final, NamedTuple

OWN_NAME: Final = "adkweb"  # the id of adkweb's own sessions, and of the user in whose name app state is edited


class SessionRef(NamedTuple):
    """A source's alias and ADK's three names."""

    source: str
    app_name: str
    user_id: str
    session_id: str


def own_session(source: str, app_name: str, user_id: str = OWN_NAME) -> SessionRef:
    """Returns the session in which adkweb edits a user's state: `booking/ana/adkweb`. Without a user, it is for app
    state.

    Lists leave such sessions out.
    """
    return SessionRef(source, app_name, user_id, OWN_NAME)


def digest_of(*names: str) -> str:
    """Returns the key for some names in adkweb's own tables, however long they are."""
    return hashlib.md5(json.dumps(names).encode(), usedforsecurity=False).hexdigest()
