"""Finds the kinds of an event: one table, with how each is shown and described."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from . import summary
from .adk_fields import EVENT_FIELDS
from .description import AUTH_CALL, CONFIRMATION_CALL, STOP, Description, heard_in, parts_of
from .edit_note import edit_of
from .event import delta_of, removed_by
from .json_values import as_object
from .summary import Piece, cut_off
from .translation import gettext as _


def describe(event: Mapping[str, Any], written: float | None = None) -> Description:
    """Describes an event, and when it was stored if that is known.

    It never raises for an event from a database, whatever is in it.
    """
    actions = as_object(event.get("actions"))
    parts = parts_of(event)
    tokens = as_object(event.get("usage_metadata")).get("total_token_count")
    heard, interim = heard_in(event)
    description = Description(
        kind="unknown",
        author=str(event.get("author") or ""),
        parts=parts,
        delta=delta_of(event),
        removed=removed_by(event),
        actions=actions,
        edit=edit_of(event),
        tokens=tokens if isinstance(tokens, int) else None,
        heard=heard,
        interim=interim,
        written=written,
    )
    kinds = [name for name, kind in TABLE.items() if kind.is_of(event, actions, description)]
    description.kinds = [name for name in kinds if name != "empty"] or kinds
    description.kind = description.kinds[0] if description.kinds else "unknown"
    return description


class Kind(NamedTuple):
    """A kind of event: how to recognise it, and how it is shown."""

    is_of: Callable[
        [Mapping[str, Any], dict[str, Any], Description], bool
    ]  # the event, its actions, its description so far
    icon: str  # in static/img/icons.svg
    say: summary.Say  # what it says in words
    style: str = "bold"  # in a terminal
    highlight: int = 0  # its weight on the strip, which history/index/read_source.py stores; 0: not shown


# The kinds of event, the most specific first: an event that transfers and also changes state is shown as a transfer,
# with chips for the state change.
TABLE: Final[dict[str, Kind]] = {
    "edit": Kind(lambda e, a, d: bool(d.edit), "edit", summary.edit, style="bold yellow", highlight=4),
    "rewind": Kind(
        lambda e, a, d: bool(a.get("rewind_before_invocation_id")),
        "rewind",
        summary.rewind,
        style="bold yellow",
        highlight=3,
    ),
    "compaction": Kind(lambda e, a, d: bool(a.get("compaction")), "past", summary.compaction, style="dim", highlight=2),
    "stopped": Kind(lambda e, a, d: e.get("error_code") == STOP, "stop", summary.stopped),
    "error": Kind(
        lambda e, a, d: bool(e.get("error_code") or e.get("error_message")) and e.get("error_code") != STOP,
        "error",
        summary.error,
        style="bold red",
        highlight=5,
    ),
    "interrupted": Kind(lambda e, a, d: bool(e.get("interrupted")), "wait", summary.interrupted),
    "auth": Kind(
        lambda e, a, d: bool(a.get("requested_auth_configs")) or _calls(d, AUTH_CALL),
        "lock",
        summary.auth,
        style="bold magenta",
    ),
    "confirmation": Kind(
        lambda e, a, d: bool(a.get("requested_tool_confirmations")) or _calls(d, CONFIRMATION_CALL),
        "wait",
        summary.confirmation,
        style="bold magenta",
    ),
    "long_running": Kind(
        lambda e, a, d: any(part.waiting for part in d.parts), "wait", summary.long_running, style="bold magenta"
    ),
    "transfer": Kind(lambda e, a, d: bool(a.get("transfer_to_agent")), "transfer", summary.transfer),
    "escalation": Kind(lambda e, a, d: bool(a.get("escalate")), "export", summary.escalation),
    "call": Kind(lambda e, a, d: bool(d.calls), "tool", summary.call),
    "response": Kind(lambda e, a, d: bool(d.responses), "return", summary.response),
    "code": Kind(lambda e, a, d: bool(d.of("code")), "code", summary.code),
    "code_result": Kind(lambda e, a, d: bool(d.of("code_result")), "return", summary.code_result),
    "message": Kind(lambda e, a, d: bool(d.of("text")), "model", summary.message, style="bold green"),
    "media": Kind(lambda e, a, d: bool(d.media), "image", summary.media),
    "transcription": Kind(
        lambda e, a, d: bool(e.get("input_transcription") or e.get("output_transcription")),
        "message",
        summary.transcription,
    ),
    "thought": Kind(lambda e, a, d: bool(d.of("thought")), "thought", summary.thought, style="dim"),
    "output": Kind(lambda e, a, d: e.get("output") is not None, "export", summary.output),
    "artifact": Kind(lambda e, a, d: bool(a.get("artifact_delta")), "file", summary.artifact),
    "state": Kind(lambda e, a, d: bool(d.delta), "state", summary.state, highlight=1),
    "checkpoint": Kind(
        lambda e, a, d: bool(a.get("agent_state") or a.get("end_of_agent")), "check", summary.checkpoint, style="dim"
    ),
    "finish": Kind(lambda e, a, d: bool(e.get("turn_complete")), "check", summary.finish, style="dim"),
    "remote": Kind(lambda e, a, d: summary.is_remote(e), "transfer", summary.remote, style="dim"),
    "live": Kind(lambda e, a, d: any(e.get(name) for name in summary.LIVE), "past", summary.live, style="dim"),
    "empty": Kind(
        lambda e, a, d: bool(d.author) and not d.parts and EVENT_FIELDS.issuperset(e),  # kept if it is nothing else
        "info",
        summary.empty,
        style="dim",
    ),
    "unknown": Kind(lambda e, a, d: False, "info", summary.unknown),
}
KINDS: Final = tuple(TABLE)
HIGHLIGHTS: Final = tuple(  # the kinds that the strip shows, the most specific last
    sorted((name for name, kind in TABLE.items() if kind.highlight), key=lambda name: TABLE[name].highlight)
)


def say(description: Description, event: Mapping[str, Any]) -> Iterator[Piece]:
    """Describes an event in one line of words."""
    yield from TABLE[description.kind].say(description, event)
    if description.kind != "artifact" and description.actions.get("artifact_delta"):
        yield Piece(" ")
        yield from summary.artifacts(description)
    if description.kind != "error" and (reason := cut_off(event)):
        yield Piece(" ")
        yield Piece(_("cut off: %(reason)s") % {"reason": reason})


def _calls(description: Description, name: str) -> bool:
    return any(part.name == name for part in description.calls)
