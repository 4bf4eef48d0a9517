"""The page that erases a user, and the one that puts a session on hold."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sessions_app.domain.session_ref import SessionRef
from tests.support.at_work import settle
from tests.web.conftest import Browser, names_of
from tests.web.html import page_of
from tests.web.test_import import tally

# The work is done by threads, which see only what is committed.
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    yield
    settle("erase")


def test_a_user_is_erased_after_their_id_was_typed_and_the_report_stays(maria: Browser, ref: SessionRef) -> None:
    names = names_of(ref, 3)
    page = maria.open(maria.open("user", **names).links()["Erase this user"])
    assert "Nothing has been removed yet" in page.text
    assert tally(page)["sessions"] == "1"
    answer = maria.send("erase-user", {"confirm": "Ana"}, **names)
    assert (answer.status_code, page_of(answer).one(role="alert").text) == (
        400,
        "That isn't the user's id. Nothing was erased.",
    )
    maria.open("session", **ref._asdict())
    assert maria.send("erase-user", {"confirm": "ana"}, **names).status_code == 302
    settle("erase")
    maria.open("session", status=404, **ref._asdict())
    page = maria.open("erase-user", **names)
    assert tally(page)["sessions removed"] == "1"
    assert "No data about this user remains here." in page.text
    (button,) = [each for each in page.all("button") if each.text == "Delete the report"]
    maria.send("erase-user", {"discard": button["value"]}, **names)
    maria.open("erase-user", status=404, **names)


def test_a_session_is_put_on_hold_with_a_reason_and_then_not_deleted(maria: Browser, ref: SessionRef) -> None:
    names = ref._asdict()
    maria.open(maria.open("session", **names).links()["Hold"])
    assert maria.send("hold-session", {"reason": " "}, **names).status_code == 400
    assert maria.send("hold-session", {"reason": "<script>alert(1)</script>"}, **names).status_code == 302
    assert "On hold" in maria.open("session", **names).links()
    assert "<script>alert(1)</script>" in maria.open("delete-session", **names).text
    assert maria.send("delete-session", {"confirm": "s1"}, **names).status_code == 409
    maria.send("hold-session", {"release": "1"}, **names)
    assert maria.send("delete-session", {"confirm": "s1"}, **names).status_code == 302
