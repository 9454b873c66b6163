"""Machine code of NVIDIA's GPUs from cuobjdump and nvdisasm: kernels, their resources, their text. Pure."""

from __future__ import annotations

import difflib
import json
import re
from collections import Counter
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import tomli

from py_driver.resources import resource

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

_USAGE: Final = re.compile(r"^ Function (\S+):\n\s+REG:(\d+) STACK:(\d+) SHARED:(\d+) LOCAL:(\d+)", re.MULTILINE)
_LAUNCHED: Final = re.compile(r'^\s+\.other\s+(\S+),@"STO_CUDA_ENTRY', re.MULTILINE)
_SECTION: Final = re.compile(r"^//-+ \.text\.(\S+) +-+$", re.MULTILINE)
"""The head of a section; nvdisasm fills up short names with blanks."""

_ENTRY: Final = re.compile(
    r"^(?:\.weak\s+)?(?:\.visible\s+)?\.(?:entry|func)\s+(?:\([^)]*\)\s+)?([\w$]+)", re.MULTILINE
)
_LINE: Final = re.compile(r'^\s*//## File "([^"]+)", line (\d+)(.*)$')
_WIDTH: Final = re.compile(r"(?:^|\.)[US]?(8|16|32|64|128|256)(?=\.|$)")
_USUAL_WIDTH: Final = "32"
_OPERATOR: Final = re.compile(r"\boperator(?:<=>|<<=?|>>=?|<=?|>=?|->\*?|\(\)) ?")
_OPERATORS: Final = str.maketrans("<>() ", "\1\2\3\4\5")
_OPERATORS_BACK: Final = str.maketrans("\1\2\3\4\5", "<>() ")
_SIGNS: Final = re.compile(r"[<>( ]")
_BRACKETS: Final = re.compile(r"[<>]")
_PADDING: Final = "NOP"
_SPILLS: Final = "spills"


@dataclass(frozen=True, kw_only=True, slots=True)
class Kernel:
    """A function of a GPU library, for one architecture.

    Attributes:
        symbol: its name in the library.
        name: its C++ name.
        arch: `9.0`.
        registers: the registers of each thread.
        shared: bytes of static shared memory; dynamic shared memory of a launch is additional.
        stack: the bytes of each thread's stack.
        instructions: the number of instructions, without padding.
        is_entry: whether the host launches it.
        mix: the number of each instruction, by kind, in the order of resources/sass.toml.
        sass: its machine code, as nvdisasm shows it.
    """

    symbol: str
    name: str
    arch: str
    registers: int
    shared: int
    stack: int
    instructions: int
    is_entry: bool
    mix: Mapping[str, Mapping[str, int]]
    sass: str

    @property
    def spills(self) -> int:
        """The number of instructions that load or store spilled registers or local arrays."""
        return sum(self.mix.get(_SPILLS, {}).values())

    @property
    def plain(self) -> str:
        """Its name without parameters, and without anonymous namespaces."""
        return plain(self.name)

    def as_json(self) -> dict[str, Any]:
        """The function as a value for JSON, without its code."""
        own = ("symbol", "name", "arch", "registers", "shared", "stack", "spills", "instructions", "is_entry")
        return {**{key: getattr(self, key) for key in own}, "mix": {kind: {**m} for kind, m in self.mix.items()}}


def plain(name: str) -> str:
    """A C++ name without its parameters: `relu::kernel<float>` for `void relu::kernel<float>(float*)`."""
    text = _without_operators(name.replace("(anonymous namespace)::", ""))
    begin, end, depth = 0, len(text), 0
    for sign in _SIGNS.finditer(text):
        depth += {"<": 1, ">": -1}.get(sign[0], 0)
        if not depth and sign[0] == "(":
            end = sign.start()
            break
        if not depth and sign[0] == " ":
            begin = sign.end()
    return text[begin:end].translate(_OPERATORS_BACK)


