"""A source is what it is, however it is addressed: what people keep of it goes with it, and never with another one."""

import os
import shutil
import subprocess
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.apps import apps
from django.db.models import UUIDField

from sessions_app.access.actor import AGENT, SYSTEM
from sessions_app.domain.errors import Conflict, NotAllowed, SourceError
from sessions_app.domain.session_ref import SessionRef
from sessions_app.models import BatchItem, Job, KnownSource, Rule, SessionHold, SessionTag
from sessions_app.privacy import holds
from sessions_app.privacy.retention import RetentionRule
from sessions_app.sources import database, identity, online, orphans, registry
from sessions_app.sources.own_backups import INDEXES
from sessions_app.writes.sessions import create_session, delete_session
from tests.servers import PostgreSQL, Standby, WithSocket, postgresql_bin


@pytest.fixture(autouse=True)
def _started(own: str) -> Iterator[None]:
    """No source is named before a test, and none after it."""
    restart()
    yield
    restart()


def restart(*texts: str, adopting: bool = True) -> list[str]:
    """What a new process knows that names these sources: their aliases, those of which none is served left out."""
    for source in registry.listed():
        database.forget(source.alias)
    registry.refusals.clear()
    aliases = [source.alias for text in texts for source in registry.add(text)]
    for alias in aliases:
        if alias in registry.sources:
            database.get(alias, adopting=adopting)
    return aliases


def held(alias: str) -> SessionRef:
    """A session that is on hold."""
    ref = create_session(alias, "booking", "ana", actor=SYSTEM, session_id="s1")
    holds.hold(ref, "a court asks for it", actor=SYSTEM)
    return ref


def is_kept(alias: str) -> bool:
    """Tells whether the session is on hold, and nobody can delete it, not even its agent."""
    ref = SessionRef(alias, "booking", "ana", "s1")
    for actor in (SYSTEM, AGENT):
        try:
            delete_session(ref, actor=actor)
        except Conflict:
            continue
        return False
    return holds.of(ref, actor=SYSTEM) is not None


@pytest.fixture
def second() -> Iterator[WithSocket]:
    """Another server."""
    with WithSocket() as server:
        yield server


@pytest.fixture
def third() -> Iterator[PostgreSQL]:
    """One more."""
    with PostgreSQL() as server:
        yield server


# --- Servers ----------------------------------------------------------------------------------------------------------


@pytest.mark.guarantee(
    "Databases and files",
    "A hold stays on a session even if its source's address changes, or the source is moved, restored, adopted or released.",
)
def test_a_hold_stays_when_the_server_is_addressed_differently(second: WithSocket) -> None:
    url = second.create_database("shop")
    (alias,) = restart(url)
    key = registry.identity(held(alias).source)
    for other in (url.replace("127.0.0.1", "localhost"), url + "?application_name=x", second.socket):
        (alias,) = restart(other)
        assert registry.identity(alias) == key
        assert is_kept(alias), other
    assert KnownSource.objects.get().label == registry.sources[alias].where


def test_a_database_that_is_named_twice_is_shown_once_and_that_is_said(second: WithSocket) -> None:
    url = second.create_database("shop")
    first, other = (source for text in (url, url.replace("127.0.0.1", "localhost")) for source in registry.add(text))
    database.get(first.alias)
    with pytest.raises(SourceError, match=f"the same database as “{first.alias}”"):
        database.get(other.alias)
    assert [source.alias for source in registry.listed()] == [first.alias]
    ((where, why),) = registry.refused()
    assert where == other.where
    assert first.where in why


def test_two_schemas_of_a_database_are_two_sources(second: WithSocket) -> None:
    url = second.create_database("shop")
    with psycopg.connect(url) as connection:
        connection.execute('CREATE SCHEMA a; CREATE SCHEMA "Agent B"')
    first = url + "?options=-csearch_path%3Da"
    both = restart(first, url + "?options=-csearch_path%3D%22Agent%5C%20B%22,public")
    assert len({*both}) == 2
    assert len({registry.sources[alias].where for alias in both}) == 2
    assert len({registry.identity(alias) for alias in both}) == 2
    held(both[0])
    delete_session(create_session(both[1], "booking", "ana", actor=SYSTEM, session_id="s1"), actor=SYSTEM)
    assert is_kept(both[0])


