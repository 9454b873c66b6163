"""pytest's plugin in runs of pytest: when it builds, what tests find, and what it leaves alone.

A program stands in the place of the driver, whose builds take seconds: it makes real variants of Python files, which
the real client loads. `tests/e2e/pytest_plugin_test.py` has the driver.
"""

from __future__ import annotations

import os
import shutil
import sys
import tomllib
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

ROOT = Path(__file__).resolve().parents[3]
DRIVER = """
import json, pathlib, re, sys
root = pathlib.Path(sys.argv[2])
with open(pathlib.Path(__file__).with_name("calls"), "a") as calls:
    calls.write(root.name + "\\n")
if not (root / "build.toml").is_file():
    path = root / ".dev" / "installed"
    (path / "thing").mkdir(parents=True, exist_ok=True)
    (path / "thing" / "__init__.py").write_text("value = 'built'")
    print(json.dumps({"variant": "torch-cpu", "path": str(path), "actions": 1}))
    sys.exit()
source = (root / "value.py").read_text()
if "unheard" in source:
    sys.exit("value.cpp:1:1: error: use of undeclared identifier 'unheard'")
name = re.search('name = "(.*)"', (root / "build.toml").read_text())[1]
path = root / ".dev" / "_one_cpu_1" / "torch-cpu"
path.mkdir(parents=True, exist_ok=True)
(path / "__init__.py").write_text(source)
about = {"id": "_one_cpu_1", "name": name, "version": 1, "license": "MIT", "python-depends": []}
(path / "metadata.json").write_text(json.dumps(about | {"backend": {"type": "cpu"}}))
module = name.replace("-", "_")
names = {"import-from": [str(root / ".dev" / "import")], "repositories": ["me/" + name, "kernels-community/" + name]}
(root / ".dev" / "import").mkdir(exist_ok=True)
if not (root / ".dev" / "import" / module).exists():
    (root / ".dev" / "import" / module).symlink_to(path)
build = {"module": module, "variant": "torch-cpu", "backend": "cpu", "path": str(path), **names}
print("building", name, "...", file=sys.stderr)
print(json.dumps(build))
"""
TEST = """
import pathlib
import kernels
import pytest
import NAME
from NAME import value

CLIENT = kernels.get_kernel("me/NAME".replace("_", "-"), version=1, backend="cpu")
LOCAL = kernels.get_local_kernel(pathlib.Path(__file__).parents[1] / "build", backend="cpu")

@pytest.mark.parametrize("kernel", [NAME, CLIENT, LOCAL], ids=["import", "get_kernel", "get_local_kernel"])
def test_value(kernel):
    assert kernel.value == value == 3

def test_is_shared():
    assert NAME is CLIENT
"""
SETUP = """
from setuptools import setup
from torch.utils.cpp_extension import CppExtension
setup(name="thing", packages=["thing"], ext_modules=[CppExtension("thing._C", ["a.cpp"])])
"""


class Runs:
    """Runs of pytest where rules-torch-kernels is installed."""

    def __init__(self, pytester: pytest.Pytester) -> None:
        self.pytester = pytester

    @property
    def built(self) -> list[str]:
        """The names of the projects that the driver was called for."""
        calls = self.pytester.path / "calls"
        return calls.read_text().split() if calls.exists() else []

    def run(self, *words: str) -> pytest.RunResult:
        return self.pytester.runpytest_subprocess("-p", "no:cacheprovider", "-p", "no:hypothesispytest", *words)

    def project(self, name: str = "my-kernel", test: str = TEST) -> Path:
        root = self.pytester.mkdir(name)
        module = name.replace("-", "_")
        (root / "build.toml").write_text(f'[general]\nname = "{name}"\nhub.repo-id = "me/{name}"\n')
        (root / "value.py").write_text("value = 3\n")
        (root / "tests").mkdir()
        (root / "tests" / f"test_{module}.py").write_text(test.replace("NAME", module))
        return root


@pytest.fixture
def runs(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Runs:
    entry_points = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["pytest11"]
    installed = pytester.mkdir("site") / "rules_torch_kernels-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: rules-torch-kernels\nVersion: 1.0\n")
    lines = ["[pytest11]", *(f"{name} = {module}" for name, module in entry_points.items())]
    (installed / "entry_points.txt").write_text("\n".join(lines))
    driver = pytester.path / "driver.py"
    driver.write_text(DRIVER)
    client = ROOT / "py_driver" / "client"
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(installed.parent), str(client)]))
    monkeypatch.setenv("RULES_TORCH_KERNELS_DRIVER", f"{sys.executable} {driver}")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    for name in ("RULES_TORCH_KERNELS_BUILDS", "LOCAL_KERNELS"):
        monkeypatch.delenv(name, raising=False)
    return Runs(pytester)


