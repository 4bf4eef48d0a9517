"""A session's title and tags on its page: shown, changed, and changed back."""

from __future__ import annotations

import pytest
from django.urls import reverse

from sessions_app.access.actor import SYSTEM
from sessions_app.domain.session_ref import SessionRef
from sessions_app.reads.labels import Labels, labels_of
from sessions_app.search import labels
from tests.web.conftest import Browser
from tests.web.html import Element, page_of

pytestmark = pytest.mark.django_db


def given(ref: SessionRef) -> Labels:
    """Returns the labels of a session."""
    return labels_of([ref], actor=SYSTEM).get(ref, Labels())


def undo(maria: Browser, toast: Element) -> None:
    """Presses the button in a toast."""
    form = toast.one("form")
    maria.send(form["action"], {**form.fields(), "undo": "1"})


def test_a_title_is_changed_and_changed_back(ref: SessionRef, maria: Browser) -> None:
    assert maria.open("session", **ref._asdict()).one("h1").text == "s1"
    answer = page_of(maria.send("session-title", {"title": "Refund of Nadia"}, htmx=True, **ref._asdict()))
    assert answer.one("h1").text == "Refund of Nadia"
    assert answer.one(id="crumbs").one("li", aria_current="page").text == "Refund of Nadia"
    page = maria.open("session", **ref._asdict())
    assert (page.one("h1").text, page.one(id="new-title")["value"]) == ("Refund of Nadia", "Refund of Nadia")
    assert "s1" in page.one("div", "sub").text
    assert "Refund of Nadia" in maria.open("session-edit", **ref._asdict()).one("nav", "crumbs").text
    undo(maria, answer.one("div", "toast"))
    assert given(ref).title == ""
    assert maria.open("session", **ref._asdict()).all("div", "toast") == []


def test_tags_are_links_that_are_added_and_removed_and_brought_back(ref: SessionRef, maria: Browser) -> None:
    labels.tag([ref], "to check", actor=SYSTEM)
    for tag in ("vip", 'a "quoted" one'):
        maria.send("session-tags", {"tag": tag}, htmx=True, **ref._asdict())
    page = maria.open("session", **ref._asdict())
    links = {link.text: link["href"] for link in page.one(id="tags").all("a")}
    assert list(links) == ['a "quoted" one', "to check", "vip"]
    assert maria.open(links['a "quoted" one']).one(id="query")["value"] == 'tag:"a \\"quoted\\" one"'
    answer = page_of(maria.send("session-tags", {"untag": "vip"}, htmx=True, **ref._asdict()))
    assert given(ref).tags == ('a "quoted" one', "to check")
    assert [option["value"] for option in answer.one("datalist").all("option")] == []
    undo(maria, answer.one("div", "toast"))
    assert "vip" in given(ref).tags


def test_what_is_refused_is_said_in_the_form_and_kept_there(ref: SessionRef, maria: Browser) -> None:
    response = maria.send("session-tags", {"tag": "x" * 51}, htmx=True, **ref._asdict())
    assert response.status_code == 400
    form = page_of(response).one("form", "labelform")
    assert form.one("span", "error").text == "A tag can have up to 50 characters."
    assert form.one(id="new-tag")["value"] == "x" * 51
    response = maria.send("session-title", {"title": "x" * 201}, htmx=True, **ref._asdict())
    assert page_of(response).one("span", "error").text == "A title can have up to 200 characters."
    maria.send("session-title", {"title": "x" * 201}, **ref._asdict())
    page = maria.open("session", **ref._asdict())
    assert "A title can have up to 200 characters." in page.one("div", "toasts").text
    assert given(ref) == Labels()


def test_without_scripts_the_page_of_the_session_answers(ref: SessionRef, maria: Browser) -> None:
    for name, data in (("session-title", {"title": "Refund"}), ("session-tags", {"tag": "vip"})):
        response = maria.send(name, data, **ref._asdict())
        assert (response.status_code, response["Location"]) == (302, reverse("session", kwargs=ref._asdict()))
    assert given(ref) == Labels("Refund", ("vip",))


def test_read_only_shows_labels_and_changes_none(
    ref: SessionRef, maria: Browser, request: pytest.FixtureRequest
) -> None:
    labels.tag([ref], "vip", actor=SYSTEM)
    request.getfixturevalue("read_only")
    page = maria.open("session", **ref._asdict())
    assert page.one(id="tags").text == "vip"
    assert page.one(id="tags").all("form") == page.one(id="called").all("form") == []
    assert maria.send("session-tags", {"untag": "vip"}, htmx=True, **ref._asdict()).status_code == 403
    assert given(ref).tags == ("vip",)


def test_the_preview_shows_tags(ref: SessionRef, maria: Browser) -> None:
    labels.tag([ref], "vip", actor=SYSTEM)
    pane = maria.open("preview", htmx=True, **ref._asdict())
    assert pane.one("ul", "tags").one("a")["href"].endswith("?q=tag%3A%22vip%22")
