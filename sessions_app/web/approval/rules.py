"""The page of approval rules: which edits and answers need a second person."""

from typing import Final

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods, require_POST

from ...access import approval as core
from ...domain.errors import Invalid
from ..forms import Form, Read, Text, act
from ..html.render import page
from ..request import actor

_PATTERN: Final = {"class": "mono", "maxlength": 200, "spellcheck": "false"}


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise Invalid(_("Enter a whole number.")) from None


class RuleForm(Form):
    """Makes a rule."""

    keys = Text(
        label=gettext_lazy("Keys"),
        help_text=gettext_lazy("A key's full name, or a pattern like app:*."),
        attrs=_PATTERN | {"placeholder": "user:tier", "id": "held-keys"},  # the card of keys on every page is `keys`
    )
    sessions = Read(
        lambda text: _whole(text) if text.strip() else None,
        label=gettext_lazy("Batches larger than (sessions)"),
        help_text=gettext_lazy("Large batches of edits or deletions. Leave empty to ignore batch size."),
        attrs={"class": "mono"},
    )
    tools = Text(
        label=gettext_lazy("Answers to calls of the tools"),
        help_text=gettext_lazy("A tool's name, or a pattern like refund_*."),
        attrs=_PATTERN | {"placeholder": "refund_*"},
    )
    apps = Text(label=gettext_lazy("Apps"), attrs=_PATTERN | {"placeholder": "*"})
    sources = Text(label=gettext_lazy("Sources"), attrs=_PATTERN | {"placeholder": "*"})
    days = Read(_whole, label=gettext_lazy("Proposals lapse after (days)"), initial=core.DAYS, attrs={"type": "number"})


@require_http_methods(["GET", "POST"])
def rules(request: HttpRequest) -> HttpResponse:
    """Lists the rules, and makes another one."""
    who = actor(request)
    who.check_runs_everything()
    form = RuleForm.of(request)
    made, status = act(form, lambda given: core.make(**given, by=who))
    if made:
        messages.success(request, _("Rule added. It applies immediately."))
        return redirect("approval")
    return page(request, "approval/rules/rules.html", {"form": form, "rules": core.listed()}, status)


@require_POST
def delete(request: HttpRequest, number: int) -> HttpResponse:
    """Deletes a rule."""
    core.delete(number, by=actor(request))
    messages.success(request, _("Rule deleted. Edits that are already waiting for approval still need it."))
    return redirect("approval")
