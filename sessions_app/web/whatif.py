"""What-if: the form that changes something at an event, and what the agent then does, beside what was recorded."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final
from uuid import UUID

from django import forms
from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_GET, require_http_methods, require_POST
from django_htmx.http import HttpResponseClientRedirect

from ..access.actor import Actor
from ..access.shown import is_masked
from ..agent_view import agent_files
from ..domain.alignment import align
from ..domain.cost import cost_of, usage_of
from ..domain.errors import Error, Invalid
from ..domain.json_values import dumps, loads
from ..domain.session_ref import SessionRef, digest_of
from ..domain.shorten import brief
from ..domain.state import ABSENT, UNKNOWN, State, same
from ..edits.edit import Entry
from ..history import moments
from ..http.problems import status_of
from ..models import Job
from ..reads import views
from ..reads.event_views import EventView
from ..search import outline
from ..sources import agents, errors
from ..trying import whatif
from ..trying.whatif import Change, Plan, TrialView, WhatIf
from .compare.aligned import blocks
from .edits.rows import StateForm, asked_row, fits_page, new_rows, note_habits, other_keys
from .forms import Check, Form, Reason, Text, act
from .html.difference import Differences
from .html.render import page
from .reasons import in_words
from .request import actor, check_may
from .session.runs import Run, Runs, Start

_KEYS: Final = 100  # of state that differ at the end
_NEWEST: Final = 6  # keys that the form offers beside its field: those that were written last
_OUTCOME: Final = 400  # characters of an outcome
_REPEATS: Final = ("1", "3", "10")
_MONO: Final = {"class": "mono", "spellcheck": "false"}


@dataclass(frozen=True, slots=True)
class AgentNow:
    """An agent of a session: the model that it had last, and its instruction as its files have it now, "" if unknown."""

    name: str
    model: str
    instruction: str


def agents_now(ref: SessionRef, models: Mapping[str, str], who: Actor) -> list[AgentNow]:
    """Returns agents of a session by their names and last models, with their instructions."""
    made = []
    for name, model in models.items():
        written = agent_files.instruction(ref, name, actor=who)
        made.append(AgentNow(name, model, written.text if written and written.kind == "text" else ""))
    return made


class ChangeForm(StateForm):
    """A change of state and agents, and the way in which it runs. Beside these fields, it has two for each agent
    (`instruction-N`, `model-N`). It starts with the change `like`. What is as it was isn't a change."""

    unknown_ways: tuple[str, ...] = ("ask", "fail", "run")

    later = Check()
    unknown = Text()
    run_code = Check()
    reason = Reason(
        help_text=gettext_lazy("With a reason, the agent gets the hidden values. It is in the audit log."),
    )

    def __init__(
        self, data: Mapping[str, Any] | None = None, *, agents: list[AgentNow], like: Change, **options: Any
    ) -> None:
        initial = {"later": like.later, "unknown": self.unknown_ways[0]}
        super().__init__(data, initial=initial | options.pop("initial", {}), **options)
        self._agents, self.like = agents, like
        for n, agent in enumerate(agents):
            first = like.instructions.get(agent.name, agent.instruction)
            hint = "" if agent.instruction else _("Its instruction can't be read from its files. Type the whole text.")
            attrs: dict[str, Any] = {"cols": False, "rows": 6, "dir": "auto", "placeholder": hint}
            self.fields[f"instruction-{n}"] = Text(widget=forms.Textarea, initial=first, attrs=attrs)
            attrs = {**_MONO, "placeholder": agent.model}
            self.fields[f"model-{n}"] = Text(initial=like.models.get(agent.name, ""), attrs=attrs)

    @property
    def chosen(self) -> dict[str, str]:
        """Returns which radio buttons are on."""
        unknown = str(self["unknown"].value() or "")
        return {"unknown": unknown if unknown in self.unknown_ways else self.unknown_ways[0]}

    @property
    def agents(self) -> list[tuple[AgentNow, forms.BoundField, forms.BoundField]]:
        """Returns the agents, each with its fields."""
        return [(each, self[f"instruction-{n}"], self[f"model-{n}"]) for n, each in enumerate(self._agents)]

    @property
    def opened(self) -> set[str]:
        """Returns which sections are open: those where something is different or wrong."""
        sections = {name.partition("-")[0] for name in self.errors}
        sections |= {"instruction"} if self.like.instructions or self._typed("instruction") else set()
        sections |= {"model"} if self.like.models or self._typed("model") else set()
        return sections

    def _typed(self, kind: str) -> bool:
        return any(self.text(name) != self[name].initial for name in self.fields if name.startswith(f"{kind}-"))

    def text(self, name: str) -> str:
        """Returns what a field has, with lines that end as Python's do."""
        return str(self[name].value() or "").replace("\r\n", "\n")

    def is_valid(self) -> bool:
        """Tells whether its fields and its rows can be read."""
        return super().is_valid() and self.entries() is not None

    def change(self) -> Change:
        """Returns what was changed."""
        changed = [each for each in self.entries() or [] if not same(each.value, each.seen)]
        written = {each.name: self.text(f"instruction-{n}") for n, each in enumerate(self._agents)}
        models = {each.name: self.text(f"model-{n}").strip() for n, each in enumerate(self._agents)}
        return Change(
            self.like.at,
            state={each.key: each.value for each in changed if each.value is not ABSENT},
            removed=[each.key for each in changed if each.value is ABSENT],
            instructions={
                each.name: written[each.name]
                for each in self._agents
                if written[each.name].strip() not in ("", each.instruction.strip())
            },
            models={each.name: models[each.name] for each in self._agents if models[each.name] not in ("", each.model)},
            later=self.cleaned_data["later"],
        )


