"""A query that finds nothing is answered with the condition that no session matches, its key's values, and other queries."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import pytest

from sessions_app.access.actor import SYSTEM, Actor
from sessions_app.checks import mask_rules
from sessions_app.search.instead import Instead, instead
from sessions_app.search.language import parse
from sessions_app.search.tree import Query
from tests.search.finding import feed, ids
from tests.search.test_language import SEOUL
from tests.search.test_was import session
from tests.support.people import ALICE

OWN: Final = pytest.mark.parametrize("own", ["sqlite", "postgresql"], indirect=True)
pytestmark = [pytest.mark.django_db, OWN]


@pytest.fixture
def source(own: str, new_store: Callable[[str], str], open_source: Callable[[str], str]) -> str:
    """Three sessions of two users."""
    source = open_source(new_store("sqlite"))
    session(source, "a", {"step": "choose"}, {"step": "pay", "fare": 412.5}, {"step": "done"}, **{"user:tier": "gold"})
    session(source, "b", {"step": "choose"}, {"fare": 398.0, "paid": True})
    session(source, "c", ("refunder", {"step": ["a list"]}), user="omar")
    feed(source)
    return source


def offered(text: str, actor: Actor = SYSTEM) -> Instead:
    """Returns the offers for a query that finds nothing. Each query in them finds as many sessions as it says."""
    assert ids(text, actor) == []

    def read(text: str) -> Query:
        return parse(text, now=time.time(), zone=SEOUL)

    these = instead(text, read(text), parse=read, actor=actor)
    for way in [*these.without, *these.alone, *(way for each in these.unmatched for way in each.ways)]:
        assert len(ids(way.query, actor)) == way.sessions > 0, way
    return these


def ways(text: str, actor: Actor = SYSTEM) -> list[tuple[str, list[str]]]:
    """The conditions of a query that no session matches, each with what stands in its place."""
    return [(each.part, [way.part for way in each.ways]) for each in offered(text, actor).unmatched]


def test_it_says_what_the_key_held(source: str) -> None:
    (step,) = offered("was.step = failed").unmatched
    assert (step.part, step.is_held) == ("was.step = failed", True)
    assert [(way.part, way.query, way.sessions) for way in step.ways] == [
        ('"choose"', 'was.step = "choose"', 2),
        ('"done"', 'was.step = "done"', 1),
        ('"pay"', 'was.step = "pay"', 1),
    ]
    assert ways("state.step = failed") == [("state.step = failed", ['"choose"', '"done"'])]
    (step,) = offered("step = pay").unmatched
    assert step.earlier
    assert (step.earlier.query, step.earlier.sessions) == ('was.step = "pay"', 1)
    assert offered("step = failed").unmatched[0].earlier is None
    assert ways("fare > 500") == [("fare > 500", ["398", "412.5"])]
    assert ways("was.paid = false") == [("was.paid = false", ["true"])]
    assert ways('user:tier in ("tin", "lead")') == [('user:tier in ("tin", "lead")', ['"gold"'])]
    assert ways("was.step = pay user:omar") == []


def test_it_says_which_conditions_match_nothing_and_what_finds_sessions_without_them(source: str) -> None:
    these = offered("user:omar and was.step = failed")
    assert [(each.part, each.ways) for each in these.unmatched] == [("was.step = failed", [])], (
        "omar's held none of them"
    )
    assert [(way.part, way.query, way.sessions) for way in these.without] == [("was.step = failed", "user:omar", 1)]
    these = offered("author:planner step = failed (tool:x or tool:y)")
    assert [each.part for each in these.unmatched] == ["step = failed", "(tool:x or tool:y)"]
    queries = [way.query for way in these.unmatched[0].ways]
    assert queries == ['author:planner state.step = "choose"', 'author:planner state.step = "done"']
    assert [way.query for way in these.without] == ["author:planner"], "one alone would be in vain"
    these = offered("author:planner author:refunder")
    assert (these.unmatched, [way.query for way in these.without]) == ([], ["author:refunder", "author:planner"])
    these = offered("author:refunder was.step = pay paid = true")
    assert (these.unmatched, these.without) == ([], []), "without one of three, two are at odds"
    assert [way.query for way in these.alone] == ["author:refunder", "was.step = pay", "paid = true"]


def test_it_knows_names_and_keys_that_are_spelt_alike(source: str) -> None:
    assert ways("author:refnder")[0][1][0] == "author:refunder"
    assert ways("user:nadia") == [("user:nadia", ["user:ana", "user:omar"])]
    assert ways("state.stpe = done") == [("state.stpe = done", ['state.step = "done"', "state.step exists"])]
    assert ways("was.stepp = failed") == [("was.stepp = failed", ["was.step exists"])]
    assert offered("author:planer choosee").respelt == "author:planer choose"


def test_it_offers_only_what_the_person_may_see(source: str) -> None:
    stranger = Actor.holding("program", "read", "payroll*")
    assert ways("was.step = failed", stranger) == [("was.step = failed", [])]
    assert ways("user:nadia", stranger) == [("user:nadia", [])]


def test_hidden_values_stay_dots(source: str) -> None:
    mask_rules.create("*", "key", "step", actor=ALICE)
    feed(source)
    assert ways("was.step = failed") == [("was.step = failed", ['"••••"'])]
