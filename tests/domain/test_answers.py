"""An answer is sent only in the shape that google-adk reads, whatever its question says."""

import json
from contextlib import suppress
from enum import Enum
from functools import partial
from typing import Any, Literal

import pytest
from google.adk.auth.auth_tool import AuthConfig
from google.adk.tools.tool_confirmation import ToolConfirmation
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from sessions_app.domain.answers import (
    MOST_FIELDS,
    MOST_LEVELS,
    check,
    check_returned,
    fields,
    read,
    response,
    sign_in_link,
)
from sessions_app.domain.description import AUTH_CALL, CONFIRMATION_CALL, INPUT_CALL, Part
from sessions_app.domain.errors import Invalid
from sessions_app.domain.kinds import describe
from sessions_app.domain.pending import CONFIRMATION, CREDENTIAL, INPUT, KINDS, LONG_RUNNING, pending
from tests.costs import takes_less
from tests.domain.test_adk_fields import deep
from tests.domain.test_pending import RECORDED
from tests.strategies import json_values

RECORDS = sorted(each.stem for each in RECORDED.glob("*.json"))
BACK = "https://app.example.com/cb"


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Address(BaseModel):
    street: str
    city: str = "Madrid"
    main: bool = False


class Trip(BaseModel):
    """Where to?"""

    guests: int = Field(ge=1, le=8, title="Party size", description="With children")
    price: float | None = None
    colour: Colour
    level: Literal[1, 2] = 2
    tags: list[str] = []
    home: Address
    work: Address | None = None
    nights: list[int] = []
    until: str | None


TRIP = Trip.model_json_schema()
FILLED = {
    "guests": "3",
    "colour": "red",
    "level": "2",
    "home.street": "Main St",
    "home.city": "Rome",
    "work.city": "Madrid",
}
READ = {
    "guests": 3,
    "colour": "red",
    "level": 2,
    "tags": [],
    "nights": [],
    "until": None,
    "home": {"street": "Main St", "city": "Rome", "main": False},
}


def recorded(name: str) -> tuple[str, Part]:
    """Returns the first call of a recorded session that waits, and its kind."""
    events = json.loads((RECORDED / f"{name}.json").read_text())
    waits = pending(events)[0]
    return waits.kind, next(call for call in describe(events[waits.seq]).calls if call.id == waits.call_id)


def schema_of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def asks(schema: Any, interrupt: str = "c1") -> Part:
    return Part("call", {"interruptId": interrupt, "response_schema": schema}, INPUT_CALL, "c1")


def refused(schema: Any, answer: Any) -> tuple[str, str]:
    with pytest.raises(Invalid) as caught:
        check(schema, answer)
    return caught.value.message, caught.value.detail["field"]


# --- The form ---------------------------------------------------------------------------------------------------------


def test_a_schema_that_pydantic_writes_becomes_a_form() -> None:
    form = {each.name: each for each in fields(TRIP) or ()}
    assert {name: each.kind for name, each in form.items()} == {
        "guests": "integer",
        "price": "number",
        "colour": "choice",
        "level": "choice",
        "tags": "lines",
        "home.street": "text",
        "home.city": "text",
        "home.main": "yes-no",
        "work.street": "text",
        "work.city": "text",
        "work.main": "yes-no",
        "nights": "json",
        "until": "text",
    }
    assert [name for name, each in form.items() if each.required] == ["guests", "colour", "home.street"]
    assert (form["guests"].label, form["guests"].help, form["colour"].label) == (
        "Party size",
        "With children",
        "colour",
    )
    assert (form["home.street"].label, form["work.street"].label) == ("home · Street", "work · Street")
    assert form["level"].choices == {"1": 1, "2": 2}
    assert (form["level"].initial, form["home.city"].initial, form["tags"].initial) == ("2", "Madrid", "")


def test_a_form_starts_with_the_given_answer() -> None:
    given_ = {"guests": 4, "tags": ["a", "b"], "home": {"city": "Rome", "main": True}, "nights": [1], "price": None}
    form = {each.name: each.initial for each in fields(TRIP, given_) or ()}
    assert (form["guests"], form["tags"], form["home.city"], form["home.main"]) == ("4", "a\nb", "Rome", "true")
    assert read(TRIP, {**FILLED, **form, "colour": "blue", "home.street": "x"})["nights"] == [1]


