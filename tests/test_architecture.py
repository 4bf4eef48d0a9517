"""The house keeps its rules: layers, doors, one write path, docstrings, sizes; read from the code itself.

Every check is a function from code to problems, so that it can be shown to find one (`BROKEN` at the end).
"""

import ast
import functools
import re
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import Final

import pytest

import sessions_app
from sessions_app.domain.kinds import KINDS

ROOT: Final = Path(sessions_app.__file__).parent
Code = dict[str, str]  # path below sessions_app → source

DOORS: Final = {"web", "live", "management", "adk"}
DJANGOS: Final = {"apps", "migrations"}  # Django's own entries, which are on no layer and which nobody imports
ADK_TABLES: Final = ("sessions", "events", "app_states", "user_states")
ADK_MODELS: Final = {"App", "User", "Session", "Event"}

MOST_LINES: Final = 300
MOST_FUNCTION_LINES: Final = 40
# What is longer still, and how long. Split one and take it out; nothing comes in.
LONGER: Final[dict[str, int]] = {
    "models.py": 317,
}


@functools.cache
def parse(source: str) -> ast.Module:
    """Parses a file once for all checks, which only read it."""
    return ast.parse(source)


def code() -> Code:
    """All of sessions_app as it is."""
    files = (path for path in ROOT.rglob("*.py") if "migrations" not in path.parts)
    return {path.relative_to(ROOT).as_posix(): path.read_text() for path in sorted(files)}


# --- Layers -----------------------------------------------------------------------------------------------------------


def layers(docstring: str) -> dict[str, int]:
    """The layer of every folder, as the package's docstring draws them: `number  name  name   what they are`."""
    found: dict[str, int] = {}
    for line in docstring.splitlines():
        if re.match(r"\d+  \w", line):
            number, *names, _what = re.split(r" {2,}", line)
            found |= dict.fromkeys(names, int(number))
    return found


def imports(path: str, source: str) -> Iterator[tuple[str, str]]:
    """What a file imports from sessions_app: (folder or module of the first level, name in it or "")."""
    for parts, name in _imports(path, source):
        yield (parts[0], name if len(parts) == 1 else parts[1]) if parts else (name, "")


def _imports(path: str, source: str, *, only_at_load: bool = False) -> Iterator[tuple[list[str], str]]:
    """What a file imports from sessions_app: the module below it, in parts, and a name in it, which may be a module."""
    package = ["sessions_app", *PurePosixPath(path).parent.parts]
    tree = parse(source)
    for node in tree.body if only_at_load else ast.walk(tree):
        if isinstance(node, ast.Import):
            wanted = [(alias.name.split("."), "") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) - node.level + 1] if node.level else []
            start = start + (node.module.split(".") if node.module else [])
            wanted = [(start, alias.name) for alias in node.names]
        else:
            continue
        yield from ((parts[1:], name) for parts, name in wanted if parts[0] == "sessions_app")


def module_of(path: str) -> str:
    return PurePosixPath(path).parts[0].removesuffix(".py")


def upward_imports(code: Code) -> list[str]:
    """Imports from the same or a higher layer, and modules on no layer."""
    layer = layers(ast.get_docstring(parse(code["__init__.py"])) or "")
    problems = []
    for path, source in code.items():
        module = module_of(path)
        if module in {"__init__", *DJANGOS}:
            continue
        if module not in layer:
            problems.append(f"{path} is on no layer of sessions_app/__init__.py")
            continue
        for other in sorted({name for name, _inner in imports(path, source)} - {module}):
            if layer.get(other, 99) >= layer[module]:
                problems.append(f"{path} (layer {layer[module]}) imports {other} (layer {layer.get(other)})")
    problems += [f"layer {n} has {name}, which is not there" for name, n in layer.items() if name not in _modules(code)]
    return problems


def _modules(code: Code) -> set[str]:
    return {module_of(path) for path in code}


def cycles_inside_folders(code: Code) -> list[str]:
    """Modules of one folder that import each other, directly or over others."""
    graph = {path: set(_neighbours(path, source, code)) for path, source in code.items()}
    problems = []
    for path, reached in graph.items():
        while more := set().union(*(graph[each] for each in reached)) - reached:
            reached |= more
        if path in reached:
            problems.append(f"{path} imports itself, over {', '.join(sorted(reached - {path}))}")
    return problems


def _neighbours(path: str, source: str, code: Code) -> Iterator[str]:
    """The modules of its own folder that a file imports when it is loaded."""
    for parts, name in _imports(path, source, only_at_load=True):
        file = _file_of([*parts, name], code) or _file_of(parts, code)
        if file and file != path and module_of(file) == module_of(path):
            yield file


