"""What is committed under static/ is what vendor.lock.json says, and a browser never asks another host for anything."""

import base64
import hashlib
import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
STATIC = ROOT / "static"
VENDOR = STATIC / "vendor"
LOCK = json.loads((VENDOR / "vendor.lock.json").read_text("utf-8"))
VENDORED = sorted(path for path in VENDOR.rglob("*") if path.is_file() and path.name != "vendor.lock.json")
LOADED = {".css", ".html", ".js", ".json", ".map", ".mjs", ".svg"}
NAMESPACES = {"http://www.w3.org/1999/xhtml", "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}


def test_the_lock_lists_every_file_and_nothing_else():
    assert {path.relative_to(VENDOR).as_posix() for path in VENDORED} == set(LOCK["files"])


@pytest.mark.parametrize("path", VENDORED, ids=lambda path: path.name)
def test_a_file_is_what_the_lock_says(path):
    name = path.relative_to(VENDOR).as_posix()
    assert hashlib.sha512(path.read_bytes()).hexdigest() == LOCK["files"][name]
    sources = [package for package in LOCK["packages"] if name in package["files"]]
    assert sources, f"no package is named for {name}"
    assert any(package["version"] in name for package in sources), f"{name} has no version in its name"


@pytest.mark.parametrize("package", LOCK["packages"], ids=lambda package: package["package"])
def test_a_package_is_pinned_and_its_licence_is_here(package):
    pinned = json.loads((ROOT / "frontend" / "package-lock.json").read_text("utf-8"))["packages"]
    pinned = pinned[f"node_modules/{package['package']}"]
    assert package["version"] == pinned["version"]
    assert package["sha512"] == base64.b64decode(pinned["integrity"].removeprefix("sha512-")).hex()
    assert package["licence"] in {"MIT", "OFL-1.1"}
    assert any("LICENSE" in name for name in package["files"])


def test_the_npm_lock_names_no_registry():
    lock = json.loads((ROOT / "frontend" / "package-lock.json").read_text("utf-8"))
    assert not [name for name, package in lock["packages"].items() if "resolved" in package]


def test_the_npm_lock_serves_every_platform():
    packages = json.loads((ROOT / "frontend" / "package-lock.json").read_text("utf-8"))["packages"]
    wanted = {name for package in packages.values() for name in package.get("optionalDependencies", {})}
    assert wanted <= {path.removeprefix("node_modules/") for path in packages}


def test_css_loads_only_files_that_are_here():
    for path in STATIC.rglob("*.css"):
        for url in re.findall(r"url\(\s*[\"']?([^\"')]+)", path.read_text("utf-8")):
            assert not url.startswith(("http:", "https:", "//")), f"{path.name} loads {url}"
            if not url.startswith(("data:", "#")):
                assert (path.parent / url.split("#")[0]).is_file(), f"{path.name} loads {url}, which is not there"


def test_nothing_in_static_refers_to_another_host():
    for path in STATIC.rglob("*"):
        if path.suffix in LOADED:
            found = set(re.findall(r"https?://[^\s\"'`<>)]+", path.read_text("utf-8")))
            assert found <= NAMESPACES, f"{path.relative_to(STATIC)} refers to {sorted(found - NAMESPACES)}"
