"""Reads the code, and says where it breaks a rule of the house. Every check is a function from code to problems."""

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Final

import sessions_app
from sessions_app.domain.kinds import KINDS

ROOT: Final = Path(sessions_app.__file__).parent
Code = dict[str, str]  # path below sessions_app → source

DOORS: Final = {"web", "api", "live", "management", "adk"}
_THROUGH: Final = {("live", "web"), ("management", "live")}  # what live sends, and what `serve` starts
DJANGOS: Final = {"apps", "migrations"}  # Django's own entries, which are on no shelf and which nobody imports
ADK_TABLES: Final = ("sessions", "events", "app_states", "user_states")
ADK_MODELS: Final = {"App", "User", "Session", "Event"}
HOLDS_ADKS_MODELS: Final = {*ADK_MODELS, "adk", "", "*"}  # what to import from models/ to have one of them in hand


@functools.cache
def parse(source: str) -> ast.Module:
    """Parses a file once for all checks, which only read it."""
    return ast.parse(source)


@functools.cache
def nodes_of(source: str) -> tuple[ast.AST, ...]:
    """All nodes of a file, in the order of `ast.walk`."""
    return tuple(ast.walk(parse(source)))


def code_of_tests() -> Code:
    """All tests as they are."""
    files = (path for path in (ROOT.parent / "tests").rglob("*.py") if "node_modules" not in path.parts)
    return {path.relative_to(ROOT.parent).as_posix(): path.read_text() for path in sorted(files)}


def code() -> Code:
    """All of sessions_app as it is."""
    files = (path for path in ROOT.rglob("*.py") if "migrations" not in path.parts)
    return {path.relative_to(ROOT).as_posix(): path.read_text() for path in sorted(files)}


# --- Shelves ----------------------------------------------------------------------------------------------------------


def shelves(docstring: str) -> dict[str, int]:
    """The shelf of every folder, as the package's docstring draws them: `number  name  name   what they are`."""
    numbers: dict[str, int] = {}
    for line in docstring.splitlines():
        if re.match(r"\d+  \w", line):
            number, *names, _what = re.split(r" {2,}", line)
            numbers |= dict.fromkeys(names, int(number))
    return numbers


def imports(path: str, source: str) -> Iterator[tuple[str, str]]:
    """What a file imports from sessions_app: (folder or module of the first level, name in it or "")."""
    for parts, name in _imports(path, source):
        yield (parts[0], name if len(parts) == 1 else parts[1]) if parts else (name, "")


def _imports(path: str, source: str, *, only_at_load: bool = False) -> Iterator[tuple[list[str], str]]:
    """What a file imports from sessions_app: the module below it, in parts, and a name in it, which may be a module."""
    package = ["sessions_app", *PurePosixPath(path).parent.parts]
    for node in parse(source).body if only_at_load else nodes_of(source):
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
    """Imports from a higher shelf, or from another door; and modules on no shelf."""
    shelf = shelves(ast.get_docstring(parse(code["__init__.py"])) or "")
    problems = []
    for path, source in code.items():
        module = module_of(path)
        if module in {"__init__", *DJANGOS}:
            continue
        if module not in shelf:
            problems.append(f"{path} is on no shelf of sessions_app/__init__.py")
            continue
        for other in sorted({name for name, _inner in imports(path, source)} - {module}):
            if shelf.get(other, 99) > shelf[module]:
                problems.append(f"{path} (shelf {shelf[module]}) imports {other} (shelf {shelf.get(other)})")
            if module in DOORS and other in DOORS and (module, other) not in _THROUGH:
                problems.append(f"{path} imports {other}, another door")
    problems += [f"shelf {n} has {name}, which is not there" for name, n in shelf.items() if name not in _modules(code)]
    return problems


