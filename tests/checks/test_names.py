"""What the names of keys show."""

import pytest

from sessions_app.checks.names import is_same_for_each_user, meant_prefix, other_style, seems_users, spellings, style_of


def test_one_name_in_several_spellings_is_one() -> None:
    names = {"bookingStep", "booking_step", "booking-step", "Booking Step", "step", "steps", "cart", "2", "", "만료"}
    assert spellings(names) == [["Booking Step", "booking-step", "bookingStep", "booking_step"]]


@pytest.mark.parametrize(
    ("name", "style"),
    [
        ("booking_step", "snake_case"),
        ("bookingStep", "camelCase"),
        ("BookingStep", "PascalCase"),
        ("a-b", "kebab-case"),
    ],
)
def test_a_style_has_a_name(name: str, style: str) -> None:
    assert style_of(name) == style


@pytest.mark.parametrize("name", ["step", "Step", "STEP", "booking_Step", "a.b", "a b", "", "_", "만료_요금"])
def test_a_name_of_one_word_or_of_no_style_is_not_judged(name: str) -> None:
    assert style_of(name) == ""


def test_few_keys_of_another_style_are_named_and_a_mix_is_not() -> None:
    usual = {f"key_{n}" for n in range(8)}
    assert other_style({*usual, "anotherKey", "step"}) == ("snake_case", ["anotherKey"])
    assert other_style(usual) == ("snake_case", [])
    assert other_style({"a_b", "cD"}) == ("", [])
    assert other_style({*usual, *(f"key{n}Is" for n in range(6))}) == ("", [])
    assert other_style(set()) == ("", [])


@pytest.mark.parametrize(
    ("key", "prefix"),
    [
        *(
            ("User:tier", "user:"),
            ("users:tier", "user:"),
            ("APP:x", "app:"),
            (" user:x", "user:"),
            ("Temp:x", "temp:"),
        ),
        *(("user:tier", ""), ("app:x", ""), ("step", ""), ("http://x", ""), ("user:", ""), ("users:", ""), ("a:b", "")),
    ],
)
def test_a_prefix_that_adk_does_not_know_is_told(key: str, prefix: str) -> None:
    assert meant_prefix(key) == prefix


@pytest.mark.parametrize("key", ["email", "userName", "user_language", "preferred_seat", "customer-id", "birthday"])
def test_some_names_are_those_of_a_users_data(key: str) -> None:
    assert seems_users(key)


@pytest.mark.parametrize("key", ["user_input", "user_query", "step", "name", "message", "emails_sent", "username_step"])
def test_most_names_are_not(key: str) -> None:
    assert not seems_users(key)


def test_a_key_that_is_the_same_in_all_sessions_of_each_user_is_the_users() -> None:
    each = [("ana", {"seat": "aisle"}), ("ana", {"seat": "aisle"}), ("ben", {"seat": 5}), ("ben", {"seat": 5})]
    assert is_same_for_each_user(each, "seat")
    assert is_same_for_each_user([*each, ("tom", {"seat": "window"}), ("tom", {})], "seat")
    assert not is_same_for_each_user([*each, ("ana", {"seat": "window"})], "seat"), "it changes"
    assert not is_same_for_each_user([*each, ("tom", {"seat": "aisle"})], "seat"), "users share it"
    assert not is_same_for_each_user(each[:3], "seat"), "of ben, nobody knows"
    assert not is_same_for_each_user([(user, {"seat": True}) for user in ("ana", "ana", "ben", "ben")], "seat")
