"""Counts what happens, for `/metrics`: appends and requests. Other figures are computed on request, by `collectors`.

No figure names an app, a person or a session: readers of figures need not be allowed to read sessions.
"""

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector

REGISTRY: Final = CollectorRegistry()
APPENDS: Final = Counter(
    "adkweb_appends",
    "Events that somebody wanted to append, by source, and what came of it.",
    ("source", "outcome"),
    registry=REGISTRY,
)
REQUEST_SECONDS: Final = Histogram(
    "adkweb_request_seconds",
    "How long answers took to begin, by the name of the route and the first digit of the status.",
    ("route", "status"),
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0),
    registry=REGISTRY,
)
ProcessCollector(registry=REGISTRY)