def test_a_project_is_built_and_found_by_all_names(runs: Runs) -> None:
    runs.project()
    done = runs.run("my-kernel/tests")
    done.assert_outcomes(passed=4)
    done.stderr.fnmatch_lines(["building my-kernel ..."])
    done.stdout.fnmatch_lines(["torch kernels: my_kernel for torch-cpu, *"])
    assert runs.run("my-kernel/tests").ret == 0
    assert runs.built == ["my-kernel"]


ORDER = "sys.meta_path.insert(0, self._finder)"
"""What puts the finder before all others."""

OTHERS = """
import importlib.machinery, importlib.util, sys

class Editable:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == "my_kernel":
            return importlib.util.spec_from_file_location(name, __file__.replace("another", "editable"))

sys.meta_path.insert(0, Editable)
"""


@pytest.mark.parametrize("order", ["", "sys.meta_path.append(self._finder)", "sys.meta_path.insert(2, self._finder)"])
def test_no_other_version_of_a_project_is_found(runs: Runs, monkeypatch: pytest.MonkeyPatch, order: str) -> None:
    """Not a source tree, an installed version, or an editable one, whose finder is the first when Python starts.

    With any other order of the finders, this test fails.
    """
    root = runs.project(test="import my_kernel\ndef test_it(): assert my_kernel.value == 3\n")
    site = runs.pytester.path / "site"
    for directory, version in ((site, "installed"), (root, "source")):
        (directory / "my_kernel").mkdir()
        (directory / "my_kernel" / "__init__.py").write_text(f"value = {version!r}\n")
    (root / "conftest.py").touch()  # pytest puts its directory, which has the sources, before all others
    (site / "editable.py").write_text("value = 'editable'\n")
    (site / "another.py").write_text(OTHERS)
    (site / "sitecustomize.py").write_text("import another\n")  # as a file *.pth of pip's does
    if order:
        client = runs.pytester.path / "client"
        shutil.copytree(ROOT / "py_driver" / "client", client)
        tested = client / "rules_torch_kernels" / "tested.py"
        text = tested.read_text()
        assert text.count(ORDER) == 1
        tested.write_text(text.replace(ORDER, order))
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(site), str(client)]))
    done = runs.run("my-kernel")
    done.assert_outcomes(**{"failed" if order else "passed": 1})
    assert runs.built == ["my-kernel"]


def test_processes_of_tests_find_it_too(runs: Runs) -> None:
    call = "subprocess.run([sys.executable, '-c', 'import NAME'], check=True)"
    runs.project(test=f"import subprocess, sys\ndef test_it():\n    {call}\n")
    runs.run().assert_outcomes(passed=1)


def test_two_projects_of_one_name_are_tested_in_two_runs(runs: Runs) -> None:
    (runs.project().rename(runs.pytester.path / "other")).joinpath("tests", "test_my_kernel.py").rename(
        runs.pytester.path / "other" / "tests" / "test_other.py"
    )
    runs.project()
    done = runs.run()
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    done.stderr.fnmatch_lines(
        ["ERROR: two projects of this run are `my_kernel`, */other is one: test them in two runs"]
    )


def test_an_edit_is_built(runs: Runs) -> None:
    root = runs.project()
    assert runs.run("my-kernel").ret == 0
    (root / "value.py").write_text("value = 44\n")
    runs.run("my-kernel", "-k", "import").assert_outcomes(failed=1, deselected=3)
    assert runs.built == ["my-kernel", "my-kernel"]