class WhatIfForm(ChangeForm):
    """A change at an event of a session: also of the message, and of each response of the event (`result-N`)."""

    message = Text(
        label=gettext_lazy("Message"), widget=forms.Textarea, attrs={"cols": False, "rows": 3, "dir": "auto"}
    )
    repeats = Text()

    def __init__(self, data: Mapping[str, Any] | None = None, *, about: "_About", **options: Any) -> None:
        like = about.like
        initial = {"message": like.message or about.plan.message, "repeats": "1"} | options.pop("initial", {})
        super().__init__(data, agents=about.agents, like=like, initial=initial, **options)
        self.about = about
        for n, (id, _name, text) in enumerate(about.results):
            first = dumps(like.results[id], indent=2) if id in like.results else text
            self.fields[f"result-{n}"] = Text(
                widget=forms.Textarea, initial=first, attrs={"cols": False, "rows": 4, **_MONO}
            )

    @property
    def chosen(self) -> dict[str, str]:
        """Returns which radio buttons are on."""
        repeats = str(self["repeats"].value() or "")
        return super().chosen | {"repeats": repeats if repeats in _REPEATS else _REPEATS[0]}

    @property
    def results(self) -> list[tuple[str, forms.BoundField]]:
        """Returns the fields of responses, each with its tool."""
        return [(name, self[f"result-{n}"]) for n, (_id, name, _text) in enumerate(self.about.results)]

    @property
    def opened(self) -> set[str]:
        """Returns which sections are open: those where something is different or wrong, and the first of the event."""
        sections = super().opened
        sections |= {"message"} if self.text("message") != self.about.plan.message else set()
        sections |= {"result"} if self.like.results or self.about.results else set()
        return sections

    def is_valid(self) -> bool:
        """Tells whether its fields and its rows can be read."""
        if not super().is_valid():
            return False
        for n, (_id, _name, _text) in enumerate(self.about.results):
            try:
                loads(self.text(f"result-{n}"))
            except Invalid as error:
                self.add_error(f"result-{n}", error.message)
        return not self.errors

    def change(self) -> Change:
        """Returns what was changed."""
        message = self.text("message")
        texts = [self.text(f"result-{n}") for n in range(len(self.about.results))]
        return replace(
            super().change(),
            at=self.about.plan.event.id,
            message="" if message == self.about.plan.message else message,
            results={
                id: loads(text)
                for (id, _name, old), text in zip(self.about.results, texts, strict=True)
                if text.strip() != old.strip()
            },
        )


@dataclass(frozen=True, slots=True)
class _About:
    """The subject of the form: what runs, the responses of its event (id, tool, JSON), the agents, the state at the event
    (the key that was written last comes first), and the change that it begins with."""

    plan: Plan
    results: list[tuple[str, str, str]]
    agents: list[AgentNow]
    state: State
    like: Change

    @classmethod
    def of(cls, ref: SessionRef, event_id: str, like: Change | None, who: Actor) -> "_About":
        """Returns what a form at an event is about. Raises NotFound, Behind."""
        plan = whatif.plan(ref, event_id, actor=who)
        responses = [(part.id, part.name, dumps(part.value, indent=2)) for part in plan.event.description.responses]
        then = moments.state_at(ref, event_id, actor=who)
        written = {key: each.timestamp for key, each in then.writers.items()}
        state = sorted(then.state.merged().items(), key=lambda each: (-written.get(each[0], 0.0), each[0]))
        known = {key: value for key, value in state if value is not UNKNOWN}
        return cls(plan, responses, agents_now(ref, plan.agents, who), known, like or Change(event_id))


