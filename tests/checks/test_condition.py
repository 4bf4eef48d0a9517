"""A rule means what the same query means: compared with the search and with a plain filter, on both databases."""

import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sessions_app.access.actor import SYSTEM
from sessions_app.domain.errors import Invalid
from sessions_app.domain.key_schema import KeySchema
from sessions_app.domain.state import ABSENT, UNKNOWN
from sessions_app.search import tree
from sessions_app.search.language import MOST_BRACKETS
from sessions_app.search.results import search
from sessions_app.search.state_condition import (
    MOST_CHARACTERS,
    always,
    breaking,
    broken,
    compared,
    holds,
    keys_of,
    read,
)
from tests.search.finding import feed
from tests.search.test_selecting import Maker, Plain, Told, paths, scalars, scopes

leaves = st.one_of(
    st.builds(tree.State, scopes, paths, st.sampled_from(["=", "!=", "<", ">", "<=", ">="]), st.tuples(scalars)),
    st.builds(tree.State, scopes, paths, st.just("in"), st.lists(scalars, min_size=1, max_size=3).map(tuple)),
    st.builds(tree.State, scopes, paths, st.just("exists")),
)
conditions = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, min_size=2, max_size=3).map(lambda nodes: tree.And(tuple(nodes))),
        st.lists(inner, min_size=2, max_size=3).map(lambda nodes: tree.Or(tuple(nodes))),
        inner.map(tree.Not),
    ),
    max_leaves=5,
)


@pytest.mark.guarantee(
    "Writing", "Searches, rules, batches, webhooks and views compare numbers exactly, down to the last digit."
)
@pytest.mark.parametrize("own", ["sqlite", "postgresql"], indirect=True)
@pytest.mark.parametrize("form", ["sqlite"])
def test_a_condition_holds_for_what_the_same_query_selects(own: str, source: str) -> None:
    maker = Maker([source])
    sessions = [maker.session(number) for number in range(40)]
    plain = Plain(maker)
    feed(source)

    def state_of(told: Told) -> dict[str, Any]:
        users, apps = (maker.shared.get((*told.ref[:2], name), {}) for name in (told.ref.user_id, ""))
        return {**told.state, **{f"user:{k}": v for k, v in users.items()}, **{f"app:{k}": v for k, v in apps.items()}}

    @settings(max_examples=5 * settings().max_examples)
    @given(conditions)
    def check(node: tree.Node) -> None:
        held = {told.ref for told in sessions if holds(node, compared(state_of(told), keys_of(node)))}
        assert held == {told.ref for told in sessions if plain.holds(node, told)}
        assert held == {row.ref for row in search(tree.Query(node), actor=SYSTEM).rows}
        breaks = {told.ref for told in sessions if broken(node, state_of(told))}
        assert breaks == {row.ref for row in search(tree.Query(breaking(node)), actor=SYSTEM).rows}

    check()


@pytest.mark.parametrize(
    ("key", "values", "condition"),
    [
        ("app:price", [412, 120, 99.5], "app:price >= 99.5"),
        ("step", ["pay", "book", "pay"], 'state.step in ("pay", "book")'),
        ("user:tier", ["gold"], 'user:tier = "gold"'),
        ("a.b", [1, "one"], 'state."a.b" != null'),
        ("cart", [{"total": 5}], "state.cart != null"),
        ("new", [], "state.new != null"),
    ],
)
def test_a_rule_begins_with_what_was_always_so(key: str, values: list[Any], condition: str) -> None:
    known = KeySchema()
    for value in values:
        known.add(value)
    assert always(key, known) == condition
    assert not any(broken(read(condition), {key: value}) for value in values)


STATE: Any = {"cart": {"total": -5}, "step": "pay", "user:tier": "gold", "a.b": 1, "nothing": None}


