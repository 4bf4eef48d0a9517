"""The house keeps its rules: shelves, doors, one write path, docstrings, sizes; read from the code itself.

Every check of support/house.py is shown to find what it looks for (`BROKEN`).
"""

from collections.abc import Callable
from typing import Final

import pytest

from tests.support import house
from tests.support.house import (
    ADOPTION,
    KEPT,
    ROOT,
    Code,
    caches_without_a_reason,
    changes_outside_the_write_path,
    changes_through_models,
    circles_of_folders,
    code,
    code_of_tests,
    copies_of_the_dialect,
    cycles_inside_folders,
    doors_that_ask_as_the_machine,
    errors_of_sources_as_they_are,
    forks_beside_the_dialect,
    imports_of_django_in_domain,
    imports_of_its_inside,
    imports_of_models_in_doors,
    imports_of_the_wiring,
    kept,
    missing_docstrings,
    other_tables_of_kinds,
    other_ways_to_change_a_session,
    parse,
    private_names_in_tests,
    reads_without_an_actor,
    sql_changes,
    upward_imports,
    uses_of_private_names,
    values_that_pass_no_mask,
)

# --- The promises -----------------------------------------------------------------------------------------------------


def test_a_folder_imports_from_no_higher_shelf_and_every_folder_has_one() -> None:
    assert upward_imports(code()) == []


def test_no_folders_import_each_other_in_a_circle() -> None:
    assert circles_of_folders(code()) == []


def test_inside_a_folder_no_module_imports_itself_over_others() -> None:
    assert cycles_inside_folders(code()) == []


def test_doors_never_import_adks_models() -> None:
    assert imports_of_models_in_doors(code()) == []


def test_the_application_does_not_know_its_wiring() -> None:
    assert imports_of_the_wiring(code()) == []


def test_domain_needs_no_django() -> None:
    assert imports_of_django_in_domain(code()) == []


def test_private_names_stay_in_their_module() -> None:
    assert uses_of_private_names(code()) == []
    assert private_names_in_tests(code_of_tests()) == []


def test_only_the_write_path_changes_adks_tables_and_adoption_only_its_own_columns() -> None:
    assert changes_outside_the_write_path(code()) == []
    for path, changes in ADOPTION.items():
        assert sql_changes(parse(code()[path])) == changes


def test_the_wiring_and_the_examples_change_adks_tables_nowhere() -> None:
    wiring = {f"adkweb/{path.name}": path.read_text() for path in (ROOT.parent / "adkweb").glob("*.py")}
    assert wiring
    assert changes_outside_the_write_path(wiring) == []


def test_nobody_else_uses_what_the_write_path_is_made_of() -> None:
    assert imports_of_its_inside(code()) == []


def test_no_row_of_adks_is_changed_through_a_model() -> None:
    assert changes_through_models(code()) == []


@pytest.mark.guarantee("Writing", "Sessions change only through events, and a single function appends all events.")
def test_append_event_is_the_only_way_by_which_a_session_changes() -> None:
    assert other_ways_to_change_a_session(code()) == []


def test_the_sql_of_a_seq_and_of_valid_json_is_defined_once() -> None:
    assert copies_of_the_dialect(code()) == []


def test_a_database_is_asked_what_it_can_do_and_not_which_one_it_is() -> None:
    assert forks_beside_the_dialect(code()) == []


def test_what_is_wrong_with_a_source_is_told_by_who_looks() -> None:
    assert errors_of_sources_as_they_are(code()) == []


def test_there_is_one_table_of_the_kinds_of_event() -> None:
    assert other_tables_of_kinds(code()) == []


def test_every_read_that_a_door_calls_takes_an_actor_by_name_and_none_by_default() -> None:
    assert reads_without_an_actor(code()) == []


def test_what_is_read_for_somebody_passes_the_one_function_that_may_hide_it() -> None:
    assert values_that_pass_no_mask(code()) == []
    assert doors_that_ask_as_the_machine(code()) == []


def test_whatever_outlives_a_request_says_why_it_shows_nothing_that_a_new_rule_hides() -> None:
    assert caches_without_a_reason(code()) == []
    assert set(kept(code())) == KEPT, "what is kept no more is no exception any more"


