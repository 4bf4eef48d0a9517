"""Shows artifacts in lists: a name, a version, and a small image. Its tags are built into every template."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from django import template
from django.urls import reverse

from ...access.actor import PEOPLE, Actor
from ...artifacts import contents, saved
from ...artifacts.contents import Content
from ...artifacts.saved import Save
from ...domain.json_values import KEY_LENGTH
from ...domain.session_ref import SessionRef
from ...reads.event_views import EventView
from .targets import actor

register = template.Library()
_THUMBNAIL: Final = 2_000_000  # bytes of an image that stands in a list


@dataclass(frozen=True, slots=True)
class Row:
    """A version of an artifact with what is known of its content."""

    ref: SessionRef
    save: Save
    content: Content

    @property
    def thumbnail(self) -> bool:
        """Tells whether the content is an image that is small enough for a list."""
        return bool(self.content.image) and self.content.size <= _THUMBNAIL

    @property
    def folder(self) -> str:
        """Returns the beginning of the name, up to its last slash."""
        return "".join(self.save.name.rpartition("/")[:2])

    @property
    def end(self) -> str:
        """Returns the end of the name, after its last slash."""
        return self.save.name.rpartition("/")[2]

    @property
    def has_page(self) -> bool:
        """Tells whether an address can hold the name."""
        return len(self.save.name) <= KEY_LENGTH


@dataclass(frozen=True, slots=True)
class Files:
    """Artifacts that an event saved; `more` of them are not shown."""

    rows: list[Row]
    more: int


def row(ref: SessionRef, save: Save, who: Actor) -> Row:
    """Returns a version of an artifact with what is known of its content at a glance."""
    return Row(ref, save, contents.glance(ref, save.name, save.version, actor=who))


@register.simple_tag(takes_context=True)
def saved_files(context: Mapping[str, Any], event: EventView, most: int) -> Files:
    """Returns the first artifacts that an event saved. What goes to sockets is what everybody may see."""
    who = actor(context["request"]) if "request" in context else PEOPLE
    saves = saved.saved_by(event)
    return Files([row(event.ref, save, who) for save in saves[:most]], max(0, len(saves) - most))


@register.simple_tag
def artifact_url(ref: SessionRef, name: str, version: int, page: str) -> str:
    """Returns the URL of a version of an artifact: of the file to download, or of the image."""
    return reverse(page, kwargs={**ref._asdict(), "artifact": name, "version": version})
