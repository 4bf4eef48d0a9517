"""Measures how long answers take, by route, for `/metrics`."""

import time
from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

from ..domain.metrics import REQUEST_SECONDS

NO_ROUTE = "none"  # an unknown address, or a request that was refused before its address was read


class Measured:
    """Middleware that notes the time until an answer starts. Static files do not come this way."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Returns the answer."""
        began = time.perf_counter()
        response = self.get_response(request)
        match = request.resolver_match
        # Names in `/api/` are function names, which several modules share.
        route = NO_ROUTE if match is None else match.route if match.namespaces else match.view_name
        REQUEST_SECONDS.labels(route, f"{response.status_code // 100}xx").observe(time.perf_counter() - began)
        return response
