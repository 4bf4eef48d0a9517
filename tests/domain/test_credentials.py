"""The secrets of credentials are found wherever google-adk keeps them, in both spellings."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest
from google.adk.auth.auth_credential import (
    AuthCredential,
    AuthCredentialTypes,
    HttpAuth,
    HttpCredentials,
    OAuth2Auth,
    ServiceAccount,
    ServiceAccountCredential,
)
from google.oauth2.credentials import Credentials
from hypothesis import given

from sessions_app.domain import credentials
from sessions_app.domain.camel_case import camel_name
from sessions_app.domain.masks import Mask
from tests import strategies

KINDS: Final = {
    "oauth2": AuthCredential(
        auth_type=AuthCredentialTypes.OAUTH2,
        oauth2=OAuth2Auth(
            client_id="me",
            client_secret="hunter2-a",
            access_token="hunter2-b",
            refresh_token="hunter2-c",
            id_token="hunter2-d",
            auth_code="hunter2-e",
            auth_response_uri="https://me.example/?code=hunter2-f",
            code_verifier="hunter2-g",
        ),
    ),
    "http": AuthCredential(
        auth_type=AuthCredentialTypes.HTTP,
        http=HttpAuth(
            scheme="basic",
            credentials=HttpCredentials(username="me", password="hunter2-h", token="hunter2-i"),
            additional_headers={"X-Key": "hunter2-j"},
        ),
    ),
    "api key": AuthCredential(auth_type=AuthCredentialTypes.API_KEY, api_key="hunter2-k"),
    "service account": AuthCredential(
        auth_type=AuthCredentialTypes.SERVICE_ACCOUNT,
        service_account=ServiceAccount(
            scopes=["s"],
            service_account_credential=ServiceAccountCredential(
                type_="service_account",
                project_id="p",
                private_key_id="hunter2-l",
                private_key="hunter2-m",
                client_email="me@p.example",
                client_id="me",
                auth_uri="https://a",
                token_uri="https://t",
                auth_provider_x509_cert_url="https://c",
                client_x509_cert_url="https://d",
                universe_domain="googleapis.com",
            ),
        ),
    ),
}


def dumped(kind: str, camel: bool) -> dict[str, Any]:
    return dict(KINDS[kind].model_dump(mode="json", by_alias=camel, exclude_none=True))


def kept_in(credential: dict[str, Any], camel: bool) -> dict[str, Any]:
    """Where a credential is kept: in events, and in states."""
    config = {"exchangedAuthCredential" if camel else "exchanged_auth_credential": credential, "credentialKey": "k"}
    call, response = ("functionCall", "functionResponse") if camel else ("function_call", "function_response")
    asked = {"name": "adk_request_credential", "id": "c1"}
    return {
        "request": {"actions": {"requestedAuthConfigs" if camel else "requested_auth_configs": {"c1": config}}},
        "call": {"content": {"parts": [{call: asked | {"args": {"authConfig" if camel else "auth_config": config}}}]}},
        "answer": {"content": {"parts": [{response: asked | {"response": config}}]}},
        "bare answer": {"content": {"parts": [{response: asked | {"response": credential}}]}},
        "state": {"actions": {"state_delta": {"user:google": credential, "step": "pay"}}},
        "deep": {"actions": {"state_delta": {"a": [{"b": {"c": [credential]}}]}}},
        "notes": {"custom_metadata": {"adkweb": {"replaced": {"google": credential}}}},
        "tool": {"content": {"parts": [{response: {"name": "login", "response": {"got": credential}}}]}},
        "text": {"actions": {"state_delta": {"a": json.dumps(credential)}}},
    }


@pytest.mark.parametrize("camel", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_no_secret_of_a_credential_is_left(kind: str, camel: bool) -> None:
    credential = dumped(kind, camel)
    assert "hunter2" in json.dumps(credential)
    for name, value in kept_in(credential, camel).items():
        text = json.dumps(value)
        assert credentials.may_hold(text), name
        assert not Mask([]).passes(text), name
        for seen in (credentials.hidden(value), credentials.without(value), Mask([]).event(value)):
            assert "hunter2" not in json.dumps(seen), name
        assert "••••" not in json.dumps(credentials.without(value), ensure_ascii=False), name
        assert json.loads(text) == value  # nothing was changed in it
    for part in credential.values():  # without its type
        assert "hunter2" not in json.dumps(credentials.hidden({"login": part})) or kind in ("http", "api key")


def test_what_is_no_secret_of_a_credential_stays() -> None:
    seen = credentials.hidden(dumped("oauth2", camel=False))
    assert seen["oauth2"]["client_id"] == "me"
    assert seen["oauth2"]["access_token"] == "••••"
    assert AuthCredential.model_validate(credentials.without(dumped("oauth2", camel=False))).oauth2 == OAuth2Auth(
        client_id="me"
    )


def test_a_token_under_a_credentials_key_and_googles_cached_tokens_are_secrets() -> None:
    cached = Credentials("hunter2", refresh_token="hunter2", client_id="me", client_secret="hunter2").to_json()
    state = {"adk_oauth2_5f3ab31c_oauth2_9ac01f22": "hunter2", "bigquery_token_cache": cached, "step": "pay"}
    assert credentials.may_hold(json.dumps(state))
    assert credentials.without(state) == {"step": "pay"}
    assert set(credentials.hidden(state).values()) == {"••••", "pay"}


@pytest.mark.parametrize(
    "value",
    [
        {"token": "t", "password": "p", "api_key": "k", "access_token": "a"},  # names that rules may hide
        {"text": "the client_secret is not here", "a": '{"b": 1}', "c": "{"},
        {"actions": {"requested_auth_configs": {}, "requested_tool_confirmations": {}}},
        {"auth_type": "magic", "api_key": "k"},
        {"auth_type": "apiKey", "api_key": None},
    ],
)
def test_nothing_else_is_hidden(value: Any) -> None:
    assert credentials.hidden(value) is value


@given(strategies.events)
def test_a_text_that_passes_has_no_secret(event: dict[str, Any]) -> None:
    if not credentials.may_hold(json.dumps(event)):
        assert credentials.secrets_of(event) == []


def test_every_name_of_a_secret_is_a_hint_and_no_accent_is() -> None:
    snake = ("auth_type", "auth_config", "raw_auth_credential", "exchanged_auth_credential", "client_secret")
    for name in (*snake, "refresh_token", "access_token", "private_key"):
        for each in (name, camel_name(name)):
            assert credentials.may_hold(json.dumps({each: 1})), each
    assert credentials.may_hold(json.dumps({"requested_auth_configs": {"a": 1}}))
    assert not credentials.may_hold(json.dumps({"requested_auth_configs": {}, "tokens": 3, "author": "José ☕"}))


def test_letters_that_are_written_as_numbers_hide_nothing() -> None:
    text = json.dumps(dumped("api key", camel=False)).replace("auth_type", r"\u0061uth\u005ftype")
    assert not Mask([]).passes(text)
    assert "hunter2" not in json.dumps(credentials.hidden(json.loads(text)))


def test_a_credential_deeper_than_python_goes_is_not_shown() -> None:
    value: Any = dumped("api key", camel=False)
    for _ in range(800):
        value = [value]
    seen = credentials.hidden(value)
    while isinstance(seen, list):
        (seen,) = seen
    assert seen == "••••"
