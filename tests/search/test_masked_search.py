"""Nobody learns a masked value by any sequence of calls: two worlds that differ in it alone answer the same."""

from __future__ import annotations

import re
from collections.abc import Callable
from difflib import unified_diff
from typing import Any, Final
from uuid import UUID

import pytest
import time_machine
from django.urls import reverse
from hypothesis import given, settings
from hypothesis import strategies as st

from sessions_app.access import masking, tokens
from sessions_app.access.actor import SYSTEM
from sessions_app.access.masking import MaskRule
from sessions_app.checks import mask_rules
from sessions_app.domain.session_ref import SessionRef
from sessions_app.search.completing import complete
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session
from tests.api.program import Program
from tests.search.finding import feed, ids
from tests.support.people import ALICE, as_admin, somebody
from tests.web.conftest import Browser
from tests.web.test_two_worlds import ASKED, NOW, ONCE, OPERATIONS, content_of, pages

pytestmark = pytest.mark.django_db

SECRETS: Final = ("tulip-77", "orchid-garden-4321")
CARDS: Final = ("4111111111111111", "5500005555555559")
DIGEST: Final = re.compile(r'"[0-9a-f]{16}"')  # of the list of sources
OF_AN_APP: Final = sorted(path for path in OPERATIONS if "{app_name}" in path)
GUESSES: Final = (*SECRETS, *CARDS, "tulip", "tul*", "orchid", "4111*", "5500", "••••", "hello", "")
OTHERS: Final = (
    "state.coupon exists",
    "user:coupon = tulip-77",
    "state.coupon > p",
    "not tulip-77",
    "-orchid",
    "kind:call",
)
WORDS: Final = st.one_of(
    st.sampled_from(GUESSES),
    st.sampled_from(("state.coupon", "user:coupon", "title", "tool", "error", "args")).flatmap(
        lambda field: st.sampled_from(GUESSES).map(lambda guess: f"{field}:{guess}")
    ),
    st.sampled_from(OTHERS),
)
QUERY: Final = st.fixed_dictionaries(
    {},
    optional={
        "q": WORDS,
        "at": st.sampled_from(("3", "9", "e1", "e2")),
        "key": st.sampled_from(("coupon", "user:coupon", "step")),
        "a": st.just("e1"),
        "b": st.sampled_from(("e2", "now")),
        "sort": st.sampled_from(("last", "title", "state.coupon", "events")),
        "columns": st.just("state.coupon"),
        "format": st.sampled_from(("jsonl", "html", "eval")),
        "limit": st.just("1"),
    },
)
WHAT: Final = st.one_of(st.sampled_from(ASKED), st.sampled_from(OF_AN_APP))
CALLS: Final = st.lists(st.tuples(WHAT, QUERY), min_size=1, max_size=5)


@pytest.fixture
def form() -> str:
    """One format is enough: it is the index and the doors that are asked."""
    return "sqlite"


@pytest.fixture
def worlds(db: None, new_store: Callable[..., str], open_source: Callable[[str], str]) -> list[SessionRef]:
    """Two sources with the same sessions, but for what rules hide."""
    mask_rules.create("*", "key", "coupon", actor=ALICE)
    mask_rules.create("*", "form", "card", actor=ALICE)
    refs = []
    for name, secret, number in zip("ab", SECRETS, CARDS, strict=True):
        with time_machine.travel(NOW - 1000, tick=False):
            source = open_source(new_store("sqlite", f"world{name}"))
            state = {"coupon": secret, "user:coupon": [secret], "step": "pay"}
            ref = create_session(source, "booking", "ana", session_id="s1", state=state, actor=ALICE)
            call = {"function_call": {"id": "c", "name": "buy", "args": {"coupon": secret, "card": number}}}
            said = {"content": {"role": "user", "parts": [{"text": f"hello, {number}"}, call]}}
            delta = {"state_delta": {"coupon": f"{secret}!", "__session_metadata__": {"displayName": f"by {number}"}}}
            append_event(
                ref, {"id": "e1", "invocation_id": "i1", "author": "user", "timestamp": NOW - 500, **said}, actor=ALICE
            )
            late = {"id": "e2", "invocation_id": "i1", "author": "agent", "timestamp": NOW - 400, "actions": delta}
            append_event(ref, {**late, "error_code": "X", "error_message": f"{number} declined"}, actor=ALICE)
            feed(source)
        refs.append(ref)
    return refs


def answer(ref: SessionRef, browser: Browser, program: Program, what: str, query: dict[str, str]) -> Any:
    """What a viewer of one source gets, without what is new in every answer, and without the name of the source."""
    somebody("bob", "viewer", sources=ref.source)
    with time_machine.travel(NOW, tick=False):
        if what.startswith("/"):
            known = {key: value for key, value in query.items() if f"{{{key}}}" not in what}
            address = what.format(**ref._asdict(), event_id="e1", proposal_id=UUID(int=0), run_id=UUID(int=0), file=0)
            got = program.ask("GET", address, **known, **({} if "{source}" in what else {"source": ref.source}))
            status, text = got.status, got.content.decode()
        else:
            pattern = pages()[what].pattern
            response = browser.get(
                reverse(what, kwargs={each: ref._asdict()[each] for each in pattern.converters}), query
            )
            status, text = response.status_code, content_of(response).decode() + response.headers.get("Location", "")
    return status, DIGEST.sub("", ONCE.sub("", text)).replace(ref.source, "world")


@pytest.fixture
def program(db: None) -> Program:
    """A program that may read."""
    return Program(tokens.create("bob", "read", "*", by=as_admin("maria"))[1])


@settings(max_examples=40)
@given(calls=CALLS)
def test_no_sequence_of_calls_tells_a_masked_value(worlds: list[SessionRef], program: Program, calls: Any) -> None:
    browser = Browser()
    browser.force_login(somebody("bob"))
    for what, query in calls:
        (status, one), (other_status, other) = (answer(ref, browser, program, what, query) for ref in worlds)
        assert status == other_status, (what, query)
        differences = [*unified_diff(one.splitlines(), other.splitlines(), n=0)]
        assert not differences, (what, query, differences[:9])
        for secret in (*SECRETS, *CARDS):
            assert secret in str(query) or secret not in one


@pytest.mark.guarantee(
    "Live pages",
    "If the search index is older than a masking rule, searches return nothing until the index has been rebuilt.",
)
def test_an_index_that_was_read_before_a_rule_answers_nothing_until_it_is_read_again(ref: SessionRef) -> None:
    create_session(*ref[:3], session_id="s2", state={"coupon": SECRETS[0]}, actor=ALICE)
    feeder = feed(ref.source)
    query, version = f"state.coupon = {SECRETS[0]}", feeder.version()

    def offered() -> list[str]:
        return [each.text for each in complete("state.coupon = ", 15, actor=SYSTEM)]

    assert (ids(query), offered()) == (["s2"], [f'"{SECRETS[0]}"'])
    # A process makes a rule, and dies before it has emptied the index.
    MaskRule.objects.create(apps="*", kind="key", pattern="coupon", created=0.0)
    masking.forget()
    assert (ids(query), offered()) == ([], [])
    assert feeder.version() != version, "it is not read again before something is written"
    feed(ref.source)
    assert (ids(query), ids("state.coupon exists"), offered()) == ([], ["s2"], ['"••••"'])
