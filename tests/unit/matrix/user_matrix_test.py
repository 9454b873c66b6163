"""A matrix of the user's own: releases are added and replaced by version, locked beside it, and checked."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import tomli
from fetch_server import Server, wheel
from sections import CPU, GENERAL, make
from sections import TORCH as TORCH_SECTION

from py_driver import __main__
from py_driver.actions.workspace import workspace_for
from py_driver.building.selection import archives
from py_driver.cli.arguments import MATRIX_VARIABLE
from py_driver.errors import Code, DriverError
from py_driver.matrix.configurations import parse
from py_driver.matrix.lock_update import check_user_lock, complete
from py_driver.matrix.releases import Releases
from py_driver.matrix.requirements import wanted
from py_driver.plan.plan import plan_directory

if TYPE_CHECKING:
    from collections.abc import Callable

    from py_driver.plan.plan import Plan

PAGE = Path(__file__).parents[3] / "docs" / "toolchains.md"
TORCH = """[[torch]]
version = "2.15"
release = "2.15.9"
cxx-standard = 20
abis = ["cxx11"]
backends = ["cpu"]
default = true
"""
CUDA = """[[cuda]]
version = "12.7"
archs = ["8.0", "9.0"]
default-capabilities = ["8.0"]
host = "0.12.1"
max-clang = 18
runtime = "libcudart.so.12"
run-here = true
archives = [
    { layout = "headers", wheel = "nvidia-cuda-runtime-cu12==12.7.1", members = ["nvidia/{component}/include/"] },
]
"""
CUTLASS = """[[cutlass]]
version = "4.5"
release = "4.5.2"
sha256 = "{}"
""".format("0a" * 32)
VENDORED = """[[cutlass]]
version = "4.5"
release = "4.5.2"
sdist = "demo==1.0"
root = "demo-1.0/3rdparty/cutlass"
"""
LIBRARY = """[[library]]
name = "tiles"
version = "1.2"
url = "https://example.org/tiles-1.2.tar.gz"
sha256 = "{}"
root = "tiles-1.2"
include = ["include", "."]
minimum-cuda = "12.3"
""".format("0b" * 32)
ENTRY = {
    "name": "torch",
    "version": "2.15.9",
    "filename": "torch-2.15.9.whl",
    "size": 1,
    "sha256": "0" * 64,
    "origin": "python-index",
}


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Write a matrix and use it."""

    def write(text: str) -> Path:
        path = tmp_path / "my.toml"
        path.write_text(text, encoding="utf-8")
        monkeypatch.setenv(MATRIX_VARIABLE, str(path))
        return path

    return write


def test_releases_are_replaced_in_place_and_added_at_the_end(own: Callable[[str], Path]) -> None:
    before = Releases().matrix
    after = Releases(own(TORCH + CUDA)).matrix
    assert [release.version for release in after.torch] == [release.version for release in before.torch]
    new = [toolkit.backend for toolkit in after.toolkits if toolkit not in before.toolkits]
    assert new == ["cu127"]
    assert [toolkit for toolkit in after.toolkits if toolkit.backend != "cu127"] == list(before.toolkits)
    variants = [
        configuration.backend
        for configuration, default in after.configurations()
        if configuration.torch == "2.15" and default
    ]
    assert variants == ["cpu"]
    assert (added := after.toolkit("cu127"))
    assert added.archs == ("8.0", "9.0")


def test_a_toolkit_whose_minor_version_has_two_digits(own: Callable[[str], Path]) -> None:
    torch = TORCH.replace('["cpu"]', '["cpu", "cu1210"]')
    matrix = Releases(own(torch + CUDA.replace('"12.7"', '"12.10"'))).matrix
    [toolkit] = [toolkit for toolkit in matrix.toolkits_of("cuda") if toolkit.version == "12.10"]
    assert toolkit.backend == "cu1210"
    assert parse("torch215-cxx11-cu1210-x86_64-linux") in [
        configuration for configuration, _ in matrix.configurations()
    ]


