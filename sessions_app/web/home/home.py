"""Home: how the agents do, what needs attention, what runs now, and every source with its apps."""

import hashlib
from collections.abc import Collection
from dataclasses import dataclass, field

from django.conf import settings
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.http import require_GET

from ...access import masking
from ...access.actor import Actor
from ...domain.clock import Took
from ...domain.errors import SourceError
from ...reads import lists
from ...reads import newest as reads_newest
from ...search.health import Figures
from ...sources import adopt_job, agents, database, errors, identity, registry
from ..edits.log import last_edits
from ..html.render import page
from ..request import actor
from ..session.updates import fragment
from . import charts
from .figures import Figures as OfPage
from .figures import figures

# --- What runs now, and the newest turns; sent over a websocket, or asked for again and again ------------------------


@dataclass(frozen=True, slots=True)
class Activity:
    """The sessions whose agent is running, the longest silent last, and the newest turns, the newest first.

    `newest` changes with every event. `mask` stands for the rules that hide values in them (masking.digest)."""

    running: list[reads_newest.RunningSession]
    turns: list[reads_newest.NewTurn]
    sources: str  # changes when a source appears, goes away, comes back, or gets its first session
    newest: str
    away: bool  # whether a source did not answer
    mask: int


def activity(who: Actor, away: Collection[str] = ()) -> Activity:
    """Reads the activity of all sources that answer. Does not ask those known to be `away`: waiting for each would take
    long."""
    mask = masking.digest()
    running, turns = [], []
    states: list[tuple[str, bool | None]] = []
    events: list[str] = []
    for source in registry.listed():
        if source.alias in away:
            states.append((source.alias, None))
            continue
        try:
            there = reads_newest.happening(source.alias, actor=who)
            running += there.running
            turns += there.turns
            events.append(there.newest)
            states.append((source.alias, bool(there.turns) or lists.has_sessions(source.alias, actor=who)))
        except SourceError:
            states.append((source.alias, None))
    running.sort(key=lambda session: session.flight.last, reverse=True)
    turns.sort(key=lambda turn: turn.last.timestamp, reverse=True)
    return Activity(
        running,
        turns[: reads_newest.TURNS],
        _digest(states),
        _digest(events),
        any(has_any is None for _alias, has_any in states),
        mask,
    )


def _digest(of: object) -> str:
    return hashlib.sha256(repr(of).encode()).hexdigest()[:16]


def parts(activity: Activity) -> dict[str, str]:
    """Returns home's fragments by name, and digests of the list of sources, the newest events and the rules of masking."""
    fragments = {name: fragment(f"home/home/_{name}.html", activity=activity) for name in ("running", "feed")}
    return {**fragments, "sources": activity.sources, "newest": activity.newest, "mask": str(activity.mask)}


@require_GET
def feed(request: HttpRequest) -> HttpResponse:
    """Returns what the websocket would push, for a page without a websocket."""
    return JsonResponse(parts(activity(actor(request))), headers={"Cache-Control": "private, no-cache"})


# --- The page ---------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Shown:
    """A source with its apps, or with its problem."""

    source: registry.Source
    apps: list["AppOf"] = field(default_factory=list)
    more: bool = False  # apps than these
    problem: str = ""
    adopted: bool = True
    read_only: bool = False
    adoption: adopt_job.Adoption | None = None
    copy_of: str = ""


@dataclass(frozen=True, slots=True)
class AppOf:
    """An app with its figures in the range of time, and its turns as bars."""

    row: lists.AppRow
    figures: Figures | None
    bars: str
    worse: bool

    @property
    def p95(self) -> Took | None:
        """Returns the time that 95 % of its turns did not exceed."""
        return self.figures.percentile(0.95) if self.figures else None


@require_GET
def home(request: HttpRequest) -> HttpResponse:
    """Shows the charts of ?range=, what needs attention, and lists the sources and their apps. htmx gets the panels."""
    mask = masking.digest()
    edits = last_edits(actor(request))  # first: it reads what is new, and does not wait long for it
    shown_figures = figures(request)
    shown = []
    who = actor(request)
    for source in registry.listed():
        if not who.has("read", source.alias):
            continue
        item = Shown(source)
        try:
            apps = lists.apps(source.alias, actor=who)
            item.apps, item.more = [_app(row, shown_figures) for row in apps.rows], apps.next is not None
            item.read_only = database.is_read_only(source.alias)
            item.copy_of = identity.copy_of(source.alias) if who.runs_everything else ""
            item.adopted, item.adoption = database.is_adopted(source.alias), adopt_job.of(source.alias)
        except SourceError as error:
            item.problem = errors.shown(error, who)
        if item.apps or item.problem or who.sees_all_of(source.alias):
            shown.append(item)
    context = {
        "mask": mask,
        "activity": activity(actor(request)),
        "shown": shown,
        "figures": shown_figures,
        "edits": edits,
        "folders": registry.folders() if who.runs_everything else [],
        "startable": agents.without_sessions() if who.runs_everything and not settings.READ_ONLY else [],
        "refused": registry.refused() if who.runs_everything else [],
    }
    is_asked_again = request.htmx  # type: ignore[attr-defined]
    return page(request, f"home/home/{'_panels' if is_asked_again else 'home'}.html", context)


def _app(row: lists.AppRow, shown: OfPage) -> AppOf:
    name = row.source, row.app_name
    of_app, before = shown.apps.get(name), shown.before.get(name)
    now, was = of_app and of_app.whole, before and before.whole
    return AppOf(row, now, charts.outline(of_app.turns) if of_app else "", charts.is_worse(now, was))