def circles_of_folders(code: Code) -> list[str]:
    """Folders that import each other, directly or over others."""
    graph: dict[str, set[str]] = {module: set() for module in _modules(code)}
    for path, source in code.items():
        module = module_of(path)
        graph[module] |= {name for name, _inner in imports(path, source)} & graph.keys() - {module}
    return _circles(graph)


def _modules(code: Code) -> set[str]:
    return {module_of(path) for path in code}


def cycles_inside_folders(code: Code) -> list[str]:
    """Modules of one folder that import each other, directly or over others."""
    return _circles({path: set(_neighbours(path, source, code)) for path, source in code.items()})


def _circles(graph: dict[str, set[str]]) -> list[str]:
    problems = []
    for name, reached in graph.items():
        while more := set().union(*(graph[each] for each in reached)) - reached:
            reached |= more
        if name in reached:
            problems.append(f"{name} imports itself, over {', '.join(sorted(reached - {name}))}")
    return problems


def _neighbours(path: str, source: str, code: Code) -> Iterator[str]:
    """The modules of its own folder that a file imports when it is loaded."""
    for parts, name in _imports(path, source, only_at_load=True):
        file = _file_of([*parts, name], code) or _file_of(parts, code)
        if file and file != path and module_of(file) == module_of(path):
            yield file


def imports_of_models_in_doors(code: Code) -> list[str]:
    """Doors ask reads, writes and access; never ADK's models."""
    return [
        f"{path} imports models.{name}"
        for path, source in code.items()
        if module_of(path) in DOORS
        for module, name in imports(path, source)
        if module == "models" and name in HOLDS_ADKS_MODELS
    ]


def imports_of_the_wiring(code: Code) -> list[str]:
    """sessions_app works under any wiring: it imports nothing from adkweb."""
    return _imports_of("adkweb", code)


def imports_of_django_in_domain(code: Code) -> list[str]:
    """A program without Django can use domain/."""
    return _imports_of("django", {path: source for path, source in code.items() if module_of(path) == "domain"})


def _imports_of(package: str, code: Code) -> list[str]:
    problems = []
    for path, source in code.items():
        for node in nodes_of(source):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
            problems += [f"{path} imports {name}" for name in names if name.split(".")[0] == package]
    return problems


def uses_of_private_names(code: Code) -> list[str]:
    """What begins with an underscore is used in its own module only, and nobody imports a library's `internal` modules."""
    problems = []
    for path, source in code.items():
        imported = list(_imports(path, source))
        modules = {name for parts, name in imported if _file_of([*parts, name], code)}
        problems += [f"{path} imports {'.'.join([*parts, name])}" for parts, name in imported if name.startswith("_")]
        problems += [
            f"{path} imports {node.module}"
            for node in nodes_of(source)
            if isinstance(node, ast.ImportFrom) and "internal" in (node.module or "").split(".")
        ]
        problems += [
            f"{path} uses {node.value.id}.{node.attr}"
            for node in nodes_of(source)
            if isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id in modules
            and re.match(r"_[^_]", node.attr)
        ]
    return problems


def private_names_in_tests(code: Code) -> list[str]:
    """Private names of adkweb, or of another file of the tests, that a test imports, uses or sets."""
    problems = []
    for path, source in code.items():
        ours = [
            (node.module or "", alias)
            for node in nodes_of(source)
            if isinstance(node, ast.ImportFrom)
            and (node.module or "").split(".")[0] in {"sessions_app", "adkweb", "tests"}
            for alias in node.names
        ]
        modules = {alias.asname or alias.name for module, alias in ours if not module.endswith("commands")}
        named = [alias.name for module, alias in ours if not module.endswith("commands")]  # Django wants the underscore
        used = [f"{name}.{attribute}" for name, attribute in _attributes(source) if name in modules]
        problems += [f"{path} uses {name}" for name in [*named, *used] if re.match(r"(\w+\.)?_[^_]\w*$", name)]
    return problems


