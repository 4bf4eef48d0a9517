"""Artifacts and their versions, against a plain walk through the session, however much of it the index has."""

from __future__ import annotations

import random
from typing import Any

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext

from sessions_app.access import shown
from sessions_app.access.actor import SYSTEM, Actor
from sessions_app.artifacts import saved
from sessions_app.domain.errors import NotFound
from sessions_app.domain.session_ref import SessionRef
from sessions_app.models import SearchSource
from sessions_app.search import outline
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session
from tests.search.finding import feed
from tests.support.masking import Hiding
from tests.support.people import ALICE
from tests.support.stored import events_of, overwrite_event

OWN = pytest.mark.parametrize("own", ["sqlite", "postgresql"], indirect=True)
FORMS = pytest.mark.parametrize("form", ["sqlite", "postgresql"])
LONG = "x" * 300
NAMES = ["plan.txt", "user:logo.png", "a/b.txt", "", "<script>", LONG, LONG + "y", "é"]


def event(number: int, **delta: Any) -> dict[str, Any]:
    return {
        "author": f"agent{number % 3}",
        "content": {"parts": [{"text": "Saved"}]},
        "timestamp": 1_000.0 + number,
        "actions": {"artifact_delta": delta},
    }


def expected(ref: SessionRef) -> dict[str, list[tuple[Any, str, int]]]:
    """By artifact, those that were saved last first, its versions, the newest first: number, author, seq."""
    saves: dict[str, list[tuple[Any, str, int]]] = {}
    for seq, stored in events_of(ref):
        for name, version in stored.get("actions", {}).get("artifact_delta", {}).items():
            saves[name] = [(version, stored["author"], seq), *saves.pop(name, [])]
    return dict(reversed(saves.items()))


def told(save: saved.Save) -> tuple[Any, str, int | None]:
    return save.version, save.author, save.seq


@OWN
@FORMS
@pytest.mark.parametrize("indexed", [0, 1, 30, 50])
def test_each_artifact_is_listed_with_its_versions_however_much_is_indexed(own: str, source: str, indexed: int) -> None:
    chance = random.Random(indexed)
    ref = create_session(source, "booking", "ana", session_id="s1", actor=ALICE)
    other = create_session(source, "booking", "ana", session_id="s2", actor=ALICE)
    for number in range(50):
        if number == indexed:
            feed(source)
        names = chance.sample(NAMES, chance.choice([0, 1, 1, 2]))
        append_event(ref, event(number, **dict.fromkeys(names, number)), actor=ALICE)
        append_event(other, event(number, other=number), actor=ALICE)
    if indexed == 50:
        feed(source)
    listing, whole = saved.listing(ref, actor=SYSTEM), expected(ref)
    assert not listing.behind
    assert not listing.older
    assert {row.name: (row.saves, told(row.last)) for row in listing.rows} == {
        name: (len(saves), saves[0]) for name, saves in whole.items()
    }
    # Of one event, the order of the names is not known.
    assert [row.last.seq for row in listing.rows] == [saves[0][2] for saves in whole.values()]
    for name in NAMES:
        assert [told(save) for save in saved.versions(ref, name, actor=SYSTEM)] == whole.get(name, [])
    assert saved.count(ref, newest=True, actor=SYSTEM) == len(whole)
    feed(source)
    assert saved.count(ref, actor=SYSTEM) == saved.count(ref, newest=True, actor=SYSTEM) == len(whole)


@FORMS
def test_pages_of_artifacts_lead_to_all_of_them(own: str, source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saved, "NAMES", 3)
    monkeypatch.setattr(saved, "LOOKED_AT", 5)
    ref = create_session(source, "booking", "ana", session_id="s1", actor=ALICE)
    for number in range(20):
        append_event(ref, event(number, **{f"f{number % 10}": number, "log": number}), actor=ALICE)
    feed(source)
    names, before, pages = set(), 0, 0
    while pages == 0 or before:
        listing = saved.listing(ref, before, actor=SYSTEM)
        assert not before or listing.older < before
        names |= {row.name for row in listing.rows}
        before, pages = listing.older, pages + 1
    assert names == {"log", *(f"f{number}" for number in range(10))}
    assert pages < 40


def test_a_page_asks_the_source_for_as_much_however_long_the_session_is(own: str, source: str) -> None:
    counts = []
    for length in (10, 300):
        ref = create_session(source, "booking", "ana", session_id=f"s{length}", actor=ALICE)
        for number in range(length):
            append_event(ref, event(number, **{f"f{number % 5}": number}), actor=ALICE)
        feed(source)
        with CaptureQueriesContext(connections[source]) as captured:
            assert len(saved.listing(ref, actor=SYSTEM).rows) == 5
            assert len(saved.versions(ref, "f1", actor=SYSTEM)) == length // 5
        counts.append(len(captured))
    assert counts[0] == counts[1] <= 6


def test_while_the_index_is_far_behind_or_of_another_version_this_is_said(
    own: str, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outline, "UNREAD", 5)
    ref = create_session(source, "booking", "ana", session_id="s1", actor=ALICE)
    for number in range(8):
        append_event(ref, event(number, plan=number), actor=ALICE)
    assert saved.listing(ref, actor=SYSTEM) == saved.Listing(behind=True)
    feed(source)
    assert [row.saves for row in saved.listing(ref, actor=SYSTEM).rows] == [8]
    SearchSource.objects.update(version=5)
    assert saved.listing(ref, actor=SYSTEM) == saved.Listing(behind=True)


@pytest.mark.parametrize("version", [True, -1, "1", None, 2**40, [1], 1.5])
def test_a_version_that_is_no_number_is_not_known(own: str, source: str, version: Any) -> None:
    ref = create_session(source, "booking", "ana", session_id="s1", actor=ALICE)
    first = append_event(ref, event(1, plan=1), actor=ALICE).event
    overwrite_event(ref, {**first, "actions": {"artifact_delta": {"plan": version}}})
    assert [row.last.version for row in saved.listing(ref, actor=SYSTEM).rows] == [None]
    feed(source)
    assert [row.last.version for row in saved.listing(ref, actor=SYSTEM).rows] == [None]


def test_what_an_actor_may_not_see_is_not_listed(own: str, source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ref = create_session(source, "booking", "ana", session_id="s1", actor=ALICE)
    append_event(ref, event(1, plan=1, secret=2), actor=ALICE)
    stranger = Actor.holding("bob", "read", "weather*")
    for asked in (saved.count, saved.listing):
        with pytest.raises(NotFound):
            asked(ref, actor=stranger)
    with pytest.raises(NotFound):
        saved.versions(ref, "plan", actor=stranger)

    def masked(values: Any) -> Any:
        actions = {"artifact_delta": {"plan": 1}} if "artifact_delta" in values.get("actions", {}) else {}
        return {**values, "actions": actions}

    monkeypatch.setattr(shown, "mask_of", lambda actor, app: Hiding(masked))
    for _ in range(2):
        assert [row.name for row in saved.listing(ref, actor=ALICE).rows] == ["plan"]
        assert saved.versions(ref, "secret", actor=ALICE) == []
        feed(source)
