"""Runs an identity provider, a real one, which can be made to lie about everything that it signs."""

from __future__ import annotations

import functools
import json
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final
from unittest import mock

import jwt
import requests
from cryptography.hazmat.primitives.asymmetric import rsa

Claims = dict[str, Any]
ISSUER: Final = "http://localhost:{port}"
KEY: Final = functools.cache(lambda: rsa.generate_private_key(65537, 2048))  # of every provider: it takes long to make


def honest(claims: Claims) -> Claims:
    """Says what is so."""
    return claims


@dataclass
class Provider:
    """A provider at `issuer`. Its answers pass `tokens`, `configuration` and `keys` before they are sent."""

    users: dict[str, Claims] = field(default_factory=dict)
    issuer: str = ""
    claims: Callable[[Claims], Claims] = honest  # of the id token, which is signed again
    configuration: Callable[[Claims], Claims] = honest
    keys: Callable[[Claims], Claims] = honest
    tokens: Callable[[Claims], Any] = honest
    sign: Callable[[Claims], str] | None = None
    is_away: bool = False
    key: rsa.RSAPrivateKey = field(default_factory=KEY)

    def signed(self, claims: Claims) -> str:
        """An id token."""
        return jwt.encode(claims, self.key, "RS256", {"kid": "own"})

    def answer(self, path: str, body: bytes) -> bytes:
        """What is sent instead of the honest answer to a request."""
        sent = json.loads(body)
        if path == "/.well-known/openid-configuration":
            sent = self.configuration(sent)
        elif path == "/jwks":
            public = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(self.key.public_key()))
            sent = self.keys({"keys": [{**public, "kid": "own", "use": "sig"}]})
        elif path == "/oauth2/token" and "id_token" in sent:
            claims = self.claims(jwt.decode(sent["id_token"], options={"verify_signature": False}))
            sent = self.tokens({**sent, "id_token": (self.sign or self.signed)(claims)})
        return json.dumps(sent).encode()

    def lets_in(self, address: str, subject: str) -> str:
        """Where somebody's browser is sent from the provider, once they have signed in there."""
        form = {"sub": subject} if subject else {"action": "deny"}
        answer = requests.post(address, form, allow_redirects=False, timeout=10)
        assert answer.status_code == 302, answer.text
        return answer.headers["Location"]


class _Lying:
    """A WSGI application whose JSON passes the provider."""

    def __init__(self, application: Any, provider: Provider) -> None:
        self._application, self._provider = application, provider

    def __call__(self, environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        """The answer."""
        if self._provider.is_away:
            start("502 Bad Gateway", [("Content-Type", "text/plain")])
            return [b"away"]
        begun: list[Any] = []
        body = b"".join(self._application(environ, lambda *given: begun.extend(given[:2])))
        status, headers = begun
        if dict(headers).get("Content-Type") == "application/json" and status.startswith("200"):
            body = self._provider.answer(environ["PATH_INFO"], body)
            headers = [each for each in headers if each[0] != "Content-Length"]
        start(status, headers)
        return [body]


@contextmanager
def running(users: dict[str, Claims]) -> Iterator[Provider]:
    """Runs a provider with these people, by their subject."""
    import oidc_provider_mock
    from authlib.jose import RSAKey
    from werkzeug.serving import make_server

    provider = Provider(users)
    people = [oidc_provider_mock.User(sub=sub, claims=claims) for sub, claims in users.items()]
    with mock.patch.object(RSAKey, "generate_key", return_value=RSAKey.import_key(KEY())):
        application = oidc_provider_mock.app(user_claims=people)
    application.debug = False
    server = make_server("localhost", 0, _Lying(application, provider), threaded=True)
    provider.issuer = ISSUER.format(port=server.server_port)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
