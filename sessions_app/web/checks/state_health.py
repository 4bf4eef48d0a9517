"""The state health of an app: what ADK advises against."""

from dataclasses import dataclass

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.http import require_GET

from ...checks.advice import Finding, health
from ...domain.state import scope_of
from ...reads import views
from ...search import tree
from ..html.render import page
from ..html.targets import actor, address_at
from .words import ADVICE, Advice, said


@dataclass(frozen=True, slots=True)
class Item:
    """A finding in words, with the addresses of its sessions, and of the event that wrote the key."""

    finding: Finding
    words: str
    sessions: str
    event: str


@dataclass(frozen=True, slots=True)
class Group:
    """The findings of a kind. `hidden` more are not shown."""

    kind: str
    advice: Advice
    items: list[Item]
    hidden: int


@require_GET
def state_health(request: HttpRequest, source: str, app_name: str) -> HttpResponse:
    """Shows what there is to improve, by kind."""
    row, _state = views.app(source, app_name, partly=True, actor=actor(request))
    told = health(source, app_name, actor=actor(request))
    groups = [
        Group(kind, ADVICE[kind], [_item(each, app_name) for each in some], told.hidden[kind])
        for kind, some in told.findings.items()
    ]
    context = {"source": source, "app": row, "health": told, "groups": groups}
    return page(request, "checks/state_health/state_health.html", context)


def _item(finding: Finding, app_name: str) -> Item:
    event = address_at(finding.wrote, finding.event_id) if finding.wrote else ""
    return Item(finding, said(finding), "" if finding.is_whole else _sessions(finding.key, app_name), event)


def _sessions(key: str, app_name: str) -> str:
    """Returns the address of the sessions of an app that have a key."""
    scope, bare = scope_of(key)
    exists = tree.State(scope, (bare,), "exists")  # type: ignore[arg-type]
    query = f"app:{tree.quoted(app_name)} {tree.write(exists)}"
    return f"{reverse('search')}?{urlencode({'q': query.encode('utf-8', 'replace')})}"
