"""Answers what was learnt of the keys of an app. No event is read for it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ..access.actor import Actor
from ..access.shown import is_hidden
from ..domain.key_schema import MOST_KEYS, KeySchema, from_text, is_learnt
from ..domain.session_ref import digest_of, own_session
from ..domain.state import STORED, scope_of
from ..models import SearchKey, SearchOwner
from ..sources import registry
from .index import feed

_SOME: Final = 500  # keys of a query


@dataclass(frozen=True, slots=True)
class Schemas:
    """The schemas of an app, by key: those of the app first, then those of users and sessions, each by name.

    There may be `more` keys than are learnt. `share` says how much of the source was read, from 0 to 1.
    """

    keys: dict[str, KeySchema]
    more: bool
    share: float


def schemas(source: str, app_name: str, *, actor: Actor) -> Schemas:
    """Returns all that was learnt of an app. Raises NotFound."""
    number = _app(source, app_name, actor)
    keys: dict[str, KeySchema] = {}
    for key, text in SearchKey.objects.filter(app_owner_id=number).values_list("name", "learnt"):
        keys[key] = _shown(key, text, actor, app_name)
    in_order = sorted(keys, key=lambda key: (STORED.index(scope_of(key)[0]), key))
    return Schemas({key: keys[key] for key in in_order}, len(keys) == MOST_KEYS, feed.share(source))


def schemas_of(source: str, app_name: str, keys: Sequence[str], *, actor: Actor) -> dict[str, KeySchema]:
    """Returns what was learnt of some keys of an app, those of which anything is known. Raises NotFound."""
    number = _app(source, app_name, actor)
    known: dict[str, KeySchema] = {}
    for start in range(0, len(keys), _SOME):
        rows = SearchKey.objects.filter(app_owner_id=number, name__in=[*filter(is_learnt, keys[start : start + _SOME])])
        known |= {key: _shown(key, text, actor, app_name) for key, text in rows.values_list("name", "learnt")}
    return known


def _app(source: str, app_name: str, actor: Actor) -> int:
    """Returns the number of an app; 0 if nothing of it was read yet. Raises NotFound if the actor may not see it."""
    actor.check_sees(own_session(source, app_name))
    owners = SearchOwner.objects.filter(source__where=registry.identity(source), digest=digest_of(app_name, ""))
    return owners.values_list("pk", flat=True).first() or 0


def _shown(key: str, text: str, actor: Actor, app_name: str) -> KeySchema:
    """Returns a schema without the values that are hidden from an actor."""
    schema = from_text(text)
    if is_hidden(key, [*schema.texts, schema.low, schema.high], actor, app_name):
        schema.hide()
    return schema
