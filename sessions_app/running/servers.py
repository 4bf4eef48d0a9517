"""The server that runs the agent of an app: at an address that an admin gave, or else a child of adkweb. And how it is.

server = servers.of("prod", "booking")
servers.check_same(server, ref)          # if it is at an address
"""

import http
import http.client
import re
import ssl
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from django.conf import settings
from django.db import transaction
from django.db.models import Count, Max
from django.utils.translation import gettext as _

from ..access import at_rest
from ..access.actor import SYSTEM, Actor
from ..access.audit.record import record
from ..access.shown import shown_words, shown_words_anywhere
from ..domain.errors import AgentError, Invalid, NotAllowed, NotFound
from ..domain.session_ref import SessionRef
from ..http import outgoing
from ..jobs.lease import WAITING
from ..models import AgentAddress, AgentChild, Job
from ..reads import lists, timeline
from ..sources import agents, demo, errors, registry
from . import children, client
from .session_uris import session_uri

HOSTS: Final = "AGENT_HOSTS"  # the setting that lists hosts that aren't public, or without https
RUN: Final = "run"  # the kind of a job that is a run
_PURPOSE: Final = "adkweb.agent_address"
_COMPARED: Final = 20  # events of a session that are compared with what a server reads
_HEADER: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")  # RFC 9110
_VALUE: Final = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]{0,3998}[\x21-\x7e])?")
# What adkweb itself says, or what would change how a request is read.
_TAKEN: Final = frozenset(
    {
        *("accept", "connection", "content-length", "content-type", "expect", "host", "te", "trailer"),
        *("transfer-encoding", "upgrade"),
    }
)


class Address:
    """A server at an address. Its agents write with ADK's own session service."""

    is_remote = True
    is_running = True

    def __init__(self, at: AgentAddress) -> None:
        try:
            self._endpoint = outgoing.read(at.url, HOSTS)
        except Invalid as error:  # the setting is another one now
            raise AgentError(error.message) from error
        self.url = at.url
        headers = {"Host": self._endpoint.authority, "User-Agent": "adkweb"}
        if at.header:
            try:
                headers[at.header] = at_rest.decrypted(at.value, _PURPOSE)
            except ValueError as error:
                raise AgentError(
                    _("The header for %(host)s can't be read because the secret key was changed. Enter it again.")
                    % {"host": self._endpoint.authority}
                ) from error
        self.headers: Mapping[str, str] = headers

    def connect(self, seconds: float) -> http.client.HTTPConnection:
        """Returns an open connection to the address that was checked. Raises OSError, and AgentError."""
        try:
            over = outgoing.opened(self._endpoint, seconds)
        except Invalid as error:
            raise AgentError(error.message) from error
        if self._endpoint.scheme == "https":
            try:
                over = ssl.create_default_context().wrap_socket(over, server_hostname=self._endpoint.host)
            except OSError:
                over.close()
                raise
        return outgoing.speaking(self._endpoint, over)


def of(source: str, app_name: str) -> client.Server:
    """Returns the server that runs the agent of an app, and starts the child of its folder if that isn't running. Raises
    AgentError."""
    if at := agents.address_of(source, app_name):
        return Address(at)
    if why := agents.why_not_here(source, app_name):
        raise AgentError(why)
    folder, sessions = _here(source, app_name)
    return children.of(folder, sessions=sessions, artifacts=_artifacts(source), source=source)


def may_hear_later(source: str, app_name: str) -> bool:
    """Returns whether the server of an app may still get to a message that was sent some time ago."""
    if agents.address_of(source, app_name):
        return True
    try:
        child = children.known(*_here(source, app_name))
    except AgentError:
        return False
    return child is not None and child.is_blocked()


@contextmanager
def told_to(actor: Actor) -> Iterator[None]:
    """Hides from an actor what rules hide in what goes wrong in its block: those are the words of a server, or of agents."""
    try:
        yield
    except AgentError as error:
        detail = {
            name: shown_words_anywhere(value, actor) if isinstance(value, str) else value
            for name, value in error.detail.items()
        }
        raise AgentError(shown_words_anywhere(error.message, actor), **detail) from error


