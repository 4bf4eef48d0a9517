"""Lists people and groups, changes accounts, and invites people."""

from functools import partial
from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.choices import CallableChoiceIterator
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, pgettext_lazy
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from ...access import groups, invitations
from ...access import people as core
from ...access.actor import PATTERN_LENGTH
from ...access.roles import Role
from ...domain.roles import ROLES
from ..forms import Check, Form, Text, act
from ..html.render import page
from ..request import actor
from .sign_ins import SignOutForm


class AccountForm(Form):
    """What an account may be given: by an admin who changes it, or with an invitation."""

    groups = forms.Field(label=gettext_lazy("Groups"), required=False, widget=forms.CheckboxSelectMultiple)
    admin = Check(label=pgettext_lazy("account", "Admin"), help_text=gettext_lazy("also manages accounts and groups"))


class PersonForm(AccountForm):
    """Changes an account."""

    active = Check(
        label=gettext_lazy("Can sign in"),
        help_text=gettext_lazy(
            "If unticked, the account is deactivated and immediately signed out everywhere. Its name stays on "
            "its edits."
        ),
    )


def _roles() -> list[tuple[str, str]]:
    return [("", _("None for now")), *((name, f"{name}: {kind.words}") for name, kind in ROLES.items())]


class InvitationForm(AccountForm):
    """Invites somebody."""

    role = Text(label=gettext_lazy("Role"), widget=partial(forms.Select, choices=CallableChoiceIterator(_roles)))
    apps = Text(
        label=gettext_lazy("Apps"),
        help_text=gettext_lazy("An app's name, or a pattern like booking-*. Leave empty for all apps."),
        attrs={"class": "mono", "maxlength": PATTERN_LENGTH, "spellcheck": "false", "placeholder": "*"},
    )

    note = Text(
        label=pgettext_lazy("invitation", "For"),
        help_text=gettext_lazy("A note to yourself. They choose their own name."),
        attrs={"maxlength": invitations.NOTE_LENGTH, "dir": "auto"},
    )


class GroupForm(Form):
    """Names a group."""

    name = Text(
        label=pgettext_lazy("group", "Name"), needed=True, attrs={"maxlength": groups.NAME_LENGTH, "dir": "auto"}
    )


@require_GET
def people(request: HttpRequest) -> HttpResponse:
    """Lists accounts, invitations and groups."""
    return _page(request)


@require_POST
def invite(request: HttpRequest) -> HttpResponse:
    """Makes an invitation. Its link is shown once, on the page that answers the form."""
    form = InvitationForm.of(request)
    made, status = act(form, lambda given: invitations.make(**given, actor=actor(request)))
    if made is None:
        return _page(request, status, form=form)
    invitation, text = made
    link = f"{request.build_absolute_uri(reverse('join'))}#{text}"
    return _page(request, made=invitation, link=link)


@require_POST
def cancel(request: HttpRequest, invitation_id: int) -> HttpResponse:
    """Makes an invitation useless."""
    invitations.cancel(invitation_id, actor=actor(request))
    messages.success(request, _("Invitation cancelled."))
    return redirect("people")


@require_http_methods(["GET", "POST"])
def person(request: HttpRequest, name: str) -> HttpResponse:
    """Shows an account, and changes what it may do."""
    who = actor(request)
    account = core.get(name, actor=who)
    theirs = [group.name for group in account.groups.all()]
    initial = {"active": account.is_active, "admin": account.is_superuser, "groups": theirs}
    form = PersonForm.of(request, initial=initial)
    changed, status = act(form, lambda given: core.change(name, actor=who, **given))
    if changed:
        messages.success(request, _("Account “%(name)s” saved.") % {"name": name})
        return redirect("people")
    context = {
        "person": account,
        "form": form,
        "groups": groups.listed(actor=who),
        "roles": Role.objects.held_by(account).listed(),
        "sign_ins": core.browsers_of(name, actor=who),
        "has_second_factor": core.has_second_factor(name, actor=who),
    }
    return page(request, "access/people/person.html", context, status)


@require_POST
def sign_somebody_out(request: HttpRequest, name: str) -> HttpResponse:
    """Signs one of somebody's browsers out, or all of them."""
    core.end_sign_in(name, SignOutForm.of(request).read()["which"], actor=actor(request))
    messages.success(request, _("Signed out."))
    return redirect("person", name=name)


@require_POST
def reset_second_factor(request: HttpRequest, name: str) -> HttpResponse:
    """Takes away the second factor that somebody lost."""
    core.reset_second_factor(name, actor=actor(request))
    messages.success(request, _("Second factor reset for “%(name)s”.") % {"name": name})
    return redirect("person", name=name)


@require_POST
def new_group(request: HttpRequest) -> HttpResponse:
    """Makes a group."""
    form = GroupForm.of(request)
    made, status = act(form, lambda given: groups.make(**given, actor=actor(request)))
    if made is None:
        return _page(request, status, group_form=form)
    messages.success(request, _("Group “%(name)s” created.") % {"name": made.name})
    return redirect("people")


@require_http_methods(["GET", "POST"])
def group(request: HttpRequest, name: str) -> HttpResponse:
    """Shows a group and renames it."""
    who = actor(request)
    shown = groups.get(name, actor=who)
    form = GroupForm.of(request, initial={"name": name})
    renamed, status = act(form, lambda given: groups.rename(name, given["name"], actor=who))
    if renamed is None:
        return page(request, "access/people/group.html", {"group": shown, "form": form}, status)
    messages.success(request, _("Group renamed to “%(name)s”.") % {"name": renamed.name})
    return redirect("people")


@require_http_methods(["GET", "POST"])
def delete_group(request: HttpRequest, name: str) -> HttpResponse:
    """Deletes a group, after asking for confirmation."""
    who = actor(request)
    asked = groups.get(name, actor=who)
    if request.method == "GET":
        return page(request, "access/people/delete_group.html", {"group": asked})
    groups.delete(name, actor=who)
    messages.success(request, _("Group “%(name)s” deleted.") % {"name": name})
    return redirect("people")


def _page(request: HttpRequest, status: int = 200, **context: Any) -> HttpResponse:
    """Shows accounts, invitations and groups, and the link of a new invitation, which no cache keeps."""
    who = actor(request)
    lists = {
        "people": core.listed(actor=who),
        "groups": groups.listed(actor=who),
        "invitations": invitations.listed(actor=who),
    }
    empty = {"form": InvitationForm(), "group_form": GroupForm()}
    response = page(request, "access/people/people.html", lists | empty | context, status)
    response["Cache-Control"] = "private, no-store"
    return response
