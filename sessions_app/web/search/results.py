"""The page “Sessions”: what a query selects over all sources, as a table with a histogram and a preview."""

import json
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.utils.translation import pgettext
from django.views.decorators.http import require_GET

from ...access.actor import Actor
from ...domain.errors import Invalid, Slow
from ...domain.mask_patterns import DOTS
from ...domain.positions import NO_SEQ, Seq
from ...domain.session_ref import SessionRef
from ...domain.shorten import words
from ...reads import timeline, views
from ...reads.event_views import EventView
from ...reads.labels import Labels, labels_of
from ...reads.paging import write_cursor
from ...search import labels
from ...search.completing import names_of_key
from ...search.conditions import FILTERS
from ...search.instead import MANY, Unmatched, Way, instead
from ...search.language import parse, with_filter, without
from ...search.outline import Reached, outline, reached
from ...search.results import COUNTED, MATCHED, Results, Row, by_status, search
from ...search.saved import watching
from ...search.saved.views import SavedView
from ...search.selecting import HASTY, PATIENT, path_of, patience
from ...search.tree import Query, State, leaves, quoted
from ..html.render import page
from ..html.state_panel import Group, of_session, who_wrote
from ..request import actor, person_of
from ..session.timeline import TurnRows, grouped, note_gaps
from ..session.updates import number_in
from . import columns
from .columns import Column, Shape, shape_of
from .histogram import chosen_range
from .params import LINKED, Asked, pieces, read

_OFFERED: Final = 200  # tags that the field completes
_DIALS: Final = ("from", "to", "move", "choose")  # what a form asks for; the answer is another address


@dataclass(frozen=True, slots=True)
class Head:
    """The head of a column: where it sorts to, and how the table is sorted by it now."""

    column: Column
    address: str
    order: str


@dataclass(frozen=True, slots=True)
class Shown:
    """A session in the table: its row and its cells, its status, where it opens and what previews it.

    `error` is its last error, if that is what it stands there for. `is_new` says that it began to match the view since the
    person last looked."""

    row: Row
    cells: list[tuple[Column, Any]]
    status: Shape
    address: str
    preview: str
    error: str
    is_new: bool


@require_GET
def results(request: HttpRequest) -> HttpResponse:
    """Shows the sessions that ?q= selects. htmx gets the results, or with ?page= the next rows.

    A search that takes long is given up, and ?long=1 lets it go on longer."""
    asked = read(request)
    if any(name in request.GET for name in _DIALS):
        return redirect(_dialled(asked, request.GET).address)
    try:
        with patience(PATIENT if "long" in request.GET else HASTY):
            return _results(request, asked)
    except Slow as error:
        if "page" in request.GET:
            raise
        longer = "" if "long" in request.GET else f"{asked.address}{'&' if '?' in asked.address else '?'}long=1"
        template = "search/results/_slow.html" if request.htmx else "search/results/results.html"  # type: ignore[attr-defined]
        return page(request, template, {"asked": asked, "slow": error.message, "longer": longer})


def _results(request: HttpRequest, asked: Asked) -> HttpResponse:
    query, cursor = asked.query, request.GET.get("page")
    keys = tuple(column.key for column in asked.columns if column.key)
    selected = search(query, actor=actor(request), sort=asked.sort, columns=keys, cursor=cursor)
    is_next = request.htmx and cursor  # type: ignore[attr-defined]
    person = person_of(request)
    is_looked_at = asked.view and not asked.differs and not is_next
    news = watching.looked(asked.view, person) if asked.view and is_looked_at else set()
    context: dict[str, Any] = {
        "asked": asked,
        "query": query,
        "results": selected,
        "rows": [_shown(row, asked, query, news) for row in selected.rows],
        "more": asked.continued(selected.next),
    }
    if is_next:
        return page(request, "search/results/_rows.html", context)
    context |= {
        "is_watched": asked.view and asked.view.is_watched_by(person),
        "pieces": list(pieces(asked.text, query)),
        "wrong": [(asked.text[each.start : each.end], each.message) for each in query.problems],
        "meant": _meant(asked, query, actor(request)),
        "heads": list(_heads(asked)),
        "menu": _menu(asked),
        "is_chosen": chosen_range(query.tree) != (None, None),
        "statuses": list(_statuses(asked, selected, actor(request))),
        "known_tags": labels.known_tags("", _OFFERED, actor=actor(request)),
        "views": SavedView.objects.listed(person),
        **_instead(asked, query, selected, actor(request)),
    }
    template = "search/results/_results.html" if request.htmx else "search/results/results.html"  # type: ignore[attr-defined]
    return page(request, template, context)


