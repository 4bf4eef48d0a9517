"""Makes a test of a session, as a file or for the clipboard."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from django.http import HttpRequest, HttpResponseBase
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods

from ...access.actor import Actor
from ...access.shown import mask_of
from ...domain.errors import NotFound
from ...domain.session_ref import SessionRef
from ...edits.reveal import REASON_LENGTH
from ...http.reader import user_for_reader
from ...reads import views
from ...sources import agents
from ...sources.finding import in_shell, short
from ...transfer import FORMATS, TESTS, export
from ...transfer.exporting import Filter
from ..forms import Form, Text, act
from ..html.render import page
from ..request import actor
from .imports import download, file_name


class TestForm(Form):
    """Makes a test, in one of the formats `TESTS`."""

    format = Text()
    reason = Text(
        label=gettext_lazy("Reason"),
        help_text=gettext_lazy(
            "With a reason, the test has the hidden values. The audit records your name and the reason first."
        ),
        attrs={"maxlength": REASON_LENGTH},
    )


@dataclass(frozen=True, slots=True)
class Test:
    """A test as it is offered: what it checks and what it can't, and how to run it."""

    name: str
    title: str | Promise
    checks: str | Promise
    limits: str | Promise
    command: str


_PYTEST: Final = (
    gettext_lazy("A test for pytest"),
    gettext_lazy(
        "Replays the session with the agent's code of today, without its model and tools. Checks the order of agents and "
        "tools, arguments, state and text, edits included."
    ),
    gettext_lazy("Doesn't notice what a tool returns or writes. Needs google-adk and adkweb, but no server."),
)
_EVAL: Final = (
    gettext_lazy("An eval case for adk eval"),
    gettext_lazy(
        "Sends the messages again to the agent, with the state that the session began with. Its model and tools run for "
        "real. Checks tools and arguments, and how alike the answers are."
    ),
    gettext_lazy(
        "Doesn't check the state. Can't pass if the agent asked a person, such as for a confirmation, or if a turn failed. "
        "Needs google-adk[eval]."
    ),
)


@require_http_methods(["GET", "POST"])
def make_test(request: HttpRequest, **names: str) -> HttpResponseBase:
    """Offers the tests of a session, and makes one."""
    ref, who = SessionRef(**names), actor(request)
    view = views.session(ref, partly=True, actor=who)
    shown = [ref.app_name, user_for_reader(*ref[:3]), ref.session_id]
    files = {name: file_name(shown, FORMATS[name].suffix) for name in TESTS}
    form = TestForm.of(request)
    pieces, status = act(form, lambda given: _made(ref, given, who))
    if pieces is not None:
        name = form.cleaned_data["format"]
        return download(pieces, files[name], FORMATS[name].mime_type)
    agent = agents.agent_of(ref.source, ref.app_name)
    folder = short(agent.folder) if agent and who.runs_everything else "agents"
    tests = [
        Test("test", *_PYTEST, f"PYTHONPATH={in_shell(folder)} pytest {in_shell(files['test'])}"),
        Test("evalset", *_EVAL, f"adk eval {in_shell(f'{folder}/{ref.app_name}')} {in_shell(files['evalset'])}"),
    ]
    context = {
        "ref": ref,
        "view": view,
        "form": form,
        "tests": tests,
        "has_dots": mask_of(who, ref.app_name).has_rules,
        "has_agent": agent is not None,
    }
    return page(request, "transfer/make_test/make_test.html", context, status)


def _made(ref: SessionRef, given: dict[str, Any], who: Actor) -> Iterator[bytes]:
    if given["format"] not in TESTS:
        raise NotFound(_("There's no export format “%(format)s”.") % {"format": given["format"]})
    return export(given["format"], ref.source, Filter(*ref[1:]), actor=who, reason=given["reason"])