def _attributes(source: str) -> Iterator[tuple[str, str]]:
    """What is read off a name, or set by a monkeypatch: (name, attribute)."""
    for node in nodes_of(source):
        match node:
            case ast.Attribute(value=ast.Name(id=name), attr=attribute):
                yield name, attribute
            case ast.Call(args=[ast.Name(id=name), ast.Constant(value=str(attribute)), *_]):
                yield name, attribute


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
# Adopting is an exception: it numbers the events that are there, and its trigger notes initial state. So is the copy of the
# demo, whose times are moved before it is a source.
ADOPTION: Final = {
    "sources/demo.py": {
        ("UPDATE", "app_states", "update_time"),
        ("UPDATE", "user_states", "update_time"),
        ("UPDATE", "sessions", "create_time"),
        ("UPDATE", "events", "timestamp"),
    },
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
    """Calls that would change rows through ADK's models, in any module that has one of them in hand.

    A call on one of adkweb's own models by name is none: `StateChange.objects.filter(…).delete()`. It may stand there.
    """
    problems = []
    for path, source in code.items():
        models = {name for module, name in imports(path, source) if module == "models"}
        if path != "models/adk.py" and not models & HOLDS_ADKS_MODELS:
            continue
        here = {node.name for node in nodes_of(source) if isinstance(node, ast.ClassDef)}
        own = (models | here) - HOLDS_ADKS_MODELS
        problems += [
            f"{path}:{node.lineno} calls .{node.func.attr}()"
            for node in nodes_of(source)
            if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and _ORM_CHANGES.fullmatch(node.func.attr)
            and _root(node.func) not in own
        ]
    return problems


def _root(node: ast.expr) -> str:
    """The name that a chain of attributes and calls begins with: `Event` for `Event.objects.filter(…).delete`."""
    while isinstance(node, ast.Attribute | ast.Call):
        node = node.value if isinstance(node, ast.Attribute) else node.func
    return node.id if isinstance(node, ast.Name) else ""


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
    ("DELETE", "user_states"): {"delete_user_state"},  # of a user who is erased, and has no session
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
    pieces: dict[str, ast.AST] = {}
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            pieces |= {f"{node.name}.{m.name}": m for m in node.body if isinstance(m, ast.FunctionDef)}
            rest = [m for m in node.body if not isinstance(m, ast.FunctionDef)]
            pieces[node.name] = ast.Module(body=rest, type_ignores=[])
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            pieces[node.name] = node
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            pieces |= {target.id: node for target in targets if isinstance(target, ast.Name)}
    return pieces


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
        for text in _texts(source)
        for name, pattern in OF_DIALECT.items()
        if re.search(pattern, text)
    ]


# Who may ask which database it is: what is below sources/, the one place where an append goes one of two ways, and the API,
# which tells it.
ASK_FOR_THE_VENDOR: Final = {
    *(DIALECT, "sources/registry.py", "models/adk.py", "models/tables.py", "access/audit/record.py"),
    *("writes/append.py", "api/apps.py"),
}


def forks_beside_the_dialect(code: Code) -> list[str]:
    """Finds where a database is asked which one it is, instead of a dialect what it can do."""
    return [
        f"{path}:{node.lineno} asks for the vendor; {DIALECT} says what differs"
        for path, source in code.items()
        if path not in ASK_FOR_THE_VENDOR
        for node in nodes_of(source)
        if isinstance(node, ast.Attribute) and node.attr == "vendor"
    ]


def errors_of_sources_as_they_are(code: Code) -> list[str]:
    """Finds pages and programs that show the words of any error: those of a source name a file or a server."""
    problems = []
    for path, source in code.items():
        if module_of(path) not in {
            "web",
            "api",
            "live",
        }:  # who starts a command or an agent knows where its database is
            continue
        for tried in (node for node in nodes_of(source) if isinstance(node, ast.Try)):
            for handler in tried.handlers:
                caught = {each.id for each in ast.walk(handler.type or handler) if isinstance(each, ast.Name)}
                problems += [
                    f"{path}:{node.lineno} shows an error of a source to everybody; sources.errors.shown asks who looks"
                    for node in ast.walk(handler)
                    if {"Error", "SourceError"} & caught
                    and isinstance(node, ast.Attribute)
                    and node.attr == "message"
                    and _root(node) == handler.name
                ]
                if "SourceError" in caught:  # the next handlers get none
                    break
    return problems


