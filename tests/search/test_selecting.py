"""Every filter of a query against a plain Python filter over the same sessions, in five scripts, on both databases."""

import json
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from hypothesis import given, settings
from hypothesis import strategies as st

from sessions_app.access.actor import SYSTEM, Actor
from sessions_app.domain.session_ref import SessionRef
from sessions_app.models import SearchSession
from sessions_app.search import matching, selecting, tree
from sessions_app.search.completing import complete
from sessions_app.search.language import MOST_BRACKETS
from sessions_app.search.results import SORTS, search
from sessions_app.search.selecting import among, select
from sessions_app.search.sql import rows
from sessions_app.search.words import asked, folded, tokens, where_in
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session
from tests.search.finding import feed, query_of
from tests.support.people import ALICE

SAYINGS = (
    "Find me a flight to Seoul",
    "The fare expired: quote Q-88213 is too old",
    "서울행 항공권을 예약했어요 요금이 만료됐습니다",
    "我的机票已经过期 KE924",
    "運賃の期限が切れました カード",
    "¿Dónde está mi maleta? Café añejo",
    "تذكرة الطيران انتهت 💳",
    "warfare and airfare expire",
)
APPS, USERS = ("booking", "Support"), ("nadia.garcia", "Nadia2", "지우", "tom")
TOOLS, AUTHORS = ("charge_card", "search_flights"), ("billing", "triage")
ORDER = 1_610_521_604_143_693_813  # an order's number: as a float, it equals the two beside it
TIERS: tuple[Any, ...] = ("gold", "silver", 5, 5.5, -1, True, None, ["a"], {"level": 3}, "Gold", "황금", ORDER, -ORDER)
DAY = 1_767_225_600.0


@dataclass
class Told:
    """A session as the plain filter sees it."""

    ref: SessionRef
    state: dict[str, Any]
    lines: list[str] = field(default_factory=list)
    facts: set[tuple[str, str]] = field(default_factory=set)
    began: dict[str, Any] = field(default_factory=dict)
    writes: list[tuple[str, Any, str]] = field(default_factory=list)  # full key, value, author
    first: float = 0.0
    last: float = 0.0
    took: float = 0.0
    turns: int = 0
    events: int = 0
    tokens: int = 0
    failed: bool = False


class Maker:
    """Makes sessions at random, always the same ones."""

    def __init__(self, sources: list[str]) -> None:
        self.random = random.Random(13)
        self.sources = sources
        self.shared: dict[tuple[str, str, str], dict[str, Any]] = {}

    def session(self, number: int) -> Told:
        """Makes a session with some turns."""
        app, user = self.random.choice(APPS), self.random.choice(USERS)
        state = {"step": self.random.choice(("pay", "book", 3)), "cart": {"total": self.random.choice((5, 250, "x"))}}
        if self.random.random() < 0.5:
            del state["cart"]
        source = self.random.choice(self.sources)
        ref = create_session(source, app, user, session_id=f"S-{number}", state=state, actor=ALICE)
        told = Told(ref, state, began=dict(state))
        at = DAY + self.random.randrange(5) * 3600
        for turn in range(self.random.randrange(4)):
            at = self._turn(told, turn, at + 60)
        told.lines += [ref.session_id, ref.user_id]
        return told

    def _turn(self, told: Told, turn: int, at: float) -> float:
        told.turns += 1
        told.failed = False
        self._append(told, "user", at, text=self.random.choice(SAYINGS))
        author, tool = self.random.choice(AUTHORS), self.random.choice(TOOLS)
        said = self.random.choice(SAYINGS)
        if self.random.random() < 0.5:
            call = {"function_call": {"name": tool, "id": "c", "args": {"q": said}}}
            self._append(told, author, at + 1, part=call, line=f"{tool} q {said}", kind="call", tool=tool)
            failed = self.random.random() < 0.5
            answer = {"function_response": {"name": tool, "id": "c", "response": {"error" if failed else "a": said}}}
            line = f"{tool} {'error' if failed else 'a'} {said}"
            self._append(told, author, at + 2, part=answer, line=line, kind="response", tool=tool)
            if failed:
                told.failed = True
                told.facts.add(("error", f"{tool}: {said}"))
        if self.random.random() < 0.4:
            keys = ("tier", "step", "user:tier", "app:tier")
            key, value = self.random.choice(keys), self.random.choice((*TIERS, "pay", 3))
            self._append(told, author, at + 3, delta={key: value})
            owner = self._owner(told.ref, key) if ":" in key else told.state
            owner[key.partition(":")[2] or key] = value
        self._append(told, author, at + 5, text=self.random.choice(SAYINGS), count=self.random.choice((0, 10, 500)))
        return at + 5

    def _owner(self, ref: SessionRef, key: str) -> dict[str, Any]:
        return self.shared.setdefault((*ref[:2], ref.user_id if key.startswith("user:") else ""), {})

    def _append(self, told: Told, author: str, at: float, **what: Any) -> None:
        event: dict[str, Any] = {"author": author, "timestamp": at, "invocation_id": f"i{told.turns}"}
        if "text" in what:
            event["content"] = {"parts": [{"text": what["text"]}]}
            told.lines.append(what["text"])
            told.facts.add(("kind", "message"))
        if "part" in what:
            event["content"] = {"parts": [what["part"]]}
            told.lines.append(what["line"])
            told.facts |= {("kind", what["kind"]), ("tool", what["tool"])}
        if "delta" in what:
            event["actions"] = {"state_delta": what["delta"]}
            told.facts.add(("kind", "state"))
            told.writes += [(key, value, author) for key, value in what["delta"].items()]
            told.lines += [f"{key} {flat(value)}" for key, value in what["delta"].items()]
        if what.get("count"):
            event["usage_metadata"] = {"total_token_count": what["count"]}
        append_event(told.ref, event, actor=ALICE)
        told.facts.add(("author", author))
        told.events += 1
        told.tokens += what.get("count", 0)
        told.took += at - told.last if author != "user" else 0
        told.first, told.last = told.first or at, at


