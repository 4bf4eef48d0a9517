"""Compares what is typed into the form that edits with what its keys have been: it warns, and offers what was seen."""

from collections.abc import Sequence

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_POST

from ...access.actor import Actor
from ...domain.json_values import loads
from ...domain.misfits import misfits
from ...domain.session_ref import SessionRef
from ...errors import Invalid
from ...search.schemas import schemas_of
from ..html.render import page
from ..html.targets import actor
from .state_form import FormRow


@require_POST
def check(request: HttpRequest, source: str, app_name: str) -> HttpResponse:
    """Says what is unusual about the value of one key, while it is typed."""
    given = request.POST
    row = FormRow(given.get("key", ""), given.get("operation", "set"), given.get("value", ""), given.get("seen", ""))
    note_habits([row], SessionRef(source, app_name, "", ""), actor(request))
    return page(request, "editing/edit/_misfits.html", {"row": row})


def note_habits(rows: Sequence[FormRow], ref: SessionRef, who: Actor) -> None:
    """Notes in each row of a form what is unusual about its value, if somebody changed it, and which strings were seen."""
    known = schemas_of(ref.source, ref.app_name, [row.key for row in rows], actor=who)
    for row in rows:
        schema = known.get(row.key)
        if schema is None or row.compact:
            continue
        row.options = schema.options
        if row.changed and row.operation != "remove":
            try:
                value = None if row.operation == "null" else loads(row.text)
            except Invalid:  # the form says so itself
                continue
            row.misfits = misfits(row.key, schema, value)
