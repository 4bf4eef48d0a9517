"""Finds an agent's instruction in Python files by reading them (pure). They are never imported or run.

It looks for a call of `Agent` or `LlmAgent` with the agent's name. Its instruction is known if it is a text, several of
them put together, or the name of such a text at the top of this file or of one that it imports from.
"""

import ast
import threading
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import PurePosixPath
from typing import Final, Literal

from .instructions import LONGEST, keys_in

CALLS: Final = ("Agent", "LlmAgent")
Unread = Literal["outside", "missing", "link", "large", "many", "broken", "alias", "tag", "deep"]
_STEPS: Final = 200  # expressions that are looked at for one instruction
_AGENTS: Final = 2_000  # calls that are looked at
_parsing = threading.Lock()  # warnings while a file is parsed are dropped, which is a setting of the whole process


@dataclass(frozen=True, slots=True)
class Written:
    """An instruction as it is written in a file: its `text`; or that there is `none`, that it is `dynamic` (made when
    the agent runs), or too `long`; or `why` a file that may have it is `unread`. `others` make an agent of the same
    name."""

    kind: Literal["text", "none", "dynamic", "long", "unread"]
    file: str
    line: int
    text: str = ""
    others: int = 0
    why: Unread | Literal[""] = ""


@dataclass(slots=True)
class _Module:
    tree: ast.Module
    folder: tuple[str, ...]
    constants: dict[str, ast.expr] = field(default_factory=dict)
    imports: dict[str, tuple[tuple[str, ...], str]] = field(default_factory=dict)  # name → (module's path, name in it)


class Code:
    """The Python files of a folder of that `name`, by their path in it."""

    def __init__(self, name: str, files: Mapping[str, str]) -> None:
        self._name = name
        self._files = files
        self._modules: dict[str, _Module | None] = {}
        self._left = 0

    def instruction(self, agent: str) -> Written | None:
        """Returns the instruction of the agent with this name; None if no file makes such an agent."""
        written: Written | None = None
        others = 0
        for path, module, call in islice(self._agents(), _AGENTS):
            given = {each.arg: each.value for each in call.keywords}
            if self._resolved(given.get("name"), module) != agent:
                continue
            if written is None:
                written = self._written(given, module, path, call)
            else:
                others += 1
        return written and Written(written.kind, written.file, written.line, written.text, others)

    def readers(self) -> dict[str, list[str]]:
        """Returns the agents whose instruction has a key as a placeholder, by key: {"user:tier": ["booking_agent"]}."""
        readers: dict[str, set[str]] = {}
        for path, module, call in islice(self._agents(), _AGENTS):
            given = {each.arg: each.value for each in call.keywords}
            agent = self._resolved(given.get("name"), module)
            written = self._written(given, module, path, call)
            for key in keys_in(written.text) if agent and written.kind == "text" else ():
                readers.setdefault(key, set()).add(agent or "")
        return {key: sorted(agents) for key, agents in readers.items()}

    def _agents(self) -> Iterator[tuple[str, _Module, ast.Call]]:
        for path, text in self._files.items():
            if "Agent" in text and (module := self._module(path)):
                yield from ((path, module, call) for call in _calls(module))

    def _written(self, given: Mapping[str | None, ast.expr], module: _Module, path: str, call: ast.Call) -> Written:
        value = given.get("instruction")
        if value is None:
            return Written("dynamic" if None in given else "none", path, call.lineno)  # None: **more
        text = self._resolved(value, module)
        if text is None:
            return Written("dynamic", path, value.lineno)
        return (
            Written("text", path, value.lineno, text) if len(text) <= LONGEST else Written("long", path, value.lineno)
        )

    # --- Texts --------------------------------------------------------------------------------------------------------

    def _resolved(self, value: ast.expr | None, module: _Module) -> str | None:
        self._left = _STEPS
        text = self._text(value, module)
        return None if text is None else text.encode("utf-8", "replace").decode()  # a half of a surrogate pair

    def _text(self, value: ast.expr | None, module: _Module) -> str | None:
        self._left -= 1
        if self._left < 0:
            return None
        match value:
            case ast.Constant(value=str(text)):
                return text
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return self._joined([left, right], module)
            case ast.JoinedStr(values=values):
                return self._joined(values, module)
            case ast.Name(id=name) if name in module.constants:
                return self._text(module.constants[name], module)
            case ast.Name(id=name) if name in module.imports:
                return self._imported(*module.imports[name])
            case ast.Attribute(value=ast.Name(id=name), attr=attribute) if name in module.imports:
                path, inner = module.imports[name]
                return self._imported((*path, inner), attribute)
        return None

    def _joined(self, values: list[ast.expr], module: _Module) -> str | None:
        texts: list[str] = []
        for value in values:
            text = self._text(value, module)
            if text is None or sum(map(len, texts)) > LONGEST:
                return None
            texts.append(text)
        return "".join(texts)

    def _imported(self, path: tuple[str, ...], name: str) -> str | None:
        ways = [path, path[1:]] if path[:1] == (self._name,) else [path]
        for way in ways:
            for file in ("/".join(way) + ".py", "/".join((*way, "__init__.py"))):
                module = self._module(file)
                if module and name in module.constants:
                    return self._text(module.constants[name], module)
        return None

    # --- Modules ------------------------------------------------------------------------------------------------------

    def _module(self, path: str) -> _Module | None:
        if path not in self._modules:
            tree = _parsed(self._files[path]) if path in self._files else None
            self._modules[path] = _read(tree, PurePosixPath(path).parent.parts) if tree else None
        return self._modules[path]


def _parsed(text: str) -> ast.Module | None:
    try:
        with _parsing, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _read(tree: ast.Module, folder: tuple[str, ...]) -> _Module:
    """Returns a module with the texts at its top: a name that is set more than once is left out, because no one knows
    which value counts."""
    module = _Module(tree, folder)
    times: Counter[str] = Counter()
    for node in _at_top(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            times[node.id] += 1
        elif isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            module.constants[node.targets[0].id] = node.value
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value:
            module.constants[node.target.id] = node.value
        elif isinstance(node, ast.ImportFrom) and node.level <= len(folder) + 1:
            base = folder[: len(folder) - node.level + 1] if node.level else ()
            path = (*base, *(node.module.split(".") if node.module else ()))
            module.imports |= {alias.asname or alias.name: (path, alias.name) for alias in node.names}
    changed = {name for node in ast.walk(tree) if isinstance(node, ast.Global) for name in node.names}
    for name in [each for each in module.constants if times[each] > 1 or each in changed]:
        del module.constants[name]
        module.imports.pop(name, None)
    return module


def _at_top(tree: ast.Module) -> Iterator[ast.AST]:
    """Yields what runs when a module is loaded, without the bodies of functions and classes."""
    left: list[ast.AST] = [tree]
    while left:
        node = left.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            left.extend(ast.iter_child_nodes(node))


def _calls(module: _Module) -> Iterator[ast.Call]:
    for node in ast.walk(module.tree):
        if not isinstance(node, ast.Call):
            continue
        if isinstance(node.func, ast.Name):
            name = module.imports.get(node.func.id, ((), node.func.id))[1]
        else:
            name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        if name in CALLS:
            yield node
