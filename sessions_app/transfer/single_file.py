"""Gathers one session for a self-contained page: its export, its title, and its state at every event.

The function in the setting SINGLE_FILE renders the page, because pages are made on a higher layer.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from django.conf import settings
from django.utils.module_loading import import_string
from django.utils.translation import gettext as _

from ..access.actor import Actor
from ..access.handles import shown_ref
from ..domain.errors import Invalid, NotFound
from ..domain.event import delta_of
from ..domain.json_values import as_object
from ..domain.session_ref import SessionRef
from ..domain.state import State
from ..history.whole_past import WholePast, whole_past
from ..reads import views
from . import exporting
from .hiding import Hiding
from .items import EventItem, Item, SessionItem, parse

MOST_EVENTS: Final = 5_000
MOST_LENGTH: Final = 16_000_000  # characters of all events


@dataclass(frozen=True, slots=True)
class WholeSession:
    """A session as its page needs it. `items` are those of its export; `past` is None if events have no order.

    `state` is the stored one, with full keys. All of it is as `actor`, for whom the page is made, may see it.
    """

    ref: SessionRef
    title: str
    items: list[Item]
    past: WholePast | None
    state: State
    actor: Actor
    left_out: list[str] = field(default_factory=list)  # names of damaged rows
    is_hidden: bool = False  # whether values were hidden beside what rules hide

    @property
    def row(self) -> SessionItem:
        """Returns the session's row."""
        return next(item for item in self.items if isinstance(item, SessionItem))

    @property
    def events(self) -> list[EventItem]:
        """Returns the session's events."""
        return [item for item in self.items if isinstance(item, EventItem)]

    def without(self, hiding: Hiding) -> "WholeSession":
        """Returns the session without what is hidden."""
        past = self.past and WholePast(
            hiding.state(self.past.start), [hiding.state(each) for each in self.past.changes], self.past.own
        )
        ref = self.ref._replace(user_id=hiding.user(shown_ref(self.ref, self.actor).user_id))
        items, names = list(hiding.items(self.items)), hiding.names(self.left_out)
        return WholeSession(
            ref, hiding.title(self.title), items, past, hiding.state(self.state), self.actor, names, is_hidden=True
        )


def write(
    ref: SessionRef, actor: Actor, left_out: exporting.Damaged | None = None, hiding: Hiding | None = None
) -> Iterator[bytes]:
    """Writes the page of a session, without the damaged events that are left out. Raises NotFound, Behind,
    Conflict, SourceError, and Invalid for a session that is too long."""
    whole = gathered(ref, actor, left_out)
    pieces: Iterator[bytes] = import_string(settings.SINGLE_FILE)(whole.without(hiding) if hiding else whole)
    return pieces


def gathered(ref: SessionRef, actor: Actor, left_out: exporting.Damaged | None = None) -> WholeSession:
    """Returns a whole session. Raises what `write` raises."""
    actor.check_sees(ref)
    row = exporting.head(ref, actor)
    if row is None:
        raise NotFound(_("There's no session “%(id)s”.") % {"id": ref.session_id})
    if row.events > MOST_EVENTS:
        raise Invalid(
            _("This session has %(n)s events, but a file can hold only %(most)s. Export it as jsonl.")
            % {"n": row.events, "most": MOST_EVENTS}
        )
    items: list[Item] = []
    length = 0
    for item in exporting.items_of([ref], actor=actor, left_out=left_out):
        items.append(item)
        length += len(item.text) if isinstance(item, EventItem) else 0
        if length > MOST_LENGTH:
            raise Invalid(
                _("This session's events are larger than %(n)s MB, which is too large for a page. Export it as jsonl.")
                % {"n": MOST_LENGTH // 1_000_000}
            )
    events = [item for item in items if isinstance(item, EventItem)]
    keys = {key for event in events for key in delta_of(as_object(parse(event.text)))}
    past = whole_past(ref, [event.id for event in events], keys, actor=actor)
    now = views.session(ref, actor=actor)
    names = left_out.names if left_out else []
    return WholeSession(ref, now.title, items, past, now.state.merged(), actor, names)
