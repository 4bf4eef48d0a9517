"""Going to an event by its number, its turn, a time, or a key that it changed; and from error to error."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from django.urls import reverse

from sessions_app.domain.session_ref import SessionRef
from tests.search.finding import feed
from tests.support.bulk import fill
from tests.web.conftest import Browser
from tests.web.html import page_of

pytestmark = pytest.mark.django_db

Add = Callable[..., str]
NOON = datetime(2026, 11, 20, 12, tzinfo=UTC).timestamp()


@pytest.fixture
def day(ref: SessionRef, add: Add) -> SessionRef:
    """A session with three turns on one day, of which two failed."""
    add(ref, {"text": "Hello"}, id="e1", author="user", timestamp=NOON)
    add(ref, {"text": "Hi"}, id="e2", timestamp=NOON + 1, actions={"state_delta": {"step": "pay"}})
    add(ref, {"text": "Pay"}, id="e3", author="user", timestamp=NOON + 60)
    add(ref, id="e4", timestamp=NOON + 61, error_code="402", actions={"state_delta": {"step": "done", "temp:t": 1}})
    add(ref, {"text": "Again"}, id="e5", author="user", timestamp=NOON + 120)
    add(ref, id="e6", timestamp=NOON + 121, error_code="500")
    return ref


def went(maria: Browser, ref: SessionRef, **asked: str) -> str:
    """The id of the event that is gone to."""
    answer = maria.get(reverse("go", kwargs=ref._asdict()), asked)
    assert answer.status_code == 302, answer.content.decode()
    return answer["Location"].partition("?at=")[2]


@pytest.mark.parametrize("indexed", [True, False])
@pytest.mark.parametrize(
    ("asked", "event_id"),
    [
        ("3", "e3"),
        (" #4 ", "e4"),
        ("event 1", "e1"),
        ("turn 2", "e3"),
        ("T3", "e5"),
        ("12:01", "e3"),
        ("12:00:30", "e3"),
        ("2026-11-20 12:02", "e5"),
        ("2026-11-19", "e1"),
        ("2026-11-21", "e6"),
        ("1m", "e4"),
        ("step", "e4"),
    ],
)
def test_an_event_is_named_as_a_person_would(
    day: SessionRef, maria: Browser, asked: str, event_id: str, indexed: bool
) -> None:
    if indexed:
        feed(day.source)
    assert went(maria, day, to=asked) == event_id


def test_a_key_leads_to_its_change_before_the_event_that_is_shown(day: SessionRef, maria: Browser) -> None:
    seq = maria.open("session", query={"at": "e4"}, **day._asdict()).one(data_moment="")["data-seq"]
    assert went(maria, day, to="step", before=seq) == "e2"


@pytest.mark.parametrize("asked", ["", "0", "7", "turn 4", "nokey", "temp:t", "9" * 14, "\x00", "x" * 5_000])
def test_what_names_no_event_is_said_in_the_form_which_keeps_it(day: SessionRef, maria: Browser, asked: str) -> None:
    answer = maria.get(reverse("go", kwargs=day._asdict()), {"to": asked}, headers={"HX-Request": "true"})
    assert answer.status_code == 400  # which htmx shows
    form = page_of(answer).one("form", id="go")
    assert form.one("span", "error").text
    assert form.one("input", id="go-to")["aria-invalid"] == "true"


def test_the_open_page_is_told_where_to_go(day: SessionRef, maria: Browser) -> None:
    answer = maria.get(reverse("go", kwargs=day._asdict()), {"to": "3"}, headers={"HX-Request": "true"})
    assert (answer.status_code, answer["HX-Trigger"]) == (204, '{"adkweb:go": {"at": "e3"}}')


def test_one_steps_from_error_to_error_and_hears_of_the_last(day: SessionRef, maria: Browser) -> None:
    seqs = {event: maria.open("session", query={"at": event}, **day._asdict()) for event in ("e4", "e5", "e6")}
    seq = {event: page.one(data_moment="")["data-seq"] for event, page in seqs.items()}
    address = reverse("session", kwargs=day._asdict())
    for start, step, event in (("e5", "-1", "e4"), ("e4", "1", "e6"), ("e6", "-1", "e4"), ("e6", "-2", "e4")):
        answer = maria.get(address, {"seq": seq[start], "step": step, "errors": "1"})
        assert answer["Location"] == f"{address}?at={event}"
    newest = maria.get(address, {"seq": str(2**53 - 1), "step": "-1", "errors": "1"})
    assert newest["Location"] == f"{address}?at=e6"
    for start, step, said in (("e6", "1", "No later errors."), ("e4", "-1", "No earlier errors.")):
        asked = {"seq": seq[start], "step": step, "errors": "1"}
        assert said in maria.open("session", status=404, query=asked, **day._asdict()).text


def test_a_number_deep_in_a_long_session_is_gone_to(ref: SessionRef, maria: Browser) -> None:
    fill(ref, 5_000)
    feed(ref.source)
    for number in (1, 2, 4_321, 5_000):
        assert went(maria, ref, to=str(number)) == f"e{number}"
