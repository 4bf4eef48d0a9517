"""Reads adkweb's environment variables, once. docs/settings.md explains each name."""

import json
import re
import secrets
from contextlib import suppress
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from urllib.parse import unquote, urlsplit

import environ
import platformdirs

from sessions_app.access import private_files
from sessions_app.domain import roles

env = environ.Env()


def _sources(text: str) -> list[str]:
    try:
        named = json.loads(text)
    except json.JSONDecodeError as error:
        raise SystemExit(f'ADKWEB_SOURCES is not a JSON list like ["./agents", "other.db"]: {error}') from error
    return [str(name) for name in named] if isinstance(named, list) else [str(named)]


def _prices(text: str) -> dict[str, tuple[float, float]]:
    """Reads ADKWEB_PRICES: JSON, or the name of a file with it."""
    try:
        given = text if text.lstrip()[:1] in ("{", "") else Path(text).read_text("utf-8")
        return {str(model): (float(each[0]), float(each[1])) for model, each in json.loads(given or "{}").items()}
    except (OSError, ValueError, TypeError, AttributeError, LookupError) as error:
        raise SystemExit(
            f'ADKWEB_PRICES is neither JSON like {{"gemini-2.5-flash": [0.30, 2.50]}} nor a file with it: {error}'
        ) from error


def artifacts_in(text: str) -> dict[str, str]:
    """Reads ADKWEB_ARTIFACTS: a folder or bucket for all sources, which is then named `*`, or JSON with one for
    each."""
    try:
        given = json.loads(text) if text.lstrip()[:1] == "{" else {"*": text} if text else {}
        named = {str(source): _storage(named) for source, named in given.items()}
    except (ValueError, TypeError, AttributeError) as error:
        raise SystemExit(
            f'ADKWEB_ARTIFACTS is neither a folder, a bucket nor JSON like {{"prod": "/srv/artifacts"}}: {error}'
        ) from error
    return named


def _agents(text: str) -> dict[str, str]:
    """Reads ADKWEB_AGENTS: JSON with the folder of agents of each source, by alias."""
    try:
        return {str(source): str(Path(folder).expanduser().absolute()) for source, folder in json.loads(text).items()}
    except (ValueError, TypeError, AttributeError) as error:
        raise SystemExit(f'ADKWEB_AGENTS is not JSON like {{"prod": "/srv/agents"}}: {error}') from error


def _storage(text: str) -> str:
    """Returns a bucket as gs://name, or the absolute path of a folder, which may be a URL: google-adk takes
    file:///srv."""
    scheme, separator, path = text.partition("://")
    if scheme == "gs" and re.fullmatch(r"[a-z0-9][a-z0-9._-]+/?", path):
        return f"gs://{path.rstrip('/')}"
    if scheme == "gs":
        raise ValueError(f"{text} is not a bucket: a bucket is gs://name, without a folder")
    if separator and scheme != "file":
        raise ValueError(f"{scheme}:// cannot be read; a folder, file:// or gs:// can")
    return str(Path(unquote(path) if separator else text).expanduser().absolute())


def roles_of_groups(text: str) -> list[tuple[str, str, str]]:
    """Reads ADKWEB_OIDC_ROLES, `support=viewer:booking*,admins=admin`: groups of the provider, their roles and apps."""
    named = []
    for part in filter(None, map(str.strip, text.split(","))):
        group, _equals, right = part.partition("=")
        role, _colon, apps = right.partition(":")
        group, role, apps = group.strip(), role.strip(), apps.strip() or "*"
        if not (0 < len(group) <= 150 and len(apps) <= 200 and part.isprintable() and role in roles.ROLES):
            raise SystemExit(
                f"ADKWEB_OIDC_ROLES: {part!r} is not like support=viewer:booking* or admins=admin; roles are "
                f"{', '.join(roles.ROLES)}."
            )
        named.append((group, role, apps if roles.ROLES[role].permission else "*"))
    return named


def check_provider(issuer: str, **needed: object) -> str:
    """Returns the host of the identity provider, or "" if none is named. Ends adkweb if one of its settings is
    missing."""
    if not issuer:
        return ""
    parts = urlsplit(issuer)
    local = parts.hostname in ("localhost", "127.0.0.1", "::1")
    if not parts.hostname or parts.query or len(issuer) > 200 or parts.scheme not in ("https", "http"[: 4 * local]):
        raise SystemExit(
            f"ADKWEB_OIDC_ISSUER is {issuer!r}; it must be an address such as https://id.example.com/realms/team."
        )
    if missing := [f"ADKWEB_OIDC_{name}" for name, value in needed.items() if not value]:
        raise SystemExit(f"ADKWEB_OIDC_ISSUER is set, so set {' and '.join(missing)}, too.")
    return parts.hostname


