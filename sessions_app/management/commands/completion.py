"""`adkweb completion SHELL`: prints a script that completes adkweb's commands, made from their own parsers."""

import shlex
from argparse import Action, ArgumentParser, _SubParsersAction
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from django.core.management import get_commands, load_command_class
from django.core.management.base import BaseCommand

_FILES: Final = {"FILE", "FILE|URL", "SOURCE"}  # arguments that may be files
_FIRST: Final = "serve"  # the command of a line that doesn't name one


@dataclass(frozen=True, slots=True)
class Option:
    """An option of a command: its names, and what may follow it."""

    names: tuple[str, ...]
    help: str
    takes: bool
    files: bool
    choices: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Form:
    """The words that a command takes: options, files, and words from a list."""

    name: str
    help: str
    options: list[Option]
    files: bool
    choices: tuple[str, ...]


class Command(BaseCommand):
    """Prints a script for a shell to evaluate."""

    help = "Print a script that completes adkweb's commands in a shell."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Defines SHELL."""
        parser.add_argument("shell", choices=[*SHELLS], metavar="SHELL", help="bash, zsh or fish")

    def handle(self, *args: Any, **options: Any) -> None:
        """Prints the script. It holds everything, so a shell need not start Python to complete."""
        self.stdout.write(SHELLS[options["shell"]](list(forms())))


def forms() -> Iterator[Form]:
    """Yields the commands as their parsers define them, without the options that all of Django's commands have."""
    common = {name for action in BaseCommand().create_parser("adkweb", "x")._actions for name in action.option_strings}
    for name, app in sorted(get_commands().items()):
        if app == "sessions_app":
            command = load_command_class(app, name)
            yield _form(name, str(command.help), command.create_parser("adkweb", name), common - {"-h", "--help"})


def _form(name: str, what: str, parser: ArgumentParser, common: set[str]) -> Form:
    actions = list(parser._actions)
    for action in parser._actions:
        if isinstance(action, _SubParsersAction):
            actions += [inner for sub in dict.fromkeys(action.choices.values()) for inner in sub._actions]
    options: dict[tuple[str, ...], Option] = {}
    for action in actions:
        if names := tuple(name for name in action.option_strings if name not in common):
            options[names] = Option(names, _help(action), action.nargs != 0, _is_file(action), _choices(action))
    places = [action for action in actions if not action.option_strings]
    return Form(
        name,
        what.partition(". ")[0].rstrip("."),
        list(options.values()),
        any(_is_file(place) for place in places),
        tuple(dict.fromkeys(choice for place in places for choice in _choices(place))),
    )


def _help(action: Action) -> str:
    return (action.help or "").replace("%%", "%")


def _is_file(action: Action) -> bool:
    return action.metavar in _FILES


def _choices(action: Action) -> tuple[str, ...]:
    return tuple(map(str, action.choices or ()))


def _words(words: Iterator[str] | list[str] | tuple[str, ...]) -> str:
    return shlex.quote(" ".join(words))


# --- bash and zsh, which differ in how they pass the line and take the words ------------------------------------------


def _cases(found: list[Form]) -> str:
    """Sets `options`, `values` and `files` for $command, where $previous may be an option that takes a value."""
    lines = ["  case $command in"]
    for form in found:
        lines += [f"    {form.name})", "      case $previous in"]
        for option in form.options:
            if option.takes:
                values = f"values={_words(option.choices)}" if option.choices else ""
                lines.append(f"        {'|'.join(option.names)}) {values or ('files=1' if option.files else ':')} ;;")
        names = [name for option in form.options for name in option.names]
        values = f" values={_words(form.choices)}" if form.choices else ""
        lines += [
            f"        *) options={_words(names)}{values}{' files=1' if form.files else ''} ;;",
            "      esac ;;",
        ]
    return "\n".join([*lines, "  esac"])


def _bash(found: list[Form]) -> str:
    names = [form.name for form in found]
    return f"""# Completes adkweb in bash. In ~/.bashrc: eval "$(adkweb completion bash)"
_adkweb() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}} command={_FIRST}
  local options='' values='' files='' found
  COMPREPLY=()
  if [[ $current == '=' ]]; then current=''  # bash takes --name=value for three words
  elif [[ $previous == '=' ]]; then previous=${{COMP_WORDS[COMP_CWORD-2]}}
  fi
  if ((COMP_CWORD > 1)); then
    case ${{COMP_WORDS[1]}} in {"|".join(names)}) command=${{COMP_WORDS[1]}} ;; esac
  fi
{_cases(found)}
  if ((COMP_CWORD == 1)); then values={_words(names)}; fi
  if [[ $current == -* ]]; then values=$options files=''; fi
  while IFS='' read -r found; do COMPREPLY+=("$found"); done < <(
    compgen -W "$values" -- "$current"
    if [[ $files ]]; then compgen -f -- "$current"; fi
  )
  if [[ $files ]]; then compopt -o filenames 2>/dev/null; fi
  return 0
}}
complete -F _adkweb adkweb"""


def _zsh(found: list[Form]) -> str:
    names = [form.name for form in found]
    return f"""#compdef adkweb
# Completes adkweb in zsh. In ~/.zshrc, after compinit: eval "$(adkweb completion zsh)"
_adkweb() {{
  local previous=$words[CURRENT-1] command={_FIRST} options='' values='' files=''
  if (( CURRENT > 2 )); then
    case $words[2] in {"|".join(names)}) command=$words[2] ;; esac
  fi
{_cases(found)}
  if (( CURRENT == 2 )); then values={_words(names)}; fi
  if [[ $PREFIX == -* ]]; then values=$options files=''; fi
  if [[ -n $values ]]; then compadd -- ${{=values}}; fi
  if [[ -n $files ]]; then _files; fi
}}
compdef _adkweb adkweb"""


# --- fish -------------------------------------------------------------------------------------------------------------


def _fish(found: list[Form]) -> str:
    names = " ".join(form.name for form in found)
    lines = [
        "# Completes adkweb in fish. In ~/.config/fish/config.fish: adkweb completion fish | source",
        "function __adkweb_is",
        "  set -l line (commandline -opc)",
        f"  set -l command {_FIRST}",
        f"  if test (count $line) -gt 1; and contains -- $line[2] {names}; set command $line[2]; end",
        "  test $command = $argv[1]",
        "end",
        "complete -c adkweb -f",
    ]
    for form in found:
        first = "test (count (commandline -opc)) -eq 1"
        lines.append(f"complete -c adkweb -n {_fished(first)} -a {form.name} -d {_fished(form.help)}")
        this = f"complete -c adkweb -n {_fished(f'__adkweb_is {form.name}')}"
        for option in form.options:
            named = " ".join(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names)
            takes = f" -x -a {_fished(' '.join(option.choices))}" if option.choices else " -x"
            takes = " -r -F" if option.files else takes if option.takes else ""
            lines.append(f"{this} {named}{takes} -d {_fished(option.help)}")
        lines += [f"{this} -a {_fished(' '.join(form.choices))}"] * bool(form.choices) + [f"{this} -F"] * form.files
    return "\n".join(lines)


def _fished(text: str) -> str:
    return "'" + " ".join(text.split()).replace("\\", "\\\\").replace("'", "\\'") + "'"


SHELLS: Final = {"bash": _bash, "zsh": _zsh, "fish": _fish}
