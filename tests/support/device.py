"""A device that keeps passkeys, as a phone or a stick does, a browser that asks it, and an app that shows codes."""

from __future__ import annotations

import base64
import hmac
import json
import os
import struct
import time
from dataclasses import dataclass, field
from typing import Any, Final

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from fido2.cose import ES256
from fido2.utils import sha256, websafe_encode
from fido2.webauthn import Aaguid, AttestationObject, AttestedCredentialData, AuthenticatorData, CollectedClientData

FLAG: Final = AuthenticatorData.FLAG


@dataclass
class Device:
    """A device with one key. `count` is how often it has signed."""

    origin: str = "http://localhost:8000"
    count: int = 0
    name: bytes = field(default_factory=lambda: os.urandom(32))
    key: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))

    def make(self, options: str, *, algorithm: int = ES256.ALGORITHM, **client: Any) -> str:
        """Returns the browser's answer for a new key. `client` changes what it says of the page."""
        given = json.loads(options)
        public = ES256.from_cryptography_key(self.key.public_key())
        public[3] = algorithm
        data = AuthenticatorData.create(
            sha256(given["rp"]["id"].encode()),
            FLAG.UP | FLAG.UV | FLAG.AT,
            self.count,
            AttestedCredentialData.create(Aaguid.NONE, self.name, public),
        )
        said = self._client(CollectedClientData.TYPE.CREATE, given, client)
        return self._answer(
            clientDataJSON=said.b64, attestationObject=websafe_encode(AttestationObject.create("none", data, {}))
        )

    def sign(self, options: str, *, host: str = "", **client: Any) -> str:
        """Returns the browser's answer to a challenge, which the device has signed."""
        given = json.loads(options)
        self.count += 1
        data = AuthenticatorData.create(sha256((host or given["rpId"]).encode()), FLAG.UP | FLAG.UV, self.count)
        said = self._client(CollectedClientData.TYPE.GET, given, client)
        signature = self.key.sign(data + said.hash, ec.ECDSA(hashes.SHA256()))
        return self._answer(
            clientDataJSON=said.b64, authenticatorData=websafe_encode(data), signature=websafe_encode(signature)
        )

    def _client(self, kind: str, options: dict[str, Any], client: dict[str, Any]) -> CollectedClientData:
        usual = {"type": kind, "challenge": options["challenge"], "origin": self.origin}
        return CollectedClientData.create(**{**usual, **client})

    def _answer(self, **response: str) -> str:
        name = websafe_encode(self.name)
        return json.dumps({"id": name, "rawId": name, "type": "public-key", "response": response})


def code_of(secret: str, steps: int = 0) -> str:
    """The code that an app shows, now or some half minutes from now, as RFC 6238 computes it."""
    counter = struct.pack(">Q", int(time.time()) // 30 + steps)
    digest = hmac.digest(base64.b32decode(secret), counter, "sha1")
    (number,) = struct.unpack_from(">I", digest, digest[-1] & 15)
    return f"{(number & 0x7FFFFFFF) % 10**6:06}"
