"""`adkweb adopt SOURCE …`: adds adkweb's columns and indexes to ADK's databases, which `serve` does by itself."""

from ... import adopt, sources
from ._sources import OverSources


class Command(OverSources):
    """Adopts databases ahead of serving, as their owner."""

    help = "Add what adkweb needs to ADK's databases (as `serve` does): additive, and undone by `release`."
    done = "adopted"

    def do(self, source: sources.Source) -> None:
        """Opening adopts; what was taken away again since then is added, too."""
        sources.open_source(source)
        with sources.connected(source):
            adopt.adopt(source.alias)
