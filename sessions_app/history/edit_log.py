"""Lists every edit in every session, by page."""

import time
from collections.abc import Callable
from typing import TypeVar

from ..access.actor import Actor
from ..domain.errors import Behind, Error, SourceError
from ..reads.event_views import EventView
from ..reads.lists import PAGE
from ..reads.paging import Page, read_cursor, write_cursor
from ..sources import database, registry
from . import indexing
from .edited import EditAt, edits_of

T = TypeVar("T")


def edits(
    before: str | None = None,
    limit: int = PAGE,
    seconds: float | None = None,
    *,
    actor: Actor,
) -> tuple[Page[EventView], list[Error]]:
    """Returns a page of the edits in every session of every source, the newest first; and the errors of sources.

    An actor who may not see every app gets the edits in the apps that they may see. A source that does not answer is
    left out (SourceError). One that is not read to its end after `seconds` shows what is read so far (Behind).
    """
    rows: list[tuple[EditAt, EventView]] = []
    below: EditAt | None = tuple(read_cursor(before, int, str, int)) if before else None
    ends: EditAt | None = None
    until = time.monotonic() + (indexing.SECONDS if seconds is None else seconds)
    answers, problems = of_each_source(
        lambda source: edits_of(source, below, limit + 1, actor), until, lambda source: actor.has("read", source)
    )
    for some, end in answers:
        rows += some
        ends = max(ends, end) if ends and end else ends or end
    rows.sort(key=lambda each: each[0], reverse=True)
    read = [
        each for each in rows if ends is None or each[0] >= ends
    ]  # older than this, a source may have edits that were not read
    page = read[:limit]
    last = page[-1][0] if page else ends
    more = len(rows) > len(page) or ends is not None
    return Page([view for _at, view in page], write_cursor(*last) if last and more else None), problems


def of_each_source(
    read: Callable[[str], T], until: float, wanted: Callable[[str], bool] = lambda source: True
) -> tuple[list[T], list[Error]]:
    """Reads what each source has, once it is known what is new there. Returns the answers, and errors with their `source`.

    A source that is not read to its end at the time `until` answers with what is read so far (Behind).
    """
    answers: list[T] = []
    problems: list[Error] = []
    for source in registry.listed():
        if not wanted(source.alias):
            continue
        try:
            if not database.has_order(database.get(source.alias).alias):
                continue
            try:
                indexing.catch_up(source.alias, max(0.0, until - time.monotonic()))
            except Behind as error:
                problems.append(Behind(f"{source.alias}: {error.message}", **error.detail, source=source.alias))
            answers.append(read(source.alias))
        except SourceError as error:  # the other sources answer all the same
            error.detail["source"] = source.alias
            problems.append(error)
    return answers, problems
