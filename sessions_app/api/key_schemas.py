"""The schema of an app over REST, as JSON and as pydantic models."""

from django.http import HttpRequest, HttpResponse
from ninja import Router, Schema
from pydantic import Field

from ..domain.key_schema import model_of
from ..reads import views
from ..search.schemas import Schemas, schemas
from .authorize import actor_of, source_of
from .bodies import answer, headers_of

router = Router()
SCHEMA: str = "/apps/{plain:app_name}/schema"
_PYTHON = {"text/x-python": {"schema": {"type": "string"}}}


class Key(Schema):
    """The values that a key has had. Numbers count events."""

    key: str
    events: int = Field(description="that wrote the key or removed it")
    removed: int
    types: dict[str, int] = Field(description="string, number, boolean, null, array, object")
    strings: dict[str, int] = Field(description="empty if there are many or long ones")
    options: list[str] = Field(description="the strings, if they are few and repeated")
    low: float | None
    high: float | None
    fractions: bool
    agents: dict[str, int]
    people: dict[str, int]
    hidden: bool = Field(description="only types are given: it seems to be a secret, or is hidden from the token")


class KeySchemas(Schema):
    """The keys of an app: its own, those of users, those of sessions."""

    items: list[Key]
    more: bool = Field(description="the app has more keys than are learnt")
    indexed: float = Field(description="how much of the source was read, from 0 to 1")


@router.get(SCHEMA, response=KeySchemas, summary="Schema of an app, learnt from its events")
def of_app(request: HttpRequest, app_name: str, source: str | None = None) -> HttpResponse:
    """Returns what values each key has had."""
    learnt = _learnt(request, app_name, source)
    items = [
        {
            "key": key,
            "events": each.events,
            "removed": each.removed,
            "types": each.types,
            "strings": each.texts,
            "options": each.options,
            "low": each.low,
            "high": each.high,
            "fractions": each.fractions,
            "agents": each.agents,
            "people": each.people,
            "hidden": each.hidden,
        }
        for key, each in learnt.keys.items()
    ]
    return answer({"items": items, "more": learnt.more, "indexed": learnt.share})


@router.get(
    SCHEMA + "/model",
    response={200: None},
    summary="Schema of an app, as pydantic models",
    openapi_extra={"responses": {200: {"content": _PYTHON}}},
)
def model(request: HttpRequest, app_name: str, source: str | None = None) -> HttpResponse:
    """Returns a Python file with a model for each scope."""
    text = model_of(app_name, _learnt(request, app_name, source).keys)
    return HttpResponse(text.encode(errors="replace"), "text/x-python; charset=utf-8", headers=headers_of(None))


def _learnt(request: HttpRequest, app_name: str, source: str | None) -> Schemas:
    alias, actor = source_of(request, app_name, source), actor_of(request)
    views.app(alias, app_name, partly=True, actor=actor)
    return schemas(alias, app_name, actor=actor)
