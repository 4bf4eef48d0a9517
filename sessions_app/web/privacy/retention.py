"""Rules that delete idle sessions: what they would do, and what they did. Sessions on hold are not deleted."""

from typing import Final

from django import forms
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods, require_POST

from ...domain.session_ref import SessionRef
from ...privacy import holds
from ...privacy import retention as core
from ...privacy.retention import RetentionRule, Trial
from ...reads import views
from ..forms import Form, Read, Text, act
from ..html.render import page
from ..request import actor, check_may

_KEPT: Final = {"autocomplete": False}  # so that whoever goes back finds what they had typed


class RuleForm(Form):
    """Tries a rule, and saves it with the button that the answer has."""

    source = Text(label=gettext_lazy("Source"), widget=forms.Select, attrs=_KEPT)
    app_name = Read(str.strip, label=gettext_lazy("App"), needed=True, attrs={"maxlength": 128, "dir": "auto", **_KEPT})
    days = Read(core.check_days, label=gettext_lazy("Days of inactivity"), needed=True, attrs={"maxlength": 8, **_KEPT})
    export = forms.BooleanField(label=gettext_lazy("Export sessions before deleting them"), required=False)
    save = Text(widget=forms.HiddenInput)


@require_http_methods(["GET", "POST"])
def retention(request: HttpRequest) -> HttpResponse:
    """Lists the rules, tries a new one, and saves it."""
    who = actor(request)
    who.check_permission("admin")
    form = RuleForm.of(request)
    form.fields["source"].widget.choices = [(alias, alias) for alias in core.sources(who)]

    def save_or_try(source: str, app_name: str, days: int, export: bool, save: str) -> RetentionRule | Trial:
        if save:
            return core.save(source, app_name, days, export=export, actor=who)
        return core.try_(source, app_name, days, actor=who)

    done, status = act(form, lambda given: save_or_try(**given))
    if isinstance(done, RetentionRule):
        return redirect("retention")
    context = {"form": form, "trial": done, "rules": RetentionRule.objects.administered_by(who)}
    return page(request, "privacy/retention/retention.html", context, status)


@require_POST
def remove(request: HttpRequest, number: int) -> HttpResponse:
    """Takes a rule away."""
    actor(request).check_permission("admin")
    core.remove(number, actor=actor(request))
    return redirect("retention")


# --- A session on hold ------------------------------------------------------------------------------------------------


class HoldForm(Form):
    """Says why a session is to be kept, or ends that with another button."""

    reason = Text(
        label=gettext_lazy("Reason"), attrs={"maxlength": holds.REASON_LENGTH, "dir": "auto", "autocomplete": False}
    )
    release = Text(widget=forms.HiddenInput)


@require_http_methods(["GET", "POST"])
def hold(request: HttpRequest, **names: str) -> HttpResponse:
    """Shows whether a session is on hold, and changes it."""
    ref, who = SessionRef(**names), actor(request)
    check_may(request, "admin", ref)
    view, held = views.session(ref, partly=True, actor=who), holds.of(ref, actor=who)
    form = HoldForm.of(request, initial={"reason": held.reason if held else ""})

    def hold_or_release(reason: str, release: str) -> None:
        if release:
            holds.release(ref, actor=who)
        else:
            holds.hold(ref, reason, actor=who)

    _done, status = act(form, lambda given: hold_or_release(**given))
    if form.is_valid():
        return redirect(reverse("hold-session", kwargs=names))
    return page(request, "privacy/retention/hold.html", {"ref": ref, "view": view, "hold": held, "form": form}, status)
