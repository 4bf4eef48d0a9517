"""The page of all edits: who, when, why, old → new, and what became of each; and the last ones, for home."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from django import forms
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django.views.decorators.http import require_GET

from ...access.actor import Actor
from ...domain.errors import Behind
from ...domain.session_ref import SessionRef
from ...domain.state import Change, Scope
from ...history import edit_log
from ...history.edit_log import Only
from ...reads.event_views import EventView
from ...reads.labels import called
from ...search import sharing
from ...search.sharing import Readers, Written
from ...sources import errors
from ..forms import Form
from ..html.render import page
from ..numbers import count
from ..request import actor


@dataclass(frozen=True, slots=True)
class Row:
    """An edit, with the later edit on this page that undid it (`undone`), whether an agent has read it since, if that is
    known, and what its session is called."""

    edit: EventView
    undone: EventView | None
    read: bool | None
    title: str = ""

    @property
    def changes(self) -> list[Change]:
        """Returns its changes, without the keys that already had the value."""
        return [change for change in self.edit.changes if not change.same]


class FilterForm(Form):
    """Selects edits. Its fields are those of `Only`."""

    app = forms.CharField(label=gettext_lazy("App"), required=False, max_length=200)
    by = forms.CharField(label=gettext_lazy("Who"), required=False, max_length=200)
    key = forms.CharField(label=gettext_lazy("Key"), required=False, max_length=200)


@require_GET
def edits(request: HttpRequest) -> HttpResponse:
    """Lists the edits of all sources that ?app=, ?by= and ?key= select, the newest first. htmx gets the rows, or the whole
    list while a source is being read."""
    form = FilterForm(request.GET)
    given = form.read()
    only = Only(**given)
    listed, problems = edit_log.edits(request.GET.get("before"), only=only, actor=actor(request))
    htmx: Any = request.htmx  # type: ignore[attr-defined]
    whole = "edits/log/_list.html" if htmx.target == "edits" else "edits/log/log.html"
    behind = [error for error in problems if isinstance(error, Behind)]
    context = {
        "form": form,
        "query": urlencode({name: value for name, value in given.items() if value}),
        "edits": listed,
        "rows": _rows(listed.rows, only, actor(request)),
        "behind": behind,
        "problems": [errors.shown(error, actor(request)) for error in problems if error not in behind],
        "where": request.get_full_path(),
    }
    return page(request, "edits/log/_rows.html" if htmx and htmx.target != "edits" else whole, context)


def _rows(listed: Sequence[EventView], only: Only, who: Actor) -> list[Row]:
    """Returns the rows of those that are selected, the newest edit first. If the edit that undid an edit was undone itself,
    the first one counts again."""
    undone: dict[tuple[SessionRef, str], tuple[EventView, set[str]]] = {}  # by undone event: by which edit, which keys
    rewound: dict[tuple[SessionRef, str], EventView] = {}
    selected = []
    for view in listed:
        keys = {change.key for change in view.changes}
        if before := str(view.description.actions.get("rewind_before_invocation_id") or ""):
            by = rewound.get((view.ref, view.invocation_id))
        else:
            last, gone = undone.get((view.ref, view.id), (None, set()))
            by = last if keys <= gone else None
        if only.selects(view):
            selected.append((view, by, _written(view)))
        if by is None and before:
            rewound[view.ref, before] = view
        elif by is None:
            undone.setdefault((view.ref, str(view.description.edit.get("undoes"))), (view, set()))[1].update(keys)
    titles = called(dict.fromkeys((view.ref for view, _by, _each in selected), ""), who)
    read = sharing.are_read([written for _view, _by, written in selected if written], actor=who)
    return [Row(view, by, written and read.get(written), titles[view.ref]) for view, by, written in selected]


def _written(edit: EventView) -> Written | None:
    """Returns what an edit wrote that most sessions share. One of a batch stands for all of its edits: none is asked for."""
    change = _widest(edit.changes)
    if change is None or edit.seq is None or edit.description.edit.get("batch"):
        return None
    return Written(edit.ref, edit.seq, edit.timestamp, change.scope)


# --- The last ones, for home: and whether an agent has read each since ------------------------------------------------

RECENT: Final = 6
_SECONDS: Final = 0.2  # for readers what is new


@dataclass(frozen=True, slots=True)
class LastEdit:
    """An edit: the change that it is shown with, what is said of its readers, and where it was read."""

    edit: EventView
    change: Change | None
    read: str
    address: str
    shared: str


def last_edits(actor: Actor) -> list[LastEdit]:
    """Returns the newest edits that an actor may see."""
    page, _problems = edit_log.edits(limit=RECENT, seconds=_SECONDS, actor=actor)
    return [_of(view, actor) for view in page.rows]


def _of(view: EventView, actor: Actor) -> LastEdit:
    change = _widest(view.changes)
    if change is None or view.seq is None:
        return LastEdit(view, change, "", "", "")
    readers = sharing.readers(view.ref, view.seq, view.timestamp, change.scope, actor=actor)
    address = (
        reverse("session", kwargs=readers.first.ref._asdict()) + f"?seq={readers.first.seq}" if readers.first else ""
    )
    return LastEdit(view, change, _read(readers), address, _shared(readers, change.scope))


def _widest(changes: Iterable[Change]) -> Change | None:
    """Returns the first change of the keys that most sessions share."""
    return min(changes, key=lambda change: ("app", "user", "session", "temp").index(change.scope), default=None)


def _read(readers: Readers) -> str:
    if readers.first:
        return _("read by the agent in turn %(n)s") % {"n": count(readers.first.turn)}
    return _("not read yet") if readers.known else ""


def _shared(readers: Readers, scope: Scope) -> str:
    if readers.sessions is None:
        return ""
    words = ngettext("shared by %(n)s session", "shared by %(n)s sessions", readers.sessions)
    return words % {"n": count(readers.sessions, 0 if scope == "app" else sharing.COUNT_LIMIT)}