def imports_of_models_in_doors(code: Code) -> list[str]:
    """Doors ask reads, writes and access; never the models."""
    return [
        f"{path} imports models.{name}"
        for path, source in code.items()
        if module_of(path) in DOORS
        for module, name in imports(path, source)
        if module == "models"
    ]


def imports_of_the_wiring(code: Code) -> list[str]:
    """sessions_app works under any wiring: it imports nothing from adkweb."""
    problems = []
    for path, source in code.items():
        for node in ast.walk(parse(source)):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
            problems += [f"{path} imports {name}" for name in names if name.split(".")[0] == "adkweb"]
    return problems


def uses_of_private_names(code: Code) -> list[str]:
    """What begins with an underscore is used in its own module only."""
    problems = []
    for path, source in code.items():
        imported = list(_imports(path, source))
        modules = {name for parts, name in imported if _file_of([*parts, name], code)}
        problems += [f"{path} imports {'.'.join([*parts, name])}" for parts, name in imported if name.startswith("_")]
        problems += [
            f"{path} uses {node.value.id}.{node.attr}"
            for node in ast.walk(parse(source))
            if isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id in modules
            and re.match(r"_[^_]", node.attr)
        ]
    return problems


def _file_of(parts: list[str], code: Code) -> str | None:
    """The file of a module or a folder."""
    name = "/".join(parts)
    return next((file for file in (f"{name}.py", f"{name}/__init__.py") if file in code), None)


# --- The write path ---------------------------------------------------------------------------------------------------

CHANGES: Final = re.compile(
    r"""\b(?<!\bDO\s)(INSERT|UPDATE|DELETE|REPLACE|MERGE|TRUNCATE)\s+(?:INTO\s+|FROM\s+|TABLE\s+|ONLY\s+|OR\s+\w+\s+)*
    ["'`]?(\{\}|\w+|$)(?:\s+SET\s+(\w+))?""",
    re.IGNORECASE | re.VERBOSE,
)
# Adopting is the one exception: it numbers the events that are there, and its trigger notes initial state.
ADOPTION: Final = {
    "sources/schema.py": {("UPDATE", "sessions", "initial_state"), ("UPDATE", "sessions", "initial_place")},
    "sources/online_postgresql.py": {("UPDATE", "events", "seq")},
    "sources/steps.py": {("UPDATE", "sessions", "initial_state")},
}


def strings(node: ast.AST) -> Iterator[str]:
    """The texts in a piece of code, docstrings left out; what is put into a text stands as `{}`."""
    if isinstance(node, ast.JoinedStr):
        yield "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                yield from strings(part.value)
    elif isinstance(node, ast.Constant):
        if isinstance(node.value, str):
            yield node.value
    elif not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
        for child in ast.iter_child_nodes(node):
            yield from strings(child)


def sql_changes(node: ast.AST) -> set[tuple[str, str, str]]:
    """The statements in it that change ADK's tables: verb, table (`{}` where the code puts one in), first column set."""
    return {
        (verb.upper(), table.lower(), column)
        for text in strings(node)
        for verb, table, column in CHANGES.findall(text)
        if table.lower() in (*ADK_TABLES, "{}", "")
    }


def changes_outside_the_write_path(code: Code) -> list[str]:
    """SQL that changes ADK's tables anywhere but in writes/, adoption excepted."""
    return [
        f"{path}: {' '.join(change)}"
        for path, source in code.items()
        for change in sorted(sql_changes(parse(source)))
        if module_of(path) != "writes" and change not in ADOPTION.get(path, ())
    ]


_ORM_CHANGES: Final = re.compile(r"a?(save|create|update|delete|(get|update)_or_create|bulk_create|bulk_update|raw)")


def changes_through_models(code: Code) -> list[str]:
    """Calls that would change rows through ADK's models, in any module that has one of them in hand."""
    problems = []
    for path, source in code.items():
        models = {name for module, name in imports(path, source) if module == "models"}
        if path != "models.py" and not models & {*ADK_MODELS, "", "*"}:
            continue
        problems += [
            f"{path}:{node.lineno} calls .{node.func.attr}()"
            for node in ast.walk(parse(source))
            if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and _ORM_CHANGES.fullmatch(node.func.attr)
        ]
    return problems


INNER: Final = "writes/rows.py"  # what the write path is made of; nobody else imports it


def imports_of_its_inside(code: Code) -> list[str]:
    """Whoever imports what the write path is made of, and is none of it."""
    inner = INNER.removesuffix(".py").split("/")
    return [
        f"{path} imports {INNER}"
        for path, source in code.items()
        if module_of(path) != "writes"
        for parts, name in _imports(path, source)
        if inner in ([*parts, name], parts)
    ]


