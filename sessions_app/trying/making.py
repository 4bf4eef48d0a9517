"""Makes a test of a session: one for pytest that replays it, or a case for `adk eval`."""

from collections.abc import Iterator
from typing import Final

from django.utils.translation import gettext as _

from .. import transfer
from ..access.actor import Actor
from ..domain.errors import NotFound
from ..domain.session_ref import SessionRef
from ..edits import reveal
from ..transfer.exporting import Filter

FORMATS: Final = ("test", "evalset")


def made(name: str, ref: SessionRef, reason: str = "", *, actor: Actor) -> Iterator[bytes]:
    """Returns a session as a test, in one of FORMATS. With a reason, it has what rules hide, but no secrets.

    Raises NotFound, NotAllowed if the actor can't reveal, Invalid, and what an export raises.
    """
    if name not in FORMATS:
        raise NotFound(_("There's no export format “%(format)s”.") % {"format": name})
    if reason:
        reveal.check_may_reveal(ref, actor)
        reason = reveal.checked(reason)
    return transfer.export(name, ref.source, Filter(*ref[1:]), actor=actor, reason=reason)