def test_a_matrix_of_cpus_alone_has_no_lock(
    own: Callable[[str], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = own('[platform]\ncpus = ["x86_64", "aarch64"]\n')
    releases = Releases(path)
    assert releases.matrix.cpus == ("x86_64", "aarch64")
    assert releases.user_lock_file is None
    check_user_lock(releases)
    assert releases.lock.entries_for([]) == Releases().lock.entries_for([])
    here = workspace_for(tmp_path, make(tmp_path, GENERAL + TORCH_SECTION + CPU, releases), releases)
    assert here == workspace_for(tmp_path, make(tmp_path, GENERAL + TORCH_SECTION + CPU), Releases())
    assert __main__.main(["lock"]) == 0
    assert capsys.readouterr().err == f"{path} has no release and no library, so there is nothing to lock\n"
    assert not path.with_name("my.lock.json").exists()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("platform = 1", "`platform` must be a table: [platform]"),
        ("[platform]\ncpu = 'x86_64'", "[platform]: unknown key `cpu`"),
        ("[platform]\ncpus = 'x86_64'", "[platform]: `cpus` must be a list of strings"),
        ("[platform]\ncpus = [1]", "[platform]: `cpus` must be a list of strings"),
        *(
            (f"[platform]\ncpus = {cpus}", "[platform]: `cpus` must list one or both of `x86_64`, `aarch64`, each once")
            for cpus in ("[]", "['riscv64']", "['x86_64', 'x86_64']")
        ),
    ],
)
def test_faults_of_the_platform(own: Callable[[str], Path], text: str, expected: str) -> None:
    path = own(text)
    with pytest.raises(DriverError) as caught:
        _ = Releases(path).matrix
    assert [diagnostic.message for diagnostic in caught.value.diagnostics] == [f"{path}: {expected}"]


def test_only_the_users_own_is_locked_beside_it(own: Callable[[str], Path]) -> None:
    lock, missing = complete(wanted(Releases(own(TORCH + CUDA))), {}, {})
    assert {kind: list(part) for kind, part in lock.items()} == {"cuda": ["12.7"], "torch": ["2.15"]}
    assert [(need.name, need.version) for need in missing] == [
        ("nvidia-cuda-runtime-cu12", "12.7.1"),
        ("torch", "2.15.9"),
    ]
    assert missing[0].include == ("nvidia/cuda_runtime/include/",)


def test_the_lock_is_written_and_used(own: Callable[[str], Path], capsys: pytest.CaptureFixture[str]) -> None:
    path = own(TORCH.replace("2.15", "2.14"))
    path.write_text(path.read_text(encoding="utf-8").replace("2.14.9", "2.14.1"), encoding="utf-8")
    lock = path.with_name("my.lock.json")
    assert __main__.main(["lock", "--check"]) == 1
    said = capsys.readouterr()
    assert f"+++ {lock} (from the matrix)" in said.out
    assert f"run `driver lock --matrix {path}`" in said.err
    assert not lock.exists()
    lock.write_text(json.dumps({"torch": {"2.14": {"archive": {**ENTRY, "version": "2.14.7"}}}}), encoding="utf-8")
    entries = Releases(path).lock.entries_for([parse("torch214-cxx11-cpu-x86_64-linux")])
    assert "2.14.7" in [entry.version for entry in entries]


