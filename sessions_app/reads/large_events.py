"""Reads an event that is too large to be read whole, such as one with a PDF of 20 MB: all of its fields, and of each
long value only the start.

    {"author": "user", "content": {"parts": [{"text": "read this"}, {"inline_data": {"data": "…", "display_name": "a"}}]}}

The database takes the event apart, level by level, so that nothing long reaches Python."""

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, NamedTuple

from django.db import DataError
from django.utils.translation import gettext as _

from ..access.actor import Actor
from ..access.shown import shown
from ..domain import credentials
from ..domain.description import MORE, Cut, Path
from ..domain.errors import NotFound
from ..domain.json_values import read_stored_or_none
from ..domain.mask_patterns import DOTS
from ..domain.session_ref import SessionRef
from ..sources import database, dialect
from ..sources.dialect import Either, each_row, if_json

SHOWN: Final = 20_000  # characters of a long text; a shorter list or object is read as it is
_BEYOND: Final = 300  # characters of a text that are only read to see in full what rules hide
_ITEMS: Final = 300  # of a list or an object that is longer than SHOWN
_KEYS: Final = 5_000  # SQLite would have to read all keys to leave some out: an object with more is left empty
_DEEPEST: Final = 20  # levels
_MOST: Final = 4_000_000  # characters that are read of one event
_PIECE: Final = 12_000_000  # characters of a text that are read at once; base64 comes in fours
_EVENT: Final = "FROM events WHERE app_name = %s AND user_id = %s AND session_id = %s AND id = %s"
_VALID: Final = f"(SELECT {if_json('event_data')} AS event_data {_EVENT})"
# SQLite takes some 100 bytes of memory for each value that it reads. Their number is at most that of the commas, some
# of which may be in texts: an event with a table of a million cells in a text counts as one with a million values.
_MOST_VALUES: Final = 1_000_000
_DELTA: Final = ("actions", "state_delta")

_FEW: Final = 5_000  # values of an event that are read one by one
_TREE: Final = f"""SELECT tree.id, tree.parent,
        CASE typeof(tree.key) WHEN 'text' THEN CAST(tree.key AS BLOB) ELSE tree.key END, tree.type,
        CASE tree.type WHEN 'text' THEN CAST(substr(tree.atom, 1, {SHOWN + _BEYOND}) AS BLOB) ELSE tree.atom END,
        length(tree.atom)
    FROM {_VALID} JOIN json_tree(event_data) AS tree LIMIT {_FEW + 1}"""
# Each yields the values of an event from the outside in: path, type, the value if it is short, its length.
_LEVELS: Final = Either(
    sqlite=f"""WITH RECURSIVE opened (path, depth, type, value, width) AS (
        SELECT json_array(), 0, json_type(event_data), event_data, (SELECT count(*) FROM json_each(event_data))
        FROM {_VALID} WHERE event_data IS NOT NULL
        UNION ALL SELECT json_insert(o.path, '$[#]', e.key), o.depth + 1, e.type, e.value,
            CASE WHEN e.type = 'object' AND length(e.value) > {SHOWN} THEN (SELECT count(*) FROM json_each(e.value)) END
        FROM opened AS o JOIN json_each(
            CASE WHEN o.type IN ('object', 'array') AND (o.depth = 0 OR length(o.value) > {SHOWN}) THEN o.value ELSE '[]' END
        ) AS e WHERE o.depth < {_DEEPEST} AND CASE o.type WHEN 'object' THEN o.width <= {_KEYS} ELSE e.key < {_ITEMS} END)
        SELECT CAST(path AS BLOB), type, CASE
            WHEN type = 'text' THEN CAST(substr(value, 1, {SHOWN + _BEYOND}) AS BLOB)
            WHEN type NOT IN ('object', 'array') THEN value
            WHEN depth > 0 AND length(value) <= {SHOWN} THEN CAST(value AS BLOB) END, length(value) FROM opened""",
    postgresql=f"""WITH RECURSIVE opened (path, depth, type, value) AS (
        SELECT '[]'::jsonb, 0, jsonb_typeof(event_data::jsonb), event_data::jsonb {_EVENT}
        UNION ALL SELECT o.path || e.key, o.depth + 1, jsonb_typeof(e.value), e.value
        FROM opened AS o, LATERAL (
            SELECT jsonb_build_array(key) AS key, value FROM
                jsonb_each(CASE o.type WHEN 'object' THEN o.value ELSE '{{}}' END)
            UNION ALL SELECT jsonb_build_array(n - 1), value FROM
                jsonb_array_elements(CASE o.type WHEN 'array' THEN o.value ELSE '[]' END) WITH ORDINALITY AS a (value, n)
            LIMIT {_ITEMS}) AS e
        WHERE o.type IN ('object', 'array') AND (o.depth = 0 OR pg_column_size(o.value) > {SHOWN}) AND o.depth < {_DEEPEST})
        SELECT path::text, CASE type WHEN 'string' THEN 'text' WHEN 'boolean' THEN value::text ELSE type END, CASE
            WHEN type = 'string' THEN left(value #>> '{{}}', {SHOWN + _BEYOND})
            WHEN type NOT IN ('object', 'array') OR (depth > 0 AND pg_column_size(value) <= {SHOWN}) THEN value::text END,
            CASE type WHEN 'string' THEN length(value #>> '{{}}') ELSE 0 END FROM opened""",
)


