"""`adkweb release SOURCE …`: removes everything that adopting added."""

from pathlib import Path

from django.conf import settings
from django.db import DatabaseError

from ...access.actor import TERMINAL
from ...access.audit.record import record
from ...history.index import build
from ...search.index import feed
from ...sources import database, identity, online, registry
from ._sources import OverSources


class Command(OverSources):
    """Undoes `adopt`. Events and state stay."""

    help = "Remove what adopting added: ADK's tables are then as they were. Edits stay, because they are events."
    done = "released"

    def do(self, source: registry.Source) -> None:
        """Releases a source without opening it, because opening would adopt it."""
        record("released", TERMINAL.name, source=source.alias)
        with database.connected(source):
            identity.identify(source, writes=False)
            online.release(source.alias)
        own = settings.DATABASES["default"]
        if own["ENGINE"].endswith("sqlite3") and not Path(own["NAME"]).exists():  # connecting would create it
            return
        try:
            identity.released(source)
            build.forget(source.alias)  # its seqs are gone, and would be different ones after adopting again
            feed.clear(registry.identity(source.alias))
        except DatabaseError as error:
            self.stderr.write(
                f"What adkweb's own database keeps of {source.where} stays, as it cannot be used "
                f"({str(error).strip()}): adkweb reindex, if the source is opened again."
            )
