"""Sources from folders and files: which databases are listed, under which names, and when they are adopted."""

from __future__ import annotations

import re
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from django.db import connections
from pytest_django import Settings

from sessions_app.access.actor import SYSTEM
from sessions_app.domain.errors import NotFound, SourceError
from sessions_app.domain.session_ref import SessionRef
from sessions_app.reads import lists, views
from sessions_app.sources import database, finding, registry
from sessions_app.sources.finding import log
from tests.adk.services import APP, USER, Adk
from tests.sources.agents import agent, opened

pytestmark = pytest.mark.usefixtures("nothing_else_listed")


def test_a_folder_is_searched_four_levels_deep_and_no_deeper(tmp_path: Path) -> None:
    agent(tmp_path, "one")
    agent(tmp_path / "a/b/c", "four")
    agent(tmp_path / "a/b/c/d", "five")
    agent(tmp_path / "node_modules", "library")
    agent(tmp_path / ".hidden", "hidden")
    (tmp_path / "two" / ".adk").mkdir(parents=True)
    assert [source.alias for source in registry.add(str(tmp_path))] == ["four", "one"]
    assert [source.alias for source in registry.listed()] == ["four", "one"]


@pytest.mark.parametrize("linked", ["session.db", ".adk"])
def test_a_link_that_leads_out_of_a_folder_is_not_followed(tmp_path: Path, linked: str) -> None:
    outside, searched = tmp_path / "outside", tmp_path / "searched"
    file = agent(outside, "private")
    before = file.read_bytes()
    agent(searched, "own")
    link = searched / "evil" / ".adk" / "session.db" if linked == "session.db" else searched / "evil" / ".adk"
    link.parent.mkdir(parents=True)
    link.symlink_to(file if linked == "session.db" else file.parent)
    assert [source.alias for source in registry.add(str(searched))] == ["own"]
    assert [source.alias for source in registry.listed()] == ["own"]
    assert file.read_bytes() == before


def test_a_link_within_a_folder_and_a_folder_that_is_a_link_are_followed(tmp_path: Path) -> None:
    file = agent(tmp_path / "real", "own")
    link = tmp_path / "real" / "other" / ".adk" / "session.db"
    link.parent.mkdir(parents=True)
    link.symlink_to(file)
    (tmp_path / "named").symlink_to(tmp_path / "real")
    registry.add(str(tmp_path / "named"))
    assert [source.alias for source in registry.listed()] == ["own"]


def test_the_folder_itself_may_be_an_agents(tmp_path: Path) -> None:
    agent(tmp_path, "booking")
    assert [source.alias for source in registry.add(str(tmp_path / "booking"))] == ["booking"]


def test_a_new_agents_database_appears_by_itself(tmp_path: Path) -> None:
    assert registry.add(str(tmp_path)) == []
    assert registry.listed() == []
    assert registry.folders() == [str(tmp_path)]
    agent(tmp_path, "first")
    assert [source.alias for source in registry.listed()] == ["first"]
    agent(tmp_path, "second")
    assert database.get("second").alias == "second"
    assert [row.app_name for row in lists.apps("second", actor=SYSTEM).rows] == [APP]


def columns(file: Path) -> set[str]:
    """Those of the table of sessions; none where there is no table."""
    with closing(sqlite3.connect(file)) as db:
        return {name for (name,) in db.execute("SELECT name FROM pragma_table_info('sessions')")}


def test_what_appears_in_a_folder_is_adopted_before_anybody_asks_for_it(tmp_path: Path) -> None:
    registry.add(str(tmp_path))
    assert database.open_new() == []
    file = tmp_path / "agent" / ".adk" / "session.db"
    file.parent.mkdir(parents=True)
    adk = Adk("sqlite", str(file))
    adk.create("before")
    assert [source.alias for source in database.open_new()] == ["agent"]
    adk.append(adk.create("first", {"step": "ask", "user:name": "Ana"}), "hello", step="pay")
    adk.close()
    assert database.open_new() == []
    assert views.session(SessionRef("agent", APP, USER, "first"), actor=SYSTEM).initial_state == {"step": "ask"}


def test_a_file_that_an_agent_made_anew_is_adopted_before_anybody_asks_for_it(tmp_path: Path) -> None:
    file = agent(tmp_path)
    named = tmp_path / "named.db"
    named.write_bytes(file.read_bytes())
    registry.add(str(tmp_path))
    registry.add(str(named))
    assert [source.alias for source in database.open_new()] == ["agent", "named"]
    assert database.open_new() == []
    for old in (file, named):
        new = old.with_suffix(".new")
        adk = Adk("sqlite", str(new))
        adk.create()
        adk.close()
        new.replace(old)
        assert "initial_state" not in columns(old)
        assert len(database.open_new()) == 1
        assert "initial_state" in columns(old)


