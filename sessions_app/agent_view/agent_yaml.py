"""Finds agents and their instructions in ADK's Agent Config files by reading them (pure). What they name is never
imported.

From `root_agent.yaml` on, the files that `config_path` names are followed within the folder of the file that names
them, as ADK does. Files are read as events, one after the other, so that no alias and no nesting can make them larger.
"""

import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import yaml

from .agent_code import Unread, Written
from .instructions import LONGEST

ROOT: Final = "root_agent.yaml"
SUFFIXES: Final = (".yaml", ".yml")
DEEPEST: Final = 32  # levels of a file
_FILES: Final = 200
_NODES: Final = 20_000  # values of a file
_CLASSES: Final = ("", "Agent", "LlmAgent")
_TAGS: Final = (None, "!", "tag:yaml.org,2002:str")
_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TEXT: Final = "tag:yaml.org,2002:str"
_resolver: Final[Any] = yaml.resolver.Resolver()


@dataclass(frozen=True, slots=True)
class _Node:
    """A value of a file: a mapping, a list, or one with a `text`, which is None if it is not a string."""

    line: int
    mapping: dict[str, "_Node"] | None = None
    entries: "list[_Node] | None" = None
    text: str | None = None


class _Refused(Exception):
    def __init__(self, why: Unread) -> None:
        super().__init__(why)
        self.why = why


class Configs:
    """The agents of a folder's Agent Config files. `unread` has the reasons for files that were not read.

    `faults` are files that were not read and may hold an agent."""

    def __init__(self, files: Mapping[str, str], unread: Mapping[str, Unread]) -> None:
        self._files, self._unread = files, unread
        self.agents: list[tuple[str, Written]] = []
        self.faults: list[Written] = []
        if ROOT in files or ROOT in unread:
            self._follow()

    def _follow(self) -> None:
        known = [ROOT]  # grows
        for path in known:
            try:
                top = self._loaded(path)
            except _Refused as refused:
                self.faults.append(Written("unread", path, 1, why=refused.why))
                continue
            for node in _mappings(top):
                self._add(node, path)
            folder = posixpath.dirname(path)
            for named in _named(top):
                below = posixpath.normpath(posixpath.join(folder, named.text or ""))
                if f"{below}/".startswith(("/", "../")) or not below.startswith(f"{folder}/" if folder else ""):
                    self.faults.append(Written("unread", path, named.line, why="outside"))
                elif below not in known and len(known) < _FILES:
                    known.append(below)

    def _loaded(self, path: str) -> _Node:
        if path not in self._files:
            raise _Refused(self._unread.get(path, "missing"))
        return _loaded(self._files[path])

    def _add(self, node: _Node, path: str) -> None:
        given = node.mapping or {}
        name, made = given.get("name"), given.get("agent_class")
        if name is None or name.text is None or not _is_llm(made):
            return
        value = given.get("instruction")
        if value is None:
            written = Written("none", path, name.line)
        elif value.text is None:
            written = Written("dynamic", path, value.line)
        elif len(value.text) > LONGEST:
            written = Written("long", path, value.line)
        else:
            written = Written("text", path, value.line, value.text)
        self.agents.append((name.text, written))


def _is_llm(made: _Node | None) -> bool:
    return made is None or (made.text or "?").rpartition(".")[2] in _CLASSES


def _mappings(top: _Node) -> Iterator[_Node]:
    """Yields the agents of a file: the one that it is of, and those that are written out below it."""
    left = [top]
    while left:
        node = left.pop()
        if node.mapping is not None:
            yield node
            left += [node.mapping[key] for key in ("edges", "sub_agents") if key in node.mapping]
        left += reversed(node.entries or [])


def _named(top: _Node) -> Iterator[_Node]:
    """Yields the paths of files that an agent's file names, in its `sub_agents` and `edges`."""
    for agent in _mappings(top):
        given = agent.mapping or {}
        if (path := given.get("config_path")) and path.text:
            yield path
        left = [given[key] for key in ("edges", "sub_agents") if key in given]
        while left:
            node = left.pop()
            if node.text and node.text.endswith(SUFFIXES):
                yield node
            left += reversed(node.entries or [])


# --- A file -----------------------------------------------------------------------------------------------------------


def _loaded(text: str) -> _Node:
    """Returns the content of a file. Raises _Refused for one that isn't YAML, or that has something that could make it
    grow or run."""
    try:
        return _built(text)
    except (yaml.YAMLError, ValueError, RecursionError, UnicodeError) as error:
        raise _Refused("broken") from error


def _built(text: str) -> _Node:
    open_: list[tuple[_Node, _Node | None]] = []  # what is being filled, and the key that waits for its value
    top: _Node | None = None
    number = 0
    for event in yaml.parse(text, Loader=_LOADER):
        if isinstance(event, yaml.AliasEvent):
            raise _Refused("alias")
        if isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            open_.pop()
        if not isinstance(event, yaml.NodeEvent):
            continue
        number += 1
        node = _node(event)
        if len(open_) == DEEPEST or number > _NODES:
            raise _Refused("deep")
        if not open_:
            if top is not None:
                raise _Refused("broken")  # ADK reads a single document
            top = node
        else:
            open_[-1] = _put(*open_[-1], node)
        if node.mapping is not None or node.entries is not None:
            open_.append((node, None))
    if top is None or top.mapping is None:
        raise _Refused("broken")
    return top


def _node(event: Any) -> _Node:
    line = event.start_mark.line + 1
    if getattr(event, "tag", None) not in _TAGS:
        raise _Refused("tag")
    if isinstance(event, yaml.MappingStartEvent):
        return _Node(line, mapping={})
    if isinstance(event, yaml.SequenceStartEvent):
        return _Node(line, entries=[])
    tag = event.tag or _resolver.resolve(yaml.ScalarNode, event.value, event.implicit)
    text = event.value.encode("utf-8", "replace").decode() if tag in ("!", _TEXT) else None
    return _Node(line, text=text)


def _put(holder: _Node, key: _Node | None, node: _Node) -> tuple[_Node, _Node | None]:
    if holder.entries is not None:
        holder.entries.append(node)
    elif key is None:
        return holder, node
    elif holder.mapping is not None and key.text is not None:
        holder.mapping[key.text] = node
    return holder, None