def test_what_a_browser_posts_becomes_an_answer() -> None:
    assert read(TRIP, FILLED) == READ
    assert read(TRIP, {**FILLED, "price": "1.5", "tags": "a\r\n b\n\n", "nights": "[1, 2]", "until": " so\r\non"}) == {
        **READ,
        "price": 1.5,
        "tags": ["a", "b"],
        "nights": [1, 2],
        "until": " so\non",
    }
    work = {"work": {"street": "s", "city": "Madrid", "main": True}}
    assert read(TRIP, {**FILLED, "work.street": "s", "work.main": "on"}) == {**READ, **work}


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("guests", "", "Party size is missing."),
        ("guests", "two", "Party size must be a whole number."),
        ("guests", "2.5", "Party size must be a whole number."),
        ("guests", "9", "Party size must be at most 8."),
        ("price", "nan", "Price must be a number."),
        ("price", "1e999", "Price must be a number."),
        ("colour", "green", "colour must be one of these: red, blue."),
        ("home.street", " ", "home · Street is missing."),
        ("home.main", "perhaps", "home · Main must be true or false."),
        ("work.street", "", "work · Street is missing."),  # its city was changed
        ("nights", "[1,", "Nights: line 1, column 4: not valid JSON (Expecting value)"),
        ("nights", '[1, "a"]', "nights[1] must be a whole number."),
        ("until", "\0", "Until: the character U+0000 can't be stored in a database"),
    ],
)
def test_what_is_wrong_is_said_with_the_name_of_its_field(name: str, text: str, problem: str) -> None:
    with pytest.raises(Invalid) as caught:
        read(TRIP, {**FILLED, "work.city": "Rome" if name == "work.street" else "", name: text})
    assert (caught.value.message, caught.value.detail["field"]) == (problem, name)


@pytest.mark.parametrize(
    ("property_", "kind"),
    [
        ({"type": ["integer", "null"]}, "integer"),
        ({"allOf": [{"type": "boolean"}]}, "yes-no"),
        ({"type": "array", "items": {"type": "string", "enum": ["a"]}}, "json"),
        ({"type": "array", "items": {"type": ["string", "null"]}}, "json"),
        ({"type": "object"}, "json"),
        ({"enum": ["1", 1]}, "json"),  # of one text
        (True, "json"),
    ],
)
def test_each_property_gets_the_field_that_can_hold_it(property_: Any, kind: str) -> None:
    assert [each.kind for each in fields(schema_of(a=property_)) or ()] == [kind]


def test_an_object_is_left_out_only_where_it_may_be() -> None:
    inner = schema_of(b={"type": "string"})
    or_null = {"anyOf": [inner, {"type": "null"}]}
    assert read(schema_of(a=or_null), {"a.b": ""}) == {}
    assert read({**schema_of(a=or_null), "required": ["a"]}, {"a": ""}) == {"a": None}
    assert read({**schema_of(a=inner), "required": ["a"]}, {"a.b": ""}) == {"a": {}}
    assert read(schema_of(a={**inner, "default": {"b": "x"}}), {"a.b": "x"}) == {"a": {"b": "x"}}


def nested(levels: int) -> Any:
    inner: Any = {"type": "string"}
    for _level in range(levels):
        inner = schema_of(a=inner)
    return inner


def circle(**schema: Any) -> Any:
    return {**schema_of(a={"$ref": "#/$defs/a"}), "$defs": {"a": schema}}


def bomb(levels: int = 40) -> Any:
    """A schema of a few lines that is enormous once its references are followed."""
    definitions = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(levels)}
    return {**schema_of(a={"$ref": "#/$defs/d0"}), "$defs": {**definitions, f"d{levels}": {}}}


