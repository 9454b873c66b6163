"""What README and CONTRIBUTING say is so: examples, commands, exit codes, environment variables, paths."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import tomli

from py_driver import __main__, cli
from py_driver.errors import ExitCode
from py_driver.plan.plan import plan_directory

ROOT = Path(__file__).parents[2]
PAGES = {name: (ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")}
README = PAGES["README.md"]

FENCE = re.compile(r"^ *```(\w+)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\]\(([^)#]*)(#[^)]*)?\)")
ROW = re.compile(r"^\| `?(\w+)`? \| (.*) \|$", re.MULTILINE)
VARIABLE = re.compile(
    r"\b(RULES_TORCH_KERNELS_[A-Z_]+)\b|environ(?:\.get\(|\[)\"([A-Z_]+)\"|for v in \(([A-Z_\", ]+)\) if environ"
)
PLACE = re.compile(r"(?:docs|examples|py_driver|rules|tests|toolchains)/(?:[\w/-]|\.(?!\.))*")


def fences(text: str, language: str) -> list[str]:
    return [body for kind, body in FENCE.findall(text) if kind == language]


def section(title: str) -> str:
    return README.partition(f"# {title}\n")[2].partition("\n#")[0]


def commands() -> list[str]:
    """Every command line of the pages, those of code blocks and those in running text."""
    found: list[str] = []
    for text in PAGES.values():
        lines = "\n".join(fences(text, "sh")).replace("\\\n", " ").splitlines()
        found += [*lines, *SPAN.findall(FENCE.sub("", text))]
    return [" ".join(shlex.split(one, comments=True)) for one in found if one.strip()]


DRIVER = sorted({one.removeprefix("./") for one in commands() if re.match(r"(\./)?driver ", one)})
MAKE = sorted({one for one in commands() if one.startswith("make ")})


@pytest.mark.parametrize("text", fences(README, "toml"))
def test_the_manifests_plan(text: str, tmp_path: Path) -> None:
    table = tomli.loads(text)
    sources = [table["torch"]["src"], *(kernel["src"] for kernel in table["kernel"].values())]
    module = f"torch-ext/{table['general']['name'].replace('-', '_')}"
    for name in [f"{module}/__init__.py", *(file for group in sources for file in group)]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("REGISTER_EXTENSION(TORCH_EXTENSION_NAME)\n", encoding="utf-8")
        assert name in section("Your own kernel")
    (tmp_path / "build.toml").write_text(text, encoding="utf-8")
    plan = plan_directory(tmp_path)
    assert any(variant.bundled for variant in plan.variants)
    licence = ["the file names no licence; metadata.json will say `unknown`"]
    assert [note.message for note in plan.notes] == ([] if "edition" in table["general"] else licence)


def test_there_are_two_manifests() -> None:
    editions = [tomli.loads(text)["general"].get("edition") for text in fences(README, "toml")]
    assert editions == [5, None]


@pytest.mark.parametrize("command", DRIVER)
def test_driver_understands(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    verb, *arguments = command.split()[1:]
    assert verb in cli.VERBS
    with pytest.raises(SystemExit):
        __main__.main([verb, "--help"])
    usage = capsys.readouterr().out
    for argument in arguments[: arguments.index("--") if "--" in arguments else None]:
        assert not argument.startswith("-") or argument in usage


def test_every_verb_is_described() -> None:
    assert {command.split()[1] for command in DRIVER} | {"demo"} == set(cli.VERBS)
    assert "driver demo" in (ROOT / "Makefile").read_text(encoding="utf-8")


@pytest.mark.parametrize("command", MAKE)
def test_make_has_the_target(command: str) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert re.search(rf"^{re.escape(command.split()[1])}:", makefile, re.MULTILINE)


def test_exit_codes() -> None:
    table = [
        (int(code), rest.partition(" | ")[0]) for code, rest in ROW.findall(section("Exit codes")) if code.isdigit()
    ]
    assert table == [(code.value, code.name) for code in ExitCode]
    assert f"{__main__.INTERNAL} means a bug" in section("Exit codes")


def test_environment_variables() -> None:
    text = section("Environment variables")
    sources = [ROOT / "driver"]
    for room in ("py_driver", "rules", "toolchains"):
        sources += [path for path in (ROOT / room).rglob("*") if path.suffix in {".py", ".bzl", ".zig"}]
    read = {
        name
        for path in sources
        for match in VARIABLE.findall(path.read_text(encoding="utf-8"))
        for name in re.findall(r"[A-Z_]+", " ".join(match))
    }
    assert {name for name in read if f"`{name}`" not in text} == set()
    assert "RULES_TORCH_KERNELS_CACHE" in read
    assert {name for name, _ in ROW.findall(text) if name != "variable"} <= read


@pytest.mark.parametrize("page", PAGES)
def test_paths_exist(page: str) -> None:
    text = PAGES[page]
    prose = [span for span in SPAN.findall(FENCE.sub("", text)) if PLACE.fullmatch(span)]
    blocks = [place for body in fences(text, "sh") for place in PLACE.findall(body)]
    links = [target for target, _ in LINK.findall(text) if target]
    missing = [place for place in [*prose, *blocks, *links] if not (ROOT / place).exists()]
    assert missing == []


def test_anchors_exist() -> None:
    titles = re.findall(r"^#+ (.*)$", FENCE.sub("", README), re.MULTILINE)
    anchors = {"#" + re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}
    assert {anchor for _, anchor in LINK.findall(README) if anchor} <= anchors


@pytest.mark.parametrize("page", PAGES)
def test_no_code_is_broken_across_lines(page: str) -> None:
    lines = FENCE.sub("", PAGES[page]).splitlines()
    assert [line for line in lines if line.count("`") % 2] == []
