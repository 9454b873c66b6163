"""Several projects in one build, with a Bazel that only says that it has built."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from sections import CPU, GENERAL, TORCH, make

from py_driver.actions.workspace import workspace_for
from py_driver.bazel.events import Events
from py_driver.bazel.find import Bazel, Source
from py_driver.bazel.run import Completed
from py_driver.bazel.servers import Server
from py_driver.building import batches, session
from py_driver.building.build import Build, Options, Prepared, Result, build_all
from py_driver.errors import Code, Diagnostic, DriverError, error
from py_driver.matrix.releases import Releases
from py_driver.output import Output
from py_driver.plan.plan import plan_directory
from py_driver.reporting.report_page import own_page
from py_driver.system.cache import CACHE_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CPU213 = "torch213-cxx11-cpu-x86_64-linux"
RELEASES = Releases()


class Said:
    """A Bazel that builds nothing.

    Attributes:
        calls: the labels of each call.
        failing: labels of targets that fail.
        failure: what a build in which some do ends with.
        unanalysed: whether those that fail have no record either.
        silent: labels of targets that are built, and of which there is no record.
        content: of each metadata.json; empty for the name of the package.
        early: the projects that have a variant in `build/` each time that Bazel has finished a target.
    """

    def __init__(self, place: Path) -> None:
        self.place = place
        self.calls: list[list[str]] = []
        self.failing: set[str] = set()
        self.failure = [Diagnostic(code=Code.BUILD_FAILED, message="the build failed", help="less at once")]
        self.unanalysed = False
        self.silent: set[str] = set()
        self.content = ""
        self.early: list[list[str]] = []

    def build(
        self,
        _bazel: Bazel,
        _root: Path,
        labels: list[str],
        _output: Output,
        **options: Any,  # noqa: ANN401  (as it has)
    ) -> Completed:
        """As `invocation.build`."""
        assert options["check"] is False
        several = len({label.partition(":")[0] for label in labels}) > 1
        assert options["options"] == (["--keep_going"] if several else [])
        self.calls.append(labels)
        records: list[Path] = []
        for label in labels:
            package, _, variant = label.removeprefix("//").partition(":")
            directory = f"bazel-out/k8/bin/{package}/{variant}"
            (self.place / directory).mkdir(parents=True, exist_ok=True)
            (self.place / directory / "metadata.json").write_text(self.content or json.dumps(package))
            record = self.place / f"{len(records)}.json"
            actions = [f"bazel-out/k8/bin/{package}/c.objects/c.cpp.o"]
            record.write_text(json.dumps({"variant": variant, "directory": directory, "steps": actions}))
            if not (self.unanalysed and label in self.failing) and label not in self.silent:
                records.append(record)
        failed = tuple(f"@@{label}" for label in labels if label in self.failing)
        ran = {f"bazel-out/k8/bin/projects/{name}/c.objects/c.cpp.o": () for name in ("one", "three")}
        events = Events(failed=failed, groups={"steps": tuple(records)}, exec_root=self.place, completed=ran)
        watch = options["watch"]
        assert (watch is not None) is several
        for count in range(len(records)) if watch else ():
            watch(replace(events, groups={"steps": tuple(records[: count + 1])}))
            self.early.append(sorted(path.parts[-3] for path in self.place.parent.glob("*/build/*")))
        failure = DriverError(self.failure) if failed else None
        return Completed(stdout="", events=events, failure=failure)


@pytest.fixture
def bazel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Said:
    said = Said(tmp_path / "exec")
    found = Bazel(path=tmp_path / "bazel", version="7.7.1", source=Source.VARIABLE)

    @contextmanager
    def server(*_others: object) -> Iterator[Server]:
        yield Server(bazel=found, running=1, base=tmp_path, first=tmp_path)

    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setattr(batches, "find_bazel", lambda *_: found)
    monkeypatch.setattr(batches, "fetch_all", lambda *_, **__: [])
    monkeypatch.setattr(session, "free_server", server)
    monkeypatch.setattr(session, "building", lambda choices, *_: ["--keep_going"] if choices.keep_going else [])
    monkeypatch.setattr(session, "build_targets", said.build)
    return said


@pytest.fixture
def project(tmp_path: Path) -> Callable[..., Prepared]:
    def prepared(name: str, directory: str = "") -> Prepared:
        general = GENERAL.replace("re_lu", name).replace(', "cuda"', "")
        place = tmp_path / (directory or name)
        (place / "torch-ext" / name).mkdir(parents=True)
        (place / "torch-ext" / name / "__init__.py").touch()
        plan = make(place, general + TORCH + CPU)
        chosen = tuple(variant for variant in plan.variants if variant.name == CPU213)
        return Prepared(directory=place, plan=plan, chosen=chosen)

    return prepared


def build(*projects: Prepared) -> list[Result]:
    results = build_all(projects, RELEASES, Output(), Options())
    return [results[task.directory] for task in projects]


def test_files_get_their_own_names_back(bazel: Said, project: Callable[..., Prepared], tmp_path: Path) -> None:
    prepared = project("one")
    name = "torch-ext/one/my util.py"
    (prepared.directory / name).touch()
    plan = plan_directory(prepared.directory, RELEASES)
    [other] = plan.own_names
    package = tmp_path / "exec" / "bazel-out/k8/bin/projects/one" / CPU213
    package.mkdir(parents=True)
    (package / other).touch()
    bazel.content = json.dumps({"digest": {"files": {other: "x"}}})
    [done] = build(replace(prepared, plan=plan))
    assert isinstance(done, Build)
    made = prepared.directory / "build" / CPU213
    assert sorted(path.name for path in made.iterdir()) == ["metadata.json", "my util.py"]
    assert json.loads((made / "metadata.json").read_text())["digest"]["files"] == {"my util.py": "x"}


def failures(result: Result) -> list[str]:
    assert isinstance(result, DriverError)
    return [diagnostic.message for diagnostic in result.diagnostics]


def test_one_call_for_all(bazel: Said, project: Callable[..., Prepared], capsys: pytest.CaptureFixture[str]) -> None:
    projects = [project(name) for name in ("two", "one", "three")]
    results = build(*projects)
    assert bazel.calls == [[f"//projects/{name}:{CPU213}" for name in ("two", "one", "three")]]
    for name, built, result in zip(("two", "one", "three"), projects, results, strict=True):
        assert isinstance(result, Build)
        [variant] = result.variants
        assert variant.path == built.directory / "build" / CPU213
        assert json.loads((variant.path / "metadata.json").read_text()) == f"projects/{name}"
        assert (variant.actions.run, variant.actions.cached) == ((0, 1) if name == "two" else (1, 0))
    assert "plan: 3 variants, " in capsys.readouterr().err


def test_a_project_need_not_wait_for_others(
    bazel: Said, project: Callable[..., Prepared], capsys: pytest.CaptureFixture[str]
) -> None:
    bazel.failing = {f"//projects/two:{CPU213}"}
    projects = [project(name) for name in ("one", "two", "three")]
    build(*projects)
    assert bazel.early == [["one"], ["one"], ["one", "three"]]
    err = capsys.readouterr().err
    assert [err.count(f"{prepared.directory} is built\n") for prepared in projects] == [1, 0, 1]


@pytest.mark.parametrize("unanalysed", [True, False])
def test_one_that_fails(bazel: Said, project: Callable[..., Prepared], unanalysed: object) -> None:
    bazel.failing, bazel.unanalysed = {f"//projects/one:{CPU213}"}, bool(unanalysed)
    of_one = Diagnostic(code=Code.NOT_COMPLIANT, message="bazel-out/bin/projects/one/x.so: bad")
    of_nobody = Diagnostic(code=Code.NO_SPACE, message="no space")
    bazel.failure += [of_one, of_nobody]
    one, two = project("one"), project("two")
    failed, built = build(one, two)
    assert failures(failed) == [f"the build of {one.directory} failed: {CPU213}", of_one.message, of_nobody.message]
    assert isinstance(built, Build)
    assert not (one.directory / "build").exists()
    assert (two.directory / "build" / CPU213 / "metadata.json").is_file()


@pytest.mark.parametrize("others", [(), ("two",)])
def test_one_without_a_record_is_not_taken_for_built(
    bazel: Said, project: Callable[..., Prepared], others: tuple[str, ...]
) -> None:
    bazel.silent = {f"//projects/one:{CPU213}"}
    failed, *built = build(project("one"), *map(project, others))
    assert failures(failed) == [f"Bazel does not report the outputs of {CPU213}"]
    assert all(isinstance(result, Build) for result in built)


def test_what_fails_otherwise(bazel: Said, project: Callable[..., Prepared]) -> None:
    bazel.failing = {f"//projects/one:{CPU213}"}
    bazel.failure = [Diagnostic(code=Code.NO_NETWORK, message="no network")]
    failed, built = build(project("one"), project("two"))
    assert failures(failed) == ["no network"]
    assert isinstance(built, Build)
    bazel.failure = [Diagnostic(code=Code.INTERRUPTED, message="stopped")]
    stopped, finished = project("one", "again"), project("two", "later")
    with pytest.raises(DriverError, match="stopped"):
        build(stopped, finished)
    assert not (stopped.directory / "build").exists()
    assert (finished.directory / "build" / CPU213 / "metadata.json").is_file()


def test_what_others_build_is_waited_for_last(
    bazel: Said, project: Callable[..., Prepared], monkeypatch: pytest.MonkeyPatch
) -> None:
    projects = [project("one"), project("two"), project("three")]
    monkeypatch.setattr(batches, "is_busy", lambda directory, _: directory == projects[0].directory)
    assert all(isinstance(result, Build) for result in build(*projects))
    names = [[label.rpartition(":")[0] for label in labels] for labels in bazel.calls]
    assert names == [["//projects/two", "//projects/three"], ["//projects/one"]]


def test_two_of_one_name(bazel: Said, project: Callable[..., Prepared]) -> None:
    results = build(project("one"), project("one", "other"), project("two"))
    assert [len(labels) for labels in bazel.calls] == [2, 1]
    assert all(isinstance(result, Build) for result in results)


def test_each_has_a_report(bazel: Said, project: Callable[..., Prepared], tmp_path: Path) -> None:
    bazel.failing = {f"//projects/two:{CPU213}"}
    page, taken = tmp_path / "pages" / "all.html", set[Path]()
    all_of = [project("one"), project("one", "other"), project("two"), project("three")]
    pages = [own_page(page, task.plan.module, taken) for task in all_of]
    assert [page.name for page in pages] == ["all-one.html", "all-one-2.html", "all-two.html", "all-three.html"]
    projects = [replace(task, report=own) for task, own in zip(all_of, pages, strict=True)]
    build(*projects)
    assert {path.name for path in page.parent.iterdir()} == {
        f"all-{name}.{kind}" for name in ("one", "one-2", "three") for kind in ("html", "json")
    }
    facts = [json.loads(path.with_suffix(".json").read_text()) for path in (pages[0], pages[3])]
    assert [fact["name"] for fact in facts] == ["one", "three"]


def test_one_that_has_no_workspace(
    bazel: Said, project: Callable[..., Prepared], monkeypatch: pytest.MonkeyPatch
) -> None:
    def workspace(directory: Path, *others: object) -> object:
        if directory.name == "one":
            raise error(Code.STALE_BUILD_FILE, "stale")
        return workspace_for(directory, *others)  # type: ignore[arg-type]

    monkeypatch.setattr(batches, "workspace_for", workspace)
    failed, built = build(project("one"), project("two"))
    assert failures(failed) == ["stale"]
    assert isinstance(built, Build)
    assert bazel.calls == [[f"//projects/two:{CPU213}"]]


def test_an_interrupt_while_archives_come(
    bazel: Said, project: Callable[..., Prepared], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fetch(*_: object, **__: object) -> list[object]:
        raise error(Code.INTERRUPTED, "interrupted")

    monkeypatch.setattr(batches, "fetch_all", fetch)
    with pytest.raises(DriverError, match="interrupted"):
        build(project("one"), project("two"))
    assert bazel.calls == []


def test_archives_come_while_bazel_is_provided_and_stop_where_it_cannot_be(
    bazel: Said, project: Callable[..., Prepared], monkeypatch: pytest.MonkeyPatch
) -> None:
    fetching = threading.Event()
    stopped: list[bool] = []

    def fetch(*_: object, stop: threading.Event) -> list[object]:
        fetching.set()
        stopped.append(stop.wait(60))
        return []

    def find(*_: object) -> Bazel:
        assert fetching.wait(60)
        raise error(Code.NO_BAZEL, "there is no Bazel")

    monkeypatch.setattr(batches, "fetch_all", fetch)
    monkeypatch.setattr(batches, "find_bazel", find)
    with pytest.raises(DriverError, match="there is no Bazel"):
        build(project("one"))
    assert stopped == [True]
    assert bazel.calls == []


def test_the_packages_of_bazel_are_among_what_was_fetched_and_once(
    bazel: Said, project: Callable[..., Prepared], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    provided = Bazel(path=tmp_path / "bazel", version="7.7.1", source=Source.DEBIAN, bytes_fetched=137)
    monkeypatch.setattr(batches, "find_bazel", lambda *_: provided)
    first, second = build(project("one"), project("two"))
    assert isinstance(first, Build)
    assert isinstance(second, Build)
    assert (first.bytes_fetched, second.bytes_fetched) == (137, 0)
    assert bazel.calls
