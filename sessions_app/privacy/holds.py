"""Puts sessions on hold, so that adkweb can't delete them in any way. `writes/sessions.py` checks this."""

import time
from typing import Final

from django.db.models import QuerySet
from django.utils.translation import gettext as _

from ..access.actor import SYSTEM, Actor
from ..access.audit.record import record
from ..access.shown import shown_words, typed_words
from ..domain.errors import Invalid
from ..domain.session_ref import SessionRef, digest_of
from ..models import SessionHold
from ..reads import views
from ..search.index.tables import names_of
from ..sources import registry

REASON_LENGTH: Final = 500


def of(ref: SessionRef, *, actor: Actor) -> SessionHold | None:
    """Returns the hold of a session, with its reason as the actor sees it; None if it has none, or the actor may not
    see it."""
    if not actor.may_see(ref.source, ref.app_name):
        return None
    row = _rows(ref).first()
    if row:
        row.reason = shown_words(row.reason, actor, ref.app_name)
    return row


def hold(ref: SessionRef, reason: str, *, actor: Actor) -> None:
    """Puts a session on hold, or changes the reason. Raises NotFound, NotAllowed; Invalid without a reason."""
    actor.check_sees(ref)
    actor.check_may("admin", ref.source, ref.app_name)
    views.session(ref, actor=SYSTEM, partly=True)  # raises NotFound
    reason = " ".join(reason.replace("\0", " ").split())
    if not reason:
        raise Invalid(_("Enter a reason for the hold."), field="reason")
    if len(reason) > REASON_LENGTH:
        raise Invalid(_("A reason can have up to %(n)s characters.") % {"n": REASON_LENGTH}, field="reason")
    before = _rows(ref).first()
    reason = typed_words(reason, before.reason if before else "", actor, ref.app_name)
    record("session-held", actor.name, ref=ref, reason=reason)
    where, digest = registry.identity(ref.source), digest_of(*ref[1:])
    fields = {"names": names_of(ref), "reason": reason, "by": actor.name, "at": time.time()}
    SessionHold.objects.update_or_create(where=where, digest=digest, defaults=fields)


def release(ref: SessionRef, *, actor: Actor) -> None:
    """Ends the hold of a session, so that it can be deleted again. Raises NotFound, NotAllowed."""
    actor.check_sees(ref)
    actor.check_may("admin", ref.source, ref.app_name)
    record("session-unheld", actor.name, ref=ref)
    _rows(ref).delete()


def _rows(ref: SessionRef) -> QuerySet[SessionHold]:
    return SessionHold.objects.filter(where=registry.identity(ref.source), digest=digest_of(*ref[1:]))
