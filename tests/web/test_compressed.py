"""Text is compressed for who takes it so, whatever must not be is not, and nothing else of the answer changes."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Callable
from typing import Any

import brotli
import pytest
from django.contrib.auth.models import User
from django.test import AsyncRequestFactory, Client
from django.urls import reverse

from adkweb.handler import Handler
from sessions_app.domain.session_ref import SessionRef
from tests.web.conftest import Browser

pytestmark = pytest.mark.django_db

TAKES = {"Accept-Encoding": "gzip, deflate, br"}


@pytest.fixture
def packed(person: User) -> Client:
    """Somebody whose browser takes gzip; answers are as they are sent."""
    client = Client(headers=TAKES)
    client.force_login(person)
    return client


@pytest.mark.parametrize(("name", "how"), [("session", {}), ("session-edit", {}), ("events", {"HX-Request": "true"})])
def test_pages_and_their_parts_are_compressed(
    ref: SessionRef, maria: Browser, packed: Client, add: Callable[..., str], name: str, how: dict[str, str]
) -> None:
    add(ref, {"text": "hello"})
    address = reverse(name, kwargs=ref._asdict())
    plain, answer = maria.get(address, headers=how), packed.get(address, headers=how)
    assert plain.get("Content-Encoding") is None
    assert answer["Content-Encoding"] == "gzip"
    assert "Accept-Encoding" in answer["Vary"]
    assert int(answer["Content-Length"]) == len(answer.content) < len(plain.content)
    whole = gzip.decompress(answer.content)
    assert whole.startswith(plain.content[:200])
    assert abs(len(whole) - len(plain.content)) < 100  # times differ, and what is masked


def test_the_length_of_a_page_tells_nothing(ref: SessionRef, packed: Client) -> None:
    address = reverse("session", kwargs=ref._asdict())
    assert len({len(packed.get(address).content) for _ in range(12)}) > 3


def test_a_new_token_is_never_compressed(packed: Client) -> None:
    answer = packed.post(reverse("tokens"), {"name": "ci", "permission": "read", "apps": "*", "expires": ""})
    assert "no-store" in answer["Cache-Control"]
    assert answer.get("Content-Encoding") is None


def test_an_export_is_sent_as_it_is_read(ref: SessionRef, packed: Client) -> None:
    answer = packed.get(reverse("session-export", kwargs=ref._asdict()))
    assert answer.streaming
    assert answer.get("Content-Encoding") is None


# --- Static files -----------------------------------------------------------------------------------------------------


def static(path: str, **headers: str) -> Any:
    """The answer of the whole application to a request for a file."""

    async def ask() -> tuple[Any, bytes]:
        answer = await Handler().get_response_async(AsyncRequestFactory().get(path, headers=headers))
        body = b"".join([part async for part in answer]) if answer.streaming else answer.content
        return answer, body

    return asyncio.run(ask())


@pytest.mark.parametrize("path", ["/static/js/live.js", "/static/css/tokens.css", "/static/img/icons.svg"])
@pytest.mark.parametrize(
    ("takes", "encoding", "read"),
    [
        ("gzip, deflate, br, zstd", "br", brotli.decompress),
        ("gzip, deflate", "gzip", gzip.decompress),
        ("gzip, br;q=0", "gzip", gzip.decompress),
    ],
)
def test_a_static_file_is_compressed_and_the_same_for_everybody_else(
    path: str, takes: str, encoding: str, read: Callable[[bytes], bytes]
) -> None:
    answer, body = static(path, **{"Accept-Encoding": takes})
    plain, whole = static(path)
    assert answer["Content-Encoding"] == encoding
    assert plain.get("Content-Encoding") is None
    assert read(body) == whole
    assert int(answer["Content-Length"]) == len(body) < len(whole)
    for name in ("Content-Type", "Cache-Control", "Last-Modified"):
        assert answer[name] == plain[name]
    assert "Accept-Encoding" in answer["Vary"] + plain["Vary"]
    again, _body = static(path, **{"Accept-Encoding": takes, "If-Modified-Since": answer["Last-Modified"]})
    assert again.status_code == 304


def test_a_font_is_left_as_it_is() -> None:
    answer, _body = static("/static/vendor/inter-latin-5.3.0.woff2", **TAKES)
    assert answer.get("Content-Encoding") is None