@require_http_methods(["GET", "POST"])
def what_if(request: HttpRequest, **names: str) -> HttpResponse:
    """Changes something at an event (?at=), and runs the agent from there. Begins with an earlier change (?like=)."""
    ref, who = SessionRef(**names), actor(request)
    check_may(request, "operate", ref)
    before = whatif.listed(ref, actor=who)
    like = next((each for each in before if each.job.pk.hex == request.GET.get("like")), None)
    event_id = request.GET.get("at") or (like.change.at if like else "")
    about = _About.of(ref, event_id, like.change if like else None, who)
    form = WhatIfForm.of(request, about=about)
    if like and not form.is_bound:
        form.rows = _rows_of(like.change, about.state)
    if form.asks_for_rows:
        form.add_row(about.state)
        return _form(request, ref, form, before)
    job, status = act(form, lambda _given: _start(ref, form, who))
    if job is None:
        if not form.is_bound and not form.rows:
            form.rows = new_rows([key for key in request.GET.getlist("key") if key in about.state], about.state)
        return _form(request, ref, form, before, status)
    address = _address(ref, job)
    return HttpResponseClientRedirect(address) if request.htmx else redirect(address)  # type: ignore[attr-defined]


def _rows_of(change: Change, state: State) -> list[Any]:
    """Returns the rows of an earlier change, each with the value at the event as what was seen."""
    values = {**change.state, **dict.fromkeys(change.removed, ABSENT)}
    return [asked_row(Entry(key, value, state.get(key, ABSENT))) for key, value in values.items()]


def _start(ref: SessionRef, form: WhatIfForm, who: Actor) -> Job:
    chosen, given = form.chosen, form.cleaned_data
    if not (form.about.plan.turn or form.change().message):
        raise Invalid(_("Nothing comes after this event. Type what the user writes next."), field="message")
    return whatif.start(
        ref,
        form.change(),
        actor=who,
        repeats=int(chosen["repeats"]),
        unknown=chosen["unknown"],  # type: ignore[arg-type]
        run_code=given["run_code"],
        reason=given["reason"],
    )


def _form(
    request: HttpRequest, ref: SessionRef, form: WhatIfForm, before: list[WhatIf], status: int = 200
) -> HttpResponse:
    who, plan = actor(request), form.about.plan
    note_habits(form.rows, ref, who)
    keys = other_keys(form.about.state, form.rows)
    nameable = {key for key in keys if fits_page(key)}
    first = plan.turn[:1] or [plan.event]
    known = outline.outline(ref, [each.seq for each in (plan.event, *first) if each.seq is not None], actor=who)
    turn = known.turn_of(first[0].seq) if plan.turn else None
    cost, folder = cost_of(plan.usage, settings.PRICES), agents.agent_of(ref.source, ref.app_name)
    context = {
        "ref": ref,
        "view": views.session(ref, partly=True, actor=who),
        "event": plan.event,
        "numbers": known.numbers,
        "form": form,
        "plan": plan,
        "turn": turn.number if turn else 0,
        "turns_before": turn.number - 1 if turn else 0,
        "tokens": sum(each.prompt + each.output for each in plan.usage),
        "dollars": None if cost.unpriced or not plan.usage else cost.dollars,
        "folder": folder.folder.name if folder else "",
        "why_not": whatif.why_not(ref),
        "keys": keys,
        "newest": [key for key in form.about.state if key in nameable][:_NEWEST],
        "repeats": _REPEATS,
        "masked": is_masked(who, ref.app_name),
        "may_reveal": who.may_reveal(ref.source, ref.app_name),
        "needs_code": any(trial.needs_code for each in before for trial in each.trials) or "code" in request.GET,
        "before": [(each, parts_of(each.change), outcomes(each)[:1]) for each in before],
        "here": f"{request.path}?{request.GET.urlencode()}",
    }
    template = "whatif/_form.html" if _wants_form(request) else "whatif/whatif.html"
    return page(request, template, context, status)


def _wants_form(request: HttpRequest) -> bool:
    return bool(request.htmx) and request.method == "POST"  # type: ignore[attr-defined]


# --- In words ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ChangedPart:
    """A part of a change in words: what it is about, a key of state if it is `state`, and the new value."""

    kind: str
    name: str = ""
    value: str = ""


