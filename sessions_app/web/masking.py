"""Lists the rules that hide values, adds, tries and removes them, and proposes some."""

from typing import Any, Final

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.functional import lazy
from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, pgettext
from django.views.decorators.http import require_http_methods, require_POST

from ..access.masking import MaskRule
from ..checks import mask_rules
from ..domain.mask_patterns import CARD, EMAIL, FORMS, JWT, PHONE, SERVICE
from ..domain.masks import KINDS
from .forms import Check, Form, Text, act
from .html.render import page
from .request import actor

_PATTERN: Final = {"class": "mono", "maxlength": mask_rules.LENGTH, "spellcheck": "false"}


class MaskForm(Form):
    """Adds a rule, or tries it: then nothing is hidden yet."""

    kind = Text(label=gettext_lazy("Kind"))
    pattern = Text(
        label=gettext_lazy("Pattern"),
        help_text=lazy(format_html, str)(
            '{} <span class="mono">{}</span>',
            gettext_lazy(
                "A key like user:card_*, a path like profile.card.number, an argument like charge_card: card_number, or a "
                "form:"
            ),
            ", ".join(FORMS),
        ),
        needed=True,
        attrs=_PATTERN | {"placeholder": "*token*"},
    )
    ids = Check(
        label=gettext_lazy("Include ids of users"),
        help_text=gettext_lazy(
            "Who may not reveal values sees a handle like user-3f9a2c81d07be455 in place of an id, in addresses and "
            "files, too. Only for all apps."
        ),
    )
    apps = Text(
        label=gettext_lazy("Apps"),
        help_text=gettext_lazy("One app by its name, or several by a pattern like booking-*. Left empty: all of them."),
        attrs=_PATTERN | {"placeholder": "*"},
    )
    trial = Check()


@require_http_methods(["GET", "POST"])
def masking(request: HttpRequest) -> HttpResponse:
    """Lists the rules. A form adds one, or tries which keys it would hide; `scan` in the address proposes some."""
    who = actor(request)

    def do(given: dict[str, Any]) -> MaskRule:
        return mask_rules.checked(**given) if given.pop("trial") else mask_rules.create(**given, actor=who)

    form = MaskForm.of(request, initial={"kind": "key"})
    rule, status = act(form, do)
    said = [_words_of(each, rule) for each in mask_rules.ids(rule, actor=who)] if rule else []
    if rule and rule.pk:
        messages.success(request, _("The rule hides values from now on. Search reads everything again without them."))
        for each in said:
            (messages.info if rule.ids else messages.warning)(request, each)
        return redirect("masking")
    context = {
        "form": form,
        "kinds": KINDS,
        "tried": rule,
        "look": rule and mask_rules.look(rule, actor=who),
        "ids": said,
        "rules": mask_rules.listed(actor=who),
        "proposals": mask_rules.proposals(actor=who) if "scan" in request.GET else None,
    }
    response = page(request, "masking/masking.html", context, status)
    response["Cache-Control"] = "private, no-store"
    return response


def _words_of(ids: mask_rules.Ids, rule: MaskRule) -> str:
    """Returns what a rule does with ids: “2 of 3 users of booking have an e-mail as id; ids stay readable.”"""
    forms = {
        EMAIL: pgettext("the id of a user", "an e-mail"),
        PHONE: pgettext("the id of a user", "a phone number"),
        CARD: pgettext("the id of a user", "a card number"),
        JWT: pgettext("the id of a user", "a JWT"),
        SERVICE: pgettext("the id of a user", "a key of a service"),
    }
    readable = (
        _("%(n)s of the first %(users)s users of %(app)s have %(what)s as id; ids stay readable.")
        if ids.more
        else _("%(n)s of %(users)s users of %(app)s have %(what)s as id; ids stay readable.")
    )
    hidden = (
        _("%(n)s of the first %(users)s users of %(app)s have %(what)s as id; a handle takes its place.")
        if ids.more
        else _("%(n)s of %(users)s users of %(app)s have %(what)s as id; a handle takes its place.")
    )
    values = {"n": ids.having, "users": ids.users, "app": ids.app_name, "what": forms[rule.pattern]}
    return (hidden if rule.ids else readable) % values


@require_POST
def remove(request: HttpRequest, number: int) -> HttpResponse:
    """Removes a rule: what it hid is seen again."""
    mask_rules.delete(number, actor=actor(request))
    messages.success(request, _("The rule is removed. What it hid is seen again."))
    return redirect("masking")
