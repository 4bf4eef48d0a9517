"""`adkweb release SOURCE …`: takes away everything that adopting added."""

from ... import adopt, sources
from ._sources import OverSources


class Command(OverSources):
    """Undoes `adopt`; events and state stay."""

    help = "Take away what adopting added: ADK's tables are then as they were. Edits stay, as the events they are."
    done = "released"

    def do(self, source: sources.Source) -> None:
        """Not opened first, which would adopt."""
        with sources.connected(source):
            adopt.release(source.alias)
