"""Tells an adkweb what runs in an agent's process, and stops it when someone asks there.

    adk web --extra_plugins adkweb.Companion agents
    App(name="booking", root_agent=agent, plugins=[adkweb.Companion()])

ADKWEB_URL is adkweb's address, and ADKWEB_COMPANION_TOKEN has a token with the permission companion. What is sent are ids,
names and times: which invocation runs in which session, and the name of the model or tool that it has called; and the
versions of google-adk and of the app's package. In the events of models, it notes a hash of the agent's instruction
(fingerprints.py).

With `Companion(breakpoints=True)`, adkweb is also asked whether the agent pauses before a step: then people see what the
model or the tool is to get, and may change it (breakpoints.py). For development.

An agent doesn't notice it. Its callbacks write to memory and raise nothing. Two threads talk to adkweb, and if it is away,
they try again less and less often. What was reported since is replaced by what is true by then.
"""

import asyncio
import atexit
import functools
import http.client
import ipaddress
import json
import logging
import os
import ssl
import sys
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from math import inf
from typing import Any, Final
from urllib.parse import urlsplit

from google.adk.plugins.base_plugin import BasePlugin
from google.adk.version import __version__ as adk_version

from . import fingerprints

log = logging.getLogger("adkweb.companion")

BEAT_SECONDS: Final = 5.0  # between two reports while something runs
GATHER_SECONDS: Final = 0.2  # in which what happens is reported together
LONGEST_PAUSE: Final = 15.0  # between two tries, if adkweb is away
MOST: Final = 1_000  # runs that are known, and runs whose end adkweb doesn't know yet
AT_ONCE: Final = 25  # runs in a request
NAME_LENGTH: Final = 128  # of what has an id
STEP_LENGTH: Final = 100  # of the name of a model or a tool
VERSION_LENGTH: Final = 40
WAIT_SECONDS: Final = 40.0  # that adkweb may take to answer; it answers after 25
SECONDS: Final = 5.0
LONGEST_ANSWER: Final = 2 * 1024 * 1024  # adkweb's limits of what people change are lower
AWAY_SECONDS: Final = 2.0  # without an answer of adkweb, until what pauses goes on
LAST_SECONDS: Final = 0.5  # for the last report, when the process ends


@dataclass(eq=False)
class _Run:
    """An invocation of this process. `by` is the plugin that reports it, and `steps` are its open calls, the oldest first:
    the kind of each, its name, and since when."""

    names: tuple[str, str, str, str]  # of the invocation, app, user and session
    by: "Companion"
    stop: Callable[[], None]
    since: float
    steps: dict[object, tuple[str, str, float]] = field(default_factory=dict)
    ended: float | None = None
    task: "asyncio.Task[Any] | None" = None
    on_done: Callable[[Any], None] | None = None
    reported: dict[str, Any] | None = None  # the last report that adkweb has got of it

    @property
    def invocation(self) -> str:
        """Returns its id."""
        return self.names[0]

    def as_json(self) -> dict[str, Any]:
        """Returns it as it is reported."""
        step, name, step_since = next(iter(self.steps.values()), ("", "", self.since))
        named = dict(zip(("invocation", "app_name", "user_id", "session_id"), self.names, strict=True))
        return {
            **named,
            "since": self.since,
            "ended": self.ended,
            "step": step,
            "name": name[:STEP_LENGTH],
            "step_since": step_since,
            **_versions(self.names[1]),
        }


def _versions(app_name: str) -> dict[str, str]:
    """Returns the versions of google-adk, and of an app's own package, if it says so."""
    own = getattr(sys.modules.get(app_name), "__version__", "")
    return {"adk": adk_version, "version": own[:VERSION_LENGTH] if isinstance(own, str) else ""}


def _harmless(note: Callable[..., None]) -> Any:
    """Makes a callback of ADK's, which raises nothing. It returns None, so that nothing is changed, unless someone who let
    the agent go on at a breakpoint said otherwise."""

    @functools.wraps(note)
    async def callback(plugin: "Companion", **given: Any) -> Any:
        with suppress(Exception):
            if reporter := _reporter():
                note(plugin, reporter, **given)
        pausing = getattr(plugin.breakpoints, note.__name__, None)
        return await pausing(**given) if pausing else None

    return callback


