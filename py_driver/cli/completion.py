"""`driver completion`: prints what makes a shell complete commands, options and their values."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from py_driver.cli import COMMANDS, Parser, add_command, load_command
from py_driver.errors import ExitCode

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

    from py_driver.cli import Subparsers
    from py_driver.output import Output

_FILES: Final = "files"
_DIRECTORIES: Final = "directories"
_VARIANTS: Final = "variants"
_WORDS: Final = "words"
_NOTHING: Final = "nothing"

_LIST: Final = "driver variants --all 2>/dev/null | awk 'NR > 1 { print $1 }'"
"""The identifiers of the project in the current directory."""

_BASH: Final = """\
_driver() {
    local IFS=$'\\n' cur="${COMP_WORDS[COMP_CWORD]}" prev="${COMP_WORDS[COMP_CWORD-1]}" name="" kind="" at=1
    if [ "$cur" = "=" ]; then
        cur=""
    elif [ "$prev" = "=" ]; then
        prev="${COMP_WORDS[COMP_CWORD-2]}"
    fi
    while [ "$at" -lt "$COMP_CWORD" ]; do
        case "${COMP_WORDS[at]}" in
            -*) ;;
            *) name="${COMP_WORDS[at]}"; break ;;
        esac
        at=$((at + 1))
    done
    local list=""
    case "$name $prev" in
@VALUES@
    esac
    if [ -z "$kind" ]; then
        case "$name" in
@COMMANDS@
        esac
    fi
    COMPREPLY=()
    case "$kind" in
        words) COMPREPLY=( $(compgen -W "$list" -- "$cur") ) ;;
        variants) COMPREPLY=( $(compgen -W "$(@LIST@)" -- "$cur") ) ;;
        directories | files)
            compopt -o filenames 2>/dev/null
            if [ "$kind" = files ]; then
                COMPREPLY=( $(compgen -f -- "$cur") )
            else
                COMPREPLY=( $(compgen -d -- "$cur") )
            fi
            ;;
    esac
}
complete -F _driver driver
"""


_ZSH: Final = """\
#compdef driver
_driver() {
    local cur="${words[CURRENT]}" prev="${words[CURRENT-1]}" name="" kind="" list="" at=2
    while [ "$at" -lt "$CURRENT" ]; do
        case "${words[at]}" in
            -*) ;;
            *) name="${words[at]}"; break ;;
        esac
        at=$((at + 1))
    done
    case "$cur" in
        --*=*) prev="${cur%%=*}"; compset -P '*=' ;;
    esac
    case "$name $prev" in
@VALUES@
    esac
    if [ -z "$kind" ]; then
        case "$name" in
@COMMANDS@
        esac
    fi
    case "$kind" in
        words) compadd -- ${(f)list} ;;
        variants) compadd -- ${(f)"$(@LIST@)"} ;;
        directories) _files -/ ;;
        files) _files ;;
    esac
}
whence compdef >/dev/null || { autoload -U compinit; compinit; }
compdef _driver driver
"""


class Values(NamedTuple):
    """What may stand in a place of a command line.

    Attributes:
        kind: of what: words, files, directories, identifiers of variants, or something that no shell knows.
        words: if they are words, which.
    """

    kind: str
    words: tuple[str, ...] = ()


class Option(NamedTuple):
    """An option of a command.

    Attributes:
        name: with its dashes.
        summary: what it is for, in a few words.
        values: that it takes; None if it takes none.
    """

    name: str
    summary: str
    values: Values | None


class Described(NamedTuple):
    """What a shell can know of a command.

    Attributes:
        options: that it has.
        values: of what stands alone.
    """

    options: tuple[Option, ...]
    values: Values


def add(subparsers: Subparsers) -> None:
    """Add the command's parser."""
    parser = add_command(subparsers, "completion", "bash", "fish")
    parser.add_argument("shell", choices=[*_SCRIPTS], help="the shell for the script")


def run(args: argparse.Namespace, output: Output) -> int:
    """Print the script of a shell; the exit code."""
    output.data(_SCRIPTS[args.shell](describe()).rstrip("\n"))
    return ExitCode.OK


def describe() -> dict[str, Described]:
    """All commands, from their parsers."""
    parser = Parser(prog="driver")
    subparsers: Subparsers = parser.add_subparsers()
    for name in COMMANDS:
        load_command(name).add(subparsers)
    return {name: _described(name, subparsers.choices[name]) for name in COMMANDS}