def _texts(source: str) -> Iterator[str]:
    """Every text of a module but its docstrings."""
    prose = {id(node.value) for node in nodes_of(source) if isinstance(node, ast.Expr)}
    for node in nodes_of(source):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            yield node.value


KINDS_TABLE: Final = "domain/kinds.py"
FEW_KINDS: Final = 4  # that may be named together, where they are meant one by one


def other_tables_of_kinds(code: Code) -> list[str]:
    """Where something is said of many kinds of event, beside their table."""
    return [
        f"{path}:{node.lineno} is a table of kinds; {KINDS_TABLE} has theirs"
        for path, source in code.items()
        if path != KINDS_TABLE
        for node in nodes_of(source)
        if isinstance(node, ast.Dict | ast.Tuple | ast.List)  # a set asks only which they are
        for names in [[e.value for e in _entries(node) if isinstance(e, ast.Constant)]]
        if len({*names} & {*KINDS}) > FEW_KINDS and {*names} <= {*KINDS}
    ]


def _entries(node: ast.Dict | ast.Tuple | ast.List) -> list[ast.expr | None]:
    return [*(node.keys if isinstance(node, ast.Dict) else node.elts)]


# --- Reads ------------------------------------------------------------------------------------------------------------

ASKED: Final = (  # what doors read from
    *("reads/", "history/", "search/", "agent_view/", "checks/", "transfer/exporting.py"),
    *("edits/fork_jobs.py", "edits/fork_tree.py", "edits/repair.py", "edits/rewind.py", "edits/undo.py"),
)
OF_SOMEBODY: Final = {"source", "ref", "selection", "event", "view"}  # parameters that say of what a read is
# What only the machine asks for: where events were read to, and that they are read again. It tells nothing that is stored.
MACHINES: Final = {
    "history/index/build.py",
    "search/index/feed.py",
    "search/saved/match_watcher.py",
    "checks/live_checks.py",
}


def reads_without_an_actor(code: Code) -> list[str]:
    """Reads that a door calls and that do not ask who wants to know, or that know it if nobody says."""
    problems = set()
    for path, source in code.items():
        if module_of(path) not in DOORS:
            continue
        for file, name in _named(path, source, code):
            if not file.startswith(ASKED) or file in MACHINES:
                continue
            for node in parse(code[file]).body:
                if isinstance(node, ast.FunctionDef) and node.name == name and OF_SOMEBODY & _parameters(node):
                    must = {each.arg for each, default in _by_name(node) if default is None}
                    problems |= (
                        {f"{file}: {name} takes no actor, and {path} calls it"} if "actor" not in must else set()
                    )
    return sorted(problems)


PARSERS: Final = {"read_stored", "read_stored_or_none", "parse"}  # of stored JSON
# They compute where keys were written, how deltas were applied, and what can be looked for. Their answers have no value,
# or are shown by search/results.py. What language.py, state_condition.py and saved/ parse is a query. large_events.py reads
# an event piece by piece, and shows it when it is whole again.
TELL_NO_VALUE: Final = {
    *(
        "history/index/read_source.py",
        "history/adk_merge_bug.py",
        "search/language.py",
        "search/index/read.py",
        "search/state_condition.py",
    ),
    *("search/saved/match_watcher.py", "search/saved/views.py", "reads/large_events.py"),
}


