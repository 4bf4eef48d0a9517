"""The channel of companions (adk/companion.py): they report what runs, ask whether it pauses, and are told what to stop."""

from typing import Annotated, Any, Final

from django.db import IntegrityError
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from ninja import Field, Query, Router, Schema
from ninja.security import HttpBearer

from ..access import tokens
from ..access.actor import Actor
from ..domain.errors import Conflict, NotAllowed
from ..running import breakpoints, companions
from ..running.breakpoints import Asker
from .authorize import actor_of, signed_in_with
from .bodies import answer, body_of

MOST: Final = 25  # invocations in a request


class Companion(HttpBearer):
    """Reads the token of a companion. No other token may report."""

    def authenticate(self, request: HttpRequest, token: str) -> Actor | None:
        """Returns the token's actor, who sees nothing; None for an unknown one. Raises NotAllowed, TooOften."""
        signed_in = signed_in_with(token, request, tokens.of_any)
        if signed_in is None:
            return None
        if signed_in.reports is None:
            raise NotAllowed(_("This needs the token of a companion: adkweb token create NAME --permission companion"))
        request.reports = signed_in.reports  # type: ignore[attr-defined]
        return signed_in.actor


router = Router(auth=Companion())
_NAME: Final[Any] = Field(min_length=1, max_length=128)
_PROCESS: Final = "^[0-9a-f]{32}$"
_HEARD: Final = "^([0-9a-f]{32},){0,99}[0-9a-f]{32}$|^$"
_VERSION: Final[Any] = Field(default="", max_length=40)
_SECONDS: Final[Any] = Field(ge=0, le=2**33, allow_inf_nan=False)


class Invocation(Schema):
    """An invocation that runs in a process, or has `ended`; `step` and `name` say what it calls, `adk` and `version` which
    versions google-adk and the app's package have."""

    invocation: str = _NAME
    app_name: str = _NAME
    user_id: str = _NAME
    session_id: str = _NAME
    since: float = _SECONDS
    ended: float | None = _SECONDS
    step: str = Field(pattern="^(|model|tool)$")
    name: str = Field(max_length=100)
    step_since: float = _SECONDS
    adk: str = _VERSION
    version: str = _VERSION


class Reports(Schema):
    """The invocations that run in a process now. `process` is a random name of its own, `at` its clock."""

    process: str = Field(pattern=_PROCESS)
    at: float = _SECONDS
    invocations: list[Invocation] = Field(max_length=MOST)


@router.post("/companion", include_in_schema=False)
def report(request: HttpRequest) -> HttpResponse:
    """Takes the reports of a process. What is about apps that the token isn't for, or about no session, is left out."""
    body = body_of(request, Reports)
    names: str = request.reports  # type: ignore[attr-defined]
    try:
        companions.hear(body.process, body.at, body.invocations, account=actor_of(request).account, apps=names)
    except IntegrityError as error:  # the same is said twice at once; it is said again
        raise Conflict from error
    return answer({})


class Step(Schema):
    """A step before which an agent may pause: running/breakpoints.py."""

    kind: str = Field(pattern="^(model|tool)$")
    agent: str = Field(max_length=128)
    name: str = Field(max_length=128)
    call: str = Field(default="", max_length=128)
    steps: bool = False
    met: list[int] = Field(default=[], max_length=100)
    keys: list[str] = Field(default=[], max_length=10_000)
    state: dict[str, Any] = Field(default={})
    pause: str = Field(default="", pattern="^([0-9a-f]{32})?$")
    over: bool = False
    request: dict[str, Any] = Field(default={})


class Asked(Schema):
    """A step of an invocation that runs in a process."""

    process: str = Field(pattern=_PROCESS)
    at: float = _SECONDS
    invocation: Invocation
    step: Step


@router.post("/companion/step", include_in_schema=False)
def step(request: HttpRequest) -> HttpResponse:
    """Says whether an agent pauses before a step, and for how long."""
    body, account = body_of(request, Asked), actor_of(request).account
    names: str = request.reports  # type: ignore[attr-defined]
    try:
        companions.hear(body.process, body.at, [body.invocation], account=account, apps=names)
    except IntegrityError as error:
        raise Conflict from error
    ref = companions.session_of(body.invocation, body.process, account=account)
    asked = breakpoints.Step(invocation=body.invocation.invocation, **body.step.dict())
    if ref is None:
        return answer(breakpoints.ask_of_unknown(body.invocation.app_name))
    return answer(breakpoints.ask(ref, asked, Asker(body.process, account)))


@router.get("/companion", include_in_schema=False)
def commands(
    request: HttpRequest,
    process: Query[Annotated[str, Field(pattern=_PROCESS)]],
    heard: Annotated[str, Field(pattern=_HEARD)] = "",
    newest: str | None = None,
) -> HttpResponse:
    """Says which invocations of a process someone has asked to stop, and what people decided about its pauses, but for those
    of which it has `heard`; and the number of the newest breakpoint, if it has another one. 204 if there is nothing to say:
    live/commands.py waits then."""
    account = actor_of(request).account
    asker = Asker(process, account)
    if heard:
        breakpoints.note_heard(asker, heard.split(","))
    stop, decided = companions.to_stop(process, account=account), breakpoints.decisions(asker)
    is_old = newest not in (None, str(now := breakpoints.newest()))
    if not (stop or decided or is_old):
        return HttpResponse(status=204)
    return answer({"stop": stop} | ({"decisions": decided} if decided else {}) | ({"newest": now} if is_old else {}))
