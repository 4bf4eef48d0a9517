"""Lists people and groups, changes accounts, and invites people."""

from typing import Any

from django.contrib import messages
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from ...access import groups, invitations
from ...access import people as core
from ...access.roles import Role
from ...domain.errors import Error
from ...http.problems import status_of
from ..html.render import page
from ..request import actor


@require_GET
def people(request: HttpRequest) -> HttpResponse:
    """Lists accounts, invitations and groups."""
    return _page(request, {})


@require_POST
def invite(request: HttpRequest) -> HttpResponse:
    """Makes an invitation. Its link is shown once, on the page that answers the form."""
    note, chosen, is_admin = request.POST.get("note", ""), request.POST.getlist("groups"), "admin" in request.POST
    try:
        made, text = invitations.make(note, chosen, actor=actor(request), admin=is_admin)
    except Error as error:
        given = {"note": note, "groups": chosen, "admin": is_admin}
        return _page(request, {"given": given, "errors": _errors(error)}, status_of(error))
    address = request.build_absolute_uri(reverse("join"))
    return _page(request, {"made": made, "link": f"{address}#{text}"})


@require_POST
def withdraw(request: HttpRequest, invitation_id: int) -> HttpResponse:
    """Makes an invitation useless."""
    invitations.withdraw(invitation_id, actor=actor(request))
    messages.success(request, _("The invitation is withdrawn."))
    return redirect("people")


@require_http_methods(["GET", "POST"])
def person(request: HttpRequest, name: str) -> HttpResponse:
    """Shows an account, and changes what it may do."""
    who = actor(request)
    context: dict[str, Any] = {"person": core.get(name, actor=who), "groups": groups.listed(actor=who)}
    context["roles"] = Role.objects.held_by(User.objects.get(username=name)).listed()
    context["sign_ins"] = core.browsers_of(name, actor=who)
    context["has_second_factor"] = core.has_second_factor(name, actor=who)
    if request.method == "GET":
        return page(request, "access/people/person.html", context)
    given = {"active": "active" in request.POST, "admin": "admin" in request.POST}
    try:
        core.change(name, actor=who, groups=request.POST.getlist("groups"), **given)
    except Error as error:
        context["errors"] = _errors(error)
        return page(request, "access/people/person.html", context, status_of(error))
    messages.success(request, _("The account “%(name)s” is changed.") % {"name": name})
    return redirect("people")


@require_POST
def sign_somebody_out(request: HttpRequest, name: str) -> HttpResponse:
    """Signs one of somebody's browsers out, or all of them."""
    core.end_sign_in(name, request.POST.get("which", ""), actor=actor(request))
    messages.success(request, _("Signed out."))
    return redirect("person", name=name)


@require_POST
def reset_second_factor(request: HttpRequest, name: str) -> HttpResponse:
    """Takes away the second factor that somebody lost."""
    core.reset_second_factor(name, actor=actor(request))
    messages.success(request, _("The second factor of “%(name)s” is reset.") % {"name": name})
    return redirect("person", name=name)


@require_POST
def new_group(request: HttpRequest) -> HttpResponse:
    """Makes a group."""
    name = request.POST.get("name", "")
    try:
        made = groups.make(name, actor=actor(request))
    except Error as error:
        return _page(request, {"group_name": name, "group_error": error.message}, status_of(error))
    messages.success(request, _("The group “%(name)s” is made.") % {"name": made.name})
    return redirect("people")


@require_http_methods(["GET", "POST"])
def group(request: HttpRequest, name: str) -> HttpResponse:
    """Shows a group and renames it."""
    who = actor(request)
    context: dict[str, Any] = {"group": groups.get(name, actor=who), "name": name, "max": groups}
    if request.method == "GET":
        return page(request, "access/people/group.html", context)
    context["name"] = request.POST.get("name", "")
    try:
        renamed = groups.rename(name, context["name"], actor=who)
    except Error as error:
        return page(request, "access/people/group.html", {**context, "error": error.message}, status_of(error))
    messages.success(request, _("The group is now called “%(name)s”.") % {"name": renamed.name})
    return redirect("people")


@require_http_methods(["GET", "POST"])
def delete_group(request: HttpRequest, name: str) -> HttpResponse:
    """Deletes a group, after asking for confirmation."""
    who = actor(request)
    asked = groups.get(name, actor=who)
    if request.method == "GET":
        return page(request, "access/people/delete_group.html", {"group": asked})
    groups.delete(name, actor=who)
    messages.success(request, _("The group “%(name)s” is deleted.") % {"name": name})
    return redirect("people")


def _page(request: HttpRequest, context: dict[str, Any], status: int = 200) -> HttpResponse:
    who = actor(request)
    lists = {
        "people": core.listed(actor=who),
        "groups": groups.listed(actor=who),
        "invitations": invitations.listed(actor=who),
        "max": {"note": invitations.NOTE_LENGTH, "group": groups.NAME_LENGTH, "days": invitations.LIFETIME.days},
    }
    response = page(request, "access/people/people.html", lists | context, status)
    response["Cache-Control"] = "private, no-store"
    return response


def _errors(error: Error) -> dict[str, str]:
    return {error.detail.get("field", "form"): error.message}
