"""The page of all edits: who, when, why, old → new."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_GET

from ...access.actor import Actor
from ...domain.errors import Behind
from ...domain.session_ref import SessionRef
from ...history import edit_log
from ...reads.event_views import EventView
from ...reads.labels import called
from ...sources import complaints
from ..html.render import page
from ..html.targets import actor


@dataclass(frozen=True, slots=True)
class Row:
    """An edit, with the later edit on this page that undid it (`undone`), and what its session is called."""

    edit: EventView
    undone: EventView | None
    title: str = ""


@require_GET
def edits(request: HttpRequest) -> HttpResponse:
    """Lists the edits of all sources, the newest first. htmx gets the rows, or the whole list while a source is being
    read."""
    listed, problems = edit_log.edits(request.GET.get("before"), actor=actor(request))
    htmx: Any = request.htmx  # type: ignore[attr-defined]
    whole = "edits/log/_list.html" if htmx.target == "edits" else "edits/log/log.html"
    behind = [error for error in problems if isinstance(error, Behind)]
    context = {
        "edits": listed,
        "rows": _rows(listed.rows, actor(request)),
        "behind": behind,
        "problems": [complaints.shown(error, actor(request)) for error in problems if error not in behind],
        "where": request.get_full_path(),
    }
    return page(request, "edits/log/_rows.html" if htmx and htmx.target != "edits" else whole, context)


def _rows(listed: Sequence[EventView], who: Actor) -> list[Row]:
    """Returns the rows, the newest edit first. If the edit that undid an edit was undone itself, the first one counts
    again."""
    undone: dict[tuple[SessionRef, str], tuple[EventView, set[str]]] = {}  # by undone event: by which edit, which keys
    rewound: dict[tuple[SessionRef, str], EventView] = {}
    titles = called(dict.fromkeys((view.ref for view in listed), ""), who)
    rows = []
    for view in listed:
        keys = {change.key for change in view.changes}
        if before := str(view.description.actions.get("rewind_before_invocation_id") or ""):
            by = rewound.get((view.ref, view.invocation_id))
        else:
            last, gone = undone.get((view.ref, view.id), (None, set()))
            by = last if keys <= gone else None
        rows.append(Row(view, by, titles[view.ref]))
        if by is None and before:
            rewound[view.ref, before] = view
        elif by is None:
            undone.setdefault((view.ref, str(view.description.edit.get("undoes"))), (view, set()))[1].update(keys)
    return rows
