"""The style sheet and the script of all pages say what the files say that they are made of, and forget none."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from django.contrib.staticfiles import finders

from sessions_app.http.bundles import BUNDLES

ROOT = Path(__file__).resolve().parent.parent
STATIC = ROOT / "static"


def minified(text: str, loader: str) -> str:
    """What esbuild, which parses both languages, makes of a text."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    command = [ROOT / "frontend/node_modules/.bin/esbuild", "--minify", f"--loader={loader}", "--log-level=error"]
    done = subprocess.run(command, input=text, text=True, capture_output=True, env={**os.environ, "PATH": path})
    assert done.returncode == 0, done.stderr
    return done.stdout


def path_of(name: str) -> Path:
    """A static file."""
    path = finders.find(name)
    assert isinstance(path, str), name
    return Path(path)


@pytest.mark.parametrize("name", BUNDLES)
def test_a_bundle_says_what_its_files_say(name: str) -> None:
    whole = "\n".join(path_of(each).read_text("utf-8") for each in BUNDLES[name])
    text = re.sub(r"\?v=\w+", "", path_of(name).read_text("utf-8"))  # fonts are named with their version
    assert minified(text, name.rpartition(".")[2]) == minified(whole, name.rpartition(".")[2])
    assert len(text) < 0.85 * len(whole)


def test_each_style_sheet_and_script_is_in_a_bundle_or_on_a_page_of_its_own() -> None:
    templates = "\n".join(path.read_text("utf-8") for path in (ROOT / "templates").rglob("*.html"))
    named = {*re.findall(r"""\{% static '([^']+)' %}""", templates)}
    # A session that is exported as one file holds these two.
    named |= {
        "css/transfer/single_file.css",
        "js/single_file.js",
        *(each for some in BUNDLES.values() for each in some),
    }
    there = [path.relative_to(STATIC).as_posix() for kind in ("css", "js") for path in (STATIC / kind).rglob("*.*")]
    assert not [name for name in there if name not in named]
    assert not [name for some in BUNDLES.values() for name in some if name in templates]


def test_what_a_style_sheet_loads_is_found_from_where_the_bundle_is() -> None:
    loaded = re.findall(r"url\(\s*[\"']?([^\"')#]+)", path_of("css/pages.css").read_text("utf-8"))
    assert loaded
    for url in loaded:
        assert (STATIC / "css" / url.partition("?v=")[0]).is_file(), url
