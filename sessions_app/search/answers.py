"""Gives rows of results to programs, as JSON. The API answers with them, and `adkweb find --json` prints them."""

from dataclasses import asdict
from typing import Any

from ..access.actor import Actor
from ..access.handles import shown_user
from ..domain.state import UNKNOWN
from ..sources import database
from .results import Row


def as_json(row: Row, actor: Actor) -> dict[str, Any]:
    """Returns a row with names as in the rest of the API. Columns that have no value are left out."""
    ref = row.ref
    numbered = not database.is_open(ref.source) or database.is_numbered(ref.source)
    match = asdict(row.match) if row.match else None
    if match and not numbered:  # as for events: their order follows from times there
        match["seq"] = None
    return {
        "source": ref.source,
        "app_name": ref.app_name,
        "user_id": shown_user(*ref[:3], actor),
        "id": ref.session_id,
        "title": row.title,
        "status": row.status,
        "created": row.created,
        "last": row.last,
        "took": row.took.seconds,
        "took_sign": row.took.sign,
        "turns": row.turns,
        "events": row.events,
        "tokens": row.tokens,
        "error": row.error,
        "error_seq": row.error_seq if numbered else None,
        "tags": list(row.tags),
        "columns": {path: value for path, value in row.columns.items() if value is not UNKNOWN},
        "match": match,
    }