def test_everything_public_says_in_a_docstring_what_it_promises() -> None:
    assert missing_docstrings(code()) == []


# --- Every check finds what it looks for ------------------------------------------------------------------------------

MAP: Final = '''"""A map.

0  errors  domain   small
1  models           rows
2  reads  writes    both
9  web  management  doors
"""'''
HOUSE: Final[Code] = {
    "__init__.py": MAP,
    "errors.py": '"""."""',
    "domain/__init__.py": '"""."""',
    "domain/keys.py": '"""."""\nfrom .names import a',
    "domain/names.py": '"""."""',
    "models.py": '"""."""\nfrom .errors import Invalid',
    "reads/__init__.py": '"""."""',
    "reads/lists.py": (
        '"""."""\nfrom ..models import Session\nfrom ..domain import keys\n'
        'SQL = "SELECT state FROM sessions FOR UPDATE"\n'
        'def apps(source):\n    """."""\n'
        'def users(source, *, actor=None):\n    """."""\n'
        'def sessions(source, *, actor):\n    """."""\n'
    ),
    "writes/__init__.py": '"""."""',
    "writes/append.py": '''"""."""
from .rows import INSERT, merge
def append_event(): "."; _append()
def _append(): execute(INSERT); execute("UPDATE sessions SET state = 1"); merge()
def create_session(): "."; execute("INSERT INTO sessions"); execute(f"INSERT INTO {t}"); execute("UPDATE sessions SET x")
def delete_session(): "."; execute("DELETE FROM sessions"); execute("DELETE FROM events")
def delete_user_state(): "."; execute("DELETE FROM user_states")
def import_session(): "."; _rows(); execute("INSERT INTO events"); execute("UPDATE sessions SET state = 1")
def _rows(): execute("INSERT INTO sessions"); import_state()
def import_state(): "."; execute(f"INSERT INTO {t}")
''',
    "writes/rows.py": '''"""."""
INSERT = "INSERT INTO events VALUES (1) ON CONFLICT DO UPDATE SET state = 1"
def merge(): "."; execute("INSERT INTO user_states"); execute("INSERT INTO app_states"); execute(f"INSERT INTO {t}")
''',
    "web/__init__.py": '"""."""',
    "web/pages.py": '"""."""\nfrom .urls import a\nfrom ..reads.lists import b\nfrom ..writes import append',
    "web/urls.py": '"""."""',
    "management/__init__.py": "",
}

