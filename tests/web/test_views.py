"""Saved views on the page “Sessions”: tabs, addresses that hold the query, and what becomes of an edited one."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.contrib.auth.models import User
from django.forms import model_to_dict
from django.urls import reverse

from sessions_app.domain.clock import Took
from sessions_app.domain.session_ref import SessionRef, digest_of
from sessions_app.models import SearchSession
from sessions_app.search.results import Results, Row
from sessions_app.search.saved import views, watching
from sessions_app.search.saved.views import SavedView, ViewWatch
from sessions_app.sources import registry
from sessions_app.web.search import results
from tests.support.people import an_admin
from tests.web.conftest import Browser
from tests.web.html import Element

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("store")]
SEARCH = "/sessions/"


@pytest.fixture
def view(person: User) -> SavedView:
    """A view of Maria's."""
    return views.save(
        person, name="Failed bookings", query="error:any", sort="-took", columns="user,took", shared=False
    )


def asked_of(address: str) -> dict[str, str]:
    """Returns what an address asks for, with what is empty."""
    return {name: values[0] for name, values in parse_qs(urlsplit(address).query, keep_blank_values=True).items()}


def vars_of(view: SavedView) -> dict[str, Any]:
    """Returns the fields of a view, but for when it was made."""
    return model_to_dict(view, exclude=["created"]) | {"id": view.id}


def current(page: Element) -> list[str]:
    """Returns the words of the tab that is chosen."""
    return [link.text for link in page.one("nav", "views").all("a", "chip") if link.attributes.get("aria-current")]


def send(maria: Browser, form: Element, **fields: Any) -> Any:
    """Sends a form."""
    return maria.send(form["action"], {**form.fields(), **fields})


def test_what_is_asked_for_is_saved_by_a_name_and_is_a_tab(maria: Browser) -> None:
    page = maria.open(SEARCH, query={"q": "error:any", "sort": "-took", "cols": "user,took"})
    form = next(form for form in page.all("form", "viewform") if form["action"] == reverse("save-view"))
    response = send(maria, form, name="Failed bookings")
    page = maria.open(response["Location"])
    assert current(page) == ["Failed bookings"]
    assert "saved" in page.one("div", "toasts").text
    assert page.one(id="query")["value"] == "error:any"
    assert current(maria.open(SEARCH)) == ["All"]


def test_a_link_to_a_view_is_that_view_and_an_edited_one_holds_the_query(view: SavedView, maria: Browser) -> None:
    page = maria.open(SEARCH, query={"view": view.id})
    assert (page.one(id="query")["value"], page.all("form", "changed")) == ("error:any", [])
    bar = page.one("form", "querybar")
    hidden = {each["name"]: each["value"] for each in page.all("input", form="querybar")}
    assert hidden == {"sort": "-took", "cols": "user,took", "view": str(view.id)}
    edited = maria.open(bar["action"], query={**hidden, "q": "error:timeout"})
    assert current(edited) == ["Failed bookings"]
    assert edited.one("form", "changed").links() == {"Discard": f"{SEARCH}?view={view.id}"}
    failed = next(link for link in edited.one("nav", "statuses").all("a") if link.text == "Failed")
    assert asked_of(failed["href"]) == {
        "q": "error:timeout status:failed",
        "sort": "-took",
        "cols": "user,took",
        "view": str(view.id),
    }
    emptied = maria.open(SEARCH, query={"view": view.id, "q": "", "sort": "-took", "cols": "user,took"})
    assert emptied.one(id="query")["value"] == ""
    waiting = next(link for link in emptied.one("nav", "statuses").all("a") if link.text == "Any status")
    assert asked_of(waiting["href"])["q"] == ""


def test_changes_are_saved_into_the_view(view: SavedView, maria: Browser, person: User) -> None:
    page = maria.open(SEARCH, query={"view": view.id, "q": "error:timeout", "sort": "", "cols": ""})
    response = send(maria, page.one("form", "changed"))
    assert response["Location"] == f"{SEARCH}?view={view.id}"
    now = SavedView.objects.of(view.id, person)
    assert (now.query, now.sort, now.columns, now.name) == ("error:timeout", "-started", "", "Failed bookings")
    page = maria.open(response["Location"])
    assert page.all("form", "changed") == []
    form = page.one("div", "viewform").all("form")[0]
    send(maria, form, name="Timeouts", shared="1")
    now = SavedView.objects.of(view.id, person)
    assert (now.query, now.name, now.shared) == ("error:timeout", "Timeouts", True)


def test_a_deleted_view_is_brought_back_from_its_toast(view: SavedView, maria: Browser, person: User) -> None:
    response = maria.send("delete-view", {}, view_id=view.id)
    page = maria.open(response["Location"])
    assert [link.text for link in page.one("nav", "views").all("a", "chip")] == ["All"]
    send(maria, page.one("div", "toast").one("form"))
    assert vars_of(SavedView.objects.of(view.id, person)) == vars_of(view)