def _dialled(asked: Asked, given: QueryDict) -> Asked:
    """Returns what the histogram or the menu of columns asks for."""
    if "from" in given or "to" in given:
        return asked.within(_seconds(given.get("from", "")), _seconds(given.get("to", "")))
    names = [*given.getlist("col"), columns.key_column(given.get("add", ""))]
    return asked.with_columns(columns.moved(names, given.get("move", "")))


def _seconds(text: str) -> float | None:
    try:
        seconds = float(text)
    except ValueError:
        return None
    return seconds if 0 <= seconds < 2**33 else None


def _shown(row: Row, asked: Asked, query: Query, news: Collection[SessionRef]) -> Shown:
    """Returns where a session opens: at the line that matched, otherwise at its last error, if it has failed or the query
    is about errors."""
    is_about_errors = query.tree is not None and any(
        getattr(leaf, "name", "") == "error" for leaf in leaves(query.tree)
    )
    error = row.error if row.status == "failed" or is_about_errors else ""
    seq: Seq | None = row.match.seq if row.match else row.error_seq if error else None
    session, preview = (reverse(name, kwargs=row.ref._asdict()) for name in ("session", "preview"))
    address = session + (f"?seq={seq}" if seq else "")
    shown = row.matched or ((seq,) if seq else ())
    preview += f"?{urlencode({'seq': shown}, doseq=True)}" if shown else ""
    cells = [(column, column.value(row)) for column in asked.columns]
    return Shown(row, cells, shape_of(row), address, preview, error, row.ref in news)


def _heads(asked: Asked) -> Iterator[Head]:
    orders = {"": "ascending", "-": "descending"}
    for column in asked.columns:
        is_sorted = bool(column.sort) and asked.sort.removeprefix("-") == column.sort
        order = orders[asked.sort[: -len(column.sort)]] if is_sorted else ""
        yield Head(column, asked.sorted_by(column).address if column.sort else "", order)


def _menu(asked: Asked) -> list[tuple[Column, bool]]:
    """Returns the columns that can be chosen: those that are shown, in their order, and the others."""
    others = [each for each in columns.built_in().values() if each not in asked.columns]
    return [(each, True) for each in asked.columns] + [(each, False) for each in others]


def _statuses(asked: Asked, selected: Results, who: Actor) -> Iterator[tuple[str, str, bool, int]]:
    """Yields links to the query with another status: words, address, whether this is the query now, and how many sessions
    it selects; 0 also if counting them would take long."""
    names = {
        "": pgettext("status", "Any status"),
        "failed": pgettext("status", "Failed"),
        "waiting": pgettext("status", "Waiting"),
        "running": pgettext("status", "Running"),
        "stuck": pgettext("status", "Stuck"),
        "stopped": pgettext("status", "Stopped"),
        "idle": pgettext("status", "Done"),
    }
    if len(asked.text) > LINKED:
        return
    tree, rest = asked.query.tree, without(asked.text, "status")
    whole = asked.with_text(rest).query
    counted = by_status(whole, actor=who) if selected.total <= COUNTED else Counter()
    for status, name in names.items():
        text = with_filter(rest, "status", status) if status else rest
        is_this = tree == parse(text, now=asked.now, zone=asked.zone).tree
        yield name, asked.with_text(text).address, is_this, counted[status]


def _meant(asked: Asked, query: Query, who: Actor) -> Asked | None:
    """Returns the query with a condition on a key in place of its first mistake, if that is a filter that is called like a
    key: `booking_step = choose` for `booking_step:choose`."""
    if not query.problems or len(asked.text) > LINKED:
        return None
    start, end = query.problems[0].start, query.problems[0].end
    name, colon, value = asked.text[start:end].partition(":")
    if not colon or name.lower() in FILTERS:
        return None
    keys = (scope + name for scope in ("", "user:", "app:"))
    key = next((key for key in keys if names_of_key(key, actor=who)), "")
    return asked.with_text(f"{asked.text[:start]}{key} = {value}{asked.text[end:]}") if key else None


@dataclass(frozen=True, slots=True)
class Reason:
    """A condition that no session matches, in words; and `offer`, what the links to other conditions are, in words, too.
    `earlier` are links, too: to the sessions in which the key had this value once."""

    words: str
    offer: str
    ways: list[tuple[Way, str]]
    earlier: list[tuple[Way, str]]


def _instead(asked: Asked, query: Query, selected: Results, who: Actor) -> dict[str, Any]:
    """Returns what to say where nothing was selected: why, and what finds sessions instead, each with its address."""
    if selected.rows or not query.tree or len(asked.text) > LINKED:
        return {}
    with suppress(Slow):
        offered = instead(asked.text, query, parse=lambda text: asked.with_text(text).query, actor=who)
        return {
            "respelt": asked.with_text(offered.respelt) if offered.respelt else None,
            "reasons": [
                Reason(*_why(each), _linked(each.ways, asked), _linked([each.earlier] if each.earlier else [], asked))
                for each in offered.unmatched
            ],
            "without": _linked(offered.without, asked),
            "alone": _linked(offered.alone, asked),
            "many": MANY,
        }
    return {}


