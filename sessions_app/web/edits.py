"""Every edit in every session: who, when, why, old → new."""

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_GET

from .. import reads
from .render import page


@require_GET
def edits(request: HttpRequest) -> HttpResponse:
    """The edits of all sources by page, the newest first; rows alone for htmx."""
    found, problems = reads.edits(request.GET.get("before"))
    template = "edits/_rows.html" if request.htmx else "edits/edits.html"  # type: ignore[attr-defined]
    return page(request, template, {"edits": found, "problems": problems})