def flat(value: Any) -> str:
    """A value of TIERS as words."""
    if isinstance(value, bool):
        return str(value).lower()
    return {"['a']": "a", "{'level': 3}": "level 3", "None": ""}.get(str(value), str(value))


def begins_a_word(wanted: str, name: str) -> bool:
    """Whether a name has a word, or words, that begin so: “garcia” in “nadia.garcia”."""
    starts = [n for n in range(len(name)) if name.startswith(wanted, n)]
    return not wanted or any(not wanted[0].isalnum() or n == 0 or not name[n - 1].isalnum() for n in starts)


class Plain:
    """The plain filter."""

    def __init__(self, maker: Maker) -> None:
        self.shared = maker.shared

    def holds(self, node: tree.Node, told: Told) -> bool:
        """Tells whether a tree selects a session."""
        match node:
            case tree.And(children):
                return all(self.holds(child, told) for child in children)
            case tree.Or(children):
                return any(self.holds(child, told) for child in children)
            case tree.Not(child):
                return not self.holds(child, told)
            case tree.Text(text):
                title = told.lines[0] if told.turns else ""
                return any(where_in(asked(text), tokens(line)) is not None for line in [*told.lines, title])
            case tree.Match():
                return self._match(node, told)
            case tree.Presence("error", there):
                return any(kind == "error" for kind, _ in told.facts) == there
            case tree.Presence():
                return not node.there  # nobody edited, and nobody gave tags
            case tree.Kind(value):
                return ("kind", value) in told.facts
            case tree.Status(value):
                return value == ("failed" if told.failed else "idle")
            case tree.Time("after", seconds):
                return told.last >= seconds if told.events else seconds < time.time() - 60
            case tree.Time(_, seconds):
                return told.first < seconds if told.events else seconds > time.time()
            case tree.Number():
                return compare(node.op, getattr(told, node.name), node.value, node.upto)
            case tree.State():
                return any(self._compares(node, value) for value in self._values(node, told))
            case tree.Wrote():
                return self._wrote(node, told)
        raise AssertionError(node)

    def _match(self, node: tree.Match, told: Told) -> bool:
        each = {
            "source": [told.ref.source],
            "app": [told.ref.app_name],
            "user": [told.ref.user_id],
            "session": [told.ref.session_id],
            "title": [told.lines[0][:120]] if told.turns else [""],
        }.get(node.name) or [value for kind, value in told.facts if kind == node.name]
        wanted = folded(node.value)
        if node.exact or node.name in ("session", "title", "error"):
            return any(folded(value) == wanted if node.exact else wanted in folded(value) for value in each)
        return any(begins_a_word(wanted, folded(value)) for value in each)

    def _values(self, node: tree.State, told: Told) -> list[Any]:
        """The value that a key has or, if that is asked, those that it had."""
        owner = {"session": None, "user": told.ref.user_id, "app": ""}[node.scope]
        now = told.state if owner is None else self.shared.get((*told.ref[:2], owner), {})
        if node.ever:
            written = [value for value, _author in self._written(node, told)]
            return written if owner is not None else [*written, *at(node.path, told.began), *at(node.path, now)]
        return at(node.path, now)

    def _written(self, node: tree.State | tree.Wrote, told: Told) -> list[tuple[Any, str]]:
        """What events wrote at a path, and who, in order."""
        (first, *rest), prefix = node.path, "" if node.scope == "session" else f"{node.scope}:"
        writes = [(value, author) for key, value, author in told.writes if key == prefix + first]
        return [(inner, author) for value, author in writes for inner in at(rest, value)]

    def _wrote(self, node: tree.Wrote, told: Told) -> bool:
        before = at(node.path, told.began) if node.scope == "session" else []
        for value, author in self._written(node, told):
            changed = not before or not (same(*before, value) or json.dumps(before[0]) == json.dumps(value))
            before = [value]
            if (changed or node.name == "set") and begins_a_word(folded(node.by), author):
                return True
        return False

    def _compares(self, node: tree.State, state: Any) -> bool:
        if node.op == "exists":
            return True
        if node.op == "in":
            return any(same(state, value) for value in node.values)
        (value,) = node.values
        if node.op in ("=", "!="):
            return same(state, value) == (node.op == "=")
        numbers = [each for each in (state, value) if isinstance(each, int | float) and not isinstance(each, bool)]
        texts = [each for each in (state, value) if isinstance(each, str)]
        return (len(numbers) == 2 or len(texts) == 2) and compare(node.op, state, value)


