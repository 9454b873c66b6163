"""Arguments of extension modules for the linker: which have no effect here, and which libraries they name."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from py_driver.errors import Code

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from py_driver.errors import Span
    from py_driver.manifest.section import Findings
    from py_driver.recording.record import Module

_WITH_VALUE: Final = ("-L", "-l", "-R", "-rpath", "-z")
"""The arguments of gcc whose value is the next one."""

_DRIVER: Final = re.compile(
    r"-s|-S|-w|-v|-pipe|-ansi|-pedantic(-errors)?|-pthread|-shared|-rdynamic|-(no-)?pie|-static-lib(gcc|stdc\+\+)"
    r"|-[LR].+|-[DUI].*|-W(?![lap],).*|-std=.+|-O(\d|fast|[sgz])?|-g[\w-]*"
    r"|-f(?!ramework$|sanitize|profile|test-coverage|auto-profile|plugin|split-stack).+|-m(?!32$|x32$|16$).+"
)
"""The arguments of gcc that have no effect on the link of a module.

The rules strip, search torch's directories and link what is called, and the ABI check finds undefined symbols. Flags of
a compile are among them: setuptools links with CFLAGS, too.
"""

_FLUSHING: Final = re.compile(r"-Ofast|-ffast-math|-funsafe-math-optimizations|-mdaz-ftz")
"""The arguments for which gcc before 13 links a start file that changes the arithmetic of the whole process."""

_LINKER_WITH_VALUE: Final = re.compile(
    r"--?(rpath(-link)?|soname|exclude-libs|version-script|dynamic-list|Map)|-[hRzm]"
)
_LINKER: Final = re.compile(
    r"-[sSxXtE]|-O\d|-[zRLl].+|-?-("
    r"strip-(all|debug)|discard-(all|locals)|(no-)?(as-needed|gc-sections|undefined|export-dynamic|whole-archive"
    r"|allow-shlib-undefined|copy-dt-needed-entries|keep-memory|relax|demangle|fatal-warnings|warnings|eh-frame-hdr"
    r"|threads|print-gc-sections)|unresolved-symbols=.+|build-id(=\w+)?|hash-style=\w+|(enable-new|disable-new)-dtags"
    r"|rpath(-link)?=.*|(soname|exclude-libs|version-script|dynamic-list|Map|dependency-file)=.+"
    r"|Bsymbolic(-(non-weak-)?functions)?|Bstatic|Bdynamic|start-group|end-group|push-state|pop-state|icf=\w+"
    r"|sort-common(=\w+)?|sort-section=\w+|compress-debug-sections=\w+|color-diagnostics(=\w+)?|threads=\d+|error-limit=\d+"
    r"|stats|verbose|trace|cref|print-map|warn-[a-z-]+|reduce-memory-overheads|plugin(-opt)?=.+)|-[()]"
)
"""The options of the linker that have no effect on a module, whose symbols are hidden anyway, except PyInit.

Others would be missing, such as `--wrap=malloc`.
"""


def check_link_arguments(module: Module, known: Callable[[str], bool], span: Span, findings: Findings) -> None:
    """Report libraries and linker arguments of a module that are not passed on.

    Args:
        module: the recorded module.
        known: whether a library, named as after `-l`, is one that extensions may need.
        span: the call that created the module.
        findings: receives BAD_FLAG for an argument with another effect, and a note for each unknown library.
    """
    arguments = _read(module.extra_link_args)
    for word in arguments.flushing:
        message = f"{module.name} links with `{word}`, with which gcc before 13 flushes denormal numbers to zero"
        findings.note(f"{message} in the whole process; here, it has no effect on the link", span)
    for word in dict.fromkeys((*arguments.unknown, *_unknown(arguments.options))):
        message = f"the argument `{word}` in extra_link_args of {module.name} is not passed on"
        advice = "remove it, if the module works without; the rules link each module alike"
        findings.add(Code.BAD_FLAG, message, span, advice=advice)
    for library in dict.fromkeys((*module.libraries, *arguments.libraries)):
        if not known(library):
            message = f"{module.name} links `{library}`, which no toolchain has; the ABI check fails if it calls it"
            findings.note(message, span)


class _Arguments(NamedTuple):
    """The arguments of a link.

    Attributes:
        libraries: the names after `-l`.
        options: the options of the linker, each with the argument that has it, as written.
        flushing: the arguments that change the arithmetic of a process.
        unknown: the arguments of gcc that may have an effect.
    """

    libraries: list[str]
    options: list[tuple[str, str]]
    flushing: list[str]
    unknown: list[str]


def _read(arguments: Iterable[str]) -> _Arguments:
    """The arguments of a link, by their kinds; without those that have no effect."""
    found = _Arguments([], [], [], [])
    words = iter(filter(None, arguments))
    for word in words:
        if word in _WITH_VALUE:
            following = next(words, "")
            found.libraries.extend([following] if word == "-l" else [])
        elif word == "-Xlinker":
            option = next(words, "")
            found.options.append((option, f"{word} {option}"))
        elif word.startswith("-Wl,"):
            found.options.extend((option, word) for option in word.split(",")[1:])
        elif word.startswith("-l"):
            found.libraries.append(word[2:])
        elif _FLUSHING.fullmatch(word):
            found.flushing.append(word)
        elif not _DRIVER.fullmatch(word):
            found.unknown.append(word)
    found.libraries.extend(option[2:] for option, _ in found.options if option.startswith("-l"))
    return found


def _unknown(options: Iterable[tuple[str, str]]) -> Iterator[str]:
    """The arguments, as written, of options of the linker that have an effect."""
    left = iter(options)
    for option, word in left:
        if _LINKER_WITH_VALUE.fullmatch(option):
            next(left, None)
        elif option and not _LINKER.fullmatch(option):
            yield word
