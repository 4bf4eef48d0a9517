"""Says whom an edit of shared state reaches: the sessions that have the key, too, and those that run or wait now."""

from collections.abc import Iterable
from dataclasses import dataclass

from django.urls import reverse
from django.utils.formats import number_format
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from ...access.actor import Actor
from ...domain.state import Scope
from ...reads import lists
from ...search.selecting import query_of
from ...search.sharing import Active, Sharing, sharing
from ..html.targets import Target


@dataclass(frozen=True, slots=True)
class Reach:
    """The sessions that an edit of a scope reaches, how many they are in words, and the address that lists them. `named` are
    some of those that run or wait, each with what it is called."""

    sharing: Sharing
    words: str
    address: str
    named: list[tuple[Active, str]]


def reached(target: Target, scopes: Iterable[Scope], who: Actor) -> list[Reach]:
    """Returns what an edit reaches that has keys of these scopes, or is one of an app's or a user's state."""
    wanted = {*scopes, target.kind}
    return [_reach(target, scope, who) for scope in ("user", "app") if scope in wanted]


def _reach(target: Target, scope: Scope, who: Actor) -> Reach:
    query = query_of(target.ref.source, target.ref.app_name, target.ref.user_id if scope == "user" else "", actor=who)
    address = f"{reverse('search')}?{urlencode({'q': query.encode('utf-8', 'replace')})}"
    told = sharing(target.ref, scope, actor=who)
    titles = lists.titles([each.ref for each in told.named], actor=who)
    return Reach(told, _words(scope, told), address, [(each, titles[each.ref]) for each in told.named])


def _words(scope: Scope, told: Sharing) -> str:
    if scope == "user" and told.more:
        words = _("More than %(n)s sessions share this user's state.")
    elif told.more:
        words = _("More than %(n)s sessions share this app's state.")
    elif scope == "user":
        words = ngettext(
            "%(n)s session shares this user's state.", "%(n)s sessions share this user's state.", told.sessions
        )
    else:
        words = ngettext(
            "%(n)s session shares this app's state.", "%(n)s sessions share this app's state.", told.sessions
        )
    return words % {"n": number_format(told.sessions, force_grouping=True)}
