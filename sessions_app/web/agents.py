"""How the agent of each app runs: here, at an address, or not at all; whether that works, and what it printed."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from ..access.actor import Actor
from ..domain.errors import AgentError, Conflict, NotFound, SourceError
from ..domain.session_ref import digest_of
from ..http import outgoing
from ..http.problems import status_of
from ..reads import lists
from ..running import companions, servers
from ..running.servers import Facts
from ..sources import agents as core
from ..sources import errors, registry
from .forms import Form, Text, act
from .html.render import page
from .request import actor


@dataclass(frozen=True, slots=True)
class OfSource:
    """How the agents of a source run, or what is wrong with the source."""

    source: str
    agents: list[Facts]
    problem: str = ""


@require_GET
def agents(request: HttpRequest) -> HttpResponse:
    """Lists the apps of each source, and how their agents run."""
    who = actor(request)
    shown = [_of(each.alias, who) for each in registry.listed() if who.has("read", each.alias)]
    return page(request, "agents/agents.html", {"shown": [each for each in shown if each.agents or each.problem]})


def _of(source: str, who: Actor) -> OfSource:
    try:
        return OfSource(source, servers.facts(source, lists.app_names(source, actor=who), actor=who))
    except SourceError as error:
        return OfSource(source, [], errors.shown(error, who))


class AddressForm(Form):
    """Says at which address a server runs an app's agent, and how adkweb signs in there."""

    url = Text(
        label=gettext_lazy("Address"),
        help_text=gettext_lazy("Of your own adk api_server or adk web, such as https://agents.example.com."),
        needed=True,
        attrs={"class": "mono", "inputmode": "url", "maxlength": outgoing.LENGTH, "spellcheck": "false"},
    )
    header = Text(
        label=gettext_lazy("Header"),
        help_text=gettext_lazy("With which adkweb signs in there, such as Authorization. Leave empty for none."),
        attrs={"class": "mono", "maxlength": 100, "spellcheck": "false"},
    )
    value = Text(
        label=gettext_lazy("Value of the header"),
        help_text=gettext_lazy("It is stored encrypted and never shown. Leave empty to keep the stored one."),
        widget=forms.PasswordInput,  # which doesn't show again what was typed
        attrs={"class": "mono", "maxlength": 4000, "spellcheck": "false"},
    )


@require_POST
def start_sessions(request: HttpRequest) -> HttpResponse:
    """Makes the session database of an agent that has none, and opens the form for its first conversation."""
    folder, who = Path(request.POST.get("folder", "")), actor(request)
    try:
        alias = core.start_sessions(folder, actor=who)
    except (NotFound, SourceError) as error:
        messages.error(request, errors.shown(error, who))
        return redirect("home")
    return redirect(f"{reverse('new-session')}?{urlencode({'source': alias, 'app_name': folder.name})}")


@require_http_methods(["GET", "POST"])
def agent(request: HttpRequest, source: str, app_name: str) -> HttpResponse:
    """Shows how the agent of an app runs. A form gives it an address."""
    who = actor(request)
    facts = _facts(source, app_name, who)
    form = AddressForm.of(request, initial={"url": facts.url, "header": facts.header})

    def save(given: dict[str, Any]) -> bool:
        servers.set_address(source, app_name, **given, actor=who)
        return True

    saved, status = act(form, save)
    if saved:
        messages.success(request, _("Address saved."))
        return redirect("agent", source, app_name)
    context = {
        "facts": facts,
        "reported": companions.version_of(source, app_name, actor=who),
        "form": form if who.runs_everything else None,
        **(_output(source, app_name, who) if facts.operates_all else {}),
    }
    response = page(request, "agents/agent.html", context, status)
    response["Cache-Control"] = "private, no-store"
    return response


def _facts(source: str, app_name: str, who: Actor) -> Facts:
    if not lists.has_app(source, app_name, actor=who):
        raise NotFound(_("There's no app “%(name)s” in any source.") % {"name": app_name})
    (facts,) = servers.facts(source, [app_name], actor=who)
    return facts


@require_POST
def remove_address(request: HttpRequest, source: str, app_name: str) -> HttpResponse:
    """Lets adkweb run the agent itself again."""
    servers.remove_address(source, app_name, actor=actor(request))
    messages.success(request, _("Address removed."))
    return redirect("agent", source, app_name)


@require_POST
def test(request: HttpRequest, source: str, app_name: str) -> HttpResponse:
    """Looks whether the agent's server works, and says what was reached."""
    who = actor(request)
    tested: dict[str, Any] = {}
    status = 200
    try:
        tested["reached"] = servers.test(source, app_name, actor=who)
    except AgentError as error:
        tested["unreached"], status = error.message, status_of(error)
    facts = _facts(source, app_name, who)
    tested["reported"] = companions.version_of(source, app_name, actor=who)
    context = {"facts": facts, **tested, **(_output(source, app_name, who) if facts.operates_all else {})}
    if request.htmx:  # type: ignore[attr-defined]
        return page(request, "agents/_facts.html", context)
    return page(request, "agents/agent.html", context, status)


@require_POST
def stop(request: HttpRequest, source: str, app_name: str) -> HttpResponse:
    """Ends the server that adkweb started, so that the next message starts it with the code as it is then."""
    try:
        servers.stop(source, app_name, actor=actor(request))
        messages.success(request, _("Server stopped. The next message starts it again."))
    except Conflict as error:
        messages.error(request, error.message)
    return redirect("agent", source, app_name)


@require_GET
def output(request: HttpRequest, source: str, app_name: str) -> HttpResponse:
    """Renders what the agent's folder printed last, or nothing new if that is what the page has (?have=)."""
    context = _output(source, app_name, actor(request))
    if not request.htmx:  # type: ignore[attr-defined]
        return redirect("agent", source, app_name)
    if request.GET.get("have") == context["have"]:
        return HttpResponse(status=204)
    return page(request, "agents/_output.html", context)


def _output(source: str, app_name: str, who: Actor) -> dict[str, Any]:
    lines = servers.output(source, app_name, actor=who)
    return {"lines": lines, "have": digest_of(*lines)}
