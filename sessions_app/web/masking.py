"""Lists the rules that hide values, adds, tries and removes them, and proposes some."""

from typing import Any, Final

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.functional import lazy
from django.utils.html import format_html_join
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, pgettext
from django.views.decorators.http import require_http_methods, require_POST

from ..access.masking import MaskRule
from ..checks import mask_rules
from ..domain.mask_patterns import CARD, EMAIL, JWT, PHONE, SERVICE
from ..domain.masks import FORM, KEY, KINDS, PATH, TOOL
from .forms import Check, Form, Text, act
from .html.render import page
from .request import actor

_PATTERN: Final = {"class": "mono", "maxlength": mask_rules.LENGTH, "spellcheck": "false"}


_EXAMPLES: Final = {KEY: "*token*, user:card_*", PATH: "profile.card.number", TOOL: "charge_card: card_number"}


def _examples() -> str:
    """Returns what a pattern of each kind looks like. The page shows that of the kind that is chosen."""
    return format_html_join(
        "",
        '<span data-kind="{}">{} <span class="mono">{}</span></span>',
        ((kind, _("For example:"), example) for kind, example in _EXAMPLES.items()),
    )


def _formats() -> list[tuple[str, str]]:
    """Returns the formats, each with what it finds."""
    return [
        (SERVICE, _("Keys for well-known services, private keys, and passwords in URLs")),
        (JWT, _("JSON Web Tokens, which begin with eyJ")),
        (CARD, _("Card numbers with a correct check digit, such as 4111 1111 1111 1111")),
        (EMAIL, _("Email addresses, such as ana@example.com")),
        (PHONE, _("Phone numbers, such as +34 600 123 456")),
    ]


class MaskForm(Form):
    """Adds a rule, or tries it: then nothing is hidden yet. A format is chosen, any other pattern is typed."""

    kind = Text(label=gettext_lazy("Type"))
    pattern = Text(
        label=gettext_lazy("Pattern"),
        help_text=lazy(_examples, str)(),
        attrs=_PATTERN,
    )
    format = Text(label=gettext_lazy("Format"))
    ids = Check(
        label=gettext_lazy("Include user ids"),
        help_text=gettext_lazy(
            "People who can't reveal values see a handle such as user-3f9a2c81d07be455 instead of the id, "
            "including in URLs and files. Available only for rules that apply to all apps."
        ),
    )
    apps = Text(
        label=gettext_lazy("Apps"),
        help_text=gettext_lazy("An app's name, or a pattern like booking-*. Leave empty for all apps."),
        attrs=_PATTERN | {"placeholder": "*"},
    )
    trial = Check()

    def clean(self) -> dict[str, Any]:
        """Takes the chosen format as the pattern."""
        chosen = self.cleaned_data.pop("format", "")
        if chosen and self.cleaned_data["kind"] == FORM:
            self.cleaned_data["pattern"] = chosen
        return self.cleaned_data

    def add_error(self, field: str | None, error: Any) -> None:
        """Puts what is wrong with a format beside the formats."""
        super().add_error("format" if field == "pattern" and self.data.get("kind") == FORM else field, error)


@require_http_methods(["GET", "POST"])
def masking(request: HttpRequest) -> HttpResponse:
    """Lists the rules. A form adds one, or tries which keys it would hide; `scan` in the address proposes some."""
    who = actor(request)

    def do(given: dict[str, Any]) -> MaskRule:
        return mask_rules.checked(**given) if given.pop("trial") else mask_rules.create(**given, actor=who)

    form = MaskForm.of(request, initial={"kind": KEY, "format": SERVICE})
    rule, status = act(form, do)
    said = [_words_of(each, rule) for each in mask_rules.ids(rule, actor=who)] if rule else []
    if rule and rule.pk:
        messages.success(request, _("Rule added. The search index is being rebuilt without the hidden values."))
        for each in said:
            (messages.info if rule.ids else messages.warning)(request, each)
        return redirect("masking")
    context = {
        "form": form,
        "kinds": KINDS,
        "formats": _formats(),
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
    """Returns what a rule does with ids: “2 of 3 users of booking have an email as id; ids stay readable.”"""
    forms = {
        EMAIL: pgettext("the id of a user", "an email"),
        PHONE: pgettext("the id of a user", "a phone number"),
        CARD: pgettext("the id of a user", "a card number"),
        JWT: pgettext("the id of a user", "a JWT"),
        SERVICE: pgettext("the id of a user", "a service key"),
    }
    readable = (
        _("%(n)s of the first %(users)s %(app)s users have %(what)s as their id. Their ids stay visible.")
        if ids.more
        else _("%(n)s of %(users)s %(app)s users have %(what)s as their id. Their ids stay visible.")
    )
    hidden = (
        _("%(n)s of the first %(users)s %(app)s users have %(what)s as their id. Their handles will be shown instead.")
        if ids.more
        else _("%(n)s of %(users)s %(app)s users have %(what)s as their id. Their handles will be shown instead.")
    )
    values = {"n": ids.having, "users": ids.users, "app": ids.app_name, "what": forms[rule.pattern]}
    return (hidden if rule.ids else readable) % values


@require_POST
def remove(request: HttpRequest, number: int) -> HttpResponse:
    """Removes a rule: what it hid is seen again."""
    mask_rules.delete(number, actor=actor(request))
    messages.success(request, _("Rule removed. Its values are visible again."))
    return redirect("masking")