def test_a_schema_after_it_on_the_path_is_another_source(second: WithSocket) -> None:
    url = second.create_database("shop")
    (public,) = restart(url)
    with psycopg.connect(url) as connection:
        connection.execute("CREATE SCHEMA a")
        for table in ("sessions", "events", "app_states", "user_states"):
            connection.execute(f"CREATE TABLE a.{table} (LIKE public.{table})")
        connection.execute("ALTER TABLE a.events DROP COLUMN seq")
        connection.execute("ALTER TABLE a.sessions DROP COLUMN initial_state, DROP COLUMN initial_place")
    public, own = restart(url, url + "?options=-csearch_path%3Da,public")
    assert registry.identity(public) != registry.identity(own)
    with psycopg.connect(url) as connection:
        tables = "SELECT count(*) FROM pg_tables WHERE schemaname = 'a' AND tablename LIKE 'adkweb%'"
        assert connection.execute(tables).fetchone() == (3,)


def test_databases_of_the_same_name_behind_two_sockets_are_two_sources(second: WithSocket) -> None:
    with WithSocket() as other:
        urls = []
        for server in (second, other):
            server.create_database("shop")
            urls.append(server.socket)
        both = restart(*urls)
        assert len({*both}) == 2
        assert len({registry.sources[alias].where for alias in both}) == 2
        assert len({registry.identity(alias) for alias in both}) == 2


@pytest.mark.guarantee(
    "Databases and files",
    "A hold stays on a session even if its source's address changes, or the source is moved, restored, adopted or released.",
)
def test_a_database_keeps_its_rows_when_it_is_adopted_and_released(second: WithSocket) -> None:
    url = second.create_database("shop")
    (alias,) = restart(url)
    key = registry.identity(held(alias).source)
    source = registry.sources[alias]
    with database.connected(source):
        online.release(alias)
    identity.released(source)
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT to_regclass('adkweb_source')").fetchone() == (None,)
    (alias,) = restart(url, adopting=False)
    assert (registry.identity(alias), database.is_adopted(alias)) == (key, False)
    with pytest.raises(NotAllowed), database.writing(alias):
        pass
    (alias,) = restart(url)
    assert registry.identity(alias) == key
    assert is_kept(alias)


def test_what_is_not_adopted_has_an_identity_and_nothing_is_written_to_it(second: WithSocket) -> None:
    url = second.create_database("shop")
    (alias,) = restart(url)  # makes ADK's tables
    with database.connected(registry.sources[alias]):
        online.release(alias)
    KnownSource.objects.all().delete()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE ROLE reader LOGIN")
        connection.execute("GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader")
    (alias,) = restart(url.replace("postgres@", "reader@"), adopting=False)
    key = registry.identity(alias)
    (alias,) = restart(url.replace("127.0.0.1", "localhost"), adopting=False)
    assert registry.identity(alias) == key
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT count(*) FROM pg_class WHERE relname LIKE 'adkweb%'").fetchone() == (0,)


def test_another_process_adopts_it_meanwhile(second: WithSocket, monkeypatch: pytest.MonkeyPatch) -> None:
    url = second.create_database("shop")
    (alias,) = restart(url)
    with database.connected(registry.sources[alias]):
        online.release(alias)
    identity.released(registry.sources[alias])
    (alias,) = restart(url, adopting=False)
    key = registry.identity(alias)
    with database.connected(registry.sources[alias]):
        online.add(alias)
    with psycopg.connect(url, autocommit=True) as connection:  # an adkweb with a database of its own
        connection.execute("INSERT INTO adkweb_source VALUES (1, 'another', 'elsewhere', '')")
    monkeypatch.setitem(database.due, alias, 0.0)
    database.get(alias)
    assert database.is_adopted(alias)
    assert registry.identity(alias) == key
    assert registry.identity(*restart(url)) == key
    assert KnownSource.objects.get().stored == "another"


