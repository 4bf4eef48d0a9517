"""Secrets in state are recognised by their form or their name; what only looks like one is left in peace."""

import time

import pytest

from sessions_app.domain.secrets import LOOKED_AT, is_named_secret, secret_of, suggests_secret

LETTERS = "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5bC7d"
SECRETS = {
    "aws": "AKIA" + "IOSFODNN7EXAMPLE",
    "google": "AIza" + LETTERS[:35],
    "model": "sk-proj-" + LETTERS,
    "github": "ghp_" + LETTERS[:36],
    "slack": "xoxb-" + "2048-4096-" + LETTERS[:20],
    "stripe": "sk_live_" + LETTERS[:24],
    "jwt": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0." + LETTERS,
    "pem": "-----BEGIN RSA PRIVATE KEY-----\nMIIE",
    "address": "postgresql://ana:s3cret@db.example.com/x",
}


@pytest.mark.parametrize("kind", SECRETS)
def test_a_secret_is_recognised_wherever_it_stands_in_a_text(kind: str) -> None:
    assert secret_of(SECRETS[kind]) == kind
    assert secret_of(f"the key is {SECRETS[kind]} .") == kind


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "AKIA",
            "AKIA-1234",
            "risk-averse-traveller-with-many-wishes-2026",
            "sk-learn-pipeline-with-a-long-name-2",
        ),
        *("eyJ is how they begin", "a.b.c", "https://example.com/a:b@c", "mailto:ana@example.com", "12:30@gate"),
        *("task-1234567890abcdef", "d41d8cd98f00b204e9800998ecf8427e", "7f3a9c4d-5e6f-7a8b-9c0d-1e2f3a4b5c6d"),
        *("-----BEGIN PUBLIC KEY-----", "-----BEGIN CERTIFICATE-----", "ghp_short", "xoxo-hugs-and-kisses-everyone"),
        *("KE924 ICN 14:05", "만료된 요금", "AIza" + "x" * 10, "sk_test_" + LETTERS[:24]),
    ],
)
def test_what_only_looks_like_a_secret_is_none(text: str) -> None:
    assert secret_of(text) == ""


@pytest.mark.parametrize("name", ["password", "db_password", "apiKey", "API-KEY", "clientSecret", "user_access_token"])
def test_a_key_may_say_that_it_has_a_secret(name: str) -> None:
    assert is_named_secret(name, "hunter22")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        *(
            ("password", ""),
            ("password", "***"),
            ("password", "••••••••"),
            ("password", "<redacted>"),
            ("password", "none"),
        ),
        *(("password", "has to be set again"), ("password_reset_step", "sent_mail"), ("page_token", "abcdefgh")),
        *(("token_count", "123456"), ("secretary", "Mrs. Kim"), ("tier", "hunter22"), ("token", "abcdefgh")),
    ],
)
def test_a_key_that_has_none_is_not_accused(name: str, text: str) -> None:
    assert not is_named_secret(name, text)


@pytest.mark.parametrize("name", ["user:card_token", "token", "cardNumber", "user:iban", "pin", "db_password"])
def test_a_name_may_suggest_a_secret(name: str) -> None:
    assert suggests_secret(name)


@pytest.mark.parametrize(
    "name", ["token_count", "max_tokens", "next_page_token", "pinned", "card", "spin", "tokenizer"]
)
def test_other_names_suggest_none(name: str) -> None:
    assert not suggests_secret(name)


@pytest.mark.parametrize(
    "text",
    ["-eyJ", "eyJa.eyJ", "sk-proj-", "a://", "a:b@", "AKIA", "xoxb-", "-----BEGIN ", "A" * 20, "aA1_-", "https://a:"],
)
def test_no_text_makes_it_slow(text: str) -> None:
    began = time.thread_time()
    secret_of(text * 100_000)
    is_named_secret(text * 100_000, text * 100_000)
    assert time.thread_time() - began < 0.2
    assert len(text * 100_000) > LOOKED_AT
