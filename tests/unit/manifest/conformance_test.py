"""What upstream's own parser accepts is accepted here, but for a table of differences, each with its reason.

Upstream's parser is `kernels._rust.Build.open` of the wheel `kernels`; it reads editions 4 and 5.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
import tomli
from fuzz import CORPUS, TEXTS, mutated, structured
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kernels._rust import Build  # type: ignore[import-untyped]

from py_driver.errors import DriverError
from py_driver.manifest.keys import Kind
from py_driver.manifest.reader import read
from py_driver.manifest.tables import TABLES

if TYPE_CHECKING:
    from pathlib import Path

    from py_driver.manifest.keys import Key


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """A way in which the two readers differ.

    Attributes:
        what: what it is about, in Markdown.
        said: what the one that refuses says, as a regular expression.
        reason: why, in Markdown.
    """

    what: str
    said: str
    reason: str


STRICTER = (
    Difference(
        what="`name`: a Python keyword, or more than 100 characters",
        said="the project's name (is a Python keyword|has)",
        reason="Python could not import it; file systems take 255 characters",
    ),
    Difference(
        what="the name of a kernel section",
        said="a kernel section's name must match",
        reason="it becomes the name of a Bazel target",
    ),
    Difference(
        what="`backends`, or a list of architectures: empty",
        said="`(backends|cuda[-_]capabilities|rocm[-_]archs)` in .* is empty",
        reason="nothing would be built",
    ),
    Difference(what="a backend listed twice", said="is listed twice", reason="a slip"),
    Difference(what="`license`: empty", said="`license` in .* is empty", reason="the Hub needs one"),
    Difference(
        what="control and bidirectional characters in strings",
        said="has the character",
        reason="the file would not say what it seems to say",
    ),
    Difference(what="empty strings in lists", said="has an empty string", reason="no path, flag or name is empty"),
    Difference(
        what="`python-depends`", said="does not allow a kernel to depend on", reason="upstream looks when it builds"
    ),
    Difference(
        what="flags outside the allowlist",
        said="the flag .* is not admitted|in cuda-flags lacks its value",
        reason="a flag could break hermeticity; upstream passes any on",
    ),
    Difference(what="CUDA capabilities", said="is not a CUDA capability", reason="upstream looks when it builds"),
    Difference(what="AMD architectures", said="is not an AMD architecture", reason="upstream looks when it builds"),
    Difference(what="`pyext`", said="is not a file extension", reason="it is compared with the ends of file names"),
    Difference(what="`upstream`, `source`: odd URLs", said="is not a git URL", reason="a URL with blanks is a slip"),
    Difference(what="`repo-id`", said="is not a repository on the Hub", reason="the Hub has no such name"),
    Difference(
        what="`branch`, `revision`", said="is not (the name of a branch|a git revision)", reason="git has no such name"
    ),
    Difference(what="`minver` above `maxver`", said="is below `", reason="nothing would be built"),
    Difference(
        what='versions with blanks or signs, such as `"+2.9"`',
        said="must be integers separated by dots",
        reason="a slip that Rust's parser of integers lets pass",
    ),
    Difference(
        what="size, nesting, number of keys and errors",
        said="bytes; at most|more than|there are more errors",
        reason="any file is read in less than a second",
    ),
)
"""What upstream accepts and this reader refuses; `said` is searched for in our message."""

LENIENT = (
    Difference(
        what="editions 0 to 3",
        said="legacy format|v3|edition|missing field|[Uu]nknown field",
        reason="upstream only migrates them",
    ),
    Difference(
        what="`cuda-capabilities`, `rocm-archs` in `[torch-noarch]`",
        said="Unknown field (cuda-capabilities|rocm-archs)",
        reason="the spelling of all other keys; upstream's documentation uses it",
    ),
    Difference(
        what="edition 6",
        said="unsupported build edition 6",
        reason="upstream's sources have it, and no released parser",
    ),
    Difference(what="`_` in `name`", said="lowercase letter or digit", reason="it is written as `-` in metadata.json"),
    Difference(
        what="versions with one, or more than two, components",
        said=r"TorchAbi|Version has \d components",
        reason="`13` bounds as `13.0` would, and `2.12.1` says what it says",
    ),
    Difference(
        what="line breaks in inline tables",
        said="invalid inline table",
        reason="TOML 1.1 has them, and upstream's parser is one of 1.0",
    ),
)
"""What this reader accepts and upstream refuses; `said` is searched for in upstream's message."""


def theirs(directory: Path, content: bytes) -> str:
    """What upstream says against a file; nothing if it accepts it."""
    (directory / "build.toml").unlink(missing_ok=True)  # ext4 sends what replaces a file's content to the disk at once
    (directory / "build.toml").write_bytes(content)
    try:
        Build.open(directory)
    except Exception as problem:  # noqa: BLE001  (whatever it raises)
        return str(problem)
    return ""


def ours(content: bytes) -> tuple[list[str], int]:
    """What this reader says against a file, and of which edition it takes the file to be."""
    try:
        manifest, findings = read(content, "build.toml")
    except DriverError as failure:
        return [diagnostic.message for diagnostic in failure.diagnostics], -1
    return [diagnostic.message for diagnostic in findings.diagnostics()], manifest.edition


def unexplained(directory: Path, text: str) -> str:
    """How the readers differ on a text in a way that the tables do not have; nothing if they do not."""
    content = text.encode("utf-8", "surrogatepass")
    refusal, (messages, edition) = theirs(directory, content), ours(content)
    if bool(refusal) == bool(messages):
        return ""
    if messages:
        strange = [
            message for message in messages if not any(re.search(known.said, message, re.DOTALL) for known in STRICTER)
        ]
        return f"only we refuse: {strange}" if strange else ""
    lenient = LENIENT if 0 <= edition <= 3 else LENIENT[1:]
    return "" if any(re.search(rule.said, refusal) for rule in lenient) else f"only upstream refuses: {refusal}"


