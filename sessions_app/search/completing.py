"""Suggests how a query can go on: names of filters, and values that were seen in apps that the actor may see."""

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from django.db import connection
from django.utils.translation import gettext as _
from django.utils.translation import pgettext

from ..access.actor import Actor
from ..domain.session_ref import OWN_NAME, digest_of
from ..sources import dialect
from . import tree
from .conditions import FILTERS
from .labels import known_tags
from .lines import clean
from .selecting import all_listed, listed_sources, owners_in_seen_apps, seen_apps, seen_everywhere
from .spelling import nearest
from .sql import is_one_of, rows
from .words import START, folded, marked

MOST: Final = 12
_LONGEST: Final = 60  # characters of a value of state
_LOOKED_AT: Final = 300  # characters before the cursor: patterns take the square of the time
_PHRASE: Final = re.compile(r'"(?:\\.|[^"\\])*(?P<end>"|\\?\Z)', re.DOTALL)
_CLOSED: Final = "\ufffc"  # stands for each character of a phrase that is closed
_PIECE: Final = re.compile(r'-?(?P<name>[a-z]+(?:-for)?:|state\.|was\.)?(?P<typed>"[^"]*|[^\s()"]*)$', re.IGNORECASE)
_OPERATOR: Final = re.compile(
    r"""(?P<ever>\bwas\.)?(?P<prefix>user:|app:|state\.)?(?P<key>[\w.-]+)\s*"""
    r"""(?:!?=|in\s*\((?:[^()]*,)?)\s*(?P<typed>"[^"]*|[^\s"()]*)$"""
)
_PLAIN_KEY: Final = re.compile(r"\w+(?:-+\w+)*(?:\.\w+(?:-+\w+)*)*")
_KEY: Final = re.compile(
    rf"""(?:^|(?<=[\s(-]))(?P<ever>was\.)?(?P<prefix>user:|app:|state\.)?(?P<key>[\w{_CLOSED}][\w.{_CLOSED}-]*)"""
    r"""(?:\s*(?P<sign>[!<>=]{1,2})|\s+(?P<typed>[a-z]{0,6}))$""",
    re.IGNORECASE,
)
_BY: Final = re.compile(r'"(?P<begun>[^"]+? by )(?P<name>[^"]*)', re.IGNORECASE)
_HOLDERS: Final = {  # of names, each with those whose they are
    "fact": [("session", "{}.session_id")],
    "value": [("session", "{}.owner_id"), ("owner", "-{}.owner_id")],
    "write": [("session", "{}.session_id")],
}
_OF_KEYS: Final = frozenset({"was.", "set", "changed"})
_STORED: Final = frozenset({"author", "tool", "error", "edited"})


class Suggestion(NamedTuple):
    """A text that takes the place of what is typed from `start` on; `label` says what it is. It may be another spelling.
    `sessions` is how many a value of a filter finds, if that was counted."""

    text: str
    start: int
    label: str
    respelt: bool = False
    sessions: int = 0


class Owner(NamedTuple):
    """An app, or a user of one: their id as it is, and as everyone sees it."""

    source: str
    app_name: str
    user_id: str = ""
    shown: str = ""


def owners(text: str, *, actor: Actor) -> list[Owner]:
    """Returns the apps and users with a word that begins with a text; at most MOST of either. Those that begin so come
    first."""
    begun = marked(text)
    some = [Owner(app.source, app.name) for app in seen_apps(actor) if begun in marked(app.name)]
    position = dialect.of(connection).position("o.folded")
    sees, names = _in_seen_apps("o", actor, by_source=True)
    users = rows(
        f"""SELECT o.source_id, o.app_name, o.user_id, o.shown, o.digest, {position} AS at
        FROM sessions_app_searchowner AS o WHERE {_USERS} AND {sees} AND {position} > 0
        ORDER BY at, length(o.shown), o.shown LIMIT %s""",
        [begun, OWN_NAME, *names, begun, MOST],
    )
    aliases = listed_sources()
    whole = [row for row in users if row[4] == digest_of(row[1], row[2])]  # the index cuts names that are very long
    some = sorted(some, key=lambda each: marked(each.app_name).find(begun))[:MOST]
    return [*some, *(Owner(aliases[number], app, user, shown) for number, app, user, shown, *_rest in whole)]


