"""The page that adopts a PostgreSQL database: what adopting would add, and how far it is."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_http_methods

from ..access.roles import actor_of
from ..sources import adopting, database
from .html.render import page


@require_http_methods(["GET", "POST"])
def adoption(request: HttpRequest, source: str) -> HttpResponse:
    """Shows what adopting would add, starts it, and shows its progress. htmx gets only the part that changes."""
    actor_of(request.user).check_runs_everything()  # type: ignore[arg-type]
    if request.method == "POST":
        adopting.start(source, actor_of(request.user), agreed="agreed" in request.POST)  # type: ignore[arg-type]
        return redirect("adoption", source)
    opened = database.get(source)
    context = {
        "source": source,
        "where": opened.where,
        "done": database.is_agreed(source) and (database.keeps_creations(source) or opened.vendor == "sqlite"),
        "unknown": "" if database.is_agreed(source) else database.newer(source),
        "adopted": database.keeps_creations(source),
        "begun": database.is_begun(source),
        "adoption": adopting.of(source),
    }
    if opened.vendor == "postgresql" and not context["done"] and not context["adoption"]:
        context["plan"] = adopting.plan(source)
    template = "adoption/_progress.html" if request.htmx else "adoption/adoption.html"  # type: ignore[attr-defined]
    return page(request, template, context)
