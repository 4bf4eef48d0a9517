"""Webhooks of watched views: what a real receiver is told, what is tried again, and where nothing is ever sent."""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Callable, Iterator
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final

import pytest
from django.contrib.auth import get_user_model
from pytest_django import Settings

from sessions_app.access.handles import handle_of
from sessions_app.checks import mask_rules
from sessions_app.domain.errors import Invalid, NotAllowed, NotFound
from sessions_app.http import outgoing
from sessions_app.search.index.feed import Feeder
from sessions_app.search.saved import match_watcher, sending, views, webhooks
from sessions_app.search.saved.views import SavedView, ViewWatch
from sessions_app.search.saved.webhooks import Webhook, WebhookDelivery
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session
from tests.search.finding import feed
from tests.search.saved.receiver import Receiver, receiver
from tests.support.people import ALICE, an_admin, somebody

LINK: Final = "https://adkweb.example.com"
DOCS: Final = Path(__file__).resolve().parents[3] / "docs" / "search.md"
OWN: Final = pytest.mark.parametrize("own", ["sqlite", "postgresql"], indirect=True)


@pytest.fixture
def told(settings: Settings) -> Iterator[Receiver]:
    """A receiver that the settings list."""
    with receiver() as running:
        settings.WEBHOOK_HOSTS = [f"127.0.0.1:{running.port}"]
        yield running


@pytest.fixture
def view(own: str) -> SavedView:
    """A view that Maria watches."""
    fields = {"query": "expired", "sort": "", "columns": "", "shared": True}
    saved = views.save(maria(), name="Expired fares", **fields)
    saved.watch(maria(), "UTC")
    return saved


def maria() -> Any:
    """Returns Maria's account."""
    return an_admin("maria")


def set_up(view: SavedView, url: str) -> str:
    """Gives the view that Maria watches a webhook, and returns its secret."""
    return webhooks.set_up(ViewWatch.objects.of(view.id, maria()), url, LINK)


def hook_of(view: SavedView) -> Webhook:
    """Returns the webhook of the view that Maria watches."""
    hook = Webhook.objects.of(ViewWatch.objects.of(view.id, maria()))
    assert hook
    return hook


def deliveries(view: SavedView) -> list[WebhookDelivery]:
    """Returns what the webhook was told, the newest first."""
    return hook_of(view).deliveries


def send_all(*, now: bool = False) -> None:
    """Sends what is due; with `now`, what waits for another try, too."""
    if now:
        WebhookDelivery.objects.update(due=0)
    while webhooks.send_next():
        pass


# --- What is told -----------------------------------------------------------------------------------------------------


@OWN
def test_a_receiver_is_told_of_each_session_with_a_signature_that_the_docs_check(
    own: str, view: SavedView, told: Receiver, new_store: Callable[[str], str], open_source: Callable[[str], str]
) -> None:
    source = open_source(new_store("sqlite"))
    feed(source)
    secret = set_up(view, told.url)
    ref = create_session(source, "booking", "ana", session_id="s 1", actor=ALICE)
    said = {"role": "user", "parts": [{"text": "the fare expired"}]}
    append_event(ref, {"author": "user", "invocation_id": "i", "content": said}, actor=ALICE)
    feed(source, Feeder(source, match_watcher.noticing))
    send_all()
    (body,) = map(json.loads, told.bodies)
    assert body["session"] == {
        "source": source,
        "app_name": "booking",
        "user_id": "ana",
        "id": "s 1",
        "title": "the fare expired",
        "status": "running",
        "link": f"{LINK}/s/{source}/booking/ana/s~201/",
    }
    assert (body["type"], body["view"]["name"], body["view"]["link"]) == (
        "began",
        "Expired fares",
        f"{LINK}/sessions/?view={view.id}",
    )
    assert (told.paths, told.headers[0]["Adkweb-Delivery"]) == (["/hook?a=b"], body["id"])
    assert [(each.state, each.status, each.title) for each in deliveries(view)] == [("done", 200, "the fare expired")]

    (shown,) = re.findall(r"```python\n(.*?)```", DOCS.read_text(), re.DOTALL)
    names: dict[str, Any] = {}
    exec(shown, names)
    is_genuine, header = names["is_genuine"], told.headers[0]["Adkweb-Signature"]
    assert is_genuine(secret, header, told.bodies[0])
    assert not is_genuine(secret + "x", header, told.bodies[0])
    assert not is_genuine(secret, header, told.bodies[0] + b" ")
    old = sending.signature(secret, told.bodies[0], int(time.time()) - 301)
    assert not is_genuine(secret, old, told.bodies[0])
    (example,) = re.findall(r"```json\n(.*?)```", DOCS.read_text(), re.DOTALL)
    assert json.loads(example).keys() == body.keys()
    assert json.loads(example)["session"].keys() == body["session"].keys()