def test_a_run_in_a_directory_of_a_project(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    root = runs.project()
    monkeypatch.chdir(root / "tests")
    runs.run("-k", "get_kernel").assert_outcomes(passed=1, deselected=3)


def test_a_conftest_may_import_the_kernel(runs: Runs) -> None:
    root = runs.project()
    (root / "tests" / "conftest.py").write_text("import my_kernel\nassert my_kernel.value == 3\n")
    runs.run("my-kernel/tests").assert_outcomes(passed=4)
    runs.run().assert_outcomes(passed=4)


@pytest.mark.parametrize(("testpaths", "where"), [("tests", "tests"), ("t*ts", ".")], ids=["not_in_the_root", "glob"])
def test_testpaths_count_as_pytest_counts_them(
    runs: Runs, monkeypatch: pytest.MonkeyPatch, testpaths: str, where: str
) -> None:
    root = runs.project()
    (root / "tests" / "conftest.py").write_text("import my_kernel\nassert my_kernel.value == 3\n")
    (root / "pytest.ini").write_text(f"[pytest]\ntestpaths = {testpaths}\n")
    monkeypatch.chdir(root / where)
    runs.run().assert_outcomes(passed=4)


def test_a_long_value_of_an_option_is_no_path(runs: Runs) -> None:
    root = runs.project()
    (root / "tests" / "conftest.py").write_text("def pytest_addoption(parser):\n    parser.addoption('--words')\n")
    runs.run("my-kernel/tests", "--words", 300 * "x").assert_outcomes(passed=4)


def test_collecting_builds_nothing(runs: Runs) -> None:
    root = runs.project()
    for words in (["my-kernel"], []):
        done = runs.run("--collect-only", "-q", *words)
        assert done.ret == 0
        test = "my-kernel/tests/test_my_kernel.py::test_value[[]get_kernel[]]"
        done.stdout.fnmatch_lines([test, "4 tests collected*"])
    assert runs.built == []
    assert not (root / ".dev").exists()


VALUES = """
import pytest
from NAME import Base, LEAST, __version__

class Own(Base):
    pass

@pytest.mark.skipif(LEAST < 3 or __version__ >= "2", reason="old")
@pytest.mark.parametrize("count", [2 * LEAST + 1, *range(LEAST)])
def test_it(count):
    pass
"""


def test_collecting_calculates_with_values_of_the_kernel(runs: Runs) -> None:
    runs.project(test=VALUES)
    runs.run("--collect-only", "-q").stdout.fnmatch_lines(["1 test collected*"])


@pytest.mark.parametrize("words", [[], ["one-kernel", "two-kernel/tests"]], ids=["found", "named"])
def test_two_projects_in_a_run(runs: Runs, words: list[str]) -> None:
    for name in ("one-kernel", "two-kernel"):
        runs.project(name)
    runs.run(*words).assert_outcomes(passed=8)
    assert runs.built == ["one-kernel", "two-kernel"]


@pytest.mark.thorough
@pytest.mark.parametrize("words", [[], ["my-kernel"]], ids=["found", "named"])
def test_workers_of_xdist_share_a_build(runs: Runs, words: list[str]) -> None:
    runs.project()
    runs.project("old-kernel").rename(runs.pytester.mkdir("build") / "old-kernel")  # where pytest looks for no tests
    runs.run("-n", "2", *words).assert_outcomes(passed=4)
    assert runs.built == ["my-kernel"]


@pytest.mark.parametrize("words", [[], ["my-kernel"], ["-n", "1"]], ids=["found", "named", "xdist"])
def test_a_failed_build_is_a_usage_error_without_a_traceback(runs: Runs, words: list[str]) -> None:
    root = runs.project()
    (root / "value.py").write_text("unheard\n")
    done = runs.run(*words)
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    expected = [
        "value.cpp:1:1: error: use of undeclared identifier 'unheard'",
        f"ERROR: the build of {root} failed with exit code 1",
    ]
    done.stderr.fnmatch_lines(expected)
    assert "Traceback" not in done.stdout.str() + done.stderr.str()


def test_the_hub_is_not_tested_in_the_place_of_the_project(runs: Runs) -> None:
    call = "import kernels\ndef test_hub():\n    kernels.get_kernel('other/my-kernel', version=1)\n"
    runs.project(test=call)
    done = runs.run("my-kernel")
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(["*`other/my-kernel` would come from the Hub, while */my-kernel is under test: ask for*"])


def test_what_driver_test_has_built_is_not_built_again(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    root = runs.project()
    assert runs.run("my-kernel").ret == 0
    known = (root / ".dev" / "known.json").read_text()
    build = known.partition('"made": ')[2].removesuffix("}")
    monkeypatch.setenv("RULES_TORCH_KERNELS_BUILDS", f'{{"{root}": {build}}}')
    monkeypatch.setenv("LOCAL_KERNELS", f"me/my-kernel={root}/.dev/_one_cpu_1")
    (root / "later.txt").touch()
    runs.run("my-kernel").assert_outcomes(passed=4)
    assert runs.built == ["my-kernel"]


def test_a_project_with_a_setup_py(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    root = runs.pytester.mkdir("ext")
    for name in ("tests", "thing"):
        (root / name).mkdir()
    (root / "setup.py").write_text(SETUP)
    (root / "thing" / "__init__.py").write_text("value = 'source'")
    (root / "conftest.py").touch()  # pytest puts its directory, which has the sources, before all others
    (root / "tests" / "test_thing.py").write_text("import thing\ndef test_it(): assert thing.value == 'built'\n")
    monkeypatch.chdir(root)
    runs.run().assert_outcomes(passed=1)
    assert runs.built == ["ext"]
    # What pip has installed from the directory is tested as it is.
    url = f'{{"url": "{root.as_uri()}", "dir_info": {{"editable": true}}}}'
    (runs.pytester.path / "site" / "rules_torch_kernels-1.0.dist-info" / "direct_url.json").write_text(url)
    (root / "later.txt").touch()
    runs.run().assert_outcomes(failed=1)
    assert runs.built == ["ext"]


def test_collecting_a_project_with_a_setup_py_whose_package_is_below_src(runs: Runs) -> None:
    root = runs.pytester.mkdir("ext")
    (root / "src" / "thing").mkdir(parents=True)
    (root / "src" / "thing" / "__init__.py").touch()
    (root / "setup.py").write_text(SETUP)
    (root / "test_thing.py").write_text("import thing\nfrom thing.ops import twice\ndef test_it(): pass\n")
    runs.run("ext", "--collect-only", "-q").stdout.fnmatch_lines(["1 test collected*"])


def test_a_project_that_was_installed_by_another_spelling_of_its_path(runs: Runs) -> None:
    root = runs.pytester.mkdir("e+x t")
    (root / "setup.py").write_text(SETUP)
    (root / "test_thing.py").write_text("def test_it(): pass\n")
    runs.pytester.path.joinpath("link").symlink_to(root)
    about = runs.pytester.path / "site" / "rules_torch_kernels-1.0.dist-info" / "direct_url.json"
    for path in (root.parent / "e+x%20t", root.parent / "link"):
        about.write_text(f'{{"url": "file://{path}", "dir_info": {{}}}}')
        runs.run(str(root)).assert_outcomes(passed=1)
    assert runs.built == []


def test_the_test_explorer_of_vs_code(runs: Runs) -> None:
    """Its command lines, from python_files/vscode_pytest of the extension ms-python; its own plugin only reports.

    It collects with `--rootdir` and runs by absolute ids, through pytest.main of a script that stands elsewhere.
    """
    root = runs.project()
    common = ["-p", "no:cacheprovider", "-p", "no:hypothesispytest", f"--rootdir={root}"]
    collected = runs.pytester.runpytest_subprocess(*common, "--collect-only", "-q", str(root / "tests"))
    names = [line.partition("::")[2] for line in collected.outlines if "::" in line]
    assert (collected.ret, len(names), runs.built) == (0, 4, [])
    ids = [f"{root}/tests/test_my_kernel.py::{name}" for name in names]
    script = runs.pytester.makepyfile(run=f"import pytest, sys\nsys.exit(pytest.main({common} + sys.argv[1:]))\n")
    done = runs.pytester.run(sys.executable, script, *ids[:2])
    assert (done.ret, runs.built) == (0, ["my-kernel"])
    done.stdout.fnmatch_lines(["*2 passed*"])


def test_another_project_is_left_alone(runs: Runs) -> None:
    loaded = "{'rules_torch_kernels.tested', 'kernels'} & {*sys.modules}"
    runs.pytester.makepyfile(test_it=f"import sys\ndef test_modules():\n    assert not {loaded}\n")
    runs.pytester.path.joinpath("setup.py").write_text("from setuptools import setup\nsetup(name='plain')\n")
    done = runs.run()
    done.assert_outcomes(passed=1)
    assert "torch kernels:" not in done.stdout.str()
    assert runs.built == []


def test_it_can_be_turned_off(runs: Runs) -> None:
    runs.project(test="def test_it(): pass\n")
    runs.run("-p", "no:torch_kernels", "my-kernel").assert_outcomes(passed=1)
    assert runs.built == []
