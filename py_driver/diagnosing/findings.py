"""Compilers' messages in a build, without duplicates across variants."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from py_driver.actions.author_paths import section_of
from py_driver.actions.phases import LINKED_CODE, kind, work_of
from py_driver.diagnosing.check_text import OBJECT, told
from py_driver.diagnosing.compiler_text import Severity, parse, source_line
from py_driver.diagnosing.device_text import Place, explained
from py_driver.errors import Code, Diagnostic, Span
from py_driver.matrix.backends import TOOLKITS
from py_driver.output import counted, joined

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from py_driver.actions.author_paths import AuthorPaths, BuiltProject, Made
    from py_driver.bazel.events import Action
    from py_driver.diagnosing.compiler_text import Said

KILLED: Final = "was killed, or ran out of memory"
"""The end of the message about a killed program."""

_KILLED_CODE: Final = 137  # 128 and the signal's number

_KILLED: Final = re.compile(
    r"^step: killed by signal 9: |died due to signal 9\b|Killed signal terminated program"
    r"|unable to execute command: Killed|LLVM ERROR: out of memory|: out of memory allocating "
    r"|virtual memory exhausted|^terminate called after throwing an instance of 'std::bad_alloc'",
    re.MULTILINE,
)
_CHECK: Final = re.compile(rf"^error\[{Code.NOT_COMPLIANT.number}\]: \S+ fails the ABI check: (.*)$", re.MULTILINE)
"""The first line of rules/private/tools/abi_check/check.zig's output."""
_FEW: Final = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """A message of compilers, merged from all variants.

    Attributes:
        severity: its severity.
        code: its error code.
        message: the text in one line.
        project: its project; None if unknown.
        file: the file, as on the command line; empty without a place.
        line: the line in that file; 0 if unknown.
        column: the column in that line; 0 if unknown, or if it refers to a line with expanded macros.
        lines: the compiler's lines, with the user's paths.
        variants: its variants, in the order of the plan.
        archs: the GPU architectures that it was printed for, if it is only about device code.
        sources: the compiled files other than `file`.
    """

    severity: Severity
    code: Code
    message: str
    project: BuiltProject | None
    file: str
    line: int
    column: int
    lines: tuple[str, ...]
    variants: tuple[str, ...]
    archs: tuple[str, ...]
    sources: tuple[str, ...]

    @property
    def span(self) -> Span | None:
        """Its location, if there is one."""
        return Span(file=self.file, line=self.line, column=self.column) if self.file else None

    def where(self, told: Telling) -> str:
        """Its variants and architectures, for people; empty if that adds nothing."""
        places = []
        if self.variants and (self.project is None or len(self.project.chosen) > 1):
            few = told.verbose or len(self.variants) <= _FEW
            number = counted(len(self.variants), "variant")
            places.append(f"in {number}{': ' + ', '.join(self.variants) if few else ''}")
        if self.archs:
            places.append(f"for {joined(self.archs)}")
        if places and told.stopped:
            places[0] = f"first seen {places[0]}"
        return "; ".join([*([f"compiling {joined(self.sources)}"] if self.sources else []), *places])


@dataclass(frozen=True, kw_only=True, slots=True)
class Telling:
    """How findings are shown.

    Attributes:
        verbose: whether to name all variants, however many.
        stopped: whether the build stopped at the first error, so that further variants may be affected.
    """

    verbose: bool = False
    stopped: bool = False


def findings(actions: Iterable[Action], paths: AuthorPaths, variants: Mapping[str, Sequence[str]]) -> list[Finding]:
    """The messages of actions, without duplicates.

    Args:
        actions: the actions that failed or printed something.
        paths: the paths of the build.
        variants: the variants of each action, by its first output.
    """
    found: dict[tuple[object, ...], list[tuple[Finding, Action]]] = {}
    for action in actions:
        seen: dict[tuple[object, ...], int] = {}
        for finding in _of_action(action, paths, tuple(variants.get(action.output, ()))):
            prefix = finding.project.prefix if finding.project else ""
            key: tuple[object, ...] = (
                prefix,
                finding.severity,
                _release_less(finding.file),
                finding.line,
                _release_less(finding.message),
            )
            key += finding.lines if finding.code is not Code.BUILD_FAILED else ()
            seen[key] = seen.get(key, 0) + 1
            found.setdefault((*key, seen[key]), []).append((finding, action))
    return sorted(
        (_merged(group) for group in found.values()), key=lambda finding: (finding.file, finding.line, finding.column)
    )