def _here(source: str, app_name: str) -> tuple[Path, str | None]:
    """Returns the folder in which adkweb runs the agent of an app, and where that keeps its sessions."""
    agent = agents.agent_of(source, app_name)
    if agent is None:
        raise AgentError(agents.why_not_here(source, app_name))
    return agent.folder, session_uri(source)


def _artifacts(source: str) -> str | None:
    """Returns where the agents of a source keep artifacts; None for the folder beside them."""
    if demo.is_demo(source):
        return demo.artifacts().as_uri()
    named = settings.ARTIFACTS.get(source) or settings.ARTIFACTS.get("*")
    return named if named is None or "://" in named else Path(named).as_uri()


# --- The same database ------------------------------------------------------------------------------------------------


def check_same(server: client.Server, ref: SessionRef) -> None:
    """Raises AgentError unless a server reads a session from the database that adkweb shows."""
    if not _reads(server, ref):
        raise AgentError(
            _("The agent's server uses another database: it doesn't have this session as adkweb shows it.")
        )


def _reads(server: client.Server, ref: SessionRef) -> bool:
    """Returns whether the last events of a session are the same here and there."""
    app, user, name = (quote(each, safe="") for each in ref[1:])
    here = [view.id for view in timeline.events(ref, limit=_COMPARED, actor=SYSTEM).rows]
    try:
        there = client.get(server, f"/apps/{app}/users/{user}/sessions/{name}")
    except AgentError as error:
        if error.detail.get("status") == http.HTTPStatus.NOT_FOUND:
            return False
        raise
    try:
        ids = [str(event["id"]) for event in there["events"]]
    except (LookupError, TypeError) as error:
        raise AgentError(_("This isn't the answer of an ADK server.")) from error
    return here[-1] in ids and ids[-1] in here if here and ids else not here and not ids


# --- Looking whether it works -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Reached:
    """The result of a test of an app's server: google-adk's `version`, "" if it doesn't say; the `apps` that the actor may
    see, and whether the app is one of them; whether its code `loads`, and why not if adkweb started it; and whether it uses
    the `same` database, None if the app has no session yet."""

    version: str
    is_old: bool
    apps: list[str]
    has_app: bool
    loads: bool
    broken: str
    same: bool | None


def test(source: str, app_name: str, *, actor: Actor) -> Reached:
    """Looks whether the server of an app works, which starts a child that isn't running. Raises NotFound, NotAllowed, and
    AgentError if nothing is reached."""
    _check_may(source, app_name, actor)
    with told_to(actor):
        server = of(source, app_name)
        listed = client.get(server, "/list-apps")
        if not isinstance(listed, list):
            raise AgentError(_("This isn't the answer of an ADK server."))
        has_app = app_name in listed
        sessions = lists.sessions(source, app_name, limit=1, actor=SYSTEM).rows
        version = _version(server)
        why = _why_broken(server, app_name) if has_app else None
        return Reached(
            version,
            bool(version) and tuple(map(int, re.findall(r"\d+", version)[:2])) < children.OLDEST,
            actor.seen(source, sorted(map(str, listed))),
            has_app,
            why is None,
            "" if server.is_remote else shown_words_anywhere(why or "", actor),
            _reads(server, sessions[0].ref) if has_app and sessions else None,
        )


def _version(server: client.Server) -> str:
    try:
        told = client.get(server, "/version")
    except AgentError:  # an older one, or a proxy that lets only a few addresses through
        return ""
    return str(told.get("version", ""))[:40] if isinstance(told, dict) else ""


def _why_broken(server: client.Server, app_name: str) -> str | None:
    """Returns why the code of an agent can't be loaded, None if it can. This loads it, as the first message would."""
    try:
        client.get(server, f"/apps/{quote(app_name, safe='')}/app-info")
    except AgentError as error:
        if error.detail.get("status") == http.HTTPStatus.INTERNAL_SERVER_ERROR:
            return str(error.detail["why"])
    return None