@OWN
def test_a_rule_of_masking_hides_what_is_still_to_be_sent(
    own: str, view: SavedView, told: Receiver, new_store: Callable[[str], str], open_source: Callable[[str], str]
) -> None:
    source = open_source(new_store("sqlite"))
    feed(source)
    set_up(view, told.url)
    ref = create_session(source, "booking", "ana@example.com", session_id="s1", actor=ALICE)
    said = {"role": "user", "parts": [{"text": "4111111111111111 expired"}]}
    append_event(ref, {"author": "user", "invocation_id": "i", "content": said}, actor=ALICE)
    feed(source, Feeder(source, match_watcher.noticing))
    mask_rules.create("*", "form", "card", actor=ALICE)
    mask_rules.create("*", "form", "email", ids=True, actor=ALICE)
    send_all()
    (body,) = map(json.loads, told.bodies)
    assert body["session"]["user_id"] == handle_of("ana@example.com")
    assert "ana@" not in body["session"]["link"]
    assert (body["session"]["title"], deliveries(view)[0].title) == ("•••• expired", "•••• expired")


@OWN
def test_what_fails_twice_and_is_then_accepted_arrives_once_later(own: str, view: SavedView, told: Receiver) -> None:
    set_up(view, told.url)
    told.statuses = [500, 503, 204]
    hook_of(view).test()
    seen = []
    for _try in range(3):
        send_all()
        (last,) = deliveries(view)
        seen.append((last.state, last.tries, last.status, round(last.due - time.time(), -1)))
        send_all()
        WebhookDelivery.objects.update(due=0)
    assert [each[:3] for each in seen] == [("waiting", 1, 500), ("waiting", 2, 503), ("done", 3, 204)]
    assert [each[3] for each in seen[:2]] == [10, 60]
    assert len(set(told.bodies)) == 1
    assert len(told.bodies) == 3


@OWN
def test_a_receiver_that_is_away_holds_up_its_own_messages_only_and_is_given_up_at_last(
    own: str, view: SavedView, told: Receiver, settings: Settings
) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        away = f"127.0.0.1:{closed.getsockname()[1]}"
    settings.WEBHOOK_HOSTS = [*settings.WEBHOOK_HOSTS, away]
    set_up(view, f"http://{away}/")
    for _message in range(3):
        hook_of(view).test()
    other = views.save(maria(), name="Other", query="x", sort="", columns="", shared=False)
    other.watch(maria(), "UTC")
    set_up(other, told.url)
    hook_of(other).test()
    send_all()
    assert sorted(each.tries for each in deliveries(view)) == [0, 0, 1]
    assert len(told.bodies) == 1
    for _try in range(3 * len(webhooks.RETRIES) + 3):
        send_all(now=True)
    assert {(each.state, each.tries) for each in deliveries(view)} == {("failed", len(webhooks.RETRIES) + 1)}
    assert "ConnectionRefusedError" in deliveries(view)[0].message


