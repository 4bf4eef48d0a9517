"""What the texts that name a database mean: those of agents, of other drivers, and of people in a hurry."""

from __future__ import annotations

import random
import shlex
from contextlib import suppress
from pathlib import Path

import pytest

from sessions_app.domain.errors import SourceError
from sessions_app.sources import urls
from sessions_app.sources.finding import existing_file
from sessions_app.sources.urls import File, Server

SOCKET = "/cloudsql/my-long-project-name-12345:northamerica-northeast1:my-production-instance"
PARTS = [
    *("postgresql", "sqlite", "file", "jdbc:", "://", ":", "/", "@", "?", "=", "&", "#", "[", "]", ",", "%2F", "%"),
    *("host", "port", "1", "é", "\0", "\n", "..", "options", "-c", "::1", ".s.PGSQL.", "ssl", "mode=ro", "a" * 70),
]
QUOTED = SOCKET.replace("/", "%2F").replace(":", "%3A")


def server(text: str) -> Server:
    """What a text names, which is a server."""
    named = urls.read(text)
    assert isinstance(named, Server)
    return named


@pytest.mark.parametrize(
    ("text", "parameters"),
    [
        ("postgresql://ana:pw@db:5433/shop", {"user": "ana", "password": "pw", "host": "db", "port": "5433"}),
        ("postgres+asyncpg://ana@db/shop", {"user": "ana", "host": "db"}),
        ("postgresql:///shop?host=db&port=5433&user=ana", {"user": "ana", "host": "db", "port": "5433"}),
        ("postgresql://db:1/shop?port=2", {"host": "db", "port": "2"}),
        ("postgresql://db?dbname=shop", {"host": "db"}),
        ("postgresql://db?database=shop", {"host": "db"}),
        ("postgresql://a:1,b:2/shop", {"host": "a,b", "port": "1,2"}),
        ("postgresql://a:1,b/shop", {"host": "a,b", "port": "1,"}),
        ("postgresql:///shop?host=a,b&port=1,2", {"host": "a,b", "port": "1,2"}),
        ("postgresql:///shop?host=a&host=b&port=1", {"host": "a,b", "port": "1,1"}),
        ("postgresql+psycopg:///shop?host=a:1&host=b:2", {"host": "a,b", "port": "1,2"}),
        ("postgresql://[::1]:5433/shop", {"host": "::1", "port": "5433"}),
        ("postgresql://a,[fe80::1%25eth0]:2/shop", {"host": "a,fe80::1%eth0", "port": ",2"}),
        (f"postgresql://ana@{QUOTED}/shop", {"user": "ana", "host": SOCKET}),
        (f"postgresql://ana@{QUOTED.replace('%3A', ':')}:5433/shop", {"user": "ana", "host": SOCKET, "port": "5433"}),
        (f"postgresql+asyncpg://ana@/shop?host={SOCKET}", {"user": "ana", "host": SOCKET}),
        (f"postgresql+pg8000:///shop?unix_sock={SOCKET}/.s.PGSQL.5433", {"host": SOCKET, "port": "5433"}),
        ("jdbc:postgresql://db/shop?user=ana&password=p%26w", {"host": "db", "user": "ana", "password": "p&w"}),
        ("jdbc:postgresql://a,b/shop?targetServerType=secondary", {"host": "a,b", "target_session_attrs": "standby"}),
        ("postgresql+asyncpg://db/shop?ssl=prefer", {"host": "db", "sslmode": "prefer"}),
        ("postgresql://db/shop?ssl=true", {"host": "db", "sslmode": "require"}),
        ("postgresql://db/shop?sslmode=no-verify", {"host": "db", "sslmode": "require"}),
        ("jdbc:postgresql://db/shop?ApplicationName=x", {"host": "db", "application_name": "x"}),
        ("jdbc:postgresql://db/shop?loginTimeout=7", {"host": "db", "connect_timeout": "7"}),
        ("postgresql://db/shop?timeout=2.5&command_timeout=30&connection_limit=1", {"host": "db", "connect_timeout": "3"}),
        ("postgresql://db/shop?search_path=a,public", {"host": "db", "options": "-c search_path=a,public"}),
        ("jdbc:postgresql://db/shop?currentSchema=agent_a", {"host": "db", "options": "-c search_path=agent_a"}),
        ("postgresql://db/shop?schema=Agent%20B", {"host": "db", "options": '-c search_path="Agent\\ B"'}),
        ("postgresql://db/shop?options=-cx%3D1&schema=b", {"host": "db", "options": '-cx=1 -c search_path="b"'}),
        ("postgresql://db/shop?keepalives_idle=9", {"host": "db", "keepalives_idle": "9"}),
        ("postgresql://db/shop?hostaddr=10.0.0.1", {"host": "db", "hostaddr": "10.0.0.1"}),
    ],
)  # fmt: skip
def test_the_urls_of_other_drivers_mean_the_same_here(text: str, parameters: dict[str, str]) -> None:
    named = server(text)
    assert (named.name, named.parameters) == ("shop", parameters)


