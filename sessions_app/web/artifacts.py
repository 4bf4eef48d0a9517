"""The artifacts of a session: which there are, who saved each version, and what is in it. Its tags are built in."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from django import template
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.urls import reverse
from django.utils.cache import get_conditional_response
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET

from ..access.actor import PEOPLE, Actor
from ..artifacts import comparing, contents, downloads, saved
from ..artifacts.contents import Content
from ..artifacts.saved import Save
from ..artifacts.storages import USER
from ..domain.errors import NotFound
from ..domain.json_values import KEY_LENGTH
from ..domain.session_ref import SessionRef
from ..reads import views
from ..reads.event_views import EventView
from ..search.outline import outline
from .html.render import data, page
from .request import actor
from .session.updates import number_in

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


_VERSIONS: Final = 50  # that are offered
_MOST: Final = 2**31  # versions and saves of a session


@dataclass(frozen=True, slots=True)
class Version:
    """A version that can be chosen. `save` is None if no event of this session is known to have saved it."""

    number: int
    save: Save | None


@dataclass(frozen=True, slots=True)
class Side:
    """One of two versions that are compared. `name` is its name in the address."""

    name: str
    number: int
    save: Save | None
    content: Content


@require_GET
def artifacts(request: HttpRequest, **names: str) -> HttpResponse:
    """Shows the artifacts of a session, and one of them: ?name= and &version=, by default the last one that can be read."""
    ref, who = SessionRef(**names), actor(request)
    view = views.session(ref, partly=True, actor=who)
    before = max(0, min(number_in(request.GET.get("before") or "0"), _MOST))
    listing = saved.listing(ref, before, actor=who)
    rows = [row(ref, each.last, who) for each in listing.rows]
    context: dict[str, Any] = {"ref": ref, "view": view, "rows": rows, "listing": listing, "before": before}
    asked = request.GET.get("name")
    readable = (each.save.name for each in rows if each.content.state == "here")
    name = asked if asked is not None else next(readable, rows[0].save.name if rows else None)
    if name is not None:
        context |= _one(request, ref, name) | {"of_one": asked is not None}
    return page(request, "artifacts/artifacts.html", context)


def _one(request: HttpRequest, ref: SessionRef, name: str) -> dict[str, Any]:
    """Returns the context of an artifact: its versions, and one of them with its content."""
    who = actor(request)
    saves = saved.versions(ref, name, actor=who)
    offered = _versions(ref, name, saves, who)
    if not saves and not offered:
        raise NotFound(_("This session has no artifact with this name."))
    asked = request.GET.get("version")
    number = number_in(asked) if asked else next((each.number for each in offered), None)
    save = next((each for each in saves if each.version == number), None)
    if number is not None and not 0 <= number < _MOST:
        raise NotFound(_("This artifact has no such version."))
    if number is None:
        content, text, cut = contents.about(ref, name, None, actor=who), "", False
    else:
        content, text, cut = contents.excerpt(ref, name, number, actor=who)
    context: dict[str, Any] = {
        "name": name,
        "shared": name.startswith(USER),
        "version": number,
        "save": save,
        "content": content,
        "text": text,
        "cut": cut,
        "versions": offered[:_VERSIONS],
        "previous": next((each.number for each in offered if number is not None and each.number < number), None),
        "more_versions": max(0, len(offered) - _VERSIONS),
    }
    if save and save.seq is not None:
        known = outline(ref, [save.seq], actor=who)
        context |= {"numbers": known.numbers, "turn": known.turn_of(save.seq)}
    return context


def _versions(ref: SessionRef, name: str, saves: list[Save], who: Actor) -> list[Version]:
    """Returns the versions of an artifact, the newest first: those that events name, and those that are kept."""
    known = {each.version: each for each in reversed(saves) if each.version is not None}
    numbers = {*known, *contents.stored_versions(ref, name, actor=who)}
    return [Version(number, known.get(number)) for number in sorted(numbers, reverse=True)]


@require_GET
def compare(request: HttpRequest, **names: str) -> HttpResponse:
    """Compares two versions of ?name=: &a= with &b=, by default the newest one with the one before it."""
    ref, who = SessionRef(**names), actor(request)
    view = views.session(ref, partly=True, actor=who)
    name = request.GET.get("name", "")
    offered = _versions(ref, name, saved.versions(ref, name, actor=who), who)
    numbers = [each.number for each in offered]
    if not numbers:
        raise NotFound(_("This session has no artifact with this name."))
    new = number_in(request.GET.get("b") or str(numbers[0]))
    old = number_in(request.GET.get("a") or str(next((number for number in numbers if number < new), numbers[-1])))
    if not {old, new} <= set(numbers):
        raise NotFound(_("This artifact has no such version."))
    by_number = {each.number: each.save for each in offered}
    compared = comparing.compare(ref, name, old, new, actor=who)
    context = {
        "ref": ref,
        "view": view,
        "name": name,
        "versions": offered[:_VERSIONS],
        "compared": compared,
        "sides": [
            Side("a", old, by_number[old], compared.old),
            Side("b", new, by_number[new], compared.new),
        ],
    }
    return page(request, "artifacts/compare.html", context)


@require_GET
def download(request: HttpRequest, artifact: str, version: int, **names: str) -> HttpResponseBase:
    """Downloads a version of an artifact, or the range of bytes that is asked for. It is never shown in its place."""
    ref, who = SessionRef(**names), actor(request)
    views.session(ref, partly=True, actor=who)
    return downloads.download(request, ref, artifact, version, actor=who)


@require_GET
def image(request: HttpRequest, artifact: str, version: int, **names: str) -> HttpResponseBase:
    """Shows a version that is an image of a kind that runs nothing. Any other can only be downloaded."""
    ref, who = SessionRef(**names), actor(request)
    views.session(ref, partly=True, actor=who)
    with contents.opened(ref, artifact, version, actor=who) as (content, file):
        if not content.image:
            raise NotFound(_("This artifact isn't an image that can be shown."))
        if unchanged := get_conditional_response(request, etag=file.etag):
            unchanged.headers["Cache-Control"] = "private, no-cache"
            return unchanged
        response = data(file.read(0, content.size), content.image)
    response.headers["ETag"] = file.etag
    response.headers["Content-Disposition"] = downloads.disposition(content, as_attachment=False)
    response.headers["Content-Security-Policy"] = downloads.SANDBOX
    return response
