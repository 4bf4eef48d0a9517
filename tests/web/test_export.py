"""Downloads: what the command writes, under a good name, streamed; what is not there is a page that says so."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import pytest
from django.http import StreamingHttpResponse
from django.urls import reverse

from sessions_app.access.actor import Actor
from sessions_app.domain.session_ref import SessionRef
from sessions_app.transfer import FORMATS, single_file
from sessions_app.writes.sessions import create_session
from tests.transfer.files import exported
from tests.web.conftest import Browser, names_of

pytestmark = pytest.mark.django_db


def body(response: Any) -> bytes:
    """All that is streamed."""

    async def read() -> bytes:
        return b"".join([piece async for piece in response])

    assert isinstance(response, StreamingHttpResponse)
    return asyncio.run(read())


def links(maria: Browser, name: str, **names: Any) -> dict[str, str]:
    """The formats that a page offers, with their addresses."""
    menu = maria.open(name, **names).one("form", "exports")
    files = [each for each in menu.all("button") if each.attributes.get("name") == "format"]
    return {each["value"]: f"{menu['action']}?format={each['value']}" for each in files}


def test_a_session_is_downloaded_in_every_format_that_can_be_written(maria: Browser, ref: SessionRef, add: Any) -> None:
    add(ref, {"text": "hello"})
    found = links(maria, "session", **ref._asdict())
    assert found.pop("html")
    assert list(found) == ["jsonl", "adk-json"]
    for form, address in found.items():
        response = maria.get(address)
        assert response.status_code == 200
        only = {"app": "booking", "user": "ana", "session": "s1"}
        whole = exported(ref.source, form, **only)  # as the machine itself, which leaves nothing out
        assert body(response) == whole.replace(b'{"adkweb":"jsonl",', b'{"adkweb":"jsonl","secrets":false,')
        assert response["Content-Disposition"] == f'attachment; filename="booking-ana-s1{FORMATS[form].suffix}"'
        assert "private" in response["Cache-Control"]
        assert response["X-Content-Type-Options"] == "nosniff"


def test_a_session_is_downloaded_as_one_file_named_after_its_title_in_the_readers_language(
    maria: Browser, ref: SessionRef, add: Any
) -> None:
    add(ref, {"text": "**hello**"}, actions={"state_delta": {"__session_metadata__": {"displayName": "서울 / trip"}}})
    response = maria.get(links(maria, "session", **ref._asdict())["html"], headers={"Accept-Language": "es"})
    assert response["Content-Type"] == "text/html; charset=utf-8"
    assert "filename*=utf-8''%EC%84%9C%EC%9A%B8_trip.html" in response["Content-Disposition"]
    page = body(response).decode()
    assert '<html lang="es" data-adkweb-session="1">' in page
    assert "después del último evento" in page
    assert "<strong>hello</strong>" in page
    assert 'http-equiv="Content-Security-Policy" content="default-src &#x27;none&#x27;; style-src &#x27;sha256-' in page
    for name, count in (("app", 2), ("user", 3)):
        assert maria.get(reverse(f"{name}-export", kwargs=names_of(ref, count)), {"format": "html"}).status_code == 404


def test_a_session_that_is_too_long_for_one_file_says_so_on_a_page(
    maria: Browser, ref: SessionRef, add: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(single_file, "MOST_EVENTS", 0)
    add(ref, {"text": "hello"})
    page = maria.get(reverse("session-export", kwargs=ref._asdict()), {"format": "html"})
    assert page.status_code == 400
    assert "a file can hold only 0. Export it as jsonl." in page.content.decode()


@pytest.mark.parametrize(("name", "count", "file"), [("app", 2, "booking"), ("user", 3, "booking-ana")])
def test_an_app_and_a_user_are_downloaded_with_all_their_sessions(
    maria: Browser, ref: SessionRef, actor: Actor, name: str, count: int, file: str
) -> None:
    create_session(ref.source, "booking", "ana", session_id="s2", actor=actor)
    create_session(ref.source, "booking", "omar", session_id="s3", actor=actor)
    create_session(ref.source, "other", "ana", session_id="s4", actor=actor)
    found = links(maria, name, **names_of(ref, count))
    assert list(found) == ["jsonl", "evalset"]
    response = maria.get(found["jsonl"])
    sessions = [line.get("session") for line in map(json.loads, body(response).splitlines())]
    assert [session for session in sessions if session] == (["s1", "s2", "s3"] if name == "app" else ["s1", "s2"])
    assert f'filename="{file}.jsonl"' in response["Content-Disposition"]


def test_a_download_is_offered_when_nothing_may_be_written(maria: Browser, ref: SessionRef, read_only: None) -> None:
    assert "jsonl" in links(maria, "session", **ref._asdict())
    assert maria.get(reverse("session-export", kwargs=ref._asdict())).status_code == 200


def test_names_of_any_text_make_a_harmless_file_name(maria: Browser, store: str, actor: Actor) -> None:
    names = ["../../etc", 'a"b\r\n;x', "é 한"]
    ref = create_session(store, names[0], names[1], session_id=names[2], actor=actor)
    said = maria.get(reverse("session-export", kwargs=ref._asdict()))["Content-Disposition"]
    assert said.startswith("attachment; filename*=utf-8''_.._etc-a_b_x-")
    assert not set('/"\r\n') & set(said)


@pytest.mark.parametrize("form", ["adk-v0", "adk-database", "nothing", ""])
def test_a_format_that_cannot_be_written_is_not_found(maria: Browser, ref: SessionRef, form: str) -> None:
    page = maria.open("session-export", status=404, query={"format": form}, **ref._asdict())
    assert "There's no export format" in page.one("main").text


def test_an_app_does_not_leave_as_one_session(maria: Browser, ref: SessionRef) -> None:
    maria.open("app-export", status=404, query={"format": "adk-json"}, **names_of(ref, 2))


@pytest.mark.parametrize(
    ("name", "names"),
    [
        ("session-export", ["booking", "ana", "gone"]),
        ("user-export", ["booking", "nobody"]),
        ("app-export", ["nothing"]),
    ],
)
def test_what_is_not_there_is_not_found(maria: Browser, ref: SessionRef, name: str, names: list[str]) -> None:
    fields = dict(zip(("source", "app_name", "user_id", "session_id"), [ref.source, *names], strict=False))
    assert maria.open(name, status=404, **fields).one("h1").text == "Not found"


def test_what_is_shared_hides_values_if_asked_to_and_its_name_does_too(
    maria: Browser, store: str, actor: Actor
) -> None:
    state = {"__session_metadata__": {"displayName": "Trip of Ana"}, "card": "4111-q", "step": "pay"}
    ref = create_session(store, "booking", "ana@example.com", session_id="s1", state=state, actor=actor)
    address = reverse("session-export", kwargs=ref._asdict())

    def shared(**asked: str) -> tuple[str, str]:
        response = maria.get(address, {"format": "html", **asked})
        return body(response).decode(), response["Content-Disposition"]

    page, name = shared(hide="1")
    assert "4111-q" not in page
    assert "Trip of Ana" not in page
    assert "ana@example.com" not in page
    assert "Some values (shown as ••••) were hidden before this file was shared" in page
    assert re.search(r'filename="booking-user-[0-9a-f]{16}-s1.html"', name)
    page, name = shared(hide="1", hide_keys="*car*, other")
    assert "4111-q" not in page
    assert "&quot;pay&quot;" in page
    assert "Trip_of_Ana.html" in name
    for asked in ({}, {"hide_keys": "card"}):
        assert "4111-q" in shared(**asked)[0]
        assert "were hidden before" not in shared(**asked)[0]
    too_many = {"hide": "1", "hide_keys": ",".join(map(str, range(21)))}
    assert "Enter up to 20 keys." in maria.open("session-export", status=400, query=too_many, **ref._asdict()).text
