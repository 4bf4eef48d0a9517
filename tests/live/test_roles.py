"""Sockets: what each role is sent, in one table over all sockets. A new socket without a row fails."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import pytest

from sessions_app.domain.session_ref import SessionRef
from sessions_app.live.sockets import SOCKETS
from tests.adk.services import APP
from tests.live.conftest import Stage
from tests.live.pages import Own, Page, sign_in
from tests.live.test_access import by_deleting_the_sign_in
from tests.live.test_watching import WATCHING, begun, watched
from tests.support.people import somebody

WORD: Final = "tableword"
# Gives the role of each and the apps that it is about. The last two cannot see the app of the tests.
SEEING: Final = {"viewer": ("viewer", APP), "editor": ("editor", APP), "admin": ("admin", "*")}
BLIND: Final = {"nobody": ("", ""), "auditor": ("auditor", "*"), "stranger": ("admin", "weather*")}


def session_socket(stage: Stage, who: str, ref: SessionRef) -> Page:
    return stage.page(ref, who)


def feed_socket(stage: Stage, who: str, ref: SessionRef) -> Page:
    return stage.feed(who)


def watching_socket(stage: Stage, who: str, ref: SessionRef) -> Page:
    return stage.page(WATCHING, who, after=None)


OPEN: Final[dict[str, Callable[[Stage, str, SessionRef], Page]]] = {
    "SessionSocket": session_socket,
    "FeedSocket": feed_socket,
    "WatchingSocket": watching_socket,
}
EACH: Final = pytest.mark.parametrize("socket", OPEN)


def signed_in(stage: Stage, name: str, role: str, apps: str) -> str:
    """The sign-in of somebody with one role."""
    key = sign_in(stage.server, name)
    with Own(stage.server):
        somebody(name, role, apps)
    return key


def said(page: Page) -> str:
    """Everything that a socket has sent."""
    return repr(page.messages)


def test_every_socket_has_a_row() -> None:
    assert {socket.__name__ for socket in SOCKETS.values()} == OPEN.keys()


@EACH
@pytest.mark.parametrize("role", SEEING)
def test_who_may_see_an_app_is_sent_what_happens_in_it(stage: Stage, socket: str, role: str) -> None:
    who = signed_in(stage, f"seeing-{role}", *SEEING[role])
    ref = stage.new_session(events=1)
    word = f"{WORD}{socket}{role}".lower()
    if socket == "WatchingSocket":
        watched(stage, word, f"seeing-{role}")
    page = OPEN[socket](stage, who, ref)
    page.until(lambda page: page.messages, "the beginning")
    event = stage.append(ref, word)
    page.until(lambda page: begun(page) if socket == "WatchingSocket" else event in said(page), "the event")
    assert page.end is None


@EACH
@pytest.mark.parametrize("role", BLIND)
def test_who_may_not_see_an_app_is_sent_nothing_of_it(stage: Stage, socket: str, role: str) -> None:
    word = f"{WORD}{socket}{role}".lower()
    if socket == "WatchingSocket":  # since they had a role
        signed_in(stage, f"blind-{role}", "viewer", "*")
        watched(stage, word, f"blind-{role}")
    who, other = signed_in(stage, f"blind-{role}", *BLIND[role]), stage.feed()
    ref = stage.new_session(events=1)
    page = OPEN[socket](stage, who, ref)
    event = stage.append(ref, word)
    other.until(lambda page: event in said(page), "the event, for those who may see it")
    if socket == "SessionSocket":
        assert page.until_end() == (4404, "no such session")
        absent = stage.page(ref._replace(app_name="atlantis"), who)
        assert absent.until_end() == page.end
        assert page.messages == [{"gone": f"There's no session “{ref.session_id}”."}] == absent.messages
        return
    page.read(1.0)
    assert page.end is None
    for hidden in (word, event, ref.session_id, APP):
        assert hidden not in said(page).replace(f"'title': '{word}'", "")


@EACH
def test_without_a_sign_in_no_socket_says_anything(stage: Stage, socket: str) -> None:
    gone = sign_in(stage.server, "gone")
    by_deleting_the_sign_in(stage, gone)
    ref = stage.new_session(events=1)
    for who in ("nothing", gone):
        page = OPEN[socket](stage, who, ref)
        assert page.until_end() == (4401, "signed out")
        assert page.messages == []


@EACH
def test_a_role_that_is_taken_ends_what_a_socket_sends(stage: Stage, socket: str) -> None:
    who, other = signed_in(stage, f"taken-{socket}", "viewer", APP), stage.feed()
    ref = stage.new_session(events=1)
    word = f"{WORD}taken{socket}".lower()
    if socket == "WatchingSocket":
        watched(stage, word, f"taken-{socket}")
    page = OPEN[socket](stage, who, ref)
    page.until(lambda page: page.messages, "the beginning")
    with Own(stage.server):
        somebody(f"taken-{socket}")
    time.sleep(1.1)  # a role is trusted for a second
    page.read(0.2)
    before = len(page.messages)
    event = stage.append(ref, word)
    other.until(lambda page: event in said(page), "the event, for those who may see it")
    if page.end is None:
        page.read(1.5)
    assert event not in repr(page.messages[before:])
    assert socket != "WatchingSocket" or begun(page) == []
