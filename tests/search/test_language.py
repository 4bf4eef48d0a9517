"""The language of searching: what each text asks for, and what is said of malformed ones."""

import re
import sys
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any, Final

import pytest
from django.utils.translation import override
from hypothesis import given
from hypothesis import strategies as st

from sessions_app.domain.kinds import KINDS
from sessions_app.domain.pending import KINDS as WAITS
from sessions_app.search.conditions import FILTERS
from sessions_app.search.language import parse, with_filter, without
from sessions_app.search.tree import (
    STATUSES,
    And,
    Kind,
    Match,
    Node,
    Not,
    Number,
    Or,
    Presence,
    Query,
    State,
    Status,
    Text,
    Time,
    Waits,
    Wrote,
    leaves,
    write,
)
from tests.costs import takes_less
from tests.strategies import MANY

ROOT: Final = Path(__file__).resolve().parents[2]
DOCS: Final = (ROOT / "docs" / "search.md").read_text()
SEOUL: Final = timezone(timedelta(hours=9))
NOW: Final = datetime(2026, 11, 22, 15, 30, 10, 500, SEOUL).timestamp()


def parsed(text: str) -> Query:
    return parse(text, now=NOW, zone=SEOUL)


def well(text: str) -> Node | None:
    """The tree of a text in which nothing is malformed."""
    query = parsed(text)
    assert query.problems == (), text
    return query.tree


def problems(text: str) -> list[tuple[str, str]]:
    """The malformed parts of a text, each with what is said of it."""
    return [(text[each.start : each.end], each.message) for each in parsed(text).problems]


def seoul(*day_and_time: int) -> float:
    return datetime(*day_and_time, tzinfo=SEOUL).timestamp()  # type: ignore[misc,arg-type]


A, B, C = Text("a"), Text("b"), Text("c")