def test_a_release_of_cutlass_can_be_locked(own: Callable[[str], Path], tmp_path: Path) -> None:
    path = own(CUTLASS)
    assert __main__.main(["lock"]) == 0
    assert json.loads(path.with_name("my.lock.json").read_text(encoding="utf-8"))["cutlass"] == {
        "4.5": {
            "archive": {
                "name": "cutlass",
                "version": "4.5.2",
                "filename": "cutlass-4.5.2.tar.gz",
                "sha256": "0a" * 32,
                "origin": "url",
                "url": "https://github.com/NVIDIA/cutlass/archive/refs/tags/v4.5.2.tar.gz",
            },
            "release": "4.5.2",
            "root": "cutlass-4.5.2",
        }
    }
    manifest = GENERAL + TORCH_SECTION + CPU.replace("[]", '["cutlass_4_5"]')
    made = make(tmp_path / "project", manifest, Releases(path))
    entries = archives(made, made.variants[:1], Releases(path).lock)
    assert [entry.version for entry in entries if entry.name == "cutlass"] == ["4.5.2"]


@pytest.mark.parametrize("kind", ["wheel", "sdist"])
def test_a_copy_of_cutlass_in_a_package(own: Callable[[str], Path], server: Server, kind: str) -> None:
    wheel_name, sdist_name = "demo-1.0-py3-none-any.whl", "demo-1.0.tar.gz"
    root = "demo-1.0/3rdparty/cutlass"
    server.offer("demo", {wheel_name: wheel({f"{root}/include/cutlass/version.h": b"1"}), sdist_name: b"tar"})
    path = own(VENDORED.replace("sdist", kind))
    assert __main__.main(["lock"]) == 0
    release = json.loads(path.with_name("my.lock.json").read_text(encoding="utf-8"))["cutlass"]["4.5"]
    assert (release["release"], release["root"], release["vendored_by"]) == ("4.5.2", root, "demo 1.0")
    assert release["archive"]["filename"] == (wheel_name if kind == "wheel" else sdist_name)
    wanted = [f"{root}/include/", f"{root}/tools/util/include/"]
    assert release["archive"].get("include") == (wanted if kind == "wheel" else None)
    assert __main__.main(["lock", "--check"]) == 0


@pytest.mark.parametrize("name", ["cc", "cu130", "none"])
def test_a_library_may_be_called_like_what_else_is_pinned(own: Callable[[str], Path], name: str) -> None:
    path = own(LIBRARY.replace('"tiles"', f'"{name}"'))
    assert __main__.main(["lock"]) == 0
    digests = Releases(path).lock.toolchain_digests()
    assert digests.pop(f"library {name}")
    assert digests == Releases().toolchain_digests


def test_a_project_with_a_library_is_upgraded(own: Callable[[str], Path], tmp_path: Path) -> None:
    own(LIBRARY)
    assert __main__.main(["lock"]) == 0
    general = '[general]\nname = "re_lu"\nversion = 1\nlicense = "mit"\nbackends = ["cuda"]\n'
    manifest = tmp_path / "project" / "build.toml"
    manifest.parent.mkdir()
    text = '[kernel."a b"]\nbackend = "cuda"\ndepends = ["tiles"]\nsrc = ["g/a.cu"]\n'
    manifest.write_text(general + TORCH_SECTION + text, encoding="utf-8")
    assert __main__.main(["upgrade", str(manifest.parent)]) == 0
    assert manifest.read_text(encoding="utf-8").startswith(general.replace("license", "edition = 5\nlicense"))
    assert text in manifest.read_text(encoding="utf-8")
    manifest.write_text((general + TORCH_SECTION + text).replace("tiles", "other"), encoding="utf-8")
    assert __main__.main(["upgrade", str(manifest.parent)]) == Code.BAD_VALUE.exit_code


