"""People at their browsers."""

from tests.management.conftest import ready
from tests.web.conftest import maria, person, ref, store

__all__ = ["maria", "person", "ready", "ref", "store"]
