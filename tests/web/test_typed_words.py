"""What people type is hidden like values: titles, tags, views, reasons and rules, wherever others are shown them.

test_hidden.py asks every door."""

from __future__ import annotations

import json
from typing import Final

import pytest

from sessions_app.checks import mask_rules, rules
from sessions_app.domain.errors import Invalid, NotAllowed, NotFound
from sessions_app.domain.session_ref import SessionRef
from sessions_app.models import SessionTag, SessionTitle
from sessions_app.privacy import holds
from sessions_app.reads.labels import labels_of
from sessions_app.search import labels
from sessions_app.search.completing import complete
from sessions_app.search.saved import views
from sessions_app.search.saved.views import SavedView, ViewWatch
from tests.search.finding import feed, ids
from tests.support.people import ALICE, BOB, somebody
from tests.web.test_shown import card

pytestmark = pytest.mark.django_db
__all__ = ["card"]
MAIL: Final = "tim.canary@example.org"


@pytest.fixture
def typed(card: SessionRef) -> SessionRef:
    """A session about which people typed an email address wherever they can, before a rule hides such."""
    labels.rename(card, f"Refund of {MAIL}", actor=ALICE)
    labels.tag([card], MAIL, actor=ALICE)
    labels.tag([card], "vip", actor=ALICE)
    holds.hold(card, f"{MAIL} sues us", actor=ALICE)
    rules.create(card.source, card.app_name, f"Not for {MAIL}", f'step != "{MAIL}"', actor=ALICE)
    views.save(somebody("vera", "editor"), name=f"Of {MAIL}", query=f'"{MAIL}"', shared=True, sort="", columns="")
    feed(card.source)
    return card


@pytest.mark.guarantee("Safety", "Text that people write about sessions is masked in the same way as values.")
def test_what_is_hidden_of_titles_and_tags_is_neither_found_nor_offered(typed: SessionRef) -> None:
    assert ids("title:canary") == ids("tag:canary") == [typed.session_id]
    assert MAIL in labels.known_tags("", 9, actor=BOB)
    mask_rules.create("*", "form", "email", actor=ALICE)
    feed(typed.source)
    for query in ("canary", "title:canary", "tag:canary", f'tag:"{MAIL}"'):
        assert ids(query) == [], query
    assert ids("title:Refund") == ids("tag:vip") == [typed.session_id]
    assert labels.known_tags("", 9, actor=BOB) == ["vip"]
    assert labels.known_tags("canary", 9, actor=BOB) == []
    assert "canary" not in json.dumps([each.text for each in complete("tag:", 4, actor=BOB)])
    labels.rename(typed, f"Again {MAIL}", actor=ALICE)
    labels.tag([typed], f"{MAIL} again", actor=ALICE)
    assert ids("tag:canary") == ids("title:canary") == []
    (rule,) = mask_rules.listed(actor=ALICE)
    mask_rules.delete(rule.pk, actor=ALICE)
    feed(typed.source)
    assert ids("title:canary") == ids("tag:canary") == [typed.session_id]


def test_who_sends_back_what_they_saw_changes_nothing_hidden(typed: SessionRef) -> None:
    mask_rules.create("*", "form", "email", actor=ALICE)
    labels.rename(typed, "Refund of ••••", actor=ALICE)
    assert SessionTitle.objects.get().title == f"Refund of {MAIL}"
    seen = labels_of([typed], actor=ALICE)[typed].tags
    assert set(seen) == {"••••", "vip"}
    labels.change(typed, title=None, tags=["••••", "new"], actor=ALICE)
    assert {row.tag for row in SessionTag.objects.all()} == {MAIL, "new"}
    labels.untag([typed], "••••", actor=ALICE)
    assert {row.tag for row in SessionTag.objects.all()} == {"new"}

    hold = holds.of(typed, actor=BOB)
    assert hold
    assert hold.reason == "•••• sues us"
    holds.hold(typed, hold.reason, actor=ALICE)
    (rule,) = rules.rules(typed.source, typed.app_name, actor=ALICE)
    assert (rule.title, rule.condition) == ("Not for ••••", 'step != "••••"')
    rules.change(typed.source, typed.app_name, rule.pk, "Renamed", rule.condition, actor=ALICE)
    (listed,) = mask_rules.listed(actor=ALICE)
    mask_rules.delete(listed.pk, actor=ALICE)
    hold, (rule,) = holds.of(typed, actor=BOB), rules.rules(typed.source, typed.app_name, actor=ALICE)
    assert hold
    assert (hold.reason, rule.title, rule.condition) == (f"{MAIL} sues us", "Renamed", f'step != "{MAIL}"')


