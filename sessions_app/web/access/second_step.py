"""The second step of signing in: a passkey or a code, or the set-up where everybody needs one."""

from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_not_required
from django.forms import HiddenInput
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from ...access import passkeys, second_factor
from ..forms import Text, act
from ..html.render import page
from .passkeys import PasskeyForm, creation_page
from .second_factor import CodeForm, missing_for_passkeys, set_up, set_up_context
from .signin import enter


class StepForm(CodeForm):
    """Takes a code, or what a passkey signed."""

    credential = Text(widget=HiddenInput)

    @property
    def how(self) -> str:
        """Returns what was sent."""
        return "passkey" if "credential" in self.data else "code"

    def add_error(self, field: str | None, error: Any) -> None:
        """Puts an error beside the code, or with the passkey if that was sent."""
        super().add_error(None if self.how == "passkey" else field, error)


class FirstForm(StepForm, PasskeyForm):
    """Takes an app's first code, or the name of a new passkey, and then what the browser made."""


@never_cache
@login_not_required
@require_http_methods(["GET", "POST"])
def second_step(request: HttpRequest) -> HttpResponse:
    """Signs a person in who has given the right password before, and now uses a passkey or a code."""
    if request.user.is_authenticated:
        return redirect("home")
    waiting = second_factor.of(request)
    if waiting is None:
        if request.method == "POST":
            messages.error(request, _("This took too long. Sign in again."))
        return redirect("sign-in")
    if not second_factor.exists(waiting.person):
        return _set_up(request, waiting)
    rows = passkeys.listed(waiting.person)
    offered = any(passkeys.is_good(request, row) for row in rows)
    form = StepForm.of(request, focus="" if offered else "code")

    def check(given: dict[str, Any]) -> None:
        if form.how == "passkey":
            passkeys.use(request, waiting.person, given["credential"])
        else:
            second_factor.check(request, waiting.person, given["code"])

    _done, status = act(form, check)
    if form.is_valid():
        return enter(request, waiting.person, f"{waiting.how} and a {form.how}", waiting.next_page, checked=True)
    context = {
        "form": form,
        "has_app": second_factor.has_app(waiting.person),
        "options": passkeys.begin_use(request, waiting.person),
        "elsewhere": sorted({row.data["host"] for row in rows if not passkeys.is_good(request, row)}),
        **missing_for_passkeys(request),
    }
    return page(request, "access/second_step/second_step.html", context, _refused(status))


def _set_up(request: HttpRequest, waiting: second_factor.Pending) -> HttpResponse:
    person, form = waiting.person, FirstForm.of(request, focus="code")

    def begin_passkey(given: dict[str, Any]) -> str:
        return passkeys.begin_adding(request, person, given["name"])

    def set_up_factor(given: dict[str, Any]) -> list[str]:
        if form.how == "passkey":
            return passkeys.add(request, person, given["credential"])
        return second_factor.switch_on(person, request.session, given["code"])

    if "name" in form.data:
        options, status = act(form, begin_passkey)
        if options:
            return creation_page(request, form, options, reverse("second-step"))
    else:
        codes, status = act(form, set_up_factor)
        if codes is not None:
            enter(request, person, f"{waiting.how} and a {form.how}", checked=True)
            return set_up(request, codes, waiting.next_page)
    context = {"form": form, **set_up_context(request, person), **missing_for_passkeys(request)}
    return page(request, "access/second_step/first.html", context, _refused(status))


def _refused(status: int) -> int:
    """Returns the status of the page: as with a wrong password, nobody is let in."""
    return 403 if status == 400 else status
