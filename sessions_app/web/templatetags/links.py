"""Defines the template tags for links and icons, which are built into every template."""

import re
from functools import cache
from pathlib import Path
from typing import Any
from uuid import UUID

from django.contrib.staticfiles import finders
from django.template import Context
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.http import urlencode
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _

from ...domain.description import Part
from ...domain.json_values import KEY_LENGTH
from ...domain.kinds import TABLE
from ...domain.session_ref import OWN_NAME, SessionRef, own_session
from ...domain.shorten import words
from ...http.reader import user_for_reader
from ...reads import lists
from ...reads.event_views import EventView
from ...search.saved.views import ViewWatch
from ...search.saved.watching import NEWS
from ...search.tree import quoted
from ..html.state_panel import Target, address_at
from ..request import actor
from .tags import plain, register, soft

# --- Links ------------------------------------------------------------------------------------------------------------


@register.simple_tag
def user_name(source: str, app_name: str, user_id: str) -> str:
    """Returns the id of a user, or the handle that whoever reads the page sees in its place."""
    return user_for_reader(source, app_name, user_id)


@register.filter
def user(ref: SessionRef) -> str:
    """Returns the id of a session's user as `user_name` does."""
    return user_for_reader(*ref[:3])


@register.simple_tag
def session_url(ref: SessionRef, name: str = "session") -> str:
    """Returns the URL of a session's page."""
    return reverse(name, kwargs=ref._asdict())


@register.simple_tag
def live_url(ref: SessionRef) -> str:
    """Returns the URL of a session's websocket."""
    return "/live/session/" + reverse("session", kwargs=ref._asdict()).partition("/s/")[2]


@register.simple_tag
def event_url(view: EventView, name: str = "event") -> str:
    """Returns the URL of an event's page."""
    return reverse(name, kwargs={**view.ref._asdict(), "event_id": view.id})


@register.simple_tag
def sibling_link(view: EventView, event_id: Any) -> SafeString:
    """Returns a link to another event of the session, by the id that this event's note has."""
    name = plain(event_id)[:KEY_LENGTH]
    url = reverse("event", kwargs={**view.ref._asdict(), "event_id": name}) if name else ""
    return format_html('<a class="mono bidi" href="{}">{}</a>', url, name) if url else format_html("{}", name)


@register.simple_tag
def batch_link(batch_id: Any, text: str = "") -> SafeString:
    """Returns a link to the batch that an edit is a part of, by the id that the event's note has."""
    name = plain(batch_id)[:KEY_LENGTH]
    try:
        url = reverse("batch", args=[UUID(name)])
    except ValueError:  # some program wrote the note
        return format_html("{}", name)
    return (
        format_html('<a href="{}">{}</a>', url, text)
        if text
        else format_html('<a class="mono" href="{}">{}</a>', url, name)
    )


@register.simple_tag
def media_url(view: EventView, part: Part) -> str:
    """Returns the URL of inline data, or "" if the event does not hold the data itself."""
    if not isinstance(part.value.get("data"), str):
        return ""
    number = view.description.number_of(part)
    return reverse("event-data", kwargs={**view.ref._asdict(), "event_id": view.id, "number": number})


@register.simple_tag
def query(**values: str) -> str:
    """Returns a query string.

    Half of a surrogate pair becomes a question mark, because no URL can hold it. A value that is longer than any key is
    cut, because it would lead nowhere.
    """
    return urlencode({name: value[: 4 * KEY_LENGTH].encode("utf-8", "replace") for name, value in values.items()})


@register.simple_tag
def whole_url(target: Target, key: str) -> str:
    """Returns the URL of a key's whole value."""
    return f"{target.value}?{query(key=key)}"


@register.simple_tag
def crumbs(source: str, app_name: str = "", user_id: str | None = None) -> SafeString:
    """Returns the breadcrumbs to a source, an app or a user."""
    return _trail(_links(source, app_name, user_id))


@register.simple_tag(takes_context=True)
def session_crumbs(context: Context, ref: SessionRef, title: str | None = None, *, here: bool = False) -> SafeString:
    """Returns the breadcrumbs to a session, which is the current page with `here`. Looks up the title if it is None."""
    of_app = ref == own_session(ref.source, ref.app_name)
    links = _links(ref.source, ref.app_name, None if of_app else ref.user_id)
    name = session_name(ref, lists.title(ref, actor=actor(context["request"])) if title is None else title)
    return _trail(links, name) if here else _trail([*links, (session_url(ref), name)])


@register.simple_tag
def session_name(ref: SessionRef, title: str = "") -> str:
    """Returns a session's title or id. adkweb's own sessions are called after the state that they edit."""
    if ref == own_session(ref.source, ref.app_name):
        return _("Changes to app state")
    return _("Changes to user state") if ref.session_id == OWN_NAME else title or ref.session_id


