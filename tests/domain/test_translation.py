"""What domain/ says is English where there is no Django, and in the language of the reader where there is one."""

import subprocess
import sys

from django.utils.translation import override

from sessions_app.domain.errors import Conflict, Invalid
from sessions_app.domain.event import check_event
from sessions_app.domain.json_values import loads
from tests.support.house import ROOT

# Whatever is imported, no module of Django's can be found.
PROGRAM = """
import importlib, pkgutil, sys

class NoDjango:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "django":
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, NoDjango())

import sessions_app.domain
modules = [each.name for each in pkgutil.iter_modules(sessions_app.domain.__path__, "sessions_app.domain.")]
for name in modules:
    importlib.import_module(name)

from sessions_app.domain.errors import Conflict, Invalid
from sessions_app.domain.event import check_event
from sessions_app.domain.key_schema import KeySchema, misfits
from sessions_app.domain.kinds import describe, say

print(len(modules))
try:
    check_event({"actions": {"escalate": 1}})
except Invalid as error:
    print(error.message)
print(Conflict().message)
event = {"author": "a", "actions": {"transfer_to_agent": "b"}}
print("".join(piece.text for piece in say(describe(event), event)))
print(*misfits("step", KeySchema(events=1, types={"string": 1}), 1))
"""


def test_a_program_without_django_can_import_and_use_all_of_domain() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], cwd=ROOT.parent, capture_output=True, text=True)
    assert done.stderr == ""
    number, *said = done.stdout.splitlines()
    assert int(number) == len([*(ROOT / "domain").glob("*.py")]) - 1
    assert said == [
        "actions.escalate: must be true or false",
        "Someone else changed it in the meantime. Nothing was written.",
        "Transfer to b",
        "step was of type string in 1 event, but this value is of type number.",
    ]


def raised(text: str) -> Invalid:
    """The error of an input that is not valid."""
    try:
        check_event(loads(text))
    except Invalid as error:
        return error
    raise AssertionError(text)


def test_an_error_is_read_in_the_language_of_the_reader_whoever_caused_it() -> None:
    with override("ko"):
        nested, typed, kind, usual = raised("[" * 9000), raised("{"), raised('{"branch": 1}'), Conflict()
    with override("es"):
        assert nested.message == "anidado a más de 150 niveles"
        assert typed.message == "línea 1, columna 2: JSON no válido (Expecting property name enclosed in double quotes)"
        assert kind.message == str(kind) == "branch: debe ser una cadena"
        assert usual.message == "Otra persona lo cambió mientras tanto. No se escribió nada."
    with override("en"):
        assert nested.message == "nested deeper than 150 levels"
        assert kind.message == "branch: must be a string"