def _linked(ways: Sequence[Way], asked: Asked) -> list[tuple[Way, str]]:
    return [(way, asked.with_text(way.query).address) for way in ways]


def _why(lost: Unmatched) -> tuple[str, str]:
    node, are_dots = lost.node, [way.part for way in lost.ways] == [quoted(DOTS)]
    if isinstance(node, State) and not lost.is_held:
        return _("No session has the key %(key)s.") % {"key": words(path_of(node), 60)}, _("These match sessions:")
    if not isinstance(node, State) or node.op != "=" or are_dots:
        offer = _("These values are there:") if lost.is_held else _("These match sessions:")
        return _("No session matches %(part)s.") % {"part": words(lost.part, 60)}, offer
    names = {"key": words(path_of(node), 60), "value": words(json.dumps(node.values[0], ensure_ascii=False), 60)}
    if node.ever:
        return _("%(key)s was never %(value)s.") % names, _("It was:")
    return _("%(key)s isn't %(value)s in any session.") % names, _("It is:")


# --- The preview beside the table -------------------------------------------------------------------------------------

_BEFORE: Final = 4  # events up to the one that matched
_AFTER: Final = 3
_KEYS: Final = 12  # of each scope


@dataclass(frozen=True, slots=True)
class Scope:
    """Some keys of a scope: those that were written last."""

    group: Group
    more: int


@require_GET
def preview(request: HttpRequest, **names: str) -> HttpResponse:
    """Renders a session in short: around the event ?seq=, with several of them these events, or at its end."""
    ref = SessionRef(**names)
    if not request.htmx:  # type: ignore[attr-defined]
        return redirect(reverse("session", kwargs=names))
    who = actor(request)
    view = views.session(ref, partly=True, actor=who)
    seqs = [Seq(number_in(each)) for each in request.GET.getlist("seq")[:MATCHED]]
    if not all(0 <= seq < 2**63 for seq in seqs):
        raise Invalid(_("The event number in this link isn't valid."))
    upto = reached(ref, actor=who)
    events = _with_first_lines(ref, _events(ref, seqs, who), upto, who)
    turns = grouped(ref, events, who, upto=upto)
    note_gaps(turns)
    context: dict[str, Any] = {
        "ref": ref,
        "view": view,
        "matched": seqs,
        "turns": turns,
        "later": _later(turns, upto),
        "scopes": _scopes(view, who),
        "tags": labels_of([ref], actor=who).get(ref, Labels()).tags,
    }
    return page(request, "search/results/_preview.html", context)


def _events(ref: SessionRef, seqs: Sequence[Seq], who: Actor) -> list[EventView]:
    if not seqs:
        return timeline.events(ref, limit=_BEFORE + _AFTER, actor=who).rows
    if len(seqs) > 1:
        return timeline.events_at(ref, seqs, actor=who)
    (seq,) = seqs
    before = timeline.events(ref, before=write_cursor(seq + 1), limit=_BEFORE, actor=who)
    return before.rows + timeline.events_after(ref, seq, limit=_AFTER, actor=who).rows


def _with_first_lines(ref: SessionRef, events: list[EventView], upto: Reached, who: Actor) -> list[EventView]:
    """Returns events with the first one of each of their turns, which has the user's words."""
    seqs = [event.seq for event in events if event.seq]
    known = outline(ref, (), also=seqs, actor=who, upto=upto)
    begun = {turn.seq for seq in seqs if (turn := known.turn_of(seq))}
    first = timeline.events_at(ref, begun.difference(seqs), actor=who)
    return sorted([*first, *events], key=lambda event: event.seq or 0) if first else events


def _later(turns: Sequence[TurnRows], upto: Reached) -> int:
    """Returns how many events of the session come after the rows, if their numbers are known."""
    lines = turns[-1].invocations[-1].lines if turns else []
    number = lines[-1].numbers.get(lines[-1].event.seq or NO_SEQ) if lines else None
    return max(0, upto.events - number) if number else 0


def _scopes(view: views.SessionView, who: Actor) -> list[Scope]:
    """Returns the session's own keys first; scopes without keys are left out."""
    groups = of_session(view, who_wrote(view, who), whole=False).groups
    scopes = []
    for group in groups:
        newest = sorted(group.rows, key=lambda row: -row.writer.timestamp if row.writer else 0.0)[:_KEYS]
        rows = [row for row in group.rows if row in newest]
        if rows or group.size:
            shown = Group(group.scope, rows, size=group.size)
            scopes.append(Scope(shown, group.more + len(group.rows) - len(rows)))
    return scopes