# Which public functions of writes/ reach which changes. append_event alone changes a session that is there; an import
# makes one, batch by batch, and never touches one that is whole.
WAYS: Final[dict[tuple[str, str], set[str]]] = {
    ("INSERT", "events"): {"append_event", "import_session"},
    # A session that is created is numbered when every lock is held.
    ("UPDATE", "sessions"): {"append_event", "create_session", "import_session"},
    ("INSERT", "user_states"): {"append_event"},
    ("INSERT", "app_states"): {"append_event"},
    # user_states or app_states
    ("INSERT", "{}"): {"append_event", "create_session", "import_session", "import_state"},
    ("INSERT", "sessions"): {"create_session", "import_session"},
    ("DELETE", "sessions"): {"delete_session"},
    ("DELETE", "events"): {"delete_session"},
}


def ways_to_change(code: Code) -> dict[tuple[str, str], set[str]]:
    """For each change of ADK's tables in some modules, the public names that lead to it, over any number of calls."""
    pieces = {name: piece for source in code.values() for name, piece in _pieces(parse(source)).items()}
    inner = _pieces(parse(code[INNER])).keys()
    mentions = {name: {other for other in pieces if _mentions(piece, other)} for name, piece in pieces.items()}
    ways: dict[tuple[str, str], set[str]] = {}
    for name, piece in pieces.items():
        for verb, table, _column in sql_changes(piece):
            reaching = {name}
            while more := {caller for caller, called in mentions.items() if called & reaching} - reaching:
                reaching |= more
            public = {other for other in reaching - inner if not other.startswith("_") and "._" not in other}
            ways.setdefault((verb, table), set()).update(public or {f"nothing but {name}"})
    return ways


def _pieces(tree: ast.Module) -> dict[str, ast.AST]:
    """Functions, methods and constants of a module; a class stands for its methods."""
    found: dict[str, ast.AST] = {}
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{m.name}": m for m in node.body if isinstance(m, ast.FunctionDef)}
            rest = [m for m in node.body if not isinstance(m, ast.FunctionDef)]
            found[node.name] = ast.Module(body=rest, type_ignores=[])
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found[node.name] = node
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {target.id: node for target in targets if isinstance(target, ast.Name)}
    return found


def _mentions(piece: ast.AST, name: str) -> bool:
    """Whether a piece of code names a function or constant, or a method of this name of anything."""
    method = name.partition(".")[2]
    return any(
        (isinstance(node, ast.Name) and node.id == name)
        or (isinstance(node, ast.Attribute) and method and node.attr == method)
        for node in ast.walk(piece)
    )


def other_ways_to_change_a_session(code: Code) -> list[str]:
    """Where the ways that writes/ offers are not exactly the promised ones."""
    ways = ways_to_change({path: source for path, source in code.items() if module_of(path) == "writes"})
    return [
        f"{' '.join(change)}: through {sorted(ways.get(change, set()))}, promised {sorted(WAYS.get(change, set()))}"
        for change in sorted(ways.keys() | WAYS.keys())
        if ways.get(change) != WAYS.get(change)
    ]


# --- One definition ---------------------------------------------------------------------------------------------------

DIALECT: Final = "sources/dialect.py"
# What is written differently in each database, or only there: as SQL it stands in DIALECT alone.
OF_DIALECT: Final = {"SEQ": r"seq \+ 0|^(\w+\.)?rowid( DESC)?$", "if_json": r"json_valid\("}


def copies_of_the_dialect(code: Code) -> list[str]:
    """Where SQL that dialect.py defines is written again."""
    return [
        f"{path}: {name} of {DIALECT} is written again: {text.strip()[:60]}"
        for path, source in code.items()
        if path != DIALECT
        for text in _texts(parse(source))
        for name, pattern in OF_DIALECT.items()
        if re.search(pattern, text)
    ]


def _texts(tree: ast.Module) -> Iterator[str]:
    """Every text of a module but its docstrings."""
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            yield node.value


KINDS_TABLE: Final = "domain/kinds.py"
KINDS_IN_WORDS: Final = "management/commands/_words.py"  # the sentences of a terminal, which nothing else has
FEW_KINDS: Final = 4  # that may be named together, where they are meant one by one


