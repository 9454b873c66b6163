"""Projects with a build.toml that are bound by pybind11: what is built for each Python, and what is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from relu import MANIFEST, write

from py_driver import __main__
from py_driver.errors import DriverError
from py_driver.matrix.pythons import Python
from py_driver.matrix.releases import Releases
from py_driver.plan.buildfile import render
from py_driver.plan.for_pythons import for_pythons
from py_driver.plan.plan import plan_directory

if TYPE_CHECKING:
    from pathlib import Path

    from py_driver.plan.plan import Plan

CU130 = "torch213-cxx11-cu130-x86_64-linux"
PYTHONS = tuple(Python(version, version) for version in ("3.11", "3.13"))
BOUND = """\
#include <torch/extension.h>
#include "csrc/relu.h"
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("relu", &relu); }
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with a PYBIND11_MODULE."""
    write(tmp_path)
    (tmp_path / "torch-ext/binding.cpp").write_text(BOUND, encoding="utf-8")
    return tmp_path


def planned(project: Path, pythons: tuple[Python, ...] = PYTHONS) -> Plan:
    """The plan of one variant for some Pythons."""
    releases = Releases()
    plan = plan_directory(project, releases, pybind=True)
    chosen = [variant for variant in plan.variants if variant.name == CU130]
    return for_pythons(plan, chosen, releases.matrix, lambda _: pythons)


def refused(project: Path, binding: str) -> list[tuple[str, str]]:
    """What is wrong with a binding: message, and the part that it is about."""
    (project / "torch-ext/binding.cpp").write_text(binding, encoding="utf-8")
    with pytest.raises(DriverError) as caught:
        plan_directory(project, Releases(), pybind=True)
    spans = [(fault.message, fault.span) for fault in caught.value.diagnostics]
    return [(message, span.text[span.column - 1 :][: span.length]) for message, span in spans if span]


def test_a_variant_is_built_for_each_python_and_lies_where_the_client_looks(project: Path) -> None:
    plan = planned(project)
    assert [variant.name for variant in plan.variants] == [f"{CU130}-cp311", f"{CU130}-cp313"]
    assert {variant.identifier for variant in plan.variants} == {CU130}
    assert [variant.library_suffix for variant in plan.variants] == [
        ".cpython-311-x86_64-linux-gnu.so",
        ".cpython-313-x86_64-linux-gnu.so",
    ]


def test_only_what_sees_python_is_another_target_than_without(project: Path) -> None:
    plan = planned(project)
    depends = {group.name: group.depends for group in plan.groups}
    assert depends == {"binding_cuda": ("cpython", "torch"), "relu": ()}
    text = render(plan, "")
    assert 'python_version = "3.13"' in text
    assert "module" not in text.split("kernel_variant(")[1]


@pytest.mark.parametrize(
    ("binding", "message", "part"),
    [
        (
            '#include "registration.h"\nREGISTER_EXTENSION(TORCH_EXTENSION_NAME)\n',
            "no source for cuda has PYBIND11_MODULE(TORCH_EXTENSION_NAME, m), so pybind11 binds nothing",
            '"torch-ext/binding.cpp"',
        ),
        (BOUND.replace("TORCH_EXTENSION_NAME", "_C"), "Python imports TORCH_EXTENSION_NAME, not `_C`", "_C"),
        (
            f"{BOUND}REGISTER_EXTENSION(TORCH_EXTENSION_NAME)\n",
            "REGISTER_EXTENSION defines the same function as PYBIND11_MODULE of torch-ext/binding.cpp",
            "REGISTER_EXTENSION",
        ),
    ],
)
def test_a_module_that_python_cannot_import_is_refused(project: Path, binding: str, message: str, part: str) -> None:
    [(said, place)] = refused(project, binding)
    assert said.startswith(message)
    assert place == part


def test_names_by_macros_and_a_second_way_behind_an_if_are_taken(project: Path) -> None:
    hidden = "#ifdef WITHOUT_PYBIND\nREGISTER_EXTENSION(TORCH_EXTENSION_NAME)\n#endif\n"
    text = f"#define NAME TORCH_EXTENSION_NAME\n{BOUND.replace('(TORCH_EXTENSION_NAME', '(NAME')}{hidden}"
    (project / "torch-ext/binding.cpp").write_text(text)
    assert len(planned(project).variants) == len(PYTHONS)


def test_a_python_that_the_torch_has_no_wheel_for_is_refused(project: Path) -> None:
    with pytest.raises(DriverError, match=r"torch 2\.13 has no wheel for Python 3\.15"):
        planned(project, (Python("3.15", "3.15"),))


def test_the_stable_abi_is_refused(project: Path) -> None:
    (project / "build.toml").write_text(MANIFEST.replace("[torch]\n", '[torch]\nstable-abi = "2.9"\n'))
    releases = Releases()
    plan = plan_directory(project, releases, pybind=True)
    with pytest.raises(DriverError, match="pybind11 needs torch's own headers"):
        for_pythons(plan, plan.variants[:1], releases.matrix, lambda _: PYTHONS)


def test_a_project_of_python_files_is_refused(project: Path) -> None:
    releases = Releases()
    plan = plan_directory(project, releases, pybind=True)
    with pytest.raises(DriverError, match="has Python files alone"):
        for_pythons(plan, [plan.variants[0]._replace(groups=())], releases.matrix, lambda _: PYTHONS)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["build", "--binding=pybind"], "`--binding pybind`: the Hub needs one library for every Python (abi3)"),
        (["gen", "--binding=pybind"], "`--binding pybind`: the Hub needs one library for every Python (abi3)"),
        (["wheel", "--python=3.13"], "`--python` is for a project with a setup.py"),
        (["wheel", "--binding=library"], "`--binding library` is for a project with a setup.py"),
        (["test", "--binding=library"], "`--binding library` is for a project with a setup.py"),
        (["wheel", "--binding=pybind", "--slice"], "`--slice` is for wheels that fit every Python"),
        (["wheel", "--binding=pybind", "--variants"], "`--variants` is for wheels that fit every Python"),
        (["check", "--binding=pybind", "--headers"], "`--headers` tries smaller headers of torch"),
    ],
)
def test_options_that_contradict_it(
    project: Path, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert __main__.main([words[0], str(project), *words[1:]]) == 2
    assert message in capsys.readouterr().err


def test_check_lists_the_variants_of_each_python(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["check", str(project), "--binding=pybind", "--python=3.11", "--python=3.13", "--json"]
    assert __main__.main(words) == 0
    printed = capsys.readouterr().out
    assert f'"{CU130}-cp311"' in printed
    assert f'"{CU130}-cp313"' in printed
    assert "torch24" not in printed
