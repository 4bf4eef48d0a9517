"""The cards of a session's calls that wait for an answer, below its timeline; and the answers that people give."""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, Final

from django import forms
from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.utils.translation import pgettext
from django.views.decorators.http import require_GET, require_POST

from ..access import approval
from ..access.actor import Actor
from ..access.shown import shown_words
from ..domain.answers import Field, SignIn, sign_in_link
from ..domain.errors import AgentError, Conflict, Error, Held, Invalid, NotFound, StaleSession
from ..domain.json_values import dumps, loads
from ..domain.pending import CONFIRMATION, CREDENTIAL, INPUT, LONG_RUNNING, MOST
from ..domain.session_ref import SessionRef, digest_of
from ..domain.state import ABSENT
from ..edits import proposals
from ..edits.proposals import Proposal
from ..http.problems import status_of
from ..jobs.lease import WAITING
from ..models import Job
from ..reads import timeline, views
from ..running import answers, breakpoints, files, runs
from ..running.answers import Given
from ..running.first import First, Replaced, replaced
from ..running.first import rewound as rewound_by
from ..running.questions import asked_by, form_of
from ..search import inbox
from ..search.inbox import Waiting
from ..sources import agents
from .edits.rows import StateForm, kept, note_habits
from .forms import Text
from .html.render import page
from .html.state_panel import of_session as state_of
from .inbox import Row
from .request import actor, check_may

_NEAR: Final = 5  # events within which a long-running tool returns its first result
_LOOKED_UP: Final = 10  # tools whose first result is looked for, each by a query


@dataclass(frozen=True, slots=True)
class Question:
    """A call that waits, as its card shows it. `fields` is the form of its schema and `payload` is JSON, each None if it has
    none. What was `typed` is shown again. The names of all its fields begin with the key of the call."""

    row: Row
    fields: list[Field] | None = None
    payload: str | None = None
    sign_in: SignIn | None = None
    typed: str = ""
    interim: bool = False
    error: str = ""

    @property
    def of(self) -> Waiting:
        """Returns the call."""
        return self.row.of

    @classmethod
    def about(cls, row: Row, so_far: Mapping[str, Any], who: Actor) -> "Question":
        """Returns the question of a row of the inbox. `so_far` are the first results of long-running tools, by call."""
        asked = row.of.asked
        if asked is None:
            return cls(row)
        if row.of.kind == INPUT and row.of.call:
            return cls(row, form_of(row.of.ref, row.of.event_id, row.of.call, actor=who))
        if row.of.kind == CREDENTIAL:
            return cls(row, sign_in=sign_in_link(row.of.call) if row.of.call else None)
        if row.of.kind == LONG_RUNNING:
            return cls(row, typed=dumps(so_far[row.of.call_id], 2) if row.of.call_id in so_far else "")
        return cls(row, payload=None if asked.payload is None else dumps(asked.payload, 2))

    def read(self, sent: Mapping[str, str]) -> Given:
        """Returns the answer that was sent. Raises Invalid."""
        if self.of.kind == CONFIRMATION:
            typed = self._sent(sent, "payload", self.payload or "")
            changed = typed.replace("\r\n", "\n") != (self.payload or "")
            if changed and typed.strip() in ("", "null"):  # which would be sent as it was
                raise Invalid(_("%(field)s is missing.") % {"field": _("Payload")})
            payload = loads(typed) if changed else None
            if (decision := self._sent(sent, "confirmed")) not in ("yes", "no"):
                raise Invalid(_("Approve or decline this call."))
            return Given(confirmed=decision == "yes", value=payload)
        if self.of.kind == CREDENTIAL:
            return Given(value=self._sent(sent, "address").strip())
        if self.fields is not None:
            return Given(fields={each.name: self._sent(sent, f"field.{each.name}") for each in self.fields})
        typed, interim = self._sent(sent, "json"), self._sent(sent, "interim") == "yes"
        try:
            return Given(value=loads(typed), interim=interim)
        except Invalid:
            if self.of.kind == INPUT:
                raise
            return Given(value=typed.replace("\r\n", "\n"), interim=interim)

    def refused(self, sent: Mapping[str, str], error: str) -> "Question":
        """Returns the question with what was sent, and what is wrong with it; "" if nothing is."""
        form = self.fields and [replace(each, initial=self._sent(sent, f"field.{each.name}")) for each in self.fields]
        typed = self._sent(sent, "address") or self._sent(sent, "json")
        payload = None if self.payload is None else self._sent(sent, "payload", self.payload)
        interim = self._sent(sent, "interim") == "yes"
        return replace(self, fields=form, payload=payload, typed=typed, interim=interim, error=error)

    def _sent(self, sent: Mapping[str, str], name: str, otherwise: str = "") -> str:
        return sent.get(f"{self.of.key}.{name}", otherwise)


