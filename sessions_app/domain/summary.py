"""Summarises what happened in an event in one line of words, for pages and for the terminal.

Each function does so for one kind of event, in pieces: [Piece("Transfer to "), Piece("hotel_agent", own=True)].
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final, NamedTuple

from .description import AUTH_CALL, CONFIRMATION_CALL, INPUT_CALL, Description, Part, parts_of
from .json_values import as_object, read_stored_or_none
from .plain import plain
from .shorten import brief, words
from .translation import gettext as _

_LINE: Final = 240  # characters of a message
_MOST: Final = 5  # calls, files or names on one line
_MOST_ARGUMENTS: Final = 8
_NAME: Final = 80  # characters of a tool's or an agent's name
_OF_EVERY_EVENT: Final = frozenset({"id", "invocation_id", "timestamp", "author", "actions"})
LIVE: Final = ("live_session_resumption_update", "go_away", "voice_activity")  # fields about the connection to a model
_A2A: Final = "a2a:"  # starts names in the metadata of an event
_NO_REASONS: Final = ("", "STOP", "FINISH_REASON_UNSPECIFIED")


class Piece(NamedTuple):
    """Some of a line's words: the event's `own`, or adkweb's. `aside` ones add details, `code` is code, JSON or an
    id."""

    text: str
    own: bool = False
    aside: bool = False
    code: bool = False


Pieces = Iterator[Piece]
Say = Callable[[Description, Mapping[str, Any]], Pieces]  # of an event: what it is, and its JSON
_SPACE: Final = Piece(" ")


def artifacts(d: Description) -> Pieces:
    """Says which files an event saves."""
    delta = as_object(d.actions.get("artifact_delta"))
    for name, version in islice(delta.items(), _MOST):
        yield Piece(words(name, _NAME), own=True)
        yield Piece(f" v{words(version, 20)} ", aside=True)
    yield from _more(len(delta))


def edit(d: Description, event: Mapping[str, Any]) -> Pieces:
    """Says why adkweb made an event; who and why are beside it."""
    forked = as_object(d.edit.get("forked"))
    if d.actions.get("rewind_before_invocation_id"):
        yield from rewind(d, event)
    elif forked:
        yield Piece(_("Forked from") + " ")
        yield Piece(words(forked.get("session"), _NAME), own=True, aside=True)
    elif d.edit.get("undoes") and d.edit.get("expired"):
        yield Piece(_("Undone automatically"))
    elif d.edit.get("undoes"):
        yield Piece(_("Undo of an earlier event"))
    elif d.edit.get("restores"):
        yield Piece(_("State restored to an earlier event"))
    elif d.parts:
        yield Piece(_("Event added manually") + " ")
        yield _aside(d.text)
    else:
        yield Piece(_("State edit"))


def rewind(d: Description, event: Mapping[str, Any]) -> Pieces:
    """Says before which invocation the session continues."""
    yield Piece(_("Rewound to before") + " ")
    yield Piece(words(d.actions["rewind_before_invocation_id"], 13), own=True, aside=True, code=True)


def compaction(d: Description, event: Mapping[str, Any]) -> Pieces:
    """Says the summary that replaces earlier events."""
    yield Piece(_("Earlier events summarised") + " ")
    yield _aside(summary(d.actions.get("compaction")))


def error(d: Description, event: Mapping[str, Any]) -> Pieces:
    """Says the error's code and message."""
    yield Piece(words(event.get("error_code") or "", _NAME), own=True)
    yield _SPACE
    yield _aside(event.get("error_message") or "")


def stopped(d: Description, event: Mapping[str, Any]) -> Pieces:
    """Says that someone stopped the run, and which calls that ended."""
    yield Piece(_("Run stopped"))
    if d.responses:
        yield Piece(" · ", aside=True)
    yield from _listed(d.responses, lambda response: [_aside(response.name, _NAME)], between=", ")


