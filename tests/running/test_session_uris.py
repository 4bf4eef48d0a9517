"""google-adk opens the same database as adkweb, whatever its name, password and options are."""

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from google.adk.cli.utils.service_factory import create_session_service_from_options

from sessions_app.access.actor import SYSTEM
from sessions_app.domain.errors import AgentError
from sessions_app.running.session_uris import session_uri
from sessions_app.sources import database, registry
from sessions_app.writes.sessions import create_session
from tests.conftest import FORMATS


@pytest.mark.parametrize("form", FORMATS)
def test_google_adk_finds_the_sessions_that_adkweb_shows(
    form: str, new_store: Callable[[str], str], open_source: Callable[..., str], tmp_path: Path
) -> None:
    named = new_store(form)
    if form == "postgresql":
        named += "?search_path=public&sslmode=prefer&application_name=agents&connect_timeout=9"
    else:
        named = shutil.move(named, tmp_path / "ü my 50%41 agents.db")
    alias = open_source(str(named))
    create_session(alias, "helper", "ana", actor=SYSTEM, session_id="s1")
    service = create_session_service_from_options(base_dir=tmp_path, session_service_uri=session_uri(alias))

    async def ask() -> object:
        try:
            return await service.get_session(app_name="helper", user_id="ana", session_id="s1")
        finally:
            await service.close()

    assert asyncio.run(ask())


def test_the_file_in_an_agents_own_folder_needs_no_uri(
    tmp_path: Path, new_store: Callable[[str], str], open_source: Callable[..., str]
) -> None:
    file = tmp_path / "helper" / ".adk" / "session.db"
    file.parent.mkdir(parents=True)
    shutil.copy(new_store("sqlite"), file)
    alias = open_source(str(file))
    assert session_uri(alias) == f"sqlite:///{file}"
    (tmp_path / "helper" / "agent.py").touch()
    assert session_uri(alias) is None


def test_a_path_that_google_adk_would_misread_is_refused(
    tmp_path: Path, new_store: Callable[[str], str], open_source: Callable[..., str]
) -> None:
    alias = open_source(str(shutil.copy(new_store("sqlite"), tmp_path / "really?.db")))
    with pytest.raises(AgentError, match=r"really\?\.db"):
        session_uri(alias)


def test_a_server_keeps_its_password_and_libpqs_options(open_source: Callable[..., str]) -> None:
    url = "postgresql://ana:p%40ss%2F%25@one.example:6432,two.example:6433/a%2Fb?sslmode=verify-full&sslrootcert=/ca"
    (source,) = registry.add(f"{url}&search_path=shop&connect_timeout=9&target_session_attrs=read-write")
    uri = urlsplit(session_uri(source.alias))
    database.forget(source.alias)
    assert (uri.scheme, uri.netloc, uri.path) == ("postgresql+asyncpg", "", "/")
    (dsn,) = parse_qs(uri.query)["dsn"]
    assert {name: value for name, (value,) in parse_qs(urlsplit(dsn).query).items()} == {
        "user": "ana",
        "password": "p@ss/%",
        "host": "one.example,two.example",
        "port": "6432,6433",
        "dbname": "a/b",
        "sslmode": "verify-full",
        "sslrootcert": "/ca",
        "options": "-c search_path=shop",
        "target_session_attrs": "read-write",
    }
