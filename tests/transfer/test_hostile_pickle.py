"""A pickle of an unknown hand: data comes out of it, or a refusal; nothing in it is ever run, looked up or unfolded."""

from __future__ import annotations

import builtins
import functools
import os
import pickle
import resource
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from google.adk.events import EventActions
from google.adk.sessions import _restricted_pickle
from hypothesis import given
from hypothesis import strategies as st

from sessions_app.domain.errors import Invalid
from sessions_app.transfer.formats import unpickle
from tests.strategies import MANY

# Python's reader warns of damage, too.
pytestmark = pytest.mark.filterwarnings("ignore:invalid escape sequence")

HEAD = b"\x80\x05"
MODEL = b"cgoogle.adk.events.event_actions\nEventActions\n)\x81"


class Calls:
    """Pickles as a call."""

    def __init__(self, *call: Any) -> None:
        self.call = call

    def __reduce__(self) -> Any:
        return self.call


def within(value: Any) -> bytes:
    """Actions whose state holds it."""
    return pickle.dumps(EventActions.model_construct(state_delta={"x": value}))


FILE = "hostile-was-here"
CALLS = {
    "os.system": (os.system, (f"touch {FILE}",)),
    "builtins.eval": (eval, (f"open({FILE!r}, 'w')",)),
    "builtins.exec": (exec, (f"open({FILE!r}, 'w')",)),
    "builtins.getattr": (getattr, ("", "join")),
    "builtins.open": (open, (FILE, "w")),
    "builtins.__import__": (builtins.__import__, ("antigravity",)),
    "functools.partial": (functools.partial, (os.system, "true")),
    "subprocess.Popen": (subprocess.Popen, (["touch", FILE],)),
    "sys.exit": (sys.exit, (3,)),
    "pickle.loads": (pickle.loads, (pickle.dumps(Calls(os.system, (f"touch {FILE}",))),)),
}


@pytest.mark.guarantee(
    "Databases and files", "If an imported file contains a pickle, adkweb reads the pickle but never executes it."
)
@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("place", ["whole", "state", "key"])
def test_a_call_is_refused_by_its_name_and_not_made(
    name: str, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    call = Calls(*CALLS[name])
    hostile = {"whole": pickle.dumps(call), "state": within(call), "key": within({call: 1})}[place]
    said = name.replace("os.", f"{os.name}.") if name == "os.system" else name.replace("builtins.open", "io.open")
    said = said.replace("pickle.loads", "_pickle.loads")
    with pytest.raises(Invalid, match=f"refused, and nothing of it run: the pickle names {said}"):
        unpickle.actions(hostile)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("opcodes", "problem"),
    [
        (b"X\x01\x00\x00\x00aQ.", "opcode BINPERSID"),
        (b"Pa\n.", "opcode PERSID"),
        (b"\x82\x01.", "opcode EXT1"),
        (b"\x97.", "opcode NEXT_BUFFER"),
        (b"(cos\nsystem\nX\x02\x00\x00\x00ido.", "names os.system"),
        (b"(X\x02\x00\x00\x00idios\nsystem\n.", "opcode INST"),
        (MODEL + b"}X\x0a\x00\x00\x00__reduce__cposix\nsystem\nsb.", "names posix.system"),
        (b"cgoogle.adk.events.event_actions\nos.system\n.", "names google.adk.events.event_actions.os.system"),
        (b"cgoogle.adk.events.event_actions\n__builtins__\n.", "__builtins__"),
        (b"X\x01\x00\x00\x00a)R.", "calls something that is not a class"),
        (b"cdatetime\ndate\n(X\x04\x00\x00\x00abcdtR)R.", "calls something that is not a class"),
        (MODEL + b"cdatetime\ndate\n\x86R.", "damaged"),
        (b"cdatetime\ndate\n.", "itself"),
        (b"}K\x01cdatetime\ndate\n(K\x01tRs.", "datetime.date that is not valid"),
        (b"}K\x01cuuid\nUUID\n)\x81}X\x03\x00\x00\x00intX\x01\x00\x00\x00asbs.", "uuid.UUID that is not valid"),
        (b"}K\x01cuuid\nUUID\n)\x81}bs.", "uuid.UUID that is not valid"),
        (b"}K\x01cdatetime\ntimezone\n)Rs.", "datetime.timezone that is not valid"),
        (b"}K\x01cbuiltins\nbytearray\nJ\xff\xff\xff\x7f\x85Rs.", "bytearray that is not valid"),  # so many zeros
        (b"cgoogle.adk.tools.tool_confirmation\nToolConfirmation\n)\x81.", "not EventActions"),
        (MODEL + b".", "not a model"),
        (b"K\x01.", "holds no actions"),
        (b"]q\x00h\x00a.", "nested deeper than 200 levels"),
        (b"]" * 300 + b"a" * 299 + b".", "nested deeper than 200 levels"),
        (b"", "not a pickle"),
        (b".", "damaged"),
        (b"N", "not a pickle"),
        (b"}.}.", "damaged"),
        (b"((((", "not a pickle"),
        (b"h\x07.", "damaged"),
        (b"a.", "damaged"),
        (b"}K\x01s.", "damaged"),
        (b"\xff\x00 not one", "not a pickle"),
    ],
)
def test_what_no_actions_consist_of_is_refused(opcodes: bytes, problem: str) -> None:
    with pytest.raises(Invalid, match=f"actions: .*{problem}"):
        unpickle.actions(HEAD + opcodes)


