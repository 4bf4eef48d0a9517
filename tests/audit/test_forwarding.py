"""The audit is sent to a syslog and to a webhook: real receivers get every row, in order, whatever happens between."""

from __future__ import annotations

import hashlib
import json
import math
import re
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
from pytest_django import Settings

from adkweb import environment
from sessions_app.access.audit import forwarding
from sessions_app.access.audit.forwarding import Receiver, backlogs, forward
from sessions_app.access.audit.record import HASHED, canonical, record, row_text
from sessions_app.domain.session_ref import SessionRef
from sessions_app.live import senders
from sessions_app.models import AuditReceiver, AuditRow
from tests.audit.syslogs import Syslog, of_datagrams, over_tcp
from tests.search.saved.receiver import Receiver as Hook
from tests.search.saved.receiver import receiver as a_hook
from tests.support import processes
from tests.support.at_work import until

ROOT: Final = Path(__file__).resolve().parents[2]
SECRET: Final = "a secret of some length"
BOTH: Final = pytest.mark.parametrize("own", ["sqlite", "postgresql"], indirect=True)
MESSAGE: Final = re.compile(
    rb"<109>1 (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}\+00:00) \S+ adkweb \d+ ([a-z-]+) - (\{.*\})"
)


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, settings: Settings) -> None:
    settings.DATA_DIR = tmp_path
    settings.AUDIT_WEBHOOK_SECRET = SECRET


@pytest.fixture
def tcp(settings: Settings) -> Iterator[Syslog]:
    """A syslog that the settings name."""
    with over_tcp() as running:
        settings.AUDIT_SYSLOG = running.address
        yield running


@pytest.fixture
def hook(settings: Settings) -> Iterator[Hook]:
    """A receiver of webhooks that the settings name."""
    with a_hook() as running:
        settings.AUDIT_WEBHOOK, settings.WEBHOOK_HOSTS = running.url, [f"127.0.0.1:{running.port}"]
        yield running


def fill(rows: int) -> None:
    for number in range(rows):
        record("exported", "maria", app_name="booking", n=number)


def recorded() -> list[str]:
    return [row_text(row) for row in AuditRow.objects.order_by("number")]


def send(*, now: bool = False) -> None:
    """Sends what is due; with `now`, what waits for another try, too."""
    if now:
        AuditReceiver.objects.update(due=0, claimed_until=0)
    for each in senders.receivers():
        while forward(each):
            pass


def texts(messages: Sequence[bytes]) -> list[str]:
    """The rows in messages, each of which is one as RFC 5424 wants it."""
    matches = [MESSAGE.fullmatch(each) for each in messages]
    assert all(matches), messages
    return [match[3].decode() for match in matches if match]


# --- What arrives -----------------------------------------------------------------------------------------------------


def _udp(_path: Path) -> AbstractContextManager[Syslog]:
    return of_datagrams()


def _tcp(_path: Path) -> AbstractContextManager[Syslog]:
    return over_tcp()


@pytest.mark.parametrize("kind", [_udp, _tcp, of_datagrams])
def test_a_syslog_gets_every_row_in_order_as_one_line_whatever_names_are_in_it(
    own: str, tmp_path: Path, settings: Settings, kind: Callable[[Path], AbstractContextManager[Syslog]]
) -> None:
    fill(2)
    record("refused", "mallory\n<0>1 - - - - forged", ref=SessionRef("a", "b\r\n\0", "‮ü", "s"), what="GET x")
    with kind(tmp_path / "log") as running:
        settings.AUDIT_SYSLOG = running.address
        send()
        until(lambda: len(running.messages) == 3)
        assert texts(running.messages) == recorded()
        fields = json.loads(texts(running.messages)[-1])
        assert hashlib.sha256(canonical([fields[name] for name in HASHED]).encode()).hexdigest() == (fields["digest"])


def test_a_row_with_names_as_long_as_anybody_can_make_them_fits_and_holds_up_nothing(
    own: str, settings: Settings
) -> None:
    long = "😀" * 2_000
    record("session-deleted", long, ref=SessionRef(long, long, long, long), why=[long] * 100)
    fill(1)
    with of_datagrams() as running:
        settings.AUDIT_SYSLOG = running.address
        send()
        until(lambda: len(running.messages) == 2)
    cut, whole = map(json.loads, texts(running.messages))
    assert (cut["cut"], cut["number"], cut["digest"]) == (True, 1, AuditRow.objects.get(number=1).digest)
    assert whole["number"] == 2


def test_a_webhook_gets_every_row_in_order_with_a_signature_that_the_docs_check(own: str, hook: Hook) -> None:
    fill(3)
    send()
    assert [body.decode() for body in hook.bodies] == recorded()
    assert [headers["Adkweb-Delivery"] for headers in hook.headers] == ["1", "2", "3"]
    (shown,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "search.md").read_text(), re.DOTALL)
    names: dict[str, Any] = {}
    exec(shown, names)
    assert names["is_genuine"](SECRET, hook.headers[0]["Adkweb-Signature"], hook.bodies[0])
    assert not names["is_genuine"](SECRET, hook.headers[0]["Adkweb-Signature"], hook.bodies[1])


