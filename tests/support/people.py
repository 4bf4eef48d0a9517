"""The people of the tests: Alice may do everything, Bob may only read, and the app booking does not exist for Charlie."""

from typing import Final

from sessions_app.access.actor import Actor

ALICE: Final = Actor("alice", "admin")
BOB: Final = Actor("bob", "read")
CHARLIE: Final = Actor("charlie", "admin", "weather*")
