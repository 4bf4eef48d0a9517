"""Lists the rules that hide values, adds, tries and removes them, and proposes some."""

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.utils.translation import pgettext
from django.views.decorators.http import require_http_methods, require_POST

from ..checks import mask_rules
from ..domain.errors import Error
from ..domain.mask_patterns import CARD, EMAIL, FORMS, JWT, PHONE, SERVICE
from ..domain.masks import KINDS, Rule
from ..http.problems import STATUS
from .html.render import page
from .request import actor

_FORM = {"apps": "", "kind": "key", "pattern": ""}


@require_http_methods(["GET", "POST"])
def masking(request: HttpRequest) -> HttpResponse:
    """Lists the rules. A form adds one, or tries which keys it would hide; `scan` in the address proposes some."""
    who = actor(request)
    given = {name: request.POST.get(name, default) for name, default in _FORM.items()}
    hides_ids = "ids" in request.POST
    context: dict[str, Any] = {
        "given": given,
        "hides_ids": hides_ids,
        "kinds": KINDS,
        "forms": FORMS,
        "max": mask_rules.LENGTH,
    }
    status = 200
    try:
        if request.method == "POST" and "try" in request.POST:
            known = mask_rules.checked(**given, ids=hides_ids)
            context["look"] = mask_rules.look(known, actor=who)
            context["ids"] = [_words_of(each, known.rule) for each in mask_rules.ids(known, actor=who)]
        elif request.method == "POST":
            known = mask_rules.create(**given, ids=hides_ids, actor=who)
            messages.success(
                request, _("The rule hides values from now on. Search reads everything again without them.")
            )
            for each in mask_rules.ids(known, actor=who):
                tell = messages.info if hides_ids else messages.warning
                tell(request, _words_of(each, known.rule))
            return redirect("masking")
    except Error as error:
        context["errors"] = {error.detail.get("field", "form"): error.message}
        status = STATUS[type(error)]
    if "scan" in request.GET:
        context["proposals"] = mask_rules.proposals(actor=who)
    response = page(
        request,
        "masking/masking.html",
        context | {"rules": mask_rules.listed(actor=who), "most": mask_rules.SHOWN},
        status,
    )
    response["Cache-Control"] = "private, no-store"
    return response


def _words_of(ids: mask_rules.Ids, rule: Rule) -> str:
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
