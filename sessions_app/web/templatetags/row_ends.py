"""Ends rows of state: what can be done with a key, and who wrote it last."""

from typing import Any, Final

from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import pgettext

from ...domain.json_values import KEY_LENGTH
from ...domain.masks import has_dots
from ...domain.session_ref import OWN_NAME, SessionRef
from ...domain.shorten import words
from ..html.json_tree import ends
from ..html.state_panel import Row, Target, address_at
from .links import icon, query, session_name
from .tags import register

_WHOLE_ID: Final = 20  # characters of a session's id; of a longer one, both ends are shown


@register.simple_tag(takes_context=True)
def written_by(context: dict[str, Any], row: Row, target: Target) -> SafeString:
    """Returns the end of a key's row: what can be done with it, and the event that last wrote it."""
    acts = _reveal(row, target)
    if not context["read_only"] and len(row.key) <= KEY_LENGTH:
        acts += _edit(target.edit, row.key)
    return wrote(row, target.ref, target.kind, acts)


def _reveal(row: Row, target: Target) -> SafeString:
    if not has_dots(row.value):
        return SafeString()
    address, label = f"{target.page}reveal/?{query(key=row.key)}", _("Reveal %(key)s") % {"key": row.key[:100]}
    return format_html('<a class="iconbtn small reveal" href="{}" aria-label="{}">{}</a>', address, label, icon("eye"))


@register.simple_tag(takes_context=True)
def edit_link(context: dict[str, Any], ref: SessionRef, key: str) -> SafeString:
    """Returns the button that edits a key of a session. Empty if nothing can be written."""
    if context["read_only"] or len(key) > KEY_LENGTH:
        return SafeString()
    return _edit(reverse("session-edit", kwargs=ref._asdict()), key)


def _edit(form: str, key: str) -> SafeString:
    address = f"{form}?{query(key=key)}"
    return format_html(
        '<a class="iconbtn small act" href="{}" hx-get="{}" hx-target="#edit" aria-label="{}" data-row-key="e">{}</a>',
        address,
        address,
        _("Edit %(key)s") % {"key": key[:100]},
        icon("edit"),
    )


@register.simple_tag
def wrote(row: Row, ref: SessionRef, kind: str = "session", acts: str = "") -> SafeString:
    """Returns the end of a key's row: its buttons, who wrote it last, and the link to its history.

    The turn, or the person who edited it, links to the state just after the event that wrote it. An event of another session
    has the session's name, and an arrow.
    """
    pin, history = _pin(row.key) if kind == "session" else "", _history(row.key, ref, kind)
    beside = format_html('<span class="rowacts">{}{}</span>', acts, pin) if acts or pin else SafeString()
    if row.writer is None:
        wrote, why = (
            (pgettext("key", "created"), _("Set when the session was created"))
            if row.initial
            else ("–", _("Not known which event wrote it"))
        )
        return beside + format_html('<span class="wrote" title="{}">{}</span>', why, wrote) + history
    turn = _("turn %(number)s") % {"number": row.turn} if row.turn else _("event")
    there = address_at(row.writer.ref, row.writer.event_id)
    who = SafeString()
    if row.writer.actor:
        who = format_html('<span class="bidi">{}</span>', row.writer.actor.partition("@")[0])
    if row.writer.ref == ref:
        title = who and format_html(' title="{}"', row.writer.actor)
        by = format_html('<a href="{}" data-at="{}"{}>{}</a>', there, row.writer.event_id, title, who or turn)
    else:
        other = session_name(row.writer.ref, row.session)
        edited = row.writer.ref.session_id == OWN_NAME
        short = words(other, 40) if other != row.writer.ref.session_id or len(other) <= _WHOLE_ID else ends(other)
        arrow = format_html('<span class="bidi">{}</span> <span aria-hidden="true">↗</span>', short)
        by = format_html('<a href="{}" title="{}">{}</a>', there, other, who or turn if edited else arrow)
        by += format_html(" · {}", who) if who and not edited else SafeString()
    return beside + format_html('<span class="wrote">{}</span>', by) + history


def _pin(name: str) -> SafeString:
    """Returns the button that draws a key beneath the strip, which pins.js shows where there is one."""
    if len(name) > KEY_LENGTH:
        return SafeString()
    return format_html(
        '<button class="iconbtn small act" type="button" data-pin-key="{}" data-row-key="P" aria-pressed="false" '
        'aria-label="{}">{}</button>',
        name,
        _("Pin %(key)s to the strip") % {"key": name[:100]},
        icon("pin"),
    )


def _history(name: str, ref: SessionRef, kind: str) -> SafeString:
    if len(name) > KEY_LENGTH:
        return SafeString()  # no address is that long
    names = dict(list(ref._asdict().items())[: {"app": 2, "user": 3}.get(kind)])
    url = reverse(f"{kind}-history", kwargs=names)
    return format_html(
        '<a class="iconbtn small keypast" href="{}?{}" aria-label="{}" data-row-key="h">{}</a>',
        url,
        query(key=name),
        _("History of %(key)s") % {"key": name[:100]},
        icon("past"),
    )
