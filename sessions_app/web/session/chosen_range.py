"""The range of events to which a session's page is narrowed: from one event to another, ?from= and ?to= with their ids."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET

from ...access.actor import Actor
from ...domain.errors import Invalid, NotFound
from ...domain.positions import Seq, SeqRange
from ...domain.session_ref import SessionRef
from ...history import overview
from ...reads import statistics, timeline
from ...search import outline
from ...search.outline import Outline, Reached
from ..html.render import page
from ..request import actor
from .updates import number_in

_KEPT: Final = ("kind", "author", "density", "from", "to")


@dataclass(frozen=True, slots=True)
class ChosenRange:
    """A range by the ids of its first and its last event. `between` is None if one of them is `gone`.

    `seconds` is how long it took. `outline` knows the numbers of both events, as far as anybody does, and their turns.
    """

    first: str
    last: str
    between: SeqRange | None = None
    seconds: float = 0.0
    gone: str = ""
    outline: Outline = field(default_factory=Outline)

    @property
    def numbers(self) -> Sequence[int]:
        """Returns the numbers of the first and the last event; nothing if nobody knows them."""
        known = self.outline.numbers
        return [known[seq] for seq in self.between or () if seq in known] if len(known) else []

    @property
    def turns(self) -> int:
        """Returns how many turns have events in it; 0 if nobody knows."""
        first, last = (self.outline.turn_of(seq) for seq in self.between or (None, None))
        return last.number - (first.number if first else 1) + 1 if last else 0


def chosen_range(request: HttpRequest, ref: SessionRef) -> ChosenRange | None:
    """Returns the range that an address names, whichever end is named first; None if it names none. Raises SourceError."""
    ends = [request.GET[name] for name in ("from", "to") if request.GET.get(name)]
    if not ends:
        return None
    stored = timeline.ends_of(ref, ends, actor=actor(request))
    if gone := next((end for end in ends if end not in stored), ""):
        return ChosenRange(ends[0], ends[-1], gone=gone)
    (first, began), (last, ended) = sorted(stored[end] for end in (ends[0], ends[-1]))
    ids = {stored[end][0]: end for end in ends}
    return ChosenRange(ids[first], ids[last], (first, last), max(0.0, ended - began))


def counted(chosen: ChosenRange | None, ref: SessionRef, who: Actor, upto: Reached) -> ChosenRange | None:
    """Returns a range with its outline."""
    if chosen is None or chosen.between is None:
        return chosen
    return replace(chosen, outline=outline.outline(ref, chosen.between, actor=who, upto=upto))


def by_numbers(request: HttpRequest, ref: SessionRef) -> HttpResponse | None:
    """Redirects a link with the seqs of a range, ?first= and ?last=, to the one with the ids of its events. Returns None
    for any other link. Raises Invalid, NotFound."""
    if not {"first", "last"} <= request.GET.keys():
        return None
    query = request.GET.copy()
    for name, number in (("from", "first"), ("to", "last")):
        seq = number_in(query.pop(number)[-1])
        if not 0 <= seq < 2**63:
            raise Invalid(_("The event number in this link isn't valid."))
        query[name] = overview.event_at(ref, Seq(seq), actor=actor(request))
    return redirect(f"{request.path}?{query.urlencode()}")


def query_of(request: HttpRequest, *names: str, **more: str) -> str:
    """Returns what an address says of the events that a page shows, as a query string: “kind=errors&from=e1&to=e9”.

    Names only those of `names`, if there are any; values of `more` take the place of those in the address."""
    asked = {name: request.GET.get(name, "") for name in names or _KEPT} | more
    # Half of a surrogate pair becomes a question mark, because no address can hold it.
    return urlencode({name: value.encode("utf-8", "replace") for name, value in asked.items() if value})


@require_GET
def numbers(request: HttpRequest, **names: str) -> HttpResponse:
    """Renders the tokens and the errors of a range, which take longer than the page should."""
    ref = SessionRef(**names)
    if not request.htmx:  # type: ignore[attr-defined]
        return redirect(f"{reverse('session', kwargs=names)}?{query_of(request)}")
    chosen = chosen_range(request, ref)
    if chosen is None or chosen.between is None:
        raise NotFound(_("This range of events doesn't exist."))
    stats = statistics.stats(ref, chosen.between, actor=actor(request))
    return page(request, "session/chosen_range/_numbers.html", {"stats": stats})
