"""Processes of the tests are forked from one that has imported what they need."""

from __future__ import annotations

import os
import sys

from tests.support import warm
from tests.support.warm import ROOT

# Django's own and allauth's need the settings of the program, with which a fork begins.
IMPORTED = """
import sys
before = set(sys.modules)
import django
django.setup()
import adkweb.asgi, adkweb.urls
after = {name for name in set(sys.modules) - before if not name.startswith(("adkweb", "sessions_app"))}
packages = [name.partition(".")[0] for name in after]
print(*sorted({name for name in packages if packages.count(name) > 3} - {"allauth", "django"} - sys.stdlib_module_names))
"""


def test_a_fork_has_what_the_server_needs_of_others() -> None:
    settings = {"DJANGO_SETTINGS_MODULE": "adkweb.settings", "PYTHONPATH": str(ROOT)}
    done = warm.run(
        [sys.executable, "-c", IMPORTED], env={**os.environ, **settings}, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []
