"""What an app's page tells of its state: each kind of advice, with the event that wrote the key, on both databases."""

import json
from collections.abc import Callable
from typing import Any, Final

import pytest

from sessions_app.access import shown
from sessions_app.access.actor import Actor
from sessions_app.checks import advice, samples
from sessions_app.checks.advice import Finding, Health, health
from sessions_app.domain.errors import NotFound
from sessions_app.domain.session_ref import SessionRef
from sessions_app.search.drift_looks import Looker
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session
from tests.search.finding import feed
from tests.support.masking import Hiding
from tests.support.people import ALICE, BOB
from tests.support.stored import execute

BOTH: Final = pytest.mark.parametrize("own", ["sqlite", "postgresql"], indirect=True)
DAY: Final = 86_400
KEY: Final = "AKIA" + "IOSFODNN7EXAMPLE"


@pytest.fixture
def form() -> str:
    """The format of the source, unless a test asks for others."""
    return "sqlite"


def session(
    source: str, name: str, user: str = "ana", at: float = 1e9, app: str = "booking", **delta: Any
) -> SessionRef:
    """Makes a session with an event that writes some keys: `user__tier` is `user:tier`."""
    ref = create_session(source, app, user, session_id=name, actor=ALICE)
    named = {key.replace("__", ":"): value for key, value in delta.items()}
    append_event(ref, {"author": "agent", "timestamp": at, "actions": {"state_delta": named}}, actor=ALICE)
    return ref


def asked(source: str, app: str = "booking", actor: Actor = BOB) -> Health:
    """What is told once all is indexed."""
    feed(source)
    return health(source, app, actor=actor)


def told(source: str, kind: str) -> dict[str, tuple[str, ...]]:
    """The findings of a kind: by key, their details."""
    return {finding.key: finding.details for finding in asked(source).findings.get(kind, [])}


@BOTH
@pytest.mark.parametrize("form", ["sqlite", "postgresql"])
def test_each_kind_of_advice_is_found_with_the_event_that_wrote_the_key(own: str, source: str) -> None:
    session(source, "old", at=1e9 - 60 * DAY, legacy=1)
    ref = session(
        source,
        "s1",
        booking_step="pay",
        bookingStep="pay",
        email="ana@example.com",
        tier="gold",
        user__tier="gold",
        Users__x=1,
        db={"password": "hunter22"},
        notes="x" * 20_000,
        nested=[[[[[1]]]]],
        raw='{"a": 1}',
        app__limit=5,
    )
    for number in range(10):
        session(source, f"n{number}", user="ben", at=1e9 - number, step=1)
    findings = asked(source).findings
    assert list(findings) == [kind for kind in advice.KINDS if kind in findings]
    assert {kind: {finding.key: finding.details for finding in some} for kind, some in findings.items()} == {
        "secret": {"db": ("named",)},
        "unprefixed": {"email": ("name",)},
        "prefix": {"Users:x": ("user:",)},
        "scopes": {"tier": ("user:tier",)},
        "spelling": {"bookingStep": ("booking_step",)},
        "text": {"raw": ("json",)},
        "large": {"notes": ("20002",)},
        "deep": {"nested": ("5",)},
        "stale": {"legacy": ("60",)},
    }
    (secret,) = findings["secret"]
    assert (secret.ref, secret.wrote, secret.seen, secret.owners, secret.more) == (ref, ref, 1, 1, False)
    assert secret.event_id
    (stale,) = findings["stale"]
    assert stale.ref == ref._replace(session_id="old")


