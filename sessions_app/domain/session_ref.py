"""Which session: the four names that every read and write starts from (pure)."""

from typing import Final, NamedTuple

OWN_NAME: Final = "adkweb"  # of the sessions that `own_session` names, and of the user that app state is edited for


class SessionRef(NamedTuple):
    """A source's alias and ADK's three names."""

    source: str
    app_name: str
    user_id: str
    session_id: str


def own_session(source: str, app_name: str, user_id: str = OWN_NAME) -> SessionRef:
    """The session in which adkweb edits the state of a user, or without one of an app: `booking/ana/adkweb`.

    Lists leave such sessions out; `event_rows.listed` says how they are told from a customer's.
    """
    return SessionRef(source, app_name, user_id, OWN_NAME)
