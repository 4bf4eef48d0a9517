"""Tells what can be looked for in an event: its lines of text, and facts about it. Pure."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from ..domain.description import Description, Part
from ..domain.json_values import as_object
from ..domain.summary import media_name, summary, unwrapped

LENGTH: Final = 20_000  # characters of a line that can be looked for
MOST_LINES: Final = 200  # of an event
_MOST_VALUES: Final = 2_000  # of a JSON value
_FACT_LENGTH: Final = 200


class Fact(NamedTuple):
    """A fact about a session: ("tool", "charge_card")."""

    kind: str
    value: str


def lines_of(event: Mapping[str, Any], description: Description) -> list[str]:
    """Returns what an event says, a line for each thing: ["charge_card quote Q-88213"]. Long ones are cut."""
    return [line[:LENGTH] for line, _ in zip(_lines(event, description), range(MOST_LINES), strict=False) if line]


def _lines(event: Mapping[str, Any], description: Description) -> Iterator[str]:
    for part in description.parts:
        if said := _OF_PART.get(part.kind):
            yield said(part)
    yield _error(event)
    for heard in ("input_transcription", "output_transcription"):
        yield str(as_object(event.get(heard)).get("text") or "")
    yield flat(event.get("output"))
    yield summary(description.actions.get("compaction"))
    yield str(description.edit.get("reason") or "")
    for key, value in description.delta.items():
        yield f"{key} {flat(value)}"
    yield from description.removed


_OF_PART: Final[dict[str, Callable[[Part], str]]] = {
    "text": lambda part: str(part.value),
    "thought": lambda part: str(part.value),
    "call": lambda part: f"{part.name} {flat(part.value)}",
    "response": lambda part: f"{part.name} {flat(unwrapped(part.value))}",
    "code": lambda part: str(part.value),
    "code_result": lambda part: str(part.value),
    "image": media_name,
    "file": media_name,
}


def flat(value: Any) -> str:
    """Returns the keys and values of a JSON value, one after the other: “amount 5 card visa”."""
    if isinstance(value, str):
        return value
    if not isinstance(value, dict | list):
        return "" if value is None else _word(value)
    words: list[str] = []
    left: list[Any] = [value]
    length = 0
    while left and len(words) < _MOST_VALUES and length < LENGTH:
        item = left.pop()
        if isinstance(item, dict):
            for key, inner in reversed(list(item.items())[:_MOST_VALUES]):
                left += [inner, str(key)]
        elif isinstance(item, list):
            left += reversed(item[:_MOST_VALUES])
        elif item is not None:
            words.append(_word(item))
            length += len(words[-1]) + 1
    return " ".join(words)


def _word(item: Any) -> str:
    if isinstance(item, bool):
        return "true" if item else "false"
    return str(item)


def failure_of(event: Mapping[str, Any], description: Description) -> str:
    """Returns what went wrong in an event, in its own words: “charge_card: card declined”; empty if nothing did."""
    if "error" in description.kinds:
        return _error(event)[:_FACT_LENGTH]
    for part in description.parts:
        if part.failed and part.kind == "response":
            return f"{part.name}: {flat(as_object(part.value).get('error'))}"[:_FACT_LENGTH]
        if part.failed:
            return (str(part.value).strip() or part.name)[-_FACT_LENGTH:]
    return ""


def _error(event: Mapping[str, Any]) -> str:
    return " ".join(str(event[name]) for name in ("error_code", "error_message") if event.get(name))


def facts_of(event: Mapping[str, Any], description: Description) -> set[Fact]:
    """Returns the facts about an event: who wrote it, its kinds, its tools, what failed, who edited, which keys."""
    facts = {Fact("author", description.author)} if description.author else set()
    facts |= {Fact("kind", kind) for kind in description.kinds or ["unknown"]}
    facts |= {Fact("tool", part.name) for part in description.parts if part.kind in ("call", "response") and part.name}
    if failure := failure_of(event, description):
        facts.add(Fact("error", failure))
    if description.edit:
        facts.add(Fact("edited", str(description.edit.get("actor") or "")))
    return {Fact(kind, clean(value)) for kind, value in facts}


def writer_of(description: Description) -> Fact | None:
    """Returns who wrote an event, as one of its facts: the person of an edit, otherwise the author; None if it has none."""
    by = (
        Fact("edited", str(description.edit.get("actor") or ""))
        if description.edit
        else Fact("author", description.author)
    )
    return Fact(by.kind, clean(by.value)) if by.value else None


def clean(text: str, length: int = _FACT_LENGTH) -> str:
    """Returns a text that every database can hold, cut to a length."""
    short = text[:length]
    if short.isascii() and "\0" not in short:
        return short
    return short.replace("\0", "�").encode(errors="replace").decode()