def other_tables_of_kinds(code: Code) -> list[str]:
    """Where something is said of many kinds of event, beside their table."""
    return [
        f"{path}:{node.lineno} is a table of kinds; {KINDS_TABLE} has theirs"
        for path, source in code.items()
        if path not in (KINDS_TABLE, KINDS_IN_WORDS)
        for node in ast.walk(parse(source))
        if isinstance(node, ast.Dict | ast.Tuple | ast.List)  # a set asks only which they are
        for names in [[e.value for e in _entries(node) if isinstance(e, ast.Constant)]]
        if len({*names} & {*KINDS}) > FEW_KINDS and {*names} <= {*KINDS}
    ]


def _entries(node: ast.Dict | ast.Tuple | ast.List) -> list[ast.expr | None]:
    return [*(node.keys if isinstance(node, ast.Dict) else node.elts)]


# --- Reads ------------------------------------------------------------------------------------------------------------

ASKED: Final = (  # what doors read from
    *("reads/", "history/", "agent_view/", "transfer/exporting.py"),
    *("edits/fork_jobs.py", "edits/fork_tree.py", "edits/repair.py", "edits/rewind.py", "edits/undo.py"),
)
OF_SOMEBODY: Final = {"source", "ref", "selection", "event", "view"}  # parameters that say of what a read is
# What only the machine asks for: where events were read to, and that they are read again. It tells nothing that is stored.
MACHINES: Final = {"history/indexing.py"}


def reads_without_an_actor(code: Code) -> list[str]:
    """Reads that a door calls and that do not ask who wants to know, or that know it if nobody says."""
    problems = set()
    for path, source in code.items():
        if module_of(path) not in {*DOORS, "api"}:
            continue
        for file, name in _named(path, source, code):
            if not file.startswith(ASKED) or file in MACHINES:
                continue
            for node in ast.parse(code[file]).body:
                if isinstance(node, ast.FunctionDef) and node.name == name and OF_SOMEBODY & _parameters(node):
                    must = {each.arg for each, default in _by_name(node) if default is None}
                    problems |= (
                        {f"{file}: {name} takes no actor, and {path} calls it"} if "actor" not in must else set()
                    )
    return sorted(problems)


def _named(path: str, source: str, code: Code) -> Iterator[tuple[str, str]]:
    """What a file uses of other modules: (file, name)."""
    modules: dict[str, str] = {}
    tree = ast.parse(source)
    package = ["sessions_app", *PurePosixPath(path).parent.parts]
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            start = [*package[: len(package) - node.level + 1][1:], *(node.module or "").split(".")]
            parts = [part for part in start if part]
            for alias in node.names:
                if file := _file_of([*parts, alias.name], code):
                    modules[alias.asname or alias.name] = file
                elif file := _file_of(parts, code):
                    yield file, alias.name
    for each in ast.walk(tree):
        if isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name) and each.value.id in modules:
            yield modules[each.value.id], each.attr


def _parameters(node: ast.FunctionDef) -> set[str]:
    return {each.arg for each in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)}


def _by_name(node: ast.FunctionDef) -> list[tuple[ast.arg, ast.expr | None]]:
    return list(zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True))


# --- Docstrings and sizes ---------------------------------------------------------------------------------------------


def missing_docstrings(code: Code) -> list[str]:
    """Modules, public classes and functions without a docstring; in the core public methods too."""
    problems = []
    for path, source in code.items():
        tree = parse(source)
        named: list[tuple[str, ast.AST]] = [("", tree)]
        for node in tree.body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                named.append((node.name, node))
            if isinstance(node, ast.ClassDef) and module_of(path) not in DOORS and not node.name.startswith("_"):
                named += [(m.name, m) for m in node.body if isinstance(m, ast.FunctionDef | ast.AsyncFunctionDef)]
        problems += [
            f"{path}: {name or 'the module'}"
            for name, node in named
            if not name.startswith("_") and source.strip() and not ast.get_docstring(node)  # type: ignore[arg-type]
        ]
    return problems


