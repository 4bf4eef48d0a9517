"""Views that people save: whose they are, who sees and changes them, and what is refused. On both databases."""

from __future__ import annotations

from typing import Any, Final

import pytest
from django.forms import model_to_dict
from pytest_django import Settings

from sessions_app.access.roles import actor_of
from sessions_app.checks import mask_rules
from sessions_app.domain.errors import AlreadyExists, Error, Invalid, NotAllowed, NotFound
from sessions_app.domain.mask_patterns import EMAIL
from sessions_app.domain.masks import FORM
from sessions_app.search.saved import views
from sessions_app.search.saved.views import SavedView
from tests.support.people import an_admin

pytestmark = pytest.mark.parametrize("own", ["sqlite", "postgresql"], indirect=True)
QUERY: Final = {"query": "app:booking error:any", "sort": "-took", "columns": "user,took"}


def person(name: str) -> Any:
    """Returns somebody's account."""
    return an_admin(name)


def saved(name: str = "Failed bookings", by: str = "maria", **fields: Any) -> SavedView:
    """Saves a view."""
    return views.save(person(by), **{"name": name, "shared": False, **QUERY, **fields})


def names(of: str) -> list[str]:
    """Returns the names of the views that somebody sees."""
    return [view.name for view in SavedView.objects.listed(person(of))]


def test_a_view_is_its_persons_own_until_it_is_shared(own: str) -> None:
    mine = saved("  Failed \n bookings ")
    assert (mine.name, mine.query, mine.owner, mine.own) == ("Failed bookings", QUERY["query"], "maria", True)
    assert (names("maria"), names("bob")) == (["Failed bookings"], [])
    with pytest.raises(NotFound):
        SavedView.objects.of(mine.id, person("bob"))
    SavedView.objects.of(mine.id, person("maria")).change(by=person("maria"), name="Failed", shared=True)
    assert names("bob") == ["Failed"]
    assert not SavedView.objects.of(str(mine.id), person("bob")).own
    for change in (
        lambda: SavedView.objects.of(mine.id, person("bob")).change(by=person("bob"), name="Bob’s"),
        lambda: SavedView.objects.of(mine.id, person("bob")).remove(by=person("bob")),
    ):
        with pytest.raises(NotAllowed):
            change()
    assert names("maria") == ["Failed"]


def test_a_query_with_signs_that_no_database_holds_is_saved_as_it_is_read(own: str) -> None:
    assert saved(query="late\0 fare").query == "late\ufffd fare"


def test_a_name_is_given_once_by_each_person(own: str) -> None:
    saved("Café")
    with pytest.raises(AlreadyExists, match="You already have a view called “cafe”"):
        saved("cafe")
    saved("Café", by="bob", shared=True)
    assert names("maria") == ["Café", "Café"]
    other = saved("Other")
    with pytest.raises(AlreadyExists):
        SavedView.objects.of(other.id, person("maria")).change(by=person("maria"), name="CAFÉ")


def test_a_view_is_changed_and_deleted_and_comes_back_with_its_id(own: str) -> None:
    view = saved()
    gone = view.change(by=person("maria"), query="late", sort="", columns="")
    assert gone.query == "late"
    gone.remove(by=person("maria"))
    with pytest.raises(NotFound):
        SavedView.objects.of(view.id, person("maria"))
    fields = {"name": gone.name, "query": gone.query, "sort": gone.sort, "columns": gone.columns, "shared": gone.shared}
    again = views.save(person("maria"), gone.id, **fields)
    assert model_to_dict(again, [*fields, "id", "person"]) == model_to_dict(gone, [*fields, "id", "person"])
    assert views.save(person("bob"), gone.id, **fields).id != gone.id, "what is there is not replaced"


def test_a_shared_view_whose_account_is_gone_can_be_changed_by_anybody(own: str) -> None:
    view = saved(shared=True)
    person("maria").delete()
    view = SavedView.objects.of(view.id, person("bob"))
    assert (view.owner, view.own) == ("", True)
    view.remove(by=person("bob"))


def test_a_view_whose_account_is_gone_belongs_to_who_shares_it_no_more(own: str) -> None:
    view = saved(shared=True)
    person("maria").delete()
    view.change(by=person("bob"), shared=False)
    assert SavedView.objects.of(view.id, person("bob")).owner == "bob"


def test_what_rules_hide_of_a_view_stays_as_it_is_stored(own: str) -> None:
    view = saved("For maria@example.com", shared=True)
    person("maria").delete()
    mask_rules.create("*", FORM, EMAIL, actor=actor_of(person("bob")))
    seen = SavedView.objects.of(view.id, person("bob"))
    assert "maria@" not in seen.name
    seen.change(by=person("bob"), name=seen.name, shared=True)
    assert SavedView.objects.get().name == "For maria@example.com"


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"name": " "}, Invalid),
        ({"name": "x" * 61}, Invalid),
        ({"query": "usr:nadia"}, Invalid),
        ({"query": "x" * 10_001}, Invalid),
        ({"columns": "x" * 10_001}, Invalid),
        ({"sort": "x" * 41}, Invalid),
        ({"sort": "\0"}, Invalid),
    ],
)
def test_what_cannot_be_a_view_is_refused(own: str, fields: dict[str, str], error: type[Error]) -> None:
    with pytest.raises(error):
        saved(**fields)
    assert names("maria") == []


def test_nobody_saves_more_than_a_person_can_look_at_or_where_nothing_is_written(own: str, settings: Settings) -> None:
    for number in range(views.MOST):
        saved(f"View {number}")
    with pytest.raises(Invalid, match="up to 50 views"):
        saved("One more")
    settings.READ_ONLY = True
    with pytest.raises(NotAllowed):
        saved(by="bob")


@pytest.mark.parametrize("wrong", ["", "x", "3f0c8f52-94d3-4a0e-9c39-0d2f6f6d7b11", "\0", "1" * 5000])
def test_a_link_to_nothing_leads_nowhere(own: str, wrong: str) -> None:
    with pytest.raises(NotFound):
        SavedView.objects.of(wrong, person("maria"))
