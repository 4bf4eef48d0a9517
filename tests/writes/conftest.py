"""What is written is written in every format."""

import pytest

from tests.conftest import FORMATS


@pytest.fixture(params=FORMATS)
def form(request: pytest.FixtureRequest) -> str:
    """Returns each of the formats in which ADK keeps sessions."""
    return str(request.param)