VALUES = (
    "1", "-1", "0", "5", "1.5", "true", "1979-05-27", "[]", "{}", '""', '"x"', '"a b"', "[1]", '[""]', '["x"]',
    '["x", "x"]', "[[]]", "[{}]", '"2.9"', '"2"', '"2.9.1"', '"02.09"', '"2.x"', '"2.9 "', '" 2.9"', '"+2.9"',
    '"2.9a"', '".9"', '"2."', '{ cuda = "2.9" }', "{ cuda = 1 }", '{ cude = "2.9" }', '"relu"', '"re_lu"', '"Relu"',
    '"r"', '"1a"', '"a-"', '"class"', '"a--b"', '"a.b"', '"é"', '["cpu"]', '["cuda", "cuda"]', '["CUDA"]',
    '["torch"]', '["cutlass_4_5"]', '["sycl_tla"]', '["tvm-ffi"]', '["metal-cpp"]', '"metal"', '"rocm"', '"cann"',
    '"https://example.org/a"', '"http://a"', '"git@a:b"', '"a:b"', '"ftp://a"', '"file:///a"', '"git+https://a/b"',
    '"/a"', '"ssh://a/b"', '"git://a/b"', '["-O3"]', '["8.0"]', '["9.0a", "12.0+PTX"]', '["gfx942"]', '["py"]',
    '[".py"]', '["../a.cpp"]', '["/a.cpp"]', '["a b.cpp"]', '["einops"]', '["nki"]',
    '[{ repo-id = "a/b", version = 1 }]', '[{ repo-id = "a/b", revision = "x" }]', '[{ repo-id = "a/b" }]',
    "[{ version = 1 }]", '[{ repo-id = "a", version = 1 }]', '[{ repo-id = "a/b", version = 1, revision = "x" }]',
    '[{ repo-id = "a/b", version = -1 }]', '[{ repo-id = "a/b", version = "1" }]',
    '[{ repo-id = "a/b", version = 1, x = 1 }]', "18446744073709551615", "9223372036854775807", "4294967296",
    "'''a\nb'''", '"\\u202e"', '"\\u0000"',
    f'"{"a" * 200}"',
)  # fmt: skip
"""Values of every class, as TOML."""


def _toml(value: object) -> str:
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key} = {_toml(inner)}' for key, inner in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    return f"'{value}'" if isinstance(value, str) else str(value).lower()


def _with(document: dict[str, Any], path: str, name: str, value: str) -> str:
    """A document in which a key has another value, or has gone if that is empty."""
    tables: dict[str, dict[str, str]] = {}
    for title, table in document.items():
        flat = {f"{title}.{key}": inner for key, inner in table.items() if isinstance(inner, dict)}
        tables[title] = {key: _toml(inner) for key, inner in table.items() if not isinstance(inner, dict)}
        tables |= {key: {one: _toml(inner) for one, inner in keys.items()} for key, keys in flat.items()}
    titles = [table for table in tables if re.fullmatch(path.replace(".", r"\.").replace("*", r"\w+"), table)]
    for title in titles or [path.replace("*", "added")]:
        keys = tables.setdefault(title, {})
        keys.pop(name, None)
        if value:
            keys[name] = value
    return "".join(f"[{title}]\n" + "".join(f"{k} = {v}\n" for k, v in keys.items()) for title, keys in tables.items())


def _files() -> list[Path]:
    return [path for path in sorted(CORPUS.glob("*.toml")) if path.name.startswith(("edition4", "edition5"))]


_DOCUMENTS = ("edition4.toml", "edition5.toml", "edition5-noarch.toml")
KEYS = [(table.path, key) for table in TABLES if table.path not in {"", "kernel-depends"} for key in table.keys]


@pytest.mark.parametrize("path", _files(), ids=lambda path: path.name)
def test_upstream_accepts_the_corpus(path: Path, tmp_path: Path) -> None:
    assert unexplained(tmp_path, path.read_text(encoding="utf-8")) == ""
    if path.name != "edition5-noarch.toml":
        assert theirs(tmp_path, path.read_bytes()) == ""


@pytest.mark.thorough
@pytest.mark.parametrize("name", _DOCUMENTS)
def test_every_key_with_every_class_of_value(name: str, tmp_path: Path) -> None:
    document = tomli.loads((CORPUS / name).read_text(encoding="utf-8"))
    texts = {
        _with(document, table, key.name, value)
        for table, key in KEYS
        if table.partition(".")[0] in document and key.kind is not Kind.TABLE
        for value in ("", *VALUES, *_examples(key))
    }
    found = {reason: text for text in sorted(texts) if (reason := unexplained(tmp_path, text))}
    assert found == {}


def _examples(key: Key) -> list[str]:
    return [key.example] if key.example else []


@settings(max_examples=500, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**32))
def test_any_change_of_a_manifest(tmp_path: Path, seed: int) -> None:
    source = random.Random(seed)  # noqa: S311  (no secret)
    assert unexplained(tmp_path, source.choice((mutated, mutated, structured))(source)) == ""


def test_upstream_reads_editions_4_and_5(tmp_path: Path) -> None:
    for text in TEXTS:
        messages, edition = ours(text.encode())
        assert messages == []
        assert bool(theirs(tmp_path, text.encode())) == (
            edition < 4 or edition > 5 or "cuda-capabilities" in text.partition("noarch]")[2]
        )