Check = Callable[[Code], list[str]]
BROKEN: Final[list[tuple[Check, str, str, str]]] = [
    (upward_imports, "models.py", "from .reads.lists import x", "models.py (shelf 1) imports reads (shelf 2)"),
    (circles_of_folders, "errors.py", "from .reads import lists", "errors imports itself, over domain, models, reads"),
    (
        upward_imports,
        "errors.py",
        "def f(): import sessions_app.web.pages",
        "errors.py (shelf 0) imports web (shelf 9)",
    ),
    (
        upward_imports,
        "web/pages.py",
        "from ..management import x",
        "web/pages.py imports management, another door",
    ),
    (upward_imports, "web/pages.py", "from ..apps import x", "web/pages.py (shelf 9) imports apps (shelf None)"),
    (upward_imports, "helpers.py", "", "helpers.py is on no shelf of sessions_app/__init__.py"),
    (upward_imports, "__init__.py", '"""\n7  ghosts  gone\n"""', "shelf 7 has ghosts, which is not there"),
    (
        reads_without_an_actor,
        "web/pages.py",
        "from ..reads import lists as rows\ndef page(): rows.apps('store')",
        "reads/lists.py: apps takes no actor, and web/pages.py calls it",
    ),
    (
        reads_without_an_actor,
        "web/pages.py",
        "from ..reads.lists import users",
        "reads/lists.py: users takes no actor, and web/pages.py calls it",
    ),
    (
        values_that_pass_no_mask,
        "reads/lists.py",
        "def state(text): return as_object(read_stored(text))",
        "reads/lists.py: state reads stored JSON and does not call shown",
    ),
    (
        doors_that_ask_as_the_machine,
        "web/pages.py",
        "from ..access.actor import SYSTEM\ndef page(): lists.sessions('store', actor=SYSTEM)",
        "web/pages.py reads as SYSTEM",
    ),
    (
        private_names_in_tests,
        "tests/test_pages.py",
        "from sessions_app.web.pages import _page",
        "tests/test_pages.py uses _page",
    ),
    (
        private_names_in_tests,
        "tests/test_pages.py",
        'from sessions_app.web import pages\ndef test(patch): patch.setattr(pages, "_ROWS", 1)',
        "tests/test_pages.py uses pages._ROWS",
    ),
    (
        private_names_in_tests,
        "tests/test_pages.py",
        "from tests import servers as these\nthese._port()",
        "tests/test_pages.py uses these._port",
    ),
    (imports_of_models_in_doors, "web/pages.py", "from ..models import Session", "web/pages.py imports models.Session"),
    (imports_of_models_in_doors, "web/pages.py", "from ..models.adk import Event", "web/pages.py imports models.adk"),
    (imports_of_models_in_doors, "web/pages.py", "from sessions_app import models", "web/pages.py imports models."),
    (imports_of_models_in_doors, "management/commands/x.py", "from ...models import App", "management/commands/x.py"),
    (
        cycles_inside_folders,
        "domain/names.py",
        "from .keys import a",
        "domain/keys.py imports itself, over domain/names.py",
    ),
    (cycles_inside_folders, "web/urls.py", "from sessions_app.web import pages", "web/urls.py imports itself"),
    (imports_of_its_inside, "web/pages.py", "from ..writes import rows", "web/pages.py imports writes/rows.py"),
    (imports_of_its_inside, "web/pages.py", "from ..writes.rows import merge", "web/pages.py imports writes/rows.py"),
    (
        imports_of_the_wiring,
        "reads/lists.py",
        "from adkweb.settings import X",
        "reads/lists.py imports adkweb.settings",
    ),
    (imports_of_the_wiring, "reads/lists.py", "import adkweb", "reads/lists.py imports adkweb"),
    (
        imports_of_django_in_domain,
        "domain/names.py",
        "def f(): from django.utils import translation",
        "domain/names.py imports django.utils",
    ),
    (
        uses_of_private_names,
        "web/pages.py",
        "from ..writes.append import _append",
        "web/pages.py imports writes.append._append",
    ),
    (
        uses_of_private_names,
        "web/pages.py",
        "from ..writes import append\nappend._append()",
        "web/pages.py uses append._append",
    ),
    (
        uses_of_private_names,
        "web/pages.py",
        "from allauth.mfa.totp.internal import auth",
        "web/pages.py imports allauth.mfa.totp.internal",
    ),
    (
        changes_outside_the_write_path,
        "reads/lists.py",
        'x = "delete from events where 1"',
        "reads/lists.py: DELETE events",
    ),
    (
        changes_outside_the_write_path,
        "reads/lists.py",
        'x = f"UPDATE {table} SET a = 1"',
        "reads/lists.py: UPDATE {} a",
    ),
    (
        changes_outside_the_write_path,
        "reads/lists.py",
        'x = "INSERT OR REPLACE INTO " + table',
        "reads/lists.py: INSERT ",
    ),
    (changes_outside_the_write_path, "web/pages.py", 'x = """\n UPDATE\n "sessions" SET a = 1"""', "UPDATE sessions"),
    (
        changes_outside_the_write_path,
        "sources/schema.py",
        'x = "UPDATE events SET timestamp = 1"',
        "UPDATE events timestamp",
    ),
    (changes_outside_the_write_path, "sources/schema.py", 'x = "INSERT INTO sessions VALUES (1)"', "INSERT sessions"),
    (
        changes_through_models,
        "reads/lists.py",
        "from ..models import Event\nEvent(id=1).save()",
        "reads/lists.py:2 calls .save()",
    ),
    (
        changes_through_models,
        "reads/lists.py",
        "from .. import models\nmodels.App.objects.create()",
        "reads/lists.py:2 calls .create()",
    ),
    (changes_through_models, "models/adk.py", "def f(self):\n    self.delete()", "models/adk.py:2 calls .delete()"),
    (
        changes_through_models,
        "reads/lists.py",
        "from ..models.adk import Event\nEvent.objects.filter(pk=1).delete()",
        "reads/lists.py:2 calls .delete()",
    ),
    (
        changes_through_models,
        "writes/append.py",
        "from ..models import Session\nSession.objects.filter().update(state={})",
        "writes/append.py:2 calls .update()",
    ),
    (
        other_ways_to_change_a_session,
        "writes/append.py",
        HOUSE["writes/append.py"] + "def rename(): _append()",
        "INSERT events: through ['append_event', 'import_session', 'rename'], promised ['append_event', 'import_session']",
    ),
    (
        other_ways_to_change_a_session,
        "writes/append.py",
        HOUSE["writes/append.py"]
        + 'class Tool:\n    def use(self): execute("UPDATE sessions SET a")\ndef fix(t): t.use()',
        "UPDATE sessions: through ['Tool.use', 'append_event', 'create_session', 'fix', 'import_session']",
    ),
    (
        other_ways_to_change_a_session,
        "writes/append.py",
        HOUSE["writes/append.py"] + 'def correct_event(): execute("UPDATE events SET event_data = 1")',
        "UPDATE events: through ['correct_event'], promised []",
    ),
    (
        copies_of_the_dialect,
        "reads/lists.py",
        'SEQ = {"postgresql": "seq + 0", "sqlite": "rowid"}',
        "SEQ of sources/dialect.py is written again: rowid",
    ),
    (copies_of_the_dialect, "reads/lists.py", 'f"SELECT max(seq + 0) FROM {t}"', "written again: SELECT max(seq + 0)"),
    (copies_of_the_dialect, "reads/lists.py", 'ORDER = "events.rowid DESC"', "written again: events.rowid DESC"),
    (
        copies_of_the_dialect,
        "edits/edit.py",
        'X = "CASE WHEN json_valid(a) THEN a END"',
        "if_json of sources/dialect.py",
    ),
    (
        errors_of_sources_as_they_are,
        "web/drift.py",
        "try:\n    f()\nexcept Error as e:\n    x = {'error': e.message}",
        "web/drift.py:4 shows an error of a source to everybody",
    ),
    (
        forks_beside_the_dialect,
        "reads/lists.py",
        'if connection.vendor == "sqlite": pass',
        "reads/lists.py:1 asks for the vendor",
    ),
    (
        other_tables_of_kinds,
        "web/icons.py",
        'ICONS = {"edit": "pen", "rewind": "back", "error": "bad", "call": "tool", "state": "dot"}',
        "web/icons.py:1 is a table of kinds",
    ),
    (
        other_tables_of_kinds,
        "reads/lists.py",
        'STRIP = ("state", "compaction", "rewind", "edit", "error")',
        "reads/lists.py:1 is a table of kinds",
    ),
    (caches_without_a_reason, "reads/lists.py", "_shown: dict[str, str] = {}", "reads/lists.py: _shown is kept"),
    (caches_without_a_reason, "reads/lists.py", "@lru_cache(9)\ndef title(): pass", "reads/lists.py: title is kept"),
    (
        caches_without_a_reason,
        "live/board.py",
        "class Board:\n    def __init__(self): self._made = defaultdict(dict)",
        "live/board.py: _made is kept",
    ),
    (missing_docstrings, "reads/lists.py", "x = 1", "reads/lists.py: the module"),
    (missing_docstrings, "reads/lists.py", '"""."""\nasync def read(): pass', "reads/lists.py: read"),
    (missing_docstrings, "web/pages.py", '"""."""\nclass Page: pass', "web/pages.py: Page"),
    (
        missing_docstrings,
        "reads/lists.py",
        '"""."""\nclass Page:\n    "."\n    def rows(self): pass',
        "reads/lists.py: rows",
    ),
]


@pytest.mark.parametrize(("check", "path", "source", "problem"), BROKEN)
def test_a_check_finds_what_it_looks_for(check: Check, path: str, source: str, problem: str) -> None:
    assert check(HOUSE) == []
    assert problem in "\n".join(check({**HOUSE, path: source}))


def test_every_check_is_shown_to_find_something() -> None:
    checks = {
        name
        for name, thing in vars(house).items()
        if getattr(thing, "__annotations__", {}).get("return") == list[str] and not name.startswith("_")
    }
    assert {check.__name__ for check, *_example in BROKEN} == checks