@BOTH
def test_values_are_read_of_the_newest_sessions_and_names_of_all(
    own: str, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(samples, "SESSIONS", 2)
    old = session(source, "old", at=1e9 - 1, email="ana@example.com", notes=KEY, **{"user:Tier": 1, "user:tier": 2})
    for number in range(3):
        session(source, f"n{number}", user="ben", at=1e9 + number, step=1)
    told = asked(source)
    assert (told.sessions, list(told.findings)) == (2, ["unprefixed", "spelling"])
    assert [some[0].ref for some in told.findings.values()] == [old, old]
    assert [some[0].wrote for some in told.findings.values()] == [old, old]


@BOTH
def test_what_was_changed_without_an_event_is_told(own: str, source: str) -> None:
    ref = session(source, "s1", step="pay")
    execute(source, "UPDATE sessions SET state = %s WHERE id = %s", [json.dumps({"step": "book"}), ref.session_id])
    assert told(source, "outside") == {"step": ()}


@BOTH
def test_what_home_lists_as_drifted_is_told_however_old_the_session_is(own: str, source: str) -> None:
    old = session(source, "old", at=1e9 - DAY, price=1)
    for number in range(6):
        session(source, f"new{number}", price=1)
    execute(source, "UPDATE sessions SET state = %s WHERE id = %s", [json.dumps({"price": 2}), old.session_id])
    assert told(source, "outside") == {}
    feed(source, walk=True)
    Looker(source).look(10.0)
    assert told(source, "outside") == {"price": ()}


@BOTH
def test_a_key_of_the_app_that_nobody_wrote_for_long_is_told(own: str, source: str) -> None:
    session(source, "old", at=1e9 - 45 * DAY, app__limit=5)
    session(source, "new", step=1)
    assert told(source, "stale") == {"app:limit": ("45",)}


@BOTH
def test_a_state_that_is_too_large_is_told_and_not_read(own: str, source: str) -> None:
    ref = session(source, "s1", **{f"key{n}": "x" * 9_000 for n in range(12)})
    (finding,) = asked(source).findings["large"]
    assert (finding.key, finding.is_whole, finding.ref) == ("", True, ref)
    assert int(finding.details[0]) > 100_000


@BOTH
def test_a_state_that_is_well_kept_shows_nothing(own: str, source: str) -> None:
    session(source, "s1", booking_step="pay", user__tier="gold", app__limit=5, cart={"total": 5})
    assert asked(source) == Health({}, {}, 1, 1.0)


@BOTH
def test_before_anything_is_indexed_it_says_so(own: str, source: str) -> None:
    session(source, "s1", app__apiKey="hunter22")
    told = health(source, "booking", actor=BOB)
    assert (told.share, told.sessions) == (0.0, 0)
    assert [finding.key for finding in told.findings["secret"]] == ["app:apiKey"], "the app's state needs no index"


@BOTH
def test_more_findings_than_a_page_shows_are_counted(own: str, source: str) -> None:
    session(source, "s1", **{f"password{n}_secret": "hunter22" for n in range(20)})
    told = asked(source)
    assert (len(told.findings["secret"]), told.hidden["secret"]) == (advice.MOST, 20 - advice.MOST)


@BOTH
def test_what_an_actor_may_not_see_is_neither_looked_at_nor_counted(
    own: str, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    session(source, "s1", app="payroll", notes=KEY)
    session(source, "s2", notes=KEY, note=KEY)
    with pytest.raises(NotFound):
        health(source, "payroll", actor=Actor.holding("program", "read", "booking"))
    assert [finding.owners for finding in asked(source).findings["secret"]] == [1, 1]
    monkeypatch.setattr(shown, "mask_of", lambda actor, app: Hiding(lambda state: {**state, "notes": "hidden"}))
    assert list(told(source, "secret")) == ["note"]


@BOTH
def test_no_value_is_told(own: str, source: str) -> None:
    session(source, "s1", notes=f"{KEY} hunter22", password="hunter22", raw='["hunter22"]', email="hunter22")
    assert "hunter22" not in repr(asked(source))
    assert KEY not in repr(asked(source))
    assert isinstance(asked(source).findings["secret"][0], Finding)


@pytest.mark.parametrize(
    "text", ["<script>", "'\"`\\", "%s %(x)s", "a.b", "{{ 7 }}", "😀\x7f", "x" * 5_000, "constructor__proto__", "user:"]
)
def test_hostile_keys_and_values_are_looked_at_like_any_other(own: str, source: str, text: str) -> None:
    ref = create_session(source, "booking", "ana", session_id="s1", actor=ALICE)
    delta = {text: text, f"{text}_password": "hunter22", f"user:{text}": {text: [text]}}
    append_event(ref, {"author": "agent", "actions": {"state_delta": delta}}, actor=ALICE)
    assert (
        f"{text}_password" in [finding.key for finding in asked(source).findings.get("secret", [])] or len(text) > 200
    )


def test_it_reads_little_however_much_there_is(
    own: str, source: str, django_assert_max_num_queries: Callable[..., Any]
) -> None:
    for number in range(60):
        session(source, f"s{number}", user=f"u{number % 7}", **{f"key{n}": "x" * 20_000 for n in range(3)}, step=number)
    feed(source)
    with django_assert_max_num_queries(150):
        assert 20 < health(source, "booking", actor=BOB).sessions < 60
