"""Rules hide what they name, and nothing else."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions_app.domain.adk_fields import types_of
from sessions_app.domain.mask_patterns import FORMS, hide
from sessions_app.domain.masks import FORM, KEY, PATH, TOOL, Mask, Rule, has_dots

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)
CARD = "4111111111111111"


def test_no_rule_makes_a_text_of_a_flag_of_google_adks() -> None:
    flags = {
        model: [name for name, kind in types_of(model).items() if kind is bool] for model in ("Event", "EventActions")
    }
    actions = dict.fromkeys(flags["EventActions"], False)
    event = {**dict.fromkeys(flags["Event"], False), "actions": actions}
    assert actions
    assert Mask([Rule(KEY, "*")]).event(event) == event


@pytest.mark.parametrize(
    ("kind", "pattern", "state", "seen"),
    [
        (KEY, "*token*", {"user:apiTOKEN": 5, "step": "pay"}, {"user:apiTOKEN": "••••", "step": "pay"}),
        (KEY, "user:card_*", {"user:card_a": [1], "card_a": 2}, {"user:card_a": "••••", "card_a": 2}),
        (KEY, "card", {"user:card": 1, "a": [{"card": None}]}, {"user:card": "••••", "a": [{"card": "••••"}]}),
        (PATH, "profile.card.*", {"profile": {"card": {"n": 1}, "n": 2}}, {"profile": {"card": {"n": "••••"}, "n": 2}}),
        (PATH, "a.b", {"b": 1, "a": [{"b": 2}]}, {"b": 1, "a": [{"b": "••••"}]}),
        (FORM, "card", {"a": f"pay {CARD}!", "b": 4111111111111111}, {"a": "pay ••••!", "b": "••••"}),
    ],
)
def test_a_rule_hides_what_it_names_in_a_state(kind: str, pattern: str, state: Any, seen: Any) -> None:
    assert Mask([Rule(kind, pattern)])(state) == seen


def test_a_rule_hides_in_events_and_leaves_their_fields() -> None:
    calls = [
        {"function_call": {"name": "charge_card", "id": "c1", "args": {"card_number": "1", "amount": 2}}},
        {"functionResponse": {"name": "other", "response": {"card_number": "1", "a_token": 3}}},
    ]
    event = {
        "id": "token",
        "author": "token",
        "usage_metadata": {"total_token_count": 5},
        "content": {"parts": [{"text": f"my card is {CARD}"}, *calls]},
        "actions": {"state_delta": {"content": 1, "token": 2}, "artifact_delta": {"token.txt": 1}},
        "custom_metadata": {"id": {"token": 1}, "adkweb": {"actor": "token", "replaced": {"token": 1}}},
    }
    rules = [Rule(KEY, "*token*"), Rule(KEY, "content"), Rule(FORM, "card"), Rule(TOOL, "charge_*: card_number")]
    seen = Mask(rules).event(event)
    parts = seen["content"]["parts"]
    assert (seen["id"], seen["author"], seen["usage_metadata"]) == ("token", "token", {"total_token_count": 5})
    assert parts[0] == {"text": "my card is ••••"}
    assert parts[1]["function_call"]["args"] == {"card_number": "••••", "amount": 2}
    assert parts[2]["functionResponse"]["response"] == {"card_number": "1", "a_token": "••••"}
    assert seen["actions"] == {"state_delta": {"content": "••••", "token": "••••"}, "artifact_delta": {"token.txt": 1}}
    notes = {"actor": "token", "replaced": {"token": "••••"}}
    assert seen["custom_metadata"] == {"id": {"token": "••••"}, "adkweb": notes}


@pytest.mark.parametrize(
    ("rules", "value", "seen"),
    [
        ([(KEY, "code")], {"output": {"code": "123456"}}, {"output": {"code": "••••"}}),
        ([(KEY, "code")], {"output": "1", "code": "2"}, {"output": "1", "code": "2"}),  # of code that was run
        ([(FORM, "card")], {"output": {"id": CARD, "name": CARD}}, {"output": {"id": "••••", "name": "••••"}}),
        ([(KEY, "pin")], {"output": [{"name": {"pin": 3}}]}, {"output": [{"name": {"pin": "••••"}}]}),
        ([(PATH, "output.code")], {"output": {"code": 1}}, {"output": {"code": "••••"}}),
        ([(FORM, "card")], {"errorCode": f"no {CARD}"}, {"errorCode": "no ••••"}),
        ([(FORM, "card")], {"fileData": {"fileUri": f"x/{CARD}"}}, {"fileData": {"fileUri": "x/••••"}}),
        ([(FORM, "card")], {"inlineData": {"data": CARD}}, {"inlineData": {"data": CARD}}),
    ],
)
def test_what_an_event_carries_is_no_field_of_it(rules: list[tuple[str, str]], value: Any, seen: Any) -> None:
    assert Mask([Rule(*rule) for rule in rules]).event(value) == seen


@pytest.mark.parametrize("more", [[], [Rule(TOOL, "charge: cvv")]])
def test_a_rule_about_a_tool_takes_no_other_rule_away(more: list[Rule]) -> None:
    call = {"name": "charge", "args": {"card": "1", "pin": "2"}}
    by_path = Mask([Rule(PATH, "pending.args.card"), *more])({"pending": call})
    assert by_path["pending"]["args"]["card"] == "••••"
    by_tool = Mask([Rule(TOOL, "call_tool: args.pin"), *more]).event(
        {"name": "call_tool", "args": {"args": call["args"]}}
    )
    assert by_tool["args"]["args"]["pin"] == "••••"
    inner = Mask([Rule(TOOL, "proxy: args.pin"), *more]).event({"name": "proxy", "args": {**call}})
    assert inner["args"]["args"]["pin"] == "••••"


@pytest.mark.parametrize("card", [4111111111111111.0, "\uff14" + "\uff11" * 15])
def test_a_card_number_is_one_in_any_digits(card: Any) -> None:
    assert Mask([Rule(FORM, "card")])({"a": card}) == {"a": "••••"}


def test_a_name_that_only_begins_as_a_field_of_an_event_is_none() -> None:
    mask = Mask([Rule(FORM, "card")])
    for name in ("author", "author" + "_" * 20, "Author"):
        assert mask.event({name: CARD}) == {name: CARD}
    for name in ("author_x", "author" + "_" * 40 + "x", "author" + "_" * 400):
        assert mask.event({name: CARD}) == {name: "••••"}


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("4111 1111 1111 1111", "card"),
        ("2026 4111 1111 1111 1111", "card"),
        ("3782-822463-10005", "card"),
        ("AKIA" + "IOSFODNN7EXAMPLE", "service"),
        ("ASIA" + "IOSFODNN7EXAMPLE", "service"),
        ("AIza" + "Sy0" * 11 + "ab", "service"),
        *((f"sk-{kind}" + "a1" * 16, "service") for kind in ("", "proj-", "ant-", "svcacct-")),
        *((f"gh{kind}_" + "a1" * 18, "service") for kind in "pousr"),
        ("github_pat_" + "a1" * 30, "service"),
        ("xoxb-" + "1234567890", "service"),
        *((f"{kind}k_live_" + "a1" * 8, "service") for kind in "rs"),
        ("-----BEGIN EC PRIVATE KEY-----", "service"),
        ("postgresql://user:secret@host/db", "service"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJlLXRoYXQ", "jwt"),
        ("ana@example.com", "email"),
        *((text, "phone") for text in ("+49 170 1234567", "(089) 123456", "(212) 555-0123", "212.555.0123")),
    ],
)
def test_a_form_is_recognised(text: str, form: str) -> None:
    seen = hide(f"so {text} it is", [form])
    assert "••••" in seen
    assert text not in seen


@pytest.mark.parametrize(
    "text", ["4111111111111112", "1732531200000", "2026-11-25 10:00", "a@b", "sk-short", "3.14159"]
)
def test_what_only_looks_similar_stays(text: str) -> None:
    assert hide(text, FORMS) == text


@given(JSON)
def test_what_nothing_hides_is_the_same_object(value: Any) -> None:
    mask = Mask([Rule(KEY, "no such key"), Rule(TOOL, "no such tool: x")])
    assert mask(value) is value
    assert mask.event(value) == value


@pytest.mark.parametrize(
    "text", ["1 " * 500_000, "eyJ" * 300_000, "a@" * 500_000, "0" * 1_000_000, "-----BEGIN " * 90_000]
)
def test_hostile_texts_take_no_long_time(text: str) -> None:
    began = time.thread_time()
    hide(text, FORMS)
    assert time.thread_time() - began < 5


def test_hostile_patterns_take_no_long_time() -> None:
    mask = Mask([Rule(KEY, "*a" * 10 + f"b{number}") for number in range(100)])
    began = time.thread_time()
    mask({"a" * 5_000 + str(number): 1 for number in range(5)})
    assert time.thread_time() - began < 5


@pytest.mark.parametrize(
    "inner", [lambda value: [value], lambda value: {"content": value}, lambda value: {"a": [value]}]
)
def test_what_is_too_deep_to_be_looked_at_is_hidden(inner: Any) -> None:
    value: Any = "secret"
    for _level in range(900):
        value = inner(value)
    mask = Mask([Rule(KEY, "no such key")])
    for seen in (mask(value), mask.event(value)):
        assert has_dots(seen)