def test_another_persons_shared_view_can_be_used_and_not_changed(maria: Browser, db: None) -> None:
    bob = an_admin("bob")
    fields = {"query": "error:any", "sort": "-started", "columns": ""}
    shared = views.save(bob, name="Bob’s", shared=True, **fields)
    alone = views.save(bob, name="Bob’s own", shared=False, **fields)
    page = maria.open(SEARCH, query={"view": shared.id, "q": "late"})
    assert page.all("form", "changed") == page.one("nav", "views").all("div", "viewform") == []
    assert [link.text for link in page.one("nav", "views").all("a", "chip")] == ["All", "Bob’s"]
    assert maria.send("change-view", {"name": "Mine"}, view_id=shared.id).status_code == 403
    maria.open(SEARCH, query={"view": alone.id}, status=404)
    assert maria.send("delete-view", {}, view_id=alone.id).status_code == 404


def test_what_is_refused_is_said_beside_the_query(view: SavedView, maria: Browser) -> None:
    response = maria.send("save-view", {"name": "failed BOOKINGS", "q": "late", "sort": "-took", "cols": "user"})
    assert asked_of(response["Location"]) == {"q": "late", "sort": "-took", "cols": "user"}
    assert (
        "You already have a view called “failed BOOKINGS”."
        in maria.open(response["Location"]).one("div", "toasts").text
    )
    assert maria.send("save-view", {"name": "x", "id": "nonsense"}).status_code == 302


@pytest.mark.usefixtures("read_only")
def test_read_only_offers_no_forms(maria: Browser) -> None:
    assert maria.open(SEARCH, query={"q": "late"}).one("nav", "views").all("form") == []
    assert maria.send("save-view", {"name": "x"}).status_code == 403


@pytest.mark.parametrize("text", ["<script>alert(1)</script>", "שלום \u202e abc", "{{ 7 }} {% x %}", "' onx=\"y"])
def test_a_hostile_name_is_a_text(text: str, maria: Browser, person: User) -> None:
    view = views.save(person, name=text, query="", sort="", columns="", shared=True)
    page = maria.open(SEARCH, query={"view": view.id})
    assert current(page) == [" ".join(text.split())]
    assert maria.open(maria.send("delete-view", {}, view_id=view.id)["Location"]).one("div", "toast")


# --- Watching ---------------------------------------------------------------------------------------------------------


def begin(view: SavedView, ref: SessionRef) -> None:
    """Lets a session begin to match a view, as the feeder notices it."""
    watch = ViewWatch.objects.get(view_id=view.id)
    session = SearchSession(pk=1, digest=digest_of(*ref[1:]), names=json.dumps(ref[1:]))
    watching.note([watch], [session], registry.identity(ref.source))


def test_news_are_counted_on_every_page_until_the_view_is_looked_at(
    view: SavedView, ref: SessionRef, maria: Browser
) -> None:
    page = maria.open(SEARCH, query={"view": view.id})
    form = next(form for form in page.all("form") if "data-watch" in form)
    page = maria.open(maria.send(form["action"], {**form.fields(), "on": "1"})["Location"])
    assert "Watching" in page.one("nav", "views").text
    assert "data-watching" in page.one("body")
    begin(view, ref)
    page = maria.open("edits")
    assert page.one("title").text == "(1) Edits · adkweb"
    assert [each.text for each in page.all("span", "news") if "hidden" not in each] == ["1", "1"]
    maria.open(SEARCH, query={"view": view.id, "q": "something else"})
    assert maria.open("edits").one("title").text.startswith("(1)"), "that was not the view"
    maria.open(SEARCH, query={"view": view.id})
    page = maria.open("edits")
    assert page.one("title").text == "Edits · adkweb"
    assert all("hidden" in each for each in page.all("span", "news"))
    maria.send("watch-view", {}, view_id=view.id)
    assert all("hidden" in each for each in maria.open("edits").all("span", "news"))  # the inbox's


def test_what_is_new_is_marked_in_the_table_once(
    view: SavedView, ref: SessionRef, maria: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = Row(1.0, 2.0, Took(0.0), 1, 1, 0, ref, "Title", "idle", "", None)
    monkeypatch.setattr(results, "search", lambda query, **given: Results([row], None, 1, False, 1.0, [], []))
    view.watch(User.objects.get(), "UTC")
    begin(view, ref)
    assert maria.open(SEARCH, query={"view": view.id}).one("td", "main").one("span", "news").text == "new"
    assert maria.open(SEARCH, query={"view": view.id}).one("td", "main").all("span", "news") == []
