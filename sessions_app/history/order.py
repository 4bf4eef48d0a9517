"""Defines how the events of a source are ordered: by their numbers, or by their times if it isn't adopted."""

from collections.abc import Sequence
from typing import Any, Protocol

from django.db.models import QuerySet

from ..domain.positions import Seq
from ..domain.session_ref import SessionRef
from ..models import Projection
from ..sources import database
from .index.numbered import Numbered
from .index.read_source import Batch
from .unadopted import Unadopted


class Order(Protocol):
    """Reads a source for the index, and finds events by their seqs, which are numbers or times."""

    version: int  # of what is kept; what another version kept is read again

    def __init__(self, source: str) -> None:
        """Raises Invalid for a source whose events have no order."""

    def batch(self, at: Projection, size: int, ref: SessionRef | None) -> Batch:
        """Returns the next batch. A session that is passed as `ref` is read in any case. The source must be open."""

    def kept(self) -> None:
        """Is called when the batch is stored."""

    @staticmethod
    def rows_at(source: str, seqs: Sequence[Seq]) -> tuple[str, Sequence[Any]]:
        """Returns a table of the events with these seqs, as SQL, and the values of its statement."""

    @staticmethod
    def among(events: QuerySet[Any], source: str, seqs: Sequence[Seq]) -> Any:
        """Returns those of some events that have these seqs, each with its seq as `at`."""


def of(source: str) -> type[Order]:
    """Returns how an open source is read."""
    return Numbered if database.is_numbered(source) else Unadopted