TREES: Final[list[tuple[str, Node | None]]] = [
    ("", None),
    (" \n", None),
    # words
    ("expired", Text("expired")),
    ("Q-88213", Text("Q-88213")),
    ('"fare expired"', Text("fare expired")),
    (r'"say \"no\" \\ never"', Text(r'say "no" \ never')),
    ("결제 실패", And((Text("결제"), Text("실패")))),
    ("http://x.io/?a=b&c=d", Text("http://x.io/?a=b&c=d")),
    ("12:30", Text("12:30")),
    ("std::bad", Text("std::bad")),
    ("ValueError: bad", And((Text("ValueError:"), Text("bad")))),
    ('a"b"c', And((A, B, C))),
    ("it's 5,5%", And((Text("it's"), Text("5,5%")))),
    ("order android notes", And((Text("order"), Text("android"), Text("notes")))),
    # and, or, not, brackets
    ("a b", And((A, B))),
    ("a AND b and c", And((A, B, C))),
    ("a or b c", Or((A, And((B, C))))),
    ("(a or b) c", And((Or((A, B)), C))),
    ("a (b c)", And((A, And((B, C))))),
    ("-a", Not(A)),
    ("not a", Not(A)),
    ("NOT(a or b)", Not(Or((A, B)))),
    ("-user:nadia", Not(Match("user", "nadia"))),
    ("not -(not a)", Not(A)),
    ("((a))", A),
    ("a-b -b", And((Text("a-b"), Not(B)))),
    ("not a or b", Or((Not(A), B))),
    ('"or"', Text("or")),
    # filters
    ("user:nadia", Match("user", "nadia")),
    ("USER:Nadia", Match("user", "Nadia")),
    ('user:"Nadia Kim"', Match("user", "Nadia Kim", exact=True)),
    ("user:nadia@x.io", Match("user", "nadia@x.io")),
    ('session:""', Match("session", "", exact=True)),
    ("tool:refund", Match("tool", "refund")),
    ('source:"agents-2"', Match("source", "agents-2", exact=True)),
    ("error:any", Presence("error", True)),
    ("tag:None", Presence("tag", False)),
    ("edited:none", Presence("edited", False)),
    ('tag:"any"', Match("tag", "any", exact=True)),
    ("tool:any", Match("tool", "any")),
    ("kind:Rewind", Kind("rewind")),
    ("status:failed", Status("failed")),
    ("waits:Confirmation", Waits("confirmation")),
    ("-waits:long-running", Not(Waits("long-running"))),
    ("waits:any", Presence("waits", True)),
    ("waits-for:refund", Match("waits-for", "refund")),
    ('-Waits-For:"refund"', Not(Match("waits-for", "refund", exact=True))),
    ("my-host:8080", Text("my-host:8080")),
    # times
    ("after:14:00", Time("after", seoul(2026, 11, 22, 14))),
    ("after:9:00:05", Time("after", seoul(2026, 11, 22, 9, 0, 5))),
    ("before:23:59:30", Time("before", seoul(2026, 11, 22, 23, 59, 30))),
    ("after:2026-11-21", Time("after", seoul(2026, 11, 21))),
    ("after:2026-11-21T14:00", Time("after", seoul(2026, 11, 21, 14))),
    ('after:"2026-11-21 14:00:05.5"', Time("after", seoul(2026, 11, 21, 14, 0, 5) + 0.5)),
    ("after:2026-11-21T14:00Z", Time("after", seoul(2026, 11, 21, 23))),
    ("after:2026-11-21T14:00:00-01:30", Time("after", seoul(2026, 11, 22, 0, 30))),
    ("before:today", Time("before", seoul(2026, 11, 22))),
    ("after:Yesterday", Time("after", seoul(2026, 11, 21))),
    ("after:2h", Time("after", seoul(2026, 11, 22, 13, 30, 10))),
    ("after:7d", Time("after", seoul(2026, 11, 15, 15, 30, 10))),
    # numbers
    ("took:5", Number("took", "=", 5)),
    ("took:>5s", Number("took", ">", 5)),
    ("took:<=300ms", Number("took", "<=", 0.3)),
    ("took:1.5h", Number("took", "=", 5400)),
    ("took:1m..2m", Number("took", "..", 60, 120)),
    ("waiting:>2h", Number("waiting", ">", 7200)),
    ("waiting:<=1.5d", Number("waiting", "<=", 129_600)),
    ("waiting:1h..3h", Number("waiting", "..", 3600, 10_800)),
    ("tokens:>=10k", Number("tokens", ">=", 10_000)),
    ("tokens:1.5M", Number("tokens", "=", 1_500_000)),
    ("turns:=3", Number("turns", "=", 3)),
    ("events:5..10", Number("events", "..", 5, 10)),
    # state
    ('state.booking_step = "payment"', State("session", ("booking_step",), "=", ("payment",))),
    ("booking_step != done", State("session", ("booking_step",), "!=", ("done",))),
    ("cart.total>100", State("session", ("cart", "total"), ">", (100,))),
    ("cart.total >= -1.5e2", State("session", ("cart", "total"), ">=", (-150.0,))),
    ("a == 1", State("session", ("a",), "=", (1,))),
    ("done = true", State("session", ("done",), "=", (True,))),
    ('done = "true"', State("session", ("done",), "=", ("true",))),
    ("done = null", State("session", ("done",), "=", (None,))),
    ("zip = 007", State("session", ("zip",), "=", ("007",))),
    ('user:tier in ("gold", silver,3)', State("user", ("tier",), "in", ("gold", "silver", 3))),
    ("user:tier IN(gold)", State("user", ("tier",), "in", ("gold",))),
    ("app:version exists", State("app", ("version",), "exists")),
    ("-app:version exists", Not(State("app", ("version",), "exists"))),
    ('state."odd key".a = 1', State("session", ("odd key", "a"), "=", (1,))),
    ('app:"a.b" = 1', State("app", ("a.b",), "=", (1,))),
    ("단계 = 결제", State("session", ("단계",), "=", ("결제",))),
    ("user:tier", Match("user", "tier")),
    ("total in stock", And((Text("total"), Text("in"), Text("stock")))),
    ("was.step = failed", State("session", ("step",), "=", ("failed",), ever=True)),
    ("WAS.user:tier exists", State("user", ("tier",), "exists", ever=True)),
    ('was.state."odd key".a in (1, 2)', State("session", ("odd key", "a"), "in", (1, 2), ever=True)),
    ("state.was.a = 1", State("session", ("was", "a"), "=", (1,))),
    ("set:step", Wrote("set", "session", ("step",))),
    ("set:state.cart.total", Wrote("set", "session", ("cart", "total"))),
    ("-changed:app:price", Not(Wrote("changed", "app", ("price",)))),
    ('changed:"user:tier by Nadia Kim"', Wrote("changed", "user", ("tier",), "Nadia Kim")),
    ('set:"odd key"', Wrote("set", "session", ("odd key",))),
    (r'set:"app:\"sorted by\".a BY x"', Wrote("set", "app", ("sorted by", "a"), "x")),
    ('set:"a by"', Wrote("set", "session", ("a by",))),
    ("a = 1 or b = 2", Or((State("session", ("a",), "=", (1,)), State("session", ("b",), "=", (2,))))),
]