def test_a_service_knows_its_own_database() -> None:
    assert server("postgresql://?service=prod") == Server(
        "postgresql:///?service=prod", "", {"service": "prod"}, read_only=False, prepares=True
    )


@pytest.mark.parametrize(
    "option",
    ["prepared_statement_cache_size=0", "statement_cache_size=0", "pgbouncer=true", "prepareThreshold=0"],
)
def test_who_asks_for_no_prepared_statements_gets_none(option: str) -> None:
    assert not server(f"postgresql://db/shop?{option}").prepares
    assert server(f"postgresql://db/shop?{option.replace('=0', '=9').replace('true', 'false')}").prepares


@pytest.mark.parametrize(
    "text",
    [
        "jdbc:postgresql://db/shop?readOnly=true",
        "postgresql://db/shop?options=-c%20default_transaction_read_only%3Don",
        "postgresql://a,b/shop?target_session_attrs=standby",
        "sqlite:///x.db?mode=ro",
        "sqlite+aiosqlite:///file:x.db?mode=ro&uri=true",
        "sqlite:///x.db?immutable=1",
        "file:x.db?mode=ro",
        "file:///srv/x.db?immutable=1",
    ],
)
def test_a_wish_to_read_only_is_understood(text: str) -> None:
    assert urls.read(text).read_only
    assert not urls.read(text.partition("?")[0]).read_only


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("postgresql://ana:s3cret@db:5433/shop?sslmode=require&sslpassword=s3cret", "postgresql://ana@db:5433/shop"),
        ("postgresql://db/shop?user=ana&password=s3cret", "postgresql://ana@db/shop"),
        (f"postgresql://ana@{QUOTED}/shop", f"postgresql://ana@/shop?host={SOCKET}"),
        ("postgresql://[::1]:1,b/a%2Fb", "postgresql://[::1]:1,b/a%2Fb"),
        ("jdbc:postgresql://db/shop?readOnly=true", "postgresql://db/shop?readOnly=true"),
        ("postgresql://db/shop?schema=a", "postgresql://db/shop?options=-c%20search_path%3D%22a%22"),
    ],
)
def test_its_name_is_a_url_of_the_same_database_without_the_password(text: str, where: str) -> None:
    named = server(text)
    assert named.where == where
    assert server(where).where == where
    told = ("host", "port", "user", "options")
    assert [server(where).parameters.get(each) for each in told] == [named.parameters.get(each) for each in told]