def parts_of(change: Change) -> list[ChangedPart]:
    """Returns a change in words; nothing if nothing is different."""
    return [
        *(ChangedPart("state", key, brief(value, 60)) for key, value in change.state.items()),
        *(ChangedPart("removed", key) for key in change.removed),
        *([ChangedPart("message", value=change.message)] if change.message else []),
        *(ChangedPart("result", value=brief(value, 60)) for value in change.results.values()),
        *(ChangedPart("instruction", name, text) for name, text in change.instructions.items()),
        *(ChangedPart("model", name, model) for name, model in change.models.items()),
        *([ChangedPart("later")] if change.later else []),
    ]


@dataclass(frozen=True, slots=True)
class Outcome:
    """An outcome of some trials: their words, how many of all that ended, and their numbers, from 1."""

    words: str
    failed: bool
    of: int
    trials: list[int]
    tokens: int
    seconds: float

    @property
    def often(self) -> str:
        """Returns how often it was, in words: “7 of 10”."""
        return _("%(n)s of %(all)s") % {"n": len(self.trials), "all": self.of}


def outcomes(tried: WhatIf) -> list[Outcome]:
    """Returns how the trials ended, the most frequent first."""
    ended = [each for each in tried.trials if each.has_ended]
    made = []
    for (words, failed), _n in Counter((each.outcome[:_OUTCOME], bool(each.error)) for each in ended).most_common():
        alike = [each for each in ended if (each.outcome[:_OUTCOME], bool(each.error)) == (words, failed)]
        tokens = sum(each.tokens for each in alike) // len(alike)
        seconds = sum(each.seconds for each in alike) / len(alike)
        words = in_words(words) if failed else words
        made.append(Outcome(words, failed, len(ended), [each.number + 1 for each in alike], tokens, seconds))
    return made


# --- The result -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Side:
    """The cost of the recording, or of a trial: `dollars` is None where a price is missing."""

    tokens: int
    seconds: float
    dollars: float | None


