"""README, CONTRIBUTING, CHANGELOG and docs/: their commands, links, files and tables are true, wherever they stand."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

import pytest
from pages import FENCE, PAGES, ROOT

from py_driver import __main__, cli
from py_driver.errors import ExitCode
from py_driver.matrix.releases import Releases
from py_driver.plan.plan import plan_directory

if TYPE_CHECKING:
    from pathlib import Path

README = PAGES["README.md"]

SPAN = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\]\(([^)#]*)(?:#([^)]*))?\)")
LISTED = re.compile(r"^- \[[^\n]*\]\(#([^)]*)\)$", re.MULTILINE)
VARIABLE = re.compile(
    r"\b(RULES_TORCH_KERNELS_[A-Z_]+)\b|environ(?:\.get\(|\[)\"([A-Z_]+)\"|for v in \(([A-Z_\", ]+)\) if environ"
)
PLACE = re.compile(r"(?:docs|examples|py_driver|rules|tests|toolchains)/(?:[\w/-]|\.(?!\.))*")
WRONG = re.compile(r"^Wrong:\n\n```.*?^```$", re.MULTILINE | re.DOTALL)
"""An example of a mistake, on the page of errors."""
MADE = re.compile(r"/build(/|$)")
"""What a build makes is in no checkout."""


def fences(text: str, language: str) -> list[str]:
    return [body for kind, body in FENCE.findall(text) if kind == language]


def prose(text: str) -> str:
    return FENCE.sub("", text)


def lines_of(text: str) -> list[str]:
    """Every command of a page's code blocks, without comments."""
    lines = "\n".join(fences(text, "sh")).replace("\\\n", " ").splitlines()
    words = (shlex.split(line.partition(" > ")[0], comments=True) for line in lines)
    return [shlex.join(command) for command in words if command]


def of_driver(commands: list[str]) -> set[str]:
    return {
        command.removeprefix("./").removeprefix("driver ")
        for command in commands
        if re.match(r"(\./)?driver ", command)
    }


def table(*head: str) -> list[tuple[str, list[list[str]]]]:
    """Each page that has a table with this head, and the table's rows."""
    start = f"| {' | '.join(head)} |\n"
    found = [(text, text.partition(start)[2].partition("\n\n")[0]) for text in PAGES.values() if start in text]
    return [(text, [line.strip("| ").split(" | ") for line in body.splitlines()[1:]]) for text, body in found]


def slug(title: str) -> str:
    """The anchor that Markdown gives to a heading."""
    return re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")


def anchors(text: str, level: str = "#+") -> list[str]:
    return [slug(title) for title in re.findall(rf"^{level} (.*)$", prose(text), re.MULTILINE)]


COMMANDS = sorted(set().union(*(of_driver(lines_of(WRONG.sub("", text))) for text in PAGES.values())))
MENTIONS = sorted(set().union(*(of_driver(SPAN.findall(prose(text))) for text in PAGES.values())))
ALL = sorted({command for text in PAGES.values() for command in (*lines_of(text), *SPAN.findall(prose(text)))})
MAKE = sorted({command for command in ALL if command.startswith("make ")})


@pytest.mark.parametrize("command", COMMANDS)
def test_driver_takes_the_command(command: str) -> None:
    arguments = shlex.split(command)
    if {"--help", "--version"}.isdisjoint(arguments):
        assert cli.parse_command_line(arguments)[0] in cli.COMMANDS
    else:
        with pytest.raises(SystemExit):
            cli.parse_command_line(arguments)


@pytest.mark.parametrize("mention", MENTIONS)
def test_driver_has_what_is_mentioned(mention: str, capsys: pytest.CaptureFixture[str]) -> None:
    command, *arguments = mention.split()
    action = arguments[:1] if command == "cache" and arguments and not arguments[0].startswith("-") else []
    with pytest.raises(SystemExit):
        __main__.main(["--help"] if command in {"--help", "--version", "COMMAND"} else [command, *action, "--help"])
    usage = capsys.readouterr().out
    options = [
        argument.partition("=")[0]
        for argument in (command, *arguments)
        if argument.startswith("--") and argument != "--"
    ]
    assert [option for option in options if option not in usage] == []


def test_every_command_is_on_a_page() -> None:
    assert {command.split()[0] for command in (*COMMANDS, *MENTIONS)} >= set(cli.COMMANDS)


@pytest.mark.parametrize("command", MAKE)
def test_make_has_the_target(command: str) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert re.search(rf"^{re.escape(command.split()[1])}:", makefile, re.MULTILINE)


def test_the_project_of_the_start_is_whole(tmp_path: Path) -> None:
    for _, body in FENCE.findall(PAGES["docs/start.md"]):
        head, _, rest = body.partition("\n")
        if found := re.fullmatch(r"(?:#|//) (scale/\S+)", head):
            (tmp_path / found[1]).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / found[1]).write_text(rest, encoding="utf-8")
    assert __main__.main(["check", str(tmp_path / "scale")]) == 0
    plan = plan_directory(tmp_path / "scale", Releases())
    assert {variant.configuration.backend for variant in plan.variants if variant.default} == {"cpu", "cu130", "cu132"}
    assert plan.notes == ()


