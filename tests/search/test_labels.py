"""Titles and tags that people give: they count at once, and survive whatever the index does. On both databases."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, Final

import pytest
from django.db import connection, connections
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings

from sessions_app.access.actor import SYSTEM, Actor
from sessions_app.checks import mask_rules
from sessions_app.domain.errors import Error, Invalid, NotAllowed, NotFound
from sessions_app.domain.session_ref import SessionRef, digest_of
from sessions_app.edits.fork import fork
from sessions_app.models import SearchSession, SessionTag, SessionTitle
from sessions_app.reads import lists
from sessions_app.reads.labels import Labels, labels_of
from sessions_app.search import labels
from sessions_app.search.completing import complete
from sessions_app.search.index import feed as feeding
from sessions_app.search.index import tables
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session, delete_session
from tests.search.finding import feed, ids, rows
from tests.support.people import ALICE, BOB

CARD: Final = "4111111111111111"
OWN: Final = pytest.mark.parametrize("own", ["sqlite", "postgresql"], indirect=True)
pytestmark = OWN


@pytest.fixture
def source(own: str, new_store: Callable[[str], str], open_source: Callable[[str], str]) -> str:
    """A source with three sessions that are indexed."""
    alias = open_source(new_store("sqlite"))
    for number in range(3):
        ref = create_session(alias, "booking", "ana", session_id=f"s{number}", actor=ALICE)
        append_event(ref, said(f"Flight {number} to Seoul"), actor=ALICE)
    feed(alias)
    return alias


def said(text: str) -> dict[str, object]:
    """Returns the event of a user who says something."""
    return {"id": text, "author": "user", "invocation_id": "i1", "content": {"role": "user", "parts": [{"text": text}]}}


def of(source: str, number: int = 0) -> SessionRef:
    """Returns the name of one of the sessions."""
    return SessionRef(source, "booking", "ana", f"s{number}")


def titles() -> list[str]:
    """Returns the titles in the table of results, sorted by them."""
    return sorted(row.title for row in rows())


# --- Titles -----------------------------------------------------------------------------------------------------------


def test_a_new_title_counts_at_once_wherever_a_session_is_named(source: str) -> None:
    assert labels.rename(of(source), "  Nadia’s\nrefund ", actor=ALICE) == ""
    assert titles() == ["Flight 1 to Seoul", "Flight 2 to Seoul", "Nadia’s refund"]
    assert ids("refund") == ids("title:nadia") == ids('"nadia s refund"') == ["s0"]
    assert ids("title:flight") == ["s1", "s2"]
    assert lists.title(of(source), actor=ALICE) == "Nadia’s refund"
    assert lists.title(of(source, 1), actor=ALICE) == "Flight 1 to Seoul"
    assert labels.rename(of(source), "Paid", actor=ALICE) == "Nadia’s refund"
    assert (ids("refund"), ids("paid")) == ([], ["s0"])


def test_a_title_that_a_framework_keeps_and_a_rule_hides_is_not_found_when_one_is_taken_away(source: str) -> None:
    mask_rules.create("*", "form", "card", actor=ALICE)
    state = {"__session_metadata__": {"displayName": f"for {CARD}"}}
    create_session(source, "booking", "ana", session_id="s9", state=state, actor=ALICE)
    feed(source)
    for title in ("Refund", ""):
        labels.rename(of(source, 9), title, actor=ALICE)
    assert (ids(f"title:{CARD}"), ids(CARD), "for ••••" in {row.title for row in rows("", ALICE)}) == ([], [], True)
    assert CARD not in SearchSession.objects.get(digest=digest_of(*of(source, 9)[1:])).title


@pytest.mark.parametrize(
    "title",
    ["x" * 187 + " 4111 1111 1111 1111", {"pin": "1234"}, [1, {"pin": "1234"}], {"a": "x" * 900, "pin": "1234"}],
)
def test_a_title_is_masked_before_it_is_cut(source: str, title: Any) -> None:
    for kind, pattern in (("form", "card"), ("key", "pin")):
        mask_rules.create("*", kind, pattern, actor=ALICE)
    state = {"__session_metadata__": {"displayName": title}}
    create_session(source, "booking", "ana", session_id="s9", state=state, actor=ALICE)
    shown = lists.title(of(source, 9), actor=BOB)
    assert ("4111" in shown, "1234" in shown) == (False, False)


def test_an_index_that_goes_on_or_is_made_anew_keeps_a_title(source: str) -> None:
    labels.rename(of(source), "Refund", actor=ALICE)
    append_event(of(source), said("Anything else?"), actor=ALICE)
    feed(source)
    assert (ids("title:refund"), ids("refund"), ids("anything")) == (["s0"], ["s0"], ["s0"])
    feeding.rebuild(source)
    assert (ids("title:refund"), ids("refund")) == (["s0"], ["s0"])
    kept = SearchSession.objects.filter(folded_id="s0").values_list("pk", flat=True)[:]
    feed(source, walk=True)
    assert list(kept) == list(SearchSession.objects.filter(folded_id="s0").values_list("pk", flat=True))


def test_without_its_title_a_session_is_called_as_before(source: str) -> None:
    labels.rename(of(source), "Refund", actor=ALICE)
    assert labels.rename(of(source), " \t ", actor=ALICE) == "Refund"
    assert titles() == ["Flight 0 to Seoul", "Flight 1 to Seoul", "Flight 2 to Seoul"]
    assert (ids("refund"), ids("title:flight")) == ([], ["s0", "s1", "s2"])
    delta = {"__session_metadata__": {"displayName": "Its own"}}
    append_event(of(source), {"id": "d", "author": "a", "actions": {"state_delta": delta}}, actor=ALICE)
    labels.rename(of(source), "Refund", actor=ALICE)
    labels.rename(of(source), "", actor=ALICE)
    assert lists.title(of(source), actor=ALICE) == "Its own"
    assert ids('title:"its own"') == ["s0"]


def test_a_session_that_is_not_indexed_yet_can_have_a_title(own: str, source: str) -> None:
    ref = create_session(source, "booking", "ana", session_id="new", actor=ALICE)
    labels.rename(ref, "Brand new", actor=ALICE)
    assert lists.title(ref, actor=ALICE) == "Brand new"
    feed(source, walk=True)
    assert ids("title:brand") == ["new"]


@pytest.mark.parametrize("moment", ["before", "while"])
def test_a_title_that_is_given_while_the_session_is_indexed_is_kept(
    own: str, source: str, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def rename() -> None:
        labels.rename(of(source), "Refund", actor=ALICE)
        connections.close_all()

    thread = threading.Thread(target=rename)
    states, insert = feeding.shared_states, tables.insert

    def before(*given: Any) -> Any:  # the session has been read, and nothing of it is stored
        if not thread.ident:
            thread.start()
            thread.join()
        return states(*given)

    def meanwhile(*given: Any) -> Any:
        if not thread.ident:
            thread.start()
            time.sleep(0.2)  # it waits for the row, or has it already
        return insert(*given)

    append_event(of(source), said("Anything else?"), actor=ALICE)
    with monkeypatch.context() as patch:
        if moment == "before":
            patch.setattr(feeding, "shared_states", before)
        else:
            patch.setattr(tables, "insert", meanwhile)
        feed(source)
    thread.join()
    assert (ids("title:refund"), ids("refund"), ids("anything")) == (["s0"], ["s0"], ["s0"])


# --- Tags -------------------------------------------------------------------------------------------------------------


def test_tags_select_at_once_and_are_one_whatever_their_capitals(source: str) -> None:
    assert labels.tag([of(source), of(source, 1), of(source)], "VIP  customer", actor=ALICE) == [
        of(source),
        of(source, 1),
    ]
    assert labels.tag([of(source, 1), of(source, 2)], "vip customer", actor=ALICE) == [of(source, 2)]
    assert ids("tag:vip") == ids('tag:"vip customer"') == ids("tag:any") == ["s0", "s1", "s2"]
    labels.tag([of(source)], "café", actor=ALICE)
    assert ids("tag:cafe -tag:none") == ["s0"]
    assert {row.ref.session_id: row.tags for row in rows()} == {
        "s0": ("café", "VIP customer"),
        "s1": ("VIP customer",),
        "s2": ("vip customer",),
    }
    assert labels.untag([of(source), of(source, 1)], "Vip Customer", actor=ALICE) == [of(source), of(source, 1)]
    assert labels.untag([of(source)], "vip customer", actor=ALICE) == []
    assert (ids('tag:"vip customer"'), ids("tag:none")) == (["s2"], ["s1"])


def test_tags_that_exist_complete_a_query_and_others_do_not(source: str) -> None:
    for number, name in enumerate(("vip", "to check", "50% off", "to call")):
        labels.tag([of(source, number % 3)], name, actor=ALICE)
    assert [each.text for each in complete("tag:", 4, actor=ALICE)] == [
        '"50% off"',
        '"to call"',
        '"to check"',
        "vip",
        "any",
        "none",
    ]
    assert [each.text for each in complete("tag:to", 6, actor=ALICE)] == ['"to call"', '"to check"']
    assert [each.text for each in complete('tag:"%', 6, actor=ALICE)] == ['"50% off"']
    labels.untag([of(source, 0)], "to call", actor=ALICE)
    assert labels.known_tags("to", 9, actor=ALICE) == ["to check"]
    other = create_session(source, "secret", "zoe", session_id="x", actor=ALICE)
    feed(source, walk=True)
    labels.tag([other], "to hide", actor=ALICE)
    assert labels.known_tags("to", 9, actor=ALICE) == ["to check", "to hide"]
    assert labels.known_tags("to", 9, actor=Actor.holding("carol", "read", "book*")) == ["to check"]


def test_thousands_of_sessions_are_tagged_with_few_statements(source: str) -> None:
    refs = [create_session(source, "booking", "bo", session_id=f"b{number}", actor=ALICE) for number in range(1200)]
    with CaptureQueriesContext(connection) as asked:
        assert len(labels.tag(refs, "many", actor=ALICE)) == 1200
    assert len(asked) < 20
    with CaptureQueriesContext(connection) as asked:
        assert len(labels.untag(refs, "many", actor=ALICE)) == 1200
    assert len(asked) < 20


# --- What is refused, and what goes with a session --------------------------------------------------------------------


def test_what_is_too_long_or_nothing_is_refused_and_changes_nothing(source: str) -> None:
    ref = of(source)
    for wrong in ("x" * 51, "", " \n ", "\0", "ﷺ" * 20):
        with pytest.raises(Invalid):
            labels.tag([ref], wrong, actor=ALICE)
    with pytest.raises(Invalid):
        labels.rename(ref, "x" * 201, actor=ALICE)
    for number in range(50):
        labels.tag([ref], f"tag {number}", actor=ALICE)
    with pytest.raises(Invalid, match="s0: a session can have up to 50 tags"):
        labels.tag([of(source, 1), ref], "one more", actor=ALICE)
    assert ids('tag:"one more"') == []
    labels.tag([ref], "tag 7", actor=ALICE)


def test_who_may_not_write_changes_nothing(source: str, settings: Settings) -> None:
    def refused(actor: Actor, error: type[Error]) -> None:
        for verb in (labels.tag, labels.untag):
            with pytest.raises(error):
                verb([of(source), of(source, 1)], "vip", actor=actor)
        with pytest.raises(error):
            labels.rename(of(source), "Refund", actor=actor)

    refused(BOB, NotAllowed)
    refused(Actor.holding("carol", "admin", "weather"), NotAllowed)
    settings.READ_ONLY = True
    refused(ALICE, NotAllowed)
    assert not SessionTag.objects.exists()
    assert not SessionTitle.objects.exists()


def test_what_is_not_there_is_left_out_or_said(source: str) -> None:
    gone = of(source)._replace(session_id="gone")
    for title in ("Refund", ""):
        with pytest.raises(NotFound):
            labels.rename(gone, title, actor=ALICE)
    with pytest.raises(NotFound):
        labels.tag([gone], "vip", actor=ALICE)
    assert labels.tag([gone, of(source)], "vip", actor=ALICE) == [of(source)]
    assert labels.tag([], "vip", actor=ALICE) == []


def test_labels_are_told_to_nobody_who_may_not_see_the_app(source: str) -> None:
    labels.rename(of(source), "Refund", actor=ALICE)
    labels.tag([of(source)], "vip", actor=ALICE)
    assert labels_of([of(source)], actor=BOB) == {of(source): Labels("Refund", ("vip",))}
    assert labels_of([of(source)], actor=Actor.holding("carol", "read", "weather")) == {}


def test_a_deleted_session_takes_its_labels_with_it_and_a_fork_does_not_inherit_them(source: str) -> None:
    ref = of(source)
    labels.rename(ref, "Refund", actor=ALICE)
    labels.tag([ref], "vip", actor=ALICE)
    into = fork(ref, "Flight 0 to Seoul", user_id="ana", session_id="forked", actor=ALICE)
    feed(source, walk=True)
    assert labels_of([ref, into], actor=SYSTEM) == {ref: Labels("Refund", ("vip",))}
    assert ids("tag:vip") == ids("title:refund") == ["s0"]
    delete_session(ref, actor=ALICE)
    create_session(source, "booking", "ana", session_id="s0", actor=ALICE)
    feed(source, walk=True)
    assert labels_of([ref], actor=SYSTEM) == {}
    assert ids("tag:any") == ids("title:refund") == []