def complete(text: str, at: int, *, actor: Actor, app: str = "") -> list[Suggestion]:
    """Returns how the piece before a place in the text can go on, the likeliest first; at most MOST.

    With an `app`, the text is a condition on its state: keys, operators and values of this app."""
    before = _PHRASE.sub(
        lambda phrase: _CLOSED * len(phrase[0]) if phrase["end"] == '"' else phrase[0], clean(text, at)
    )
    skipped = max(0, len(before) - _LOOKED_AT)
    suggestions = _suggested(before[skipped:], actor, app)
    return [suggestion._replace(start=suggestion.start + skipped) for suggestion in suggestions[:MOST]]


def _suggested(before: str, actor: Actor, app: str) -> list[Suggestion]:
    if operator := _OPERATOR.search(before):
        return _values_of_key(operator, actor, app)
    key = _KEY.search(before)
    operators = _operators(key, actor, app) if key else []
    if operators and key and (app or _needs_operator(key)):
        return operators
    return [*operators, *(_key_piece(before, actor, app) if app else _piece(before, actor))]


def _key_piece(before: str, actor: Actor, app: str) -> list[Suggestion]:
    piece = _PIECE.search(before)
    typed = piece[0].lstrip("-") if piece else ""
    return [Suggestion(key, len(before) - len(typed), _("key")) for key in _any_keys(typed, actor, app)]


def _piece(before: str, actor: Actor) -> list[Suggestion]:
    piece = _PIECE.search(before)
    if piece is None:
        return []
    name, typed = (piece["name"] or "").lower().rstrip(":"), piece["typed"]
    start = piece.start("typed")
    if not name:
        names = [f"{each}:" for each in FILTERS if each.startswith(typed.lower())]
        names += ["was."] if typed and "was.".startswith(typed.lower()) else []
        said = [
            f"status:{each}" for each in tree.STATUSES if typed[2:] and each.startswith(typed.lower())
        ]  # by its word
        keys = [f"state.{key}" for key in _keys("", typed, actor)] if typed else []
        labelled = [*((each, _("filter")) for each in (*names, *said)), *((each, _("key")) for each in keys)]
        return [Suggestion(text, start, label) for text, label in labelled] or _respelt(typed, start, actor)
    if by := _BY.fullmatch(typed) if name in ("set", "changed") else None:
        names = _some("o.value", "searchname AS o", "o.kind IN ('author', 'edited')", [], marked(by["name"]), actor)
        return [Suggestion(tree.quoted(by["begun"] + each), start, name) for each in names]
    if name in _OF_KEYS:
        return [Suggestion(key, start, _("key")) for key in _any_keys(typed.removeprefix('"'), actor)]
    label = _("key") if name == "state." else name
    values = list(_values(name, typed.strip('"'), actor))
    suggestions = [Suggestion(_quoted(value), start, label) for value in values]
    if name in ("user", "app", "state."):
        prefix = "" if name == "state." else f"{name}:"
        keys = _keys(prefix, typed.removeprefix('"'), actor)
        suggestions = [
            *suggestions[: MOST - min(len(keys), 4)],
            *(Suggestion(key, start, _("key")) for key in keys),
        ]
    return suggestions


def _operators(key: re.Match[str], actor: Actor, app: str) -> list[Suggestion]:
    """Returns the operators that may follow a key, if what stands there is one."""
    typed = key["sign"] or key["typed"] or ""
    start = key.start("sign") if key["sign"] else key.start("typed")
    words = {
        "=": pgettext("operator", "is"),
        "!=": pgettext("operator", "is not"),
        ">": pgettext("operator", "more than"),
        ">=": pgettext("operator", "at least"),
        "<": pgettext("operator", "less than"),
        "<=": pgettext("operator", "at most"),
        "in (": pgettext("operator", "one of"),
        "exists": pgettext("operator", "is present"),
    }
    operators = [Suggestion(sign, start, label) for sign, label in words.items() if sign.startswith(typed.lower())]
    is_one = operators and (_needs_operator(key) or _is_key((key["prefix"] or "") + key["key"], actor, app))
    return operators if is_one else []