class DecideForm(Form):
    """The decision about a call: its result as JSON, that it runs, or with which words it fails."""

    way = Text()
    result = Text()
    fail = Text()
    always = Check()

    def answer(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Returns what the core takes. Raises Invalid."""
        match given["way"]:
            case "run":
                return {"run": True}
            case "fail":
                return {"fail": given["fail"].strip() or _("This tool failed.")}
            case "result":
                try:
                    return {"result": loads(given["result"])}
                except Invalid as error:
                    raise Invalid(error.message, field="result") from error
        raise Invalid(_("Choose what the agent gets for this call."))


@require_GET
def tried(request: HttpRequest, what_if_id: UUID, **names: str) -> HttpResponse:
    """Shows what became of a what-if, or nothing new if it is what the page has (?have=)."""
    ref = SessionRef(**names)
    check_may(request, "operate", ref)
    job = whatif.get(ref, what_if_id.hex, actor=actor(request))
    return _result(request, job)


def _result(
    request: HttpRequest,
    job: Job,
    form: DecideForm | None = None,
    status: int = 200,
    *,
    number: int | None = None,
    refused: str = "",
) -> HttpResponse:
    who, asked = actor(request), request.GET.get("trial", "" if number is None else str(number + 1))
    have = digest_of(asked, job.state, job.stopped_by, *map(str, whatif.progress(job, actor=who)))
    if request.htmx and request.GET.get("have") == have:  # type: ignore[attr-defined]
        return HttpResponse(status=204)
    shown = whatif.of(job, actor=who)
    wanted = int(asked) - 1 if asked.isdecimal() and len(asked) < 4 else None
    trial = _chosen(shown, wanted)
    ref = shown.ref
    context: dict[str, Any] = {
        "ref": ref,
        "tried": shown,
        "job": job,
        "parts": parts_of(shown.change),
        "trial": trial,
        "question": trial.question if trial and shown.is_running else {},
        "have": have,
        "picked": asked if wanted is not None else "",
        "ends": outcomes(shown),
        "refused": refused,
        "form": form or DecideForm(initial={"result": "{}", "way": "result"}),
        "address": _address(ref, job),
        "again": f"{reverse('what-if', kwargs=ref._asdict())}?like={job.pk.hex}",
        "keeps": trial is not None and trial.has_ended and trial.made and not shown.has_dots,
        "may": who.may_write("operate", ref.source, ref.app_name),
        "needs_code": any(each.needs_code for each in shown.trials),
    }
    if trial:
        both = _runs(shown, trial, who)
        context |= {
            "runs": both,
            "blocks": list(blocks(both, lambda _pair: True)),  # also what is the same, unfolded
            "first": both.alignment.first,
            "left": _side(trial.original, _recorded_seconds(trial.original)),
            "right": _side(trial.made, trial.seconds),
            "keys": _keys(trial, ref, who) if trial.has_ended and trial.made else [],
        }
    template = "whatif/_result.html" if request.htmx else "whatif/result.html"  # type: ignore[attr-defined]
    return page(request, template, context, status)


def _address(ref: SessionRef, job: Job) -> str:
    return reverse("tried", kwargs={**ref._asdict(), "what_if_id": job.pk})


def _chosen(shown: WhatIf, wanted: int | None) -> TrialView | None:
    """Returns the trial that is shown: the one that was picked, else one that asks, else the first."""
    by_number = {each.number: each for each in shown.trials}
    if wanted in by_number:
        return by_number[wanted]
    return next((each for each in shown.trials if each.question), next(iter(shown.trials), None))


def _runs(shown: WhatIf, trial: TrialView, who: Actor) -> Runs:
    """Returns the recorded events and those of a trial as the page that compares runs has them."""
    known = outline.outline(shown.ref, [each.seq for each in trial.original[:1] if each.seq is not None], actor=who)
    first = trial.original[0].seq if trial.original else None
    number, turn = known.numbers.get(first) if first is not None else None, known.turn_of(first)
    start = Start("", number - 1 if number else None, turn.number - 1 if turn else None)
    original, alignment = trial.original, trial.alignment
    if not trial.has_ended:  # what it hasn't come to yet isn't missing
        original = original[: len(trial.made)]
        alignment = align(original, trial.made)
    left, right = (Run(shown.ref, start, events, None) for events in (original, trial.made))
    return Runs(left, right, alignment)


def _side(events: list[EventView], seconds: float) -> Side:
    usage = [used for each in events if (used := usage_of(each.data))]
    cost = cost_of(usage, settings.PRICES)
    return Side(
        sum(each.prompt + each.output for each in usage), seconds, None if cost.unpriced or not usage else cost.dollars
    )


def _recorded_seconds(events: list[EventView]) -> float:
    return max(0.0, events[-1].timestamp - events[0].timestamp) if events else 0.0


def _keys(trial: TrialView, ref: SessionRef, who: Actor) -> list[tuple[str, SafeString]]:
    """Returns the keys whose values differ at the end, each with the difference."""
    if not trial.original:
        return []
    try:
        then = moments.state_at(ref, trial.original[-1].id, actor=who).state.merged()
    except Error:  # the index has not read it yet, or it is gone
        return []
    shown = Differences()
    differing = [
        key
        for key in sorted(then.keys() | trial.state.keys())
        if then.get(key) is not UNKNOWN and not same(then.get(key, ABSENT), trial.state.get(key, ABSENT))
    ]
    return [(key, shown.html(then.get(key, ABSENT), trial.state.get(key, ABSENT))) for key in differing[:_KEYS]]


@require_POST
def decide(request: HttpRequest, what_if_id: UUID, number: int, **names: str) -> HttpResponse:
    """Decides a call that waits."""
    ref, who = SessionRef(**names), actor(request)
    check_may(request, "operate", ref)
    job, form = whatif.get(ref, what_if_id.hex, actor=who), DecideForm.of(request)

    def do(given: dict[str, Any]) -> bool:
        whatif.decide(job, number, form.answer(given), actor=who, always=given["always"])
        return True

    done, status = act(form, do)
    return redirect(_address(ref, job)) if done else _result(request, job, form, status)


@require_POST
def keep(request: HttpRequest, what_if_id: UUID, number: int, **names: str) -> HttpResponse:
    """Stores what a trial did as a fork, and opens that. The page of the what-if says why it can't."""
    ref, who = SessionRef(**names), actor(request)
    check_may(request, "admin", ref)
    job = whatif.get(ref, what_if_id.hex, actor=who)
    try:
        into = whatif.keep(job, number, actor=who)
    except Error as error:
        return _result(request, job, status=status_of(error), number=number, refused=errors.shown(error, who))
    messages.success(request, _("Kept as a fork of %(id)s.") % {"id": ref.session_id})
    return redirect(reverse("session", kwargs=into._asdict()))


@require_POST
def stop(request: HttpRequest, what_if_id: UUID, **names: str) -> HttpResponse:
    """Ends a what-if."""
    ref, who = SessionRef(**names), actor(request)
    check_may(request, "operate", ref)
    job = whatif.get(ref, what_if_id.hex, actor=who)
    whatif.stop(job, actor=who)
    return redirect(_address(ref, job))
