"""What-ifs of many sessions: the form of the change, the progress, and the outcomes before and after."""

import uuid
from dataclasses import replace
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods
from django_htmx.http import HttpResponseClientRedirect

from ..access.shown import is_masked
from ..domain.state import ABSENT
from ..edits.edit import Entry
from ..models import Rule
from ..trying import whatifs as core
from ..trying.many import DRAFT
from ..trying.whatif import Change
from ..trying.whatifs import WhatIfs
from .edits.rows import asked_row, note_habits
from .forms import Text, act
from .html.render import page
from .request import actor
from .whatif import ChangeForm, agents_now, parts_of


class WhatIfsForm(ChangeForm):
    """The change, and what a button of the page asks for (`action`)."""

    unknown_ways = ("fail", "run")

    action = Text()

    def change(self) -> Change:
        """Returns what was changed. What a key has now differs from session to session."""
        return replace(super().change(), removed=[each.key for each in self.entries() or [] if each.value is ABSENT])


@require_http_methods(["GET", "POST"])
def what_ifs(request: HttpRequest, what_ifs_id: uuid.UUID) -> HttpResponse:
    """Shows a what-if of many sessions, and starts, stops or repeats it. htmx gets only the part that changes."""
    tried = core.get(what_ifs_id, actor=actor(request))
    form = _form(request, tried)
    if form.asks_for_rows:
        form.add_row({})
        return _page(request, tried, form)
    goes_to, status = act(form, lambda given: _step(request, tried, form, given))
    if goes_to is None:
        return _page(request, core.get(what_ifs_id, actor=actor(request)), form, status)
    return HttpResponseClientRedirect(goes_to) if request.htmx else redirect(goes_to)  # type: ignore[attr-defined]


def _form(request: HttpRequest, tried: WhatIfs) -> WhatIfsForm:
    """Returns the form as it was sent, or with the change of the what-if that this one repeats."""
    if tried.stage != DRAFT:
        return WhatIfsForm.of(request, agents=[], like=Change(""))
    like, agents = tried.change, agents_now(tried.sample, tried.agents, actor(request))
    form = WhatIfsForm.of(request, agents=agents, like=like, initial={"unknown": tried.unknown})
    if not form.is_bound:
        values = {**like.state, **dict.fromkeys(like.removed, ABSENT)}
        form.rows = [asked_row(Entry(key, value, ABSENT)) for key, value in values.items()]
    return form


def _step(request: HttpRequest, tried: WhatIfs, form: WhatIfsForm, given: dict[str, Any]) -> str:
    """Does what a button asks for, and returns the address of the page that follows."""
    who = actor(request)
    match given["action"]:
        case "try":
            core.begin(
                tried.id,
                form.change(),
                actor=who,
                unknown=form.chosen["unknown"],  # type: ignore[arg-type]
                run_code=given["run_code"],
                reason=given["reason"],
            )
        case "continue":
            core.resume(tried.id, actor=who)
        case "stop":
            core.stop(tried.id, actor=who)
        case "again":
            return reverse("what-ifs", args=[core.again(tried.id, actor=who)])
        case "discard":
            core.discard(tried.id, actor=who)
            messages.info(request, _("What-if deleted."))
            return reverse("replays")
    return reverse("what-ifs", args=[tried.id])


def _page(request: HttpRequest, tried: WhatIfs, form: WhatIfsForm, status: int = 200) -> HttpResponse:
    who, result = actor(request), request.GET.get("result", "")
    result = result if result in core.RESULTS else ""
    context: dict[str, Any] = {"tried": tried, "form": form, "result": result, "parts": parts_of(tried.change)}
    if tried.stage == DRAFT:
        note_habits(form.rows, tried.sample, who)
        context |= {
            "masked": is_masked(who, tried.app_name),
            "may_reveal": who.may_reveal(tried.source, tried.app_name),
            "here": request.path,
        }
    else:
        before, after = tried.totals
        context |= {"rows": tried.rows(result), "before": before, "after": after, "rules": _rules(tried)}
    template = "whatifs/_whatifs.html" if request.htmx else "whatifs/whatifs.html"  # type: ignore[attr-defined]
    return page(request, template, context, status)


def _rules(tried: WhatIfs) -> list[tuple[Rule, int, int]]:
    """Returns the app's rules, each with how many sessions break it as recorded, and with the change."""
    before, after = tried.totals
    return [(rule, before.broken.get(rule.pk, 0), after.broken.get(rule.pk, 0)) for rule in tried.rules]
