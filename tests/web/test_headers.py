"""What every answer says to the browser beside its page. `Browser` looks through each one; here, what it looks for."""

from __future__ import annotations

import re

import pytest
from asgiref.sync import async_to_sync
from asgiref.testing import ApplicationCommunicator
from django.conf import settings
from django.http import HttpResponseBase
from django.test import Client
from django.urls import reverse

from adkweb.asgi import application
from sessions_app.access import sign_in
from sessions_app.domain.session_ref import SessionRef
from tests.web.conftest import Browser
from tests.web.html import read

pytestmark = pytest.mark.django_db


def policy(response: HttpResponseBase) -> dict[str, list[str]]:
    """The content security policy by directive."""
    return {name: values for name, *values in map(str.split, response["Content-Security-Policy"].split(";"))}


@pytest.mark.guarantee("Safety", "Pages load nothing from other sites and run only adkweb's own scripts.")
def test_nothing_comes_from_elsewhere_and_nothing_runs_but_adkwebs_own_files(demo: str, maria: Browser) -> None:
    found = policy(maria.get("/"))
    assert found["default-src"] == ["'none'"]
    assert found["base-uri"] == found["frame-ancestors"] == ["'none'"]
    assert found["form-action"] == found["connect-src"] == found["font-src"] == ["'self'"]
    assert (found["require-trusted-types-for"], found["trusted-types"]) == (["'script'"], ["default"])
    for name in ("script-src", "style-src"):
        assert found[name][0] == "'self'"
        assert all(re.fullmatch(r"'nonce-[\w+/=-]{16,}'", value) for value in found[name][1:])


def test_a_nonce_is_new_with_each_page(maria: Browser) -> None:
    nonces = {maria.open("home").one("meta", name_="csp-nonce")["content"] for _ in range(3)}
    assert len(nonces) == 3
    assert "" not in nonces


@pytest.mark.parametrize("address", ["/", "/edits/", "/sessions/new/", "/no/such/page/", "/a/gone/gone/"])
def test_pages_are_kept_by_nobody_else_and_framed_by_nobody(maria: Browser, address: str) -> None:
    response = maria.get(address)
    assert response["Cache-Control"] == "private, no-cache"
    assert response["X-Frame-Options"] == "DENY"
    assert response["X-Content-Type-Options"] == "nosniff"
    assert response["Referrer-Policy"] == "same-origin"
    assert response["Cross-Origin-Opener-Policy"] == "same-origin"
    assert "Cookie" in response["Vary"]


def test_values_and_data_are_kept_by_nobody_else(ref: SessionRef, maria: Browser) -> None:
    response = maria.get(reverse("session-value", kwargs=ref._asdict()), {"key": "step"})
    assert response["Cache-Control"] == "private, no-cache"


def test_the_cookie_of_a_sign_in_is_out_of_reach_of_scripts_and_other_sites(guest: Browser) -> None:
    guest.get("/sign-in/", {"token": sign_in.sign_in_token()})
    cookie = guest.cookies[settings.SESSION_COOKIE_NAME]
    assert (cookie["httponly"], cookie["samesite"]) == (True, "Lax")


def test_the_cookie_against_forged_forms_stays_on_this_site(guest: Browser) -> None:
    guest.get("/sign-in/")
    assert guest.cookies[settings.CSRF_COOKIE_NAME]["samesite"] == "Lax"


def test_static_files_are_served_and_change_their_address_with_their_content(maria: Browser) -> None:
    addresses = {e["src"] for e in maria.open("home").all("script")} | {
        e["href"] for e in maria.open("home").all("link")
    }
    assert {"/static/css/pages.css", "/static/js/pages.js"} <= {address.partition("?")[0] for address in addresses}
    for address in addresses:
        assert re.search(r"\?v=[0-9a-f]{10}$", address), address
        status, headers = _get(address)
        assert status == 200, address
        assert headers[b"x-content-type-options"] == b"nosniff"
        assert b"max-age" in headers[b"cache-control"]


def _get(address: str) -> tuple[int, dict[bytes, bytes]]:
    """What adkweb's whole application answers, of which Django's own client knows the inner part only."""

    async def ask() -> tuple[int, dict[bytes, bytes]]:
        path, _mark, query = address.partition("?")
        asked = ApplicationCommunicator(
            application,
            {
                "type": "http",
                "method": "GET",
                "path": path,
                "query_string": query.encode(),
                "headers": [(b"host", b"localhost")],
            },
        )
        await asked.send_input({"type": "http.request"})
        start = await asked.receive_output()
        await asked.wait()
        return start["status"], {name.lower(): value for name, value in start["headers"]}

    return async_to_sync(ask)()


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "localhost:80@evil"])
def test_another_servers_name_is_refused(host: str) -> None:
    """Else a page of that name could read adkweb through a browser on this machine."""
    assert Client().get("/", headers={"Host": host}).status_code == 400


@pytest.mark.parametrize(
    "html",
    [
        "<p onclick='x'></p>",
        "<p style='color:red'></p>",
        "<script>x</script>",
        "<script src='https://evil.example/x.js'></script>",
        "<a href='javascript:x'></a>",
        "<a href='//evil.example'></a>",
        "<img src='/x.png'>",
        "<iframe></iframe>",
        "<svg onload=x></svg>",
        "<p><b></p></b>",
        "<p>",
        "<form action='https://evil.example'></form>",
        "<p hx-on:click='x'></p>",
        "<p hx-get='https://evil.example'></p>",
        "<style></style>",
        "<base href='/'>",
        "<p class=a class=b></p>",
    ],
)
def test_what_looks_through_the_pages_finds_this(html: str) -> None:
    assert read(html)[1] != []


def test_another_host_name_is_refused_in_words(client: Client) -> None:
    answer = client.get("/", headers={"host": "evil.example.com"})
    assert answer.status_code == 400
    assert "ADKWEB_ALLOWED_HOSTS" in answer.content.decode()
