"""Names in addresses: any id has one, it comes back as it was, and no browser changes it on the way."""

from __future__ import annotations

from urllib.parse import unquote, urljoin, urlsplit

import pytest
from django.test import RequestFactory
from django.urls import resolve, reverse
from hypothesis import given
from hypothesis import strategies as st

from sessions_app.http.paths import Segment
from tests.strategies import text

NAMES = text | st.text("./~%\\?#& \n\r\t", max_size=8) | st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
SEGMENTS = st.text("~0123456789abcdefABCDEF.%é-", max_size=12) | st.text(max_size=8)


@given(name=NAMES)
def test_a_name_comes_back_from_its_segment(name: str) -> None:
    assert Segment().to_python(Segment().to_url(name)) == name


@given(name=NAMES)
def test_a_segment_is_one_that_browsers_and_servers_leave_alone(name: str) -> None:
    segment = Segment().to_url(name)
    assert segment not in ("", ".", "..")
    assert not set(segment) & set("/\\?#% \t\r\n\"'<>`{}|^;&"), segment
    assert urljoin("http://here/a/b/", f"/s/{segment}/end/") == f"http://here/s/{segment}/end/"


@given(first=NAMES, second=NAMES)
def test_two_names_have_two_segments(first: str, second: str) -> None:
    assert (Segment().to_url(first) == Segment().to_url(second)) == (first == second)


@given(segment=SEGMENTS)
def test_a_name_has_one_segment_only(segment: str) -> None:
    try:
        name = Segment().to_python(segment)
    except ValueError:
        return
    assert Segment().to_url(name) == segment


@pytest.mark.guarantee(
    "History", "A link always opens the source, app, user, session and event that it was created for."
)
@pytest.mark.django_db
@given(source=NAMES, app=NAMES, user=NAMES, session=NAMES, event=NAMES)
def test_an_address_leads_to_the_names_it_was_made_of(
    source: str, app: str, user: str, session: str, event: str
) -> None:
    names = {"source": source, "app_name": app, "user_id": user, "session_id": session, "event_id": event}
    address = reverse("event", kwargs=names)
    # The way through a client and back: quoted, sent, unquoted once by the server.
    path = RequestFactory().get(address).path_info
    assert path == unquote(urlsplit(address).path)
    assert resolve(path).kwargs == names


@pytest.mark.parametrize(
    "segment", ["~zz", "~2F", "~c3", "~61", "a~2e", "...", "..", ".", "a b", "~~", "~2", "a%2Fb", ""]
)
def test_what_is_no_segment_is_refused(segment: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - which Django answers with 404
        Segment().to_python(segment)


@pytest.mark.parametrize(
    ("name", "segment"),
    [
        ("seoul-trip", "seoul-trip"),
        ("omar@example.com", "omar@example.com"),
        ("지우", "지우"),
        ("", "~"),
        ("..", "~2e~2e"),
        ("a.b", "a.b"),
        ("a/b", "a~2fb"),
        ("~", "~7e"),
        ("50%", "50~25"),
        ("👩", "~f0~9f~91~a9"),
    ],
)
def test_a_plain_name_is_read_as_it_is_and_the_rest_is_hex(name: str, segment: str) -> None:
    assert Segment().to_url(name) == segment
