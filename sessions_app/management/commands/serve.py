"""`adkweb [SOURCE …]`: opens the sources and serves the dashboard."""

import errno
import gc
import logging
import os
import socket
from argparse import ArgumentParser
from contextlib import suppress
from typing import Any, Final
from urllib.parse import quote

import uvicorn
from channels.routing import get_default_application
from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.urls import reverse

from ...access import actor, identities, sign_in
from ...domain.errors import SourceError
from ...live.sockets import FRAME_LENGTH
from ...privacy import exports
from ...sources import adopt_job, database, demo, identity, registry
from ...sources.finding import SESSION_FILE, in_shell
from ...transfer import uploads
from ...trying import whatif
from ._demo import copied, fill
from ._running import add_agents, add_python, use_agents
from ._server import Protocol, Server
from ._terminal import plain

_UNREAD_MILLISECONDS: Final = 30_000
_LAST_SECONDS: Final = 5  # for requests to finish when the server stops
_EVERYWHERE: Final = ("0.0.0.0", "::")  # noqa: S104
_UNENCRYPTED: Final = (
    "Passwords, cookies and tokens cross the network unencrypted. Put a TLS proxy in front of adkweb, and set "
    "ADKWEB_HTTPS=true: docs/operations.md."
)


class Command(BaseCommand):
    """Serves until it is interrupted."""

    help = "Open ADK's session databases in the browser. Other commands: adkweb help."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Defines [SOURCE …] [--host] [--port] [--read-only] [--adopt] [--demo] [--agents] [--python]"""
        parser.add_argument(
            "source",
            nargs="*",
            metavar="SOURCE",
            help="a folder (searched for .adk/session.db), a SQLite file or a postgresql:// URL; none: the demo",
        )
        parser.add_argument("--host", default="127.0.0.1", help="address to listen on (127.0.0.1)")
        parser.add_argument("--port", type=int, default=8000, help="port to listen on (8000)")
        parser.add_argument("--read-only", action="store_true", help="write nothing, adopt nothing")
        parser.add_argument(
            "--adopt", action="store_true", help="adopt PostgreSQL databases without asking; agents can keep writing"
        )
        parser.add_argument("--demo", action="store_true", help="also open the demo")
        add_agents(parser)
        add_python(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        """Prepares adkweb's own database, opens the sources, prints the link and serves."""
        if options["read_only"]:
            settings.READ_ONLY = True
        if settings.RUN_AGENTS is None:
            settings.RUN_AGENTS = sign_in.is_loopback(options["host"])
        if settings.BREAKPOINTS is None:
            settings.BREAKPOINTS = sign_in.is_loopback(options["host"])
        use_agents(options)
        call_command("migrate", verbosity=0, interactive=False)
        identities.keep_roles()
        uploads.sweep()
        exports.sweep()
        whatif.sweep()
        if not sign_in.is_loopback(options["host"]):
            _check_admin(options["host"])
        _allow(options["host"])
        listener = _listen(options["host"], options["port"])
        texts, is_new = list(options["source"]), not demo.file().exists()
        if options["demo"] or not (texts or settings.SOURCES):
            texts.append(str(copied()))
            settings.PRICES = demo.PRICES | settings.PRICES
        problems = [problem for text in texts for problem in self._open(text)]
        if problems and not (database.opened() or registry.folders() or settings.SOURCES):
            raise CommandError("\n".join(problems), returncode=2)
        for problem in problems:
            self.stderr.write(f"  {plain(problem)}")
        if options["adopt"] and not settings.READ_ONLY:
            self._adopt()
        if is_new and demo.is_alone():
            fill(demo.alias())
        self._announce(options["host"], listener.getsockname()[1])
        config = uvicorn.Config(
            get_default_application(),
            log_config=None,
            access_log=False,
            http=Protocol,
            server_header=False,
            ws_max_size=FRAME_LENGTH * 4,
            timeout_graceful_shutdown=_LAST_SECONDS,
            ws_per_message_deflate=False,  # it costs time and 300 KB per viewer; a proxy can compress for slow connections
        )
        gc.collect()
        gc.freeze()  # code lives as long as the server; collecting garbage in it would cost a tenth of the time
        with suppress(KeyboardInterrupt):  # Ctrl+C, which uvicorn passes on after it has stopped
            Server(config).run(sockets=[listener])

    def _open(self, text: str) -> list[str]:
        """Opens the sources that a user named, and returns what is wrong with them. Home shows that, too."""
        try:
            named = registry.add(text)
        except SourceError as error:
            registry.refuse(text, error.message)
            return [error.message]
        if not named:
            named_so = plain(text)
            self.stdout.write(f"  {named_so}: no {SESSION_FILE} yet; it appears as soon as an agent has written it")
        return [problem for source in named if (problem := self._open_source(source))]

    def _open_source(self, source: registry.Source) -> str:
        """Opens a source and returns "", or what is wrong with it."""
        try:
            database.open_source(source)
        except SourceError as error:
            return error.message
        notes = [identity.copy_of(source.alias)]
        if database.is_read_only(source.alias) and not settings.READ_ONLY:
            notes.append("read-only")
        shown = ", ".join(filter(None, notes))
        self.stdout.write(plain(f"  {source.alias:<16} {source.where}" + (shown and f"  ({shown})")))
        if version := database.newer(source.alias):
            self.stdout.write(
                f"{'':<18} has version {plain(version)} of ADK's schema, which this adkweb does not know: it may show less "
                "than there is"
            )
        if source.dialect.waits_for_owner and not (
            database.is_begun(source.alias) or database.is_read_only(source.alias)
        ):
            plan = adopt_job.plan(source.alias)
            self.stdout.write(
                f"{'':<18} not adopted, so it is only shown. To edit its sessions: adkweb adopt "
                f"{plain(in_shell(source.where))}\n"
                f"{'':<18} It adds a column, triggers and indexes to about {plan.events:,} events in about "
                f"{plan.seconds:,.0f} s while agents write; adkweb release takes them away."
            )
        return ""

    def _adopt(self) -> None:
        for source in registry.listed():
            if (
                source.dialect.waits_for_owner
                and database.is_open(source.alias)
                and not database.is_adopted(source.alias)
                and not database.why_shown(source.alias)
            ):
                adopt_job.start(source.alias, actor.SYSTEM)

    def _announce(self, host: str, port: int) -> None:
        address = _address(host, port)
        page = reverse("demo") if demo.is_alone() else ""
        if sign_in.is_loopback(host):
            address += f"sign-in/?token={quote(sign_in.sign_in_token())}" + (page and f"&next={page}")
        else:
            address += page.lstrip("/")
        self.stdout.write(f"\nadkweb is ready. Open {address}")
        self.stdout.write("The link signs you in once; Ctrl+C ends adkweb.\n" if sign_in.is_loopback(host) else "")
        if not (sign_in.is_loopback(host) or settings.HTTPS):
            self.stderr.write(_UNENCRYPTED)
        self.stdout.flush()
        logging.getLogger("adkweb").setLevel(logging.INFO)