def at(path: Sequence[str], value: Any) -> list[Any]:
    """The value at a path, if there is one."""
    for part in path:
        if not isinstance(value, dict) or part not in value:
            return []
        value = value[part]
    return [value]


def same(one: Any, other: Any) -> bool:
    """Tells whether two JSON values are equal: 1 is 1.0, and true is not 1."""
    return isinstance(one, bool) == isinstance(other, bool) and not isinstance(one, list | dict) and one == other


def compare(op: str, one: Any, other: Any, upto: Any = None) -> bool:
    """Compares by an operator."""
    results = {"=": one == other, "<": one < other, "<=": one <= other, ">": one > other, ">=": one >= other}
    return other <= one <= upto if op == ".." else results[op]


# --- Queries ----------------------------------------------------------------------------------------------------------


@st.composite
def terms(draw: st.DrawFn) -> str:
    """Part of a saying, from anywhere in it."""
    saying = draw(st.sampled_from([*SAYINGS, "charge_card error", "S-12", "nadia.garcia", "tier gold"]))
    start = draw(st.integers(0, len(saying) - 1))
    return saying[start : start + draw(st.integers(1, 18))]


numbers = [5, 5.0, 5.5, 250, -1, 3, ORDER, ORDER - 1, ORDER + 1, float(ORDER), -ORDER, 1 - ORDER, 10**400]
scalars = st.sampled_from(["gold", "Gold", "silver", "pay", "황금", True, False, None, "x", *numbers])
orders = st.sampled_from(["=", "<", "<=", ">", ">="])
paths = st.sampled_from([("tier",), ("step",), ("cart", "total"), ("tier", "level"), ("cart",), ("nothing",)])
scopes = st.sampled_from(["session", "user", "app"])
leaves = st.one_of(
    terms().map(tree.Text),
    st.builds(
        tree.Match,
        st.sampled_from(["app", "user", "session", "title", "author", "tool", "error"]),
        terms() | st.sampled_from([*APPS, *USERS, *TOOLS, *AUTHORS, "NADIA", "book", "fare expired"]),
        st.booleans(),
    ),
    st.builds(tree.Presence, st.sampled_from(["error", "edited", "tag"]), st.booleans()),
    st.sampled_from(["message", "call", "response", "state", "rewind"]).map(tree.Kind),
    st.sampled_from(["idle", "failed", "stopped", "waiting", "running", "stuck"]).map(tree.Status),
    st.builds(tree.Time, st.sampled_from(["before", "after"]), st.integers(0, 20_000).map(lambda n: DAY + n)),
    st.builds(
        tree.Number, st.sampled_from(["took", "tokens", "turns", "events"]), orders, st.integers(0, 20).map(float)
    ),
    st.builds(
        tree.Number,
        st.sampled_from(["took", "tokens", "turns", "events"]),
        st.just(".."),
        st.integers(0, 4).map(float),
        st.integers(5, 600).map(float),
    ),
    st.builds(
        tree.State,
        scopes,
        paths,
        st.sampled_from(["=", "!=", "<", ">", "<=", ">="]),
        st.tuples(scalars),
        ever=st.booleans(),
    ),
    st.builds(
        tree.State,
        scopes,
        paths,
        st.just("in"),
        st.lists(scalars, min_size=1, max_size=3).map(tuple),
        ever=st.booleans(),
    ),
    st.builds(tree.State, scopes, paths, st.just("exists"), ever=st.booleans()),
    st.builds(
        tree.Wrote,
        st.sampled_from(["set", "changed"]),
        scopes,
        paths,
        st.sampled_from(["", *AUTHORS, "Bill", "age", "nobody"]),
    ),
)


