"""Shows the schema of an app: a page of all keys, and a card of one."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET

from ...agent_view import agent_files
from ...domain.key_schema import MOST_KEYS, MOST_TEXTS, NAME_LENGTH, KeySchema, model_of, range_words, type_word
from ...domain.session_ref import own_session
from ...domain.state import Scope, scope_of
from ...reads import views
from ...search.index import feed
from ...search.schemas import schemas, schemas_of
from ..html.render import data, page
from ..request import actor


@dataclass(frozen=True, slots=True)
class Summary:
    """A key's schema in words. `types` and `texts` are pairs of a word and the number of events, the most frequent first."""

    key: str
    scope: Scope
    schema: KeySchema
    types: list[tuple[str, int]]
    texts: list[tuple[str, int]]
    numbers: str
    readers: Sequence[str]


@require_GET
def schema(request: HttpRequest, source: str, app_name: str) -> HttpResponse:
    """Lists the keys of an app with their schemas."""
    row, _state = views.app(source, app_name, partly=True, actor=actor(request))
    learnt = schemas(source, app_name, actor=actor(request))
    readers = agent_files.readers(own_session(source, app_name), actor=actor(request))
    keys = [_summary(key, each, readers.get(key, ())) for key, each in learnt.keys.items()]
    context = {"source": source, "app": row, "keys": keys, "learnt": learnt, "most": MOST_KEYS}
    return page(request, "checks/schema/schema.html", context)


@require_GET
def model(request: HttpRequest, source: str, app_name: str) -> HttpResponse:
    """Downloads the schema of an app as pydantic models."""
    views.app(source, app_name, partly=True, actor=actor(request))
    learnt = schemas(source, app_name, actor=actor(request))
    response = data(model_of(app_name, learnt.keys), "text/x-python; charset=utf-8")
    response.headers["Content-Disposition"] = 'attachment; filename="state.py"'
    return response


@require_GET
def card(request: HttpRequest, source: str, app_name: str) -> HttpResponse:
    """Shows what is known of one key, as a card beside it."""
    key = request.GET.get("key", "")
    known = schemas_of(source, app_name, [key], actor=actor(request)).get(key, KeySchema())
    readers = agent_files.readers(own_session(source, app_name), actor=actor(request))
    context = {
        "source": source,
        "app_name": app_name,
        "summary": _summary(key[:NAME_LENGTH], known, readers.get(key, ())),
        "share": feed.share(source),
    }
    return page(request, "checks/schema/_card.html", context)


def _summary(key: str, learnt: KeySchema, readers: Sequence[str]) -> Summary:
    types = sorted(learnt.types.items(), key=lambda each: -each[1])
    numbers = "" if learnt.low is None or learnt.high is None else range_words(learnt.low, learnt.high)
    if numbers and not learnt.fractions:
        numbers = _("%(range)s, whole numbers") % {"range": numbers}
    return Summary(
        key,
        scope_of(key)[0],
        learnt,
        [(type_word(name), events) for name, events in types],
        [(text, learnt.texts[text]) for text in learnt.seen][:MOST_TEXTS],
        numbers,
        readers,
    )
