"""Reads from the form of an edit what its note says beside who and why: what it takes back, and when it ends."""

from datetime import datetime
from typing import Any, Final

from django.http import HttpRequest
from django.utils.translation import gettext as _

from ...domain.errors import Invalid
from ...edits import expiry
from ...reads import timeline
from ..html.targets import Target, actor
from ..search.asked import zone_of

TAKING_BACK: Final = ("undoes", "restores")  # what an edit may come from, in its note and in the form
LASTS: Final = (900, 3600, 4 * 3600, 86400, 7 * 86400)  # seconds; offered in the form
STAYS, AT = "stays", "until"  # what else the form offers: no end, or a time that is typed


def taken_back(request: HttpRequest) -> dict[str, str]:
    """Reads what the edit undoes or restores."""
    return {name: request.POST[name] for name in TAKING_BACK if request.POST.get(name)}


def end(request: HttpRequest) -> dict[str, float]:
    """Reads when the edit ends: after seconds, or at a time in the reader's zone. Raises Invalid."""
    chosen = request.POST.get("lasts", STAYS)
    try:
        if chosen == AT:
            typed = datetime.fromisoformat(request.POST.get("until", ""))
            typed = typed if typed.tzinfo else typed.replace(tzinfo=zone_of(request))
            return {"until": typed.timestamp()}
        return {} if chosen in ("", STAYS) else {"lasts": float(int(chosen))}
    except (ValueError, OverflowError):
        raise Invalid(_("Choose when this edit ends.")) from None


def checked(request: HttpRequest, target: Target) -> dict[str, Any]:
    """Reads all of it, and checks that an event exists and a time is to come. Raises Invalid, NotFound."""
    of = taken_back(request) if target.kind == "session" else {}
    if len(of) > 1:
        raise Invalid(_("An edit undoes an event or restores a moment, not both."))
    for event_id in of.values():
        timeline.event(target.ref, event_id, actor=actor(request))
    ends = end(request)
    expiry.resolved(ends)
    return {**of, **ends}


def typed_end(request: HttpRequest, of: dict[str, Any]) -> dict[str, Any]:
    """Returns what the fields for the end hold: what was sent, or what a queued edit says."""
    lasts, until = request.POST.get("lasts", ""), request.POST.get("until", "")
    if "lasts" in of:
        lasts = str(int(of["lasts"]))
    elif AT in of:
        lasts, until = AT, datetime.fromtimestamp(of[AT], zone_of(request)).strftime("%Y-%m-%dT%H:%M")
    return {"lasts": lasts, "until": until, "offered_ends": [(str(each), each) for each in LASTS]}
