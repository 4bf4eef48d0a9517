"""Words that SQLite finds damaged are read anew from every source; another error of the database is left as it is."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.db import DatabaseError, connection

from sessions_app.live.search_feeder import SearchFeeder
from sessions_app.models import SearchSession
from sessions_app.search import damage
from sessions_app.search.index import feed as feeding
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session
from tests.search.finding import feed, ids
from tests.support.at_work import until
from tests.support.people import ALICE
from tests.support.stored import execute

pytestmark = pytest.mark.parametrize("own", ["sqlite"], indirect=True)
TABLES = pytest.mark.parametrize("table", ["text", "title", "part"])


@pytest.fixture
def sources(own: str, new_store: Callable[[str], str], open_source: Callable[[str], str]) -> list[str]:
    """Two sources with a session each, s0 and s1, which are indexed."""
    sources = [open_source(new_store("sqlite")) for _ in range(2)]
    for number, source in enumerate(sources):
        say(source, f"s{number}", "the fare expired")
        feed(source)
    return sources


def say(source: str, session: str, text: str) -> None:
    ref = create_session(source, "booking", "ana", session_id=session, actor=ALICE)
    append_event(ref, {"author": "user", "content": {"parts": [{"text": text}]}}, actor=ALICE)


def destroy(table: str, rows: str = "id > 10") -> None:
    execute("default", f"DELETE FROM sessions_app_search{table}_data WHERE {rows}")


def test_damaged_texts_are_noticed_by_a_search_and_read_anew_from_every_source(sources: list[str]) -> None:
    assert ids("expired") == ids("pir") == ["s0", "s1"]
    destroy("text")
    with pytest.raises(DatabaseError) as raised:
        ids("expired")
    assert damage.mend(raised.value)
    assert [feeding.share(source) for source in sources] == [0, 0]
    for source in sources:
        feed(source)
    assert ids("expired") == ids("pir") == ["s0", "s1"]


@TABLES
@pytest.mark.parametrize("rows", ["id > 10", "id = 10", "TRUE"], ids=["words", "start", "all"])
def test_reindexing_one_source_mends_the_words_of_all(sources: list[str], table: str, rows: str) -> None:
    destroy(table, rows)
    connection.close()  # a process that has the table open may not notice
    damage.check()
    feeding.rebuild(sources[0])
    feed(sources[1])
    assert ids("expired") == ids("pir") == ids("title:fare") == ["s0", "s1"]
    damage.check()


@TABLES
def test_a_server_that_meets_damage_while_it_reads_mends_it(sources: list[str], table: str) -> None:
    destroy(table, "TRUE")
    say(sources[0], "s2", "fares were refunded")
    feeder = SearchFeeder()
    feeder.start()
    try:
        until(lambda: SearchSession.objects.filter(names__contains="s2").exists(), "mended")
        until(
            lambda: [feeding.share(source) for source in sources] == [1, 1],
            "The search index was damaged and is being rebuilt",
        )
    finally:
        feeder.end()
        feeder.join()
    assert ids("fare") == ["s0", "s1", "s2"]
    damage.check()


def test_another_error_of_the_database_is_no_damage_of_words(own: str) -> None:
    with pytest.raises(DatabaseError) as raised, connection.cursor() as cursor:
        cursor.execute("SELECT nothing")
    assert not damage.mend(raised.value)
