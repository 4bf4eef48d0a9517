"""Defines the tags that explain words by the sentences of docs/glossary.md; in a demo, see terms.js."""

from typing import Final

from django.utils.functional import Promise
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy

from .tags import register

# By word, its name and its meaning. The meanings are those of the glossary: tests/web/test_demo.py compares them.
TERMS: Final[dict[str, tuple[str | Promise, str | Promise]]] = {
    "event": (
        gettext_lazy("event"),
        gettext_lazy("A record appended to a session by an agent, a person or adkweb. It never changes"),
    ),
    "turn": (
        gettext_lazy("turn"),
        gettext_lazy("One user message, typed or spoken, and everything that followed from it, up to the next message"),
    ),
    "state": (gettext_lazy("state"), gettext_lazy("What a session remembers, as keys and values")),
    "key": (gettext_lazy("key"), gettext_lazy("The name of a value in the state, including its prefix")),
    "edit": (
        gettext_lazy("edit"),
        gettext_lazy(
            "A person's change to the state, stored as an event that records who made it, why, and what it replaced"
        ),
    ),
    "undo": (
        gettext_lazy("undo"),
        gettext_lazy("An edit that resets an event's keys to their values before the event"),
    ),
    "restore": (
        gettext_lazy("restore"),
        gettext_lazy("An edit that resets keys to their values at an earlier point"),
    ),
    "rewind": (
        gettext_lazy("rewind"),
        gettext_lazy("An event that takes the conversation back to just before an invocation, as in ADK"),
    ),
    "fork": (
        gettext_lazy("fork"),
        gettext_lazy("A new session that starts as a copy of another, up to an event"),
    ),
    "drift": (
        gettext_lazy("drift"),
        gettext_lazy("Stored state that differs from a replay of the events. An edit repairs it"),
    ),
}


@register.simple_tag
def term(word: str) -> SafeString:
    """Returns a word as a button that explains it, for pages of the demo."""
    name, meaning = TERMS[word]
    return format_html('<button class="term" type="button" data-term="{}.">{}</button>', meaning, name)


@register.simple_tag
def meaning(word: str) -> str | Promise:
    """Returns the sentence that says what a word means, for the title of what does it."""
    return TERMS[word][1]