@pytest.mark.parametrize(("text", "tree"), TREES)
def test_a_text_asks_for_what_its_tree_says(text: str, tree: Node | None) -> None:
    assert well(text) == tree
    assert repr(kinds(well(text))) == repr(kinds(tree))  # 1 is not True


def kinds(tree: Node | None) -> list[Any]:
    return [leaf.values for leaf in leaves(tree) if isinstance(leaf, State)] if tree else []


def test_every_part_says_where_it_stands() -> None:
    text = 'late (user:"N K" or -cart.total in (1, 2)) after:2h'
    assert [text[leaf.start : leaf.end] for leaf in leaves(well(text) or A)] == [
        *("late", 'user:"N K"', "cart.total in (1, 2)", "after:2h"),
    ]
    tree = well(text)
    assert isinstance(tree, And)
    assert [text[each.start : each.end] for each in tree.children] == [
        *("late", '(user:"N K" or -cart.total in (1, 2))', "after:2h"),
    ]


# --- Malformed texts --------------------------------------------------------------------------------------------------

NO_WAIT: Final = "isn't something that a call waits for."
MALFORMED: Final[list[tuple[str, str, list[tuple[str, str]]]]] = [
    ("a usr:nadia b", "a b", [("usr:nadia", "There's no filter “usr:”. Did you mean “user:”?")]),
    ("planet:x", "", [("planet:x", "There's no filter “planet:”. To search for it as text, put it in quotes.")]),
    ("a user:", "a", [("user:", "Something is missing after “user:”.")]),
    ('set:" "', "", [('set:" "', "Something is missing after “set:”.")]),
    ("changed:user: a", "a", [("changed:user:", "Something is missing after “changed:”.")]),
    ("user:(a or b)", "a or b", [("user:", "Something is missing after “user:”.")]),
    ("kind:messag", "", [("kind:messag", "“messag” isn't a kind of event. Did you mean “message”?")]),
    ("kind:x", "", [("kind:x", f"“x” isn't a kind of event. Use one of: {', '.join(KINDS)}.")]),
    ("status:faild", "", [("status:faild", "“faild” isn't a status. Did you mean “failed”?")]),
    (
        "status:bad a",
        "a",
        [("status:bad", "“bad” isn't a status. Use one of: running, waiting, failed, stopped, idle, stuck.")],
    ),
    ("waits:confirm", "", [("waits:confirm", f"“confirm” {NO_WAIT} Use one of: {', '.join(WAITS)}.")]),
    ("waits:inptu", "", [("waits:inptu", f"“inptu” {NO_WAIT} Did you mean “input”?")]),
    ("wait-for:x", "", [("wait-for:x", "There's no filter “wait-for:”. Did you mean “waits-for:”?")]),
    ("waits-for: a", "a", [("waits-for:", "Something is missing after “waits-for:”.")]),
    ("waiting:2h", "", [("waiting:2h", "No call waits for exactly “2h”. Did you mean “waiting:>2h”?")]),
    ("waiting:>long", "", [("waiting:>long", "“>long” isn't a duration. Use a value like 5s, 2m or 1h..3h.")]),
    ("took:soon", "", [("took:soon", "“soon” isn't a duration. Use a value like 5s, 2m or 1h..3h.")]),
    ("took:5..", "", [("took:5..", "“5..” isn't a duration. Use a value like 5s, 2m or 1h..3h.")]),
    ("turns:1e5", "", [("turns:1e5", "“1e5” isn't a number. Use a value like 3, 10k or 5..10.")]),
    ("turns:１", "", [("turns:１", "“１” isn't a number. Use a value like 3, 10k or 5..10.")]),
    *(
        (
            f"after:{wrong}",
            "",
            [
                (
                    f"after:{wrong}",
                    f"“{wrong}” isn't a time. Use a value like 14:00, 2026-11-22, 2026-11-22T14:00, today, yesterday or 2h.",
                )
            ],
        )
        for wrong in ("25:00", "2026-02-30", "999999999w", "9999-12-31T23:59-14:00", "noon", "2026-W01", "1400")
    ),
    ('a "fare exp', 'a "fare exp"', [('"fare exp', "This quote isn't closed.")]),
    ('user:"nadia', 'user:"nadia"', [('user:"nadia', "This quote isn't closed.")]),
    ('x = "a\\', 'state.x = "a\\\\"', [('"a\\', "This quote isn't closed.")]),
    ('""', "", [('""', "There is nothing between the quotes.")]),
    ("(a or (b", "a or b", [("(", "This bracket isn't closed."), ("(", "This bracket isn't closed.")]),
    ("a) b", "a b", [(")", "“)” isn't allowed here.")]),
    ("a or", "a", [("or", "Something is missing after “or”.")]),
    ("or a", "a", [("or", "Something is missing before “or”.")]),
    ("a and or b", "a or b", [("and", "Something is missing after “and”.")]),
    ("a not", "a", [("not", "Something is missing after “not”.")]),
    ("a ()", "a", [("(", "Something is missing after “(”.")]),
    ("a x =", "a", [("=", "Something is missing after “=”.")]),
    ("x = or a", "a", [("=", "Something is missing after “=”.")]),
    ("x = (a)", "a", [("=", "Something is missing after “=”.")]),
    ("x in (1,,2)", "state.x in (1, 2)", [(",", "Something is missing after “,”.")]),
    ("x in () a", "a", [("(", "Something is missing after “(”.")]),
    ("x in (1, 2", "state.x in (1, 2)", [("(", "This bracket isn't closed.")]),
    ("x in (1 (2)) a", "state.x in (1, 2) a", [("(", "“(” isn't allowed here."), (")", "“)” isn't allowed here.")]),
]