@dataclass(frozen=True, slots=True)
class Beginning:
    """What is read of an event. `cut` has the keys of its delta whose values are not whole."""

    event: dict[str, Any]
    cut: frozenset[str]


def beginning_of(ref: SessionRef, event_id: str, actor: Actor) -> Beginning | None:
    """Returns what an actor may see of a large event; None if its JSON cannot be read, or has too many values for that.
    Expects the source to be open."""
    database.get(ref.source)
    try:
        event, cut = _put_together(_READ.on(ref.source)(ref.source, [*ref[1:], event_id]))
    except DataError:  # a column of type json may hold what jsonb does not: U+0000
        return None
    if not isinstance(event, dict):
        return None
    return Beginning(_ended(shown(event, actor, ref.app_name, "event"), event), cut)


class _Value(NamedTuple):
    """A value of an event, whose path is that of a list or an object before it. An `opened` one is empty, and its
    content follows; `whole` says whether all of it does."""

    path: Path
    value: Any
    opened: bool = False
    whole: bool = True


def _put_together(values: Iterable[_Value]) -> tuple[Any, frozenset[str]]:
    """Returns an event, and the keys of its delta whose values are not whole."""
    opened: dict[Path, Any] = {}
    cut = set()
    event: Any = None
    for path, value, is_opened, whole in values:
        if path[: len(_DELTA)] == _DELTA and len(path) > len(_DELTA) and not whole:
            cut.add(str(path[len(_DELTA)]))
        above = opened.get(path[:-1])
        if not path:
            event = value
        elif isinstance(above, list):
            above.append(value)
        elif isinstance(above, dict):
            above[str(path[-1])] = value
        else:
            continue
        if is_opened:
            opened[path] = value
    return event, frozenset(cut)


def _commas(source: str, names: list[str]) -> int:
    with closing(each_row(source, f"SELECT CAST(event_data AS BLOB) {_EVENT}", names)) as rows:
        return sum(text.count(b",") for (text,) in rows)


def _few_values(source: str, names: list[str]) -> list[_Value] | None:
    """Returns the values of an event on SQLite, which goes through it once; None if they are more than _FEW."""
    values: list[_Value] = []
    paths: dict[int, Path] = {}
    with closing(each_row(source, _TREE, names)) as rows:
        for own, above, key, kind, stored, length in rows:
            if len(values) == _FEW:
                return None
            path = () if above is None else (*paths[above], _text(key))
            if kind in ("object", "array"):
                paths[own] = path
                values.append(_Value(path, {} if kind == "object" else [], opened=True))
            else:
                values.append(_single(path, kind, stored, length))
    return values