def _release_less(text: str) -> str:
    """A text without toolchain releases."""
    return re.sub(r"<(\w+) [^>]*>", r"<\1>", text)


def _merged(group: Sequence[tuple[Finding, Action]]) -> Finding:
    """Merge findings that are equal apart from their actions."""
    first = max((finding for finding, _ in group), key=lambda finding: finding.column > 0)
    names = {name for finding, _ in group for name in finding.variants}
    order = [variant.name for variant in first.project.chosen] if first.project else sorted(names)
    everywhere = any(not finding.archs for finding, _ in group)
    return replace(
        first,
        variants=tuple(name for name in order if name in names),
        archs=()
        if everywhere
        else tuple(sorted({arch for finding, _ in group for arch in finding.archs}, key=_natural)),
        sources=tuple(dict.fromkeys(name for finding, _ in group for name in finding.sources)),
    )


def _natural(text: str) -> tuple[tuple[int, str], ...]:
    return tuple((int(digits or 0), word) for digits, word in re.findall(r"(\d+)|(\D+)", text))


def _of_action(action: Action, paths: AuthorPaths, variants: tuple[str, ...]) -> list[Finding]:
    """The messages of an action; for a failed action without a known error, its whole output."""
    project, origin = paths.project_of(action.label), paths.made(action.output)
    arch = _arch(origin)
    blank = Finding(
        severity=Severity.ERROR,
        code=Code.BUILD_FAILED,
        message="",
        project=project,
        file=str(project.shown / origin.source) if project and origin and origin.source != LINKED_CODE else "",
        line=0,
        column=0,
        lines=(),
        variants=variants,
        archs=(arch,) if arch else (),
        sources=(),
    )
    if checked := _CHECK.search(action.text):
        body = action.text[checked.end() :].rstrip().splitlines()
        kept = told(body[1:], paths, project)
        head = f"error[{Code.NOT_COMPLIANT.number}]: the extension fails the ABI check: {checked[1]}"
        return [replace(blank, code=Code.NOT_COMPLIANT, message=head.partition(": ")[2], lines=(head, *kept))]
    entries, loose = parse(action.text)
    killed = not action.succeeded and (action.exit_code == _KILLED_CODE or _KILLED.search(action.text))
    if killed:
        entries = [
            entry
            for entry in entries
            if entry.file or not _KILLED.search(f"{entry.head}\n{entry.message}\nstep: {entry.message}")
        ]
    rewritten = _is_rewritten(action.mnemonic)
    made_of_these = [
        _explained(_placed(blank, entry, paths, project, rewritten=rewritten), action.mnemonic, paths)
        for entry in entries
    ]
    if killed or not (action.succeeded or any(finding.severity is Severity.ERROR for finding in made_of_these)):
        work = work_of(action.mnemonic)
        message = f"{work}{f' for {arch}' if arch else ''} "
        message += KILLED if killed else f"failed with exit code {action.exit_code}"
        head = f"{blank.file or section_of_label(action, paths)}: error: {message}"
        rest = tuple(paths.line(line, project) for line in (loose if killed else action.text.splitlines()))
        made_of_these = [*(made_of_these if killed else []), replace(blank, message=message, lines=(head, *rest))]
    elif loose and action.succeeded:
        head = f"{blank.file or section_of_label(action, paths)}: {loose[0]}"
        rest = tuple(paths.line(line, project) for line in loose[1:])
        made_of_these.append(replace(blank, severity=Severity.OTHER, message=loose[0], lines=(head, *rest)))
    return made_of_these


def _is_rewritten(mnemonic: str) -> bool:
    """Whether a kind of action reads sources that a tool has rewritten, or rewrites them itself."""
    ways = kind(mnemonic).ways
    return any(backend.rewriter and (backend.way in ways or backend.rewriter == mnemonic) for backend in TOOLKITS)


