"""The table of every route in docs/api.md, from the OpenAPI document: `make docs` writes it again."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

PAGE: Final = Path(__file__).resolve().parent.parent / "docs" / "api.md"
HEAD: Final = "| address | | does | permission |\n| --- | --- | --- | --- |\n"


def table() -> str:
    """The table's rows."""
    from sessions_app.api.openapi import PERMISSION
    from sessions_app.api.routes import document

    rows = []
    for path, operations in document()["paths"].items():
        for method, operation in operations.items():
            names = [p["name"] for p in operation.get("parameters", []) if p["in"] == "query" and p["name"] != "source"]
            asked = f" (`{'`, `'.join(names)}`)" if names else ""
            rows.append(f"| `{path}` | {method.upper()} | {operation['summary']}{asked} | {operation[PERMISSION]} |\n")
    return "".join(rows)


def written(page: str) -> str:
    """The page with the table as it should be; it is the last thing in it."""
    before, head, _rows = page.partition(HEAD)
    assert head, "docs/api.md has no table of routes"
    return before + head + table()


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
    import django

    django.setup()
    PAGE.write_text(written(PAGE.read_text()))
