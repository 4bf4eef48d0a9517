"""Says where agents keep their sessions, in the words of google-adk."""

from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode

from django.db import connections
from django.utils.translation import gettext as _

from ..domain.errors import AgentError
from ..sources import agents, database
from ..sources.finding import SESSION_FILE

# libpq's options that asyncpg reads, too. It takes others for settings of the server.
_OPTIONS: Final = frozenset(
    {
        *("sslmode", "sslcert", "sslkey", "sslrootcert", "sslcrl", "sslpassword", "sslnegotiation", "passfile"),
        *("ssl_min_protocol_version", "ssl_max_protocol_version", "service", "target_session_attrs", "krbsrvname"),
        *("gsslib", "options", "application_name"),
    }
)


def session_uri(alias: str) -> str | None:
    """Returns the URI with which google-adk opens a source; None for the `.adk/session.db` in an agent's own folder.

    It may hold a password. Raises AgentError and SourceError."""
    known: dict[str, Any] = connections.databases[alias]
    if "path" not in known["ADKWEB"]:
        return _of_server(known)
    path = Path(known["ADKWEB"]["path"])
    folder = path.parent.parent
    if path.parts[-2:] == SESSION_FILE.parts and agents.is_agent(folder):
        return None
    with database.using(alias) as db, db.cursor() as cursor:
        cursor.execute("SELECT 1 FROM sqlite_master WHERE name = 'adk_internal_metadata'")
        of_database_service = cursor.fetchone() is not None
    if of_database_service:
        return f"sqlite+aiosqlite:///{quote(str(path))}"
    if {"?", "#"} & set(str(path)):
        raise AgentError(_("google-adk can't open a file with ? or # in its path: %(path)s") % {"path": path})
    return f"sqlite:///{path}"


def _of_server(known: dict[str, Any]) -> str:
    """Returns a URI whose option `dsn` is a URL that asyncpg reads by itself: SQLAlchemy knows fewer options."""
    named = {"user": "USER", "password": "PASSWORD", "host": "HOST", "port": "PORT", "dbname": "NAME"}
    options = {option: known[key] for option, key in named.items() if known[key]}
    options |= {option: value for option, value in known["OPTIONS"].items() if option in _OPTIONS}
    return f"postgresql+asyncpg:///?{urlencode({'dsn': f'postgresql://?{urlencode(options)}'})}"