def _one_of(name: str, *values: str) -> str:
    """Reads a setting that is one of these words, by default the first."""
    value = env.str(name, default=values[0])
    if value not in values:
        raise SystemExit(f"{name} is {value!r}; it must be one of {', '.join(values)}.")
    return str(value)


def _seconds(name: str, hours: float) -> float:
    """Reads a setting in hours, which is more than 0."""
    seconds: float = env.float(name, default=hours) * 3600
    if not 0 < seconds < float("inf"):
        raise SystemExit(f"{name} is {env.str(name)}; it must be a number of hours above 0.")
    return seconds


def syslog(text: str) -> tuple[str, str, int] | None:
    """Reads ADKWEB_AUDIT_SYSLOG: udp://host:514, tcp://host:601 or unix:///dev/log; None if it is empty."""
    try:
        parts = urlsplit(text)
        if parts.scheme == "unix" and not parts.netloc and len(parts.path) > 1:
            return "unix", parts.path, 0
        if parts.scheme in ("udp", "tcp") and parts.hostname and not (parts.path.strip("/") or "@" in parts.netloc):
            return parts.scheme, parts.hostname, 514 if parts.port is None else parts.port
    except ValueError:
        pass  # a port that is none
    if text:
        raise SystemExit(
            f"ADKWEB_AUDIT_SYSLOG is {text!r}; it must be like udp://host:514, tcp://host:601 or unix:///dev/log."
        )
    return None


def check_secret(webhook: str, secret: str) -> None:
    """Ends adkweb if the audit is posted without a strong secret."""
    if webhook and len(secret) < 16:
        raise SystemExit("ADKWEB_AUDIT_WEBHOOK needs ADKWEB_AUDIT_WEBHOOK_SECRET, too, of 16 characters or more.")


def _networks(name: str) -> list[IPv4Network | IPv6Network]:
    """Reads a setting that is a list of addresses and networks."""
    try:
        return [ip_network(text.strip()) for text in env.list(name, default=[]) if text.strip()]
    except ValueError as error:
        raise SystemExit(
            f"{name} must be a list of addresses and networks like 10.1.2.3,10.4.0.0/16: {error}"
        ) from error


