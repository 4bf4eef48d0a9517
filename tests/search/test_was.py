"""What keys were, which events wrote them and who did: `was.`, `set:` and `changed:`, on both databases."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions_app.access.actor import SYSTEM, Actor
from sessions_app.checks import mask_rules
from sessions_app.domain.session_ref import SessionRef
from sessions_app.domain.state import ABSENT
from sessions_app.edits.edit import Entry, edit_state
from sessions_app.models import SearchWrite
from sessions_app.search.completing import complete
from sessions_app.search.index import read
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session, delete_session
from tests.search.finding import feed, ids, rows
from tests.support.people import ALICE
from tests.support.stored import events_of

OWN: Final = pytest.mark.parametrize("own", ["sqlite", "postgresql"], indirect=True)
pytestmark = [pytest.mark.django_db, OWN]


@pytest.fixture
def source(own: str, new_store: Callable[[str], str], open_source: Callable[[str], str]) -> str:
    """An empty source."""
    return open_source(new_store("sqlite"))


def session(source: str, name: str, *deltas: Any, user: str = "ana", **state: Any) -> SessionRef:
    """Makes a session that begins with a state; then agents write: a delta, or an author and a delta."""
    ref = create_session(source, "booking", user, session_id=name, state=state, actor=ALICE)
    for each in deltas:
        author, delta = each if isinstance(each, tuple) else ("planner", each)
        append_event(ref, {"author": author, "actions": {"state_delta": delta}}, actor=ALICE)
    return ref


def test_a_session_is_found_by_what_a_key_was(source: str) -> None:
    session(source, "a", {"step": "failed", "cart": {"total": 900}}, {"step": "done", "cart": {"total": 5}})
    session(source, "b", {"step": "done", "n": 1}, {"n": None})
    session(source, "c", step="failed")
    session(source, "d", {"step": "done"}, step="failed")
    feed(source)
    assert (ids("step = failed"), ids("was.step = failed")) == (["c"], ["a", "c", "d"])
    assert ids('was.step in ("failed", "lost")') == ["a", "c", "d"]
    assert ids("was.step exists") == ["a", "b", "c", "d"]
    assert ids("was.step != failed") == ["a", "b", "d"]
    assert ids("-was.step = failed") == ["b"]
    assert (ids("was.cart.total > 100"), ids("was.cart.total <= 5"), ids("cart.total > 100")) == (["a"], ["a"], [])
    assert (ids("was.n = 1"), ids("was.n = null")) == (["b"], ["b"])
    assert ids("was.step < e") == ["a", "b", "d"], "texts compare as the current ones do"
    assert ids("was.nothing exists") == []


def test_a_shared_key_leads_to_the_session_whose_event_wrote_it(source: str) -> None:
    session(source, "a", {"user:tier": "gold", "app:price": 5})
    session(source, "b", {"user:tier": "silver"})
    feed(source)
    assert (ids("user:tier = silver"), ids("user:tier = gold")) == (["a", "b"], [])
    assert (ids("was.user:tier = gold"), ids("was.user:tier = silver")) == (["a"], ["b"])
    assert (ids("set:app:price"), ids("was.app:price < 6"), ids("was.price exists")) == (["a"], ["a"], [])


def test_a_session_is_found_by_who_wrote_and_who_changed_a_key(source: str) -> None:
    session(source, "again", {"step": "pay"}, ("refund_agent", {"step": "pay"}))
    session(source, "began", {"step": "pay"}, step="pay")
    edited = session(source, "edited", {"step": "pay"})
    edit_state(edited, [Entry("step", "done", "pay")], actor=Actor.holding("Maria", "append"))
    session(source, "lists", {"step": ["a", {"n": 1}]}, ("refund_agent", {"step": ["a", {"n": 2}]}))
    session(source, "none", {"other": 1}, step="pay")
    feed(source)
    assert ids("set:step") == ["again", "began", "edited", "lists"]
    assert ids("changed:step") == ["again", "edited", "lists"]
    assert ids('set:"step by refund"') == ["again", "lists"]
    assert ids('changed:"step by refund"') == ["lists"], "in the other session, it wrote the value that was there"
    assert ids('changed:"step by maria"') == ids('set:"state.step BY Mar"') == ["edited"]
    assert ids('set:"step by aria"') == ids('set:"ste by maria"') == ids('set:"step by system"') == []
    assert ids('-changed:"step by planner"') == ["began", "none"]


def test_what_an_edit_removes_was_there_and_is_changed(source: str) -> None:
    ref = session(source, "a", {"coupon": "X", "odd key": {"deep": True}})
    edit_state(ref, [Entry("coupon", ABSENT, "X")], actor=Actor.holding("maria", "append"))
    feed(source)
    assert (ids("coupon exists"), ids("was.coupon = X"), ids('changed:"coupon by maria"')) == ([], ["a"], ["a"])
    assert (ids("was.coupon = null"), ids("was.coupon != X")) == ([], [])
    assert ids('was."odd key".deep = true') == ids('set:"odd key"') == ids(r'set:"\"odd key\".deep"') == ["a"]


@given(
    deltas=st.lists(
        st.dictionaries(st.sampled_from(["a", "b"]), st.sampled_from([1, 1.0, "x", None, [], [1]]), max_size=2),
        max_size=6,
    ),
    began=st.dictionaries(st.sampled_from(["a", "b"]), st.sampled_from([1, "x"]), max_size=2),
    at=st.integers(0, 6),
)
def test_it_does_not_matter_when_events_are_read(
    source: str, deltas: list[dict[str, Any]], began: dict[str, Any], at: int
) -> None:
    """As many rows are kept if the session is read in parts."""

    def kept() -> list[tuple[Any, ...]]:
        columns = ("name_id", "changed", "kind", "text")
        return list(SearchWrite.objects.order_by("name_id", "seq").values_list(*columns))

    one = session(source, "one", *deltas, **began)
    feed(source)
    whole = kept()
    delete_session(one, actor=ALICE)
    feed(source, walk=True)
    assert not SearchWrite.objects.exists()
    other = session(source, "one", *deltas[:at], **began)
    feeder = feed(source)
    for delta in deltas[at:]:
        append_event(other, {"author": "planner", "actions": {"state_delta": delta}}, actor=ALICE)
        feed(source, feeder)
    assert kept() == whole
    delete_session(other, actor=ALICE)
    feed(source, walk=True)


def test_a_long_session_is_kept_in_parts(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read, "MOST", 2)
    session(source, "a", *({"n": number, "same": 1} for number in range(9)))
    feed(source)
    assert SearchWrite.objects.count() == 10
    assert all(ids(f"was.n = {number}") == ["a"] for number in range(9))


@pytest.mark.guarantee(
    "Safety",
    "No one can search for a current or earlier value that a masking rule hides from them.",
)
def test_what_a_rule_hides_was_dots(source: str) -> None:
    session(source, "a", {"coupon": "TULIP"}, {"coupon": "ROSE"}, user="eva")
    feed(source)
    assert ids("was.coupon = TULIP") == ["a"]
    mask_rules.create("*", "key", "coupon", actor=ALICE)
    assert not SearchWrite.objects.exists()
    feed(source)
    assert (ids("was.coupon = TULIP"), ids("was.coupon > A"), ids("was.coupon = ••••")) == ([], ["a"], ["a"])
    assert ids("set:coupon") == ["a"]
    assert list(SearchWrite.objects.values_list("text", flat=True)) == ["••••"], "two hidden values look alike"
    assert [each.text for each in complete("was.coupon = ", 13, actor=SYSTEM)] == ['"••••"']


def test_only_apps_that_the_actor_may_see_are_asked(source: str) -> None:
    session(source, "a", {"step": "failed"})
    feed(source)
    of_another = Actor.holding("program", "read", "payroll")
    for text in ("was.step = failed", "set:step", 'changed:"step by planner"'):
        assert (ids(text), ids(text, of_another)) == (["a"], [])
    for text in ("was.st", "was.step = ", "set:st"):
        assert complete(text, len(text), actor=SYSTEM)
        assert not complete(text, len(text), actor=of_another)


def test_a_row_has_the_value_that_matched_and_the_events_that_wrote_it(source: str) -> None:
    deltas = [{"cart": {"total": 900}}, {"user:tier": "gold"}, {"cart": {"total": 5}}, {"cart": {"total": 901}}]
    ref = session(source, "a", *deltas)
    edit_state(ref, [Entry("cart", ABSENT, {"total": 901})], actor=Actor.holding("maria", "append"))
    feed(source)
    seqs = [seq for seq, *_rest in events_of(ref)]

    def matched(text: str) -> tuple[str, list[int]]:
        (row,) = rows(text)
        line = row.match
        return f"{line.before}[{line.text}]" if line else "", [seqs.index(seq) for seq in row.matched]

    assert matched("was.cart.total > 100") == ("cart.total [901]", [0, 3])
    assert matched("was.cart.total > 100 set:user:tier") == ("cart.total [901]", [0, 1, 3])
    assert matched("user:tier = gold") == matched("set:user:tier") == ("user:tier [gold]", [1])
    assert matched('changed:"cart by maria"') == ("[cart]", [4])
    assert matched("set:cart") == ("[cart]", [2, 3, 4]), "only the newest ones"
    assert matched("gold was.cart.total = 5") == ("user:tier [gold]", [1, 2]), "words come first"
    assert matched("-was.cart.total = 6") == ("", [])
