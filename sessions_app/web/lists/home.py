"""Home: every source with its apps."""

from dataclasses import dataclass, field

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_GET

from ...errors import SourceError
from ...history import edit_log
from ...reads import lists
from ...sources import adopting, database, registry
from ..html.render import page
from ..html.targets import actor
from .feed import activity

RECENT = 8  # sessions, and edits


@dataclass(slots=True)
class Shown:
    """A source with its apps, or with its problem."""

    source: registry.Source
    apps: list[lists.AppRow] = field(default_factory=list)
    problem: str = ""
    adopted: bool = True
    adoption: adopting.Adoption | None = None


@require_GET
def home(request: HttpRequest) -> HttpResponse:
    """Lists the sources and their apps, the sessions that were active last, and the newest edits."""
    shown, recent = [], []
    for source in registry.listed():
        item = Shown(source)
        try:
            item.apps = lists.apps(source.alias, actor=actor(request))
            item.adopted, item.adoption = database.is_adopted(source.alias), adopting.of(source.alias)
            recent += [
                row
                for app in item.apps
                for row in lists.sessions(source.alias, app.app_name, limit=RECENT, actor=actor(request)).rows
            ]
        except SourceError as error:
            item.problem = error.message
        shown.append(item)
    recent.sort(key=lambda row: row.update_time, reverse=True)
    edits, _problems = edit_log.edits(limit=RECENT, seconds=0.2, actor=actor(request))
    context = {
        "activity": activity(actor(request)),
        "shown": shown,
        "recent": recent[:RECENT],
        "edits": edits.rows,
        "folders": registry.folders(),
        "refused": registry.refused(),
    }
    return page(request, "lists/home/home.html", context)
