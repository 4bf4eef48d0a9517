"""`adkweb adopt SOURCE …`: adds adkweb's columns and indexes to ADK's databases, while agents write."""

from ... import online, sources
from ._progress import progress
from ._sources import OverSources


class Command(OverSources):
    """Adopts databases, as their owner. Where it was interrupted, it goes on."""

    help = (
        "Add what adkweb needs to ADK's databases: columns, triggers and indexes beside ADK's own. Agents go on writing; "
        "building the indexes of a very large SQLite file makes them wait. Undone by `release`."
    )
    done = "adopted"

    def do(self, source: sources.Source) -> None:
        """Also adds what was taken away since, and the indexes that opening leaves out of a large SQLite file."""
        sources.open_source(source)
        with progress("adopting", "%") as bar:
            bar.total(100)
            done = 0

            def moved(progress: online.Progress) -> None:
                nonlocal done
                bar.moved(int(progress.share * 100) - done)
                done = int(progress.share * 100)

            sources.adopt_open(source.alias, moved, patient=True)
