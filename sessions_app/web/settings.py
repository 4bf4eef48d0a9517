"""The area “Settings”: the pages that somebody may open there. Each page asks the core again."""

from typing import NamedTuple

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.utils.translation import pgettext
from django.views.decorators.http import require_GET

from ..access.actor import Actor
from ..access.people import keeps_people
from .request import actor


class Entry(NamedTuple):
    """A page: the name of its address, what the navigation calls it, and by which other words it is looked for."""

    name: str
    title: str
    also: str = ""


def entries(who: Actor) -> list[tuple[str, list[Entry]]]:
    """Returns the pages that somebody may open, in groups with a title. One without pages is left out."""
    runs = who.runs_everything
    administration = [
        (keeps_people(who), Entry("people", _("People"), pgettext("other words", "users, members, invite, groups"))),
        (runs, Entry("roles", _("Roles"), pgettext("other words", "permissions, rights"))),
        (runs, Entry("tokens", _("Tokens"), pgettext("other words", "API key"))),
        (runs, Entry("masking", _("Masking"), pgettext("other words", "hide, redact, PII, secrets"))),
        (runs, Entry("approval", _("Approval rules"), pgettext("other words", "second person, review"))),
        (
            who.has("admin") and not settings.READ_ONLY,
            Entry("retention", _("Retention"), pgettext("other words", "GDPR, delete")),
        ),
        (who.audits, Entry("audit", _("Audit"), pgettext("other words", "log, who did what"))),
    ]
    account = [
        Entry("new-password", _("Password")),
        Entry("second-factor", _("Second factor"), pgettext("other words", "2FA, TOTP, passkeys")),
        Entry("sign-ins", _("Sign-ins"), pgettext("other words", "log in, devices")),
    ]
    groups = [(_("Administration"), [entry for may, entry in administration if may]), (_("Account"), account)]
    return [(title, listed) for title, listed in groups if listed]


@require_GET
def first(request: HttpRequest) -> HttpResponse:
    """Leads to the first page that somebody may open."""
    (_title, listed), *_others = entries(actor(request))
    return redirect(listed[0].name)
