"""What a trial of other headers shows, with a Bazel that only says that it has compiled."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from sections import CPU, GENERAL, TORCH, make

from py_driver.authoring import header_trial
from py_driver.bazel.events import Action, Events
from py_driver.bazel.find import Bazel, Source
from py_driver.bazel.run import Completed
from py_driver.bazel.servers import Server
from py_driver.building import session
from py_driver.matrix.releases import Releases
from py_driver.output import Output
from py_driver.system.cache import CACHE_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pytest


def test_warnings_of_a_trial_are_not_those_of_a_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = Bazel(path=tmp_path / "bazel", version="7.7.1", source=Source.VARIABLE)
    plan = make(tmp_path / "re_lu", GENERAL + TORCH + CPU)
    [chosen] = [variant for variant in plan.variants if variant.name == "torch213-cxx11-cpu-x86_64-linux"]

    @contextmanager
    def server(*_others: object) -> Iterator[Server]:
        yield Server(bazel=found, running=1, base=tmp_path, first=tmp_path)

    def build(_bazel: Bazel, _root: Path, labels: list[str], *_: object, **_options: object) -> Completed:
        package = labels[0].removeprefix("//").partition(":")[0]
        warning = Action(
            output=f"bazel-out/k8/bin/{package}/cpu.objects/cpu.cpp.o",
            label=f"//{package}:cpu",
            mnemonic="KernelCxxCompile",
            succeeded=True,
            exit_code=0,
            command=("clang",),
            text=f"{package}/cpu.cpp:1:1: warning: unused variable 'a' [-Wunused-variable]\n",
        )
        return Completed(stdout="", events=Events(told=(warning,), exec_root=tmp_path))

    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setattr(header_trial, "find_bazel", lambda *_: found)
    monkeypatch.setattr(session, "free_server", server)
    monkeypatch.setattr(session, "building", lambda *_: [])
    monkeypatch.setattr(session, "build_targets", build)
    texts = {name: (tmp_path / "re_lu" / name).read_text() for name in plan.files}
    trial = header_trial._Trial(  # noqa: SLF001
        directory=tmp_path / "re_lu", releases=Releases(), output=Output(), plan=plan, texts=texts, copy=0
    )
    trial.compiled({}, [chosen], "trying")
    assert "warning" not in capsys.readouterr().err
    assert not [*(tmp_path / "cache").rglob("*told*")]
