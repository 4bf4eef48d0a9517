"""The page of roles: who may do what, in which sources and apps."""

from functools import partial
from typing import Any, Final

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.choices import CallableChoiceIterator
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods, require_POST

from ...access import roles as core
from ...access.roles import Role
from ...domain.roles import ROLES
from ..forms import Check, Form, Text, act
from ..html.render import page
from ..request import actor

_PATTERN: Final = {"class": "mono", "maxlength": 200, "spellcheck": "false", "placeholder": "*"}


def _holders() -> list[tuple[str, str]]:
    groups, people = core.holders()
    return [
        ("", _("Choose…")),
        *((f"group:{name}", _("%(name)s (group)") % {"name": name}) for name in groups),
        *((f"person:{name}", name) for name in people),
    ]


class RoleForm(Form):
    """Gives a role. `holder` is `person:ana` or `group:support`."""

    holder = Text(
        label=gettext_lazy("Who"), needed=True, widget=partial(forms.Select, choices=CallableChoiceIterator(_holders))
    )
    role = Text(label=gettext_lazy("Role"))
    apps = Text(
        label=gettext_lazy("Apps"),
        help_text=gettext_lazy("An app's name, or a pattern like booking-*. Leave empty for all apps."),
        attrs=_PATTERN,
    )
    sources = Text(label=gettext_lazy("Sources"), attrs=_PATTERN)
    reveals = Check(
        label=gettext_lazy("Can reveal masked values, with a reason"),
        help_text=gettext_lazy("Also shows hidden user ids, without asking for a reason."),
    )

    def clean(self) -> dict[str, Any]:
        """Says of the holder whether it is a person or a group."""
        kind, _colon, name = self.cleaned_data.pop("holder", "").partition(":")
        return self.cleaned_data | {"group" if kind == "group" else "person": name}


@require_http_methods(["GET", "POST"])
def roles(request: HttpRequest) -> HttpResponse:
    """Lists the roles, and gives another one."""
    who = actor(request)
    who.check_runs_everything()
    form = RoleForm.of(request, initial={"role": "viewer"})
    made, status = act(form, lambda given: core.give(**given, by=who))
    if made:
        messages.success(request, _("%(name)s now has the %(role)s role.") % {"name": made.holder, "role": made.role})
        return redirect("roles")
    kinds = [(name, kind.words) for name, kind in ROLES.items()]
    context = {"form": form, "kinds": kinds, "roles": Role.objects.listed()}
    return page(request, "access/roles/roles.html", context, status)


@require_POST
def remove(request: HttpRequest, number: int) -> HttpResponse:
    """Takes a role away."""
    role = core.remove(number, by=actor(request))
    messages.success(request, _("Removed the %(role)s role from %(name)s.") % {"name": role.holder, "role": role.role})
    return redirect("roles")