HOSTILE = {
    "remote": schema_of(a={"$ref": "http://127.0.0.1:9/a.json"}),
    "file": schema_of(a={"$ref": "file:///etc/passwd"}),
    "remote, unused": {**schema_of(a={}), "$defs": {"a": {"$ref": "//example.com/a"}}},
    "dynamic": schema_of(a={"$dynamicRef": "http://127.0.0.1:9/a.json"}),
    "id": {**schema_of(a={}), "$id": "http://127.0.0.1:9/a.json"},
    "nowhere": schema_of(a={"$ref": "#/$defs/a"}),
    "itself": schema_of(a={"$ref": "#"}),
    "circle": circle(**{"$ref": "#/$defs/a"}),
    "wider circle": circle(**schema_of(b={"$ref": "#/$defs/a"}, c={"$ref": "#/$defs/a"})),
    "circle in a choice": circle(anyOf=[{"$ref": "#/$defs/a"}, {"type": "null"}]),
    "bomb": bomb(),
    "pattern": schema_of(a={"type": "string", "pattern": "^(a+)+$"}),
    "patterns": {**schema_of(a={}), "patternProperties": {"^(a+)+$": {}}},
    "deep": nested(MOST_LEVELS + 1),
    "very deep": nested(20_000),
    "not": {**schema_of(a={}), "default": deep(20_000)},
    "large": schema_of(a={"enum": [*range(1_000_000)]}),
    "long name": schema_of(**{"a" * 1_000_000: {}}),
    "wordy": schema_of(a={"description": "a" * 1_000_000}),
    "no schema": {"type": "object", "properties": 5},
    "surrogate": schema_of(a={"title": "\ud83d"}),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_schema_has_no_form_and_costs_nothing(name: str) -> None:
    schema = HOSTILE[name]

    def look() -> None:
        assert fields(schema) is None
        check(schema, {"a": "a" * 40 + "!"})
        assert refused({**schema, "type": "object"}, [])[0] == "The answer must be a JSON object."
        with pytest.raises(Invalid):
            read(schema, {"a": "b"})

    assert takes_less(1, look)


@pytest.mark.parametrize("schema", [None, True, 5, [], {}, {"type": "object"}, schema_of()])
def test_what_takes_any_answer_has_no_form(schema: Any) -> None:
    assert fields(schema) is None


@pytest.mark.parametrize(
    ("schema", "text", "answer"),
    [
        ({"type": "string"}, "12 pm\r\nor later", "12 pm\nor later"),
        ({"type": "string", "default": ""}, "", ""),
        ({"type": "integer", "title": "Days"}, "12", 12),
        ({"type": "boolean"}, "false", False),
        ({"anyOf": [{"type": "number"}, {"type": "null"}]}, "", None),
        ({"type": "array", "items": {"type": "string"}}, "a\nb", ["a", "b"]),
        ({"enum": ["red", 1]}, "1", 1),
        ({"$ref": "#/$defs/Colour", "$defs": {"Colour": {"type": "string", "enum": ["red"]}}}, "red", "red"),
    ],
)
def test_an_answer_that_is_no_object_has_one_field(schema: Any, text: str, answer: Any) -> None:
    (field,) = fields(schema) or ()
    assert field.name == ""
    assert read(schema, {"": text}) == answer


@pytest.mark.parametrize("schema", [{"type": "string"}, {"type": "boolean"}, {"type": "integer"}, {"enum": ["red"]}])
def test_it_is_never_left_out(schema: Any) -> None:
    (field,) = fields(schema) or ()
    assert field.required
    with pytest.raises(Invalid, match=r"The answer is missing\."):
        read(schema, {})


def test_a_form_has_at_most_so_many_fields_and_levels() -> None:
    assert len(fields(schema_of(**{f"a{n}": {} for n in range(MOST_FIELDS)})) or ()) == MOST_FIELDS
    assert fields(schema_of(**{f"a{n}": {} for n in range(MOST_FIELDS + 1)})) is None
    assert [each.path for each in fields(nested(MOST_LEVELS)) or ()] == [("a",) * MOST_LEVELS]


@pytest.mark.parametrize("name", ["", "a\nb", "a\0b", "‮a"])
def test_a_name_that_a_browser_cannot_post_has_no_form(name: str) -> None:
    assert fields(schema_of(**{name: {}})) is None
    assert fields(schema_of(**{"a.b": {}, "a": schema_of(b={})})) is None  # two of one name


# --- The schema -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("property_", "value", "problem"),
    [
        ({"type": "string"}, 1, "a must be text."),
        ({"type": "array"}, 1, "a must be a list."),
        ({"type": ["integer", "string"]}, None, "a isn't what the agent asks for."),
        ({"anyOf": [{"type": "number"}, {"type": "null"}]}, "1", "a must be a number."),
        ({"anyOf": [{"type": "number"}, {"type": "array"}]}, "1", "a isn't what the agent asks for."),
        ({"oneOf": [{"type": "number"}, {"type": "integer"}]}, 1, "a isn't what the agent asks for."),
        ({"const": 3}, 4, "a must be 3."),
        ({"minimum": 3}, 2, "a must be at least 3."),
        ({"exclusiveMinimum": 3}, 3, "a must be greater than 3."),
        ({"exclusiveMaximum": 3}, 3, "a must be less than 3."),
        ({"multipleOf": 3}, 4, "a must be a multiple of 3."),
        ({"minLength": 3}, "ab", "a is too short. The minimum number of characters is 3."),
        ({"maxLength": 1}, "ab", "a is too long. The maximum number of characters is 1."),
        ({"minItems": 1}, [], "a has too few items. The minimum is 1."),
        ({"maxItems": 1}, [1, 2], "a has too many items. The maximum is 1."),
    ],
)
def test_an_answer_that_does_not_fit_is_refused(property_: Any, value: Any, problem: str) -> None:
    assert refused(schema_of(a=property_), {"a": value}) == (problem, "a")