def test_a_library_of_headers(own: Callable[[str], Path], tmp_path: Path) -> None:
    path = own(LIBRARY)
    assert __main__.main(["lock"]) == 0
    assert json.loads(path.with_name("my.lock.json").read_text(encoding="utf-8")) == {
        "library": {
            "tiles": {
                "archive": {
                    "name": "tiles",
                    "version": "1.2",
                    "filename": "tiles-1.2.tar.gz",
                    "sha256": "0b" * 32,
                    "origin": "url",
                    "url": "https://example.org/tiles-1.2.tar.gz",
                },
                "root": "tiles-1.2",
                "include": ["include", "."],
            }
        }
    }
    releases = Releases(path)
    digests = releases.lock.toolchain_digests()
    assert "library tiles" in digests
    assert {name: digest for name, digest in digests.items() if name != "library tiles"} == Releases().toolchain_digests
    section = '[kernel.t]\nbackend = "cuda"\ndepends = ["tiles"]\nsrc = ["g/a.cu"]\n'
    made = make(tmp_path / "project", GENERAL + TORCH_SECTION + section + CPU, releases)
    built = {variant.configuration.backend for variant in made.variants}
    assert {"cu124", "cu130"} <= built
    assert built.isdisjoint({"cu118", "cu121"})
    why = "[kernel.t] depends on tiles, which needs CUDA 12.3"
    assert {exclusion.configuration.backend for exclusion in made.excluded if exclusion.reason == why} == {
        "cu118",
        "cu121",
    }
    [variant] = [variant for variant in made.variants if variant.name == "torch213-cxx11-cu130-x86_64-linux"]
    assert "tiles" in {entry.name for entry in archives(made, [variant], releases.lock)}


def test_a_library_is_known_only_by_the_matrix_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(DriverError) as caught:
        make(tmp_path, GENERAL + TORCH_SECTION + CPU.replace("[]", '["tiles"]'))
    assert [diagnostic.code for diagnostic in caught.value.diagnostics] == [Code.BAD_VALUE]


def test_a_matrix_that_is_not_locked(own: Callable[[str], Path], tmp_path: Path, one_plan: Plan) -> None:
    path = own(TORCH)
    with pytest.raises(DriverError) as caught:
        workspace_for(tmp_path, one_plan, Releases(path))
    [diagnostic] = caught.value.diagnostics
    assert diagnostic.code is Code.STALE_LOCK
    assert diagnostic.message.endswith("my.lock.json: No such file or directory")
    assert diagnostic.help == f"run `driver lock --matrix {path}`"


@pytest.fixture
def one_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plan:
    monkeypatch.setenv("RULES_TORCH_KERNELS_CACHE", str(tmp_path / "cache"))
    return plan_directory(Path(__file__).parents[2] / "e2e" / "projects" / "tiny", Releases())


def test_the_workspace_extends_the_toolchains(own: Callable[[str], Path], tmp_path: Path, one_plan: Plan) -> None:
    project = tmp_path / "project"
    project.mkdir()
    for identity in one_plan.identities:
        for file in identity.files:
            (project / file).parent.mkdir(parents=True, exist_ok=True)
            (project / file).touch()
    plain = workspace_for(project, one_plan, Releases()).root
    path = own(TORCH)
    path.with_name("my.lock.json").write_text('{"torch": {}}', encoding="utf-8")
    extended = workspace_for(project, one_plan, Releases(path)).root
    assert extended != plain
    assert "toolchains.extend" not in (plain / "MODULE.bazel").read_text(encoding="utf-8")
    assert 'toolchains.extend(lock = "//:matrix.lock.json")' in (extended / "MODULE.bazel").read_text(encoding="utf-8")
    assert json.loads((extended / "matrix.lock.json").read_text(encoding="utf-8")) == {"torch": {}}


