"""How hypothesis searches: quick by default, HYPOTHESIS_PROFILE=long for a night."""

import os

from hypothesis import HealthCheck, settings

# A source is made once for all examples of a test: each example makes a session of its own.
_COMMON = {
    "deadline": None,
    "suppress_health_check": [HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
}
settings.register_profile("quick", max_examples=40, **_COMMON)
settings.register_profile("long", max_examples=2000, **_COMMON)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))
