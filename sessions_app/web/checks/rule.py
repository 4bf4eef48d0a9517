"""A rule of an app: the sessions that broke it, each with its first event; and what a person does to the rule."""

from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.html import format_html
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from ...access.actor import Actor
from ...checks import breaches, condition, rules
from ...checks.breaches import Broken, Counts
from ...checks.rules import RuleView
from ...domain.errors import Invalid
from ...reads import lists
from ..html.render import page
from ..html.state_panel import address_at
from ..request import actor

LIMITS = {"title": rules.TITLE_LENGTH, "condition": condition.MOST_CHARACTERS, "example": condition.EXAMPLE}


@dataclass(frozen=True, slots=True)
class Shown:
    """A rule with the number of sessions that broke it, and its newest breaches: each with the address of its event, and
    what its session is called."""

    rule: RuleView
    counts: Counts
    rows: list[tuple[Broken, str, str]]
    next: str | None

    @property
    def address(self) -> str:
        """Returns the address of the rule's page."""
        return reverse("rule", args=[self.rule.source, self.rule.app_name, self.rule.number])


def shown(each: RuleView, who: Actor, before: str | None = None, limit: int = breaches.PAGE) -> Shown:
    """Returns a rule as pages show it."""
    some = breaches.broken(each, before, limit, actor=who)
    titles = lists.titles({row.ref for row in some.rows}, actor=who)
    rows = [(row, address_at(row.ref, row.event_id) if row.event_id else "", titles[row.ref]) for row in some.rows]
    return Shown(each, breaches.counts(each, actor=who), rows, some.next)


@require_http_methods(["GET", "POST"])
def rule(request: HttpRequest, source: str, app_name: str, number: int) -> HttpResponse:
    """Shows a rule with its breaches, by page. A POST changes it, deletes it, or checks it again."""
    names: dict[str, Any] = {"source": source, "app_name": app_name, "number": number}
    each = rules.rule(**names, actor=actor(request))
    context: dict[str, Any] = {"limits": LIMITS, "given": {"title": each.title, "condition": each.condition}}
    status = 200
    if request.method == "POST":
        try:
            return _act(request, each, names)
        except Invalid as error:
            context |= {"error": error.message, "given": request.POST}
            status = 400
    before = request.GET.get("before")
    template = "checks/rule/rule.html"
    if request.htmx:  # type: ignore[attr-defined]
        template = "checks/rule/_rows.html" if before else "checks/rule/_content.html"
    return page(request, template, context | {"shown": shown(each, actor(request), before)}, status)


def _act(request: HttpRequest, each: RuleView, names: dict[str, Any]) -> HttpResponse:
    who, action = actor(request), request.POST.get("action", "save")
    if action == "delete":
        rules.delete(**names, actor=who)
        back = reverse("state-health", args=[each.source, each.app_name])
        again = urlencode({"title": each.title, "condition": each.condition})
        words = _("The rule “%(name)s” is deleted.") % {"name": each.name}
        messages.success(request, format_html('{} <a href="{}?{}#new-rule">{}</a>', words, back, again, _("Undo")))
        return redirect(back)
    if action == "again":
        rules.check_again(**names, actor=who)
    elif action == "stop":
        rules.stop(**names, actor=who)
    else:
        rules.change(**names, title=request.POST.get("title", ""), text=request.POST.get("condition", ""), actor=who)
    return redirect("rule", each.source, each.app_name, each.number)
