"""The demo's agents are answered and written to as anyone's are: they go on by themselves, without a key or a network."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from sessions_app.access.actor import SYSTEM
from sessions_app.domain.pending import KINDS, pending
from sessions_app.domain.session_ref import SessionRef
from sessions_app.models import Job
from sessions_app.reads import timeline
from sessions_app.running import answers, runs
from sessions_app.running.answers import Given
from tests.support.at_work import until

DEMO: Final = Path(__file__).resolve().parents[2] / "examples" / "demo.db"
SIGNED_IN: Final = "https://booking.example.com/signed-in?state=demo"
CLAIM: Final = {"outcome": "voucher", "amount": "250", "passengers": "2", "weather": "", "note": "See you soon!"}
# What someone answers, and what the agent then says. Where several answers are possible, each ends well.
ANSWERS: Final = {
    ("booking", "noah@example.com", "porto-in-march"): ("confirmation", Given(confirmed=True), "is cancelled."),
    ("booking", "유나", "conference"): ("confirmation", Given(confirmed=False), "your booking stays as it is"),
    ("booking", "sofia@example.com", "family-visit"): ("confirmation", Given(confirmed=True), "is cancelled."),
    ("support", "mateo@example.com", "cancelled-by-airline"): (
        "confirmation",
        Given(confirmed=True, value={"amount": 99.5}),
        "99.50 EUR for booking 5D21A0 are on their way",
    ),
    ("support", "hana@example.com", "name-on-ticket"): (
        "input",
        Given(fields={"given": "Hana", "family": "Sato"}),
        "in the name of Hana Sato",
    ),
    ("claims", "mateo@example.com", "late-flight"): (
        "input",
        Given(fields=CLAIM),
        "a voucher of 600.00 EUR, valid for a year. See you soon!",
    ),
    ("booking", "lena@example.com", "sister-visit"): ("credential", Given(value=SIGNED_IN), "It is in your calendar"),
    ("booking", "omar@example.com", "team-offsite"): (
        "long-running",
        Given(value={"status": "approved"}),
        "All paid: your booking is confirmed",
    ),
}
SAID: Final = {
    "booking": ("Find me a flight from Lisbon to Seoul", "I found 3 flights. The cheapest is TP431"),
    "support": ("Where is the nearest beach?", "I am a scripted demo and know only a few lines. Try one of these:"),
    "claims": ("Where is the nearest beach?", "- My flight TP431 was five hours late."),
}


@pytest.fixture
def demo(settings: Any, own: str, tmp_path: Path, open_source: Callable[[str], str], forked_agents: None) -> str:
    """The demo, as adkweb opens it: the copy beside its own files."""
    settings.DATA_DIR, settings.RUN_AGENTS = tmp_path / "data", True
    settings.DATA_DIR.mkdir()
    return open_source(str(shutil.copy(DEMO, settings.DATA_DIR / "demo.db")))


def last_words(ref: SessionRef) -> str:
    last = timeline.events(ref, limit=200, actor=SYSTEM).rows[-3:]  # a summary may come after them
    return " ".join(str(part.value) for row in last for part in row.description.parts)


def waiting(ref: SessionRef) -> list[Any]:
    return pending([row.data for row in timeline.events(ref, limit=200, actor=SYSTEM).rows])


def ended(jobs: dict[SessionRef, Job]) -> dict[SessionRef, str]:
    under_way = Job.objects.filter(pk__in=[job.pk for job in jobs.values()], state="waiting")
    until(lambda: not under_way.exists(), seconds=40)
    return {ref: Job.objects.get(pk=job.pk).message for ref, job in jobs.items()}


@pytest.mark.parametrize("own", ["sqlite"], indirect=True)
def test_each_kind_of_question_waits_and_its_answer_lets_the_agent_end_well(
    demo: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pieces: dict[SessionRef, int] = {}

    def heard(ref: SessionRef, event: dict[str, Any]) -> None:
        pieces[ref] = pieces.get(ref, 0) + bool(event.get("partial"))

    monkeypatch.setattr(runs, "hear", heard)
    jobs, expected = {}, {}
    for names, (kind, given, words) in ANSWERS.items():
        ref = SessionRef(demo, *names)
        (asked,) = waiting(ref)
        assert asked.kind == kind
        assert asked.passed_over == (names[2] == "family-visit")
        jobs[ref] = answers.answer(ref, asked.event_id, {asked.call_id: given}, actor=SYSTEM)
        expected[ref] = words
    assert {kind for kind, *_ in ANSWERS.values()} == {*KINDS}
    assert set(ended(jobs).values()) == {""}
    for ref, words in expected.items():
        assert words in last_words(ref)
        assert waiting(ref) == []
        assert pieces[ref] > 3  # the reply is seen as it is said


@pytest.mark.parametrize("own", ["sqlite"], indirect=True)
def test_a_message_that_no_script_foresaw_is_answered_with_what_the_agent_can_do(demo: str) -> None:
    who = {
        "booking": ("ana", "seoul-trip"),
        "support": ("지우", "seat-change"),
        "claims": ("mateo@example.com", "late-flight"),
    }
    refs = {app: SessionRef(demo, app, *names) for app, names in who.items()}
    jobs = {refs[app]: runs.say(refs[app], text, actor=SYSTEM) for app, (text, _words) in SAID.items()}
    assert set(ended(jobs).values()) == {""}
    for app, (_text, words) in SAID.items():
        assert words in last_words(refs[app])
