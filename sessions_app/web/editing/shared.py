"""Says whom an edit of shared state reaches: the sessions that have the key, too, and those that run or wait now."""

from collections.abc import Iterable
from dataclasses import dataclass

from django.urls import reverse
from django.utils.http import urlencode

from ...access.actor import Actor
from ...domain.state import Scope
from ...search import tree
from ...search.sharing import Sharing, sharing
from ..html.targets import Target


@dataclass(frozen=True, slots=True)
class Reach:
    """The sessions that an edit of a scope reaches, and the address that lists them."""

    scope: Scope
    sharing: Sharing
    address: str


def reached(target: Target, scopes: Iterable[Scope], who: Actor) -> list[Reach]:
    """Returns what an edit reaches that has keys of these scopes, or is one of an app's or a user's state."""
    wanted = {*scopes, target.kind}
    return [_reach(target, scope, who) for scope in ("user", "app") if scope in wanted]


def _reach(target: Target, scope: Scope, who: Actor) -> Reach:
    query = f"app:{tree.quoted(target.ref.app_name)}"
    if scope == "user":
        query += f" user:{tree.quoted(target.ref.user_id)}"
    address = f"{reverse('search')}?{urlencode({'q': query.encode('utf-8', 'replace')})}"
    return Reach(scope, sharing(target.ref, scope, actor=who), address)
