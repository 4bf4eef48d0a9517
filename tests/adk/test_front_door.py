"""`from adkweb import …` is all that an agent needs to know of the package."""

import subprocess
import sys

import pytest

import adkweb
import sessions_app.adk


@pytest.mark.parametrize("name", ["DjangoSessionService", "HttpSessionService", "register"])
def test_the_package_offers_what_agents_plug_in(name: str) -> None:
    assert getattr(adkweb, name) is getattr(sessions_app.adk, name)
    assert name in adkweb.__all__


def test_a_name_that_is_none_is_refused_as_by_any_module() -> None:
    with pytest.raises(AttributeError, match="module 'adkweb' has no attribute 'SessionService'"):
        adkweb.SessionService  # noqa: B018


def test_to_import_it_loads_neither_django_nor_google_adk() -> None:
    script = (
        "import sys, adkweb; print({name.split('.')[0] for name in sys.modules} & {'django', 'google', 'sessions_app'})"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