DATA_DIR = Path(env.str("ADKWEB_DATA_DIR", default=platformdirs.user_data_dir("adkweb")))
DATABASE_URL = env.str("ADKWEB_DATABASE_URL", default=f"sqlite:///{DATA_DIR / 'adkweb.db'}")
SOURCES = _sources(env.str("ADKWEB_SOURCES", default="[]"))
READ_ONLY = env.bool("ADKWEB_READ_ONLY", default=False)
# How long a start waits for adkweb's own database.
WAIT_SECONDS = env.float("ADKWEB_WAIT_SECONDS", default=30.0)
POOL_SIZE = env.int("ADKWEB_POOL_SIZE", default=20)
# None: wherever the server itself answers, not a pooler.
PREPARED_STATEMENTS = env.bool("ADKWEB_PREPARED_STATEMENTS", default=None)
SILENCE_SECONDS = env.float("ADKWEB_SILENCE_SECONDS", default=300.0)
SQLITE_STATE = _one_of("ADKWEB_SQLITE_STATE", "auto", "merged", "replaced")
PRICES = _prices(env.str("ADKWEB_PRICES", default=""))
# The folders of agents that adkweb may start, by source, and whether it may; None: if it answers this machine alone.
AGENTS = _agents(env.str("ADKWEB_AGENTS", default="{}"))
RUN_AGENTS: bool | None = env.bool("ADKWEB_RUN_AGENTS", default=None)
# Agents may pause at breakpoints; None: as above.
BREAKPOINTS: bool | None = env.bool("ADKWEB_BREAKPOINTS", default=None)
ARTIFACTS = artifacts_in(env.str("ADKWEB_ARTIFACTS", default=""))
AGENT_PYTHON = env.str("ADKWEB_AGENT_PYTHON", default="")
SETTLE_SECONDS = env.float("ADKWEB_SETTLE_SECONDS", default=2.0)
SECRET_KEY_FALLBACKS = env.list("ADKWEB_SECRET_KEY_FALLBACKS", default=[])
REDIS_URL = env.str("ADKWEB_REDIS_URL", default="")
MAX_UPLOAD = env.int("ADKWEB_MAX_UPLOAD", default=1024 * 1024 * 1024)
IDLE_SECONDS = _seconds("ADKWEB_IDLE_HOURS", 14 * 24.0)
SIGN_IN_SECONDS = _seconds("ADKWEB_SIGN_IN_HOURS", 30 * 24.0)
# Requests a minute; 0 is no limit.
RATE_PERSON = env.int("ADKWEB_RATE_PERSON", default=3_000)
RATE_TOKEN = env.int("ADKWEB_RATE_TOKEN", default=60_000)
RATE_ADDRESS = env.int("ADKWEB_RATE_ADDRESS", default=600)
OIDC_ISSUER = env.str("ADKWEB_OIDC_ISSUER", default="")
OIDC_CLIENT_ID = env.str("ADKWEB_OIDC_CLIENT_ID", default="")
OIDC_CLIENT_SECRET = env.str("ADKWEB_OIDC_CLIENT_SECRET", default="")
OIDC_ROLES = roles_of_groups(env.str("ADKWEB_OIDC_ROLES", default="") if OIDC_ISSUER else "")
OIDC_GROUPS_CLAIM = env.str("ADKWEB_OIDC_GROUPS_CLAIM", default="groups")
OIDC_SCOPES = env.str("ADKWEB_OIDC_SCOPES", default="openid profile email").split()
_host = check_provider(OIDC_ISSUER, CLIENT_ID=OIDC_CLIENT_ID, CLIENT_SECRET=OIDC_CLIENT_SECRET, ROLES=OIDC_ROLES)
OIDC_NAME = env.str("ADKWEB_OIDC_NAME", default="") or _host if OIDC_ISSUER else ""
# Ends sign-ins without one, and asks for one at the next.
REQUIRE_SECOND_FACTOR = env.bool("ADKWEB_REQUIRE_SECOND_FACTOR", default=False)
DEBUG = env.bool("ADKWEB_DEBUG", default=False)
ALLOWED_HOSTS = env.list("ADKWEB_ALLOWED_HOSTS", default=["127.0.0.1", "localhost", "[::1]"])
# An event may be large. The limit keeps a request from filling the memory.
MAX_BODY = env.int("ADKWEB_MAX_BODY", default=16 * 1024 * 1024)
HTTPS = env.bool("ADKWEB_HTTPS", default=False)
# Hosts that webhooks may be sent to although they are not public, or without https.
WEBHOOK_HOSTS = env.list("ADKWEB_WEBHOOK_HOSTS", default=[])
# Hosts where a server may run agents although they are not public, or without https.
AGENT_HOSTS = env.list("ADKWEB_AGENT_HOSTS", default=[])
AUDIT_SYSLOG = syslog(env.str("ADKWEB_AUDIT_SYSLOG", default=""))
AUDIT_WEBHOOK = env.str("ADKWEB_AUDIT_WEBHOOK", default="")
AUDIT_WEBHOOK_SECRET = env.str("ADKWEB_AUDIT_WEBHOOK_SECRET", default="")
check_secret(AUDIT_WEBHOOK, AUDIT_WEBHOOK_SECRET)
TRUSTED_ORIGINS = env.list("ADKWEB_TRUSTED_ORIGINS", default=[])
METRICS = _networks("ADKWEB_METRICS")  # addresses that may read /metrics without a token


def _secret_key() -> str:
    """Returns the key that signs cookies: the one given, or one that is made once and kept beside adkweb's own data."""
    given: str = env.str("ADKWEB_SECRET_KEY", default="")
    if given:
        return given
    file = DATA_DIR / "secret-key"
    try:
        return file.read_text()
    except FileNotFoundError:
        pass
    try:
        private_files.new_file(file)
        file.write_text(secrets.token_urlsafe(48))
    except FileExistsError:  # another process was faster
        pass
    except OSError as error:
        raise SystemExit(
            f"adkweb cannot keep its own files in {DATA_DIR}: {error}. Name another folder in ADKWEB_DATA_DIR."
        ) from error
    return file.read_text()


with suppress(OSError):  # code that needs the folder reports what is wrong with it
    private_files.keep_folder(DATA_DIR)
SECRET_KEY = _secret_key()
