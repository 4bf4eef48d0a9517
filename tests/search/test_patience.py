"""A search that takes too long is given up, on both databases, and leaves nothing behind."""

from __future__ import annotations

import time

import pytest
from django.db import DatabaseError, connection

from sessions_app.domain.errors import Slow
from sessions_app.search.selecting import patience
from sessions_app.search.sql import rows

pytestmark = [pytest.mark.usefixtures("own"), pytest.mark.parametrize("own", ["sqlite", "postgresql"], indirect=True)]

ENDLESS = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT (i + 1) % 1000 FROM n) SELECT count(*) FROM n"


def test_a_query_that_never_ends_is_given_up_and_the_next_one_works() -> None:
    began = time.monotonic()
    with pytest.raises(Slow, match="longer than 0 seconds"), patience(0.2):
        rows(ENDLESS.replace("%", "%%"), [])
    assert 0.2 <= time.monotonic() - began < 5
    assert rows("SELECT 1", []) == [(1,)]


def test_afterwards_queries_may_take_as_long_as_they_take() -> None:
    with patience(0.05):
        rows("SELECT 1", [])
    time.sleep(0.06)
    hundred_thousand = (
        "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000) SELECT count(*) FROM n"
    )
    assert rows(hundred_thousand, []) == [(100_000,)]
    if connection.vendor == "postgresql":
        assert rows("SHOW statement_timeout", []) == [("0",)]


def test_another_fault_of_the_database_is_not_taken_for_slowness() -> None:
    with pytest.raises(DatabaseError), patience(5):
        rows("SELECT * FROM nowhere", [])
    assert rows("SELECT 1", []) == [(1,)]