@pytest.mark.parametrize(
    ("text", "path", "immutable"),
    [
        ("x.db", "x.db", False),
        ("sqlite:///x.db", "x.db", False),
        ("sqlite:///./x.db", "x.db", False),
        ("sqlite+aiosqlite:////srv/x.db?timeout=30&check_same_thread=false", "/srv/x.db", False),
        ("sqlite:///a%20b.db", "a b.db", False),
        ("sqlite:x.db", "x.db", False),
        ("jdbc:sqlite:/srv/x.db", "/srv/x.db", False),
        ("file:x.db", "x.db", False),
        ("file:/srv/a%20b.db?mode=rw&cache=shared", "/srv/a b.db", False),
        ("file://localhost/srv/x.db?immutable=1#part", "/srv/x.db", True),
        ("sqlite:///file:/srv/x.db?immutable=1&uri=true", "/srv/x.db", True),
    ],
)
def test_every_form_of_a_files_name_is_understood(
    text: str, path: str, immutable: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert urls.read(text) == File(tmp_path / path, read_only=immutable, immutable=immutable)


def test_a_name_that_is_written_as_it_is_wins_over_a_quoted_one(tmp_path: Path) -> None:
    file = tmp_path / "50%25 #1.db"
    assert urls.read(f"sqlite:///{file}") == File(tmp_path / "50% #1.db")
    file.touch()
    assert urls.read(f"sqlite:///{file}") == File(file)


def test_two_slashes_before_an_absolute_path_are_forgiven_if_there_is_such_a_file(tmp_path: Path) -> None:
    (tmp_path / "x.db").touch()
    assert urls.read(f"sqlite:/{tmp_path}/x.db") == File(tmp_path / "x.db")
    with pytest.raises(SourceError, match=r"sqlite:///y\.db for a relative path, sqlite:////y\.db"):
        urls.read("sqlite://y.db")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("postgresql://db/shop?sslmod=require", "unknown option “sslmod”.*options=-c%20NAME%3DVALUE"),
        ("postgresql://db/shop?verbose", "the option “verbose” has no value"),
        ("postgresql://db/shop?pgbouncer=maybe", "option pgbouncer must be true or false"),
        ("postgresql://db:x/shop", "the port isn't a number"),
        ("postgresql://db:99999/shop", "the port isn't a number"),
        ("postgresql://a,b/shop?port=1,2,3", "the number of ports must match the number of hosts"),
        ("postgresql://::1/shop", r"put an IPv6 address in brackets: \[::1\]"),
        ("postgresql://[::1/shop", "This isn't a valid URL"),
        ("postgresql://db", "doesn't name a database"),
        ("postgresql:db", "This isn't a valid URL. Use postgresql://user@host/database"),
        ("postgresql://ana@/cloudsql/a:b:c/shop", "socket folder as an option: .*host=/cloudsql/project:region:instance"),
        ("postgresql://db/sh#op", "in a password, write / [?] # @ as"),
        (f"postgresql://{'a' * 64}.example/shop", "this isn't a valid host name"),
        (f"postgresql:///shop?host={'a' * 64}", "this isn't a valid host name"),
        ("postgresql://a..b/shop", "this isn't a valid host name"),
        ("sqlite:///x.db?mode=memory", "mode=memory isn't supported"),
        ("sqlite:///x.db?nolock=1", "Unknown option “nolock”.*mode=ro or immutable=1"),
        ("sqlite:///x.db?immutable=perhaps", "option immutable must be true or false"),
        ("sqlite://", "This URL refers to an in-memory database, not a file"),
        ("sqlite:///:memory:", "This URL refers to an in-memory database, not a file"),
        ("file::memory:?cache=shared", "This URL refers to an in-memory database, not a file"),
        ("file://far/x.db", "is a file on another machine"),
    ],
)  # fmt: skip
def test_what_is_not_understood_is_refused_by_its_name(text: str, said: str) -> None:
    with pytest.raises(SourceError, match=said):
        urls.read(text)


def test_a_command_in_a_message_can_be_pasted_into_a_shell(tmp_path: Path) -> None:
    with pytest.raises(SourceError) as refused:
        urls.read("agentengine://123")
    address = "agentengine://projects/P/locations/L/reasoningEngines/ID?app=NAME"
    assert shlex.split(str(refused.value).rpartition("then ")[2]) == ["adkweb", "import", address, "--into", "new.db"]
    with pytest.raises(SourceError) as refused:
        existing_file(tmp_path / "my sessions & more.db")
    assert shlex.split(str(refused.value))[-1] == str(tmp_path / "my sessions & more.db")


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://ana:s3cr3t@db:x/shop",
        "postgresql://ana:s3cr/3t@db/shop",
        "postgresql://ana:pw@db/shop?password=s3cr3t&sslmod=x",
        "jdbc:postgresql://db/shop?user=ana&password=s3cr3t&mistake",
        "jdbc:postgresql:db?password=s3cr3t",
        "postgresql:ana:s3cr3t@db",
        "mysql://ana:s3cr3t@db/shop",
    ],
)
def test_no_error_quotes_a_password(text: str) -> None:
    with pytest.raises(SourceError) as caught:
        urls.read(text)
    assert "s3cr" not in caught.value.message + urls.without_password(text)


@pytest.mark.parametrize("seed", range(3))
def test_whatever_is_typed_gives_a_database_or_a_sentence(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(3_000):
        text = "".join(chance.choices(PARTS, k=chance.randint(1, 9)))
        with suppress(SourceError):
            urls.read(text)
