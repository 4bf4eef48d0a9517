"""The session page: the timeline and the state."""

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_GET

from .. import queued, reads, sources
from ..filters import FILTERS
from ..keys import SessionKey
from .render import page
from .targets import of_session
from .timeline import invocations


@require_GET
def session(request: HttpRequest, **names: str) -> HttpResponse:
    """The newest events, and the merged state by scope."""
    key = SessionKey(**names)
    view = reads.session(key)
    context = {
        "view": view,
        "key": key,
        "revision": view.revision,
        "running": reads.in_flight(key),
        "queued": queued.of_session(key),
        "numbered": sources.is_adopted(key.source),
        "target": of_session(view),
        **_timeline(request, key),
    }
    return page(request, "session/session.html", context)


@require_GET
def events(request: HttpRequest, **names: str) -> HttpResponse:
    """Earlier events, for the top of the timeline; as a page of its own where there are no scripts."""
    key = SessionKey(**names)
    if not request.htmx:  # type: ignore[attr-defined]
        return session(request, **names)
    return page(request, "session/_events.html", {"key": key, **_timeline(request, key)})


@require_GET
def stats(request: HttpRequest, **names: str) -> HttpResponse:
    """The session's numbers, which take longer than the page may."""
    key = SessionKey(**names)
    return page(request, "session/_stats.html", {"key": key, "stats": reads.stats(key), **_filters(request)})


def _timeline(request: HttpRequest, key: SessionKey) -> dict[str, object]:
    chosen = _filters(request)
    seq = reads.newest_seq(key)  # first: what is appended meanwhile comes twice to a page that follows, and not never
    found = reads.events(key, before=request.GET.get("before"), kind=chosen["kind"], author=chosen["author"])
    return {
        **chosen,
        "seq": seq,
        "invocations": invocations(found.rows),
        "earlier": found.next,
        "filters": list(FILTERS),
    }


def _filters(request: HttpRequest) -> dict[str, str]:
    return {"kind": request.GET.get("kind", ""), "author": request.GET.get("author", "")}
