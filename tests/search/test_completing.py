"""Tests of completion: names of filters, values that were seen, keys of state and their values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest

from sessions_app.access.actor import SYSTEM, Actor
from sessions_app.domain.session_ref import SessionRef
from sessions_app.edits.edit import Entry, edit_app_state
from sessions_app.search.completing import MOST, complete, owners
from sessions_app.search.conditions import FILTERS
from sessions_app.search.labels import tag
from sessions_app.sources import registry
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session
from tests.costs import takes_less
from tests.search.finding import feed, query_of
from tests.support.people import ALICE

pytestmark = pytest.mark.parametrize("own", ["sqlite", "postgresql"], indirect=True)
STATE: Final = {
    "step": "pay",
    "stage": "two words",
    "cart": {"total": 5},
    "odd key": 1,
    'q"uote': 1,
    "long": "x" * 100,
    "user:tier": "gold",
    "user:city": "Paris",
    "app:theme": "dark",
}


@pytest.fixture
def fed(own: str, new_store: Callable[[str], str], open_source: Callable[[str], str]) -> str:
    """A source with a few users, tools and keys."""
    source = open_source(new_store("sqlite"))
    for user in ("nadia", "Nadia Kim", "Ann-Nadia", "José", "지우"):
        ref = create_session(source, "booking", user, session_id="s1", state=STATE, actor=ALICE)
    for tool in ("refund", "charge_card"):
        parts = [{"function_call": {"name": tool, "args": {}}}]
        append_event(ref, {"author": "billing", "content": {"parts": parts}, "error_code": "LATE"}, actor=ALICE)
    create_session(
        source, "booking", "ana", session_id="s2", state={"step": "paid", "user:tier": "golden"}, actor=ALICE
    )
    feed(source)
    return source


def applied(text: str) -> list[str]:
    """The query after each suggestion. In the text, ¦ is the cursor."""
    at = text.index("¦")
    text = text.replace("¦", "")
    return [text[: each.start] + each.text for each in complete(text, at, actor=SYSTEM)]


OPERATORS: Final = ("=", "!=", ">", ">=", "<", "<=", "in (", "exists")
FIRST_FILTERS: Final = [f"{name}:" for name in FILTERS][: MOST - len(OPERATORS)]
SUGGESTED: Final = [
    # filters and keys
    ("us¦", ["user:"]),
    ("late to¦", ["late tool:", "late took:", "late tokens:"]),
    ("-us¦", ["-user:"]),
    ("(us¦", ["(user:"]),
    ('"fare expired" us¦', ['"fare expired" user:']),
    ('user:"Nadia Kim" us¦', ['user:"Nadia Kim" user:']),
    ("us¦ late", ["user:"]),
    ("TO¦", ["tool:", "took:", "tokens:"]),
    ("so¦", ["source:"]),
    ("st¦", ["status:", "state.stage", "state.step"]),
    ("state.st¦", ["state.stage", "state.step"]),
    ("state.cart¦", ["state.cart", "state.cart.total"]),
    ("state.odd¦", ['state."odd key"']),
    ("state.q¦", [r'state."q\"uote"']),
    # values
    ("user:NAD¦", ['user:"Nadia Kim"', "user:nadia", "user:Ann-Nadia"]),
    ('user:"nad¦', ['user:"Nadia Kim"', "user:nadia", "user:Ann-Nadia"]),
    ("USER:jose¦", ["USER:José"]),
    ("user:지¦", ["user:지우"]),
    ("user:ti¦", ["user:tier"]),
    ("app:¦", ["app:booking", "app:theme"]),
    ("tool:car¦", ["tool:charge_card"]),
    ("author:b¦", ["author:billing"]),
    ("error:late¦", ["error:LATE"]),
    ("kind:re¦", ["kind:rewind", "kind:response", "kind:code_result", "kind:remote"]),
    ("-status:id¦", ["-status:idle"]),
    ("-waits-f¦", ["-waits-for:"]),
    ("waits:c¦", ["waits:confirmation", "waits:credential"]),
    ("waits-for:r¦", []),
    ("after:to¦", ["after:today"]),
    ("tag:¦", ["tag:any", "tag:none"]),
    # values of keys
    ("step = ¦", ['step = "paid"', 'step = "pay"']),
    ("state.step = pai¦", ['state.step = "paid"']),
    ('stage="two w¦', ['stage="two words"']),
    ("stage != tw¦", ['stage != "two words"']),
    ("user:tier = go¦", ['user:tier = "gold"', 'user:tier = "golden"']),
    ('user:tier in ("gold", go¦', ['user:tier in ("gold", "gold"', 'user:tier in ("gold", "golden"']),
    ("app:theme in (¦", ['app:theme in ("dark"']),
    ("long = ¦", []),
    ("step = pay us¦", ["step = pay user:"]),
    ("step = pay user:jo¦", ["step = pay user:José"]),
    ("step = pay stage = tw¦", ['step = pay stage = "two words"']),
    ('stage = "two words" user:jo¦', ['stage = "two words" user:José']),
    # operators, after a key
    ("state.step ¦", [f"state.step {each}" for each in OPERATORS]),
    ("-state.nothing ¦", [f"-state.nothing {each}" for each in OPERATORS]),
    ('state."odd key" ¦', [f'state."odd key" {each}' for each in OPERATORS]),
    ("was.user:tier ¦", [f"was.user:tier {each}" for each in OPERATORS]),
    ("late cart.total ¦", [f"late cart.total {each}" for each in (*OPERATORS, *FIRST_FILTERS)]),
    ("user:tier ¦", [f"user:tier {each}" for each in (*OPERATORS, *FIRST_FILTERS)]),
    ("user:ana ¦", [f"user:ana {each}:" for each in list(FILTERS)[:MOST]]),
    ("state.step i¦", ["state.step in ("]),
    ("state.step>¦", ["state.step>", "state.step>="]),
    ("step !¦", ["step !="]),
    ("step e¦", ["step exists", "step error:", "step edited:", "step events:"]),
    # what keys were
    ("wa¦", ["waits:", "waits-for:", "waiting:", "was."]),
    ("was.st¦", ["was.stage", "was.step"]),
    ("was.step = pai¦", ['was.step = "paid"']),
    ("-set:user:ti¦", ["-set:user:tier"]),
    ("changed:ti¦", ["changed:user:tier"]),
    ("set:ap¦", ["set:app:theme"]),
    ('set:"od¦', ['set:"odd key"']),
    ('changed:"step by ¦', ['changed:"step by billing"']),
    ('set:"user:tier by bi¦', ['set:"user:tier by billing"']),
    # nothing
    ("zzz¦", []),
    ("user:nobody¦", []),
    ('"fare exp¦', []),
    ('user:"Nadia Kim"¦', []),
]


def test_a_word_that_no_session_has_is_spelt_as_one_that_some_have(fed: str) -> None:
    ref = create_session(fed, "booking", "ana", session_id="s3", actor=ALICE)
    say = "the booking failed, q88213x, 예약이 실패했습니다"
    append_event(ref, {"author": "user", "content": {"parts": [{"text": say}]}}, actor=ALICE)
    feed(fed)
    nearest = {"faild": "failed", "-FIALED": "-failed", "boking": "booking", "실패했슴니다": "실패했습니다"}
    for wrong, right in nearest.items():
        suggestion = complete(f"late {wrong}", len(wrong) + 5, actor=SYSTEM)[-1]
        assert f"late {wrong}"[: suggestion.start] + suggestion.text == f"late {right}"
        assert suggestion.respelt
    for other in ("failed", "ailed", "fai", "fale", "zebra", "q88214x", '"faild', "tool:faild", "two,faild"):
        assert not any(each.respelt for each in complete(other, len(other), actor=SYSTEM)), other
    assert complete("faild", 5, actor=Actor.holding("program", "read", "payroll*")) == []


def test_nothing_is_suggested_of_a_source_that_is_not_open_here(
    fed: str, new_store: Callable[[str], str], open_source: Callable[[str], str]
) -> None:
    own = open_source(new_store("sqlite"))
    state = {"step": "own", "user:tier": "tin"}
    ref = create_session(own, "booking", "eva", session_id="s1", state=state, actor=ALICE)
    append_event(ref, {"author": "billing", "actions": {"state_delta": {"step": "owned"}}}, actor=ALICE)
    feed(own)
    tag([ref], "ours", actor=ALICE)
    tag([SessionRef(fed, "booking", "ana", "s2")], "other", actor=ALICE)
    asked = {
        "step = ¦": ["owned"],
        "was.step = ¦": ["own", "owned"],
        "user:tier in (¦": ["tin"],
        "app:theme = ¦": [],
        "user:¦": ["eva", "tier"],
        "tool:¦": [],
        "author:¦": ["billing"],
        "state.s¦": ["step"],
        "set:¦": ["step", "user:tier"],
        "tag:o¦": ["ours"],
        "app:¦": ["booking"],
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.delitem(registry.identities, fed)  # another process goes on reading it into the same index
        for actor in (SYSTEM, Actor.holding("program", "read", "booking")):
            for text, texts in asked.items():
                suggested = [each.text.strip('"') for each in complete(text[:-1], len(text) - 1, actor=actor)]
                assert suggested == texts, (text, actor)


def test_each_text_goes_on_as_the_table_says(fed: str) -> None:
    assert {text: applied(text) for text, _after in SUGGESTED} == dict(SUGGESTED)


def test_a_condition_on_an_app_goes_on_with_its_keys_operators_and_values(
    fed: str, new_store: Callable[[str], str], open_source: Callable[[str], str]
) -> None:
    other = open_source(new_store("sqlite"))
    create_session(other, "payroll", "ana", session_id="s1", state={"step": "wages", "steps": 1}, actor=ALICE)
    feed(other)

    def of_app(text: str, app: str = "booking", actor: Actor = SYSTEM) -> list[str]:
        return [text[: each.start] + each.text for each in complete(text, len(text), actor=actor, app=app)]

    assert of_app("st") == ["stage", "step"]
    assert of_app("st", "payroll") == ["step", "steps"]
    assert of_app("app:th") == ["app:theme"]
    assert of_app("not us") == ["not user:city", "not user:tier"]
    assert of_app("step ") == [f"step {sign}" for sign in OPERATORS]
    assert of_app("step = pay or cart.t") == ["step = pay or cart.total"]
    assert of_app("step = ") == ['step = "paid"', 'step = "pay"']
    assert of_app("step = ", "payroll") == ['step = "wages"']
    assert of_app("st", "payroll", Actor.holding("program", "read", "booking")) == []


def test_adkwebs_own_sessions_are_of_no_user(fed: str) -> None:
    edit_app_state(fed, "booking", [Entry("app:theme", "light", "dark")], actor=ALICE)
    feed(fed)
    assert applied("user:adk¦") == []
    create_session(fed, "booking", "adkweb", session_id="s1", actor=ALICE)
    feed(fed, walk=True)
    assert applied("user:adk¦") == ["user:adkweb"], "somebody may be called so"


def test_apps_and_users_are_known_by_a_word_of_their_name_to_those_who_may_see_them(
    fed: str, new_store: Callable[[str], str], open_source: Callable[[str], str]
) -> None:
    def known(text: str, actor: Actor = SYSTEM) -> list[tuple[str, str]]:
        return [(each.app_name, each.user_id) for each in owners(text, actor=actor)]

    assert known("book") == [("booking", "")]
    assert known("NADIA") == [("booking", "nadia"), ("booking", "Nadia Kim"), ("booking", "Ann-Nadia")]
    assert known("jose") == [("booking", "José")]
    assert known("adia") == []
    assert known("nadia", Actor.holding("program", "read", "payroll*")) == []
    other = open_source(new_store("sqlite"))
    create_session(other, "payroll", "nadia", session_id="s1", actor=ALICE)
    feed(other)
    assert {each.source for each in owners("nadia", actor=SYSTEM)} == {fed, other}
    del registry.identities[other]
    assert {each.source for each in owners("nadia", actor=SYSTEM)} == {fed}


def test_a_source_is_suggested_by_its_name(
    fed: str, new_store: Callable[[str], str], open_source: Callable[[str], str]
) -> None:
    other = open_source(new_store("sqlite"))
    create_session(other, "payroll", "ana", session_id="s1", actor=ALICE)
    feed(other)
    assert applied("source:¦") == [f"source:{each}" for each in sorted([fed, other])]
    assert applied(f"source:{other.upper()}¦") == [f"source:{other}"]
    of_booking = complete("source:", len("source:"), actor=Actor.holding("program", "read", "booking"))
    assert [each.text for each in of_booking] == [fed]


def test_whatever_is_suggested_is_well_formed_or_goes_on(fed: str) -> None:
    for text, _after in SUGGESTED:
        for query in applied(text):
            ended = query + {"(": ")"}.get("(" if "(" in query else "", "")
            alone = [problem.message for problem in query_of(ended).problems]
            assert not alone or query.endswith((":", "=", "<", ">", "(")), (query, alone)


def test_without_a_text_there_are_the_filters_and_never_too_many(fed: str) -> None:
    assert applied("¦") == [f"{name}:" for name in FILTERS][:MOST]
    assert all(len(applied(f"{name}:¦")) <= MOST for name in FILTERS)


HOSTILE: Final = [
    *("a" * 10_000, "(" * 10_000, '"' * 10_001, '"' + '\\"' * 5_000, "a in(" * 2_000, "a=" * 5_000, "user:" * 2_000),
    *("a" + " " * 10_000, "." * 10_000, "a in (" + "," * 10_000, "%" * 5_000, "\\" * 10_000, "\0\ud800" * 5_000),
]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_a_hostile_text_takes_little_time(fed: str, text: str) -> None:
    carets = (len(text), len(text) // 2, 0)
    assert takes_less(0.25, lambda: [complete(text, at, actor=SYSTEM) for at in carets])