def copied(url: str, to: str) -> None:
    """Copies a database as pg_dump and psql do."""
    tools = postgresql_bin()
    dump = subprocess.run([tools / "pg_dump", "--no-owner", url], capture_output=True, check=True)
    restored = [tools / "psql", "-q", "-v", "ON_ERROR_STOP=1", to]
    subprocess.run(restored, input=dump.stdout, capture_output=True, check=True)


@pytest.mark.guarantee(
    "Databases and files",
    "A hold stays on a session even if its source's address changes, or the source is moved, restored, adopted or released.",
)
def test_a_database_that_was_restored_elsewhere_was_moved(second: WithSocket, third: PostgreSQL) -> None:
    url, to = second.create_database("shop"), third.create_database("moved")
    key = registry.identity(held(*restart(url)).source)
    copied(url, to)
    (alias,) = restart(to)
    assert registry.identity(alias) == key
    assert is_kept(alias)
    assert KnownSource.objects.count() == 1
    with psycopg.connect(to) as connection:
        (location,) = connection.execute("SELECT location FROM adkweb_source").fetchone() or ("",)
    assert KnownSource.objects.get().location == location


@pytest.mark.guarantee(
    "Databases and files",
    "A copied database is a separate source, is shown as a copy, and keeps the holds on its sessions.",
)
@pytest.mark.parametrize("copy_first", [True, False])
def test_a_copy_beside_its_original_is_a_source_of_its_own(
    second: WithSocket, third: PostgreSQL, copy_first: bool
) -> None:
    url, to = second.create_database("shop"), third.create_database("copy")
    key = registry.identity(held(*restart(url)).source)
    copied(url, to)
    *_, original, copy = sorted(restart(*((to, url) if copy_first else (url, to))), key=lambda alias: alias != "shop")
    assert registry.identity(original) == key
    assert registry.identity(copy) != key
    assert identity.copies == {copy: registry.sources[original].where}
    assert is_kept(original)
    assert is_kept(copy), "what is on hold stays on hold in a copy"
    with psycopg.connect(to) as connection:
        assert connection.execute("SELECT id FROM adkweb_source").fetchone() == (registry.identity(copy),)
    holds.release(SessionRef(copy, "booking", "ana", "s1"), actor=SYSTEM)
    _, copy = restart(url, to)
    delete_session(SessionRef(copy, "booking", "ana", "s1"), actor=SYSTEM)
    assert is_kept(original)


@pytest.mark.guarantee(
    "Databases and files",
    "If adkweb can't tell which source a database is, it doesn't open the database or delete anything.",
)
def test_where_the_old_place_cannot_be_asked_nothing_is_guessed(second: WithSocket, third: PostgreSQL) -> None:
    url, to = second.create_database("shop"), third.create_database("copy")
    key = registry.identity(held(*restart(url)).source)
    copied(url, to)
    second.stop()
    restart()
    named = [source.alias for text in (url, to) for source in registry.add(text)]
    with pytest.raises(SourceError, match="a copy of it"):
        database.get(named[1])
    with pytest.raises(SourceError):
        registry.identity(named[1])
    assert [alias for alias, _why in database.unserved(actor=SYSTEM)] == [named[1]]
    assert registry.identity(*restart(to)) == key


@pytest.mark.guarantee(
    "Databases and files",
    "If adkweb can't tell which source a database is, it doesn't open the database or delete anything.",
)
def test_a_source_whose_server_is_down_has_no_identity_and_nothing_of_it_is_guessed(second: WithSocket) -> None:
    url = second.create_database("shop")
    key = registry.identity(held(*restart(url)).source)
    second.stop()
    restart()
    (source,) = registry.add(url)
    ref = SessionRef(source.alias, "booking", "ana", "s1")
    with pytest.raises(SourceError):
        holds.of(ref, actor=SYSTEM)
    with pytest.raises(SourceError):
        delete_session(ref, actor=SYSTEM)
    assert registry.aliases() == {}
    assert registry.alias_of(key) is None
    second.start()
    assert registry.identity(source.alias) == key
    assert is_kept(source.alias)


