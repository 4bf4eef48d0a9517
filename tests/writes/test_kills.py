"""adkweb and PostgreSQL die at random moments while everything is written that can be: nothing acknowledged is lost.

Each round has an app of its own. Its kinds of writes (load.py) go on until adkweb is killed, or PostgreSQL ends without a
checkpoint, or both. After the restart, what nobody had an answer to is sent again; then every write must be there exactly
once, states must be what events say, and the audit must be whole.
"""

from __future__ import annotations

import os
import random
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
from django.core.management import call_command
from django.db import connections, transaction
from pytest_django import DjangoDbBlocker, Settings

from sessions_app.access import approval, tokens
from sessions_app.access.actor import TERMINAL
from sessions_app.access.audit import verifying
from sessions_app.domain.edit_note import edit_of
from sessions_app.jobs.lease import WAITING
from sessions_app.models import AuditRow, Job
from tests.browser.serving import Adkweb
from tests.live.pages import signed_in
from tests.servers import PostgreSQL
from tests.support.at_work import until
from tests.support.own import own_database
from tests.support.people import as_admin
from tests.support.stored import assert_state_is_what_events_say, execute, query, stored_events
from tests.writes.load import HELD, LASTS, Client, Door, InDoubt, Round, Step

pytestmark = pytest.mark.long

KILLS = int(os.environ.get("KILLS", "400"))
LONGEST = 0.6  # seconds of a round's load
PATIENCE = 40.0  # seconds until adkweb has finished all by itself
# The victims of the rounds, in this order: adkweb in most of them.
DEATHS = {
    "postgresql": [*[["adkweb"]] * 3, ["PostgreSQL"], ["PostgreSQL", "adkweb"], ["adkweb", "PostgreSQL"]],
    "sqlite": [["adkweb"]],
}
SHARE = {"postgresql": 3 / 4, "sqlite": 1 / 4}  # of all kills


class Killed(Adkweb):
    """adkweb on one source, without the demo. Its log begins anew with each start."""

    def _prepare(self, directory: Path) -> None:
        """Leaves out the demo."""

    def _command(self, directory: Path) -> list[str]:
        return self.command("serve", *self.sources, "--port", str(self.port))

    def _launch(self, directory: Path) -> None:
        (directory / "server.log").unlink(missing_ok=True)
        super()._launch(directory)


