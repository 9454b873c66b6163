# ruff: noqa: INP001  (a program of its own)
"""Writes all that is generated in the pages: `make pages`. With --check it writes nothing and names what is stale.

A page is generated as a whole (docs/errors.md, docs/rules.md, the JSON schema), or has blocks between
`<!-- generated: NAME -->` and `<!-- end -->`. The Python that runs this has the driver's dependencies.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import json
import re
import sys
from collections import ChainMap
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "bench")]

from docs.json_page import json_page  # noqa: E402  (the checkout is no installed package)
from py_driver.cli.explain import read_texts, spell  # noqa: E402
from py_driver.errors import Code, ExitCode  # noqa: E402
from py_driver.manifest.keys import Key, Kind, Table  # noqa: E402
from py_driver.manifest.model import NEWEST  # noqa: E402
from py_driver.manifest.parts import PYTHON_PACKAGES  # noqa: E402
from py_driver.manifest.schema import example, make_schema  # noqa: E402
from py_driver.manifest.tables import TABLES  # noqa: E402
from py_driver.matrix.backends import BUILT  # noqa: E402
from py_driver.matrix.facts import facts  # noqa: E402
from py_driver.matrix.releases import Releases, openmp_file  # noqa: E402
from py_driver.matrix.torch_openmp import read_file  # noqa: E402
from py_driver.output import Output  # noqa: E402
from py_driver.resources import resource  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from py_driver.matrix.toolkits import Toolkit

_DOCS = ROOT / "docs"
_LOCK = ROOT / "toolchains" / "lock"
BLOCK = re.compile(r"(<!-- generated: (\S+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)
_TYPES = {
    Kind.TEXT: "string",
    Kind.TEXTS: "list of strings",
    Kind.INTEGER: "integer",
    Kind.BOOLEAN: "boolean",
    Kind.VERSION: "version",
    Kind.VERSIONS: "version, or table of versions by backend",
    Kind.TABLE: "table",
    Kind.TABLES: "list of tables",
}
_ATTRIBUTE_TYPES = {
    "bool": "boolean",
    "label": "label",
    "label_list": "list of labels",
    "string": "string",
    "string_dict": "dictionary of strings",
    "string_list": "list of strings",
    "string_list_dict": "dictionary of lists of strings",
}
_REQUESTS = ("8.0 9.0", "9.0 9.0a", "7.0 8.0 12.0+PTX", "8.0 10.1a", "7.0 10.1a")
"""The requests in the table of architectures."""
_NVCC = {"nvidia-cuda-nvcc": "wheels", "nvidia-cuda-toolkit": "Debian", "cuda_nvcc": "NVIDIA's archive"}
"""Where nvcc comes from, by the name of the archive."""
_HIP = {"libamdhip64-dev": "Debian", "hip-dev": "AMD"}
"""Where HIP's headers come from, by the name of the archive."""

_CHANGES = {
    "cold matrix": "all variants, empty cache",
    "a torch version more": "one more torch release",
    "an architecture more": "one more architecture",
}
"""Rows of the benchmark, and their names in README and on the first page of the site."""

_ERRORS = """\
# Errors

<!-- Written from py_driver/resources/codes.toml by docs/pages.py; edit that instead. -->

`driver explain E003` prints one of them, `driver explain` the table.
"""
_RULES = """\
# Rules

<!-- Written from the .bzl files by docs/pages.py; edit those instead. -->

`driver gen` writes calls of these rules; they can be written by hand as well:

```python
load("@rules_torch_kernels//rules:defs.bzl", {names})
```

Every rule has the attributes that Bazel gives to all, such as `name`, `tags` and `visibility`. Each
`kernel_variant` sets the configuration of all that it depends on; set nothing on the command line.
"""


@cache
def _releases() -> Releases:
    return Releases()


def _row(*variants: str) -> str:
    return f"| {' | '.join(variant.replace('|', chr(92) + '|') for variant in variants)} |\n"