class Companion(BasePlugin):
    """An ADK plugin that reports to adkweb what runs, and stops it on request. It changes nothing that an agent does, unless
    it has `breakpoints`: then people can let the agent pause in adkweb, and change what it does."""

    def __init__(self, name: str = "adkweb", *, breakpoints: bool = False) -> None:
        # ADK refuses two plugins of one name: every run would fail where an App has one, and the server another.
        super().__init__(name=f"{name} {uuid.uuid4().hex[:8]}")
        self.breakpoints = _breakpoints(self) if breakpoints else None

    @_harmless
    def before_run_callback(self, reporter: "_Reporter", *, invocation_context: Any) -> None:
        """Notes that a run begins."""
        session = invocation_context.session
        names = (invocation_context.invocation_id, session.app_name, session.user_id, session.id)
        if all(0 < len(name) <= NAME_LENGTH for name in names):
            reporter.begin(_Run(names, self, functools.partial(_abort, invocation_context), time.time()))

    @_harmless
    def after_run_callback(self, reporter: "_Reporter", *, invocation_context: Any) -> None:
        """Notes that a run has ended."""
        reporter.end(invocation_context.invocation_id, self)

    @_harmless
    def on_run_error_callback(self, reporter: "_Reporter", *, invocation_context: Any, **_: Any) -> None:
        """Notes that a run has failed."""
        reporter.end(invocation_context.invocation_id, self)

    @_harmless
    def before_model_callback(self, reporter: "_Reporter", *, callback_context: Any, llm_request: Any) -> None:
        """Notes that a model is called."""
        step = ("model", str(llm_request.model or ""), time.time())
        reporter.step(callback_context.invocation_id, self, ("model", callback_context.agent_name), step)

    @_harmless
    def after_model_callback(self, reporter: "_Reporter", *, callback_context: Any, llm_response: Any) -> None:
        """Notes that a model has answered, and in the answer which instruction it had."""
        fingerprints.note(callback_context, llm_response)
        if not llm_response.partial:
            reporter.step(callback_context.invocation_id, self, ("model", callback_context.agent_name))

    @_harmless
    def on_model_error_callback(self, reporter: "_Reporter", *, callback_context: Any, **_: Any) -> None:
        """Notes that a model has failed."""
        reporter.step(callback_context.invocation_id, self, ("model", callback_context.agent_name))

    @_harmless
    def before_tool_callback(self, reporter: "_Reporter", *, tool: Any, tool_context: Any, **_: Any) -> None:
        """Notes that a tool is called."""
        step = ("tool", str(tool.name), time.time())
        reporter.step(tool_context.invocation_id, self, tool_context.function_call_id, step)

    @_harmless
    def after_tool_callback(self, reporter: "_Reporter", *, tool_context: Any, **_: Any) -> None:
        """Notes that a tool has returned."""
        reporter.step(tool_context.invocation_id, self, tool_context.function_call_id)

    @_harmless
    def on_tool_error_callback(self, reporter: "_Reporter", *, tool_context: Any, **_: Any) -> None:
        """Notes that a tool has failed."""
        reporter.step(tool_context.invocation_id, self, tool_context.function_call_id)


def _abort(context: Any) -> None:
    if hasattr(context, "abort"):
        context.abort()
    else:  # of an older google-adk
        context.end_invocation = True


def _breakpoints(plugin: Companion) -> Any:
    """Returns the plugin that lets agents pause, which asks adkweb in threads."""
    from . import breakpoints

    class ByCompanion(breakpoints.Channel):
        def reaches(self, invocation: str) -> bool:
            reporter = _reporter()
            self.newest = reporter.newest if reporter else None
            return reporter is not None and reporter.reports(invocation, plugin, self)

        async def send(self, step: dict[str, Any]) -> dict[str, Any]:
            reporter, number = _reporter(), uuid.uuid4().hex
            answer = self.awaits(number)

            def ask() -> None:
                try:
                    self.decide(number, reporter.ask(step) if reporter else {})
                except Exception as error:
                    self.decide(number, {"error": str(error)})

            threading.Thread(target=ask, name="adkweb-asks", daemon=True).start()
            try:
                answered = await answer
            finally:
                self.forget(number)
            if "error" in answered:
                raise ConnectionError(answered["error"])
            return answered

    return breakpoints.Breakpoints(ByCompanion())


# --- What this process reports ----------------------------------------------------------------------------------------