def values_that_pass_no_mask(code: Code) -> list[str]:
    """Functions that read stored JSON for somebody without asking `access/shown.py` what they may see."""
    return [
        f"{path}: {node.name} reads stored JSON and does not call shown"
        for path, source in code.items()
        if path.startswith(ASKED) and path not in TELL_NO_VALUE
        for node in nodes_of(source)
        if isinstance(node, ast.FunctionDef) and PARSERS & _called(node) and "shown" not in _called(node)
    ]


def _called(node: ast.AST) -> set[str]:
    return {each.func.id for each in ast.walk(node) if isinstance(each, ast.Call) and isinstance(each.func, ast.Name)}


def doors_that_ask_as_the_machine(code: Code) -> list[str]:
    """Doors that read as SYSTEM, which sees everything: what they answer is for somebody else."""
    return [
        f"{path} reads as SYSTEM"
        for path, source in code.items()
        if module_of(path) in DOORS and path != "live/source_follower.py"  # it asks whether sessions moved
        for node in nodes_of(source)
        if isinstance(node, ast.keyword) and node.arg == "actor" and ast.unparse(node.value).endswith("SYSTEM")
    ]


def _named(path: str, source: str, code: Code) -> Iterator[tuple[str, str]]:
    """What a file uses of other modules: (file, name)."""
    modules: dict[str, str] = {}
    package = ["sessions_app", *PurePosixPath(path).parent.parts]
    for node in nodes_of(source):
        if isinstance(node, ast.ImportFrom) and node.level:
            start = [*package[: len(package) - node.level + 1][1:], *(node.module or "").split(".")]
            parts = [part for part in start if part]
            for alias in node.names:
                if file := _file_of([*parts, alias.name], code):
                    modules[alias.asname or alias.name] = file
                elif file := _file_of(parts, code):
                    yield file, alias.name
    for each in nodes_of(source):
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


# --- What outlives a request ------------------------------------------------------------------------------------------

_CACHES: Final = {"cache", "lru_cache"}
_EMPTY: Final = {
    "dict",
    "set",
    "list",
    "deque",
    "defaultdict",
    "OrderedDict",
    "WeakKeyDictionary",
    "WeakValueDictionary",
}


def kept(code: Code) -> Iterator[tuple[str, str]]:
    """What a process keeps from one request to the next: (path, name) of functions that remember what they returned, of
    containers that a module fills, and of those that the threads of live/ do."""
    for path, source in code.items():
        for node in nodes_of(source):
            if isinstance(node, ast.FunctionDef) and any(_is_cache(each) for each in node.decorator_list):
                yield path, node.name
            elif path.startswith("live/") and isinstance(node, ast.ClassDef):
                yield from ((path, name) for each in node.body for name in _filled(each))
                yield from ((path, name) for each in ast.walk(node) for name in _filled(each, of_self=True))
        for statement in parse(source).body:
            yield from ((path, name) for name in _filled(statement))


def _is_cache(decorator: ast.expr) -> bool:
    named = decorator.func if isinstance(decorator, ast.Call) else decorator
    return (named.attr if isinstance(named, ast.Attribute) else getattr(named, "id", "")) in _CACHES


def _filled(statement: ast.AST, *, of_self: bool = False) -> Iterator[str]:
    """The name that a statement makes an empty container, or the attribute of `self`."""
    if not isinstance(statement, ast.Assign | ast.AnnAssign):
        return
    value = statement.value
    called = getattr(value.func, "id", "") if isinstance(value, ast.Call) else ""
    empty = isinstance(value, ast.Dict) and not value.keys
    empty |= isinstance(value, ast.List | ast.Set) and not value.elts
    if empty or called in _EMPTY or (called == "field" and "default_factory" in ast.dump(value)):  # type: ignore[arg-type]
        for target in statement.targets if isinstance(statement, ast.Assign) else [statement.target]:
            if isinstance(target, ast.Name) and not of_self:
                yield target.id
            elif of_self and isinstance(target, ast.Attribute):
                yield target.attr