def test_a_nested_answer_that_does_not_fit_is_refused() -> None:
    strict = {**schema_of(a={**schema_of(b={}), "required": ["b"], "additionalProperties": False})}
    assert refused(strict, {"a": {}}) == ("a · b is missing.", "a.b")
    assert refused(strict, {"a": {"b": 1, "c": 2}}) == ("The agent doesn't ask for a.c.", "a.c")
    assert refused(strict, []) == ("The answer must be a JSON object.", "")
    assert refused({"type": "string"}, 1) == ("The answer must be text.", "")


@pytest.mark.parametrize("answer", [float("nan"), "\0", deep(200), {"a": {1, 2}}, b"", {1: 2}])
def test_what_is_not_json_is_refused_whatever_the_schema(answer: Any) -> None:
    for schema in (None, {}, TRIP, HOSTILE["remote"]):
        with pytest.raises(Invalid):
            check(schema, answer)
        for kind in KINDS:
            with pytest.raises(Invalid):
                response(kind, asks(schema), answer)


_words = st.sampled_from(
    [
        "type",
        "properties",
        "items",
        "$ref",
        "$defs",
        "anyOf",
        "allOf",
        "enum",
        "const",
        "required",
        "default",
        "a",
        "title",
    ]
)
_values = st.sampled_from(["object", "string", "array", "null", "#/$defs/a", "#/properties/a", "a"]) | json_values
_schemas = st.recursive(
    _values, lambda inner: st.dictionaries(_words, inner, max_size=5) | st.lists(inner, max_size=3), max_leaves=20
)


_texts = st.text() | st.sampled_from(["1", "on", "[1]", "null", "-0", "1e5"])
_asked = st.sampled_from(
    ["message", "payload", "interruptId", "toolConfirmation", "originalFunctionCall", "authConfig"]
)


@given(
    _schemas | st.dictionaries(st.just("a"), _schemas).map(lambda properties: schema_of(**properties)),
    st.dictionaries(st.sampled_from(["a", "title", "a.a", "properties"]), _texts),
    json_values,
    st.dictionaries(_asked, json_values),
)
def test_no_schema_and_no_answer_does_more_than_be_refused(
    schema: Any, texts: dict[str, str], answer: Any, args: dict[str, Any]
) -> None:
    call = Part("call", {**args, "response_schema": schema}, "approve", "c1")
    for act in (
        lambda: fields(schema, answer),
        lambda: check(schema, read(schema, texts)),
        lambda: check(schema, answer),
        *(partial(response, kind, call, answer) for kind in KINDS),
    ):
        with suppress(Invalid):
            act()


# --- The response -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", RECORDS)
def test_google_adk_reads_the_answer_to_each_recorded_question(name: str) -> None:
    kind, call = recorded(name)
    if kind == CONFIRMATION:
        named, content = response(kind, call, confirmed=True)
        assert named == CONFIRMATION_CALL
        assert content == {"confirmed": True} | ({"payload": {"days": 0}} if "payload" in name else {})
        assert ToolConfirmation.from_response_dict(content).confirmed
        assert response(kind, call, {"days": 3})[1] == {"confirmed": False, "payload": {"days": 3}}
    elif kind == CREDENTIAL:
        address = f"{BACK}?code=c1&state={sign_in_link(call).state}"
        named, content = response(kind, call, address)
        assert named == AUTH_CALL
        sent = AuthConfig.model_validate(content)
        assert sent.exchanged_auth_credential.oauth2.auth_response_uri == address
        del content["exchangedAuthCredential"]["oauth2"]["authResponseUri"]
        assert content == call.value["authConfig"]
    elif kind == LONG_RUNNING:
        assert response(kind, call, {"ok": True}) == ("approve", {"ok": True})
        assert response(kind, call, "done") == ("approve", {"result": "done"})
    elif "workflow" in name:
        assert response(kind, call, {"days": 3}) == (INPUT_CALL, {"days": 3})
        with pytest.raises(Invalid, match="Days must be a whole number"):
            response(kind, call, {"days": "three"})
    else:
        assert response(kind, call, "Ana") == (INPUT_CALL, {"result": "Ana"})
        assert response(kind, asks(None, interrupt="invented by the model"), {}) == (INPUT_CALL, {"result": {}})