class House:
    """adkweb, the databases, and all rounds so far."""

    def __init__(self, adkweb: Killed, postgresql: PostgreSQL | None, where: str, source: str) -> None:
        self.adkweb, self.postgresql, self.where, self.source = adkweb, postgresql, where, source
        self.rounds: list[Round] = []
        signed_in("maria")
        approval.make(by=TERMINAL, keys=HELD)
        _token, text = tokens.create("load", "admin", "*", by=as_admin("maria"), holders=["maria"])
        self.door = Door(adkweb.address, source, text, signed_in("ben"))

    def round(self, *deaths: str) -> None:
        """Writes until somebody dies, and checks what is left."""
        one = Round(f"app{len(self.rounds)}")
        clients = [Client(self.door, one) for _ in range(6)]
        first = clients[0]
        self.rounds.append(one)
        self.surely(first.sessions)
        kinds = (Client.agent, Client.editor, Client.timed, Client.two_people, Client.admin, Client.batcher)
        stop = threading.Event()
        try:
            with ThreadPoolExecutor(len(kinds)) as threads:
                work = [threads.submit(each.work, kind(each), stop) for each, kind in zip(clients, kinds, strict=True)]
                time.sleep(random.uniform(0.05, LONGEST))
                self.die(*deaths)
                stop.set()
                for each in work:
                    each.result()
            self.start()
            for step in one.doubts:
                self.surely(step)
        except AssertionError as error:
            error.add_note(self.adkweb.log[-4000:])
            raise
        self.check(one)
        for client in clients:
            client.http.close()

    def die(self, *deaths: str) -> None:
        """Kills them in this order."""
        for name in deaths:
            server = self.adkweb if name == "adkweb" else self.postgresql
            assert server is not None
            server.die()

    def start(self) -> None:
        """Starts whoever is dead. Time has passed meanwhile: nobody works any more on what a dead process had claimed."""
        if self.postgresql and self.postgresql.process is None:
            self.postgresql.start()
        connections.close_all()
        if self.adkweb.process is None:
            Job.objects.filter(claimed_until__gt=1.0).update(claimed_until=1.0)
            self.adkweb.start()

    @staticmethod
    def surely(step: Step) -> None:
        """Sends something until it is acknowledged."""

        def send() -> bool:
            with suppress(InDoubt):
                step()
                return True
            return False

        until(send, "an answer", PATIENCE)

    def check(self, one: Round, *, ended: bool = False) -> None:
        """Checks the writes to one app: whatever adkweb does by itself later is there once, or not yet."""
        with transaction.atomic(using=self.source):
            if self.postgresql:
                execute(self.source, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            events = [(ref, event) for _seq, ref, event in stored_events(self.source, one.app)]
            there = Counter((ref.session_id, edit_of(event).get("reason") or event["id"]) for ref, event in events)
            assert_state_is_what_events_say(self.source, app_name=one.app)
            left = {name for (name,) in query(self.source, "SELECT id FROM sessions WHERE app_name = %s", [one.app])}
        assert [name for name, count in there.items() if count > 1] == []
        assert one.written - there.keys() == set()
        assert there.keys() - one.begun - one.later == set()
        assert one.begun - one.written <= one.later
        assert one.deleted & left == set()
        rows = AuditRow.objects.filter(app_name=one.app, act="session-deleted")
        assert one.deleted - set(rows.values_list("session_id", flat=True)) == set()
        assert verifying.verify().fault == ""
        if ended:
            assert one.later - there.keys() == set()

    def finish(self) -> None:
        """Lets adkweb finish what it does by itself, and checks everything once more."""
        time.sleep(LASTS)
        for one in self.rounds:  # a batch that died three times waits for somebody who goes on with it
            client = Client(self.door, one)
            self.surely(client.go_on)
            client.http.close()
        waiting = Job.objects.filter(kind__in=("batch", "expiry"), state=WAITING)
        until(lambda: not waiting.exists(), "an end of all jobs", PATIENCE)
        for one in self.rounds:
            self.check(one, ended=True)


@pytest.fixture(params=list(DEATHS))
def form(request: pytest.FixtureRequest) -> str:
    """Returns where the source and adkweb's own database are."""
    return str(request.param)


@pytest.fixture
def server(form: str) -> Iterator[PostgreSQL | None]:
    """A PostgreSQL server that is as durable as one in production."""
    if form == "sqlite":
        yield None
        return
    with PostgreSQL(fsync=True) as started:
        yield started


@pytest.fixture
def house(
    server: PostgreSQL | None,
    tmp_path: Path,
    blank: Path,
    open_source: Callable[..., str],
    django_db_blocker: DjangoDbBlocker,
    settings: Settings,
) -> Iterator[House]:
    """Starts adkweb beside its own database, on a source that it has adopted."""
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    settings.DATA_DIR = data
    own, where = f"sqlite:///{shutil.copy(blank, data / 'adkweb.db')}", str(tmp_path / "agent.db")
    if server:
        own, where = server.create_database("own"), server.create_database("agent")
    else:
        Path(where).touch()
    variables = {"ADKWEB_SECRET_KEY": settings.SECRET_KEY, "ADKWEB_DATABASE_URL": own}
    adkweb = Killed(tmp_path, where, **variables)
    with django_db_blocker.unblock(), own_database(own):
        if server:
            call_command("migrate", verbosity=0, interactive=False)
        source = open_source(where)
        with adkweb:
            yield House(adkweb, server, where, source)
            connections.close_all()


def test_whatever_dies_and_whenever_each_acknowledged_write_is_there_once(
    form: str, house: House, capsys: pytest.CaptureFixture[str]
) -> None:
    kills, began, deaths = max(1, round(KILLS * SHARE[form])), time.monotonic(), DEATHS[form]
    for number in range(kills):
        house.round(*deaths[number % len(deaths)])
    took = time.monotonic() - began
    house.finish()
    house.adkweb.run("doctor", "--audit", "--drift", house.where)
    written = sum(len(one.begun) for one in house.rounds)
    with capsys.disabled():
        print(
            f"\n{form}: {kills} kills, {took / kills:.2f} s each, {written:,} writes, {AuditRow.objects.count():,} acts"
        )