# --- How it is --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Facts:
    """How the agent of an app runs: at an address (its `host`, and for admins of everything the `url` and the name of the
    `header`), here, in a `folder` by a `python`, which are for operators, or not at all (`why`).

    `since` is the start of the child that is running, `runs` how many runs it has now, `error` why the last one failed, at
    the time `failed`. `operates` tells whether the actor may test it, `operates_all` whether they are an operator of all
    apps of the folder."""

    source: str
    app_name: str
    why: str
    host: str = ""
    url: str = ""
    header: str = ""
    folder: str = ""
    python: str = ""
    since: datetime | None = None
    runs: int = 0
    error: str = ""
    failed: float | None = None
    operates: bool = False
    operates_all: bool = False
    is_here: bool = False

    @property
    def how(self) -> str:
        """Returns how it runs, in one word: address, here or none."""
        return "address" if self.host else "none" if self.why else "here"


def facts(source: str, app_names: Sequence[str], *, actor: Actor) -> list[Facts]:
    """Returns how the agents of some apps of a source run, as far as the actor may know."""
    where = registry.identity(source)
    names = actor.seen(source, app_names)
    addresses = {each.app_name: each for each in AgentAddress.objects.filter(where=where, app_name__in=names)}
    runs = Job.objects.filter(kind=RUN, where=where, app_name__in=names)
    at_work = runs.filter(state=WAITING).values_list("app_name").annotate(n=Count("pk")).order_by()
    counts = {str(name): int(n) for name, n in at_work}
    newest = runs.exclude(finished=None).values_list("app_name").annotate(at=Max("finished")).order_by()
    ended = {str(name): float(at) for name, at in newest}
    last = {job.app_name: job for job in runs.filter(finished__in=set(ended.values()))}
    rows = children.rows()
    return [
        _facts(source, name, addresses.get(name), counts.get(name, 0), last.get(name), rows, actor) for name in names
    ]


def _facts(
    source: str,
    app_name: str,
    at: AgentAddress | None,
    runs: int,
    last: Job | None,
    rows: Mapping[str, AgentChild],
    actor: Actor,
) -> Facts:
    operates = actor.may_write("operate", source, app_name)
    failed = last if operates and last and last.message and not last.stopped_by else None
    shown: dict[str, Any] = {
        "runs": runs,
        "error": shown_words(failed.message, actor, app_name) if failed else "",
        "failed": failed.finished if failed else None,
        "operates": operates,
    }
    why_here = agents.why_not_here(source, app_name)
    if at:
        host = outgoing.host_of(at.url)
        url, header = (at.url, at.header) if actor.runs_everything else ("", "")
        return Facts(source, app_name, "", host=host, url=url, header=header, is_here=not why_here, **shown)
    if why_here:
        return Facts(source, app_name, why_here, **shown)
    try:
        folder, sessions = _here(source, app_name)
    except AgentError as error:
        return Facts(source, app_name, error.message if operates else errors.unusable(), **shown)
    child = children.known(folder, sessions, rows)
    if operates:
        shown |= {"folder": str(folder), "python": children.interpreter(folder)}
    return Facts(
        source,
        app_name,
        "",
        since=child.since if child and child.is_running else None,
        operates_all=operates and _operates_all(folder, actor),
        is_here=True,
        **shown,
    )


def output(source: str, app_name: str, *, actor: Actor) -> list[str]:
    """Returns the last lines of what the agents of an app's folder have printed, as far as the actor may see them. Raises
    NotFound, NotAllowed unless they are an operator of all its apps, and AgentError if adkweb runs none there."""
    lines = children.output(*_shared(source, app_name, actor))
    return shown_words_anywhere("\n".join(lines), actor).split("\n") if lines else []


def stop(source: str, app_name: str, *, actor: Actor) -> None:
    """Ends the child that runs an app's folder: the next message starts it with the code as it is then. Raises as `output`,
    and Conflict while one of its agents runs."""
    if child := children.known(*_shared(source, app_name, actor)):
        child.stop(is_needed=Job.objects.filter(kind=RUN, where=registry.identity(source), state=WAITING).exists())


