"""Those who look at what adk-js wrote."""

from tests.api.conftest import new_token, program
from tests.management.conftest import tail
from tests.web.conftest import demo, maria, person

__all__ = ["demo", "maria", "new_token", "person", "program", "tail"]
