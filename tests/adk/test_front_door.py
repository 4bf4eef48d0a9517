"""`from adkweb import …` is all that an agent needs to know of the package."""

import subprocess
import sys

import pytest

import adkweb
import sessions_app.adk
from tests.support.installed import not_brought_by


@pytest.mark.parametrize("name", ["Companion", "DjangoSessionService", "HttpSessionService", "Replay", "register"])
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


def test_what_lives_in_an_agents_process_needs_only_what_google_adk_brings() -> None:
    blocked = not_brought_by("google-adk", "httpx", "pydantic")
    assert {"django", "channels", "orjson"} <= blocked
    script = f"""
import sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {blocked - {"adkweb", "sessions_app"}!r}:
            raise ModuleNotFoundError("blocked: " + name, name=name)
sys.meta_path.insert(0, Blocker())
from adkweb import Companion, HttpSessionService, Replay
Companion()
Replay({{}})
HttpSessionService("http://127.0.0.1:1", token="t")
"""
    subprocess.run([sys.executable, "-c", script], check=True)