def _needs_operator(key: re.Match[str]) -> bool:
    return bool(key["ever"]) or key["prefix"] == "state."


def _is_key(name: str, actor: Actor, app: str) -> bool:
    return bool(_some("o.value", "searchname AS o", "o.kind = 'key' AND o.value = %s", [name], "", actor, app))


def _respelt(typed: str, start: int, actor: Actor) -> list[Suggestion]:
    word = "" if typed.startswith('"') else nearest(typed, actor=actor)
    return [Suggestion(word, start, _("did you mean"), respelt=True)] if word else []


# adkweb's own sessions, in which shared state is edited, are of no user.
_USERS: Final = """o.user_id <> '' AND (o.user_id <> %s OR EXISTS (
    SELECT 1 FROM sessions_app_searchsession AS s WHERE s.user_owner_id = o.id AND s.listed))"""


def _values(name: str, typed: str, actor: Actor) -> Iterable[str]:
    """Returns values of a filter that it would find by what is typed, those that begin with it first."""
    wanted, begun = folded(typed), marked(typed)
    if name in FILTERS and (offered := FILTERS[name].offered):
        return [each for each in offered if wanted in each]
    if name == "app":
        return [each for each in _apps(actor) if begun in marked(each)]
    if name == "source":
        return [each for each in _sources(actor) if begun in marked(each)]
    if name == "user":
        return _some("o.shown", "searchowner AS o", _USERS, [OWN_NAME], begun, actor)
    if name in _STORED:
        if name == "error":
            begun = begun.removeprefix(START)
        return _some("o.value", "searchname AS o", "o.kind = %s", [name], begun, actor)
    if name == "waits-for":
        some = "SELECT p.name_id FROM sessions_app_searchpending AS p WHERE p.passed_over = FALSE"
        return _some("o.value", "searchname AS o", f"o.id IN ({some})", [], begun, actor)
    if name == "tag":
        fixed = [each for each in ("any", "none") if each.startswith(wanted)]
        return [*known_tags(wanted, MOST - len(fixed), actor=actor), *fixed]
    return []


def _keys(prefix: str, typed: str, actor: Actor, app: str = "") -> list[str]:
    """Returns keys of state that begin with what is typed, as they are written after their prefix."""
    begins = prefix + typed
    where, values = "o.kind = 'key' AND substr(o.value, 1, %s) = %s", [len(begins), begins]
    if not prefix:
        where += " AND substr(o.value, 1, 5) <> 'user:' AND substr(o.value, 1, 4) <> 'app:'"
    keys = [key.removeprefix(prefix) for key in _some("o.value", "searchname AS o", where, values, "", actor, app)]
    return [key if _PLAIN_KEY.fullmatch(key) else tree.quoted(key) for key in keys]


def _any_keys(typed: str, actor: Actor, app: str = "") -> list[str]:
    """Returns keys of any scope that begin with what is typed, with their prefix; those of the session come first."""
    for prefix in ("user:", "app:", "state."):
        if typed.startswith(prefix):
            keys = _keys(prefix.removeprefix("state."), typed.removeprefix(prefix), actor, app)
            return [prefix + key for key in keys]
    keys = _keys("", typed, actor, app)
    for prefix in ("user:", "app:"):
        keys += [prefix + key for key in _keys(prefix, "" if prefix.startswith(typed) else typed, actor, app)]
    return keys


def names_of_key(path: str, *, actor: Actor) -> list[int]:
    """Returns the numbers that the index has for a key, one for each app that the actor may see; at most MOST."""
    apps, values = _in_seen_apps("n", actor)
    where = f"n.kind = 'key' AND n.value = %s AND {apps} LIMIT {MOST}"
    return [
        number for (number,) in rows(f"SELECT n.id FROM sessions_app_searchname AS n WHERE {where}", [path, *values])
    ]