def _explained(finding: Finding, mnemonic: str, paths: AuthorPaths) -> Finding:
    """Reword a finding that is about device code of another source."""
    if finding.project is None:
        return finding
    location = Place(project=finding.project, file=finding.file, line=finding.line, mnemonic=mnemonic)
    found = explained(finding.message, finding.severity, finding.lines, location, paths)
    return finding if found is None else replace(finding, message=found.message, line=found.line, lines=found.lines)


def section_of_label(action: Action, paths: AuthorPaths) -> str:
    """The section, or the variant, of an action that is about no source."""
    target = action.label.rpartition(":")[2]
    project = paths.project_of(action.label)
    if project is None or target in {variant.name for variant in project.plan.variants}:
        return target
    return section_of(project, target)


def _is_bare(shown: str, text: str) -> bool:
    """Whether a line in a compiler's output is from a source, in which comments may have become blanks."""
    return len(shown) <= len(text) and all(
        character in (other, " ") for character, other in zip(shown, text, strict=False)
    )


def _placed(
    blank: Finding, entry: Said, paths: AuthorPaths, project: BuiltProject | None, *, rewritten: bool
) -> Finding:
    """Place a message for the author; a line that hipify rewrote is shown as in the source."""
    before = tuple(paths.line(line, project) for line in entry.before)
    after = tuple(_after(line, paths, project) for line in entry.after)
    if not entry.file:
        file = blank.file or next((name for line in entry.after if (name := _object_source(line, paths))), "")
        own = re.sub(r"^step: ", "error: ", entry.head)
        head = f"{file}: {own}" if file else own
        return replace(blank, severity=entry.severity, message=entry.message, file=file, lines=(*before, head, *after))
    file = paths.shown(entry.file, project)
    column = entry.column
    if (found := paths.file(entry.file, project)) and (shown := source_line(entry)) is not None:
        text = paths.text_of(*found, entry.line)
        if text is None or not _is_bare(shown.expandtabs().rstrip(), text.expandtabs()):
            column = 0
            if text is not None and rewritten:
                pointers = len(after) > 1 and re.fullmatch(r" *\|[ ^~]*", after[1]) is not None
                after = (f"{entry.line:5} | {text}", *after[1 + pointers :])
    location = f"{file}:{entry.line}" + (f":{column}" if column else "")
    head = f"{location}: {entry.what}: {entry.message}"
    message = entry.message
    sources = (blank.file,) if blank.file and blank.file != file else ()
    return replace(
        blank,
        severity=entry.severity,
        message=message,
        file=file,
        line=entry.line,
        column=column,
        lines=(*before, head, *after),
        sources=sources,
    )


def _after(line: str, paths: AuthorPaths, project: BuiltProject | None) -> str:
    """A following line of a message, with objects replaced by their sources."""
    if line.startswith(">>>"):
        line = OBJECT.sub(lambda match: paths.source_of(match[0]) or match[0], line)
    return paths.line(line, project)


def _object_source(line: str, paths: AuthorPaths) -> str:
    """The source of the object in a linker's line."""
    match = OBJECT.search(line)
    origin = paths.made(match[0]) if match else None
    found = next(
        ((project, origin.source) for project in paths.projects if origin and origin.source in project.plan.files), None
    )
    return str(found[0].shown / found[1]) if found else ""


def _arch(origin: Made | None) -> str:
    """The GPU architecture of an output, as in build.toml."""
    if origin is None or not origin.arch:
        return ""
    if match := re.fullmatch(r"(\d+)(\d)([af]?)", origin.arch):
        return f"{match[1]}.{match[2]}{match[3]}"
    return TOOLKITS[1].arch_of_directory(origin.arch) if origin.arch.startswith("gfx") else origin.arch


def as_diagnostics(found: Iterable[Finding], told: Telling) -> tuple[Diagnostic, ...]:
    """The errors among findings, as diagnostics of the driver.

    Args:
        found: the findings.
        told: how to show them.
    """
    return tuple(
        Diagnostic(
            code=finding.code,
            message=finding.message,
            span=finding.span,
            text=text_of(finding, told),
            variants=finding.variants,
        )
        for finding in found
        if finding.severity is Severity.ERROR
    )


def text_of(finding: Finding, told: Telling) -> str:
    """A finding as it is printed: the compiler's lines, and its variants."""
    where = finding.where(told)
    return "\n".join([*finding.lines, *([f"  ({where})"] if where else [])])
