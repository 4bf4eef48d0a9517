"""Counts what happens, for `/metrics`: appends and requests. Other figures are computed on request, by `collectors`.

No figure names an app, a person or a session: readers of figures need not be allowed to read sessions.
"""

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector

REGISTRY: Final = CollectorRegistry()
APPENDS: Final = Counter(
    "adkweb_appends",
    "Appends of events, by source and outcome.",
    ("source", "outcome"),
    registry=REGISTRY,
)
REQUEST_SECONDS: Final = Histogram(
    "adkweb_request_seconds",
    "Seconds until a response started, by the name of its route and the first digit of its status.",
    ("route", "status"),
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0),
    registry=REGISTRY,
)
ProcessCollector(registry=REGISTRY)