class FirstForm(StateForm):
    """The keys to set before an answer or a message is sent."""

    @property
    def first(self) -> First:
        """Returns what is written first. Raises Invalid."""
        entries = self.entries()
        if entries is None:
            raise Invalid(self.error or next(row.error for row in self.rows if row.error))
        return First(entries, self.cleaned_data["reason"])

    def note_current(self, error: Error) -> None:
        """Compares the rows with what others have written meanwhile, from now on."""
        current = error.detail.get("current", {})
        for row in self.rows:
            if row.key in current:
                row.seen = "" if current[row.key] is ABSENT else kept(current[row.key])


@dataclass(frozen=True, slots=True)
class Card:
    """What one event asks: its questions, which are answered together. `asks` is how many there are, of which a
    page has MOST. An answer that is `proposed` waits for a second person; one that is `held` will."""

    event_id: str
    questions: list[Question]
    asks: int
    error: str = ""
    held: bool = False
    proposed: Proposal | None = None
    first: FirstForm | None = None

    @property
    def why(self) -> str:
        """Returns why it can't be answered here; "" if it can."""
        if self.asks > len(self.questions):
            words = _("This event asks %(n)s questions at once, too many for a page. Answer them with the API.")
            return words % {"n": self.asks}
        return self.questions[0].of.why

    @property
    def passed_over(self) -> bool:
        """Returns whether the user said something else afterwards."""
        return self.questions[0].of.passed_over

    @property
    def decides(self) -> bool:
        """Returns whether it only asks for one yes or no."""
        return len(self.questions) == 1 and self.questions[0].of.kind == CONFIRMATION


def _so_far(ref: SessionRef, rows: Sequence[Row], who: Actor) -> dict[str, Any]:
    """Returns what long-running tools have returned so far, by the id of the call: the final result often looks alike."""
    results: dict[str, Any] = {}
    for row in [row for row in rows if row.of.kind == LONG_RUNNING][:_LOOKED_UP]:
        for view in timeline.events_after(ref, row.of.seq, limit=_NEAR, actor=who).rows:
            results |= {part.id: part.value for part in view.description.responses if part.id == row.of.call_id}
    return results


def cards_of(ref: SessionRef, who: Actor) -> list[Card]:
    """Returns the cards of a session's calls that wait."""
    rows = [Row.about(each, who) for each in inbox.waiting(actor=who, ref=ref, passed_over=None, limit=MOST).rows]
    by_event, so_far = groupby(rows, lambda row: row.of.event_id), _so_far(ref, rows, who)
    cards = []
    for event_id, some in by_event:
        questions = [Question.about(row, so_far, who) for row in some]
        asks = len(questions if len(rows) < MOST else asked_by(ref, event_id, actor=who))
        held = approval.held_tools(ref.source, ref.app_name, [each.of.tool for each in questions])
        cards.append(Card(event_id, questions, asks, held=bool(held)))
    return cards


@require_GET
def of_session(request: HttpRequest, **names: str) -> HttpResponse:
    """Renders the cards of a session's calls that wait, or nothing new if they are those that the page has (?have=)."""
    if not request.htmx:  # type: ignore[attr-defined]
        return redirect(reverse("session", kwargs=names))
    ref = SessionRef(**names)
    return cards_page(request, ref, cards_of(ref, actor(request)), again=request.GET.get("again", ""))