def _heading(*variants: str) -> str:
    return _row(*variants) + "|" + "---|" * len(variants) + "\n"


def errors() -> str:
    """docs/errors.md: the table of all codes, and the text of each."""
    texts = read_texts()
    lines = [_ERRORS, "| code | name | exit code | meaning |", "|---|---|---|---|"]
    for code in Code:
        anchor = f"{code.number}-{spell(code)}".lower()
        exit_code = f"{code.exit_code.value} {code.exit_code.name}"
        lines.append(f"| [{code.number}](#{anchor}) | `{spell(code)}` | {exit_code} | {texts[code]['title']} |")
    for code in Code:
        lines += ["", f"## {code.number} {spell(code)}", "", f"**{texts[code]['title']}**", "", texts[code]["text"]]
    return "\n".join(lines) + "\n"


def schema() -> str:
    """docs/build-toml.schema.json, which `driver schema` prints."""
    return json.dumps(make_schema(), indent=2, ensure_ascii=False) + "\n"


# docs/rules.md. A call of `rule` is the same in Starlark and in Python, so the files are read as Python.


def _keywords(call: ast.Call) -> dict[str, ast.expr]:
    return {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}


def _text(node: ast.expr | None) -> str:
    text = "" if node is None else ast.literal_eval(node)
    if not isinstance(text, str) or not text:
        where = "" if node is None else f" (line {node.lineno})"
        message = f"every rule and every attribute has a `doc`{where}"
        raise ValueError(message)
    return text


def _strings(node: ast.expr) -> list[str]:
    """A list of literals and of facts."""
    backends = facts("backends")
    languages = [backend["languages"] for backend in backends["BACKENDS"].values()]
    names = {**backends, **facts("settings"), "LANGUAGES": ChainMap(*languages)}
    return list(eval(compile(ast.Expression(node), "rules", "eval"), names))  # noqa: S307  (text of this project)


def _call(node: ast.expr) -> ast.Call:
    if not isinstance(node, ast.Call):
        message = f"line {node.lineno}: `{ast.unparse(node)}` is no call"
        raise TypeError(message)
    return node


def _public_rules() -> Iterator[tuple[str, ast.Module]]:
    """The names that rules/defs.bzl exports, each with the file that defines it."""
    modules: dict[str, ast.Module] = {}
    for statement in ast.parse((ROOT / "rules" / "defs.bzl").read_text(encoding="utf-8")).body:
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            path = ROOT / _text(statement.value.args[0]).removeprefix("//").replace(":", "/")
            module = ast.parse(path.read_text(encoding="utf-8"))
            modules |= dict.fromkeys(_keywords(statement.value), module)
        elif isinstance(statement, ast.Assign):
            yield ast.unparse(statement.targets[0]), modules[ast.unparse(statement.value)]


def _attribute(name: str, call: ast.Call) -> str:
    """The line of an attribute."""
    keywords = _keywords(call)
    facts = [_ATTRIBUTE_TYPES[ast.unparse(call.func).removeprefix("attr.")]]
    facts += ["mandatory"] if "mandatory" in keywords and ast.literal_eval(keywords["mandatory"]) else []
    if isinstance(providers := keywords.get("providers"), ast.List):
        facts.append("of targets with " + ", ".join(f"`{ast.unparse(provider)}`" for provider in providers.elts))
    if "values" in keywords:
        facts.append(
            "one of " + ", ".join(f"`{value}`" if value else "empty" for value in _strings(keywords["values"]))
        )
    if not isinstance(suffixes := keywords.get("allow_files"), ast.Constant | None):
        facts.append("files: " + ", ".join(f"`{suffix}`" for suffix in _strings(suffixes)))
    return f"- `{name}` ({'; '.join(facts)}). {_text(keywords.get('doc'))}"


