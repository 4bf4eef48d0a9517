"""A rule of an app: the sessions that broke it, each with its first event; and what a person does to the rule."""

from contextlib import suppress
from dataclasses import dataclass

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.html import format_html
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_GET, require_http_methods

from ...access.actor import Actor
from ...checks import breaches, rules
from ...checks.breaches import Broken, Counts
from ...domain.errors import Invalid, Slow
from ...models import Rule
from ...reads import lists
from ...search import state_condition
from ..forms import Form, Text, act
from ..html.render import page
from ..html.state_panel import address_at
from ..request import actor


class RuleForm(Form):
    """Writes a rule, or changes one. On the page of a rule, its buttons do other things to it, too."""

    condition = Text(
        label=gettext_lazy("Must always hold"),
        needed=True,
        attrs={
            "class": "mono",
            "maxlength": state_condition.MOST_CHARACTERS,
            "spellcheck": "false",
            "placeholder": state_condition.EXAMPLE,
            "autocomplete": "off",
            "autocapitalize": "off",
            "role": "combobox",
            "aria-autocomplete": "list",
            "aria-expanded": "false",
            "aria-controls": "rule-options",
            "data-completes": True,
        },
    )
    title = Text(label=gettext_lazy("Name (optional)"), attrs={"maxlength": rules.TITLE_LENGTH, "dir": "auto"})
    action = Text(widget=forms.HiddenInput)


@dataclass(frozen=True, slots=True)
class Shown:
    """A rule with the number of sessions that broke it, and its newest breaches: each with the address of its event, and
    what its session is called."""

    rule: Rule
    counts: Counts
    rows: list[tuple[Broken, str, str]]
    next: str | None

    @property
    def address(self) -> str:
        """Returns the address of the rule's page."""
        return reverse("rule", args=[self.rule.source, self.rule.app_name, self.rule.pk])


def shown(each: Rule, who: Actor, before: str | None = None, limit: int = breaches.PAGE) -> Shown:
    """Returns a rule as pages show it."""
    some = breaches.broken(each, before, limit, actor=who)
    titles = lists.titles({row.ref for row in some.rows}, actor=who)
    rows = [(row, address_at(row.ref, row.event_id) if row.event_id else "", titles[row.ref]) for row in some.rows]
    return Shown(each, breaches.counts(each, actor=who), rows, some.next)


@require_http_methods(["GET", "POST"])
def rule(request: HttpRequest, source: str, app_name: str, number: int) -> HttpResponse:
    """Shows a rule with its breaches, by page. A POST changes it, deletes it, or checks it again."""
    who, names = actor(request), (source, app_name, number)
    each = rules.rule(*names, actor=who)
    form = RuleForm.of(request, initial={"title": each.title, "condition": each.condition})
    _done, status = act(form, lambda given: _act(names, **given, who=who))
    if form.is_valid():
        return _deleted(request, each) if form.cleaned_data["action"] == "delete" else redirect("rule", *names)
    before = request.GET.get("before")
    template = "checks/rule/rule.html"
    if request.htmx:  # type: ignore[attr-defined]
        template = "checks/rule/_rows.html" if before else "checks/rule/_content.html"
    return page(request, template, {"form": form, "shown": shown(each, who, before)}, status)


@require_GET
def trial(request: HttpRequest, source: str, app_name: str) -> HttpResponse:
    """Says how many sessions break a ?condition= now. Nothing while it isn't one yet, or if it takes too long to count."""
    text, trial = request.GET.get("condition", ""), None
    with suppress(Invalid, Slow):
        trial = rules.trial(source, app_name, text, actor=actor(request)) if text.strip() else None
    return page(request, "checks/rule/_trial.html", {"trial": trial})


def _act(names: tuple[str, str, int], condition: str, title: str, action: str, who: Actor) -> None:
    if action == "delete":
        rules.delete(*names, actor=who)
    elif action == "again":
        rules.check_again(*names, actor=who)
    elif action == "stop":
        rules.stop(*names, actor=who)
    else:
        rules.change(*names, title=title, text=condition, actor=who)


def _deleted(request: HttpRequest, each: Rule) -> HttpResponse:
    back = reverse("state-health", args=[each.source, each.app_name])
    again = urlencode({"title": each.title, "condition": each.condition})
    words = _("Rule “%(name)s” deleted.") % {"name": each.name}
    messages.success(request, format_html('{} <a href="{}?{}">{}</a>', words, back, again, _("Undo")))
    return redirect(back)
