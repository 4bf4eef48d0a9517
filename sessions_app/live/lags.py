"""Counts watchers, and measures how far the background threads lag, for `/metrics`."""

import time
from collections.abc import Iterable

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from ..domain.metrics import REGISTRY
from . import client, search_feeder, source_follower


class Lags(Collector):
    """Computes the figures on request."""

    def describe(self) -> list[Metric]:
        """Names no figure in advance."""
        return []

    def collect(self) -> Iterable[Metric]:
        """Yields the figures."""
        now = time.monotonic()
        yield GaugeMetricFamily("adkweb_watchers", "Websockets that are open.", len(client.watchers))
        followers = GaugeMetricFamily(
            "adkweb_follower_lag_seconds",
            "Seconds since the thread of a source that is watched last saw what is new there.",
            labels=("source",),
        )
        for source, follower in list(source_follower.followers.items()):
            followers.add_metric((source,), now - follower.looked)
        yield followers
        index = GaugeMetricFamily(
            "adkweb_index_lag_seconds",
            "Seconds since the index of a source last held all of it; for sources that this process reads.",
            labels=("source",),
        )
        for source, whole in list(search_feeder.whole.items()):
            index.add_metric((source,), now - whole)
        yield index


REGISTRY.register(Lags())