def _rule(name: str, module: ast.Module) -> str:
    """The section of a rule."""
    assignments = (statement for statement in module.body if isinstance(statement, ast.Assign))
    value = next(statement.value for statement in assignments if ast.unparse(statement.targets[0]) == name)
    keywords = _keywords(_call(value))
    attributes = keywords["attrs"]
    if not isinstance(attributes, ast.Dict):
        message = f"{name}: `attrs` is no dictionary"
        raise TypeError(message)
    calls = {_text(key): _call(call) for key, call in zip(attributes.keys, attributes.values, strict=True)}
    lines = [_attribute(key, calls[key]) for key in sorted(calls) if not key.startswith("_")]
    return "\n".join([f"## {name}", "", _text(keywords.get("doc")), "", *lines]) + "\n"


def rules() -> str:
    """docs/rules.md: what the rules say of themselves."""
    found = list(_public_rules())
    introduction = _RULES.format(names=", ".join(f'"{name}"' for name, _ in found))
    return "\n".join([introduction, *(_rule(name, module) for name, module in found)])


# Tables of docs/build-toml.md.


def _since(declared: Table, key: Key) -> int:
    """The first edition that has a key in a table: not before the table itself."""
    parent, _, name = declared.path.rpartition(".")
    around = [own.since for outer in TABLES if outer.path == parent for own in outer.keys if own.name == name]
    return max([key.since, *around])


def _key(declared: Table, key: Key) -> str:
    """The row of a key."""
    since = _since(declared, key)
    editions = str(since) if since == key.until else f"{since} to {key.until}"
    required = "no" if key.required is None else f"from edition {key.required}"
    meaning = f"In sections for `{'`, `'.join(key.backends)}`. {key.doc}" if key.backends else key.doc
    return _row(
        f"`{key.name}`",
        _TYPES[key.kind],
        "yes" if key.required is not None and key.required <= since else required,
        "all" if (since, key.until) == (0, NEWEST) else editions,
        f"{meaning} One of: {', '.join(f'`{choice}`' for choice in key.choices)}." if key.choices else meaning,
        f"`{example(declared.path, key)}`" if key.example else "",
    )


def keys(declared: Table) -> str:
    """The keys of a table of build.toml."""
    head = _heading("key", "type", "required", "editions", "meaning", "example")
    return head + "".join(_key(declared, key) for key in declared.keys)


def python_packages() -> str:
    """The packages that `python-depends` admits."""
    lines = [_heading("table", "packages")]
    for backend, names in PYTHON_PACKAGES.items():
        title = f"[general.{backend}]" if backend else "[general]"
        lines.append(_row(f"`{title}`", ", ".join(f"`{name}`" for name in names) or "none"))
    return "".join(lines)


def archs() -> str:
    """What CUDA 13.0 compiles for a few requests."""
    toolkit = _releases().matrix.toolkit("cu130")
    if toolkit is None:
        message = "the matrix has no cu130, which the table of architectures is about"
        raise ValueError(message)
    lines = [_heading("asked for", "compiled", "excluded")]
    for request in _REQUESTS:
        found = BUILT["cuda"].choose(request.split(), toolkit)
        kept = f"`{' '.join(found.kept)}`" if found.kept else "nothing, which is an error"
        dropped = "; ".join(f"`{excluded.arch}`: {excluded.reason}" for excluded in found.dropped)
        lines.append(_row(f"`{request}`", kept, dropped))
    return "".join(lines)


def default_archs() -> str:
    """The default capabilities of each CUDA release."""
    found = _releases().matrix.toolkits_of("cuda")
    rows = (_row(cuda.version, f"`{' '.join(cuda.default_archs)}`") for cuda in found)
    return _heading("CUDA", "capabilities") + "".join(rows)


# Tables of docs/toolchains.md.


def variants() -> str:
    """Which torch release is built with which backend."""
    matrix = _releases().matrix
    tested = {toolkit.backend: toolkit.tested for toolkit in matrix.toolkits}
    backends = ["cpu", *tested]
    lines = [_heading("torch", "release", "C++", "ABI", *backends)]
    for torch in matrix.torch:
        words = []
        for backend in backends:
            if backend in torch.backends and torch.default:
                words.append("default")
            elif backend in (*torch.backends, *torch.on_request):
                words.append("on request" if tested.get(backend, True) else "untested")
            else:
                words.append("")
        lines.append(_row(torch.version, torch.release, str(torch.cxx_standard), ", ".join(torch.abis), *words))
    return "".join(lines)