def cards_page(
    request: HttpRequest,
    ref: SessionRef,
    cards: list[Card],
    status: int = 200,
    more: dict[str, Any] | None = None,
    again: str = "",
) -> HttpResponse:
    """Renders what is below the timeline of a session. `more` is its context, too."""
    context = context_of(ref, actor(request), cards, again)
    if request.GET.get("have") == context["have"]:
        return HttpResponse(status=204)
    context |= more or {}
    shown = page(request, "answers/_cards.html", {"ref": ref, **context}, status)
    if "unsent_why" in context and not context["may_say"]:  # there is no field beside which it could be said
        shown["HX-Trigger"] = json.dumps({"adkweb:toast": {"text": context["unsent_why"]}})
    return shown


def context_of(
    ref: SessionRef,
    who: Actor,
    cards: list[Card] | None = None,
    again: str = "",
    status: timeline.SessionStatus | None = None,
) -> dict[str, Any]:
    """Returns the context of answers/_cards.html. `have` names what is shown, so that nothing is sent twice; `again` is the
    event with the message that is edited and sent again."""
    status = status or timeline.status_of(ref, actor=who)
    last, proposed = runs.last(ref), proposals.sent_in(ref, actor=who)
    run = last if last and last.state == WAITING else None
    work = None if run else status.at_work
    is_idle = not (run or work)
    may = who.may_write("operate", ref.source, ref.app_name)
    may_write = may and not agents.why_not(ref.source, ref.app_name)
    may_edit = may_write and who.may_write("append", ref.source, ref.app_name)
    failed = last if may and runs.ended_badly(last) else None
    shown = _unanswered(cards_of(ref, who) if cards is None else cards, run, proposed)
    unfinished = status.unfinished if may_write and is_idle and all(card.passed_over for card in shown) else None
    opened = _replaced(ref, again, who) if may_edit and is_idle else None
    have = [each.of.key for card in shown for each in card.questions] + [str(each.id) for each in proposed]
    have += [f"{run.pk} {run.step} {run.stopped_by}" if run else f"{failed and failed.pk}"]
    have += [f"{work.since} {work.stopped_by}" if work else "", unfinished.id if unfinished else ""]
    paused = breakpoints.paused(ref, actor=who) if not is_idle else []
    stops = breakpoints.of(ref, actor=who) if may and settings.BREAKPOINTS else None
    have += [f"{each.id} {each.of.proposed_by}" for each in paused] + [str(each.pk) for each in stops or ()]
    return {
        "cards": [card for card in shown if not card.passed_over],
        "passed_over": [card for card in shown if card.passed_over],
        "proposed_messages": [each for each in proposed if each.kind == "message"],
        "run": run,
        "work": work,
        "paused": paused,
        "stops": stops,
        "unfinished": unfinished,
        "failed_run": shown_words(failed.message, who, ref.app_name) if failed else "",
        "rewound": rewound_by(ref, failed, actor=who) if failed and may_edit and is_idle else None,
        **_message(ref, None if opened else failed, who),  # a message that is opened comes with its own text
        "again": again if opened else "",
        "replaced": opened,
        "revision_seen": repr(opened.plan.revision) if opened else "",
        "may_answer": may,
        "may_say": may_write and is_idle,
        "may_edit": may_edit,
        "have": digest_of(*have, *([again, repr(opened.plan.revision)] if opened else [])),
    }


def _unanswered(cards: list[Card], run: Job | None, proposed: Sequence[Proposal]) -> list[Card]:
    """Returns the cards that no one has answered, of which the index learns a moment later."""
    sent = {event_id for event_id, _call in json.loads(run.task)["calls"]} if run else set[str]()
    sent |= {card.event_id for card in cards if all(each.of.answered for each in card.questions)}
    by_event = {each.event_id: each for each in proposed if each.kind == "answer"}
    return [replace(card, proposed=by_event.get(card.event_id)) for card in cards if card.event_id not in sent]