def interrupted(d: Description, event: Mapping[str, Any]) -> Pieces:
    """Says what was interrupted."""
    yield Piece(_("Interrupted") + " ")
    yield _aside(d.words)


def auth(d: Description, event: Mapping[str, Any]) -> Pieces:
    """Says which tools ask someone to sign in."""
    if d.calls:
        yield Piece(_("Asks for sign-in"))
    else:
        yield from _listed(d.responses, lambda response: [_name(response), _SPACE])
        yield Piece(_("waiting for a sign-in"), aside=True)


def confirmation(d: Description, event: Mapping[str, Any]) -> Pieces:
    """Says which tools ask someone to confirm."""
    if d.calls:
        yield Piece(_("Asks for confirmation") + " ")
        yield from _listed(d.calls, lambda call: [_aside(_asked_about(call), _NAME), _SPACE])
    else:
        yield from _listed(d.responses, lambda response: [_name(response), _SPACE])
        yield Piece(_("waiting for confirmation"), aside=True)


def long_running(d: Description, event: Mapping[str, Any]) -> Pieces:
    """Says which calls wait for an answer."""
    waits = Piece(_("long-running, waiting for an answer") + " ", aside=True)

    def each(call: Part) -> Pieces:
        yield from _call(call)
        yield _SPACE
        if call.waiting and call.name != INPUT_CALL:
            yield waits

    yield from _listed(d.calls, each)


def transfer(d: Description, event: Mapping[str, Any]) -> Pieces:
    """Says to which agent the conversation goes, and why."""
    yield Piece(_("Transfer to") + " ")
    yield Piece(words(d.actions.get("transfer_to_agent"), _NAME), own=True)
    if reason := d.actions.get("transfer_reason"):
        yield _SPACE
        yield _aside(reason)


def escalation(d: Description, event: Mapping[str, Any]) -> Pieces:
    """Says which tool escalated the conversation."""
    yield Piece(_("Escalates to its parent agent"))
    if d.responses:
        yield Piece(" · ", aside=True)
    yield from _listed(
        d.responses,
        lambda response: [Piece(f"{words(response.name, _NAME)}()", own=True, aside=True, code=True)],
        between=", ",
    )


def call(d: Description, event: Mapping[str, Any]) -> Pieces:
    """Says which tools are called, with which arguments."""
    yield from _listed(d.calls, _call, between=" · ")


def response(d: Description, event: Mapping[str, Any]) -> Pieces:
    """Says what tools answered."""
    yield from _listed(d.responses, _response, between=" · ")


def code(d: Description, event: Mapping[str, Any]) -> Pieces:
    """Says the code that runs."""
    yield Piece(_("Runs code") + " ")
    yield from _listed(d.of("code"), lambda part: [Piece(words(part.value, 120), own=True, aside=True, code=True)])


def code_result(d: Description, event: Mapping[str, Any]) -> Pieces:
    """Says what the code printed."""
    yield Piece(_("Code result") + " ")
    yield from _listed(
        d.of("code_result"), lambda part: [Piece(words(part.value, 120), own=True, aside=True, code=True)]
    )


def message(d: Description, event: Mapping[str, Any]) -> Pieces:
    """Says what a person or an agent wrote, without the signs of Markdown."""
    yield Piece(words(plain(d.text), _LINE), own=True)


def media(d: Description, event: Mapping[str, Any]) -> Pieces:
    """Says the names of images and files."""
    yield from _listed(d.media, lambda part: [Piece(words(media_name(part)), own=True)], between=" · ")


def transcription(d: Description, event: Mapping[str, Any]) -> Pieces:
    """Says what was heard, otherwise what was spoken."""
    yield Piece((_("Spoken so far") if d.interim else _("Spoken")) + " ")
    yield _aside(d.heard)


def thought(d: Description, event: Mapping[str, Any]) -> Pieces:
    """Says what a model thought."""
    yield Piece(_("Thinks") + " ")
    yield from _listed(d.of("thought"), lambda part: [_aside(part.value)])


