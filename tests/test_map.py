"""docs/architecture.md is a map of the code as it is."""

import ast
import re
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
APP: Final = ROOT / "sessions_app"
PAGE: Final = (ROOT / "docs" / "architecture.md").read_text()
DJANGOS: Final = {"migrations", "locale"}


def rows(page: str, head: str) -> list[list[str]]:
    """The cells of the table that begins with this head."""
    (table,) = re.findall(rf"^\| {re.escape(head)} .*\n\|[ |-]+\n((?:\|.*\n)+)", page, re.MULTILINE)
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table.splitlines()]


def shelves() -> dict[str, int]:
    """The number of each name's shelf, as the package's docstring has it."""
    lines = (ast.get_docstring(ast.parse((APP / "__init__.py").read_text())) or "").splitlines()
    named = (re.split(r" {2,}", line)[:-1] for line in lines if re.match(r"\d+  \w", line))
    return {name: int(number) for number, *names in named for name in names}


def way() -> list[str]:
    """The files that an edit crosses, in order."""
    return [cells[1].strip("`") for cells in rows(PAGE, "| file of `sessions_app/`")]


def test_every_folder_stands_in_the_table_in_the_order_of_its_shelf() -> None:
    folders = [re.findall(r"`(\w+)/`", cells[0])[0] for cells in rows(PAGE, "folder of `sessions_app/`")]
    there = {path.parent.name for path in APP.glob("*/__init__.py")} - DJANGOS
    assert sorted(folders) == sorted(there)
    assert folders == sorted(folders, key=lambda name: shelves()[name])


def test_every_file_to_look_at_first_is_there() -> None:
    for cells in rows(PAGE, "folder of `sessions_app/`"):
        folder = re.findall(r"`(\w+)/`", cells[0])[0]
        files = re.findall(r"`([\w/]+\.py)`", cells[2])
        assert files, folder
        assert [name for name in files if not (APP / folder / name).exists()] == []


def test_every_folder_beside_it_is_there_and_stands_in_the_table() -> None:
    folders = {cells[0].strip("`/") for cells in rows(PAGE, "next to it")}
    assert {name for name in folders if not (ROOT / name).is_dir()} == set()
    assert {path.name for path in ROOT.glob("*/") if any(path.glob("*.py"))} <= folders | {"sessions_app"}


def test_the_way_of_an_edit_is_counted_and_each_of_its_files_is_there() -> None:
    assert [name for name in way() if not (APP / name).exists()] == []
    assert len(set(way())) == len(way())
    assert f"passes through {len(way())} files" in PAGE
    assert [cells[0] for cells in rows(PAGE, "| file of `sessions_app/`")] == [
        str(number + 1) for number in range(len(way()))
    ]