def _values_of_key(operator: re.Match[str], actor: Actor, app: str) -> list[Suggestion]:
    prefix = operator["prefix"] or ""
    key, typed = ("" if prefix == "state." else prefix) + operator["key"], operator["typed"].removeprefix('"')
    apps, values = _in_seen_apps("n", actor, app)
    tables = ("value", "write") if operator["ever"] else ("value",)
    of_key = [
        f"""SELECT v.text FROM sessions_app_searchname AS n JOIN sessions_app_search{table} AS v ON v.name_id = n.id
        WHERE n.kind = 'key' AND n.value = %s AND {apps} AND v.kind = 's' AND length(v.text) <= {_LONGEST}
        AND substr(v.text, 1, %s) = %s AND {_in_open_source(table, "v")}"""
        for table in tables
    ]
    texts = rows(
        f"SELECT DISTINCT text FROM ({' UNION ALL '.join(of_key)}) AS v ORDER BY text LIMIT %s",
        [*[key, *values, len(typed), typed] * len(tables), MOST],
    )
    return [Suggestion(tree.quoted(text), operator.start("typed"), key) for (text,) in texts]


def _some(
    column: str, table: str, where: str, values: Sequence[Any], wanted: str, actor: Actor, app: str = ""
) -> list[str]:
    """Returns values of a column whose marked form contains what is wanted, those that begin with it first."""
    position = dialect.of(connection).position("o.folded")
    by_source = table.startswith("searchowner")
    apps, names = _in_seen_apps("o", actor, app, by_source=by_source)
    apps += "" if by_source else f" AND {_stands_in_open_source('o')}"
    selected = rows(
        f"""SELECT {column}, min({position}) FROM sessions_app_{table} WHERE {where} AND {apps} AND {position} > 0
        GROUP BY 1 ORDER BY 2, 1 LIMIT %s""",
        [wanted, *values, *names, wanted, MOST],
    )
    return [row[0] for row in selected]


def _in_seen_apps(table: str, actor: Actor, app: str = "", *, by_source: bool = False) -> tuple[str, list[Any]]:
    """Returns the condition for rows of apps that the actor may see, or of one of them, and its values.

    Names are kept by app, whatever source they are from: an app counts only if the actor may see it in each."""
    values: list[Any] = []
    if by_source:
        if actor.sees_all:
            return is_one_of(f"{table}.source_id", list(listed_sources()), values), values
        return owners_in_seen_apps(actor, values), values
    if actor.sees_all and not app:
        return "TRUE", values
    names = [each for each in seen_everywhere(actor) if app in ("", each)]
    return is_one_of(f"{table}.app_name", names, values), values


def _stands_in_open_source(name: str) -> str:
    """Returns the condition for names that a session, a user or an app of an open source has."""
    if all_listed():
        return "TRUE"
    held = "EXISTS (SELECT 1 FROM sessions_app_search{table} AS h WHERE h.name_id = {name}.id AND {whose})"
    each = [held.format(table=table, name=name, whose=_in_open_source(table, "h")) for table in _HOLDERS]
    return f"({' OR '.join(each)})"


def _in_open_source(table: str, row: str) -> str:
    """Returns the condition for facts, values or writes of an open source."""
    if all_listed():
        return "TRUE"
    some = ", ".join(map(str, listed_sources())) or "NULL"
    own = "EXISTS (SELECT 1 FROM sessions_app_search{of} AS w WHERE w.id = {number} AND w.source_id IN ({some}))"
    each = [own.format(of=of, number=number.format(row), some=some) for of, number in _HOLDERS[table]]
    return f"({' OR '.join(each)})"


def _apps(actor: Actor) -> list[str]:
    return sorted({app.name for app in seen_apps(actor)})


def _sources(actor: Actor) -> list[str]:
    return sorted({app.source for app in seen_apps(actor)})


def _quoted(value: str) -> str:
    return value if re.fullmatch(r"[\w.@:>-]+", value) else tree.quoted(value)