def without_arguments(name: str) -> str:
    """A C++ name without parameters and template arguments: `relu::kernel` for `void relu::kernel<float>(float*)`.

    Args:
        name: the name of a function.
    """
    depth, begin, found = 0, 0, []
    text = _without_operators(plain(name))
    for sign in _BRACKETS.finditer(text):
        if not depth:
            found.append(text[begin : sign.start()])
        depth += 1 if sign[0] == "<" else -1
        begin = sign.end()
    return "".join([*found, text[begin:] if not depth else ""]).translate(_OPERATORS_BACK).rstrip()


def _without_operators(name: str) -> str:
    """A name with other characters instead of the brackets of operators."""
    return _OPERATOR.sub(lambda match: match[0].translate(_OPERATORS), name) if "operator" in name else name


def kernels_of(told: str, usage: str, listing: str, arch: str, names: Mapping[str, str]) -> list[Kernel]:
    """The functions of a cubin, in order.

    Args:
        told: the output of `nvdisasm -json`.
        usage: the output of `cuobjdump -res-usage`.
        listing: the output of `nvdisasm -c`, with or without lines.
        arch: the architecture of the cubin.
        names: C++ names, by symbol.

    Raises:
        ValueError: an output is not as expected.
    """
    used = {symbol: [*map(int, values)] for symbol, *values in _USAGE.findall(usage)}
    texts = dict(_sections(listing))
    entries = set(_LAUNCHED.findall(listing))
    _, functions = json.loads(told)
    found = []
    for function in functions:
        symbol = function["function-name"]
        opcodes = [action["opcode"] for action in function["sass-instructions"] if action["opcode"] != _PADDING]
        registers, stack, shared, _ = used.get(symbol, [0, 0, 0, 0])
        found.append(
            Kernel(
                symbol=symbol,
                name=names.get(symbol, symbol),
                arch=arch,
                registers=registers,
                shared=shared,
                stack=stack,
                instructions=len(opcodes),
                is_entry=symbol in entries,
                mix=mix_of(opcodes),
                sass=texts.get(symbol, ""),
            )
        )
    return found


def _sections(listing: str) -> Iterator[tuple[str, str]]:
    """The code of each function of a listing."""
    heads = [*_SECTION.finditer(listing)]
    for head, after in zip(heads, [*heads[1:], None], strict=False):
        text = listing[head.end() : after.start() if after else len(listing)]
        body = text.partition(f"\n{head[1]}:\n")[2] or text
        yield head[1], body.strip("\n") + "\n"


@cache
def _kinds() -> list[tuple[str, list[str]]]:
    return [(release["name"], release["show"]) for release in tomli.loads(resource("sass.toml"))["kind"]]


def mix_of(opcodes: Iterable[str]) -> dict[str, dict[str, int]]:
    """The number of each instruction, by kind; instructions without a kind are ignored.

    Args:
        opcodes: e.g. `LDG.E.128.CONSTANT`.
    """
    counts = Counter(map(_shown, opcodes))
    found: dict[str, dict[str, int]] = {}
    for kind, names in _kinds():
        order = [name.rstrip("*") for name in names]
        own = {opcode: n for opcode, n in counts.items() if opcode.partition(".")[0] in order}
        if own:
            found[kind] = dict(sorted(own.items(), key=lambda item: (order.index(item[0].partition(".")[0]), item[0])))
    return found


@cache
def _shown(opcode: str) -> str:
    """The name of an instruction in the mix: its first word, with its width if that matters."""
    base, _, rest = opcode.partition(".")
    if any(f"{base}*" in names for _, names in _kinds()):
        width = _WIDTH.search(rest)
        return f"{base}.{width[1] if width else _USUAL_WIDTH}"
    return base