def laughs() -> bytes:
    """A list of ten times a list of ten times …, each the same one."""
    lists = b"".join(b"](" + bytes([ord("h"), n]) * 10 + b"eq" + bytes([n + 1]) for n in range(20))
    return b"}X\x01\x00\x00\x00a(]q\x00" + lists + b"ts."


LONG = b"X" + (1_000_000).to_bytes(4, "little") + b"x" * 1_000_000 + b"q\x01"
PATH, ENUM = b"cpathlib\nPurePosixPath\n", b"cgoogle.genai.types\nX\n"


def named_often(first: bytes, again: bytes, around: tuple[bytes, bytes] = (b"](", b"e")) -> bytes:
    """Actions with something long in them, and the same 4 000 times again."""
    return b"}X\x01\x00\x00\x00a" + around[0] + first + again * 4_000 + around[1] + b"s."


@pytest.mark.parametrize(
    ("hostile", "problem"),
    [
        (b"\x8d" + (2**30).to_bytes(8, "little") + b"short.", "not a pickle"),  # claims of 1 GB, of text and of bytes
        (b"\x8e" + (2**30).to_bytes(8, "little") + b"short.", "not a pickle"),
        (b"\x96" + (2**30).to_bytes(8, "little") + b"short.", "not a pickle"),
        (b"\x8b" + (2**31 - 1).to_bytes(4, "little") + b"short.", "not a pickle"),
        (b"Nr\xff\xff\xff\xff0.", "opcode POP"),  # a place in the memo that would want 64 GB before it
        (b"}" * 1_000_100 + b".", "more than 1000000 steps"),
        (b"N" * (unpickle.MOST_BYTES + 1), "the limit is"),
        (laughs(), "unfolds to more than"),
        (named_often(LONG, b"h\x01"), "unfolds to more than"),
        (named_often(ENUM + LONG + b"\x85R", ENUM + b"h\x01\x85R"), "unfolds to more than"),
        (named_often(b"}" + LONG + b"Ns", b"}h\x01Ns"), "unfolds to more than"),
        (named_often(b"\x8b\xa4\x06\x00\x00" + b"\x7f" * 1_700 + b"q\x01", b"h\x01" * 10), "unfolds to more than"),
        (named_often(LONG, b"h\x01", (PATH + b"(", b"tR")), "PurePosixPath that is not valid"),
        (
            b"\x8a\xff" + b"\x7f" * 255 + b"\x8b" + (9_000).to_bytes(4, "little") + b"\x7f" * 9_000 + b"\x86.",
            "no actions",
        ),
        (b"}X\x01\x00\x00\x00a\x8b" + (9_000).to_bytes(4, "little") + b"\x7f" * 9_000 + b"s.", ""),
    ],
)
def test_a_bomb_costs_little(hostile: bytes, problem: str) -> None:
    begun, before = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if problem:
        with pytest.raises(Invalid, match=problem):
            unpickle.actions(HEAD + hostile)
    else:
        unpickle.actions(HEAD + hostile)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 400 * 2**10  # KB
    assert time.monotonic() - begun < 60


def test_whatever_google_adk_allows_is_known_here() -> None:
    for module, name in _restricted_pickle._allowed_globals():
        pickled = HEAD + f"c{module}\n{name}\n.".encode()
        with pytest.raises(Invalid, match="itself"):  # a name alone is no value, but it is not refused
            unpickle.actions(pickled)


REAL = pickle.dumps(EventActions(state_delta={"a": [1, {"b": "c"}], "d": b"x"}, transfer_to_agent="z"))


@MANY
@given(st.lists(st.tuples(st.integers(0, len(REAL) - 1), st.integers(0, 255)), min_size=1, max_size=8), st.data())
def test_a_damaged_pickle_gives_json_or_a_refusal(changes: list[tuple[int, int]], data: st.DataObject) -> None:
    damaged = bytearray(REAL)
    for place, value in changes:
        damaged[place] = value
    end = data.draw(st.integers(0, len(REAL)))
    for each in (bytes(damaged), bytes(damaged[:end])):
        try:
            found = unpickle.actions(each)
        except Invalid:
            continue
        assert isinstance(found, dict)


@MANY
@given(st.binary(max_size=200))
def test_any_bytes_give_json_or_a_refusal(text: bytes) -> None:
    with suppress(Invalid):
        assert isinstance(unpickle.actions(HEAD + text), dict)