def _described(name: str, parser: Parser) -> Described:
    options: list[Option] = []
    alone = Values(_NOTHING)
    for action in parser._actions:  # noqa: SLF001  (argparse has no public way)
        values = None if action.nargs == 0 else _values(name, action)
        if not action.option_strings and values is not None and alone.kind == _NOTHING:
            alone = values
        summary = re.split(r"[;(]", (action.help or "").replace("%%", "%"), maxsplit=1)[0].strip()
        options += [Option(one, summary, values) for one in action.option_strings if one.startswith("--")]
    return Described(tuple(options), alone)


def _values(command: str, action: argparse.Action) -> Values:
    """The values of an argument: those it is limited to, or those that the driver knows."""
    if action.choices is not None:
        return Values(_WORDS, tuple(map(str, action.choices)))
    if command == "explain" and action.dest == "code":
        from py_driver.cli.explain import spell  # noqa: PLC0415  (`driver --help` does without them)
        from py_driver.errors import Code  # noqa: PLC0415

        return Values(_WORDS, tuple(word for code in Code for word in (code.number, spell(code))))
    if command == "init" and action.dest == "template":
        from py_driver.authoring.new_project import templates  # noqa: PLC0415

        return Values(_WORDS, tuple(templates()))
    if action.dest == "variant":
        return Values(_VARIANTS)
    if action.metavar == "DIR":
        return Values(_DIRECTORIES)
    is_file = action.type is Path or str(action.metavar).startswith("FILE")
    return Values(_FILES if is_file else _NOTHING)


def _filled(script: str, commands: dict[str, Described]) -> str:
    values, alone = "\n".join(_arms(commands)), "\n".join(_alone(commands))
    return script.replace("@VALUES@", values).replace("@COMMANDS@", alone).replace("@LIST@", _LIST)


def _bash(commands: dict[str, Described]) -> str:
    return _filled(_BASH, commands)


def _arms(commands: dict[str, Described]) -> Iterator[str]:
    """A line for each option that has a value."""
    for name, command in commands.items():
        for option in command.options:
            if option.values is not None:
                yield f'        "{name} {option.name}") {_set(option.values)} ;;'


def _alone(commands: dict[str, Described]) -> Iterator[str]:
    """A line for each command: its options after a dash, else what stands alone."""
    yield f'            "") {_set(Values(_WORDS, (*commands, "--help", "--version")))} ;;'
    for name, command in commands.items():
        options = _set(Values(_WORDS, tuple(option.name for option in command.options)))
        yield f'            {name}) case "$cur" in -*) {options} ;; *) {_set(command.values)} ;; esac ;;'


def _set(values: Values) -> str:
    """What tells the shell of values: words stand on a line each, as IFS says."""
    words = "\\n".join(values.words)
    return f"kind={values.kind}" + (f" list=$'{words}'" if values.words else "")


def _zsh(commands: dict[str, Described]) -> str:
    return _filled(_ZSH, commands)


def _fish(commands: dict[str, Described]) -> str:
    lines = ["complete -c driver -f"]
    first = "-n __fish_use_subcommand"
    lines += [f"complete -c driver {first} -a {name} -d {_quoted(COMMANDS[name])}" for name in commands]
    lines += [f"complete -c driver {first} -l {name}" for name in ("help", "version")]
    for name, command in commands.items():
        here = f"complete -c driver -n '__fish_seen_subcommand_from {name}'"
        for option in command.options:
            what = f"{here} -l {option.name[2:]} -d {_quoted(option.summary)}"
            lines.append(what if option.values is None else f"{what} -r {_fish_values(option.values)}")
        if command.values.kind != _NOTHING:
            lines.append(f"{here} {_fish_values(command.values)}")
    return "\n".join(lines)


def _fish_values(values: Values) -> str:
    words = {
        _FILES: "(__fish_complete_path)",
        _DIRECTORIES: "(__fish_complete_directories)",
        _VARIANTS: f"({_LIST})",
        _WORDS: " ".join(values.words),
        _NOTHING: "",
    }[values.kind]
    return f"-f -a {_quoted(words)}" if words else "-f"


def _quoted(text: str) -> str:
    """A word of fish: in its quotes a backslash keeps a quote and a backslash."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


_SCRIPTS: Final[dict[str, Callable[[dict[str, Described]], str]]] = {"bash": _bash, "zsh": _zsh, "fish": _fish}