@register.simple_tag
def where(ref: SessionRef, title: str = "") -> str:
    """Returns app, user and session in one line. For adkweb's own sessions, returns whose state they edit."""
    names = [ref.app_name] if ref == own_session(ref.source, ref.app_name) else [ref.app_name, user(ref)]
    return " / ".join(names if ref.session_id == OWN_NAME else [*names, title or ref.session_id])


@register.simple_tag
def where_link(ref: SessionRef, title: str = "") -> SafeString:
    """Returns a link to what `where` names: a session, a user or an app. Pointing at it tells the ids."""
    url = session_url(ref)
    if ref == own_session(ref.source, ref.app_name):
        url = reverse("app", args=[ref.source, ref.app_name])
    elif ref.session_id == OWN_NAME:
        url = reverse("user", args=[ref.source, ref.app_name, ref.user_id])
    return format_html(
        '<a class="bidi" href="{}" title="{}">{}</a>', url, words(where(ref), 300), soft(where(ref, title))
    )


def _links(source: str, app_name: str, user_id: str | None) -> list[tuple[str, str]]:
    links = [(reverse("home"), source)]
    if app_name:
        links.append((reverse("app", args=[source, app_name]), app_name))
    if user_id is not None:
        links.append((reverse("user", args=[source, app_name, user_id]), user_for_reader(source, app_name, user_id)))
    return links


def _trail(links: list[tuple[str, str]], here: str | None = None) -> SafeString:
    """Returns breadcrumbs. Each is cut if there is no room, and its title shows all of it."""
    trail = format_html_join(
        "", '<li><a class="bidi" href="{}" title="{}">{}</a></li>', [(url, name, name) for url, name in links]
    )
    if here is None:
        return trail
    return trail + format_html('<li aria-current="page"><span class="bidi" title="{}">{}</span></li>', here, here)


@register.simple_tag
def news_count(watched: list[ViewWatch], view_id: UUID | None = None) -> SafeString:
    """Returns the badge with the number of sessions that are news, of one view or of all. watching.js updates it."""
    some = [each for each in watched if view_id in (None, each.view_id)]
    if not some:
        return SafeString()
    number = sum(each.news for each in some)
    about = format_html('data-news-of="{}"', view_id) if view_id else SafeString("data-news-total")
    hidden = "" if number else SafeString(" hidden")
    shown = _news(number)
    return format_html('<span class="news" {} title="{}"{}>{}</span>', about, _("new matches"), hidden, shown)


@register.simple_tag
def news_title(watched: list[ViewWatch]) -> str:
    """Returns the beginning of a page's title: “(3) ” if three sessions are news."""
    number = sum(each.news for each in watched)
    return f"({_news(number)}) " if number else ""


def _news(number: int) -> str:
    return f"{NEWS - 1}+" if number >= NEWS else str(number)


@register.simple_tag
def tag_link(tag: str) -> SafeString:
    """Returns a tag as a link to the sessions that have it."""
    address = f"{reverse('search')}?{query(q=f'tag:{quoted(tag)}')}"
    return format_html('<a class="bidi" href="{}" title="{}">{}</a>', address, tag, tag)


@register.simple_tag
def at_url(session: SessionRef, event_id: str, name: str = "session", **more: str) -> str:
    """Returns the URL of a session's page at an event."""
    return address_at(session, event_id, name, **more)


@register.simple_tag
@cache
def icon(name: str, extra: str = "") -> SafeString:
    """Returns an icon, for decoration only. Its shapes are in the page: <use> would cost the browser twice the style."""
    shapes = mark_safe(_shapes()[name])  # noqa: S308 - from static/img
    return format_html('<svg class="icon {}" viewBox="0 0 16 16" aria-hidden="true">{}</svg>', extra, shapes)


@cache
def _shapes() -> dict[str, str]:
    """Returns the shapes of all icons by name."""
    path = finders.find("img/icons.svg")
    assert path  # noqa: S101  it is adkweb's own
    return dict(re.findall(r'<symbol id="([\w-]+)" viewBox="0 0 16 16">(.*?)</symbol>', Path(path).read_text("utf-8")))


@register.simple_tag
def kind_icon(view: EventView) -> SafeString:
    """Returns the icon of an event's kind."""
    return icon(icon_name(view), "bad" if view.description.failed else "")


@register.filter
def icon_name(view: EventView) -> str:
    """Returns the name of the icon of an event's kind."""
    name = TABLE[view.description.kind].icon
    if view.description.kind == "message" and view.description.author == "user":
        name = "user"
    if view.description.kind == "response" and view.description.failed:
        name = "warn"
    return name
