"""State in time of what google-adk's own services wrote: nothing is guessed that they do not record."""

from collections.abc import Callable

import pytest

from sessions_app.access.actor import SYSTEM
from sessions_app.domain.state import UNKNOWN
from sessions_app.history import moments
from tests.adk.services import Adk, key_of

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.guarantee("History", "If something can't be known, adkweb shows it as unknown and never guesses.")
def test_what_adk_writes_counts_and_what_it_does_not_record_is_unknown(create: Callable[[], str], adk: Adk) -> None:
    source = create()
    session = adk.create(state={"n": 0, "user:tier": "basic", "app:total": 1})
    ids = [adk.append(session, **delta).id for delta in ({"n": 1}, {"user__tier": "gold"}, {"n": None})]
    ref = key_of(source)
    assert moments.state_at(ref, ids[0], before=True, actor=SYSTEM).state.session == {"n": 0}
    first = moments.state_at(ref, ids[0], actor=SYSTEM).state
    assert (first.session, first.user, first.app) == ({"n": 1}, {"tier": UNKNOWN}, {"total": UNKNOWN})
    assert moments.state_at(ref, ids[1], actor=SYSTEM).state.user == {"tier": "gold"}
    assert moments.state_at(ref, ids[2], actor=SYSTEM).state.session == {"n": None}
    now = moments.state_now(ref, actor=SYSTEM)
    assert (now.state.app, now.state.user) == ({"total": 1}, {"tier": "gold"})
    assert now.writers.keys() == {"user:tier", "n"}