def _shared(source: str, app_name: str, actor: Actor) -> tuple[Path, str | None]:
    """Returns the folder and store of an app, after checking that an actor is an operator of all apps of the folder."""
    _check_may(source, app_name, actor)
    folder, sessions = _here(source, app_name)
    if not _operates_all(folder, actor):
        raise NotAllowed(_("Only operators of all apps in this folder can do this."))
    return folder, sessions


def _operates_all(folder: Path, actor: Actor) -> bool:
    """Returns whether an actor is an operator of all apps of a folder: their agents share one process."""
    if actor.may_everywhere("operate"):
        return True
    names = [path.name for path in folder.iterdir() if agents.is_folder(path)]
    others = ((each.alias, name) for each in registry.listed() for name in names)
    return not any(
        not actor.may("operate", source, name)
        and (agent := agents.agent_of(source, name))
        and agent.folder.resolve() == folder.resolve()
        for source, name in others
    )


def _check_sees(source: str, app_name: str, actor: Actor) -> None:
    if not actor.may_see(source, app_name):
        raise NotFound(_("There's no app “%(name)s” in any source.") % {"name": app_name})


def _check_may(source: str, app_name: str, actor: Actor) -> None:
    _check_sees(source, app_name, actor)
    actor.check_may("operate", source, app_name)


# --- The address ------------------------------------------------------------------------------------------------------


def set_address(source: str, app_name: str, *, url: str, header: str, value: str, actor: Actor) -> None:
    """Has a server at an address run the agent of an app. An empty `value` keeps the stored one, unless it was for another
    host or header. Raises NotAllowed unless the actor is an admin of everything, and Invalid, with its `field`."""
    _check_sees(source, app_name, actor)
    actor.check_runs_everything()
    actor.check_may_write(source)
    header, value = header.strip(), value.strip()
    endpoint = _checked(url.strip())
    before = agents.address_of(source, app_name)
    if header and (not _HEADER.fullmatch(header) or header.casefold() in _TAKEN):
        raise Invalid(_("This isn't the name of a header that signs in, such as Authorization."), field="header")
    if value and not _VALUE.fullmatch(value):
        raise Invalid(_("The value of a header can only contain letters, digits and signs of ASCII."), field="value")
    if value and not header:
        raise Invalid(_("Enter the name of the header."), field="header")
    origin = f"{endpoint.scheme}://{endpoint.authority}"
    is_kept = before is not None and before.header == header and f"{before.url}/".startswith(f"{origin}/")
    if header and not value and not is_kept:
        raise Invalid(_("Enter the value of the header for this host."), field="value")
    stored = at_rest.encrypted(value, _PURPOSE) if value else before.value if before and header else ""
    fields = {
        "url": origin + endpoint.target.rstrip("/"),
        "header": header,
        "value": stored,
        "changed": time.time(),
        "changed_by": actor.name,
    }
    act = "agent-address-changed" if before else "agent-address-set"
    with transaction.atomic():
        record(act, actor.name, source=source, app_name=app_name, host=endpoint.authority)
        where = registry.identity(source)
        AgentAddress.objects.update_or_create(where=where, app_name=app_name, defaults=fields)


def _checked(url: str) -> outgoing.Endpoint:
    endpoint = outgoing.read(url, HOSTS)
    if {"?", "#"} & set(url):
        raise Invalid(_("Enter the address of the server, without a query."), field="url")
    try:
        outgoing.resolve(endpoint)
    except OSError as error:
        raise Invalid(_("This host can't be found: %(error)s") % {"error": str(error)[:300]}, field="url") from error
    return endpoint


def remove_address(source: str, app_name: str, *, actor: Actor) -> None:
    """Lets adkweb run the agent of an app itself again, if it can. Raises NotFound, NotAllowed."""
    _check_sees(source, app_name, actor)
    actor.check_runs_everything()
    actor.check_may_write(source)
    at = agents.address_of(source, app_name)
    if at is None:
        raise NotFound(_("This app has no address."))
    with transaction.atomic():
        record("agent-address-removed", actor.name, source=source, app_name=app_name, host=outgoing.host_of(at.url))
        at.delete()
