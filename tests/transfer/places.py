"""What is imported from a place: its items, and the same brought into a source as the command does it."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

from django.db import connections

from sessions_app.transfer import FORMATS, import_job, recognise
from sessions_app.transfer.import_job import Open
from sessions_app.transfer.items import EventItem, Item, SessionItem, StateItem
from tests.transfer.files import ANA


def opened(place: str, form: str, strict: bool = False) -> Open:
    """What reads a place, again and again."""
    read = FORMATS[form].read
    assert read
    return partial(read, place, strict)


def items(place: str, form: str, strict: bool = False) -> list[Item]:
    """All that is there, which is the same when it is read again; the format is the one that is recognised."""
    assert recognise(place) == form
    with opened(place, form, strict)() as reader:
        found = list(reader)
        assert reader.done == reader.total
    with opened(place, form, strict)() as reader:
        assert list(reader) == found
    return found


def bring(place: str, form: str, source: str, **options: Any) -> import_job.Report:
    """A place brought into a source."""
    read = opened(place, form, connections[source].vendor == "postgresql")
    import_job.check(read)
    return import_job.bring(read, source, actor=ANA, **options)


def events(found: list[Item]) -> list[Any]:
    """The events among items, parsed."""
    return [json.loads(item.text) for item in found if isinstance(item, EventItem)]


def states(found: list[Item]) -> dict[str, Any]:
    """The states of apps, users and sessions among items, by their names."""
    return {
        "/".join(filter(None, item[:2] if isinstance(item, StateItem) else item[:3])): (
            item.state if isinstance(item, StateItem) else json.loads(item.state)
        )
        for item in found
        if isinstance(item, StateItem | SessionItem)
    }