def test_dots_are_never_stored_in_place_of_words(typed: SessionRef) -> None:
    mask_rules.create("*", "form", "email", actor=ALICE)
    for act in (
        lambda: labels.rename(typed, "Refunds of ••••", actor=ALICE),
        lambda: labels.tag([typed], "•••• again", actor=ALICE),
        lambda: holds.hold(typed, "•••• does not", actor=ALICE),
        lambda: rules.create(typed.source, typed.app_name, "", 'step != "•••• x"', actor=ALICE),
    ):
        with pytest.raises(Invalid):
            act()


@pytest.mark.guarantee("Safety", "A shared view is visible only to people who have a role in all of its apps.")
@pytest.mark.parametrize(
    ("query", "seers"),
    [
        ("app:booking error:any", "booking both all"),
        ("app:booking or app:weather", "both all"),
        ("app:booking user:ana or status:failed", "all"),
        ("", "all"),
        ("user:ana", "all"),
        ("not app:booking", "all"),
        ("app:booking not app:weather", "booking both all"),
        ("app:o", "all"),  # booking and support
        ('app:"booking"', "booking both all"),
        ("app:nosuch", "all"),
        ("app:booking app:weather", "all"),
        ("(app:booking or app:weather) app:booking", "booking both all"),
        ("source:nosuch app:booking", "all"),
    ],
)
def test_a_shared_view_is_for_people_with_a_role_in_all_its_apps(
    ref: SessionRef, query: str, seers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    every = [(ref.source, app) for app in ("booking", "weather", "support")]
    monkeypatch.setattr(views, "every_app", lambda: frozenset(every))
    mine = views.save(somebody("vera", "editor"), name="Hers", query=query, shared=True, sort="", columns="")
    people = {
        "none": somebody("nina"),
        "booking": somebody("olga", "viewer", "booking"),
        "both": somebody("ben", "viewer", "[bw]*"),
        "all": somebody("alma", "viewer"),
    }
    told = {name for name, person in people.items() if SavedView.objects.listed(person)}
    assert told == set(seers.split())
    for name, person in people.items():
        if name in told:
            assert SavedView.objects.of(mine.id, person).query == query
            continue
        with pytest.raises(NotFound):
            SavedView.objects.of(mine.id, person)
        with pytest.raises((NotFound, NotAllowed)):
            mine.watch(person, "UTC")


def test_whoever_loses_a_role_is_told_of_a_view_no_more(ref: SessionRef, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views, "every_app", lambda: frozenset([(ref.source, "booking")]))
    shared = views.save(somebody("vera", "editor"), name="Hers", query="app:booking", shared=True, sort="", columns="")
    shared.watch(olga := somebody("olga", "viewer", "booking"), "UTC")
    assert [each.view.name for each in ViewWatch.objects.listed(olga)] == ["Hers"]
    assert ViewWatch.objects.listed(somebody("olga", "viewer", "weather")) == []


def test_own_views_are_shown_as_they_were_typed(ref: SessionRef) -> None:
    vera = somebody("vera", "editor")
    mine = views.save(vera, name=MAIL, query=f'"{MAIL}"', shared=True, sort="", columns="")
    mask_rules.create("*", "form", "email", actor=ALICE)
    assert SavedView.objects.of(mine.id, vera).query == f'"{MAIL}"'
    theirs = SavedView.objects.of(mine.id, somebody("alma", "viewer"))
    assert (theirs.name, theirs.query) == ("••••", '"••••"')