def _allow(host: str) -> None:
    """Adds the host that adkweb listens on to ADKWEB_ALLOWED_HOSTS."""
    if host not in _EVERYWHERE:
        settings.ALLOWED_HOSTS = [*settings.ALLOWED_HOSTS, _in_url(host)]
    elif not os.environ.get("ADKWEB_ALLOWED_HOSTS"):  # this machine may have names that only its network knows
        settings.ALLOWED_HOSTS = ["*"]


def _address(host: str, port: int) -> str:
    """Returns the URL at which a browser finds adkweb."""
    names = [name for name in settings.ALLOWED_HOSTS if name[0] not in "*." and not sign_in.is_loopback(name)]
    if settings.HTTPS and names:  # through the proxy, on the proxy's port
        return f"https://{names[0]}/"
    if host in _EVERYWHERE:
        return f"http://{(names or [socket.gethostname()])[0]}:{port}/"
    return f"http://{_in_url(host)}:{port}/"


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _check_admin(host: str) -> None:
    if not sign_in.anybody_can():
        raise CommandError(
            f"{host} can be reached from other machines, but no one could sign in. Create an admin account first: "
            "adkweb createsuperuser",
            returncode=2,
        )


def _listen(host: str, port: int) -> socket.socket:
    """Returns a bound socket. This comes before any other work, because a port in use is the most common mistake."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):  # on Linux, closes the connection of a client that does not read
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _UNREAD_MILLISECONDS)
    try:
        listener.bind((host, port))
        listener.listen(2048)
    except OSError as error:
        advice = f" Choose another: --port {port + 1}" if error.errno == errno.EADDRINUSE and port < 65535 else ""
        raise CommandError(f"Cannot listen on {host}:{port}: {error.strerror}.{advice}", returncode=2) from error
    except OverflowError as error:
        raise CommandError(f"{port} is not a port: choose one from 1 to 65535.", returncode=2) from error
    return listener
