"""adkweb stops when it is asked: requests finish, pages are told to come back, and jobs are let go. A real process."""

from __future__ import annotations

import json
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx
import pytest
from django.conf import settings
from django.db import connections
from pytest_django import DjangoDbBlocker

from sessions_app.domain.session_ref import SessionRef
from sessions_app.models import Job
from sessions_app.sources import database, registry
from sessions_app.writes.sessions import create_session
from tests.audit.syslogs import Syslog, of_datagrams
from tests.browser.serving import Adkweb
from tests.live.conftest import WRITER
from tests.live.pages import FEED, Own, Page, browser, post, sign_in
from tests.servers import HOST
from tests.support import bulk, warm
from tests.support.at_work import until

LONG = 100_000  # so that a fork takes seconds on any machine


@pytest.fixture
def syslog() -> Iterator[Syslog]:
    """What the server sends its audit to."""
    with of_datagrams() as running:
        yield running


@pytest.fixture
def server(tmp_path: Path, syslog: Syslog, django_db_blocker: DjangoDbBlocker) -> Iterator[Adkweb]:
    """adkweb on the demo and on a file with a long session."""
    (tmp_path / "data").mkdir()
    path = tmp_path / "long.db"
    path.touch()
    (source,) = registry.add(str(path))
    sent_to = f"udp://127.0.0.1:{syslog.address[2]}"
    adkweb = Adkweb(tmp_path, str(path), ADKWEB_SECRET_KEY=settings.SECRET_KEY, ADKWEB_AUDIT_SYSLOG=sent_to)
    with closing(adkweb), django_db_blocker.unblock():
        yield adkweb
        database.forget(source.alias)


def new_token(server: Adkweb) -> str:
    command = server.command("token", "create", "a program", "--right", "admin")
    return warm.run(command, cwd=server.folder, capture_output=True, text=True, check=True).stdout.strip()


def stop(server: Adkweb) -> float:
    """Asks the server to end; when that was."""
    assert server.process
    server.process.send_signal(signal.SIGTERM)
    return time.monotonic()


def ended(server: Adkweb, began: float) -> None:
    """Waits until the server has ended, which has to be soon, and by itself."""
    assert server.process
    assert server.process.wait(10) in (0, -signal.SIGTERM)
    assert time.monotonic() - began < 8
    server.stop()


def is_refused(server: Adkweb) -> bool:
    try:
        socket.create_connection((HOST, server.port), timeout=1).close()
    except OSError:
        return True
    return False


def test_a_server_that_is_asked_to_stop_finishes_requests_and_tells_pages_to_come_back(
    server: Adkweb, syslog: Syslog
) -> None:
    server.start()
    token, who = new_token(server), sign_in(server)
    pages = [Page(server, who, FEED, after=None) for _ in range(3)]
    for page in pages:
        page.until(lambda page: page.messages, "something of home")
    body = json.dumps({"said": "by a request that was under way"}).encode()
    head = (
        f"POST /apps/booking/users/ana/sessions/slow HTTP/1.1\r\nHost: {HOST}:{server.port}\r\n"
        f"Authorization: Bearer {token}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection((HOST, server.port), timeout=20) as line:
        line.sendall(head.replace("/apps/", "/sources/long/apps/").encode() + body[:5])
        time.sleep(0.5)
        began = stop(server)
        for page in pages:
            assert page.until_end() == (1001, "adkweb stops")
        until(lambda: is_refused(server), "no new connection")
        line.sendall(body[5:])
        assert line.recv(4000).startswith(b"HTTP/1.1 200")
    ended(server, began)
    assert "Traceback" not in server.log
    server.start()
    until(lambda: any(b'"act":"token-created"' in each for each in syslog.messages), "the audit, elsewhere")
    answer = httpx.get(
        f"{server.address}/sources/long/apps/booking/users/ana/sessions/slow",
        headers={"Authorization": f"Bearer {token}"},
    )
    assert answer.json()["state"] == {"said": "by a request that was under way"}


def test_a_page_that_does_not_answer_does_not_keep_the_server_from_ending(server: Adkweb) -> None:
    server.start()
    who = sign_in(server)
    page = Page(server, who, FEED, after=None)
    page.until(lambda page: page.messages, "something of home")
    began = stop(server)  # the page reads nothing any more, and so does not answer that it is closed
    ended(server, began)
    page.close()


@pytest.mark.long
def test_a_fork_that_is_under_way_is_let_go_and_the_next_process_goes_on_at_once(server: Adkweb) -> None:
    server.start()
    (source,) = registry.add(str(server.folder / "long.db"))
    database.open_source(source)
    ref = create_session(source.alias, "booking", "ana", session_id="s1", actor=WRITER)
    bulk.fill(ref, LONG)
    into = ref._replace(session_id="fork")
    fork(server, ref, into)
    until(lambda: copied(into), "some events of the fork")
    began = stop(server)
    ended(server, began)
    half = copied(into)
    assert 0 < half < LONG
    with Own(server):
        (job,) = Job.objects.filter(kind="fork")
        assert (job.state, job.claim, job.crashes) == ("waiting", "", 0)
    server.start()
    until(lambda: copied(into) == LONG + 1, "the whole fork and what says that it is one", seconds=40)
    with Own(server):
        until(lambda: not Job.objects.filter(kind="fork").exists(), "the end of the job", seconds=20)
    assert "whose process ended" in server.log


def fork(server: Adkweb, ref: SessionRef, into: SessionRef) -> None:
    """Forks a session at its last event, in the background, as a page does; once its past has been read."""
    with browser(server, sign_in(server)) as client:
        path = f"/s/{ref.source}/booking/ana/s1/e/e{LONG}/fork/"
        sent = {"user_id": "ana", "session_id": into.session_id, "reason": "what if"}
        until(lambda: post(client, path, **sent).status_code == 302, "the fork", seconds=60)


def copied(ref: SessionRef) -> int:
    """How many events a session has."""
    with connections[ref.source].cursor() as cursor:
        cursor.execute("SELECT count(*) FROM events WHERE session_id = %s", [ref.session_id])
        return int(cursor.fetchone()[0])
