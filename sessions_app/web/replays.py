"""Replays: what today's code of the agents does in stored sessions, grouped by what differs."""

import uuid
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_http_methods
from django_htmx.http import HttpResponseClientRedirect

from ..domain.errors import AgentError, Conflict
from ..http.problems import status_of
from ..trying import replays as core
from ..trying import whatifs
from ..trying.many import PAGE
from .forms import Check, Form, Text
from .html.render import page
from .request import actor
from .whatif import parts_of


class ReplayForm(Form):
    """What a button of the page asks for (`action`); with `run_code`, the agents' own code may run."""

    action = Text()
    run_code = Check()


@require_GET
def replays(request: HttpRequest) -> HttpResponse:
    """Lists the last replays, and the last what-ifs of many sessions."""
    who = actor(request)
    some = [(each, parts_of(each.change)) for each in whatifs.recent(actor=who)]
    return page(request, "replays/replays.html", {"replays": core.recent(actor=who), "what_ifs": some})


@require_http_methods(["GET", "POST"])
def replay(request: HttpRequest, replay_id: uuid.UUID) -> HttpResponse:
    """Shows a replay, and starts, stops or repeats it. htmx gets only the part that changes."""
    who = actor(request)
    if request.method == "GET":
        return _page(request, replay_id)
    given = ReplayForm.of(request).read()
    try:
        match given["action"]:
            case "begin":
                core.begin(replay_id, actor=who, run_code=given["run_code"])
            case "stop":
                core.stop(replay_id, actor=who)
            case "again":
                replay_id = core.again(replay_id, actor=who)
            case "ask":
                replay_id = core.again(replay_id, actor=who, begins=False)
            case "discard":
                core.discard(replay_id, actor=who)
                messages.info(request, _("Replay deleted."))
                return redirect("replays")
    except (AgentError, Conflict) as error:
        return _page(request, replay_id, error.message, status_of(error))
    address = reverse("replay", args=[replay_id])
    return HttpResponseClientRedirect(address) if request.htmx else redirect(address)  # type: ignore[attr-defined]


def _page(request: HttpRequest, replay_id: uuid.UUID, error: str = "", status: int = 200) -> HttpResponse:
    shown, asked = core.get(replay_id, actor=actor(request)), request.GET
    result = asked.get("result", "")
    context: dict[str, Any] = {"replay": shown, "error": error, "result": result if result in core.RESULTS else ""}
    if (item := asked.get("group", "")).isdecimal():
        after = asked.get("after", "")
        group = shown.group(int(item[:6]), int(after[:6]) if after.isdecimal() else -1)
        context |= {
            "groups": [group],
            "one": True,
            "next": group.rows[-1].number if len(group.rows) == PAGE else None,
        }
    else:
        after = asked.get("after", "")
        begin = int(after[:6]) if after.isdecimal() else 0
        context["groups"], number = shown.groups(context["result"], begin)
        context |= {"number": number, "last": begin + len(context["groups"]), "first": begin + 1}
        context["changed"] = [] if shown.working else shown.changed()
    template = "replays/_replay.html" if request.htmx else "replays/replay.html"  # type: ignore[attr-defined]
    return page(request, template, context, status)
