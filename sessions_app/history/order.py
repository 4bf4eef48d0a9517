"""Says how the events of a source are ordered: by their numbers, or by their times where nobody adopted it."""

from ..sources import database
from .index.numbered import Numbered
from .unadopted import Unadopted


def of(source: str) -> type[Numbered] | type[Unadopted]:
    """Returns how an open source is read."""
    return Numbered if database.is_numbered(source) else Unadopted