@pytest.mark.parametrize(("text", "rest", "said"), MALFORMED)
def test_a_malformed_part_is_named_and_the_rest_works(text: str, rest: str, said: list[tuple[str, str]]) -> None:
    assert problems(text) == said
    assert write(parsed(text).tree) == rest


def test_a_problem_is_told_in_the_readers_language() -> None:
    with override("es"):
        assert problems("usr:nadia") == [("usr:nadia", "No existe el filtro «usr:». ¿Querías decir «user:»?")]
        assert (
            problems("a" * 10_001)[0][1] == "Una consulta puede tener hasta 10\u00a0000 caracteres. El resto se ignora."
        )


def test_what_no_database_holds_is_no_error() -> None:
    assert well("a\0b \ud800") == And((Text("a\ufffdb"), Text("\ufffd")))


# --- Limits -----------------------------------------------------------------------------------------------------------

TOO_LONG: Final = "A query can have up to 10,000 characters. The rest is ignored."
TOO_MANY: Final = "A query can have up to 200 conditions. The rest is ignored."
TOO_MANY_SIGNS: Final = "A query can have up to 1,000 words and symbols. The rest is ignored."
TOO_WRONG: Final = "The query has 20 mistakes up to this point. The rest is ignored."
TOO_DEEP: Final = "Brackets can nest up to 10 levels deep. The rest is ignored."

HOSTILE: Final[list[tuple[str, str | None]]] = [
    ("(" * 10_000, TOO_DEEP),
    ("(-" * 5_000, TOO_DEEP),
    (")" * 10_000, TOO_WRONG),
    ("-" * 10_000, TOO_MANY_SIGNS),
    ("or " * 3_333, TOO_WRONG),
    ("not " * 2_500, TOO_MANY_SIGNS),
    ('"' * 10_000, TOO_MANY),
    ("a " * 5_000, TOO_MANY),
    ("a=1 " * 2_500, TOO_MANY),
    ("a in(" * 2_000, TOO_WRONG),
    ("a in (" + "1," * 4_000, TOO_MANY),
    ("a in (" + "," * 9_000, TOO_WRONG),
    ('a.""' * 2_500, TOO_MANY),
    ("a" * 10_001, TOO_LONG),
    ("a" * 10_000, None),
    ("a-" * 5_000, None),
    ("a" + " " * 9_999, None),
    ("\\" * 10_000, None),
    ('"' + "\\" * 9_999, "This quote isn't closed."),
    ('user:"' + "\\" * 9_994, "This quote isn't closed."),
    ("user:" * 2_000, None),
    ("a.b" * 3_333, None),
    ("state." * 1_666, None),
    ("a=" + "1" * 9_998, None),
]


def test_at_the_limits_everything_still_works() -> None:
    assert len(list(leaves(well("a " * 200) or A))) == 200
    assert well("(" * 10 + "a" + ")" * 10) == A


@pytest.mark.parametrize(("text", "message"), HOSTILE, ids=range(len(HOSTILE)))
def test_a_hostile_text_takes_few_steps(text: str, message: str | None) -> None:
    parsed("a")  # reads the grammar
    steps = 0

    def count(*_event: Any) -> None:
        nonlocal steps
        steps += 1

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        query = parsed(text)
    finally:
        sys.setprofile(before)
    assert steps < MOST_STEPS
    assert takes_less(0.5, lambda: parsed(text))  # what the regular expressions do is no step; it takes 0.03
    assert (message in {each.message for each in query.problems}) if message else not query.problems