def test_without_the_right_to_ask_a_server_which_it_is_a_hold_stays(second: WithSocket) -> None:
    url = second.create_database("shop")
    held(*restart(url))
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC")
        connection.execute("CREATE ROLE small LOGIN")
        connection.execute("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO small")
    for other in (url.replace("postgres@", "small@"), url.replace("postgres@127.0.0.1", "small@localhost"), url):
        (alias,) = restart(other)
        assert is_kept(alias), other


def test_without_that_right_a_hold_of_another_address_counts_once_it_is_adopted(second: WithSocket) -> None:
    url = second.create_database("shop")
    (alias,) = restart(url)
    create_session(alias, "booking", "ana", actor=SYSTEM, session_id="s1")
    with database.connected(registry.sources[alias]):
        online.release(alias)
    KnownSource.objects.all().delete()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC")
        connection.execute("CREATE ROLE small LOGIN")
        connection.execute("GRANT SELECT ON ALL TABLES IN SCHEMA public TO small")
    (alias,) = restart(url.replace("postgres@", "small@"), adopting=False)
    holds.hold(SessionRef(alias, "booking", "ana", "s1"), "a court asks for it", actor=SYSTEM)
    assert is_kept(*restart(url.replace("127.0.0.1", "localhost")))


# --- Standbys ---------------------------------------------------------------------------------------------------------


