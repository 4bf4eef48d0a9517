"""Defines a token as pages and commands show it: without its text."""

import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, cast

from django.utils import timezone

from ..models import ApiToken, OldTokenText
from .actor import Right

SOON: Final = timedelta(days=7)  # before a token expires, the list warns


@dataclass(frozen=True, slots=True)
class Token:
    """A token without its text. `right` includes the rights before it; `used` is None if it was never used.

    `expires` is None if it does not. `orphaned`: the person who made it, or who renewed it last, was deleted or may not
    sign in any more. `holders` are the people who have its text. Until `overlap`, texts from before it was renewed go on.
    """

    number: int
    name: str
    right: Right
    apps: str
    created_by: str
    created: datetime
    used: datetime | None
    used_from: str
    revoked_by: str
    revoked: datetime | None
    renewed_by: str
    renewed: datetime | None
    rate: int | None
    expires: datetime | None = None
    orphaned: bool = False
    holders: tuple[str, ...] = ()
    overlap: datetime | None = None

    @property
    def maker(self) -> str:
        """Returns the name of whoever made it, or renewed it last."""
        return self.renewed_by or self.created_by

    @property
    def overlaps(self) -> bool:
        """Tells whether a text from before it was renewed still goes on."""
        return not self.revoked and self.overlap is not None and self.overlap > timezone.now()

    @property
    def expired(self) -> bool:
        """Tells whether its time is over."""
        return self.expires is not None and self.expires <= timezone.now()

    @property
    def ended(self) -> bool:
        """Tells whether every program with this token is refused."""
        return self.revoked is not None or self.expired or self.orphaned

    @property
    def ends_soon(self) -> bool:
        """Tells whether it will expire within a week."""
        return not self.ended and self.expires is not None and self.expires - timezone.now() <= SOON


def token_of(row: ApiToken, holder: ApiToken | OldTokenText | None = None) -> Token:
    """Returns a token as it is told; `holder` is what is tied to a person, if it is not the token itself."""
    holder = holder or row
    return Token(
        number=row.pk,
        name=row.name,
        right=cast(Right, row.right),
        apps=row.apps,
        created_by=row.created_by,
        created=row.created,
        used=row.used,
        used_from=row.used_from,
        revoked_by=row.revoked_by,
        revoked=row.revoked,
        renewed_by=row.renewed_by,
        renewed=row.renewed,
        rate=row.rate,
        expires=row.expires,
        holders=tuple(json.loads(row.holders)),
        orphaned=holder.person_id is not None and (holder.person is None or not holder.person.is_active),
    )