def test_exit_codes() -> None:
    [(_, rows)] = table("code", "name", "meaning")
    codes = {code.value: code.name for code in ExitCode} | {__main__.INTERNAL: "INTERNAL"}
    assert [(int(code), name) for code, name, _ in rows] == sorted(codes.items())


def test_environment_variables() -> None:
    [(text, rows)] = table("variable", "meaning")
    sources = [ROOT / "driver"]
    for room in ("py_driver", "rules", "toolchains"):
        sources += [path for path in (ROOT / room).rglob("*") if path.suffix in {".py", ".bzl", ".zig"}]
    # What a setup.py sees in place of torch reads what torch reads, in the sandbox.
    sources = [path for path in sources if "stand_in" not in path.parts]
    read = {
        name
        for path in sources
        for match in VARIABLE.findall(path.read_text(encoding="utf-8"))
        for name in re.findall(r"[A-Z_]+", " ".join(match))
    }
    assert {name for name in read if f"`{name}`" not in text} == set()
    assert "RULES_TORCH_KERNELS_CACHE" in read
    assert {name.strip("`") for name, _ in rows} <= read


@pytest.mark.parametrize("page", PAGES)
def test_paths_exist(page: str) -> None:
    text = PAGES[page]
    spans = [span for span in SPAN.findall(prose(text)) if PLACE.fullmatch(span)]
    blocks = [path for body in fences(text, "sh") for path in PLACE.findall(body)]
    missing = [path for path in (*spans, *blocks) if not (ROOT / path).exists() and not MADE.search(path)]
    assert missing == []


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    for target, anchor in LINK.findall(prose(PAGES[page])):
        if not re.match(r"https?:", target):
            path = (ROOT / page).parent / target if target else ROOT / page
            assert path.exists(), target
            assert not anchor or anchor in anchors(path.read_text(encoding="utf-8")), f"{target}#{anchor}"


@pytest.mark.parametrize("page", [page for page, text in PAGES.items() if LISTED.search(text)])
def test_every_section_is_in_the_list(page: str) -> None:
    assert LISTED.findall(PAGES[page]) == anchors(PAGES[page], "##")


@pytest.mark.parametrize("page", PAGES)
def test_no_code_is_broken_across_lines(page: str) -> None:
    lines = prose(PAGES[page]).splitlines()
    assert [line for line in lines if line.count("`") % 2] == []


def test_no_code_of_the_news_is_broken_across_lines() -> None:
    for path in (ROOT / "docs" / "news").glob("*.*.md"):
        assert [line for line in path.read_text(encoding="utf-8").splitlines() if line.count("`") % 2] == [], path.name


def test_the_picture_of_the_readme_shows_what_the_listing_says() -> None:
    [listed] = [body for body in fences(PAGES["docs/how-it-works.md"], "text") if body.startswith("variant ")]
    picture = (ROOT / "docs" / "images" / "shared.svg").read_text(encoding="utf-8")
    heights = [int(height) for height in re.findall(r'<rect [^>]*height="(\d+)"', picture)]
    assert len(heights) == listed.count(" compiled")
    assert sum(height > min(heights) for height in heights) == listed.count(" shared")
    variants = re.findall(r'<text x="0"[^>]*>(?:torch )?(.*)</text>', picture)[:-1]
    assert variants == [line.removeprefix("torch ").partition("  ")[0] for line in listed.splitlines()[1:]]


def test_the_index_lists_every_page_once() -> None:
    listed = re.findall(r"^- \[[^\n]*?\]\((.*?)\)", PAGES["docs/index.md"], re.MULTILINE)
    others = [page.removeprefix("docs/") if "/" in page else f"../{page}" for page in PAGES if page != "docs/index.md"]
    assert sorted(listed) == sorted(others)


def test_readme_is_one_screen_after_the_other() -> None:
    lines = README.splitlines()
    assert len(lines) <= 120
    assert [line for line in lines if len(line) > 120] == []


def test_the_first_screen_of_readme_sets_everything_up() -> None:
    first = README.partition("\n## ")[0]
    assert len(first.splitlines()) <= 24
    assert {"make demo", "make test", "bazel build //examples/relu:all_variants"} <= set(lines_of(first))


def test_targets_that_pages_build_are_there() -> None:
    bazel = [
        re.match(r"(?:\./driver bazel -- |bazel )build (?:--\S+ )*//(examples/\S+?):(\S+)$", command) for command in ALL
    ]
    targets = [match.groups() for match in bazel if match]
    assert ("examples/relu", "all_variants") in targets
    for package, name in targets:
        assert f'    name = "{name}",\n' in (ROOT / package / "BUILD.bazel").read_text(encoding="utf-8"), (
            package,
            name,
        )
