"""Compares two runs event by event, or two moments of state (compare_state.py). Without another session, it offers some."""

from dataclasses import dataclass
from typing import Any, Final

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.http import require_GET

from ...domain.errors import Error
from ...domain.session_ref import SessionRef
from ...http.problems import status_of
from ...reads import views
from ...search.in_numbers import Numbers
from ..html.render import page
from ..html.targets import actor
from ..session.runs import Runs, in_numbers_of, read_starts, runs, why, write_starts
from .aligned import FILTERS, blocks
from .given import given
from .other_run import NOW, choices, is_link, other
from .state import compare_state

_GIVEN: Final = "given"  # chosen like a filter: what the models got, instead of the events


@dataclass(frozen=True, slots=True)
class Head:
    """A session at the top: its figures, and for the second one how they differ from those of the first."""

    view: views.SessionView
    numbers: Numbers | None
    took: float | None = None
    tokens: int | None = None


@require_GET
def compare(request: HttpRequest, **names: str) -> HttpResponse:
    """Shows two runs beside each other; with ?a= or ?b=, two moments; without a second session, those to choose from."""
    if "a" in request.GET or "b" in request.GET:
        return compare_state(request, **names)
    ref, who = SessionRef(**names), actor(request)
    view = views.session(ref, partly=True, actor=who)  # raises NotFound
    text = request.GET.get("find", "").strip()
    asked = text if is_link(text) else request.GET.get("with", "").strip()
    if not asked:
        return page(request, "compare/compare/choose.html", {"ref": ref, "view": view, **choices(request, ref)})
    try:
        second = views.session(other(ref, asked, who)[0], partly=True, actor=who)
    except Error as error:
        return _refused(request, view, asked, error)
    if is_link(text):
        return redirect(_address(ref, second.ref) + "#first-divergence")
    return page(request, "compare/compare/compare.html", _context(request, view, second))


def _refused(request: HttpRequest, view: views.SessionView, asked: str, error: Error) -> HttpResponse:
    context = {"ref": view.ref, "view": view, **choices(request, view.ref), "find": asked, "fault": error.message}
    return page(request, "compare/compare/choose.html", context, status_of(error))


def _context(request: HttpRequest, left: views.SessionView, right: views.SessionView) -> dict[str, Any]:
    who, only = actor(request), request.GET.get("only", "")
    both = runs(left.ref, right.ref, read_starts(request.GET.get("page", "")), actor=who)
    pairs = both.alignment.pairs
    counts = {name: sum(map(is_one, pairs)) for name, is_one in FILTERS.items()}
    address, here = _address(left.ref, right.ref), {"page": request.GET.get("page", "")}
    return {
        "ref": left.ref,
        "runs": both,
        "heads": _heads(both, left, right, request),
        "blocks": [] if only == _GIVEN else list(blocks(both, FILTERS.get(only))),
        "given": given(both, actor=who) if only == _GIVEN else None,
        "first": both.alignment.first,
        "why": why(both, actor=who),
        "only": only if only in (*FILTERS, _GIVEN) else "",
        "counts": counts,
        "all": _address(left.ref, right.ref, **here),
        "filters": {name: _address(left.ref, right.ref, **here, only=name) for name in (*FILTERS, _GIVEN)},
        "swap": _address(right.ref, left.ref, only=only) + "#first-divergence",
        "states": f"{address}&{urlencode({'a': NOW, 'b': NOW})}",
        "link": _address(left.ref, right.ref, **here, only=only),
        "from_start": _address(left.ref, right.ref, page="0"),
        "on": _address(left.ref, right.ref, page=write_starts(both), only=only) if both.more else "",
    }


def _address(left: SessionRef, right: SessionRef, **given: str) -> str:
    asked = {"with": reverse("session", kwargs=right._asdict())} | {name: text for name, text in given.items() if text}
    return f"{reverse('compare', kwargs=left._asdict())}?{urlencode(asked)}"


def _heads(both: Runs, left: views.SessionView, right: views.SessionView, request: HttpRequest) -> list[Head]:
    one, other = (in_numbers_of(run, actor(request)) for run in (both.left, both.right))
    if not (one and other):
        return [Head(left, one), Head(right, other)]
    return [Head(left, one), Head(right, other, other.took.seconds - one.took.seconds, other.tokens - one.tokens)]
