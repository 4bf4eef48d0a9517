"""The state health of an app: the rules that people wrote, and what ADK advises against."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.http import require_http_methods

from ...checks import rules
from ...checks.advice import Finding, health
from ...domain.key_schema import KeySchema
from ...domain.session_ref import SessionRef
from ...domain.state import scope_of
from ...reads import lists, views
from ...search import state_condition, tree
from ...search.schemas import schemas, schemas_of
from ...search.selecting import query_of
from ..forms import act
from ..html.render import page
from ..html.state_panel import address_at
from ..request import actor
from .rule import RuleForm, shown
from .words import ADVICE, Advice, said

_EXAMPLES: Final = 3
_EXAMPLE: Final = 48  # characters


@dataclass(frozen=True, slots=True)
class Item:
    """A finding in words, with the addresses of its sessions, and of the event that wrote the key, and what the session of
    that event is called."""

    finding: Finding
    words: str
    sessions: str
    event: str
    title: str


@dataclass(frozen=True, slots=True)
class Group:
    """The findings of a kind. `hidden` more are not shown."""

    kind: str
    advice: Advice
    items: list[Item]
    hidden: int


@require_http_methods(["GET", "POST"])
def state_health(request: HttpRequest, source: str, app_name: str) -> HttpResponse:
    """Shows the rules, and what there is to improve, by kind. A POST makes a rule. htmx gets only the rules."""
    who = actor(request)
    row, _state = views.app(source, app_name, partly=True, actor=who)
    begun = _begun(request, source, app_name)
    form = RuleForm.of(request, initial=begun, focus="condition" if begun.get("condition") else "")
    number, status = act(
        form, lambda given: rules.create(source, app_name, given["title"], given["condition"], actor=who)
    )
    if number:
        return redirect("rule", source, app_name, number)
    context: dict[str, Any] = {"source": source, "app": row, "form": form}
    some = rules.rules(source, app_name, actor=who)
    context["rules"] = [shown(each, who, limit=1) for each in some]
    context["examples"] = [] if some else _examples(schemas(source, app_name, actor=who).keys)
    context["working"] = any(each.percent is not None for each in some)
    if request.htmx:  # type: ignore[attr-defined]
        return page(request, "checks/state_health/_rules.html", context)
    report, query = health(source, app_name, actor=who), query_of(source, app_name, actor=who)
    refs = {ref for some in report.findings.values() for each in some if (ref := each.wrote or each.ref)}
    titles = lists.titles(refs, actor=who)
    groups = [
        Group(kind, ADVICE[kind], [_item(each, query, titles) for each in some], report.hidden[kind])
        for kind, some in report.findings.items()
    ]
    return page(
        request, "checks/state_health/state_health.html", context | {"health": report, "groups": groups}, status
    )


def _begun(request: HttpRequest, source: str, app_name: str) -> dict[str, str]:
    """Returns the rule that an address begins: a whole one, or one about a ?key=, of what is known of it."""
    given = request.GET.dict()
    if key := given.get("key"):
        known = schemas_of(source, app_name, [key], actor=actor(request)).get(key, KeySchema())
        given["condition"] = state_condition.always(key, known)
    return given


def _examples(keys: Mapping[str, KeySchema]) -> list[tuple[str, str]]:
    """Returns a few keys of an app about which a rule could be, each with the condition that begins it."""
    telling = {key: known for key, known in keys.items() if known.low is not None or known.texts}
    every = ((key, state_condition.always(key, known)) for key, known in telling.items())
    return [each for each in every if len(each[1]) <= _EXAMPLE and not each[1].endswith("null")][:_EXAMPLES]


def _item(finding: Finding, query: str, titles: Mapping[SessionRef, str]) -> Item:
    event = address_at(finding.wrote, finding.event_id) if finding.wrote else ""
    ref = finding.wrote or finding.ref
    sessions = "" if finding.is_whole else _sessions(finding.key, query)
    return Item(finding, said(finding), sessions, event, titles[ref] if ref else "")


def _sessions(key: str, query: str) -> str:
    """Returns the address of the sessions that a query selects and that have a key."""
    scope, bare = scope_of(key)
    exists = tree.State(scope, (bare,), "exists")  # type: ignore[arg-type]
    asked = f"{query} {tree.write(exists)}".encode("utf-8", "replace")
    return f"{reverse('search')}?{urlencode({'q': asked})}"