def queries(sources: list[str]) -> st.SearchStrategy[tree.Node]:
    """Queries, also for sources, by parts of their names."""
    names = [*sources, *(name[-2:] for name in sources), sources[0][:2].upper(), ""]
    return st.recursive(
        leaves | st.builds(tree.Match, st.just("source"), st.sampled_from(names), st.booleans()),
        lambda inner: st.one_of(
            st.lists(inner, min_size=2, max_size=3).map(lambda nodes: tree.And(tuple(nodes))),
            st.lists(inner, min_size=2, max_size=3).map(lambda nodes: tree.Or(tuple(nodes))),
            inner.map(tree.Not),
        ),
        max_leaves=4,
    )


@pytest.mark.parametrize(
    ("own", "common"),
    [("sqlite", matching.COMMON), ("sqlite", 0), ("postgresql", 0)],
    indirect=["own"],
    ids=["sqlite", "sqlite-common", "postgresql"],
)
@pytest.mark.parametrize("form", ["sqlite", "postgresql"])
def test_a_query_selects_what_a_plain_filter_selects(
    own: str,
    common: int,
    source: str,
    new_store: Callable[[str], str],
    open_source: Callable[[str], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(matching, "COMMON", common)  # every word is one that very many texts have
    monkeypatch.setattr(matching, "LOOKS", 100_000)
    sources = [source, open_source(new_store("sqlite"))]
    maker = Maker(sources)
    told = [maker.session(number) for number in range(50)]
    plain = Plain(maker)
    for each in sources:
        feed(each)

    @settings(max_examples=10 * settings().max_examples)
    @given(queries(sources), st.sampled_from(sorted(SORTS)), st.booleans(), st.booleans())
    def check(node: tree.Node, sort: str, descending: bool, crowded: bool) -> None:
        monkeypatch.setattr(matching, "FEW", 0 if crowded else 1_000)  # all words, users and names count as very many
        monkeypatch.setattr(selecting, "MANY", 0 if crowded else 500)
        query = tree.Query(node)
        rows, cursor = [], None
        for _page in range(10):
            results = search(query, actor=SYSTEM, sort=f"{'-' * descending}{sort}", cursor=cursor, limit=17)
            rows += results.rows
            cursor = results.next
            if cursor is None:
                break
        expected = {each.ref for each in told if plain.holds(node, each)}
        assert {row.ref for row in rows} == expected
        assert (len(rows), results.count) == (len(expected), len(expected))
        numbers = dict(SearchSession.objects.values_list("pk", "names"))
        each = among(numbers, query, now=time.time())
        assert {numbers[number] for number in each} == {json.dumps(ref[1:]) for ref in expected}

    check()


def test_a_word_that_very_many_have_is_looked_for_in_the_few_sessions_alone(
    own: str, monkeypatch: pytest.MonkeyPatch, new_store: Callable[[str], str], open_source: Callable[[str], str]
) -> None:
    monkeypatch.setattr(matching, "COMMON", 20)
    source = open_source(new_store("sqlite"))
    for number in range(30):
        ref = create_session(source, "booking", "ana", session_id=f"s{number}", actor=ALICE)
        append_event(ref, {"author": "agent", "content": {"parts": [{"text": f"the fare {number}"}]}}, actor=ALICE)
    feed(source)
    few = sorted(SearchSession.objects.values_list("pk", flat=True))[:5]
    for text, is_common in (("fare", True), ("far", True), ('"the far"', True), ("-fare", True), ('"fare 7"', False)):
        with CaptureQueriesContext(connection) as sent:
            assert len(among(few, query_of(text), now=time.time())) == (0 if text in ("-fare", '"fare 7"') else 5)
        assert ("EXISTS" in sent[-1]["sql"]) == is_common, text
    ref = create_session(source, "booking", "ana", session_id="new", actor=ALICE)
    append_event(ref, {"author": "agent", "content": {"parts": [{"text": "the farmer"}]}}, actor=ALICE)
    feed(source)
    last = max(SearchSession.objects.values_list("pk", flat=True))
    for text in ("far", '"the far"'):
        assert among([last], query_of(text), now=time.time()) == {last}, "although what begins so was remembered"


def test_a_name_is_found_by_the_start_of_a_word(
    own: str, new_store: Callable[[str], str], open_source: Callable[[str], str]
) -> None:
    source = open_source(new_store("sqlite"))
    for user in ("Ana", "jiwoo.tanaka", "ana.meyer@example.com", "müller_ana", "田中あな", "x-ana-1"):
        ref = create_session(source, "shop-anagrams", user, session_id=user, actor=ALICE)
        call = {"function_call": {"id": "c", "name": "charge_card", "args": {}}}
        append_event(ref, {"author": "banana", "error_code": "ReadTimeout", "content": {"parts": [call]}}, actor=ALICE)
    feed(source)

    def users(text: str) -> set[str]:
        return {row.ref.user_id for row in search(query_of(text), actor=SYSTEM).rows}

    everybody = users("")
    assert users("user:ana") == {"Ana", "ana.meyer@example.com", "müller_ana", "x-ana-1"}
    assert users('user:"ana"') == {"Ana"}
    assert users("user:MEYER@ex") == {"ana.meyer@example.com"}
    assert users("user:@example") == {"ana.meyer@example.com"}
    assert users("user:中") == {"田中あな"}
    assert (users("app:ana"), users("app:grams"), users("app:p-anagrams")) == (everybody, set(), set())
    assert (users("tool:card"), users("tool:ard"), users("author:ana")) == (everybody, set(), set())
    assert users("error:timeout") == everybody, "errors are texts"
    assert next(each.text for each in complete("user:ana", 8, actor=SYSTEM)) == "Ana"
    assert "jiwoo.tanaka" not in {each.text for each in complete("user:ana", 8, actor=SYSTEM)}


@pytest.mark.parametrize("leaf", ["word", "tool:a", "user:a", "tag:a", 'state.a = "b"', "error:any", '"two words"'])
def test_a_query_as_deep_as_allowed_is_answered(own: str, leaf: str) -> None:
    deep = f"-({leaf} or " * MOST_BRACKETS + leaf + ")" * MOST_BRACKETS
    assert search(query_of(deep), actor=SYSTEM).count == 0
    assert search(query_of(deep.replace(" or ", " ")), actor=Actor.holding("ana", "read", "x*")).count == 0
    assert among([1], query_of(deep), now=0.0) == set()


@pytest.mark.parametrize(
    "text", ["status:waiting", "status:running", "status:stuck after:24h", "app:booking status:stuck"]
)
@pytest.mark.parametrize("end", ["LIMIT 5", "ORDER BY s.last DESC, s.id DESC LIMIT 5"])
def test_a_status_of_work_is_looked_for_among_the_sessions_at_work_alone(own: str, text: str, end: str) -> None:
    selection = select(query_of(text), SYSTEM)
    plan = rows(
        f"EXPLAIN QUERY PLAN SELECT s.id FROM sessions_app_searchsession AS s WHERE {selection.sql} {end}",
        selection.values,
    )
    assert any("USING INDEX search_phase" in step[-1] for step in plan), plan


@pytest.mark.parametrize("text", ["waits:any", "waits:input", "waiting:>2h", "app:booking waits:credential"])
@pytest.mark.parametrize("end", ["LIMIT 5", "ORDER BY s.last DESC, s.id DESC LIMIT 5"])
def test_calls_that_wait_lead_to_their_sessions(own: str, text: str, end: str) -> None:
    selection = select(query_of(text), SYSTEM)
    plan = rows(
        f"EXPLAIN QUERY PLAN SELECT s.id FROM sessions_app_searchsession AS s WHERE {selection.sql} {end}",
        selection.values,
    )
    assert any("SEARCH s USING INTEGER PRIMARY KEY" in step[-1] for step in plan), plan
    assert any("INDEX search_pending_at (passed_over=?" in step[-1] for step in plan), plan
    with CaptureQueriesContext(connection) as sent:
        among([1], query_of(text), now=0.0)
    plan = rows(f"EXPLAIN QUERY PLAN {sent[-1]['sql']}", [])
    assert any(step[-1].startswith("SEARCH p USING INDEX sqlite_autoindex") for step in plan), plan
