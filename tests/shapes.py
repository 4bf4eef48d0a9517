"""What one writer may put into a database to make pages slow or large; each is made when it is asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tests.costs import delta, parts

Shape = dict[str, Any]  # as `costs.write` takes it


def _levels(number: int, wide: int) -> Any:
    value: Any = 1
    for _level in range(number):
        value = {"down": value, **{f"k{n}": n for n in range(wide)}}
    return value


def _calls(kind: str) -> dict[str, Any]:
    inside = "args" if kind == "function_call" else "response"
    return parts(*({kind: {"id": f"c{n}", "name": "look", inside: {}}} for n in range(30_000)))


def _edit(**note: Any) -> dict[str, Any]:
    return {"author": "system", "custom_metadata": {"adkweb": {"kind": "edit", "actor": "ana", **note}}}


HELLO: Final = parts({"text": "x"})

# Those of the report.
REPORTED: Final[dict[str, Callable[[], Shape]]] = {
    "20 000 pieces of data": lambda: {
        "events": [parts(*[{"inline_data": {"mime_type": "image/png", "data": "AAAA"}}] * 20_000)]
    },
    "30 000 calls and answers": lambda: {
        "events": [_calls("function_call"), *[HELLO] * 200, _calls("function_response")]
    },
    "200 000 keys in one delta": lambda: {"events": [delta(**{f"k{n}": n for n in range(200_000)})]},
    "20 keys of a megabyte": lambda: {"events": [HELLO], "state": {str(n) + "x" * 10**6: 1 for n in range(20)}},
    "events of 31 MB": lambda: {"events": [parts({"text": "x" * 31_000_000})] * 5},
    "1.5 million keys": lambda: {"events": [HELLO], "state": {f"k{n}": n for n in range(1_500_000)}},
    "events of 4 MB": lambda: {"events": [parts({"text": "é" * 4_000_000})] * 8},
    "wide trees": lambda: {
        "events": [delta(a=list(range(140_000)), b={f"k{n}": n for n in range(140_000)}), delta(x=1)],
        "state": {"a": list(range(1, 140_001)), "b": {f"k{n}": n + 1 for n in range(140_000)}, "x": 1},
    },
}

# Those that nobody reported.
OTHERS: Final[dict[str, Callable[[], Shape]]] = {
    "50 000 keys in one delta": lambda: {
        "events": [delta(**{f"k{n}": n for n in range(50_000)})],
        "state": {f"k{n}": n for n in range(50_000)},
    },
    "20 000 keys in one delta": lambda: {
        "events": [delta(**{f"k{n}": n for n in range(20_000)}), delta(k1=5)],
        "state": {f"k{n}": n for n in range(20_000)},
    },
    "50 000 user keys": lambda: {
        "events": [delta(**{f"user:k{n}": n for n in range(50_000)})],
        "user": {f"k{n}": n for n in range(50_000)},
    },
    "20 000 events, each its own key": lambda: {
        "events": [delta(**{f"k{n}": "x" * 1_000}) for n in range(20_000)],
        "state": {f"k{n}": "x" * 100 for n in range(20_000)},
    },
    "100 000 long-running ids": lambda: {
        "events": [parts({"text": "x"}, long_running_tool_ids=[f"t{n}" for n in range(100_000)])]
    },
    "50 000 artifacts": lambda: {"events": [{"actions": {"artifact_delta": {f"a{n}": n for n in range(50_000)}}}]},
    "50 000 auth configs": lambda: {
        "events": [{"actions": {"requested_auth_configs": {f"c{n}": {"auth_scheme": {}} for n in range(50_000)}}}]
    },
    "50 000 grounding chunks": lambda: {
        "events": [
            parts(
                {"text": "x"},
                grounding_metadata={"grounding_chunks": [{"web": {"uri": "https://x", "title": "y"}}] * 50_000},
            )
        ]
    },
    "100 levels, each wide": lambda: {"events": [delta(t=_levels(100, 300))], "state": {"t": _levels(100, 300)}},
    "authors and branches of a megabyte": lambda: {
        "events": [parts({"text": "x"}, author="a" * 10**6, branch="b" * 10**6, model_version="m" * 10**6)] * 8
    },
    "names of calls of a megabyte": lambda: {
        "events": [parts({"function_call": {"id": "c", "name": "n" * 10**6, "args": {}}})] * 6
    },
    "errors and reasons of a megabyte": lambda: {
        "events": [
            {"error_code": "c" * 10**6, "error_message": "m" * 10**6},
            {"actions": {"transfer_to_agent": "t" * 10**6, "rewind_before_invocation_id": "i" * 10**6}},
            _edit(reason="r" * 10**6, actor="p" * 10**6),
        ]
    },
    "an edit that notes 50 000 keys": lambda: {
        "events": [
            {**_edit(replaced={f"k{n}": 0 for n in range(50_000)}), **delta(**{f"k{n}": 1 for n in range(50_000)})}
        ],
        "state": {f"k{n}": 1 for n in range(50_000)},
    },
    "numbers": lambda: {"events": ['{"output": [' + "1," * 3_000_000 + "1]}"], "state": {"n": [1] * 2_000_000}},
    "states just small enough": lambda: {
        "events": [HELLO],
        "state": {f"k{n}": n for n in range(120_000)},
        "user": {f"k{n}": n for n in range(120_000)},
        "app": {f"k{n}": n for n in range(120_000)},
    },
    "titles of a megabyte": lambda: {
        "events": [HELLO],
        "sessions": [{"__session_metadata__": {"displayName": "t" * 900_000}}] * 50,
    },
    "events of a megabyte": lambda: {
        "events": [parts({"text": "x" * 10**6}, **delta(**{f"k{n}": "y" * 500_000})) for n in range(60)],
        "state": {"k1": 1},
    },
    "events of 500 parts": lambda: {"events": [parts(*({"text": f"part {n}"} for n in range(500)))] * 150},
    "one key, 5 000 writes of 20 kB": lambda: {
        "events": [delta(k="y" * 20_000 + str(n)) for n in range(5_000)],
        "state": {"k": "y" * 20_000 + "4999"},
    },
    "merged objects": lambda: {
        "events": [delta(k={f"n{m}": n for m in range(500)}) for n in range(1_000)],
        "state": {"k": {f"n{m}": 999 for m in range(500)}},
    },
    "5 000 rewinds": lambda: {
        "events": [
            {"actions": {"rewind_before_invocation_id": "i1"}, **HELLO} if n % 2 else HELLO for n in range(10_000)
        ]
    },
    "2 000 summaries": lambda: {
        "events": [
            {
                "actions": {
                    "compaction": {
                        "start_timestamp": 0,
                        "end_timestamp": 9e9,
                        "compacted_content": {"role": "model", "parts": [{"text": "s" * 10_000}]},
                    }
                }
            }
        ]
        * 2_000
    },
}
SHAPES: Final = REPORTED | OTHERS