@OWN
def test_a_message_that_adkweb_cannot_send_is_given_up_as_any_other(
    own: str, view: SavedView, told: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_up(view, told.url)
    hook_of(view).test()

    def broken(*_given: Any) -> int:
        raise RuntimeError("a fault of adkweb's own")

    monkeypatch.setattr(sending, "send", broken)
    for _try in range(len(webhooks.RETRIES) + 2):
        send_all(now=True)
    (message,) = deliveries(view)
    assert (message.state, message.tries) == ("failed", len(webhooks.RETRIES) + 1)
    assert "log" in message.message


@OWN
def test_a_process_that_dies_while_it_sends_leaves_the_message_to_another(
    own: str, view: SavedView, told: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_up(view, told.url)
    hook_of(view).test()

    def killed(*_given: Any) -> int:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(sending, "send", killed)
        with pytest.raises(KeyboardInterrupt):
            webhooks.send_next()
    assert not webhooks.send_next(), "its claim holds"
    WebhookDelivery.objects.update(claimed_until=time.time() - 1)
    send_all()
    assert [(each.state, each.tries) for each in deliveries(view)] == [("done", 2)]
    assert len(told.bodies) == 1


@OWN
def test_what_is_kept_and_what_waits_is_bounded(own: str, view: SavedView, told: Receiver) -> None:
    set_up(view, told.url)
    for _message in range(70):
        hook_of(view).test()
    send_all()
    assert (len(told.bodies), WebhookDelivery.objects.count()) == (70, 50)
    assert len(deliveries(view)) == webhooks.SHOWN


# --- Where nothing is sent --------------------------------------------------------------------------------------------

PRIVATE: Final = (
    *("127.0.0.1", "127.8.8.8", "0.0.0.0", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1"),
    *("224.0.0.1", "255.255.255.255", "240.0.0.1", "192.0.0.8", "198.18.0.1"),
    *(
        "[::1]",
        "[::]",
        "[fe80::1]",
        "[fc00::1]",
        "[fd00:ec2::254]",
        "[ff02::1]",
        "[::ffff:10.0.0.1]",
        "[::ffff:8.8.8.8]",
    ),
    *("192.0.0.9", "192.31.196.1", "192.52.193.1", "192.88.99.1", "192.175.48.1", "203.0.113.1"),
    *("[2001:1::1]", "[2001:3::1]", "[2001:4:112::1]", "[2001:20::1]", "[2001:30::1]", "[2001:db8::1]"),
    *("[2620:4f:8000::1]", "[3fff::1]", "[3fff:fff::1]", "[5f00::1]", "[100::1]"),
    *("[64:ff9b::7f00:1]", "[2002:7f00:1::]", "[2001:0:7f00:1::]", "[::7f00:1]"),
    *("2130706433", "0x7f000001", "0177.0.0.1", "127.1", "localhost", "LOCALHOST."),
)


@OWN
@pytest.mark.parametrize("host", PRIVATE)
def test_an_address_that_is_not_public_is_refused_however_it_is_written(own: str, view: SavedView, host: str) -> None:
    with pytest.raises(Invalid):
        set_up(view, f"https://{host}/")
    assert not Webhook.objects.exists()


@pytest.mark.parametrize(
    "url",
    [
        *("", "example.com", "ftp://example.com/", "file:///etc/passwd", "javascript:alert(1)", "//example.com/"),
        *(
            "http://example.com/",
            "https://user:pass@example.com/",
            "https://example.com:0/",
            "https://example.com:99999/",
        ),
        *(
            "https:///path",
            "https://exa mple.com/",
            "https://example.com/\r\nX: y",
            "https://例え.jp/",
            "https://[::1/",
        ),
        "https://example.com/" + "x" * 2000,
    ],
)
def test_what_is_no_address_of_a_webhook_is_refused(url: str) -> None:
    with pytest.raises(Invalid):
        outgoing.read(url, sending.HOSTS)


def test_public_addresses_are_allowed() -> None:
    near = ("192.0.1.1", "192.88.98.1", "[2001:200::1]", "[2620:4f:8001::1]", "[3fff:1000::1]")
    for host in ("1.1.1.1", "[2606:4700::1111]", *near):
        assert outgoing.resolve(outgoing.read(f"https://{host}/", sending.HOSTS))


def answering(*given: str) -> Callable[..., Any]:
    """Returns a getaddrinfo that answers with these addresses, one after the other; a space separates several."""
    answers = list(given)

    def resolve(host: str, port: int, **_given: Any) -> list[Any]:
        now = answers.pop(0)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, port)) for each in now.split()]

    return resolve


