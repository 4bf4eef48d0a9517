"""The tree of a query, and its text (pure). A node selects sessions; `start` and `end` say where in the text it stands."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import ClassVar, Final, Literal

Value = str | int | float | bool | None  # what a state may be compared with
Operator = Literal["=", "!=", "<", "<=", ">", ">=", "in", "exists"]
Scope = Literal["session", "user", "app"]


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of the text. Two nodes are equal wherever they stand."""

    start: int = field(default=0, compare=False, kw_only=True)
    end: int = field(default=0, compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class And(_Part):
    """The sessions that all children select; there are at least two."""

    children: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Or(_Part):
    """The sessions that any child selects; there are at least two."""

    children: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Not(_Part):
    """The sessions that the child does not select. The child is no Not."""

    child: "Node"


@dataclass(frozen=True, slots=True)
class Text(_Part):
    """Words that stand one after the other in a line of the session: `expired`, `"fare expired"`. Never empty."""

    text: str


@dataclass(frozen=True, slots=True)
class Match(_Part):
    """A name that contains a value, or equals it if `exact`, ignoring case: `user:nadia`, `user:"nadia"`."""

    name: str
    value: str
    exact: bool = False


@dataclass(frozen=True, slots=True)
class Presence(_Part):
    """The sessions that have any, or none: `error:any`, `tag:none`."""

    name: str
    there: bool


@dataclass(frozen=True, slots=True)
class Kind(_Part):
    """A kind of event that the session has, one of `domain.kinds.KINDS`: `kind:rewind`."""

    value: str
    name: ClassVar[str] = "kind"


@dataclass(frozen=True, slots=True)
class Status(_Part):
    """A status of the session, one of STATUSES: `status:failed`."""

    value: str
    name: ClassVar[str] = "status"


@dataclass(frozen=True, slots=True)
class Waits(_Part):
    """A kind of call that waits in the session, one of `domain.pending.KINDS`: `waits:confirmation`."""

    value: str
    name: ClassVar[str] = "waits"


@dataclass(frozen=True, slots=True)
class Time(_Part):
    """`after`: the last event is at this time or later; `before`: the session began earlier. `given` is how it was typed."""

    name: str  # before or after
    seconds: float  # since 1970
    given: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Number(_Part):
    """A number compared: `took:>5s`, which is in seconds, `tokens:10k`, `turns:5..10` with both ends."""

    name: str  # of a column of the index; or waiting, which is how long a call has waited, and is never equal
    op: Literal["=", "<", "<=", ">", ">=", ".."]
    value: float
    upto: float | None = None  # only for `..`


@dataclass(frozen=True, slots=True)
class State(_Part):
    """A value of the state compared: `cart.total > 100` has the path `("cart", "total")`, `state."a.b"` has `("a.b",)`.

    With `ever`, any value that it had: `was.cart.total > 100`."""

    scope: Scope
    path: tuple[str, ...]
    op: Operator
    values: tuple[Value, ...] = ()  # none for `exists`, one or more for `in`, otherwise one
    ever: bool = False


@dataclass(frozen=True, slots=True)
class Wrote(_Part):
    """An event of the session that wrote a key (`set`) or gave it another value (`changed`), `by` this agent or person:
    `set:user:tier`, `changed:"cart.total by maria"`. Without `by`, anybody's."""

    name: str  # set or changed
    scope: Scope
    path: tuple[str, ...]
    by: str = ""


Leaf = Text | Match | Presence | Kind | Status | Waits | Time | Number | State | Wrote
Node = And | Or | Not | Leaf
STATUSES: Final = ("running", "waiting", "failed", "stopped", "idle", "stuck")


@dataclass(frozen=True, slots=True)
class Problem:
    """A mistake in a part of the text. That part is left out of the tree."""

    start: int
    end: int
    message: str


@dataclass(frozen=True, slots=True)
class Query:
    """A query as it was understood. Without a tree, it asks for all sessions."""

    tree: Node | None
    problems: tuple[Problem, ...] = ()


def leaves(node: Node) -> Iterator[Leaf]:
    """Yields the conditions of a tree, in the order of the text."""
    stack = [node]
    while stack:
        match stack.pop():
            case And(children) | Or(children):
                stack += reversed(children)
            case Not(child):
                stack.append(child)
            case leaf:
                yield leaf


# --- The text of a tree -----------------------------------------------------------------------------------------------

_PLAIN: Final = re.compile(r"\w(?:[\w.@/-]*\w)?")
_KEYWORDS: Final = {"or", "and", "not", "in", "exists"}
_PREFIXES: Final = {"session": "state.", "user": "user:", "app": "app:"}


def write(node: Node | None) -> str:
    """Writes a tree as a text that parses to an equal one."""
    match node:
        case None:
            return ""
        case And(children):
            return " ".join([_inside(each) for each in children])
        case Or(children):
            return " or ".join([write(each) if isinstance(each, And) else _inside(each) for each in children])
        case Not(child):
            return "-" + _inside(child)
        case Text(text):
            return text if _PLAIN.fullmatch(text) and text.lower() not in _KEYWORDS else quoted(text)
        case State():
            return _state(node)
        case _:
            return f"{node.name}:{_value(node)}"


def quoted(text: str) -> str:
    """Puts a text between quotes."""
    return '"' + re.sub(r'(["\\])', r"\\\1", text) + '"'


def _inside(node: Node) -> str:
    return f"({write(node)})" if isinstance(node, And | Or) else write(node)


def _value(node: Match | Presence | Kind | Status | Waits | Time | Number | Wrote) -> str:
    match node:
        case Wrote(_name, scope, path, by):
            text = _key(scope, path) + (f" by {by}" if by else "")
            return quoted(text) if re.search(r'[\s()"]', text) else text
        case Match(_name, value, exact):
            return quoted(value) if exact else value
        case Presence(_name, there):
            return "any" if there else "none"
        case Time(_name, seconds, given):
            given = given or datetime.fromtimestamp(seconds, UTC).isoformat()
            return quoted(given) if " " in given else given
        case Number(_name, op, value, upto):
            first, second = _number(value), _number(upto or 0)
            return f"{first}..{second}" if op == ".." else first if op == "=" else f"{op}{first}"
        case _:
            return node.value


def _number(value: float) -> str:
    return f"{Decimal(repr(value)).normalize():f}"


def _state(node: State) -> str:
    values = [quoted(each) if isinstance(each, str) else json.dumps(each) for each in node.values]
    right = {"exists": "", "in": f" ({', '.join(values)})"}.get(node.op) or " " + "".join(values[:1])
    return f"{'was.' if node.ever else ''}{_key(node.scope, node.path)} {node.op}{right}".rstrip()


def _key(scope: Scope, path: tuple[str, ...]) -> str:
    return _PREFIXES[scope] + ".".join(part if re.fullmatch(r"\w+(-+\w+)*", part) else quoted(part) for part in path)
