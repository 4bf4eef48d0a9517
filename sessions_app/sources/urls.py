"""Reads the texts that name a database, as people, agents and other programs write them.

    read("sqlite+aiosqlite:///agent.db?mode=ro")    # File(path=/home/ana/agent.db, read_only=True)
    read("postgresql+asyncpg://ana:secret@db/shop?ssl=require")
    # Server(where="postgresql://ana@db/shop", name="shop", parameters={"host": "db", "sslmode": "require", …})

Options of other drivers are translated if libpq has them; those that only tune a driver are ignored; any other option
is refused by name. Nothing is opened here, and no error quotes a password."""

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, quote, unquote

from django.utils.translation import gettext as _
from psycopg.pq import Conninfo

from ..domain.errors import SourceError

_URL: Final = re.compile(r"([a-z][a-z0-9+.-]*)://([^/?#]*)([^?#]*)(?:\?([^#]*))?(?:#(.*))?", re.IGNORECASE | re.DOTALL)
_BEGINS: Final = re.compile(r"[a-z][a-z0-9+.-]*://|(jdbc|file|sqlite|postgres(ql)?)(\+\w+)?:", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class File:
    """A SQLite file. With `immutable`, no one writes to it while it is open, so it needs no lock and no log."""

    path: Path
    read_only: bool = False
    immutable: bool = False

    @property
    def uri(self) -> str:
        """Returns the file as SQLite's connect() takes it. It doesn't create a missing file."""
        mode = "ro" if self.read_only else "rw"
        return f"{self.path.as_uri()}?mode={mode}{'&immutable=1' if self.immutable else ''}"


@dataclass(frozen=True, slots=True)
class Server:
    """A database of a PostgreSQL server.

    `where` is a URL without its password and without options that don't identify the database. `name` is empty if a
    `service` knows it. `parameters` are libpq's. `prepares`: statements may be prepared."""

    where: str
    name: str
    parameters: dict[str, str]
    read_only: bool = False
    prepares: bool = True


def is_url(text: str) -> bool:
    """Returns whether a text is meant as a URL, such as `file:x.db` or `jdbc:postgresql://host/db`, and not as a
    path."""
    return _BEGINS.match(text) is not None


def read(text: str) -> File | Server:
    """Returns the database that a path or URL names. Raises SourceError, which says how to write it."""
    if not is_url(text):
        return File(Path(text).expanduser().absolute())
    url = re.sub("^jdbc:", "", text.strip(), flags=re.IGNORECASE)
    scheme, _colon, rest = url.partition(":")
    kind = scheme.lower().partition("+")[0]  # ADK's URLs name a driver: postgresql+asyncpg://
    if kind in ("sqlite", "file"):
        return _file(kind, rest)
    if kind in ("postgresql", "postgres"):
        return _server(url)
    raise SourceError(
        _("%(scheme)s:// isn't supported: a source is a folder, a SQLite file or a postgresql:// URL. %(advice)s")
        % {"scheme": scheme, "advice": _advice(kind)}
    )


def _advice(kind: str) -> str:
    """Returns advice for people whose sessions are where adkweb can't open them."""
    if kind == "agentengine":
        return _(
            "To import its sessions into a database, run adkweb create new.db, then adkweb import "
            "'agentengine://projects/P/locations/L/reasoningEngines/ID?app=NAME' --into new.db"
        )
    if kind in ("http", "https", "adkweb"):
        return _("This is an address for agents. Use the address of the database behind it.")
    return _(
        "If your agent keeps its sessions elsewhere, have it use HttpSessionService, or import the sessions "
        "with adkweb import (see docs/agents.md and docs/transfer.md)."
    )


def without_password(url: str) -> str:
    """Returns a URL without its password and options: postgresql://user@host/name.

    Returns only postgresql://… for a badly quoted URL, because any part of it may belong to the password."""
    parts = _URL.fullmatch(re.sub("^jdbc:", "", url, flags=re.IGNORECASE))
    if not parts or _is_badly_quoted(parts):
        return re.sub(r"(?s)(:/*).*", r"\1…", url, count=1) if "@" in url or "?" in url else url
    user, at, host = parts[2].rpartition("@")
    scheme = "postgresql" if parts[1].lower().startswith("postgres") else parts[1]
    return f"{scheme}://{user.partition(':')[0]}{at}{host}{parts[3]}"


def _is_badly_quoted(parts: re.Match[str]) -> bool:
    """Returns whether the password has an unquoted character that ends the host: postgresql://u:pa/ssw@host/db has the
    host “u”."""
    options = [option for option in (parts[4] or "").split("&") if "=" not in option]
    return ":" in parts[2] and "@" in "".join([parts[3], parts[5] or "", *options])


# --- SQLite -----------------------------------------------------------------------------------------------------------


# Of Python's and aiosqlite's connect(), and of SQLite: adkweb has its own, or they do not matter to it.
_TUNES_SQLITE: Final = frozenset(
    {"timeout", "check_same_thread", "isolation_level", "detect_types", "cached_statements", "uri", "cache", "psow"}
)


def _file(kind: str, rest: str) -> File:
    """Reads what follows `sqlite:` or `file:`. SQLAlchemy's URL may hold SQLite's:
    sqlite:///file:agent.db?mode=ro&uri=true"""
    name, _question, query = rest.partition("?")
    if kind == "sqlite":
        name = re.sub("^///", "", name, count=1) if name.startswith("///") else _two_slashes(name)
        if name.startswith("file:"):
            kind, name = "file", name.removeprefix("file:")
    if kind == "file":
        name = name.partition("#")[0]
        if name.startswith("//"):
            host, _slash, name = name[2:].partition("/")
            if host not in ("", "localhost"):
                raise SourceError(
                    _("file://%(host)s/… is a file on another machine. For a file on this one, use file:///%(path)s")
                    % {"host": host, "path": name}
                )
            name = f"/{name}"
    if name in ("", ":memory:", "/"):
        raise SourceError(_("This URL refers to an in-memory database, not a file. For a file, use sqlite:///agent.db"))
    path = Path(name).expanduser()
    # SQLAlchemy takes the name as it is written, SQLite and most people quote it.
    path = path if kind == "sqlite" and path.exists() else Path(unquote(name)).expanduser()
    options = dict(_pairs(query.partition("#")[0], "sqlite:///…"))
    mode, immutable = options.pop("mode", "rw"), _yes("immutable", options.pop("immutable", "0"))
    if mode not in ("ro", "rw", "rwc"):
        raise SourceError(_("mode=%(mode)s isn't supported. Use mode=ro to open the file read-only.") % {"mode": mode})
    for option in options.keys() - _TUNES_SQLITE:
        raise SourceError(
            _("Unknown option “%(option)s” for a SQLite file. Use mode=ro or immutable=1.") % {"option": option}
        )
    return File(path.absolute(), read_only=immutable or mode == "ro", immutable=immutable)


def _two_slashes(name: str) -> str:
    """Returns the path of a URL with fewer than three slashes: sqlite:agent.db, as JDBC writes it, or
    sqlite://srv/agent.db, which SQLAlchemy refuses, and which often means sqlite:////srv/agent.db."""
    if not name.startswith("//"):
        return name
    path = name[1:]
    if name[2:] and not Path(path).exists():
        raise SourceError(
            _(
                "sqlite:%(name)s has too few slashes. Use sqlite:///%(path)s for a relative path, "
                "sqlite:////%(path)s for an absolute one."
            )
            % {"name": name, "path": name[2:]}
        )
    return path if name[2:] else ""


# --- PostgreSQL -------------------------------------------------------------------------------------------------------

_LIBPQ: Final = {option.keyword.decode() for option in Conninfo.get_defaults()} - {"replication"}
# Names of the same things in JDBC, asyncpg, pg8000 and node-postgres. All names are compared in small letters.
_ALSO: Final = {
    "applicationname": "application_name",
    "database": "dbname",
    "username": "user",
    "connecttimeout": "connect_timeout",
    "logintimeout": "connect_timeout",
    "timeout": "connect_timeout",
    "targetservertype": "target_session_attrs",
    "ssl": "sslmode",
    "unix_sock": "host",
    "currentschema": "search_path",
}
_SSL: Final = {
    "true": "require",
    "1": "require",
    "on": "require",
    "false": "disable",
    "0": "disable",
    "no-verify": "require",
}
_SERVERS: Final = {
    "master": "primary",
    "slave": "standby",
    "secondary": "standby",
    "preferslave": "prefer-standby",
    "prefersecondary": "prefer-standby",
    "preferprimary": "any",
}
_TRUTHS: Final = {
    "true": True,
    "1": True,
    "on": True,
    "yes": True,
    "false": False,
    "0": False,
    "off": False,
    "no": False,
}
# They tune the driver or the pool of another program.
_TUNES: Final = frozenset(
    {
        *("command_timeout", "max_cached_statement_lifetime", "max_cacheable_statement_size", "async_fallback"),
        *("prepared_statement_name_func", "connection_limit", "pool_timeout", "pool_size", "max_overflow"),
        *("pool_recycle", "pool_pre_ping", "max", "idletimeoutmillis", "connectiontimeoutmillis", "socket_timeout"),
        *("sockettimeout", "tcpkeepalive", "tcp_keepalive", "tcpnodelay", "rewritebatchedinserts", "stringtype"),
        *("preparedstatementcachequeries", "preparedstatementcachesizemib", "loadbalancehosts", "hostrecheckseconds"),
        *("defaultrowfetchsize", "binarytransfer", "assumeminserverversion", "uselibpqcompat", "supa"),
    }
)
_IS_READ_ONLY: Final = re.compile(r"default_transaction_read_only\s*=\s*(on|true|yes|1)\b", re.IGNORECASE)
_TELLS: Final = ("hostaddr", "service", "options", "target_session_attrs")  # which database it is, beside host and name


def _server(url: str) -> Server:
    where, parts = without_password(url), _URL.fullmatch(url)
    if parts is None:
        raise SourceError(_("This isn't a valid URL. Use postgresql://user@host/database."))
    if _is_badly_quoted(parts) or parts[5]:
        raise SourceError(_("%(url)s: in a password, write / ? # @ as %%2F %%3F %%23 %%40.") % {"url": where})
    account, _at, hosts = parts[2].rpartition("@")
    user, _colon, password = account.partition(":")
    name = parts[3].removeprefix("/")
    if "/" in name:
        raise SourceError(
            _(
                "%(url)s: write “/” in a name as %%2F. Specify a socket folder as an option: "
                "postgresql://user@/database?host=/cloudsql/project:region:instance"
            )
            % {"url": where}
        )
    known = _Known(where)
    given = {"user": unquote(user), "password": unquote(password), "dbname": unquote(name)}
    parameters = {key: value for key, value in given.items() if value} | known.read(parts[4] or "")
    addresses = _addresses(hosts, parameters, where)
    parameters |= {
        "host": ",".join(host for host, _port in addresses),
        "port": ",".join(port for _host, port in addresses),
    }
    parameters = {key: value for key, value in parameters.items() if value.strip(",")}
    database = parameters.pop("dbname", "")
    if not database and "service" not in parameters:
        raise SourceError(_("%(url)s doesn't name a database: use postgresql://user@host/database") % {"url": where})
    read_only = known.read_only or _IS_READ_ONLY.search(parameters.get("options", "")) is not None
    read_only = read_only or parameters.get("target_session_attrs") in ("read-only", "standby")
    told: dict[str, str] = {key: parameters[key] for key in _TELLS if key in parameters}
    told |= {"readOnly": "true"} if known.read_only else {}
    where = _label(database, addresses, parameters, told)
    return Server(where, database, parameters, read_only, known.prepares)


def _addresses(hosts: str, parameters: dict[str, str], where: str) -> list[tuple[str, str]]:
    """Returns the hosts and their ports. Those of options win over those before the “?”."""
    addresses = [_address(each, where) for each in hosts.split(",")]
    if "host" in parameters:
        named = [_address(each, where) for each in parameters["host"].split(",")]
        ports = (
            [port for _host, port in named] if any(port for _host, port in named) else [port for _h, port in addresses]
        )
        addresses = [(host, port) for (host, _port), port in zip(named, [*ports, *[""] * len(named)], strict=False)]
    if "port" in parameters:
        ports = [_port(each, where) for each in parameters["port"].split(",")]
        ports = ports * len(addresses) if len(ports) == 1 else ports
        if len(ports) != len(addresses):
            raise SourceError(_("%(url)s: the number of ports must match the number of hosts.") % {"url": where})
        addresses = [(host, port) for (host, _port), port in zip(addresses, ports, strict=True)]
    return addresses


class _Known:
    """The options of a URL: libpq's in `read`, and what the others mean."""

    def __init__(self, where: str) -> None:
        self.read_only, self.prepares = False, True
        self._where = where
        self._special: dict[str, Callable[[str, str], None]] = {
            "readonly": self._readonly,
            "pgbouncer": self._pooled,
            "prepared_statement_cache_size": self._prepared,
            "statement_cache_size": self._prepared,
            "preparethreshold": self._prepared,
        }

    def read(self, query: str) -> dict[str, str]:
        """Returns libpq's parameters. Raises SourceError for an unknown option."""
        values: dict[str, str] = {}
        paths = []
        for written, value in _pairs(query, self._where):
            option = _ALSO.get(written.lower(), written.lower())
            if option in self._special:
                self._special[option](written, value)
            elif option == "search_path":
                paths.append(value)
            elif option == "schema":  # of Prisma and MikroORM: one name, as it is
                paths.append('"{}"'.format(value.replace('"', '""')))
            elif option in _LIBPQ:
                if value := _as_libpq_says(option, value):
                    values[option] = f"{values[option]},{value}" if option == "host" and option in values else value
            elif option not in _TUNES:
                raise SourceError(
                    _(
                        "%(url)s: unknown option “%(option)s”. You can use libpq's options, such as sslmode, "
                        "and search_path. For a server setting, write options=-c%%20NAME%%3DVALUE. Leave out "
                        "options that only tune a driver."
                    )
                    % {"url": self._where, "option": written}
                )
        if paths := [path for path in paths if path not in ("", '""')]:
            escaped = re.sub(r"([\\\s])", r"\\\1", paths[-1])
            values["options"] = f"{values.get('options', '')} -c search_path={escaped}".strip()
        return values

    def _readonly(self, name: str, value: str) -> None:
        self.read_only = _yes(name, value)

    def _pooled(self, name: str, value: str) -> None:
        self.prepares = self.prepares and not _yes(name, value)

    def _prepared(self, _name: str, value: str) -> None:
        self.prepares = self.prepares and value != "0"


def _as_libpq_says(option: str, value: str) -> str:
    """Returns a value of another driver's as libpq knows it."""
    if option == "sslmode":
        return _SSL.get(value.lower(), value.lower())
    if option == "target_session_attrs":
        return _SERVERS.get(value.lower(), value)
    if option == "connect_timeout":
        try:
            return str(math.ceil(float(value)))
        except (ValueError, OverflowError):
            return value  # libpq says what is wrong with it
    return value


def _address(text: str, where: str) -> tuple[str, str]:
    """Returns a host and its port, or the folder of a socket and its number."""
    text, port = unquote(text) if text.lower().startswith(("%2f", "/")) else text, ""
    if text.startswith("/"):  # colons belong to the name, but for a number at the end
        folder, _slash, file = text.rpartition("/")
        if file.startswith(".s.PGSQL."):  # the socket itself, as pg8000 wants it
            return folder, _port(file.removeprefix(".s.PGSQL."), where)
        match = re.fullmatch(r"(.*?)(?::(\d+))?", text, re.DOTALL)
        assert match  # noqa: S101  it matches any text
        return match[1], _port(match[2] or "", where)
    if text.startswith("["):
        host, closed, port = text[1:].partition("]")
        if not closed or port[:1] not in ("", ":"):
            raise SourceError(_("This isn't a valid URL: %(error)s") % {"error": where})
        port = port.removeprefix(":")
    elif text.count(":") > 1:
        raise SourceError(_("%(url)s: put an IPv6 address in brackets: [::1]:5432") % {"url": where})
    else:
        host, _colon, port = text.partition(":")
    host = unquote(host)
    try:
        host.removesuffix(".").encode("idna")
    except UnicodeError as error:
        raise SourceError(_("%(url)s: this isn't a valid host name.") % {"url": where}) from error
    return host, _port(port, where)


def _port(text: str, where: str) -> str:
    if text and not (text.isascii() and text.isdigit() and 0 < int(text) < 65536):
        raise SourceError(_("%(url)s: the port isn't a number.") % {"url": where})
    return text


def _label(name: str, addresses: Iterable[tuple[str, str]], parameters: dict[str, str], told: dict[str, str]) -> str:
    """Returns a URL that names the same database, without a password."""
    user = f"{quote(parameters['user'], safe='')}@" if "user" in parameters else ""
    if any(host.startswith(("/", "@")) for host, _port in addresses):
        netloc = ""
        told = {key: parameters[key] for key in ("host", "port") if key in parameters} | told
    else:
        netloc = ",".join(
            f"{f'[{host}]' if ':' in host else quote(host, safe='')}{port and ':'}{port}" for host, port in addresses
        )
    query = "&".join(f"{key}={quote(value, safe='/:,')}" for key, value in told.items())
    return f"postgresql://{user}{netloc}/{quote(name, safe='')}{query and '?'}{query}"


# --- Options ----------------------------------------------------------------------------------------------------------


def _pairs(query: str, where: str) -> list[tuple[str, str]]:
    for option in filter(None, query.split("&")):
        if "=" not in option:
            raise SourceError(_("%(url)s: the option “%(option)s” has no value.") % {"url": where, "option": option})
    return parse_qsl(query, keep_blank_values=True)


def _yes(name: str, value: str) -> bool:
    try:
        return _TRUTHS[value.lower()]
    except KeyError:
        raise SourceError(_("The option %(option)s must be true or false.") % {"option": name}) from None