@pytest.mark.guarantee(
    "Databases and files", "A standby is read-only until it is promoted; adkweb then treats it as the original source."
)
def test_a_standby_is_a_source_that_follows_and_becomes_the_source_once_it_is_promoted(
    second: WithSocket, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = second.create_database("shop")
    key = registry.identity(held(*restart(url)).source)
    with Standby(second) as standby:
        (alone,) = restart(standby.url("shop"))
        assert registry.identity(alone) == key, "alone, it is the source, which can only be read"
        with pytest.raises(NotAllowed, match="standby"), database.writing(alone):
            pass
        for order in ((url, standby.url("shop")), (standby.url("shop"), url)):
            aliases = restart(*order)
            primary, follower = aliases if order[0] == url else aliases[::-1]
            assert registry.identity(primary) == key
            assert registry.identity(follower) != key
            assert identity.copies == {follower: registry.sources[primary].where}
            assert {*identity.standbys} == {follower}
            assert not database.may_write(follower)
            with pytest.raises(NotAllowed, match="standby"):
                delete_session(SessionRef(follower, "booking", "ana", "s1"), actor=SYSTEM)
        second.stop()
        standby.promote()
        monkeypatch.setitem(database.due, follower, 0.0)
        database.get(follower)
        assert registry.identity(follower) == key
        assert is_kept(follower)
        assert primary not in registry.identities
        assert identity.copies == {}


def test_copies_of_a_whole_server_that_nobody_can_tell_apart_are_not_shown_side_by_side(second: WithSocket) -> None:
    url = second.create_database("shop")
    held(*restart(url))
    with Standby(second) as copy:
        copy.promote()
        restart()
        first, other = (source for text in (url, copy.url("shop")) for source in registry.add(text))
        database.get(first.alias)
        with pytest.raises(SourceError, match="so adkweb can't tell the two apart"):
            database.get(other.alias)
        assert not database.is_open(other.alias)
        assert is_kept(first.alias)
        assert is_kept(*restart(copy.url("shop"))), "alone, it is the source"


# --- Files ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def file(new_store: Callable[..., str]) -> Path:
    """A file with a session that is on hold."""
    path = Path(new_store("sqlite", "agent"))
    held(*restart(str(path)))
    restart()
    return path


def _stored(path: Path) -> tuple[str, str]:
    with database.using(registry.add(str(path))[0].alias) as db, db.cursor() as cursor:
        cursor.execute("SELECT id, location, file FROM adkweb_source")
        stored, location, inode = cursor.fetchone()
        entry = path.stat()
        assert (location, inode) == (str(path), f"{entry.st_dev}:{entry.st_ino}")
        return stored, location


@pytest.mark.guarantee(
    "Databases and files",
    "A hold stays on a session even if its source's address changes, or the source is moved, restored, adopted or released.",
)
def test_a_file_keeps_its_rows_wherever_it_is_moved(file: Path, tmp_path: Path) -> None:
    key = registry.identity(*restart(str(file)))
    assert _stored(file)[0] == key
    restart()
    moved = file.rename(tmp_path / "renamed.db")
    (alias,) = restart(str(moved))
    assert registry.identity(alias) == key
    assert _stored(moved)[0] == key
    assert is_kept(alias)
    restart()
    copy = Path(shutil.copy(moved, tmp_path / "elsewhere.db"))  # to another disk: another inode
    moved.unlink()
    assert registry.identity(*restart(str(copy))) == key
    assert is_kept(*restart(str(copy)))
    assert KnownSource.objects.get(key=key).location == str(copy)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_copied_file_is_a_source_of_its_own(file: Path, tmp_path: Path, order: tuple[int, int]) -> None:
    key = registry.identity(*restart(str(file)))
    restart()
    both = file, Path(shutil.copy(file, tmp_path / "copy.db"))
    aliases = restart(*(str(both[each]) for each in order))
    original, copy = (aliases[order.index(each)] for each in (0, 1))
    assert registry.identity(original) == key
    assert registry.identity(copy) != key
    assert identity.copies == {copy: registry.sources[original].where}
    assert _stored(both[1])[0] == registry.identity(copy)
    holds.release(SessionRef(copy, "booking", "ana", "s1"), actor=SYSTEM)
    delete_session(SessionRef(copy, "booking", "ana", "s1"), actor=SYSTEM)
    assert is_kept(original)


def test_a_file_that_was_restored_from_a_backup_is_the_same(file: Path, tmp_path: Path) -> None:
    key = registry.identity(*restart(str(file)))
    restart()
    backup = Path(shutil.copy(file, tmp_path / "backup"))
    os.replace(backup, file)
    (alias,) = restart(str(file))
    assert registry.identity(alias) == key
    assert is_kept(alias)


def test_a_backup_from_before_adopting_is_the_same(new_database: Callable[..., str], tmp_path: Path) -> None:
    path = Path(new_database("sqlite"))
    (alias,) = restart(str(path))
    create_session(alias, "booking", "ana", actor=SYSTEM, session_id="s1")
    with database.connected(registry.sources[alias]):
        online.release(alias)
    restart()
    backup = shutil.copy(path, tmp_path / "backup")
    (alias,) = restart(str(path))
    holds.hold(SessionRef(alias, "booking", "ana", "s1"), "a court asks for it", actor=SYSTEM)
    restart()
    os.replace(backup, path)
    assert is_kept(*restart(str(path)))


def test_a_file_that_makes_room_for_a_new_one_keeps_its_rows(
    file: Path, tmp_path: Path, new_database: Callable[..., str]
) -> None:
    key = registry.identity(*restart(str(file)))
    restart()
    old = file.rename(tmp_path / "old.db")
    file.touch()
    new, kept = restart(str(file), str(old))
    assert registry.identity(kept) == key
    assert registry.identity(new) != key
    assert is_kept(kept)


def test_a_file_that_was_made_anew_while_it_is_shown_keeps_what_people_keep_of_its_path(file: Path) -> None:
    key = registry.identity(*restart(str(file)))
    file.unlink()
    file.touch()
    (source,) = registry.listed()
    database.get(source.alias)
    assert registry.identity(source.alias) == key


def test_another_source_in_the_place_of_a_file_gets_none_of_its_rows(file: Path, new_store: Callable[..., str]) -> None:
    other = Path(new_store("sqlite", "other"))
    alias = restart(str(other))[0]
    key = registry.identity(alias)
    restart()
    os.replace(other, file)
    (alias,) = restart(str(file))
    assert registry.identity(alias) == key
    assert not SessionHold.objects.filter(where=key).exists()


@pytest.mark.parametrize("link", [os.link, os.symlink])
def test_two_names_of_a_file_are_one_source_and_that_is_said(
    file: Path, tmp_path: Path, link: Callable[[Path, Path], None]
) -> None:
    key = registry.identity(*restart(str(file)))
    other = tmp_path / "link.db"
    link(file, other)
    first, second = restart(str(file), str(other))
    assert first == second
    assert [where for where, _why in registry.refused()] == [str(other)]
    (alias,) = restart(str(other))
    assert registry.identity(alias) == key
    assert is_kept(alias)


def test_a_read_only_copy_is_a_source_of_its_own_to_which_nothing_is_written(
    file: Path, tmp_path: Path, settings: object
) -> None:
    copy = Path(shutil.copy(file, tmp_path / "copy.db"))
    settings.READ_ONLY = True  # type: ignore[attr-defined]
    before = copy.read_bytes()
    original, other = restart(str(file), str(copy), adopting=False)
    assert registry.identity(original) != registry.identity(other)
    assert other in identity.copies
    restart()
    assert copy.read_bytes() == before
    known = KnownSource.objects.get(location=str(copy)).key
    assert registry.identity(*restart(str(copy), str(file), adopting=False)[:1]) == known


def test_what_is_rolled_back_is_found_out_again(new_store: Callable[..., str]) -> None:
    from django.db import transaction

    (source,) = registry.add(new_store("sqlite", "agent"))
    with transaction.atomic():
        database.get(source.alias)
        transaction.set_rollback(True)
    assert not KnownSource.objects.exists()
    database.get(source.alias)
    assert KnownSource.objects.get().key == registry.identity(source.alias)


def test_an_agent_without_a_database_of_adkweb_and_adkweb_agree(
    new_store: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from sessions_app.models import tables

    path = new_store("sqlite", "agent")
    with monkeypatch.context() as patch:
        patch.setattr(tables, "have_no_file", lambda: True)
        (alias,) = restart(path)
        key = registry.identity(alias)
        assert not KnownSource.objects.exists()
    assert registry.identity(*restart(path)) == key


# --- What is left behind ----------------------------------------------------------------------------------------------


def test_what_is_kept_of_a_source_that_is_not_named_is_found_in_every_table(own: str) -> None:
    """However many tables there are that name a source by `where`: none is forgotten."""
    models = orphans.of_sources()
    assert {SessionHold, RetentionRule, SessionTag, Rule, Job, BatchItem} <= {*models}
    named = {model for model in apps.get_models() if "where" in {each.name for each in model._meta.get_fields()}}
    assert {model.__name__ for model in named - {*models}} <= INDEXES
    for model in models:
        baker(model, where="gone")
    KnownSource.objects.create(key="gone", label="postgresql://ana@host/gone")
    (orphan,) = orphans.orphans(["here"])
    assert (orphan.key, orphan.label, len(orphan.rows)) == ("gone", "postgresql://ana@host/gone", len(models))
    assert {*orphan.rows.values()} == {1}
    assert orphans.orphans(["here", "gone"]) == []


def baker(model: Any, **given: Any) -> None:
    """Makes a row with any values, and those that it points to."""
    fields = dict(given)
    for field in model._meta.concrete_fields:
        if field.name in fields or field.has_default() or field.null or field.auto_created:
            continue
        if field.is_relation:
            fields[field.name] = field.related_model.objects.first() or baker_of(field.related_model)
        elif isinstance(field, UUIDField):
            fields[field.name] = uuid.uuid4()
        else:
            fields[field.name] = 0 if field.get_internal_type().endswith(("IntegerField", "FloatField")) else ""
    model.objects.create(**fields)


def baker_of(model: Any) -> Any:
    """Makes a row that another one needs."""
    baker(model)
    return model.objects.first()