def _locked(toolkit: Toolkit, names: dict[str, str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The entry of a toolkit in the lock, and its archive with one of some names."""
    entry = json.loads((_LOCK / f"{toolkit.family}.json").read_text(encoding="utf-8"))[toolkit.version]
    [archive] = [archive for archive in entry["archives"] if archive["name"] in names]
    return entry, archive


def _clang(toolkit: Toolkit) -> str:
    return f"clang {_releases().table['cc']['zig'][toolkit.host]} (zig {toolkit.host})"


def cuda() -> str:
    """The CUDA releases."""
    lines = [_heading("CUDA", "nvcc", "from", "host compiler", "newest", "tested", "architectures")]
    for release in _releases().matrix.toolkits_of("cuda"):
        entry, nvcc = _locked(release, _NVCC)
        version, newest = nvcc["version"].partition("~")[0], str(entry["max_clang"])
        tested = "yes" if release.tested else "no"
        facts = (version, _NVCC[nvcc["name"]], _clang(release), newest, tested, " ".join(release.archs))
        lines.append(_row(release.version, *facts))
    return "".join(lines)


def rocm() -> str:
    """The ROCm releases."""
    lines = [_heading("ROCm", "HIP", "from", "compiler", "tested", "architectures")]
    for release in _releases().matrix.toolkits_of("rocm"):
        _, hip = _locked(release, _HIP)
        version, tested = hip["version"].partition("-")[0], "yes" if release.tested else "no"
        facts = (version, _HIP[hip["name"]], _clang(release), tested, " ".join(release.archs))
        lines.append(_row(release.version, *facts))
    return "".join(lines)


def openmp() -> str:
    """The OpenMP runtime of each torch wheel."""
    lines = [_heading("torch", "file in the wheel", "SONAME", "symbols up to")]
    for version, runtime in read_file(openmp_file()).items():
        newest = ", ".join(f"{family} {number}" for family, number in runtime["newest"].items())
        lines.append(_row(version, f"`{runtime['file']}`", f"`{runtime['soname']}`", newest))
    return "".join(lines)


def cells() -> str:
    """What was built, loaded and run of each torch release and backend."""
    matrix, program = _releases().matrix, importlib.import_module("cells")
    records = program.read()
    ours = {"cpu": "CPU", **{toolkit.backend: toolkit.backend for toolkit in matrix.toolkits}}
    more = [backend for backend in program.backends_of(records) if backend not in ours]
    columns = {**ours, **{backend: f"{backend} (own)" for backend in more}}
    torches = [(torch.version, abi) for torch in matrix.torch for abi in torch.abis]
    head, *rows = program.table(records, torches, dict(sorted(columns.items(), key=lambda pair: pair[0])))
    return _heading(*head) + "".join(_row(*row) for row in rows)


# Tables of README.md and docs/index.md.


def support() -> str:
    """The releases by status."""
    matrix = _releases().matrix
    default = {backend for torch in matrix.torch if torch.default for backend in torch.backends}
    newest = {abi: torch for torch in matrix.torch for abi in torch.abis}

    def toolkits(family: str) -> list[tuple[str, int]]:
        found = matrix.toolkits_of(family)
        return [(kit.version, int(kit.backend not in default) if kit.tested else 2) for kit in found]

    statuses = {
        "torch": [(torch.version, int(not torch.default)) for torch in matrix.torch],
        "CUDA": toolkits("cuda"),
        "ROCm": toolkits("rocm"),
        "C++ ABI": [
            (abi, 0) if torch == matrix.torch[-1] else (f"{abi}, up to torch {torch.version}", 1)
            for abi, torch in newest.items()
        ],
    }
    lines = [_heading("", "built by default", "built on request", "untested")]
    for title, found in statuses.items():
        columns = (", ".join(name for name, status in found if status == column) for column in range(3))
        lines.append(_row(title, *columns))
    return "".join(lines)


def figures() -> str:
    """CPU seconds of the benchmark's light_torch, which is what most people write, and the machine."""
    benchmark = importlib.import_module("page")
    results = json.loads(benchmark.RESULTS.read_text(encoding="utf-8"))
    columns, machine = results["light_torch"], results["machines"]["light_torch"]
    lines = [_row("CPU seconds", "here", "other", "times less"), "|---|---:|---:|---:|\n"]
    for change, name in _CHANGES.items():
        ours, (_, theirs) = columns[benchmark.SPLIT][change]["cpu"], benchmark.best_peer(columns, change)
        lines.append(_row(name, f"{ours:.0f}", f"{theirs:.0f}", f"**{theirs / ours:.2g}**"))
    where = f"{machine['cores']} cores of an {machine['processor']} with {machine['memory-gib']} GiB, {machine['date']}"
    return "".join([*lines, f"\nA kernel with `torch/all.h`, 9 architectures, 2 torch releases; {where}."])


def written() -> dict[Path, str]:
    """Every generated file, and the text that it should have.

    Raises:
        ValueError: a page lacks a block, or has one that nothing writes.
    """
    benchmark, simulation = (importlib.import_module(name) for name in ("page", "simulation"))
    blocks: dict[str, dict[str, Callable[[], str]]] = {
        "README.md": {"figures": figures, "support": support},
        "docs/build-toml.md": {
            **{declared.path or "file": partial(keys, declared) for declared in TABLES},
            "python-depends": python_packages,
            "archs": archs,
            "default-archs": default_archs,
        },
        "docs/index.md": {"figures": figures},
        "docs/remote.md": {"simulation": simulation.table},
        "docs/toolchains.md": {"variants": variants, "cells": cells, "cuda": cuda, "rocm": rocm, "openmp": openmp},
    }
    found: dict[Path, str] = {
        _DOCS / "ci" / "kernel.yml": resource("projects/common/.github/workflows/kernel.yml"),
        _DOCS / "build-toml.schema.json": schema(),
        _DOCS / "errors.md": errors(),
        _DOCS / "json.md": json_page(),
        _DOCS / "rules.md": rules(),
        **benchmark.written(),
    }
    for name, texts in blocks.items():
        page = (ROOT / name).read_text(encoding="utf-8")
        if sorted(names := [block[1] for block in BLOCK.findall(page)]) != sorted(texts):
            message = f"{name} has the blocks {', '.join(names)}; docs/pages.py writes {', '.join(texts)}"
            raise ValueError(message)
        found[ROOT / name] = BLOCK.sub(partial(_filled, texts), page)
    return found


def _filled(texts: dict[str, Callable[[], str]], block: re.Match[str]) -> str:
    return f"{block[1]}\n{texts[block[2]]()}\n{block[4]}"


def stale() -> dict[Path, str]:
    """The files that have another text than they should, and that text."""
    return {
        path: text for path, text in written().items() if not path.exists() or path.read_text(encoding="utf-8") != text
    }


def main(arguments: list[str] | None = None) -> int:
    """Write or check the generated files; the exit code."""
    parser = argparse.ArgumentParser(description="Writes all that is generated in the pages.")
    parser.add_argument("--check", action="store_true", help="write nothing; name stale files and exit with 1")
    check = parser.parse_args(arguments).check
    output = Output()
    found = stale()
    for path, text in found.items():
        if not check:
            path.write_text(text, encoding="utf-8")
        output.say(f"{path.relative_to(ROOT)} {'is stale: run `make pages`' if check else 'is written'}")
    return ExitCode.DIFFERENCE if check and found else ExitCode.OK


if __name__ == "__main__":
    sys.exit(main())