@pytest.mark.parametrize(
    "text",
    [
        *("cart.total >= 0", "step = book", 'user:tier in ("silver", "basic")', "not step exists", "state.a.b > 1"),
        *(
            "cart.total >= 0 or step = book",
            "not (step = pay and cart.total < 0)",
            "app:x exists",
            "app:x exists app:x > 1",
        ),
        *("nothing != null", "cart = 5"),
    ],
)
def test_a_state_breaks_a_rule(text: str) -> None:
    assert broken(read(text), STATE)


def test_a_temp_key_that_another_program_stored_breaks_no_rule() -> None:
    assert not broken(read('state."temp:x" = 1'), {"temp:x": 2})


@pytest.mark.parametrize(
    "text",
    [
        *("cart.total < 0", "step = pay", "user:tier exists", "gone > 5", "gone > 5 step = book", "cart.gone = 1"),
        *("app:x > 1", "not gone = 1", "not app:x exists", "user:step = 1", "nothing = null", "state.a.b = 1"),
    ],
)
def test_it_does_not_if_a_key_that_is_compared_does_not_exist(text: str) -> None:
    assert not broken(read(text), STATE)


def test_what_nobody_knows_breaks_no_rule() -> None:
    assert broken(read("step = book"), STATE)
    assert not broken(read("step = book"), STATE | {"step": UNKNOWN})
    assert not broken(read("step = book cart.total > 0"), STATE | {"cart": UNKNOWN})
    assert not broken(read("step = book"), STATE | {"step": ABSENT})
    assert broken(read("step exists"), STATE | {"step": ABSENT})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "Enter a condition on the state, for example"),
        ("  ", "Enter a condition on the state, for example"),
        ("expired", "“expired” isn't a condition on state"),
        ("step = pay error:any", "“error:any” isn't a condition on state"),
        ("user:tier", "“user:tier” isn't a condition on state"),
        ("was.step = pay", "“was.step = pay” isn't a condition on state"),
        ("step =", "Something is missing after"),
        ("(step = pay", "This bracket isn't closed"),
        ("usr:x", "There's no filter “usr:”"),
        (" ".join(f"k{n} = 1" for n in range(21)), "A rule can have up to 20 conditions"),
        (" ".join(f"a{n}.b.c.d.e = 1" for n in range(9)), "A rule can have up to 20 conditions"),
        ("x" * 201 + " = 1", "A key in a rule can have up to 200 characters"),
        ("x" * 1001, "A rule can have up to 1000 characters"),
        ("(" * 5 + "a = 1" + ")" * 4, "This bracket isn't closed"),
        ("(" * 11 + "a = 1" + ")" * 11, "Brackets can nest up to 10 levels deep"),
        ("(" * 500 + "a = 1" + ")" * 400, "Brackets can nest up to 10 levels deep"),
    ],
)
def test_what_is_no_rule_is_refused_with_the_reason(text: str, message: str) -> None:
    with pytest.raises(Invalid, match=message):
        read(text)


SIGNS = ["(", ")", "not", "-", "a.b", "user:x", "=", ">", "1", "in", "exists", ",", '"', "and", "or"]


@given(st.text(max_size=60) | st.lists(st.sampled_from(SIGNS)).map(" ".join))
def test_any_text_is_a_rule_or_is_refused(text: str) -> None:
    try:
        node = read(text)
    except Invalid:
        return
    assert broken(node, STATE) in (True, False)
    assert broken(node, {}) in (True, False)


def test_the_largest_rule_is_read_and_judged_in_no_time() -> None:
    deep = MOST_BRACKETS - 1  # a list has brackets, too
    text = "not " + "(" * deep + " or ".join(f"k{n} in ({', '.join('12345')})" for n in range(20)) + ")" * deep
    text = text[:MOST_CHARACTERS]
    began = time.thread_time()
    node = read(text.replace("not ", "", 1))
    for _ in range(100):
        broken(node, {f"k{n}": {"x": ["y" * 1000] * 100} for n in range(20)})
    assert time.thread_time() - began < 2.0
