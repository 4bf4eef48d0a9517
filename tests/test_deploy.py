"""What deploy/ and docs/operations.md say can be done: commands are parsed by the real parsers, and run if they can be."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any, Final
from zipfile import ZipFile

import pytest
import yaml
from django.core.management import load_command_class

from adkweb.cli import COMMANDS
from tests import sbom
from tests.web.test_commands import serve

ROOT: Final = Path(__file__).resolve().parent.parent
DEPLOY: Final = ROOT / "deploy"
DOCKERFILE: Final = (DEPLOY / "Dockerfile").read_text().replace("\\\n", " ")
COMPOSE: Final[dict[str, Any]] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
UNIT: Final = (DEPLOY / "adkweb.service").read_text()
OPERATIONS: Final = (ROOT / "docs" / "operations.md").read_text()


def check_parsed(words: list[str]) -> str:
    """The command that these words are for, which its own parser accepts."""
    name, *rest = words
    assert name in COMMANDS, words
    load_command_class("sessions_app", name).create_parser("adkweb", name).parse_args(rest)
    return name


def instructions(name: str) -> list[str]:
    """What follows each such instruction of the Dockerfile."""
    return re.findall(rf"^{name} (.*)$", DOCKERFILE, re.MULTILINE)


def commands() -> Iterator[list[str]]:
    """What the page runs with `adkweb`, on whatever machine."""
    for block in re.findall(r"```sh\n(.*?)```", OPERATIONS, re.DOTALL):
        for line in block.splitlines():
            words = shlex.split(re.sub(r"\$\(.*?\)", "x", line))
            at = [number for number, word in enumerate(words) if Path(word).name == "adkweb" and word != "./adkweb"]
            if at and words[0] in ("adkweb", "sudo", "docker"):
                yield words[at[-1] + 1 :]


def test_every_command_of_the_page_is_one_that_adkweb_takes() -> None:
    named = [check_parsed(words) for words in commands() if words]
    assert {"backup", "restore", "createsuperuser", "doctor"} <= {*named}


# --- The image --------------------------------------------------------------------------------------------------------


def test_the_image_runs_what_adkweb_takes_and_not_as_root() -> None:
    assert [json.loads(text) for text in instructions("ENTRYPOINT")] == [["adkweb"]]
    (words,) = instructions("CMD")
    assert check_parsed(json.loads(words)) == "serve"
    (user,) = instructions("USER")
    assert int(user) > 0
    assert f"--uid {user} " in DOCKERFILE
    settings = re.findall(r"\b(ADKWEB_\w+)=", "\n".join(instructions("ENV")))
    assert {*settings} <= known_settings()


def test_what_the_image_copies_is_there_and_is_all_that_the_wheel_needs() -> None:
    kept = [line[1:] for line in (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines() if line.startswith("!")]
    assert [name for name in kept if not (ROOT / name).exists()] == []
    built = (ROOT / "pyproject.toml").read_text()
    for name in re.findall(r'^"([\w/.]+)" = "adkweb/', built, re.MULTILINE):
        assert any(Path(name).is_relative_to(each) for each in kept), name


def test_the_health_check_of_the_image_tells_whether_adkweb_answers(tmp_path: Path) -> None:
    (check,) = re.findall(r"HEALTHCHECK .*? CMD (\[.*\])", DOCKERFILE)
    python, *words = json.loads(check)
    assert python == "python"
    (tmp_path / "data").mkdir()
    with serve(tmp_path / "data") as adkweb:
        port = adkweb.link.split("/")[2].rpartition(":")[2]
        here = [word.replace(":8000/", f":{port}/") for word in words]
        assert subprocess.run([sys.executable, *here], check=False).returncode == 0
    gone = subprocess.run([sys.executable, *here], check=False, capture_output=True)
    assert gone.returncode == 1


# --- The compose file -------------------------------------------------------------------------------------------------


def known_settings() -> set[str]:
    """The names that adkweb reads from its environment."""
    return set(re.findall(r'"(ADKWEB_\w+)"', (ROOT / "adkweb" / "environment.py").read_text()))


def test_the_compose_file_runs_what_adkweb_takes_with_settings_that_there_are() -> None:
    adkweb = COMPOSE["services"]["adkweb"]
    assert check_parsed(adkweb["command"]) == "serve"
    assert {*adkweb["environment"]} <= known_settings()
    sources = json.loads(re.sub(r"\$\{\w+:\?\}", "x", adkweb["environment"]["ADKWEB_SOURCES"]))
    assert sources == ["postgresql://adkweb:x@postgres/sessions"]
    assert "127.0.0.1" in adkweb["environment"]["ADKWEB_ALLOWED_HOSTS"]  # or the health check would be refused
    assert (DEPLOY / adkweb["build"]["context"] / adkweb["build"]["dockerfile"]).exists()


def test_the_compose_file_gives_adkweb_no_rights_and_every_service_it_names_is_there() -> None:
    adkweb = COMPOSE["services"]["adkweb"]
    assert (adkweb["read_only"], adkweb["cap_drop"]) == (True, ["ALL"])
    assert "no-new-privileges:true" in adkweb["security_opt"]
    assert all(port.startswith("127.0.0.1:") for port in adkweb["ports"])  # TLS is the proxy's
    for service in COMPOSE["services"].values():
        assert {*service.get("depends_on", {})} <= {*COMPOSE["services"]}
        volumes = {text.partition(":")[0] for text in service.get("volumes", [])}
        assert volumes <= {*COMPOSE["volumes"]}
    for host in re.findall(r"@(\w+)/|://(\w+):\d", json.dumps(adkweb["environment"])):
        assert "".join(host) in COMPOSE["services"]


def test_docker_itself_reads_the_compose_file() -> None:
    if not shutil.which("docker") or subprocess.run(["docker", "compose", "version"], capture_output=True).returncode:
        pytest.skip("no docker compose on this machine")
    done = subprocess.run(
        ["docker", "compose", "--file", str(DEPLOY / "compose.yaml"), "config", "--quiet"],
        env={
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "POSTGRES_PASSWORD": "x",
            "ADKWEB_HOST": "x.example",
            "HOME": "/tmp",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


# --- systemd ----------------------------------------------------------------------------------------------------------


def test_the_unit_runs_what_adkweb_takes_and_waits_longer_than_adkweb_needs_to_stop() -> None:
    (line,) = re.findall(r"^ExecStart=(.*)$", UNIT, re.MULTILINE)
    program, *words = shlex.split(line)
    assert program == "/opt/adkweb/bin/adkweb"
    assert check_parsed(words) == "serve"
    (data,) = re.findall(r"^Environment=ADKWEB_DATA_DIR=(.*)$", UNIT, re.MULTILINE)
    assert data == "/var/lib/" + re.findall(r"^StateDirectory=(.*)$", UNIT, re.MULTILINE)[0]
    (seconds,) = re.findall(r"^TimeoutStopSec=(\d+)$", UNIT, re.MULTILINE)
    assert int(seconds) >= 10


@pytest.mark.long
def test_systemd_itself_accepts_the_unit_and_calls_it_safe(tmp_path: Path) -> None:
    if not shutil.which("systemd-analyze"):
        pytest.skip("no systemd on this machine")
    unit = tmp_path / "adkweb.service"
    unit.write_text(UNIT.replace("/opt/adkweb/bin/adkweb", "/bin/true").replace("User=adkweb", "User=nobody"))
    for words in (["verify"], ["security", "--offline=true", "--threshold=25"]):
        done = subprocess.run(["systemd-analyze", *words, str(unit)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr
        assert "Unknown" not in done.stderr


# --- Building ---------------------------------------------------------------------------------------------------------


def build(root: Path) -> bytes:
    """The wheel of a checkout."""
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(root / "out")],
        cwd=root,
        env={"SOURCE_DATE_EPOCH": "1790000000", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (wheel,) = (root / "out").glob("*.whl")
    return wheel.read_bytes()


@pytest.mark.long
def test_a_wheel_is_the_same_byte_for_byte_from_another_folder_at_another_time(tmp_path: Path) -> None:
    wheels = []
    for name in ("one", "another/and/deeper"):
        root = tmp_path / name
        root.mkdir(parents=True)
        for part in ("adkweb", "sessions_app", "templates", "static"):
            shutil.copytree(ROOT / part, root / part, ignore=shutil.ignore_patterns("__pycache__"))
        (root / "examples").mkdir()
        for file in ("pyproject.toml", "README.md", "LICENSE", "examples/demo.db"):
            shutil.copy(ROOT / file, root / file)
            (root / file).touch()
        for folder in ("examples/demo-artifacts", "examples/agents"):
            shutil.copytree(ROOT / folder, root / folder)
        wheels.append(build(root))
        time.sleep(2.1)  # a zip keeps times of two seconds
    assert wheels[0] == wheels[1]
    packed = {name for name in ZipFile(BytesIO(wheels[0])).namelist() if name.startswith("adkweb/agents/")}
    agents = ROOT / "examples" / "agents"
    assert packed == {f"adkweb/agents/{file.relative_to(agents)}" for file in agents.rglob("*.py")}


@pytest.mark.long
def test_the_list_of_parts_has_all_that_users_install_and_no_tool_of_the_tests() -> None:
    first = sbom.bill()
    assert first == sbom.bill()
    assert (first["bomFormat"], first["metadata"]["component"]["name"]) == ("CycloneDX", "adkweb")
    listed = {each["name"].lower().replace("_", "-"): each for each in first["components"]}
    wanted = sbom.installed_by_users()
    assert {name: each["version"] for name, each in listed.items()} == wanted
    assert {"django", "psycopg", "uvicorn", "uvloop", "prometheus-client"} <= wanted.keys()
    assert not {"pytest", "google-adk", "hypothesis", "adkweb"} & wanted.keys()
    assert [name for name, each in listed.items() if not each["purl"].startswith("pkg:pypi/")] == []
    unlicensed = [name for name, each in listed.items() if not each.get("licenses")]
    assert unlicensed == []