def caches_without_a_reason(code: Code) -> list[str]:
    """What is kept, and is not in KEPT with the reason for which no value that a rule hides is shown from it."""
    return [f"{path}: {name} is kept, and not in KEPT" for path, name in kept(code) if (path, name) not in KEPT]


# Why each of them shows no value that a rule of masking hides. Whatever keeps something that was shown has
# masking.digest() in its key, or forgets it when that changes: docs/architecture.md, "How a value gets out".
_REASONS: Final = {
    "forgets what was made by other rules: Room._heed_masks, Lobby._send": """
        live/client.py _waiting  live/feed.py _watchers  live/room.py parts  live/room.py _parts  live/room.py _last""",
    "holds rules, rights, people, programs or numbers of requests": """
        access/approval.py known  access/rates.py paid  access/roles.py known  access/tokens.py known
        access/actor.py read_only_sources  adk/companion.py _made  live/commands.py waiting_for
        access/audit/refusals.py known  live/client.py watchers  live/room.py seats  live/room.py _present""",
    "holds words by which the index is asked; the index itself is read anew": """
        search/matching.py _common  search/vocabulary.py _remembered  search/vocabulary.py _begun""",
    "holds numbers and places of events, and names of keys": """
        history/index/build.py paces  history/unadopted.py memories  history/adk_merge_bug.py seen""",
    "holds what an agent says right now, which is masked each time it is pushed": """
        running/runs.py spoken  running/runs.py _said""",
    "holds sources, folders and how they do": """
        artifacts/buckets.py client  artifacts/buckets.py _silent  live/search_feeder.py whole  sources/adopt_job.py _threads
        sources/hung.py _waiting  sources/hung.py _connections  sources/hung.py _hung  sources/hung.py _due
        sources/adopt_job.py _left_out  sources/database.py _files  sources/database.py due  sources/database.py _opening
        sources/database.py _tried  sources/finding.py _unreadable  sources/health.py _sources
        sources/versions.py _loader  sources/registry.py sources  sources/registry.py searched_folders
        sources/registry.py opened_files  sources/registry.py identities  sources/registry.py _found
        sources/registry.py refusals  sources/registry.py _addresses  sources/database.py _problems
        sources/database.py locked_files  sources/database.py versions_due
        sources/identity.py copies  sources/identity.py standbys  sources/identity.py duplicates
        sources/identity.py _again""",
    "holds threads and their work": """
        broadcast.py _thread  broadcast.py _listeners  jobs/lease.py _seen  jobs/process.py machine
        jobs/runner.py kinds  jobs/runner.py _at_work  running/children.py _own
        running/runs.py _untold
        live/feed.py _followers  live/room.py _stale  live/room.py _earliest  live/search_feeder.py _feeders
        live/search_feeder.py _lookers  live/search_feeder.py _noticed  live/search_feeder.py _seen
        live/source_follower.py hearers  live/source_follower.py _rooms  live/source_follower.py _wishes
        live/source_follower.py _told  live/source_follower.py _last  live/source_follower.py followers
        writes/commits.py lines""",
    "follows from adkweb's own code and files, or from an agent's": """
        agent_view/agent_files.py _read_by  api/adk/bodies.py _new_session  api/adk/models.py event_model
        api/adk/models.py _model  api/adk/sending.py _fields  api/routes.py document  domain/adk_fields.py models
        domain/adk_fields.py _validator  domain/differences.py _token  domain/masks.py _field_of
        domain/camel_case.py _renaming  http/headers.py _static  search/language.py _parser  web/html/markdown.py _parser
        http/reader.py _zones  web/dates.py _words_of  web/transfer/single_file.py _style
        web/transfer/single_file.py _script  web/templatetags/links.py icon  web/templatetags/links.py _shapes
        writes/append.py _append_statement  writes/commits.py _with_question_marks""",
}
KEPT: Final = {tuple(each.split()) for names in _REASONS.values() for each in re.split(r"\s{2,}", names.strip())}
