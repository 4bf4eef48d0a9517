"""Writes what adkweb is made of, as CycloneDX: `make sbom`. It lists what users install, and none of the tools of the tests.

    python -m tests.sbom dist/adkweb.cdx.json

`--requirements FILE` also writes names and versions, for `make audit`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import tomllib
from importlib.metadata import requires, version
from pathlib import Path
from typing import Any, Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT: Final = Path(__file__).resolve().parent.parent


def installed_by_users() -> dict[str, str]:
    """The packages that `pip install adkweb` brings, by name, with their versions here."""
    own = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    there: dict[str, str] = {}
    due = [("adkweb", "")]
    seen: set[tuple[str, str]] = set()
    while due:
        name, extra = due.pop()
        if (name, extra) in seen:
            continue
        seen.add((name, extra))
        there[name] = version(name)
        for text in own if name == "adkweb" else requires(name) or []:
            need = Requirement(text)
            if need.marker is None or need.marker.evaluate({"extra": extra}):
                due += [(canonicalize_name(need.name), each) for each in ("", *need.extras)]
    del there["adkweb"]
    return there


def bill() -> dict[str, Any]:
    """The document. It is the same whenever and wherever it is made of the same packages."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "all.json")
        subprocess.run(
            [
                *(sys.executable, "-m", "cyclonedx_py", "environment", "--output-reproducible"),
                *("--pyproject", str(ROOT / "pyproject.toml"), "-o", str(file), sys.executable),
            ],
            check=True,
            capture_output=True,
        )
        document: dict[str, Any] = json.loads(file.read_text())
    wanted = installed_by_users()
    document["components"] = [
        {name: value for name, value in each.items() if name != "properties"}
        for each in document["components"]
        if canonicalize_name(each["name"]) in wanted
    ]
    refs = {each["bom-ref"] for each in document["components"]} | {document["metadata"]["component"]["bom-ref"]}
    document["dependencies"] = [
        {"ref": each["ref"], "dependsOn": [ref for ref in each.get("dependsOn", []) if ref in refs]}
        for each in document["dependencies"]
        if each["ref"] in refs
    ]
    return document


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=Path)
    parser.add_argument("--requirements", type=Path)
    given = parser.parse_args()
    given.file.parent.mkdir(parents=True, exist_ok=True)
    given.file.write_text(json.dumps(bill(), indent=2) + "\n")
    if given.requirements:
        given.requirements.write_text("".join(f"{name}=={at}\n" for name, at in sorted(installed_by_users().items())))
