"""Pages about a source: the demo, with the session that it opens on; and adopting, with its progress."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from django import forms
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_GET, require_http_methods

from ..access.actor import Actor
from ..domain.errors import Error
from ..domain.session_ref import SessionRef
from ..reads import views
from ..sources import adopt_job, agents, database, demo
from ..sources.finding import in_shell
from .forms import Form
from .html.render import page
from .request import actor

CLOSED: Final = "adkweb_demo"  # the cookie with which demo.js remembers that the line was shown
_OWN: Final = "adkweb /path/to/session.db"


@dataclass(frozen=True, slots=True)
class Demo:
    """Holds what a page of the demo says: the `command` for one's own sessions, "" for whoever does not run adkweb, and how
    it is `shown` where there is little room; `line` is False after the first page.

    The tour is about the session `ref`: its event `failed`, the one that `changed` a key wrongly, and the one `before`;
    and about one that `waits`. Of its `steps`, who may not edit has three, and where no agent is started, two are missing.
    """

    command: str
    line: bool
    ref: SessionRef
    waits: SessionRef
    steps: int
    shown: str = ""
    cookie: str = CLOSED
    failed: str = demo.FAILED
    changed: str = demo.CHANGED
    before: str = demo.BEFORE


def of(request: HttpRequest) -> Demo | None:
    """Returns what a page says about the demo. None where nobody has signed in, or for pages of other sources."""
    match = request.resolver_match
    source = match.kwargs.get("source", "") if match else ""
    user = getattr(request, "user", None)
    if user is None or not user.is_authenticated or not (demo.is_demo(source) if source else demo.is_alone()):
        return None
    command, shown = _command() if actor(request).runs_everything else ("", "")
    source = source or demo.alias()
    ref, waits = SessionRef(source, *demo.BEST), SessionRef(source, *demo.WAITS)
    return Demo(command, request.COOKIES.get(CLOSED) != "closed", ref, waits, _steps(waits, actor(request)), shown)


def _steps(waits: SessionRef, who: Actor) -> int:
    if not who.may_write("append", waits.source, waits.app_name):
        return 3
    starts = who.may_write("operate", waits.source, waits.app_name) and not agents.why_not_here(
        waits.source, waits.app_name
    )
    return 7 if starts else 5


def _command() -> tuple[str, str]:
    """Returns the command for a source of one's own, which works in any folder, and a short form of it.

    In a checkout, adkweb is not on the path."""
    if settings.FILES != settings.CHECKOUT:
        return _OWN, _OWN
    return in_shell(str(Path(sys.executable).parent)) + f"/{_OWN}", f"…/{_OWN}"


@require_GET
def best(request: HttpRequest) -> HttpResponse:
    """Leads to the session that the demo opens on, or home: the demo is not open, or somebody deleted the session."""
    source = demo.alias()
    if not source:
        return redirect("home")
    ref = SessionRef(source, *demo.BEST)
    try:
        views.session(ref, partly=True, actor=actor(request))
    except Error:
        return redirect("home")
    return redirect("session", **ref._asdict())


# --- Adopting a PostgreSQL database -----------------------------------------------------------------------------------


class AdoptForm(Form):
    """Starts to adopt. Where adkweb does not know the version of the tables, somebody agrees that it writes to them."""

    agreed = forms.BooleanField(
        label=gettext_lazy("Write anyway"),
        required=False,
        widget=forms.CheckboxInput({"required": True}),
    )


@require_http_methods(["GET", "POST"])
def adoption(request: HttpRequest, source: str) -> HttpResponse:
    """Shows what adopting would add, starts it, and shows its progress. htmx gets only the part that changes."""
    actor(request).check_runs_everything()
    form = AdoptForm.of(request)
    if form.is_valid():
        adopt_job.start(source, actor(request), agreed=form.cleaned_data["agreed"])
        return redirect("adoption", source)
    opened = database.get(source)
    context = {
        "source": source,
        "form": form,
        "where": opened.where,
        "done": database.is_agreed(source) and (database.keeps_creations(source) or not opened.dialect.waits_for_owner),
        "unknown": "" if database.is_agreed(source) else database.newer(source),
        "adopted": database.keeps_creations(source),
        "begun": database.is_begun(source),
        "adoption": adopt_job.of(source),
    }
    if opened.dialect.waits_for_owner and not context["done"] and not context["adoption"]:
        context["plan"] = adopt_job.plan(source)
    template = "sources/_progress.html" if request.htmx else "sources/adoption.html"  # type: ignore[attr-defined]
    return page(request, template, context)