@OWN
def test_a_name_that_leads_to_this_machine_later_is_not_followed_there(
    own: str, view: SavedView, told: Receiver, monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    settings.WEBHOOK_HOSTS = []
    monkeypatch.setattr(socket, "getaddrinfo", answering("93.184.216.34", "127.0.0.1", "93.184.216.34 127.0.0.1"))
    set_up(view, f"https://rebinds.example:{told.port}/")
    hook_of(view).test()
    for _try in range(2):
        send_all(now=True)
    assert told.bodies == []
    assert "isn't on the public internet" in deliveries(view)[0].message


def test_a_name_is_resolved_once_and_the_connection_goes_where_it_led(
    told: Receiver, monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    settings.WEBHOOK_HOSTS = ["listed.example"]
    monkeypatch.setattr(socket, "getaddrinfo", answering("127.0.0.1"))
    connected = []

    def noted(address: tuple[str, int], **given: Any) -> socket.socket:
        connected.append(address)
        opened = socket.socket()
        opened.settimeout(given["timeout"])
        opened.connect(address)
        return opened

    monkeypatch.setattr(socket, "create_connection", noted)
    assert sending.send(f"http://listed.example:{told.port}/", b"{}", "s", "d") == 200
    assert connected == [("127.0.0.1", told.port)]
    assert told.headers[0]["Host"] == f"listed.example:{told.port}"


@OWN
def test_a_redirect_to_a_private_address_is_a_failure_and_not_followed(
    own: str, view: SavedView, told: Receiver
) -> None:
    with receiver() as inner:
        told.statuses, told.location = [302], inner.url
        set_up(view, told.url)
        hook_of(view).test()
        send_all()
        assert (inner.paths, len(told.paths)) == ([], 1)
    assert [(each.state, each.status, each.message) for each in deliveries(view)] == [
        ("waiting", 302, "Redirects aren't followed.")
    ]


@OWN
def test_an_answer_with_signs_that_no_database_holds_is_noted(own: str, view: SavedView, told: Receiver) -> None:
    told.version = "HTTP/2\0"
    set_up(view, told.url)
    hook_of(view).test()
    send_all()
    assert [(each.state, each.tries, each.message) for each in deliveries(view)] == [
        ("waiting", 1, "UnknownProtocol: HTTP/2\ufffd")
    ]


def test_an_answer_that_trickles_is_given_up(told: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    told.trickles = True
    monkeypatch.setattr(sending, "SECONDS", 0.5)
    began = time.monotonic()
    with pytest.raises((OSError, HTTPException)):
        sending.send(told.url, b"{}", "s", "d")
    assert time.monotonic() - began < 5


# --- Whose it is ------------------------------------------------------------------------------------------------------


@OWN
def test_a_secret_is_kept_nowhere_and_another_address_has_another(own: str, view: SavedView, told: Receiver) -> None:
    first, second = (set_up(view, told.url) for _time in range(2))
    assert first.startswith("whsec_")
    assert first != second
    assert second not in repr(list(Webhook.objects.values()))
    assert Webhook.objects.count() == 1


@OWN
def test_what_its_person_may_not_see_any_more_is_not_sent_and_delays_nothing(
    own: str, view: SavedView, told: Receiver
) -> None:
    set_up(view, told.url)
    hook_of(view).test()
    WebhookDelivery.objects.update(app_name="booking")
    hook_of(view).test()
    somebody("maria", "admin", "weather")
    send_all()
    assert [(each.app_name, each.state) for each in deliveries(view)] == [("", "done"), ("booking", "failed")]
    assert len(told.bodies) == 1
    told.bodies.clear()
    hook_of(view).test()
    get_user_model().objects.update(is_active=False)
    send_all(now=True)
    assert told.bodies == []
    get_user_model().objects.all().delete()
    assert WebhookDelivery.objects.count() == 0


@OWN
def test_who_does_not_watch_has_no_webhook_and_read_only_sends_nothing(
    own: str, view: SavedView, told: Receiver, settings: Settings
) -> None:
    left = ViewWatch.objects.create(view=view, person=somebody("nobody"), zone="UTC", created=0.0)
    with pytest.raises(NotAllowed, match="for any app"):
        webhooks.set_up(left, told.url, LINK)
    with pytest.raises(NotFound, match="Watch this view first"):
        ViewWatch.objects.of(view.id, somebody("bob", "viewer"))
    set_up(view, told.url)
    hook_of(view).test()
    settings.READ_ONLY = True
    for verb in (hook_of(view).test, hook_of(view).remove):
        with pytest.raises(NotAllowed):
            verb()
    send_all()
    assert told.bodies == []
    settings.READ_ONLY = False
    ViewWatch.objects.end(view.id, maria())
    assert (Webhook.objects.count(), WebhookDelivery.objects.count()) == (0, 0)
