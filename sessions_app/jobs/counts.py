"""Counts jobs, for `/metrics`."""

from collections.abc import Iterable

from django.db import DatabaseError, connections
from django.db.models import Count
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from ..domain.metrics import REGISTRY
from ..models import Job
from .claims import WAITING

EDIT = "edit"  # the kind of queued edits


class Jobs(Collector):
    """Counts jobs by kind and state whenever somebody asks. Without adkweb's own database, it only says that."""

    def describe(self) -> list[Metric]:
        """Names no figure in advance: asking the database is left to `collect`."""
        return []

    def collect(self) -> Iterable[Metric]:
        """Yields the figures."""
        own = GaugeMetricFamily("adkweb_own_database_up", "Whether adkweb's own database answers.")
        jobs = GaugeMetricFamily("adkweb_jobs", "Jobs that are kept, by kind and state.", labels=("kind", "state"))
        queued = GaugeMetricFamily("adkweb_queued_edits", "Edits that wait until their session is idle.")
        try:
            counts = list(Job.objects.values_list("kind", "state").annotate(n=Count("pk")).order_by("kind", "state"))
        except DatabaseError:
            connections["default"].close_if_unusable_or_obsolete()
            own.add_metric((), 0)
            yield own
            return
        for kind, state, n in counts:
            jobs.add_metric((kind, state), n)
        own.add_metric((), 1)
        queued.add_metric((), sum(n for kind, state, n in counts if (kind, state) == (EDIT, WAITING)))
        yield from (own, jobs, queued)


REGISTRY.register(Jobs())
