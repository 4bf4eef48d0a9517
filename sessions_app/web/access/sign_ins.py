"""Lists the browsers that a person is signed in with, and signs them out."""

import logging

from django.conf import settings
from django.contrib import messages
from django.forms import HiddenInput
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from ...access import sign_ins as core
from ...access.audit.record import record
from ..forms import Form, Text
from ..html.render import page
from ..request import person_of

log = logging.getLogger("adkweb.sign_in")


class SignOutForm(Form):
    """Signs out one browser, or all if it names none."""

    which = Text(widget=HiddenInput)


@require_http_methods(["GET", "POST"])
def sign_ins(request: HttpRequest) -> HttpResponse:
    """Lists the person's browsers. A form signs one of them out, or without `which` all, this one too."""
    person = person_of(request)
    if request.method == "GET":
        context = {
            "sign_ins": core.listed(person.pk, request.session.session_key),
            "idle": settings.IDLE_SECONDS,
            "longest": settings.SESSION_COOKIE_AGE,
        }
        return page(request, "access/sign_ins/sign_ins.html", context)
    which = SignOutForm.of(request).read()["which"]
    record("sign-out", person.get_username(), browsers="one" if which else "all")
    if which:
        core.end(person.pk, which)
        log.info("%s signed out one browser", person.get_username())
        messages.success(request, _("Signed out."))
        return redirect("sign-ins")
    core.end_all(person.pk)
    log.info("%s signed out everywhere", person.get_username())
    request.session.flush()
    return redirect("sign-in")
