"""The recipes of CONTRIBUTING.md work: all of them are followed on a copy of the repository, and tried there."""

import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from tests.support.own import started_before, tables

ROOT: Final = Path(__file__).resolve().parent.parent
TEXT: Final = (ROOT / "CONTRIBUTING.md").read_text()
MOST_FILES: Final = 5  # of a recipe; more would be a finding about the code
_STEP: Final = re.compile(
    r"^`(?P<file>[^`]+)`, (?:(?P<new>a new file)|below `(?P<below>[^\n]+)`|instead of `(?P<old>[^\n]+)`):\n\n"
    r"```\w+\n(?P<code>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


class Step(NamedTuple):
    """What a recipe does with a file."""

    file: str
    below: str
    old: str
    code: str


def recipes() -> dict[str, list[Step]]:
    """The steps of each recipe, by its question."""
    parts = re.split(r"^### (.+)\n", TEXT, flags=re.MULTILINE)[1:]
    return {
        question: [Step(m["file"], m["below"] or "", m["old"] or "", m["code"]) for m in _STEP.finditer(text)]
        for question, text in zip(parts[::2], parts[1::2], strict=True)
    }


def follow(step: Step, root: Path) -> None:
    """Does with a file what the recipe says."""
    path = root / step.file
    if not step.below and not step.old:
        assert not path.exists(), f"{step.file} is there already"
        path.parent.mkdir(exist_ok=True)
        path.write_text(step.code)
        return
    text = path.read_text()
    assert text.count(step.below or step.old) == 1, f"{step.file} has not one “{step.below or step.old}”"
    if step.old:
        path.write_text(text.replace(step.old, step.code.rstrip("\n")))
        return
    end = text.index("\n", text.index(step.below)) + 1
    path.write_text(text[:end] + step.code + text[end:])


@pytest.fixture(scope="module")
def tried(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """What a process of the copy says of each recipe."""
    scratch = tmp_path_factory.mktemp("copy")
    for name in ("sessions_app", "adkweb", "templates", "static", "examples"):
        shutil.copytree(ROOT / name, scratch / name, ignore=shutil.ignore_patterns("__pycache__"))
    for steps in recipes().values():
        for step in steps:
            follow(step, scratch)
    (scratch / "trial.py").write_text(TRIAL)
    started_before(scratch / "data", tables())  # the recipes' own migrations are still to be run
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ADKWEB_")}
    environment = {"DJANGO_SETTINGS_MODULE": "adkweb.settings", "ADKWEB_DATA_DIR": str(scratch / "data")}
    done = subprocess.run(
        [sys.executable, "trial.py"],
        cwd=scratch,
        env=kept | environment | {"PYTHONPATH": str(scratch)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    answers: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return answers


TRIAL: Final = textwrap.dedent(
    """
    import contextlib, io, json
    from pathlib import Path
    import django
    django.setup()
    from django.contrib.auth import get_user_model
    from django.core.management import call_command
    from django.test import Client
    from sessions_app.access import tokens
    from sessions_app.access.actor import SYSTEM, Actor
    from sessions_app.management.commands._words import told
    from sessions_app.models import KnownSource
    from sessions_app.reads import timeline, views
    from sessions_app.sources import database, registry
    from sessions_app.writes.append import append_event
    from sessions_app.writes.sessions import create_session

    said = {"app": "booking", "user": "ana", "session": "told", "said": [["user", "Hello"], ["agent", "Good day"]]}
    Path("told.json").write_text(json.dumps(said))
    Path("agent.db").touch()
    with contextlib.redirect_stdout(io.StringIO()):
        call_command("migrate", verbosity=0)
        call_command("makemigrations", check_changes=True, dry_run=True, verbosity=0)  # ends the process if a model waits
        call_command("import", "told.json", "--into", "agent.db")
    (source,) = registry.add("agent.db")
    database.open_source(source, adopting=True)
    state = {"user:card": "4111-q", "user:tier": "gold"}
    ref = create_session(source.alias, "booking", "ana", actor=Actor.holding("maria", "admin"), session_id="s1", state=state)
    for part in ({"text": "Loud"}, {"text": "Silent", "thought": True}):
        event = {"author": "agent", "invocation_id": "i1", "content": {"role": "model", "parts": [part]}}
        append_event(ref, event, actor=Actor.holding("agent", "admin"))

    event = {"author": "agent", "invocation_id": "i2", "actions": {"route": "refund"}}
    routed = append_event(ref, event, actor=Actor.holding("agent", "admin")).event["id"]

    person = Client(SERVER_NAME="localhost")
    person.force_login(get_user_model().objects.create_superuser("maria"))
    session = f"/s/{source.alias}/booking/ana/s1/"
    api = "/api/apps/booking/users/ana/sessions/"
    made = {right: tokens.create(right, right, "*", by=Actor.holding("maria", "admin"))[1] for right in ("append", "review")}
    programs = {
        right: Client(SERVER_NAME="localhost", headers={"Authorization": f"Bearer {text}"}) for right, text in made.items()
    }
    rewind = {right: programs[right].post(f"{api}s1/rewind", {"before": "i1"}, "application/json") for right in made}
    print(json.dumps({
        "page": person.get("/databases/").content.decode(),
        "page of a stranger": Client(SERVER_NAME="localhost").get("/databases/").status_code,
        "route": programs["append"].get("/api/app-names?source=agent").json(),
        "document": programs["append"].get("/api/openapi.json").json()["paths"],
        "filter": person.get(session + "?kind=thoughts").content.decode(),
        "filter of programs": programs["append"].get(f"{api}s1/events?kind=thoughts").json(),
        "imported": programs["append"].get(f"{api}told/events").json(),
        "rewind": {right: response.status_code for right, response in rewind.items()},
        "lines": person.get(session).content.decode(),
        "kind": programs["append"].get(f"{api}s1/events/{routed}").json()["kind"],
        "terminal": told(timeline.event(ref, routed, actor=Actor.holding("maria", "read"))),
        "tokens": person.get("/tokens/").content.decode(),
        "masked": programs["append"].get(f"{api}s1/state").json(),
        "stored": views.session(ref, actor=SYSTEM).state.user,
        "notes": list(KnownSource.objects.values_list("note", flat=True)),
    }))
    """
)


def texts_of(events: object) -> list[str]:
    """What the events of an answer say."""
    assert isinstance(events, dict)
    return [part["text"] for item in events["items"] for part in item["event"]["content"]["parts"]]


def test_every_recipe_has_few_files_and_is_tried() -> None:
    assert len(recipes()) == 8
    for question, steps in recipes().items():
        assert steps, question
        assert len({step.file for step in steps}) <= MOST_FILES, question
    blocks = re.findall(r"^```(?:python|html)$", TEXT, re.MULTILINE)
    assert len(blocks) == sum(map(len, recipes().values())), "a block of code is no step of a recipe"


def test_the_new_page_answers_whom_it_knows(tried: dict[str, object]) -> None:
    assert '<li class="bidi">agent</li>' in str(tried["page"])
    assert tried["page of a stranger"] == 302


def test_the_new_route_answers_and_is_in_the_document(tried: dict[str, object]) -> None:
    assert tried["route"] == {"items": ["booking"]}
    assert isinstance(tried["document"], dict)
    assert tried["document"]["/api/app-names"]["get"]["x-permission"] == "read"


def test_the_new_filter_filters_pages_and_the_api(tried: dict[str, object]) -> None:
    assert "Thoughts" in str(tried["filter"])
    assert "Silent" in str(tried["filter"])
    assert "Loud" not in str(tried["filter"])
    assert texts_of(tried["filter of programs"]) == ["Silent"]


def test_a_file_of_the_new_format_is_recognised_and_imported(tried: dict[str, object]) -> None:
    assert texts_of(tried["imported"]) == ["Hello", "Good day"]


def test_an_event_of_the_new_kind_is_told_in_its_words(tried: dict[str, object]) -> None:
    assert 'Continues with <span class="q bidi">refund</span>' in str(tried["lines"])
    assert tried["kind"] == "route"
    assert tried["terminal"] == "Continues with refund"


def test_the_new_permission_is_required_and_documented(tried: dict[str, object]) -> None:
    assert tried["rewind"] == {"append": 403, "review": 201}
    assert 'value="review"' in str(tried["tokens"])
    assert isinstance(tried["document"], dict)
    rewind = "/api/apps/{app_name}/users/{user_id}/sessions/{session_id}/rewind"
    assert tried["document"][rewind]["post"]["x-permission"] == "review"


def test_the_masked_key_is_stored_and_shown_to_nobody(tried: dict[str, object]) -> None:
    assert tried["stored"] == {"card": "4111-q", "tier": "gold"}
    assert "4111-q" not in str(tried["masked"]) + str(tried["lines"])
    assert "•••" in str(tried["masked"])
    assert "gold" in str(tried["masked"])


def test_the_new_column_is_in_the_table_and_no_model_waits_for_a_migration(tried: dict[str, object]) -> None:
    assert tried["notes"] == [""]