def output(d: Description, event: Mapping[str, Any]) -> Pieces:
    """Says the output of a workflow's node."""
    yield Piece(_("Output") + " ")
    yield Piece(brief(event.get("output"), 160), own=True, aside=True, code=True)


def artifact(d: Description, event: Mapping[str, Any]) -> Pieces:
    """Says which files are saved."""
    yield Piece(_("Saves") + " ")
    yield from artifacts(d)


def state(d: Description, event: Mapping[str, Any]) -> Pieces:
    """Says that state changes; the keys are beside it."""
    yield Piece(_("State change"))


def checkpoint(d: Description, event: Mapping[str, Any]) -> Pieces:
    """Says an agent's progress."""
    yield Piece(_("Agent finished") if d.actions.get("end_of_agent") else _("Agent checkpoint"))


def finish(d: Description, event: Mapping[str, Any]) -> Pieces:
    """Says that a live agent has had its turn."""
    yield Piece(_("Turn complete"))


def is_remote(event: Mapping[str, Any]) -> bool:
    """Returns whether an event reports on a task of a remote agent, over A2A."""
    return any(isinstance(name, str) and name.startswith(_A2A) for name in as_object(event.get("custom_metadata")))


def remote(d: Description, event: Mapping[str, Any]) -> Pieces:
    """Says the progress of a remote agent's task: “remote task t-1: submitted”."""
    noted = as_object(event.get("custom_metadata"))
    given = noted.get(f"{_A2A}response")
    answer = as_object(read_stored_or_none(given) if isinstance(given, str) else given)
    inner = answer if "status" in answer else as_object(answer.get("result") or answer.get("task"))
    task = noted.get(f"{_A2A}task_id") or inner.get("taskId") or inner.get("task_id") or inner.get("id")
    state = as_object(inner.get("status")).get("state") or noted.get(f"{_A2A}state")
    yield Piece(_("remote task") + (" " if task else ""))
    yield Piece(words(task or "", _NAME), own=True, aside=True, code=True)
    if state:
        yield Piece(": ")
        yield Piece(words(state, _NAME), own=True)


def live(d: Description, event: Mapping[str, Any]) -> Pieces:
    """Says what a live run noted of its connection."""
    if resumption := as_object(event.get("live_session_resumption_update")):
        yield Piece(_("Live session can be resumed") if resumption.get("resumable") else _("Live session"))
        yield _SPACE
        yield Piece(words(resumption.get("new_handle") or "", 20), own=True, aside=True, code=True)
    elif event.get("go_away"):
        yield Piece(_("The model's server is about to close the connection"))
    else:
        yield Piece(_("Voice activity"))


def empty(d: Description, event: Mapping[str, Any]) -> Pieces:
    """Says which fields an event without content has."""
    yield Piece(_("Event without content") + " ")
    yield _fields(event)


def cut_off(event: Mapping[str, Any]) -> str:
    """Returns why a model stopped before its end, such as MAX_TOKENS; empty if it did not."""
    reason = event.get("finish_reason")
    return words(reason, _NAME) if isinstance(reason, str) and reason not in _NO_REASONS else ""


def unknown(d: Description, event: Mapping[str, Any]) -> Pieces:
    """Says which fields there are."""
    yield Piece(_("Unknown event") + " ")
    yield _fields(event)


# --- Parts of a line --------------------------------------------------------------------------------------------------


def summary(value: Any) -> str:
    """Returns the text by which a compaction replaces earlier events."""
    parts = parts_of({"content": as_object(value).get("compacted_content")})
    return "\n".join(part.value for part in parts if part.kind == "text")


def media_name(part: Part) -> str:
    """Returns the name of an image or a file, or its type."""
    return part.name or (_("image") if part.kind == "image" else _("file"))