def test_nothing_is_made_in_a_file_that_an_agent_is_about_to_fill(tmp_path: Path) -> None:
    registry.add(str(tmp_path))
    file = tmp_path / "agent" / ".adk" / "session.db"
    file.parent.mkdir(parents=True)
    file.touch()
    named = tmp_path / "named.db"
    named.touch()
    registry.add(str(named))
    assert database.open_new() == []
    with pytest.raises(SourceError, match="is empty"):
        database.get("agent")
    assert (file.stat().st_size, named.stat().st_size) == (0, 0)
    with closing(sqlite3.connect(file)) as db:  # SQLite's header is there, a table is not
        db.execute("PRAGMA journal_mode=WAL")
        assert file.stat().st_size
        assert database.open_new() == []
        db.execute(
            "CREATE TABLE app_states (app_name TEXT PRIMARY KEY, state TEXT NOT NULL, update_time REAL NOT NULL)"
        )
        assert database.open_new() == []
    adk = Adk("sqlite-database", str(file.with_suffix(".whole")))
    adk.create()
    adk.close()
    file.with_suffix(".whole").replace(file)
    assert [source.alias for source in database.open_new()] == ["agent"]
    assert connections.databases["agent"]["ADKWEB"]["real_times"] is False


def test_what_appears_is_not_adopted_when_read_only(tmp_path: Path, settings: Settings) -> None:
    settings.READ_ONLY = True
    registry.add(str(tmp_path))
    file = agent(tmp_path)
    before = file.read_bytes()
    database.open_new()
    assert [row.app_name for row in lists.apps("agent", actor=SYSTEM).rows] == [APP]
    assert file.read_bytes() == before


def test_a_file_that_cannot_be_opened_is_tried_again_once_it_changes_and_holds_up_no_other(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "propagate", True)
    good = agent(tmp_path / "elsewhere").read_bytes()
    folder = tmp_path / "agents"
    broken = folder / "a" / ".adk" / "session.db"
    broken.parent.mkdir(parents=True)
    broken.write_bytes(b"this is no database, but some text" * 100)
    agent(folder, "b")
    registry.add(str(folder))
    assert [source.alias for source in database.open_new()] == ["b"]
    for _ in range(5):
        assert database.open_new() == []
    assert len(caplog.messages) == 1
    monkeypatch.setattr(database, "RETRY_SECONDS", 0.0)
    database.open_new()
    assert len(caplog.messages) == 2
    broken.write_bytes(good)
    monkeypatch.setattr(database, "RETRY_SECONDS", 1e9)
    assert [source.alias for source in database.open_new()] == ["a"]


def test_a_folder_that_takes_long_is_searched_more_rarely_and_by_one_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    searches: list[float] = []
    find = finding.find

    def slow(folder: Path) -> Iterator[Path]:
        searches.append(time.monotonic())
        time.sleep(0.4)
        yield from find(folder)

    registry.add(str(tmp_path))
    monkeypatch.setattr(finding, "find", slow)
    monkeypatch.setattr(registry, "RESCAN_SECONDS", 0.2)  # so the pause is 0.2 × 0.4 / 0.04 = 2 s
    threads = [threading.Thread(target=registry.listed) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    began = time.monotonic()
    while len(searches) < 2:
        assert time.monotonic() - began < 10
        registry.listed()
        time.sleep(0.01)
    assert 2.2 < searches[1] - searches[0] < 4


def test_aliases_stay_the_same_from_start_to_start_whatever_the_order(tmp_path: Path) -> None:
    files = [agent(tmp_path / folder, "agent") for folder in ("x", "y", "z")]
    seen = []
    for order in (files, files[::-1]):
        for file in order:
            registry.add(str(file))
        seen.append({source.where: source.alias for source in registry.listed()})
        for source in registry.listed():
            database.forget(source.alias)
        registry.identities.clear()
    assert len(set(seen[0].values())) == 3
    marked = [{where: alias for where, alias in names.items() if alias != "agent"} for names in seen]
    assert all(re.fullmatch("agent-[0-9a-f]{4}", alias) for names in marked for alias in names.values())
    # Those that carry a mark in both starts have the same one.
    both = marked[0].keys() & marked[1].keys()
    assert both
    assert all(marked[0][where] == marked[1][where] for where in both)


def test_naming_a_source_twice_is_naming_it_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = agent(tmp_path)
    monkeypatch.chdir(tmp_path)
    link = tmp_path / "link.db"
    link.symlink_to(file)
    for text in (str(file), "agent/.adk/session.db", f"sqlite:///{file}", str(tmp_path)):
        assert [source.alias for source in registry.add(text)] == ["agent"]
    assert len(registry.listed()) == 1


def test_a_file_called_default_does_not_take_the_place_of_adkwebs_own_database(tmp_path: Path) -> None:
    file = tmp_path / "default.db"
    file.touch()
    source = opened(str(file))
    assert source.alias.startswith("default-")
    assert connections["default"].settings_dict["NAME"] != str(file)


def test_an_unknown_source_is_not_found() -> None:
    with pytest.raises(NotFound, match="There's no source “nowhere”"):
        database.get("nowhere")


def test_an_empty_file_becomes_a_database_of_adks_but_not_when_read_only(tmp_path: Path, settings: Settings) -> None:
    file = tmp_path / "new.db"
    file.touch()
    settings.READ_ONLY = True
    with pytest.raises(SourceError, match=r"new\.db is empty: no agent has written to it yet"):
        opened(str(file))
    assert file.stat().st_size == 0
    database.forget("new")
    settings.READ_ONLY = False
    assert lists.apps(opened(str(file)).alias, actor=SYSTEM).rows == []
