"""Tests that share a server run in one worker, which starts it once.

pytest-xdist has groups of its own, `--dist loadgroup`, which it writes into the names of tests. Since pytest 9.2 nobody
may change those names, and every test is silently a group by itself (pytest-xdist's issue 1386).
"""

from __future__ import annotations

from typing import Final

from xdist.scheduler import LoadScopeScheduling

# Groups by the beginning of a file's name. Those that take longest stand first, and workers are given them first: single
# tests fill the end.
GROUPS: Final = {
    **{f"browser/test_{name}.py": "browser, every page" for name in ("accessible", "boxes", "pages")},
    **{f"browser/test_{name}.py": "browser, own servers" for name in ("agents", "breakpoints", "conversation", "demo")},
    **{
        f"browser/test_{name}.py": "browser, own servers" for name in ("find", "live_outages", "main_job", "new_source")
    },
    **{f"browser/test_{name}.py": "browser, own servers" for name in ("passkeys", "team", "time_story", "transfer")},
    **{f"browser/test_{name}.py": "browser, own servers" for name in ("webhook", "whatif")},
    **{f"browser/test_{name}.py": "browser, live" for name in ("live", "queued")},
    "browser/": "browser",
    **{
        f"live/test_{name}.py": "live"
        for name in ("access", "following", "processes", "rates", "roles", "sockets", "watching")
    },
    "live/test_masking.py": "live, by rules",  # after which the index reads everything anew
    "api/test_schemathesis.py": "schemathesis",
    "management/test_doctor.py": "doctor",
    "api/test_strangers.py": "strangers",
    "writes/test_crash.py": "crash",
    "js/": "js",
    "web/test_hostile_pages.py": "hostile pages",
    "api/test_limits.py": "limits",
    "web/test_network.py": "network",
    "api/test_token_table.py": "tokens",
    "test_contributing.py": "recipes",
    **{f"running/test_{name}.py": "agents" for name in ("children", "launcher")},
    "test_messages.py": "messages",
    **{f"test_{name}.py": "code, read once" for name in ("architecture", "glossary", "guarantees")},
}
_ORDER: Final = list(dict.fromkeys(GROUPS.values()))


def group_of(name: str) -> str:
    """Returns the group of a test, or nothing: "doctor" for "tests/management/test_doctor.py::test_it"."""
    file = name.removeprefix("tests/")
    return next((group for start, group in GROUPS.items() if file.startswith(start)), "")


def turn_of(name: str) -> int:
    """Returns when a test is given to a worker, beside others: those of the first group first, those of none last."""
    group = group_of(name)
    return _ORDER.index(group) if group else len(_ORDER)


class Groups(LoadScopeScheduling):
    """Gives each group to one worker, as a whole, and each other test to whoever is free."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid) or nodeid