def test_the_option_names_the_file(
    own: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = own("")
    monkeypatch.setenv(MATRIX_VARIABLE, "/nowhere")
    path.write_text("[torch", encoding="utf-8")
    assert __main__.main(["lock", "--check", "--matrix", str(path)]) == 2
    assert f"error[E001]: {path}: " in capsys.readouterr().err
    assert os.environ[MATRIX_VARIABLE] == "/nowhere"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[[torch", [Code.TOML_SYNTAX]),
        ("[layouts]\n", [Code.UNKNOWN_KEY]),
        ("[torch]\n", [Code.WRONG_TYPE]),
        ("torch = [1]\n", [Code.WRONG_TYPE]),
        (TORCH.replace("release", "relaese"), [Code.UNKNOWN_KEY, Code.MISSING_KEY]),
        (TORCH.replace("20", '"20"'), [Code.WRONG_TYPE]),
        (TORCH.replace("true", "1"), [Code.WRONG_TYPE]),
        (TORCH.replace('["cpu"]', "[1]"), [Code.WRONG_TYPE]),
        (TORCH.replace('"2.15"', '"2"'), [Code.BAD_VALUE]),
        (TORCH.replace('["cpu"]', '["cpu", "cu999"]'), [Code.BAD_VALUE]),
        (TORCH.replace("cxx11", "cxx03"), [Code.BAD_VALUE]),
        (CUTLASS.replace("0a", "0A"), [Code.BAD_VALUE]),
        (CUTLASS + 'wheel = "nvidia-cutlass==4.5.2.0"\n', [Code.BAD_VALUE]),
        (CUTLASS.replace("sha256", "wheel"), [Code.BAD_VALUE]),
        (CUTLASS.replace("4.5", "latest"), [Code.BAD_VALUE]),
        (CUTLASS + 'root = "cutlass"\n', [Code.BAD_VALUE]),
        (VENDORED.replace("root", "#"), [Code.MISSING_KEY]),
        (VENDORED.replace("demo-1.0", ".."), [Code.BAD_VALUE]),
        (VENDORED.replace("==", " "), [Code.BAD_VALUE]),
        (LIBRARY + LIBRARY, [Code.BAD_VALUE]),
        (LIBRARY.replace('"tiles"', '"torch"'), [Code.BAD_NAME]),
        (LIBRARY.replace('"tiles"', '"cutlass_9_9"'), [Code.BAD_NAME]),
        (LIBRARY.replace('"tiles"', '"Tiles!"'), [Code.BAD_NAME]),
        (LIBRARY.replace("https:", "http:"), [Code.BAD_VALUE]),
        (LIBRARY.replace(".tar.gz", ".zip"), [Code.BAD_VALUE]),
        (LIBRARY.replace("0b", "0B"), [Code.BAD_VALUE]),
        (LIBRARY.replace('"tiles-1.2"', '"../tiles"'), [Code.BAD_VALUE]),
        (LIBRARY.replace('["include", "."]', '["/include"]'), [Code.BAD_VALUE]),
        (LIBRARY.replace('["include", "."]', "[]"), [Code.BAD_VALUE]),
        (LIBRARY.replace("12.3", "12"), [Code.BAD_VALUE]),
        (LIBRARY.replace("url", "uri"), [Code.UNKNOWN_KEY, Code.MISSING_KEY]),
        (TORCH + TORCH, [Code.BAD_VALUE]),
        (TORCH.replace('"2.15"', '"21.3"'), [Code.BAD_VALUE]),
        (TORCH.replace("20", "-20"), [Code.BAD_VALUE]),
        (TORCH.replace('["cxx11"]', "[]"), [Code.BAD_VALUE]),
        (TORCH.replace('["cpu"]', '["cpu", "cpu"]'), [Code.BAD_VALUE]),
        (CUDA.replace('"12.7"', '"1.30"'), [Code.BAD_VALUE]),
        (CUDA.replace('"12.7"', '"13.100"'), [Code.BAD_VALUE]),
        (CUDA.replace('"8.0", "9.0"', '"x"'), [Code.BAD_VALUE]),
        (CUDA.replace('["8.0"]', '["nope"]'), [Code.BAD_VALUE]),
        (CUDA.replace("libcudart.so.12", "a')"), [Code.BAD_VALUE]),
        (CUDA.replace("18", str(10**23)), [Code.BAD_VALUE]),
        (CUDA.replace('members = ["nvidia/{component}/include/"]', "members = 5"), [Code.WRONG_TYPE]),
        (CUDA.replace('layout = "headers"', "layout = []"), [Code.WRONG_TYPE]),
        (CUDA.replace("0.12.1", "0.14.1"), [Code.BAD_VALUE]),
        (CUDA.replace("0.12.1", "0.1"), [Code.BAD_VALUE]),
        (CUDA.replace("==12.7.1", ""), [Code.MISSING_KEY]),
        (CUDA.replace('layout = "headers", ', ""), [Code.MISSING_KEY]),
        (CUDA.replace("headers", "footers"), [Code.BAD_VALUE]),
        (CUDA.replace("wheel =", "sheel ="), [Code.BAD_VALUE]),
        (CUDA.replace("nvidia-cuda-runtime-cu12==", "=="), [Code.MISSING_KEY]),
        (CUDA.replace("{component}", "{foo}"), [Code.BAD_VALUE]),
        (CUDA.replace("{component}", "{"), [Code.BAD_VALUE]),
        (TORCH.replace("default", 'on-request = ["cpu"]\ndefault'), [Code.BAD_VALUE]),
        (re.sub(r"(?s)archives = .*", 'archives = ["x"]', CUDA), [Code.BAD_VALUE]),
    ],
)
def test_what_is_wrong_is_said(own: Callable[[str], Path], text: str, expected: list[Code]) -> None:
    path = own(text)
    with pytest.raises(DriverError) as caught:
        _ = Releases(path).matrix
    assert [diagnostic.code for diagnostic in caught.value.diagnostics] == expected
    assert all(diagnostic.message.startswith(f"{path}: ") for diagnostic in caught.value.diagnostics)


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(DriverError, match=r"cannot read the matrix /nowhere/my\.toml: No such file"):
        _ = Releases(Path("/nowhere/my.toml")).matrix


@pytest.mark.parametrize(
    "lock",
    [
        "[]",
        "null",
        '{"library": []}',
        "{}",
        '{"torch": []}',
        '{"torch": {"2.15": 5}}',
        '{"torch": {"2.15": {}}}',
        '{"cuda": {}, "torch": {}}',
    ],
)
def test_a_lock_of_something_else_is_stale(
    own: Callable[[str], Path], lock: str, capsys: pytest.CaptureFixture[str]
) -> None:
    own(TORCH).with_name("my.lock.json").write_text(lock, encoding="utf-8")
    assert __main__.main(["fetch", "torch215-*-cpu-*"]) == 1
    said = capsys.readouterr().err
    assert "my.lock.json does not match your matrix" in said
    assert "run `driver lock --matrix " in said


def test_the_example_of_the_page(own: Callable[[str], Path]) -> None:
    page = PAGE.read_text(encoding="utf-8")
    cpus, text, pair, library = re.findall(r"^```toml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert Releases(own(cpus)).matrix.cpus == ("x86_64", "aarch64")
    assert Releases(own(text)).matrix.torch[-1].release == "2.3.1"
    assert Releases(own(CUDA + pair.replace("cu134", "cu127"))).matrix.torch[-1].on_request[-1] == "cu127"
    assert Releases(own(library)).matrix.libraries == {"tiles": "12.3"}


def test_a_matrix_that_is_a_directory(capsys: pytest.CaptureFixture[str]) -> None:
    project = Path(__file__).parents[2] / "e2e" / "projects" / "tiny"
    for command in ("check", "build"):
        assert __main__.main([command, str(project), "--matrix", "/"]) == 2
        assert "cannot read the matrix /: Is a directory" in capsys.readouterr().err


def test_keys_of_an_older_release_are_read_with_a_warning(own: Callable[[str], Path]) -> None:
    new = TORCH.replace("default", 'on-request = ["cu130"]\ndefault') + CUDA
    old = new.replace("default = true", "bundled = true").replace("on-request", "named").replace("members", "slim")
    said: list[str] = []
    path = own(old)
    assert Releases(path, said.append).matrix == Releases(own(new)).matrix
    assert [text.removeprefix(f"{path}: ").partition(";")[0] for text in said] == [
        "`bundled` is now called `default`",
        "`named` is now called `on-request`",
        "`slim` is now called `members`",
    ]


def test_a_key_under_both_names_is_unknown(own: Callable[[str], Path]) -> None:
    with pytest.raises(DriverError) as caught:
        _ = Releases(own(TORCH + "bundled = false\n")).matrix
    assert [diagnostic.code for diagnostic in caught.value.diagnostics] == [Code.UNKNOWN_KEY]


def test_errors_about_keys_of_an_older_release_come_after_the_warnings(own: Callable[[str], Path]) -> None:
    said: list[str] = []
    with pytest.raises(DriverError) as caught:
        _ = Releases(own(TORCH.replace("default = true", 'bundled = "yes"')), said.append).matrix
    assert [diagnostic.code for diagnostic in caught.value.diagnostics] == [Code.WRONG_TYPE]
    assert ["`bundled` is now called `default`" in text for text in said] == [True]


def test_a_key_of_an_older_release_is_unknown_where_it_was_not_one(own: Callable[[str], Path]) -> None:
    said: list[str] = []
    with pytest.raises(DriverError) as caught:
        _ = Releases(own(CUDA + "bundled = true\n"), said.append).matrix
    assert ["unknown key `bundled`" in diagnostic.message for diagnostic in caught.value.diagnostics] == [True]
    assert said == []


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ('compress = "speed"\ncompress-option = "--compress-all"\n', ""),
        ('compress = "size"\ncompress-option = "--compress-mode"\n', ""),
        ('compress-option = "--compress-all"\n', ""),
        ('compress-option = "--pack"\n', "`compress-option` is one of --compress-all, --compress-mode"),
        (
            'compress = "size"\ncompress-option = "--compress-all"\n',
            "`compress`: fatbinary has no choice `size`",
        ),
        ('compress = "speed"\n', "`compress`: fatbinary has no choice `speed`"),
    ],
)
def test_the_compression_of_a_release(own: Callable[[str], Path], keys: str, problem: str) -> None:
    path = own(CUDA.replace("run-here", f"{keys}run-here"))
    if problem:
        with pytest.raises(DriverError) as caught:
            _ = Releases(path).matrix
        assert [wrong.message for wrong in caught.value.diagnostics] == [f"{path}: [[cuda]] 12.7: {problem}"]
    else:
        lock, _ = complete(wanted(Releases(path)), {}, {})
        told = {key.replace("_", "-"): value for key, value in lock["cuda"]["12.7"].items() if "compress" in key}
        assert told == tomli.loads(keys)