MOST_STEPS: Final = 200_000

# --- Any text ---------------------------------------------------------------------------------------------------------

PIECES: Final = [
    *(text for text, _tree in TREES),
    *(text for text, _rest, _said in MALFORMED),
    *("(", ")", '"', "-", "or", "and", "not", ",", "=", "in", "in (", "exists", "\\", "state.", "app:", ":", ".", "\n"),
]
queries = st.lists(st.sampled_from(PIECES) | st.text(max_size=5), max_size=12).flatmap(
    lambda pieces: st.sampled_from([" ".join(pieces), "".join(pieces)])
)


@MANY
@given(queries)
def test_any_text_is_read_and_its_tree_written_and_read_again_is_equal(text: str) -> None:
    query = parsed(text)
    for each in query.problems:
        assert 0 <= each.start <= each.end <= len(text)
    for leaf in leaves(query.tree) if query.tree else ():
        assert 0 <= leaf.start < leaf.end <= len(text)
    again = well(write(query.tree))
    assert again == query.tree
    assert repr(kinds(again)) == repr(kinds(query.tree))


def test_a_time_that_was_never_typed_is_written_too() -> None:
    never_typed = Time("after", 1_795_325_400.25)
    assert well(write(never_typed)) == never_typed


# --- Links ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("user:nadia", ""),
        ("  user:nadia user:nadia ", ""),
        ('late  user:nadia "fare  expired"', 'late "fare  expired"'),
        ("late and user:nadia and lost", "late and lost"),
        ("USER:nadia and late", "late"),
        ('"x"and user:nadia', '"x"'),
        ("android user:nadia", "android"),
        ("late -user:a (user:b or user:c)", "late"),
        ("user:nadia or late", "user:nadia or late"),
        ("(user:nadia or late)  a", "(user:nadia or late)  a"),
        ("user:tier = gold user:nadia", "user:tier = gold"),
        ('usr:x  late user:nadia "exp', "late exp"),
    ],
)
def test_without_a_filter_the_rest_stays_as_it_was_typed(text: str, rest: str) -> None:
    assert without(text, "user") == rest


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("", "after:14:00"),
        ("late  after:2h before:1h", "late before:1h after:14:00"),
        ("a or b", "(a or b) after:14:00"),
        ("a or", "a after:14:00"),
        ('"fare exp', '"fare exp" after:14:00'),
    ],
)
def test_a_filter_is_added_in_place_of_the_one_of_its_name(text: str, after: str) -> None:
    assert with_filter(text, "after", "14:00") == after


def test_a_value_that_is_no_word_is_put_in_quotes() -> None:
    assert with_filter("", "user", 'Nadia "N" (1)') == r'user:"Nadia \"N\" (1)"'
    assert with_filter("", "user", "") == 'user:""'
    assert with_filter("late", "user", "nadia", exact=True) == 'late user:"nadia"'


@MANY
@given(queries)
def test_whatever_stands_there_a_filter_is_added_to_it(text: str) -> None:
    tree = well(with_filter(text, "after", "14:00"))
    rest = well(without(write(parsed(text).tree), "after"))
    assert tree == (
        And((*parts(rest), Time("after", seoul(2026, 11, 22, 14)))) if rest else Time("after", seoul(2026, 11, 22, 14))
    )


def parts(tree: Node) -> tuple[Node, ...]:
    return tree.children if isinstance(tree, And) else (tree,)


# --- The documentation ------------------------------------------------------------------------------------------------


def test_the_docs_have_the_grammar_as_it_is() -> None:
    (block,) = re.findall(r"```lark\n(.*?)```", DOCS, re.DOTALL)
    assert block == (ROOT / "sessions_app" / "search" / "query.lark").read_text()


def test_every_example_of_the_docs_works() -> None:
    blocks = re.findall(r"```text\n(.*?)```", DOCS, re.DOTALL)
    cells = re.findall(r"^\| ((?:`[^`]+`(?:, )?)+) \|", DOCS, re.MULTILINE)
    examples = [*"".join(blocks).splitlines(), *re.findall(r"`([^`]+)`", " ".join(cells))]
    assert len(examples) > 50
    for example in examples:
        assert well(example), example


def test_the_docs_name_every_filter_status_and_kind() -> None:
    for name in FILTERS:
        assert f"`{name}:" in DOCS
    for name in (*STATUSES, *KINDS, *WAITS):
        assert f"`{name}`" in DOCS


def test_times_are_those_of_the_zone() -> None:
    tree = parse("after:today", now=NOW, zone=UTC).tree
    assert tree == Time("after", seoul(2026, 11, 22, 9))
