"""The events of a session as a conversation: what was said, and in a line each what was done."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Final

from django.utils.translation import pgettext

from ...artifacts.saved import saved_by
from ...domain.clock import Took
from ...domain.description import AUTH_CALL, CONFIRMATION_CALL, Part
from ...domain.grounding import Source, sources
from ...domain.model_calls import by_model, is_exception
from ...domain.shorten import words
from ...domain.state import Change
from ...domain.summary import answer, arguments, cut_off
from ...http.reader import user_for_reader
from ...reads.event_views import EventView
from ..html.markdown import Text, Texts

PLAIN: Final = 5_000  # characters of a text that is too long to be rendered
_ASKS: Final = (AUTH_CALL, CONFIRMATION_CALL)
_TRANSFER: Final = "transfer_to_agent"
_TOGETHER: Final = 60  # seconds within which the name of an author stands once
_TOLD: Final = frozenset(  # the kinds of event that have a line of their own, beside what was said in them
    {"rewind", "compaction", "transfer", "escalation", "stopped"}
    | {"output", "state", "interrupted", "remote", "unknown"}
)
_OF_PARTS: Final = {"call": "tool", "response": "tool", "image": "media", "file": "media", "code_result": "code"}


_KIND: Final = attrgetter("kind")


@dataclass(frozen=True, slots=True)
class Half:
    """A tool's call or its answer: a part of an event."""

    event: EventView
    part: Part


@dataclass(frozen=True, slots=True)
class Message:
    """One thing that was said or done.

    `kind` is one of: text, thought, tool, code, media, saved, edit, error, note, sources, cut, unknown.
    `follows`: the message before it is by the same author, and less than a minute older. `media` has all images and files of
    the event; `saved` ones are in the agent's artifacts. `cut`: why a model stopped before its end. `stopped_by`
    is the error that ended a call before its answer. `stops`: the event before the messages, if this error ended its calls.
    """

    kind: str
    event: EventView
    part: Part | None = None
    text: Text | None = None
    call: Half | None = None
    answer: Half | None = None
    stopped_by: EventView | None = None
    stops: EventView | None = None
    media: list[Part] = field(default_factory=list)
    sources: list[Source] = field(default_factory=list)
    cut: str = ""
    follows: bool = False

    @property
    def who(self) -> str:
        """Returns who said or did it: the session's user, an agent, or the person who edited."""
        told = self.event.description
        if told.edit:
            return str(told.edit.get("actor") or told.author)
        if told.kind == "compaction":
            return ""  # ADK's runner wrote it, in the user's name
        return user_for_reader(*self.event.ref[:3]) if told.author == "user" else told.author

    @property
    def by_user(self) -> bool:
        """Tells whether the session's user said it."""
        return self.event.description.by_user

    @property
    def failed(self) -> bool:
        """Tells whether something went wrong."""
        part = self.answer.part if self.answer else self.part
        return self.kind == "error" or bool(self.stopped_by or (part and part.failed))

    @property
    def name(self) -> str:
        """Returns the name of the tool."""
        half = self.call or self.answer
        return half.part.name if half else ""

    @property
    def glimpse(self) -> str:
        """Returns the beginning of a thought, without the signs for bold."""
        return words(self.part.value.replace("**", ""), 160) if self.part else ""

    @property
    def asked(self) -> str:
        """Returns what the tool was called with, in short."""
        return arguments(self.call.part) if self.call else ""

    @property
    def answered(self) -> str:
        """Returns what the tool answered, in short."""
        if self.answer and "stopped" in self.answer.event.description.kinds:  # ADK answered in the tool's place
            return pgettext("status", "stopped")
        return answer(self.answer.part) if self.answer else ""

    @property
    def last(self) -> EventView | None:
        """Returns the event with which the call ended; None if it has not ended, or is not a call."""
        return (self.answer.event if self.answer else self.stopped_by) if self.call else None

    @property
    def took(self) -> Took | None:
        """Returns how long the tool took, or None if that is not known."""
        return self.call.event.ended.until(self.last.ended) if self.call and self.last else None

    @property
    def changes(self) -> list[Change]:
        """Returns the changes of state that the tool's answer, or the event itself, brought."""
        return (self.answer.event if self.kind == "tool" and self.answer else self.event).changes


def messages(events: Iterable[EventView], texts: Texts | None = None, after: EventView | None = None) -> list[Message]:
    """Returns the messages of consecutive events, for `session/chat/_message.html`. `after` is the event before them.

    A tool's answer stands in the line of its call. `texts` renders all texts of a page; it is needed where a page calls
    this more than once, because it limits what the whole page costs.
    """
    talk = _Talk(texts or Texts(most=PLAIN), after)
    for event in events:
        talk.add(event)
    rows: list[Message] = []
    for message in filter(_KIND, talk.rows):
        rows.append(replace(message, follows=bool(after and _goes_on(Message("", after), message))))
        after = message.event
    return rows