def _message(ref: SessionRef, unsent: Job | None, who: Actor) -> dict[str, Any]:
    """Returns what the composer has to know: its limits, and what didn't reach the agent with the last message."""
    return {
        "unsent": shown_words(runs.unsent(unsent), who, ref.app_name) if unsent else "",
        "unsent_files": [(key, files.name_of(part), files.size_of(part)) for key, part in _unsent_files(unsent)],
        "most_files": files.MOST,
        "most_bytes": files.BYTES,
    }


def _replaced(ref: SessionRef, again: str, who: Actor) -> Replaced | None:
    """Returns what sending a message again does; None if there's no such message any longer."""
    with suppress(Invalid, NotFound, Conflict):
        return replaced(ref, again, actor=who) if again else None
    return None


@require_POST
def answer(request: HttpRequest, **names: str) -> HttpResponse:
    """Answers what an event asks."""
    ref, event_id = SessionRef(**names), request.POST.get("event", "")
    check_may(request, "operate", ref)
    cards = cards_of(ref, actor(request))
    asked = {each.of.call_id: each for card in cards if card.event_id == event_id for each in card.questions}
    form = FirstForm.of(request)
    if form.asks_for_rows:
        _add_row(request, ref, form)
        return cards_page(request, ref, [_again(request, card, form) for card in cards])
    call = ""
    try:
        given = {}
        for call, question in asked.items():
            given[call] = question.read(request.POST)
        call = ""
        answers.answer(ref, event_id, given, actor=actor(request), first=form.first)
    except (Invalid, Conflict, AgentError, Held) as error:
        if "proposal" in error.detail:
            raise  # it waits for a second person, and its page opens
        form.note_current(error)
        return _refused(request, ref, cards, form, error, call)
    if all(each.interim for each in given.values()):
        return back(request, ref, _("The update is sent. The tool still waits for its final result."))
    return back(request, ref, _("Answered. The agent continues."))


def _add_row(request: HttpRequest, ref: SessionRef, form: FirstForm) -> None:
    """Adds a row for the key that was named. Raises NotAllowed."""
    check_may(request, "append", ref)
    form.add_row(state_of(views.session(ref, actor=actor(request))).state)
    note_habits(form.rows, ref, actor(request))


def _again(request: HttpRequest, card: Card, form: FirstForm, error: str = "", call: str = "") -> Card:
    """Returns a card with what was typed in it, if it is the one that was sent, and what is wrong with it: as a whole, or
    with one call."""
    if card.event_id != request.POST.get("event"):
        return card
    wrong = {each.of.call_id: error if each.of.call_id == call else "" for each in card.questions}
    questions = [each.refused(request.POST, wrong[each.of.call_id]) for each in card.questions]
    return replace(card, questions=questions, error="" if call in wrong else error, first=form)


def _refused(
    request: HttpRequest, ref: SessionRef, cards: list[Card], form: FirstForm, error: Error, call: str
) -> HttpResponse:
    """Shows the cards again with what was typed, and what is wrong beside the question that it is about."""
    if not request.htmx:  # type: ignore[attr-defined]
        messages.error(request, error.message)
        return back(request, ref)
    call = error.detail.get("call", call)
    context = context_of(ref, actor(request), [_again(request, card, form, error.message, call) for card in cards])
    answer = page(request, "answers/_cards.html", {"ref": ref, **context}, status_of(error))
    shown = [*context["cards"], *context["passed_over"]]
    if request.POST.get("event") not in [card.event_id for card in shown]:  # it is gone, and no card says so
        answer["HX-Trigger"] = json.dumps({"adkweb:toast": {"text": error.message}})
    return answer