def _values_of_file(source: str, names: list[str]) -> Iterable[_Value]:
    if _commas(source, names) >= _MOST_VALUES:
        return ()
    few = _few_values(source, names)
    return _values(source, names) if few is None else few


def _values(source: str, names: list[str]) -> Iterator[_Value]:
    """Yields the values of an event from the outside in, up to _MOST characters."""
    left = _MOST
    with closing(each_row(source, _LEVELS.on(source), names)) as rows:
        for stored_path, kind, stored, length in rows:
            path = tuple(json.loads(_text(stored_path)))
            left -= len(stored) if isinstance(stored, bytes | str) else 0
            if left < 0:
                return
            if kind not in ("object", "array"):
                yield _single(path, kind, stored, length)
            elif stored is None:
                yield _Value(path, {} if kind == "object" else [], opened=True, whole=False)
            else:
                yield _Value(path, read_stored_or_none(_text(stored)))


_READ: Final[Either[Callable[[str, list[str]], Iterable[_Value]]]] = Either(postgresql=_values, sqlite=_values_of_file)


def _single(path: Path, kind: str, stored: Any, length: int) -> _Value:
    if kind == "text":
        text = _text(stored)
        return _Value(path, _cut(text, length, path), whole=False) if length > SHOWN else _Value(path, text)
    if kind in ("true", "false"):
        return _Value(path, kind == "true")
    if isinstance(stored, str):  # PostgreSQL returns the rest as JSON
        stored = read_stored_or_none(stored)
    return _Value(path, stored, whole=kind != "integer" or isinstance(stored, int))  # SQLite rounds what has 20 digits


def _text(stored: Any) -> Any:
    """SQLite treats half of a surrogate pair as a character, and Python's driver would fail on its bytes."""
    return stored.decode("utf-8", "surrogatepass") if isinstance(stored, bytes) else stored


def _cut(text: str, length: int, path: Path) -> Cut:
    # Half of a credential's JSON shows its secrets, and nothing could find them.
    is_hidden = path[-2:] == ("inline_data", "data") or credentials.may_hold(text)
    return Cut.of("" if is_hidden else text, length, path)


def beginning_in(value: Any, path: Path = ()) -> Any:
    """Returns an event that is already in memory in the form in which `beginning_of` reads it."""
    if isinstance(value, dict):
        return {name: beginning_in(each, (*path, name)) for name, each in islice(value.items(), _ITEMS)}
    if isinstance(value, list):
        return [beginning_in(each, (*path, number)) for number, each in enumerate(value[:_ITEMS])]
    return _cut(value[:SHOWN], len(value), path) if isinstance(value, str) and len(value) > SHOWN else value


def _ended(seen: Any, read: Any) -> Any:
    """Returns what may be seen of an event without the ends of its texts, which rules may have seen only in part."""
    if isinstance(read, Cut):
        if not isinstance(seen, str) or read == MORE or seen == DOTS:
            return seen
        return Cut.of(seen.removesuffix(MORE)[:-_BEYOND], read.length, read.path)
    if isinstance(seen, dict) and isinstance(read, dict):
        return {name: _ended(value, read.get(name)) for name, value in seen.items()}
    if isinstance(seen, list) and isinstance(read, list):
        return list(map(_ended, seen, read))
    return seen


def text_at(ref: SessionRef, event_id: str, cut: Cut, *, actor: Actor) -> Iterator[str]:
    """Yields a whole text of a large event in pieces, without the rest of the event. Raises NotFound."""
    actor.check_sees(ref)
    for first in range(1, cut.length + 1, _PIECE):
        with database.using(ref.source) as db, db.cursor() as cursor:
            text, path = dialect.of(db).part("event_data", cut.path)
            cursor.execute(f"SELECT substr({text}, %s, {_PIECE}) {_EVENT}", [path, first, *ref[1:], event_id])
            row = cursor.fetchone()
        if row is None or row[0] is None:
            raise NotFound(_("This no longer exists."))
        yield row[0]