def _goes_on(before: Message, message: Message) -> bool:
    is_soon = abs(message.event.timestamp - before.event.timestamp) < _TOGETHER
    return is_soon and _author(before) == _author(message)


def _author(message: Message) -> tuple[str, bool, bool]:
    return message.who, message.by_user, bool(message.event.description.edit)


def _pair(event: EventView, part: Part) -> tuple[str, ...]:
    """Returns what a call and its answer have in common: the id, otherwise who called, and the tool."""
    return (part.id,) if part.id else (event.description.author, part.name)


def _asker(event: EventView) -> tuple[str, str]:
    return event.description.author, str(event.data.get("branch") or "")


class _Talk:
    """The messages so far, and the calls whose answers may come."""

    def __init__(self, texts: Texts, after: EventView | None) -> None:
        self.rows: list[Message] = []
        self.before = after
        self.texts = texts
        self.calls: dict[tuple[str, ...], deque[int]] = {}
        self.asked: dict[tuple[str, str], list[int]] = {}  # by agent and branch, the calls of its model's last event
        self.interim: dict[str, list[int]] = {}  # by author, where what was understood so far stands

    def add(self, event: EventView) -> None:
        told = event.description
        if event.unread:
            self.rows.append(Message("note", event))
            return
        if "error" in told.kinds:
            self.rows.append(Message("error", event, stops=self._stop(event) if is_exception(told) else None))
        if by_model(event.data, told):
            self.asked[_asker(event)] = []
        asks = any(call.name in _ASKS for call in told.calls)
        for part in told.parts:
            self._part(event, part)
        if told.heard and not told.text:
            self._hear(event)
        self._end_of_answer(event)
        if told.media:
            self.rows.append(Message("media", event, media=told.media))
        if saved_by(event):
            self.rows.append(Message("saved", event))
        if told.edit:
            self.rows.append(Message("edit", event))
        elif told.kind in _TOLD or asks:
            self._line(event)

    def _part(self, event: EventView, part: Part) -> None:
        kind = _OF_PARTS.get(part.kind, part.kind)
        if kind == "media" or (part.kind == "call" and part.name in _ASKS):
            return
        if part.kind == "call":
            self.calls.setdefault(_pair(event, part), deque()).append(len(self.rows))
            self.asked.setdefault(_asker(event), []).append(len(self.rows))
            self.rows.append(Message(kind, event, call=Half(event, part)))
        elif part.kind == "response":
            self._answer(event, part)
        elif kind in ("text", "thought"):
            if part.value.strip():
                self.rows.append(Message(kind, event, part, self.texts.render(part.value)))
        else:
            self.rows.append(Message(kind, event, part))

    def _stop(self, event: EventView) -> EventView | None:
        """Ends the calls that wait for an answer with an exception. Returns the event before, if they are its calls."""
        if _asker(event) not in self.asked:
            is_next = self.before and self.before.description.calls and _asker(self.before) == _asker(event)
            return self.before if is_next else None
        for index in self.asked[_asker(event)]:
            if self.rows[index].call and not self.rows[index].answer:
                self.rows[index] = replace(self.rows[index], stopped_by=event)
        return None

    def _end_of_answer(self, event: EventView) -> None:
        """Adds the sources of a model's answer, and why it stopped before its end."""
        if links := sources(event.data):
            self.rows.append(Message("sources", event, sources=links))
        if event.description.kind != "error" and (reason := cut_off(event.data)):
            self.rows.append(Message("cut", event, cut=reason))

    def _hear(self, event: EventView) -> None:
        """Adds what was said aloud. The whole takes the place of what was understood before it."""
        told = event.description
        if not told.interim:
            for index in self.interim.pop(told.author, ()):
                self.rows[index] = Message("", event)
        else:
            self.interim.setdefault(told.author, []).append(len(self.rows))
        self.rows.append(Message("text", event, Part("text", told.heard), self.texts.render(told.heard)))

    def _answer(self, event: EventView, part: Part) -> None:
        """Puts an answer into the line of its call. The last one stays: that of a tool that was confirmed."""
        calls = self.calls.get(_pair(event, part))
        if not calls:
            self.rows.append(Message("tool", event, answer=Half(event, part)))
            return
        index = calls[-1] if part.id else calls.popleft()  # without ids, the first answer is that of the first call
        self.rows[index] = replace(self.rows[index], answer=Half(event, part))

    def _line(self, event: EventView) -> None:
        """Adds what happened in words, in place of the call if that did nothing else."""
        name = next((part.id for part in event.description.responses if part.name == _TRANSFER), "")
        calls = self.calls.pop((name,), None) if event.description.kind == "transfer" else None
        if calls:
            self.rows[calls[-1]] = Message("note", event)
        else:
            self.rows.append(Message("note", event))
