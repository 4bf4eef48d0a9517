"""Defines the people of the tests:

Alice may do everything, Bob may only read, and Charlie cannot see the app booking.
"""

from typing import Final

from sessions_app.access.actor import Actor

ALICE: Final = Actor("alice", "admin")
BOB: Final = Actor("bob", "read")
CHARLIE: Final = Actor("charlie", "admin", "weather*")