def test_a_release_of_ours_is_paired_with_a_backend_of_ones_own(own: Callable[[str], Path]) -> None:
    pair = '[[torch]]\nversion = "2.15"\non-request = ["cu127"]\n'
    releases = Releases(own(CUDA + pair))
    [torch] = [torch for torch in releases.matrix.torch if torch.version == "2.15"]
    [ours] = [torch for torch in Releases().matrix.torch if torch.version == "2.15"]
    assert torch == ours._replace(on_request=(*ours.on_request, "cu127"))
    assert set(wanted(releases)) == {"cuda"}


@pytest.mark.parametrize(
    ("version", "backend", "message"),
    [
        ("2.99", "cpu", "[[torch]] 2.99: `release` is missing"),
        ("2.15", "cu999", "[[torch]] 2.15: no release of CUDA or ROCm has the backend `cu999`"),
        ("2.15", "cpu", "[[torch]] 2.15: `cpu` is both in `backends` and in `on-request`"),
    ],
)
def test_a_pair_of_what_is_not_there_is_an_error(
    version: str, backend: str, message: str, own: Callable[[str], Path]
) -> None:
    releases = Releases(own(f'[[torch]]\nversion = "{version}"\non-request = ["{backend}"]\n'))
    with pytest.raises(DriverError, match=re.escape(message)):
        _ = releases.table
