"""Rows are looked up by their names: what that costs does not grow with the rows of others."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext

from sessions_app.access.actor import SYSTEM
from sessions_app.checks import samples
from sessions_app.domain.session_ref import SessionRef
from sessions_app.reads import newest
from sessions_app.reads.changes import Rowids
from sessions_app.search import labels
from sessions_app.search.index import read
from sessions_app.writes.append import append_event
from tests.search.finding import feed

LOOKUPS: dict[str, Callable[[SessionRef], Any]] = {
    "sessions with their state": lambda ref: read.rows_of(connections[ref.source], [ref[1:]]),
    "shared state": lambda ref: read.shared_states(connections[ref.source], {ref[1:3]}),
    "revisions": lambda ref: newest.revisions(ref.source, [ref], actor=SYSTEM),
    "tags": lambda ref: labels.tag([ref], "vip", actor=SYSTEM),
    "samples": lambda ref: samples.sample(ref.source, ref.app_name, actor=SYSTEM),
    "events": lambda ref: list(Rowids(ref.source, whole=True).new() or ()),
}


@pytest.mark.parametrize("form", ["sqlite", "sqlite-database"])
@pytest.mark.parametrize("lookup", LOOKUPS)
def test_no_lookup_goes_through_a_table(lookup: str, ref: SessionRef, own: str) -> None:
    append_event(ref, {"author": "agent"}, actor=SYSTEM)
    feed(ref.source)
    db = connections[ref.source]
    with CaptureQueriesContext(db) as captured:
        LOOKUPS[lookup](ref)
    asked = [query["sql"] for query in captured.captured_queries if "WITH wanted" in query["sql"]]
    assert asked
    with db.cursor() as cursor:
        for statement in asked:
            cursor.execute(f"EXPLAIN QUERY PLAN {statement}")
            steps = [row[3] for row in cursor.fetchall()]
            assert any(step.startswith("SEARCH") for step in steps), statement
            assert [step for step in steps if re.match(r"SCAN (?!wanted|(\d+ )?CONSTANT)", step)] == [], statement