@pytest.mark.parametrize("interrupt", ["c1", ""])
@pytest.mark.parametrize(
    ("schema", "answer"),
    [
        (TRIP, READ),
        (schema_of(result={"type": "string"}), {"result": "ok"}),
        ({"type": "string"}, "Ana"),
        ({"type": "string"}, "12"),
        ({"type": "string"}, "null"),
        ({"type": "string"}, "[" * 5_000),
        ({"type": "integer"}, 12),
        ({"type": "array"}, ["a"]),
        (None, {"a": 1}),
    ],
)
def test_a_workflow_gets_the_very_answer(schema: Any, answer: Any, interrupt: str) -> None:
    adk = pytest.importorskip("google.adk.workflow.utils._rehydration_utils")
    _name, content = response(INPUT, asks(schema, interrupt), answer)
    reached = adk._validate_resume_response(adk._unwrap_response(content), schema)
    assert (
        {k: v for k, v in reached.items() if v is not None or k in answer} == answer
        if isinstance(reached, dict)
        else reached == answer
    )


# --- Signing in -------------------------------------------------------------------------------------------------------


def signs_in(**oauth2: Any) -> Part:
    about = {
        "authUri": "https://idp.example.com/auth?state=s1",
        "redirectUri": BACK,
        "state": "s1",
        "clientSecret": "k-1",
    }
    config = {"exchangedAuthCredential": {"authType": "oauth2", "oauth2": {**about, **oauth2}}}
    return Part("call", {"authConfig": config}, AUTH_CALL, "c1")


def test_a_sign_in_shows_its_host_and_never_a_secret() -> None:
    link = sign_in_link(signs_in())
    assert link.host == "idp.example.com"
    assert "k-1" not in repr(link)
    assert sign_in_link(signs_in(authUri="http://localhost:8080/auth")).host == "localhost:8080"


@pytest.mark.parametrize(
    "address",
    [
        *(
            None,
            5,
            "",
            "/auth",
            "javascript:alert(1)",
            "data:text/html,x",
            "http://idp.example.com/",
            "ftp://example.com/",
        ),
        *("https:///idp.example.com", "https://evil.com\\@idp.example.com/", "https://idp.example.com@evil.com/"),
        *("https://idp.example.com/\n", " https://idp.example.com/", "https://іdp.example.com/", "https://[::1", "\0"),
        *("https://idp.example.com:99999/", "http://localhost.evil.com/", "https://id%70.example.com/", "//evil.com/"),
    ],
)
def test_a_link_that_is_not_safe_is_not_offered(address: Any) -> None:
    call = signs_in(authUri=address)
    assert sign_in_link(call) is None
    with pytest.raises(Invalid):
        response(CREDENTIAL, call, f"{BACK}?code=c1&state=s1")


@pytest.mark.parametrize(
    "value", [{}, {"authConfig": 5}, {"authConfig": {"exchangedAuthCredential": {"oauth2": []}}}, 5]
)
def test_a_question_without_a_link_has_none(value: Any) -> None:
    assert sign_in_link(Part("call", value, AUTH_CALL, "c1")) is None
    assert sign_in_link(signs_in(redirectUri=None)) is None
    assert sign_in_link(signs_in(state="")) is None


@pytest.mark.parametrize("address", [f"{BACK}?state=s1&code=c1", "https://APP.example.com:443/cb?code=c1&state=s1#_=_"])
def test_the_address_of_this_sign_in_is_taken(address: str) -> None:
    check_returned(signs_in(), address)
    check_returned(signs_in(redirectUri="https://app.example.com"), address.replace("/cb", "/"))


@pytest.mark.parametrize(
    "address",
    [
        *(
            None,
            "",
            "c1",
            f"{BACK}?code=c1",
            f"{BACK}?code=c1&state=s2",
            f"{BACK}?state=s1&state=s2",
            f"{BACK}#state=s1",
        ),
        *("http://app.example.com/cb?state=s1", f"{BACK}.evil?state=s1", "https://app.example.com:8443/cb?state=s1"),
        *("https://app.example.com.evil.com/cb?state=s1", "https://app.example.com@evil.com/cb?state=s1"),
        *("https://evil.com\\@app.example.com/cb?state=s1", f"{BACK}/../x?state=s1", f"{BACK}?state=s1\0"),
    ],
)
def test_no_other_address_is_taken(address: Any) -> None:
    with pytest.raises(Invalid):
        check_returned(signs_in(), address)
