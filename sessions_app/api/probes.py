"""Answers machines that ask about adkweb itself: whether it works (`/ready`), and its figures (`/metrics`).

`/health` is among ADK's routes.
"""

from ipaddress import ip_address
from typing import Any

from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, path
from django.utils.translation import gettext as _
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_safe
from prometheus_client.exposition import choose_encoder

from ..access import roles
from ..access.actor import Actor
from ..domain.metrics import REGISTRY
from ..http.problems import problem
from ..sources import health
from ..sources.health import State
from .authorize import Bearer
from .bodies import answer


def addresses() -> list[URLPattern]:
    """Returns the addresses."""
    views = {"ready": ready, "metrics": metrics}
    return [path(name, csrf_exempt(login_not_required(require_safe(view))), name=name) for name, view in views.items()]


def ready(request: HttpRequest) -> HttpResponse:
    """Answers 200 if adkweb can work, else 503: a word for strangers, and what each source lacks for people who see all
    of it."""
    now = health.look()
    word = "ready" if now.whole else "impaired" if now.ready else "not ready"
    actor = _asks(request) if now.own.usable else None
    details: dict[str, Any] = {"state": word}
    if actor is not None:
        sources = {alias: state for alias, state in now.sources.items() if actor.sees_all_of(alias)}
        details["own"] = _shown(now.own, actor)
        details["sources"] = [{"source": alias, **_shown(state, actor)} for alias, state in sources.items()]
    if now.ready:
        response = answer(details)
        response["Cache-Control"] = "no-store"
        return response
    return problem(503, _("adkweb is unavailable at the moment."), **details)


def metrics(request: HttpRequest) -> HttpResponse:
    """Answers with the figures, to the token of an admin of everything and to the addresses in ADKWEB_METRICS."""
    if not _is_near(request.META.get("REMOTE_ADDR", "")):
        actor: Actor | None = Bearer()(request)
        if actor is None:
            return problem(401, _("Metrics require an admin's token: Authorization: Bearer …"))
        if not actor.runs_everything:
            return problem(403, _("Only an admin of all sources and apps can do this."))
    encode, kind = choose_encoder(request.headers.get("Accept", ""))
    return HttpResponse(encode(REGISTRY), kind, headers={"Cache-Control": "no-store"})


def _is_near(address: str) -> bool:
    """Returns whether ADKWEB_METRICS names an address."""
    try:
        asking = ip_address(address)
    except ValueError:
        return False
    asking = getattr(asking, "ipv4_mapped", None) or asking
    return any(asking in network for network in settings.METRICS)


def _asks(request: HttpRequest) -> Actor | None:
    """Returns the actor of a token, or of a browser that is signed in; None for a stranger."""
    if request.headers.get("Authorization"):
        known: Actor | None = Bearer()(request)
        return known
    return roles.actor_of(request.user) if request.user.is_authenticated else None


def _shown(state: State, actor: Actor) -> dict[str, Any]:
    """Returns what is lacking. Only admins of everything get the reasons, because they show where the databases are."""
    why = {"why": state.why} if state.why and actor.runs_everything else {}
    return {"lacks": [*state.lacks], **why}
