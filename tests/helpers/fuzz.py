"""Inputs for the readers, each made from a seed, and one trial of `driver check`.

As a program it tries many inputs: PYTHONPATH=. python tests/helpers/fuzz.py 100000 [FIRST_SEED]
"""

from __future__ import annotations

import io
import json
import random
import re
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from py_driver.__main__ import main
from py_driver.manifest.keys import Kind
from py_driver.manifest.tables import TABLES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from py_driver.manifest.keys import Key

CORPUS = Path(__file__).parents[1] / "corpus"
TEXTS = tuple(path.read_text(encoding="utf-8") for path in sorted(CORPUS.glob("*.toml")))

SECONDS = 15.0
"""The CPU time limit of one input: the largest usually take 2 seconds; quadratic time on a megabyte takes minutes."""

_FOLDERS = ("torch-ext", "ext-torch", "tvm-ffi-ext")
_FILES = (
    *(f"{folder}/relu/{name}" for folder in _FOLDERS for name in ("__init__.py", "data.json")),
    *(f"{folder}/torch_binding.{suffix}" for folder in _FOLDERS for suffix in ("cpp", "h")),
    *(f"tvm-ffi-ext/binding.{suffix}" for suffix in ("cpp", "h")),
    *(f"relu/{name}" for name in ("relu.cu", "relu.cpp", "relu.h", "relu.mm", "other.cu")),
)
_TOKENS = (
    *("[", "]", "[[", "]]", "{", "}", "=", ",", ".", "#", "\n", "\r\n", "\r", " ", "\t", '"', "'", '"""', "'''", "\\"),
    *("\\u0000", "\\u202e", "\\U0010ffff", "\\x1b", "\\e", "\x00", "\x1b", "\u202e", "\u2028", "é", "e\u0301", "😀"),
    *("true", "false", "inf", "-nan", "0x1f", "1_000", "1e400", "1979-05-27T07:32:00Z", "07:32", "9" * 30, "1" * 5000),
    *('"2.9"', '"cuda"', '"cpu"', '["torch"]', "[]", "{}", "edition = 5", "[general]", "[torch]", "[kernel.a]"),
    *("[[kernel.a]]", "[general.cuda]", "$(id)", "%s", "{{7*7}}", "../x", "/dev/zero", "//a:b", "*.cu", "-fplugin=x"),
)
_WORD = re.compile(r"\w+|\s+|[^\w\s]", re.ASCII)


def make_project(directory: Path) -> Path:
    """A project with every file that the corpus lists."""
    for name in _FILES:
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text("REGISTER_EXTENSION(TORCH_EXTENSION_NAME)\n", encoding="ascii")
    return directory


def check(directory: Path, content: bytes, *, as_json: bool) -> int:
    """Run `driver check` on a build.toml and return the exit code.

    Raises:
        AssertionError: the end is wrong: it must be 0 or 2, in time, without a traceback, with JSON on request.
    """
    (directory / "build.toml").write_bytes(content)
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.TextIOWrapper(io.BytesIO(), "utf-8")
    start = time.process_time()
    with redirect_stdout(out), redirect_stderr(err):
        code = main(["check", *(["--json"] if as_json else []), str(directory)])
    seconds = time.process_time() - start
    printed, said = (stream.buffer.getvalue().decode() for stream in (out, err))
    assert code in {0, 2}, (code, said[-2000:])
    assert "Traceback" not in said
    assert seconds < SECONDS, f"{seconds:.2f} s"
    if as_json:
        assert bool(json.loads(printed)["errors"]) == (code != 0)
    else:
        assert printed == ""
        assert ("error[" in said) == (code != 0)
    return code


def junk(source: random.Random) -> str:
    """Random characters, most of them ASCII."""
    ranges = ((32, 126), (0, 0x2FF), (0x300, 0xD7FF), (0xE000, 0x10FFFF))
    weights = (80, 12, 6, 2)
    return "".join(chr(source.randint(*source.choices(ranges, weights)[0])) for _ in range(source.randint(0, 60)))


def soup(source: random.Random) -> str:
    """Tokens of TOML and of manifests, in random order."""
    return source.choice(("", " ", "\n")).join(source.choices(_TOKENS, k=source.randint(0, 40)))


def value(source: random.Random, key: Key | None, depth: int = 0) -> str:
    """A TOML value, often of the key's type, sometimes the key's example."""
    if key and key.example and source.random() < 0.5:
        return key.example
    kind = source.random()
    if kind < 0.3:
        return source.choice(_TOKENS[32:])
    if kind < 0.5:
        choices = ["a", "", "$(id)", *(key.choices if key else ())]
        return json.dumps(source.choice(choices) if source.random() < 0.8 else junk(source))
    if kind < 0.7 and depth < 3:
        listed = [value(source, key, depth + 1) for _ in range(source.randint(0, 4))]
        return f"[{', '.join(listed)}]"
    if kind < 0.8 and depth < 3:
        pairs = [f"{name} = {value(source, None, depth + 1)}" for name in source.sample(("a", "b", "version"), k=2)]
        return f"{{{', '.join(pairs)}}}"
    return str(source.choice((0, -1, 1, 5, 1 << 70, 1.5, "true")))