class MessageForm(FirstForm):
    """A message to the agent, from the session's user; or the one that takes the place of an earlier one, that of the event
    `again`: `revision` is the one that the session had when the form was opened."""

    text = Text(widget=forms.Textarea)
    again = Text(widget=forms.HiddenInput)
    revision = Text(widget=forms.HiddenInput)

    @property
    def first(self) -> First:
        """Returns what is written first. Raises Invalid."""
        first = super().first
        if not self.cleaned_data["again"]:
            return first
        try:
            revision = float(self.cleaned_data["revision"])
        except ValueError as error:
            raise Invalid(_("This form is incomplete. Open the page again.")) from error
        return replace(first, instead_of=self.cleaned_data["again"], revision=revision)


@require_POST
def say(request: HttpRequest, **names: str) -> HttpResponse:
    """Sends a message to the agent, or another one in the place of an earlier one."""
    ref = SessionRef(**names)
    check_may(request, "operate", ref)
    form = MessageForm.of(request)
    if form.asks_for_rows:
        _add_row(request, ref, form)
        typed = {"unsent": request.POST.get("text", ""), "first": form}
        return cards_page(request, ref, cards_of(ref, actor(request)), more=typed)
    try:
        given = form.read()
        attached = [part for key, part in _unsent_files(runs.last(ref)) if key in request.POST.getlist("kept")]
        attached += [files.part(each.name or "", each.read(), each.content_type) for each in _uploads(request)]
        text = given["text"].replace("\r\n", "\n")  # as no browser posts it
        runs.say(ref, text, attached=attached, actor=actor(request), first=form.first)
    except (Invalid, Conflict, AgentError, Held, StaleSession) as error:
        if "proposal" in error.detail:
            raise  # it waits for a second person, and its page opens
        why = error.message
        if isinstance(error, StaleSession):
            why = _("This session changed after you opened the page. Review the changes again.")
        if not request.htmx:  # type: ignore[attr-defined]
            messages.error(request, why)
            return back(request, ref)
        form.note_current(error)
        refused = {"unsent": request.POST.get("text", ""), "unsent_why": why, "first": form}
        again = request.POST.get("again", "")
        return cards_page(request, ref, cards_of(ref, actor(request)), status_of(error), refused, again)
    return back(request, ref)


def _uploads(request: HttpRequest) -> list[Any]:
    """Returns the files that were sent. Raises Invalid before too much of them is read."""
    sent = request.FILES.getlist("files")
    files.check([each.size or 0 for each in sent])
    return sent


def _unsent_files(run: Job | None) -> list[tuple[str, dict[str, Any]]]:
    """Returns the files that didn't reach the agent with the last message, each with a key."""
    return [(f"{run.pk.hex}-{number}", part) for number, part in enumerate(runs.unsent_files(run))] if run else []


@require_POST
def go_on(request: HttpRequest, **names: str) -> HttpResponse:
    """Continues a run that didn't finish."""
    return _act(request, SessionRef(**names), runs.go_on)


@require_POST
def stop(request: HttpRequest, **names: str) -> HttpResponse:
    """Asks the agent to stop: in adkweb's own run, or where a companion is told."""
    return _act(request, SessionRef(**names), runs.stop)


def _act(request: HttpRequest, ref: SessionRef, act: Callable[..., object]) -> HttpResponse:
    check_may(request, "operate", ref)
    try:
        act(ref, actor=actor(request))
    except (Conflict, AgentError, NotFound) as error:  # such as a run that has just ended
        return back(request, ref, error.message)
    return back(request, ref)


def back(request: HttpRequest, ref: SessionRef, said: str = "") -> HttpResponse:
    """Returns to the page that sent a form, which says this."""
    if request.htmx:  # type: ignore[attr-defined]
        response = cards_page(request, ref, cards_of(ref, actor(request)))
        if said:
            response["HX-Trigger"] = json.dumps({"adkweb:toast": {"text": said, "isNotice": True}})
        return response
    session, in_list = reverse("session", kwargs=ref._asdict()), request.POST.get("next") == "inbox"
    if said:
        link = (
            format_html(' <a class="btn quiet small" href="{}">{}</a>', session, pgettext("an agent", "Watch"))
            if in_list
            else ""
        )
        messages.info(request, format_html("{}{}", said, link))
    return redirect("inbox" if in_list else session)