class _Reporter:
    """Notes what runs in this process, and reports it to an adkweb in two threads of its own."""

    def __init__(self, adkweb: "_Adkweb") -> None:
        self.process = uuid.uuid4().hex
        self._adkweb = adkweb
        self._runs: dict[str, _Run] = {}
        self._ended: deque[_Run] = deque(maxlen=MOST)
        self._lock = threading.Lock()
        self._changed = threading.Event()
        self._busy = threading.Event()  # set while something runs
        self._away = False
        self._due = 0.0  # when all that runs is sent again
        self._away_since = inf  # that adkweb doesn't answer
        self._channels: set[Any] = set()  # of companions with breakpoints, which have asked
        self._heard: list[str] = []  # the pauses whose decisions have been passed on
        self.newest: int | None = None  # breakpoint that adkweb has told of
        threading.Thread(target=self._report, name="adkweb-reports", daemon=True).start()
        threading.Thread(target=self._listen, name="adkweb-commands", daemon=True).start()
        atexit.register(self._report_last)

    def begin(self, run: _Run) -> None:
        """Notes that a run begins, unless another plugin has noted it."""
        with self._lock:
            if run.invocation in self._runs or len(self._runs) >= MOST:
                return
            self._runs[run.invocation] = run
            self._busy.set()
        if task := _current_task():  # one that is cancelled calls no plugin
            run.task = task
            run.on_done = lambda _task: self.end(run.invocation, run.by)
            task.add_done_callback(run.on_done)
        self._changed.set()

    def step(self, invocation: str, by: Companion, key: object, step: tuple[str, str, float] | None = None) -> None:
        """Notes that a run calls something, or that the call is over."""
        with self._lock:
            run = self._runs.get(invocation)
            if run is None or run.by is not by:
                return
            if step:
                run.steps[key] = step
            else:
                run.steps.pop(key, None)
        self._changed.set()

    def end(self, invocation: str, by: Companion) -> None:
        """Notes that a run has ended."""
        with self._lock:
            run = self._runs.get(invocation)
            if run is None or run.by is not by:
                return
            del self._runs[invocation]
            run.ended = time.time()
            run.steps.clear()
            self._ended.append(run)
            if not self._runs:
                self._busy.clear()
        if run.task and run.on_done:
            run.task.remove_done_callback(run.on_done)
        self._changed.set()

    def reports(self, invocation: str, by: Companion, channel: Any) -> bool:
        """Returns whether this plugin reports a run to an adkweb that is there. Decisions then go to its channel."""
        self._channels.add(channel)
        run = self._runs.get(invocation)
        return run is not None and run.by is by and not self._away

    def ask(self, step: dict[str, Any]) -> dict[str, Any]:
        """Asks adkweb about a step of a run. Raises whatever goes wrong."""
        with self._lock:
            report = self._runs[step["invocation"]].as_json()
        about = {name: value for name, value in step.items() if name not in report or name == "name"}
        said = {"process": self.process, "at": time.time(), "invocation": report, "step": about}
        return self._adkweb.ask("POST", "/api/companion/step", said)

    def _pass_on(self, decisions: dict[str, Any], stop: list[str]) -> None:
        """Passes on what people decided about pauses, and ends those of runs that stop."""
        for channel in self._channels:
            for invocation in stop:
                for pause in channel.pauses(invocation):
                    channel.decide(pause, {"go": "stop"})
            for pause, decision in decisions.items():
                channel.decide(pause, decision)
        self._heard = list(decisions)

    def _let_go(self) -> bool:
        """Lets all go on that pauses, because adkweb is away. Returns whether anything pauses."""
        waits = [(channel, pause) for channel in self._channels for pause in channel.pauses()]
        if self._away_since + AWAY_SECONDS < time.monotonic():
            for channel, pause in waits:
                channel.decide(pause, {"go": "away"})
        return bool(waits)

    def _report(self) -> None:
        """Reports, forever: soon after something has changed, and every BEAT_SECONDS while something runs."""
        pause = 0.0
        while True:
            self._changed.wait(BEAT_SECONDS if self._busy.is_set() else None)
            time.sleep(pause or GATHER_SECONDS)
            self._changed.clear()
            try:
                self._send()
                pause = 0.0
            except Exception as error:
                self._adkweb.complain(error)
                pause = min(LONGEST_PAUSE, 2 * pause or 2 * GATHER_SECONDS)
                self._changed.set()
            self._away = bool(pause)

    def _send(self) -> None:
        """Sends what has changed, and from time to time all that runs. Raises whatever goes wrong."""
        is_time = time.monotonic() >= self._due
        with self._lock:
            now = [(run, run.as_json()) for run in (*self._ended, *self._runs.values())]
        now = [(run, report) for run, report in now if is_time or report != run.reported]
        for start in range(0, len(now), AT_ONCE):
            some = now[start : start + AT_ONCE]
            invocations = [report for _run, report in some]
            self._adkweb.ask(
                "POST", "/api/companion", {"process": self.process, "at": time.time(), "invocations": invocations}
            )
            with self._lock:
                for run, report in some:
                    run.reported = report
                    if report["ended"] and run in self._ended:  # it may have ended since
                        self._ended.remove(run)
        if is_time:
            self._due = time.monotonic() + BEAT_SECONDS - GATHER_SECONDS

    def _report_last(self) -> None:
        """Gives the last report a moment, when the process ends, if adkweb was there the last time."""
        until = time.monotonic() + LAST_SECONDS
        while self._ended and not self._away and time.monotonic() < until:
            time.sleep(0.01)

    def _listen(self) -> None:
        """Waits for commands, forever, while something runs."""
        pause, last = 0.0, dict[str, Any]()
        while True:
            self._busy.wait()
            began = time.monotonic()
            try:
                heard = f"&heard={','.join(self._heard)}" if self._heard else ""
                newest = f"&newest={'' if self.newest is None else self.newest}"
                answer = self._adkweb.ask("GET", f"/api/companion?process={self.process}{newest}{heard}")
                pause, self._heard, self._away_since = 0.0, [], inf
                self.newest = answer.get("newest", self.newest)
                stop = answer.get("stop", [])
                for invocation in stop:
                    with self._lock:
                        run = self._runs.get(invocation)
                    if run:
                        run.stop()
                self._pass_on(answer.get("decisions", {}), stop)
            except Exception as error:
                self._adkweb.complain(error)
                self._away_since = min(self._away_since, time.monotonic())
                pause, answer = min(LONGEST_PAUSE, 2 * pause or 1.0), {}
                if self._let_go():
                    pause = 1.0
            # A command is repeated until its run has ended.
            is_new, last = answer != last, answer
            time.sleep(pause or (0.0 if is_new else max(0.0, 1.0 - (time.monotonic() - began))))


