"""Reads what somebody searches for: `user:nadia error:any after:14:00 "fare expired"`. docs/search.md explains the language.

query.lark has the grammar. Whatever is malformed is named with its place in the text, and left out; the rest works.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, tzinfo
from functools import cache
from typing import Any, Final

from django.utils.formats import number_format
from django.utils.translation import gettext as _
from lark import Lark, Token, Transformer_NonRecursive, UnexpectedToken

from ..domain.errors import Invalid
from ..domain.shorten import words
from .conditions import filter_condition, is_closed, state_condition, text_condition
from .tree import And, Leaf, Node, Not, Or, Problem, Query, leaves, quoted, write

MOST_CHARACTERS: Final = 10_000
MOST_CONDITIONS: Final = 200  # and values of lists
MOST_BRACKETS: Final = 10  # in each other: SQLite can read 13 of them, with a “not” before each
MOST_SIGNS: Final = 1_000  # words, operators, brackets
MOST_MISTAKES: Final = 20  # in how these follow each other

_NEVER_STORED: Final = re.compile("[\0\ud800-\udfff]")
_END: Final = "$END"
_SOME_TIME: Final = 2_000_000_000  # where only the text is asked for


def parse(text: str, *, now: float, zone: tzinfo) -> Query:
    """Reads a text; times such as `14:00` and `2h` are those of a time zone, and of `now`. It never raises."""
    problems: list[Problem] = []
    tree = _Reader(_NEVER_STORED.sub("\ufffd", text), problems).read()
    node: Node | None = _Builder(problems, now, zone).transform(tree)
    return Query(node, tuple(sorted(problems, key=lambda each: (each.start, each.end))))


# --- From a text to lark's tree ---------------------------------------------------------------------------------------


class _Everywhere:
    """Has the lexer see these as what they are where they are not expected, too: otherwise they would be words."""

    always_accept = ("_OR", "_AND", "RPAR")

    def process(self, tokens: Iterator[Token]) -> Iterator[Token]:
        return tokens


@cache
def _parser() -> Lark:
    return Lark.open("query.lark", rel_to=__file__, parser="lalr", postlex=_Everywhere())


class _Reader:
    """Feeds a text to the parser, and mends it on the way."""

    def __init__(self, text: str, problems: list[Problem]) -> None:
        self._text, self._problems = text, problems
        self._steps = _parser().parse_interactive(text[:MOST_CHARACTERS])
        self._last: Token | None = None
        self._open: list[Token] = []  # brackets
        self._signs = self._conditions = 0
        self._is_cut = False

    def read(self) -> Any:
        for token in self._tokens():
            self._feed(token)
        last = self._last
        if last and '"' in last and last.type in ("PHRASE", "FILTER") and not is_closed(last[last.index('"') :]):
            self._problem(last, _("This quote isn't closed."))
        if len(self._text) > MOST_CHARACTERS:
            self._cut(
                MOST_CHARACTERS, _("A query can have up to %(n)s characters. The rest is ignored."), MOST_CHARACTERS
            )
        return self._feed(Token(_END, ""))

    def _tokens(self) -> Iterator[Token]:
        while True:
            try:
                lexer: Iterator[Token] = self._steps.lexer_thread.lex(self._steps.parser_state)  # type: ignore[no-untyped-call]
                token = next(lexer, None)
            except UnexpectedToken as error:
                token = error.token
            if token is None or self._is_too_much(token):
                return
            yield token

    def _is_too_much(self, token: Token) -> bool:
        self._signs += 1
        self._conditions += token.type in ("WORD", "PHRASE", "FILTER", "VALUE", "ITEM", "EXISTS")
        if token.type == "LPAR" and len(self._open) == MOST_BRACKETS:
            message, most = _("Brackets can nest up to %(n)s levels deep. The rest is ignored."), MOST_BRACKETS
        elif self._conditions > MOST_CONDITIONS:
            message, most = _("A query can have up to %(n)s conditions. The rest is ignored."), MOST_CONDITIONS
        elif self._signs > MOST_SIGNS:
            message, most = _("A query can have up to %(n)s words and symbols. The rest is ignored."), MOST_SIGNS
        elif len(self._problems) >= MOST_MISTAKES:
            message, most = _("The query has %(n)s mistakes up to this point. The rest is ignored."), MOST_MISTAKES
        else:
            return False
        self._cut(token.start_pos or 0, message, most)
        return True

    def _feed(self, token: Token) -> Any:
        """Feeds a token to the parser; before it what is missing there. A token that cannot stand there is left out."""
        if token.type == "RPAR" and not self._open:  # the parser would end what stands before it, and take nothing more
            self._cannot_stand(token)
            return None
        while True:
            try:
                tree = self._steps.feed_token(token)
            except UnexpectedToken:
                missing = self._missing_before(token)
                if missing is None:
                    return None
                self._steps.feed_token(missing)
                continue
            if token.type == "LPAR":
                self._open.append(token)
            elif token.type == "RPAR":
                self._open.pop()
            self._last = token
            return tree

    def _missing_before(self, token: Token) -> Token | None:
        choices = self._steps.choices()  # type: ignore[no-untyped-call]
        if "NOTHING" in choices and "RPAR" not in choices:  # in a list, both could follow
            if token.type == _END and self._is_cut:
                pass  # it may stand in what was left out
            elif self._last:
                self._problem(
                    self._last, _("Something is missing after “%(sign)s”.") % {"sign": words(str(self._last), 40)}
                )
            else:
                self._problem(token, _("Something is missing before “%(sign)s”.") % {"sign": words(str(token), 40)})
            return Token("NOTHING", "")
        if token.type == _END:
            opening = self._open.pop()
            if not self._is_cut:
                self._problem(opening, _("This bracket isn't closed."))
            return Token("RPAR", "")
        self._cannot_stand(token)
        return None

    def _cannot_stand(self, token: Token) -> None:
        self._problem(token, _("“%(sign)s” isn't allowed here.") % {"sign": words(str(token), 40)})

    def _problem(self, token: Token, message: str) -> None:
        self._problems.append(Problem(token.start_pos or 0, token.end_pos or len(self._text), message))

    def _cut(self, start: int, message: str, most: int) -> None:
        self._is_cut = True
        self._problems.append(
            Problem(start, len(self._text), message % {"n": number_format(most, force_grouping=True)})
        )


# --- From lark's tree to ours -----------------------------------------------------------------------------------------

_Children = list[Any]


class _Builder(Transformer_NonRecursive[Token, Node | None]):
    """Makes a node of each rule of the grammar, or None of what is malformed."""

    def __init__(self, problems: list[Problem], now: float, zone: tzinfo) -> None:
        super().__init__()
        self._problems, self._now, self._zone = problems, now, zone

    def start(self, children: _Children) -> Node | None:
        return children[0] if children else None

    def alternatives(self, children: _Children) -> Node | None:
        return _joined(Or, children)

    def sequence(self, children: _Children) -> Node | None:
        return _joined(And, children)

    def negation(self, children: _Children) -> Node | None:
        sign, node = children
        if node is None:
            return None
        if isinstance(node, Not):
            return replace(node.child, start=sign.start_pos, end=node.end)
        return Not(node, start=sign.start_pos, end=node.end)

    def group(self, children: _Children) -> Node | None:
        opening, node, closing = children
        return None if node is None else replace(node, start=opening.start_pos, end=closing.end_pos or node.end)

    def text(self, children: _Children) -> Leaf | None:
        return self._leaf(children, lambda: text_condition(str(children[0])))

    def filter(self, children: _Children) -> Leaf | None:
        return self._leaf(children, lambda: filter_condition(str(children[0]), self._now, self._zone))

    def state(self, children: _Children) -> Leaf | None:
        key, op, *rest = children
        values = [str(each) for each in rest if each.type in ("PHRASE", "VALUE", "ITEM")]
        if not values and op.type != "EXISTS":
            return None
        return self._leaf(children, lambda: state_condition(str(key), str(op), values))

    def nothing(self, children: _Children) -> None:
        return None

    def _leaf(self, tokens: list[Token], read: Callable[[], Leaf]) -> Leaf | None:
        start, end = tokens[0].start_pos or 0, max(each.end_pos or 0 for each in tokens)
        try:
            return replace(read(), start=start, end=end)
        except Invalid as error:
            self._problems.append(Problem(start, end, error.message))
            return None


def _joined(way: type[And | Or], children: _Children) -> Node | None:
    nodes = [each for each in children if each]
    if len(nodes) < 2:
        return nodes[0] if nodes else None
    return way(tuple(nodes), start=nodes[0].start, end=nodes[-1].end)


# --- Other texts ------------------------------------------------------------------------------------------------------


def without(text: str, name: str) -> str:
    """Removes the filters of a name that hold for the whole query: `user:nadia late` without `user` is `late`.

    The rest stays as it was typed. Only of a malformed text, what is malformed goes, too.
    """
    text, tree = _well_formed(text)
    for node in reversed(_conjuncts(tree)):
        if all(getattr(leaf, "name", "") == name for leaf in leaves(node)):
            head, tail = text[: node.start].rstrip(), text[node.end :].lstrip()
            if re.search(r"(?:^|[\s()\"])and$", head[-4:], re.IGNORECASE):
                head = head[:-3].rstrip()
            elif not head and (match := re.match(r"and(?![^\s()\"])\s*", tail, re.IGNORECASE)):
                tail = tail[match.end() :]
            text = f"{head} {tail}" if head else tail
    return text.strip()


def with_filter(text: str, name: str, value: str, *, exact: bool = False) -> str:
    """Adds a filter, in place of those of its name: `late` with `after`, `14:00` is `late after:14:00`.

    With `exact`, a name has to equal the value, and not only to contain it: the value is put in quotes, as one with
    blanks or brackets always is.
    """
    rest, tree = _well_formed(without(text, name))
    rest = f"({rest})" if isinstance(tree, Or) else rest
    value = quoted(value) if exact or not value or re.search(r'[\s()"]', value) else value
    return f"{rest} {name}:{value}".strip()


def _well_formed(text: str) -> tuple[str, Node | None]:
    query = parse(text, now=_SOME_TIME, zone=UTC)
    if query.problems:
        text = write(query.tree)
        query = parse(text, now=_SOME_TIME, zone=UTC)
    return text, query.tree


def _conjuncts(tree: Node | None) -> tuple[Node, ...]:
    return tree.children if isinstance(tree, And) else (tree,) if tree else ()
