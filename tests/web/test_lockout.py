"""Passwords are guessed by several processes' clients at once: together they get no more tries than one after the other."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from sessions_app.access.lockout import FREE
from tests.browser.serving import Adkweb
from tests.servers import PostgreSQL

ADMIN = {"DJANGO_SUPERUSER_USERNAME": "maria", "DJANGO_SUPERUSER_EMAIL": "maria@example.com"}
PASSWORD = "correct horse battery staple"
TRIES = 30


@pytest.fixture(params=["sqlite", "postgresql"])
def servers(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[list[Adkweb]]:
    """Two processes that share adkweb's own data, a file or a server."""
    own = {}
    if request.param == "postgresql":
        server: PostgreSQL = request.getfixturevalue("postgresql_server")
        own["ADKWEB_DATABASE_URL"] = server.create_database("guesses")
    (tmp_path / "data").mkdir()
    started = [Adkweb(tmp_path, **own), Adkweb(tmp_path, **own)]
    started[0].run("migrate")
    started[0].run("createsuperuser", "--noinput", variables={**ADMIN, "DJANGO_SUPERUSER_PASSWORD": PASSWORD})
    with started[0], started[1]:
        yield started


def guess(server: Adkweb, password: str, sender: str) -> int:
    """The status of one try, by a browser of its own; its sender says where it is forwarded from."""
    with httpx.Client(
        base_url=server.address, verify=False, timeout=60, headers={"X-Forwarded-For": sender}
    ) as browser:
        found = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', browser.get("/sign-in/").text)
        assert found
        data = {"csrfmiddlewaretoken": found[1], "username": "maria", "password": password}
        return browser.post("/sign-in/", data=data).status_code


@pytest.mark.guarantee(
    "Safety", "Each wrong password increases the wait before the next attempt, across all processes."
)
def test_guesses_at_the_same_moment_at_two_processes_count_together(servers: list[Adkweb]) -> None:
    with ThreadPoolExecutor(TRIES) as threads:
        numbers = range(TRIES)
        answers = Counter(threads.map(lambda n: guess(servers[n % 2], f"wrong {n}", f"203.0.113.{n}"), numbers))
    assert answers.keys() <= {403, 429}, answers
    assert answers[403] <= FREE + 2, answers  # a pause may be over before the last of them is heard
    logs = [server.log for server in servers]
    tried = sum(log.count("maria: a wrong password from 203.0.113.") for log in logs)
    assert tried == answers[403], logs
    for log in logs:  # a process may have come too late for any of the few tries
        assert "maria: " in log
        assert "Traceback" not in log