def matching(kernels: Sequence[Kernel], word: str) -> list[Kernel]:
    """The functions that a word means: those with exactly this name, or else all whose name contains it."""
    exact = [kernel for kernel in kernels if word in {kernel.symbol, kernel.name, kernel.plain}]
    return exact or [
        kernel for kernel in kernels if any(word in name for name in (kernel.symbol, kernel.name, kernel.plain))
    ]


def with_source(sass: str, lines_of: Mapping[str, Sequence[str]]) -> str:
    """Machine code with source lines instead of line numbers.

    Args:
        sass: machine code with line numbers, from `nvdisasm -g`.
        lines_of: the text of each file of the project, by the end of its path.
    """
    found, last = [], None
    for line in sass.splitlines():
        match = _LINE.match(line)
        if match is None:
            found.append(line)
            continue
        path, number = match[1], int(match[2])
        if (path, number, match[3]) == last:
            continue
        last = (path, number, match[3])
        ours = not path.startswith("external/") and "/external/" not in path
        own = next((name for name in lines_of if ours and (path == name or path.endswith(f"/{name}"))), None)
        if own is None:
            found.append(f"// {path.rpartition('/')[2]}:{number}{match[3]}")
        else:
            text = lines_of[own][number - 1].strip() if number <= len(lines_of[own]) else ""
            found.append(f"// {own}:{number}{match[3]}  {text}")
    return "\n".join(found) + "\n"


def ptx_of(text: str, symbol: str, number: int = 0) -> str:
    """The PTX of a function; empty without one.

    Args:
        text: the PTX of the library's sources, concatenated.
        symbol: the symbol of the function.
        number: the index among the functions with this symbol; each source may have one.
    """
    for head in _ENTRY.finditer(text):
        begin = re.compile(r"[{;]").search(text, head.end())
        # A declaration has no body.
        if head[1] != symbol or begin is None or begin[0] == ";":
            continue
        depth = 0
        for brace in re.compile(r"[{}]").finditer(text, begin.start()):
            depth += 1 if brace[0] == "{" else -1
            if not depth:
                break
        else:
            continue
        if not number:
            return text[head.start() : brace.end()] + "\n"
        number -= 1
    return ""


def stable_name(name: str) -> str:
    """A name without the part that differs between builds of the same function: nvcc's namespace of a file."""
    return re.sub(r"_GLOBAL__N__[0-9a-f]+_\d+_\w+?_cu_[0-9a-f]{8}", "", name)


def pairs(old: Sequence[Kernel], new: Sequence[Kernel]) -> list[tuple[Kernel | None, Kernel | None]]:
    """Pairs of functions of two builds, by architecture and name, in the order of the new build."""
    # Two sources may each have a function with the same name; they are in the same order.
    known: dict[tuple[str, str], list[Kernel]] = {}
    for section in old:
        known.setdefault((section.arch, stable_name(section.name)), []).append(section)
    both: list[tuple[Kernel | None, Kernel | None]] = []
    for kernel in new:
        same = known.get((kernel.arch, stable_name(kernel.name)))
        both.append((same.pop(0) if same else None, kernel))
    return [*both, *((section, None) for left in known.values() for section in left)]


def difference(old: str, new: str, names: tuple[str, str]) -> str:
    """A unified diff of two listings, without addresses and lines; empty if they are the same.

    Args:
        old: machine code.
        new: machine code.
        names: the names of the two.
    """
    bare = [_bare(text).splitlines() for text in (old, new)]
    return "\n".join(difflib.unified_diff(bare[0], bare[1], *names, lineterm=""))


def _bare(sass: str) -> str:
    """Machine code without the parts that a change of another function affects: addresses, lines, label numbers."""
    labels: dict[str, str] = {}
    text = re.sub(r"/\*[0-9a-f]{4,}\*/\s*", "", sass)
    text = re.sub(r"^\s*//## .*\n", "", text, flags=re.MULTILINE)
    return re.sub(r"\.L_x_\d+", lambda found: labels.setdefault(found[0], f".L_{len(labels)}"), stable_name(text))