def structured(source: random.Random) -> str:
    """Known tables with known and unknown keys."""
    lines = []
    for table in source.sample(TABLES[1:], k=source.randint(1, 5)):
        name = source.choice(("a", "relu", '"x y"'))
        lines.append(f"[{table.path.replace('*', name)}]")
        for key in source.sample(table.keys, k=source.randint(0, len(table.keys))):
            right = key.kind not in {Kind.TABLE, Kind.TABLES} and source.random() < 0.7
            lines.append(f"{key.name} = {key.example if right and key.example else value(source, key)}")
        if source.random() < 0.2:
            name = source.choice(("nmae", "src_", '"a.b"'))
            lines.append(f"{name} = {value(source, None)}")
    return "\n".join(lines)


def _change(source: random.Random, parts: list[str], other: list[str]) -> None:
    """Make one change in a list of lines or tokens."""
    at, to = source.randrange(len(parts) + 1), source.randrange(len(parts) + 1)
    kind = source.randrange(5)
    if kind == 0:
        del parts[at : at + source.randint(1, 3)]
    elif kind == 1:
        parts[at:at] = source.choice((source.choices(_TOKENS, k=1), source.choices(other, k=source.randint(1, 3))))
    elif kind == 2:
        parts[to:to] = parts[at : at + source.randint(1, 5)]
    elif kind == 3 and at < len(parts) and to < len(parts):
        parts[at], parts[to] = parts[to], parts[at]
    elif at < len(parts):
        parts[at] = source.choice(_TOKENS)


def mutated(source: random.Random) -> str:
    """A manifest of the corpus with a few changed lines, tokens or values."""
    text = source.choice(TEXTS)
    for _ in range(source.choice((1, 1, 1, 1, 1, 2, 4))):
        if source.random() < 0.3:
            pairs = [line for line in text.split("\n") if " = " in line] or [""]
            line = source.choice(pairs)
            new = source.choice(source.choice(TEXTS).split("\n")).partition(" = ")[2] or value(source, None)
            text = text.replace(line, f"{line.partition(' = ')[0]} = {new}", 1) if line else text
        elif source.random() < 0.5:
            lines = text.split("\n")
            _change(source, lines, source.choice(TEXTS).split("\n"))
            text = "\n".join(lines)
        else:
            words = _WORD.findall(text)
            _change(source, words, _WORD.findall(source.choice(TEXTS)))
            text = "".join(words)
    return text


def raw(source: random.Random) -> bytes:
    """Random bytes, or a manifest with some changed bytes."""
    if source.random() < 0.5:
        return source.randbytes(source.randint(0, 100))
    content = bytearray(source.choice(TEXTS).encode())
    for _ in range(source.randint(1, 4)):
        content[source.randrange(len(content))] = source.randrange(256)
    return bytes(content)


_MAKERS: tuple[tuple[Callable[[random.Random], str | bytes], int], ...] = (
    (mutated, 60), (structured, 20), (soup, 10), (junk, 5), (raw, 5)
)  # fmt: skip


def make(seed: int) -> bytes:
    """The input of a seed."""
    source = random.Random(seed)  # noqa: S311  (no secret)
    [maker] = source.choices([candidate for candidate, _ in _MAKERS], [weight for _, weight in _MAKERS])
    made = maker(source)
    return made if isinstance(made, bytes) else made.encode("utf-8", "surrogatepass")


@dataclass(kw_only=True, slots=True)
class Tally:
    """The results of many trials."""

    codes: Counter[int] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    slowest: tuple[float, int] = (0.0, 0)

    def add(self, other: Tally) -> None:
        self.codes.update(other.codes)
        self.failures += other.failures
        self.slowest = max(self.slowest, other.slowest)


def trials(seeds: Iterable[int], directory: Path) -> Tally:
    """Check the inputs of seeds."""
    tally = Tally()
    for seed in seeds:
        start = time.process_time()
        try:
            tally.codes[check(directory, make(seed), as_json=seed % 2 == 0)] += 1
        except AssertionError as failure:
            tally.failures.append(f"seed {seed}: {failure}")
        tally.slowest = max(tally.slowest, (time.process_time() - start, seed))
    return tally


def _batch(seeds: range) -> Tally:
    with tempfile.TemporaryDirectory() as name:
        return trials(seeds, make_project(Path(name)))


def _batches(first: int, count: int, size: int = 2000) -> Iterator[range]:
    for start in range(first, first + count, size):
        yield range(start, min(start + size, first + count))


if __name__ == "__main__":
    total = Tally()
    with ProcessPoolExecutor(2) as pool:
        for one in pool.map(_batch, _batches(int((sys.argv[2:] or ["0"])[0]), int(sys.argv[1]))):
            total.add(one)
    seconds, slow = total.slowest
    sys.stdout.write(f"{dict(total.codes)}; slowest {1000 * seconds:.1f} ms, seed {slow}\n")
    sys.stdout.write("\n".join([*total.failures[:20], f"{len(total.failures)} failures\n"]))