def _current_task() -> "asyncio.Task[Any] | None":
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None


# --- The adkweb that hears it -----------------------------------------------------------------------------------------


class _Adkweb:
    """An adkweb at an address, which may be away, and may answer anything."""

    def __init__(self, url: str, token: str) -> None:
        parts = urlsplit(url)
        host = parts.hostname or ""
        if parts.username is not None or parts.query or parts.fragment or not host:
            raise ValueError("ADKWEB_URL isn't like https://host or http://localhost:8000")
        if parts.scheme not in ("https", "http") or (parts.scheme == "http" and not _is_loopback(host)):
            raise ValueError("ADKWEB_URL must begin with https://; http:// is for this machine only")
        if not token.isascii() or not token.isprintable() or not token:
            raise ValueError("ADKWEB_COMPANION_TOKEN has no token: adkweb token create NAME --permission companion")
        self._host, self._port, self._path = host, parts.port, parts.path.rstrip("/")
        self._tls = ssl.create_default_context() if parts.scheme == "https" else None
        self._token = token
        self._complained = False

    def ask(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        """Returns the JSON object that is answered; an empty one for an answer without a body. Raises whatever goes
        wrong. No redirect is followed."""
        seconds = WAIT_SECONDS if method == "GET" else SECONDS
        until = time.monotonic() + seconds
        if self._tls:
            connection: http.client.HTTPConnection = http.client.HTTPSConnection(
                self._host, self._port, timeout=seconds, context=self._tls
            )
        else:
            connection = http.client.HTTPConnection(self._host, self._port, timeout=seconds)
        try:
            headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
            connection.request(method, self._path + path, None if body is None else json.dumps(body), headers)
            response = connection.getresponse()
            content = b""
            while piece := response.read1(LONGEST_ANSWER):
                content += piece
                if len(content) > LONGEST_ANSWER or time.monotonic() > until:
                    raise ValueError("an answer that doesn't end")
            if response.status == http.HTTPStatus.NO_CONTENT:
                return {}
            if response.status != http.HTTPStatus.OK:
                raise ValueError(f"{response.status} {response.reason}")
            answer = json.loads(content)
            if not isinstance(answer, dict):
                raise ValueError("an answer that isn't adkweb's")
            return answer
        finally:
            connection.close()

    def complain(self, error: Exception) -> None:
        """Logs that it doesn't answer, once."""
        if not self._complained:
            self._complained = True
            log.warning("adkweb isn't told what runs here, which changes nothing for the agent: %s", error)


def _is_loopback(host: str) -> bool:
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


_lock: Final = threading.Lock()
_made: list["_Reporter | None"] = []  # of this process; None if it reports nothing


def _reporter() -> _Reporter | None:
    """Returns the reporter of this process. The first use reads the environment, which agents may have loaded from a
    file."""
    if not _made:
        with _lock:
            if not _made:
                try:
                    url, token = os.environ.get("ADKWEB_URL", ""), os.environ.get("ADKWEB_COMPANION_TOKEN", "")
                    _made.append(_Reporter(_Adkweb(url.strip(), token.strip())))
                except ValueError as error:
                    log.warning("the companion does nothing: %s", error)
                    _made.append(None)
    return _made[0]


os.register_at_fork(after_in_child=_made.clear)  # a child has no threads, and its runs aren't its parent's