def arguments(call: Part) -> str:
    """Returns a tool's arguments, in short: `(amount=412.5, currency="EUR")`; what is asked, if ADK asks for input."""
    given = as_object(call.value)
    if call.name == INPUT_CALL:
        return words(given.get("message") or "")
    each = [f"{words(name, 40)}={brief(value, 60)}" for name, value in islice(given.items(), _MOST_ARGUMENTS)]
    return f"({', '.join(each)}{', …' if len(given) > _MOST_ARGUMENTS else ''})"


def answer(response: Part) -> str:
    """Returns a tool's answer, in short: its error if it failed."""
    if response.failed:
        return words(as_object(response.value).get("error"), 160)
    value = unwrapped(response.value)
    return _counted(value) or brief(value, 160)


def unwrapped(answer: Any) -> Any:
    """Returns a tool's answer, without the wrapper that ADK puts around an answer that is not an object."""
    if isinstance(answer, dict) and len(answer) == 1 and "result" in answer:
        return answer["result"]
    return answer


def _counted(answer: Any) -> str:
    """Returns an answer with a list of objects in words, with the list's length and its first entry: “flights: 2, first
    LH1181 OPO ICN 497.0”; empty if it has none."""
    named = answer.items() if isinstance(answer, dict) else [("", answer)]
    each = [(words(name, 40), value) for name, value in islice(named, _MOST_ARGUMENTS)]
    if not any(_is_table(value) for _name, value in each):
        return ""
    said = (
        f"{name}: " * bool(name) + (_first_of(value) if _is_table(value) else brief(value, 60)) for name, value in each
    )
    return words(" · ".join(said), 160)


def _is_table(value: Any) -> bool:
    return isinstance(value, list) and len(value) > 1 and isinstance(value[0], dict)


def _first_of(entries: list[Any]) -> str:
    scalars = (value for value in islice(entries[0].values(), _MOST_ARGUMENTS) if isinstance(value, str | int | float))
    first = " ".join(words(value, 24) for value in scalars)
    return _("%(n)s, first %(entry)s") % {"n": len(entries), "entry": first} if first else str(len(entries))


def _listed(parts: list[Part], say: Callable[[Part], Iterable[Piece]], between: str = "") -> Pieces:
    for number, part in enumerate(parts[:_MOST]):
        if number and between:
            yield Piece(between)
        yield from say(part)
    yield from _more(len(parts))


def _more(number: int) -> Pieces:
    if number > _MOST:
        yield Piece(f" +{number - _MOST}")


def _fields(event: Mapping[str, Any]) -> Piece:
    names = sorted(event.keys() - _OF_EVERY_EVENT)
    return Piece(words(", ".join(name[:100] for name in names[:20])), own=True, aside=True, code=True)


def _aside(text: Any, length: int = 240) -> Piece:
    return Piece(words(text, length), own=True, aside=True)


def _name(part: Part) -> Piece:
    name = tool_name(part.name)
    return Piece(words(name, _NAME), own=name == part.name)


def tool_name(name: str) -> str:
    """Returns the name of a tool, for people: the calls with which ADK itself asks them are told in words."""
    asks = {AUTH_CALL: _("sign-in"), CONFIRMATION_CALL: _("confirmation"), INPUT_CALL: _("input")}
    return asks.get(name, name)


def _call(part: Part) -> Pieces:
    if part.name == INPUT_CALL:
        yield Piece(_("Asks for input") + " ")
        yield _aside(arguments(part))
    else:
        yield _name(part)
        yield Piece(arguments(part), own=True, aside=True)


def _response(part: Part) -> Pieces:
    yield _name(part)
    yield Piece(" → ")
    if part.failed:
        yield Piece(_("error") + " ")
    yield Piece(answer(part), own=True, aside=not part.failed)


def _asked_about(part: Part) -> str:
    """Returns the name of the tool for which ADK asks."""
    return str(as_object(as_object(part.value).get("originalFunctionCall")).get("name", ""))
