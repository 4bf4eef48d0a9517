"""Reads a condition on state, such as that of a rule, `cart.total >= 0`, and decides whether a state meets it (pure).

It uses the search language's conditions on state, with the same meaning.
"""

import time
from collections.abc import Mapping
from datetime import UTC
from operator import ge, gt, le, lt
from typing import Final

from django.utils.translation import gettext as _

from ..domain.errors import Invalid
from ..domain.key_schema import KeySchema
from ..domain.state import ABSENT, UNKNOWN, Scope, State, full_key, scope_of
from . import tree
from .language import parse
from .values import Value, comparable, value_of

EXAMPLE: Final = "cart.total >= 0"
MOST_CHARACTERS: Final = 1_000
MOST_CONDITIONS: Final = 20
MOST_KEYS: Final = 40
KEY_LENGTH: Final = 200  # of a longer one, the search keeps only the start
_LEVELS: Final = 4  # of an object that are compared: search/values.py
Values = Mapping[str, Mapping[str, Value]]  # by scope and path


def read(text: str) -> tree.Node:
    """Reads a condition. Raises Invalid, which says what is wrong."""
    if len(text) > MOST_CHARACTERS:
        raise Invalid(_("A rule can have up to %(n)s characters.") % {"n": MOST_CHARACTERS}, field="condition")
    query = parse(text, now=time.time(), zone=UTC)
    for problem in query.problems:
        raise _mistake(problem.message, problem)
    if query.tree is None:
        raise Invalid(
            _("Enter a condition on the state, for example %(example)s.") % {"example": EXAMPLE}, field="condition"
        )
    leaves = list(tree.leaves(query.tree))
    for leaf in leaves:
        if not isinstance(leaf, tree.State) or leaf.ever:
            raise _mistake(
                _("“%(text)s” isn't a condition on state. Try something like %(example)s.")
                % {"text": text[leaf.start : leaf.end][:40], "example": EXAMPLE},
                leaf,
            )
    if long := next((leaf for leaf in leaves if len(".".join(getattr(leaf, "path", ()))) > KEY_LENGTH), None):
        raise _mistake(_("A key in a rule can have up to %(n)s characters.") % {"n": KEY_LENGTH}, long)
    if len(leaves) > MOST_CONDITIONS or len(keys_of(query.tree)) > MOST_KEYS:
        most = {"n": MOST_CONDITIONS, "keys": MOST_KEYS}
        raise Invalid(_("A rule can have up to %(n)s conditions and %(keys)s keys in total.") % most, field="condition")
    return query.tree


def _mistake(message: str, part: tree.Leaf | tree.Problem) -> Invalid:
    """Returns the error for a part of the text, with its position, for programs."""
    return Invalid(
        message,
        field="condition",
        errors=[{"place": "condition", "start": part.start, "end": part.end, "message": message}],
    )


def always(key: str, known: KeySchema) -> str:
    """Returns a condition on a key which the values that it is known to have had meet, to begin a rule with:
    `user:tier in ("gold", "silver")`. Where nothing better is known, it is that the value is not null."""
    scope, bare = scope_of(key)
    op: tree.Operator = "!="
    values: tuple[tree.Value, ...] = (None,)
    if known.types.keys() == {"number"} and known.low is not None:
        op, values = ">=", (known.low,)
    elif known.types.keys() == {"string"} and known.texts:
        op, values = "in" if len(known.texts) > 1 else "=", tuple(known.texts)
    if scope == "temp":  # no state has such a key, whatever it is called
        return tree.write(tree.State("session", (key,), op, values))
    return tree.write(tree.State(scope, (bare,), op, values))


def breaking(node: tree.Node) -> tree.Node:
    """Returns what selects the sessions that break a rule now, as `broken` judges their states."""
    some = [leaf for leaf in tree.leaves(node) if isinstance(leaf, tree.State)]
    asked = {(leaf.scope, leaf.path) for leaf in some if leaf.op == "exists"}
    there = {(leaf.scope, leaf.path): None for leaf in some if (leaf.scope, leaf.path) not in asked}
    return tree.And((tree.Not(node), *(tree.State(*names, "exists") for names in there))) if there else tree.Not(node)


def keys_of(node: tree.Node) -> list[str]:
    """Returns the full keys of state that a condition is about: for `a.b`, both `a` and `a.b`, because either may have
    the value."""
    keys: dict[str, None] = {}
    for leaf in tree.leaves(node):
        assert isinstance(leaf, tree.State)  # noqa: S101  (as `read` checks)
        parts = ".".join(leaf.path).split(".")
        paths = [".".join(parts[:count]) for count in range(1, min(len(parts), _LEVELS) + 1)]
        keys |= dict.fromkeys(full_key(leaf.scope, path) for path in (*paths, ".".join(parts)))
    return list(keys)


def broken(node: tree.Node, state: State) -> bool:
    """Returns whether a state, by full key, breaks a rule.

    It does not if a compared key does not exist, unless the rule also says of that key whether it `exists`; nor if the
    value of a key can't be known.
    """
    keys = keys_of(node)
    if any(state.get(key) is UNKNOWN for key in keys):
        return False
    values = compared(state, keys)
    asked = {
        (leaf.scope, leaf.path) for leaf in tree.leaves(node) if isinstance(leaf, tree.State) and leaf.op == "exists"
    }
    for leaf in tree.leaves(node):
        if isinstance(leaf, tree.State) and (leaf.scope, leaf.path) not in asked and _value(leaf, values) is None:
            return False
    return not holds(node, values)


def compared(state: State, keys: list[str]) -> Values:
    """Returns the values of these full keys as the search compares them."""
    scopes: dict[Scope, State] = {"session": {}, "user": {}, "app": {}}
    for key in keys:
        scope, bare = scope_of(key)
        if scope != "temp" and state.get(key, ABSENT) is not ABSENT:  # only another program can have stored a temp: key
            scopes[scope][bare] = state[key]
    return {scope: comparable(some) for scope, some in scopes.items()}


def holds(node: tree.Node, values: Values) -> bool:
    """Returns whether a condition holds, as the search would select the session."""
    match node:
        case tree.And(children):
            return all(holds(child, values) for child in children)
        case tree.Or(children):
            return any(holds(child, values) for child in children)
        case tree.Not(child):
            return not holds(child, values)
        case tree.State():
            value = _value(node, values)
            return value is not None and _meets(node, value)
    raise TypeError(node)


def _value(leaf: tree.State, values: Values) -> Value | None:
    return values[leaf.scope].get(".".join(leaf.path))


def _meets(leaf: tree.State, value: Value) -> bool:
    wanted = [value_of(each) for each in leaf.values]
    match leaf.op:
        case "exists":
            return True
        case "=" | "in":
            return value in wanted
        case "!=":
            return value != wanted[0]
    return (
        value.kind == wanted[0].kind
        and value.kind in "ns"
        and {"<": lt, "<=": le, ">": gt, ">=": ge}[leaf.op](value.text, wanted[0].text)
    )
