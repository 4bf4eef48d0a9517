"""Decides which events are not for an agent, and why (pure)."""

from dataclasses import dataclass
from typing import Any, Final, Literal

from ..domain.content import Raw, calls_of, object_of, parts_of, responses_of
from ..domain.description import AUTH_CALL, CONFIRMATION_CALL

Kind = Literal[
    "rewind",  # the event that rewinds
    "rewound",
    "scope",  # of another isolation scope
    "node",  # a message for another node of a workflow
    "empty",  # nothing that a model reads
    "unread",  # unknown: it is too large to be read
    "branch",
    "framework",
    "auth",
    "confirmation",
    "progress",  # what a tool said on its own branch while it ran
    "compacted",
    "contained",  # a summary that another one contains
    "unpaired",  # a response without its call
    "unanswered",  # a call without a response
    "replaced",  # by a later response to the same call
    "overtaken",  # between a call and its late response
]
MEDIA: Final = ("inline_data", "file_data", "executable_code", "code_execution_result")
_FRAMEWORK_CALL: Final = "adk_framework"
_OWN_CALLS: Final[dict[str, Kind]] = {
    _FRAMEWORK_CALL: "framework",
    AUTH_CALL: "auth",
    CONFIRMATION_CALL: "confirmation",
}
_ALWAYS: Final = ("function_call", "function_response", "tool_call", "tool_response")


@dataclass(frozen=True, slots=True)
class Reader:
    """The agent that reads: its name, and the branch, isolation scope and node path that it runs with."""

    agent: str
    branch: str = ""
    isolation_scope: str | None = None
    path: str = ""


@dataclass(frozen=True, slots=True)
class Reason:
    """The reason why an event is left out. `by` is the index of the event that caused it, if one did."""

    kind: Kind
    by: int | None = None


def excluded(event: Raw, reader: Reader) -> Kind | None:
    """Returns why an event, on its own, is not for a reader; None if it is."""
    if event.get("isolation_scope") != reader.isolation_scope:
        return "scope"
    path = object_of(event, "node_info").get("path")
    if event.get("author") == "user" and path and path != reader.path and not responses_of(event):
        return "node"
    if _is_empty(event):
        return "empty"
    if not is_for_branch(reader.branch, event.get("branch")):
        return "branch"
    names = {str(each.get("name")) for each in (*calls_of(event), *responses_of(event))}
    return next((kind for name, kind in _OWN_CALLS.items() if name in names), None)


def is_for_branch(branch: str | None, of: Any) -> bool:
    """Returns whether an agent on a branch sees an event of another branch: its own, one above it, or none."""
    return not branch or not of or f"{branch}.".startswith(f"{of}.")


def is_progress(event: Raw, reader: Reader, calls: set[str]) -> bool:
    """Returns whether a tool said this while it ran: on a branch of its own, below the reader's.

    `calls` are the ids of all calls. An agent that is used as a tool has its own name at the end of its branch."""
    branch = str(event.get("branch") or "").split(".") if event.get("branch") else []
    base = reader.branch.split(".") if reader.branch else []
    if len(branch) <= len(base) or branch[: len(base)] != base:
        return False
    leaves = [segment.rpartition("@") for segment in branch[len(base) :]]
    return any(at and name in calls and leaf != reader.agent for leaf, at, name in leaves)


def _is_empty(event: Raw) -> bool:
    if object_of(event, "actions").get("compaction"):
        return False
    content = object_of(event, "content")
    if content.get("role") and not all(_is_invisible(part) for part in parts_of(content)):
        return False
    return event.get("output_transcription") is None and event.get("input_transcription") is None


def _is_invisible(part: Raw) -> bool:
    if any(part.get(name) is not None for name in _ALWAYS) or part.get("thought_signature"):
        return False
    return bool(part.get("thought")) or not (part.get("text") or any(part.get(name) is not None for name in MEDIA))
