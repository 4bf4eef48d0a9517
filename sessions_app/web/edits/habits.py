"""Compares what is typed into the form that edits with what its keys have been: it warns, and offers what was seen."""

from collections.abc import Sequence

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_POST

from ...access.actor import Actor
from ...domain.errors import Invalid
from ...domain.json_values import kind
from ...domain.key_schema import KeySchema
from ...domain.misfits import misfits
from ...domain.session_ref import SessionRef
from ...domain.state import ABSENT, UNKNOWN
from ...reads.views import SessionView
from ...search.schemas import schemas_of
from ..html.render import page
from ..html.targets import actor
from .state_form import FormRow, type_named


@require_POST
def check(request: HttpRequest, source: str, app_name: str) -> HttpResponse:
    """Says what is unusual about the value of one key, while it is typed."""
    given = request.POST
    key, text, seen, type_ = (given.get(name, "") for name in ("key", "value", "seen", "type"))
    row = FormRow(key, given.get("operation", "set"), text, seen, type_)
    note_habits([row], SessionRef(source, app_name, "", ""), actor(request))
    return page(request, "edits/edit/_misfits.html", {"row": row})


def note_habits(rows: Sequence[FormRow], ref: SessionRef, who: Actor) -> None:
    """Notes in each row of a form what is unusual about its value, if somebody changed it, and which strings were seen.

    A row that is still empty begins in the type that its key has been."""
    known = schemas_of(ref.source, ref.app_name, [row.key for row in rows], actor=who)
    for row in rows:
        schema = known.get(row.key)
        if schema is None or row.compact:
            continue
        row.options = schema.options
        if not row.type and not row.text:
            row.type = usual_type(schema)
        if row.changed and row.operation != "remove":
            try:
                value = None if row.operation == "null" else row.typed()
            except Invalid:  # the form says so itself
                continue
            row.misfits = misfits(row.key, schema, value)


def note_types(rows: Sequence[FormRow], views: Sequence[SessionView]) -> None:
    """Notes in each row that is still empty the type that its key has in all of these sessions, if it is one."""
    for row in rows:
        if not row.type and not row.text:
            values = [view.state.get(row.key) for view in views]
            types = {kind(value) for value in values if value not in (ABSENT, UNKNOWN, None)}
            row.type = type_named(types.pop()) if len(types) == 1 else ""


def usual_type(schema: KeySchema) -> str:
    """Returns the type that a key has mostly been, as the form names it; null does not count, if there is another."""
    seen = {name: number for name, number in schema.types.items() if name != "null"}
    return type_named(max(seen, key=lambda name: seen[name])) if seen else ""