def test_a_thread_of_the_server_sends_what_is_recorded(own: str, tcp: Syslog) -> None:
    sender = next(each for each in senders.senders() if each.name.startswith("adkweb-audit"))
    fill(1)
    sender.start()
    until(lambda: len(tcp.messages) == 1)
    sender.end()
    sender.join(10)
    assert texts(tcp.messages) == recorded()


# --- Whatever happens between -----------------------------------------------------------------------------------------


@BOTH
def test_a_receiver_that_is_away_holds_up_no_act_and_gets_all_when_it_is_back(own: str, settings: Settings) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    settings.AUDIT_SYSLOG = ("tcp", "127.0.0.1", port)
    fill(2)
    waits = []
    for _try in range(10):
        send(now=True)
        waits.append(math.ceil(AuditReceiver.objects.get().due - time.time()))
    assert waits == [2, 4, 8, 16, 32, 64, 128, 256, 300, 300]
    send()
    assert AuditReceiver.objects.get().tries == 10, "not before it is due"
    fill(1)
    (told,) = backlogs()
    assert (told.name, told.lacks, told.since) == ("syslog", 3, AuditRow.objects.get(number=1).at)
    assert "ConnectionRefusedError" in told.message
    with over_tcp(port) as running:
        send(now=True)
        until(lambda: len(running.messages) == 3)
        assert texts(running.messages) == recorded()
    assert backlogs() == [forwarding.Backlog("syslog", 0, 0.0, "")]


def test_an_answer_that_is_no_success_is_tried_again_and_no_row_overtakes(own: str, hook: Hook) -> None:
    fill(3)
    hook.statuses = [200, 500, 302, 204]
    for _try in range(4):
        send(now=True)
    assert [json.loads(body)["number"] for body in hook.bodies] == [1, 2, 2, 2, 3]


@pytest.mark.parametrize("aborts", [True, False])
def test_rows_that_a_receiver_did_not_read_are_sent_again(own: str, tcp: Syslog, *, aborts: bool) -> None:
    fill(300)
    tcp.aborts = aborts
    send()
    assert backlogs()[0].lacks == (300 if aborts else 0)
    tcp.aborts = False
    send(now=True)
    until(lambda: len(tcp.messages) == 300)
    assert texts(tcp.messages) == recorded()


@BOTH
def test_a_process_that_dies_while_it_sends_leaves_the_rows_to_another(own: str, tcp: Syslog) -> None:
    fill(2)

    def killed(rows: Sequence[AuditRow]) -> str:
        forwarding.deliver(tcp.address, rows)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        forward(Receiver("syslog", killed, 200))
    send()
    assert tcp.connections == 1, "its claim holds"
    AuditReceiver.objects.update(claimed_until=time.time() - 1)
    send()
    until(lambda: len(tcp.messages) == 4)
    assert texts(tcp.messages) == [*recorded(), *recorded()]
    assert backlogs()[0].lacks == 0


def test_a_process_that_lost_its_claim_takes_nothing_back(own: str) -> None:
    fill(2)

    def slow(rows: Sequence[AuditRow]) -> str:
        AuditReceiver.objects.update(claimed_until=0)
        forward(Receiver("syslog", lambda rows: "", 200))  # by another process
        return "the network was away"

    assert not forward(Receiver("syslog", slow, 1))
    assert AuditReceiver.objects.values_list("sent", "tries").get() == (2, 0)


@BOTH
def test_of_several_processes_one_sends_at_a_time(own: str, tcp: Syslog, tmp_path: Path) -> None:
    fill(60)
    assert processes.run(processes.forward_audit, own, str(tmp_path), tcp.address, copies=3) == [0] * 3
    until(lambda: len(tcp.messages) == 60)
    assert texts(tcp.messages) == recorded()
    assert backlogs()[0].lacks == 0


# --- Settings ---------------------------------------------------------------------------------------------------------


def test_a_webhook_may_not_be_sent_into_the_own_network_unless_the_settings_list_it(
    own: str, hook: Hook, settings: Settings
) -> None:
    settings.WEBHOOK_HOSTS, settings.AUDIT_WEBHOOK = [], "https://127.0.0.1/"
    fill(1)
    send()
    assert "isn't on the public internet" in backlogs()[0].message
    assert hook.bodies == []


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("", None),
        ("udp://log.example.com", ("udp", "log.example.com", 514)),
        ("tcp://[::1]:601/", ("tcp", "::1", 601)),
        ("unix:///dev/log", ("unix", "/dev/log", 0)),
    ],
)
def test_a_syslog_is_named_by_an_address(text: str, address: object) -> None:
    assert environment.syslog(text) == address


@pytest.mark.parametrize(
    "refused",
    [
        *(
            partial(environment.syslog, text)
            for text in (
                "log.example.com",
                "udp://",
                "tcp://a:b",
                "tcp://a:99999",
                "unix://dev/log",
                "https://a",
                "tcp://a/b",
            )
        ),
        partial(environment.check_secret, "https://example.com", ""),
        partial(environment.check_secret, "https://example.com", "short"),
    ],
)
def test_a_setting_that_cannot_work_ends_adkweb_with_a_sentence(refused: Callable[[], object]) -> None:
    with pytest.raises(SystemExit, match="ADKWEB_AUDIT_"):
        refused()
