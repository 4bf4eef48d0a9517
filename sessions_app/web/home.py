"""Home: every source with its apps."""

from dataclasses import dataclass, field

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_GET

from .. import adopting, reads, sources
from ..errors import SourceError
from .feed import activity
from .render import page

RECENT = 8  # sessions, and edits


@dataclass(slots=True)
class Shown:
    """A source with its apps, or with what is wrong with it."""

    source: sources.Source
    apps: list[reads.AppRow] = field(default_factory=list)
    problem: str = ""
    adopted: bool = True
    adoption: adopting.Adoption | None = None


@require_GET
def home(request: HttpRequest) -> HttpResponse:
    """Sources and apps, the sessions that were active last, the newest edits."""
    shown, recent = [], []
    for source in sources.listed():
        item = Shown(source)
        try:
            item.apps = reads.apps(source.alias)
            item.adopted, item.adoption = sources.is_adopted(source.alias), adopting.of(source.alias)
            recent += [
                row for app in item.apps for row in reads.sessions(source.alias, app.app_name, limit=RECENT).rows
            ]
        except SourceError as error:
            item.problem = error.message
        shown.append(item)
    recent.sort(key=lambda row: row.update_time, reverse=True)
    edits, _problems = reads.edits(limit=RECENT, seconds=0.2)
    context = {
        "activity": activity(),
        "shown": shown,
        "recent": recent[:RECENT],
        "edits": edits.rows,
        "folders": sources.folders(),
        "refused": sources.refused(),
    }
    return page(request, "home/home.html", context)