def sizes(code: Code) -> Iterator[tuple[str, int, int]]:
    """Every file and function, its lines without a function's docstring, and the most that it may have."""
    for path, source in code.items():
        yield path, len(source.splitlines()), MOST_LINES
        for node in ast.walk(parse(source)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                first = node.body[0]
                docstring = (first.end_lineno or 0) - first.lineno + 1 if ast.get_docstring(node) else 0
                lines = (node.end_lineno or 0) - node.lineno + 1 - docstring
                yield f"{path}: {node.name}", lines, MOST_FUNCTION_LINES


def too_long(code: Code) -> list[str]:
    """Files and functions that are not comfortable to read in one sitting."""
    return [f"{name} has {lines} lines" for name, lines, most in sizes(code) if lines > LONGER.get(name, most)]


def needless(longer: dict[str, int], code: Code) -> Iterator[str]:
    """Names exceptions for what became shorter, or is not there any more."""
    lines = {name: lines for name, lines, most in sizes(code) if lines > most}
    return (
        f"{name}: {most} lines allowed, {lines.get(name, 0)} needed"
        for name, most in longer.items()
        if lines.get(name) != most
    )


# --- The promises -----------------------------------------------------------------------------------------------------


def test_a_folder_imports_only_from_smaller_layers_and_every_folder_has_one() -> None:
    assert upward_imports(code()) == []


def test_inside_a_folder_no_module_imports_itself_over_others() -> None:
    assert cycles_inside_folders(code()) == []


def test_doors_never_import_models() -> None:
    assert imports_of_models_in_doors(code()) == []


def test_the_application_does_not_know_its_wiring() -> None:
    assert imports_of_the_wiring(code()) == []


def test_private_names_stay_in_their_module() -> None:
    assert uses_of_private_names(code()) == []


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


def test_append_event_is_the_only_way_by_which_a_session_changes() -> None:
    assert other_ways_to_change_a_session(code()) == []


def test_the_sql_of_a_seq_and_of_valid_json_is_defined_once() -> None:
    assert copies_of_the_dialect(code()) == []


def test_there_is_one_table_of_the_kinds_of_event() -> None:
    assert other_tables_of_kinds(code()) == []


def test_every_read_that_a_door_calls_takes_an_actor_by_name_and_none_by_default() -> None:
    assert reads_without_an_actor(code()) == []


def test_everything_public_says_in_a_docstring_what_it_promises() -> None:
    assert missing_docstrings(code()) == []


def test_files_and_functions_are_comfortable_to_read() -> None:
    assert too_long(code()) == []


def test_what_became_shorter_is_no_exception_any_more() -> None:
    assert list(needless(LONGER, code())) == []
    short = {"reads/lists.py": "\n" * 310}
    assert list(needless({"reads/lists.py": 310}, short)) == []
    assert list(needless({"reads/lists.py": 311, "gone.py": 301}, short)) == [
        "reads/lists.py: 311 lines allowed, 310 needed",
        "gone.py: 301 lines allowed, 0 needed",
    ]


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
    (upward_imports, "models.py", "from .reads.lists import x", "models.py (layer 1) imports reads (layer 2)"),
    (upward_imports, "errors.py", "from .domain import keys", "errors.py (layer 0) imports domain (layer 0)"),
    (
        upward_imports,
        "errors.py",
        "def f(): import sessions_app.web.pages",
        "errors.py (layer 0) imports web (layer 9)",
    ),
    (
        upward_imports,
        "web/pages.py",
        "from ..management import x",
        "web/pages.py (layer 9) imports management (layer 9)",
    ),
    (upward_imports, "web/pages.py", "from ..apps import x", "web/pages.py (layer 9) imports apps (layer None)"),
    (upward_imports, "helpers.py", "", "helpers.py is on no layer of sessions_app/__init__.py"),
    (upward_imports, "__init__.py", '"""\n7  ghosts  gone\n"""', "layer 7 has ghosts, which is not there"),
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
    (imports_of_models_in_doors, "web/pages.py", "from ..models import Session", "web/pages.py imports models.Session"),
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
    (changes_through_models, "models.py", "def f(self):\n    self.delete()", "models.py:2 calls .delete()"),
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
    (missing_docstrings, "reads/lists.py", "x = 1", "reads/lists.py: the module"),
    (missing_docstrings, "reads/lists.py", '"""."""\nasync def read(): pass', "reads/lists.py: read"),
    (missing_docstrings, "web/pages.py", '"""."""\nclass Page: pass', "web/pages.py: Page"),
    (
        missing_docstrings,
        "reads/lists.py",
        '"""."""\nclass Page:\n    "."\n    def rows(self): pass',
        "reads/lists.py: rows",
    ),
    (too_long, "reads/lists.py", "\n" * 301, "reads/lists.py has 301 lines"),
    (too_long, "reads/lists.py", 'def f():\n    """D."""\n' + "    x = 1\n" * 40, "reads/lists.py: f has 41 lines"),
]


@pytest.mark.parametrize(("check", "path", "source", "problem"), BROKEN)
def test_a_check_finds_what_it_looks_for(check: Check, path: str, source: str, problem: str) -> None:
    assert check(HOUSE) == []
    assert problem in "\n".join(check({**HOUSE, path: source}))


def test_every_check_is_shown_to_find_something() -> None:
    checks = {
        name for name, thing in globals().items() if getattr(thing, "__annotations__", {}).get("return") == list[str]
    }
    assert {check.__name__ for check, *_example in BROKEN} == checks
