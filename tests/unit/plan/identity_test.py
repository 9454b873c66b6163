"""What each field of the model changes: the BUILD file, and the unique id if it can change a binary, or neither."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, NamedTuple

import pytest

from py_driver.manifest import model
from py_driver.manifest.model import Located
from py_driver.matrix.releases import Releases
from py_driver.plan.buildfile import render
from py_driver.plan.identity import Identity, canonical, label_order
from py_driver.plan.plan import plan_directory

if TYPE_CHECKING:
    from pathlib import Path

    from py_driver.plan.plan import Plan

COMPILED = """\
[general]
name = "re_lu"
version = 2
edition = 5
license = "mit"
backends = ["cpu", "cuda", "rocm"]
[torch]
src = ["torch-ext/b.h", "torch-ext/b.cpp"]
include = ["g", "h"]
cxx-flags = ["-DA", "-DB"]
[kernel.g]
backend = "cuda"
depends = ["torch"]
src = ["g/z.cuh", "g/b.cu", "g/a.cu"]
include = ["g", "h"]
cxx-flags = ["-DC", "-DD"]
cuda-flags = ["-DE", "-DF"]
cuda-capabilities = ["8.0", "9.0"]
cuda-minver = "13.0"
[kernel.r]
backend = "rocm"
depends = ["torch"]
src = ["g/c.cu"]
hip-flags = ["-DG", "-DH"]
rocm-archs = ["gfx942", "gfx1100"]
[kernel.c]
backend = "cpu"
depends = ["torch"]
src = ["c.cpp"]
"""
NOARCH = """\
[general]
name = "re_lu"
version = 2
edition = 5
license = "mit"
backends = ["cpu", "cuda", "rocm"]
[torch-noarch]
cuda_capabilities = ["8.0"]
rocm_archs = ["gfx942"]
"""
FILES = ("torch-ext/re_lu/__init__.py", "torch-ext/re_lu/x.json", "torch-ext/other/__init__.py", "torch-ext/b.h",
         "torch-ext/b.cpp", "g/z.cuh", "g/a.cu", "g/b.cu", "g/c.cu", "h/x.h", "c.cpp", "d.cpp")  # fmt: skip


class Case(NamedTuple):
    """A change of build.toml.

    Attributes:
        field: of the model, that it changes.
        changes: what stands there, and what is written instead.
        ids: the backends that have another id then.
        text: what is changed.
    """

    field: str
    changes: dict[str, str]
    ids: str = ""
    text: str = COMPILED

    @property
    def changed(self) -> str:
        """The text after the change."""
        text = self.text
        for old, new in self.changes.items():
            assert text.count(old) == 1, old
            text = text.replace(old, new)
        return text


KERNEL_DEPENDS = 'kernel-depends = [{ repo-id = "a/b", version = 1 }, { repo-id = "c/d", revision = "x" }]'
DEPENDING = COMPILED.replace("version = 2", f"version = 2\n{KERNEL_DEPENDS}")
SECTION = '[kernel.n]\nbackend = "cpu"\ndepends = []\nsrc = ["d.cpp"]\n'
ALL = "cpu cuda rocm"
CASES = [
    Case("Kernel.name", {"[kernel.g]": "[kernel.k]"}, "cuda"),
    Case("Kernel.span", {"[kernel.g]": "\n\n[kernel.g]"}),
    Case("Kernel.backend", {'"rocm"\ndepends': '"cuda"\ndepends', 'hip-flags = ["-DG", "-DH"]\n': "",
                            'rocm-archs = ["gfx942", "gfx1100"]\n': ""}, "cuda rocm"),
    Case("Kernel.depends", {'depends = ["torch"]\nsrc = ["c.cpp"]': 'depends = []\nsrc = ["c.cpp"]'}, "cpu"),
    Case("Kernel.src", {'["c.cpp"]': '["c.cpp", "d.cpp"]'}, "cpu"),
    Case("Kernel.src", {'"g/b.cu", "g/a.cu"': '"g/a.cu", "g/b.cu"'}),
    Case("Kernel.include", {'["g", "h"]\ncxx-flags = ["-DC"': '["g"]\ncxx-flags = ["-DC"'}, "cuda"),
    Case("Kernel.include", {'["g", "h"]\ncxx-flags = ["-DC"': '["h", "g"]\ncxx-flags = ["-DC"'}, "cuda"),
    Case("Kernel.include", {'["g", "h"]\ncxx-flags = ["-DC"': '["g", "."]\ncxx-flags = ["-DC"'}, "cuda"),
    Case("Kernel.cxx_flags", {'["-DC", "-DD"]': '["-DC"]'}, "cuda"),
    Case("Kernel.cxx_flags", {'["-DC", "-DD"]': '["-DD", "-DC"]'}, "cuda"),
    Case("Kernel.cuda_flags", {'["-DE", "-DF"]': '["-DE"]'}, "cuda"),
    Case("Kernel.gencode", {'["-DE", "-DF"]': '["-DE", "-DF", "-gencode=arch=compute_90a,code=sm_90a"]'}, "cuda"),
    Case("Kernel.cuda_flags", {'["-DE", "-DF"]': '["-DF", "-DE"]'}, "cuda"),
    Case("Kernel.hip_flags", {'["-DG", "-DH"]': '["-DG"]'}, "rocm"),
    Case("Kernel.hip_flags", {'["-DG", "-DH"]': '["-DH", "-DG"]'}, "rocm"),
    # Nothing is built for xpu. Once something is, it has an id, and this says so.
    Case("Kernel.sycl_flags", {'"rocm"]': '"rocm", "xpu"]',
                               "[kernel.c]": SECTION.replace("cpu", "xpu") + 'sycl-flags = ["-DS"]\n[kernel.c]'}),
    Case("Kernel.capabilities", {'["8.0", "9.0"]': '["8.0"]'}, "cuda"),
    Case("Kernel.capabilities", {'["8.0", "9.0"]': '["9.0", "8.0"]'}),
    Case("Kernel.capabilities", {'cuda-capabilities = ["8.0", "9.0"]\n': ""}, "cuda"),
    Case("Kernel.rocm_archs", {'["gfx942", "gfx1100"]': '["gfx942"]'}, "rocm"),
    Case("Kernel.rocm_archs", {'["gfx942", "gfx1100"]': '["gfx1100", "gfx942"]'}),
    Case("Kernel.rocm_archs", {'rocm-archs = ["gfx942", "gfx1100"]\n': ""}, "rocm"),
    Case("Kernel.cuda_minver", {'"13.0"': '"13.2"'}, "cuda"),
    Case("Kernel.cuda_minver", {'cuda-minver = "13.0"\n': ""}, "cuda"),
    Case("Framework.span", {"[torch]": "\n\n[torch]"}),
    Case("Framework.table", {"[torch-noarch]\n": '[torch]\nsrc = ["torch-ext/b.cpp"]\n' + SECTION,
                             'cuda_capabilities = ["8.0"]\n': "", 'rocm_archs = ["gfx942"]\n': ""}, "cpu", NOARCH),
    Case("Framework.src", {'"torch-ext/b.h", ': ""}, ALL),
    Case("Framework.src", {'"torch-ext/b.h", "torch-ext/b.cpp"': '"torch-ext/b.cpp", "torch-ext/b.h"'}),
    Case("Framework.include", {'["g", "h"]\ncxx-flags = ["-DA"': '["h", "g"]\ncxx-flags = ["-DA"'}, ALL),
    Case("Framework.include", {'["g", "h"]\ncxx-flags = ["-DA"': '["g"]\ncxx-flags = ["-DA"'}, ALL),
    Case("Framework.include", {'["g", "h"]\ncxx-flags = ["-DA"': '["g", "."]\ncxx-flags = ["-DA"'}, ALL),
    Case("Framework.pyext", {"[torch]\n": '[torch]\npyext = ["py", "json"]\n'}, ALL),
    Case("Framework.cxx_flags", {'["-DA", "-DB"]': '["-DA"]'}, ALL),
    Case("Framework.cxx_flags", {'["-DA", "-DB"]': '["-DB", "-DA"]'}, ALL),
    Case("Framework.bounds", {"[torch]\n": '[torch]\nminver = "2.13"\n'}),  # variants, and none differs
    Case("Framework.stable_abi", {"[torch]\n": '[torch]\nstable-abi = "2.9"\n'}, ALL),
    Case("Framework.stable_abi", {"[torch]\n": '[torch]\nstable-abi = { cuda = "2.9" }\n'}, "cuda"),
    Case("Framework.capabilities", {'["8.0"]': '["9.0"]'}, "", NOARCH),  # metadata.json: nothing is compiled
    Case("Framework.rocm_archs", {'["gfx942"]': '["gfx90a"]'}, "", NOARCH),
    Case("Manifest.edition", {"edition = 5\n": ""}),
    Case("Manifest.name", {'"re_lu"': '"other"'}, ALL),
    Case("Manifest.version", {"version = 2": "version = 3"}, ALL),
    Case("Manifest.license", {'"mit"': '"apache-2.0"'}),
    Case("Manifest.upstream", {"version = 2": 'version = 2\nupstream = "https://git.example/x"'}),
    Case("Manifest.source", {"version = 2": 'version = 2\nsource = "https://git.example/x"'}),
    Case("Manifest.backends", {', "rocm"]': "]"}, "rocm"),
    Case("Manifest.kernels", {"[kernel.c]": f"{SECTION}[kernel.c]"}, "cpu"),
    Case("Manifest.kernels", {"[kernel.c]": SECTION.replace("kernel.n", "kernel.c") + "[kernel.n]"}, "cpu"),
    Case("Manifest.depends", {"version = 2": 'version = 2\npython-depends = ["einops"]'}),  # metadata.json
    Case("Manifest.cuda", {"[torch]": '[general.cuda]\nmaxver = "13.0"\n[torch]'}),  # variants, and none differs
    Case("Manifest.hub", {"[torch]": '[general.hub]\nrepo-id = "me/relu"\n[torch]'}),
    Case("Hub.repo_id", {"[torch]": '[general.hub]\nrepo-id = "me/relu"\n[torch]'}),
    Case("Hub.branch", {"[torch]": '[general.hub]\nbranch = "next"\n[torch]'}),
    Case("Bounds.minver", {"[torch]\n": '[torch]\nminver = "2.13"\n'}),
    Case("Bounds.maxver", {"[torch]\n": '[torch]\nmaxver = "2.12"\n'}),
    Case("Depends.python", {"version = 2": 'version = 2\npython-depends = ["einops"]'}),
    Case("Depends.kernels", {"version = 2": f"version = 2\n{KERNEL_DEPENDS}"}),
    Case("KernelDepend.repo_id", {"a/b": "a/c"}, "", DEPENDING),
    Case("KernelDepend.version", {"version = 1": "version = 4"}, "", DEPENDING),
    Case("KernelDepend.revision", {'"x"': '"y"'}, "", DEPENDING),
]  # fmt: skip
ELSEWHERE = {
    "Kernel.language": "a section that is not C++ is an error",
    "Manifest.file": "a project has the same ids in every directory: see below",
    "Manifest.framework": "each field of Framework for itself",
    "Manifest.python_root": "where the files are that the ids have by name: see below",
}
"""Fields without a case, each with the reason."""

NOT_BUILT = {
    "Kernel.span": "for messages",
    "Kernel.sycl_flags": "nothing is built for XPUs",
    "Framework.span": "for messages",
    "Manifest.edition": "for messages, and for `driver upgrade`",
    "Manifest.hub": "for `driver publish`",
    "Hub.repo_id": "for `driver publish`",
    "Hub.branch": "for `driver publish`",
}
"""Fields that change nothing of the BUILD file, each with what they are for instead."""


def make(directory: Path, text: str) -> Plan:
    """The plan of a project with every file of FILES and the given build.toml."""
    for name in FILES:
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(f"// {name}\nREGISTER_EXTENSION(TORCH_EXTENSION_NAME)\n")
    (directory / "build.toml").write_text(text, encoding="utf-8")
    return plan_directory(directory, Releases())


def ids(directory: Path, text: str) -> dict[str, str]:
    """The unique id of each backend."""
    plan = make(directory, text)
    return {
        identity.backend: identity.unique_id(
            plan.module, {name: (directory / name).read_bytes() for name in identity.files}
        )
        for identity in plan.identities
    }


def fields() -> set[str]:
    """All fields of the model, such as `Kernel.src`."""
    own = (kind for kind in vars(model).values() if isinstance(kind, type) and kind.__module__ == model.__name__)
    return {f"{kind.__name__}.{name}" for kind in own if kind is not Located for name in getattr(kind, "_fields", ())}


def build_file(plan: Plan) -> str:
    """The BUILD file of a plan, without what the ids are made from: that alone builds nothing in another way."""
    return render(plan._replace(identities=tuple(identity._replace(settings={}) for identity in plan.identities)), "")


def test_every_field_of_the_model_has_a_case() -> None:
    known = {case.field for case in CASES} | set(ELSEWHERE)
    faults = [f"{field} has no case here: what does it change?" for field in sorted(fields() - known)]
    faults += [f"{field} is no field of the model" for field in sorted(known - fields())]
    assert not faults, "\n".join(faults)


@pytest.mark.thorough
def test_every_field_of_the_model_changes_the_build_file(tmp_path: Path) -> None:
    changing = {
        case.field
        for case in CASES
        if build_file(make(tmp_path, case.text)) != build_file(make(tmp_path, case.changed))
    }
    still = {case.field for case in CASES} - changing
    faults = [f"{field} changes nothing of the BUILD file: who reads it?" for field in sorted(still - set(NOT_BUILT))]
    faults += [f"{field} changes the BUILD file" for field in sorted(set(NOT_BUILT) - still)]
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("case", CASES, ids=[f"{number}-{case.field}" for number, case in enumerate(CASES)])
def test_the_ids_that_a_change_of_build_toml_changes(tmp_path: Path, case: Case) -> None:
    before, after = ids(tmp_path, case.text), ids(tmp_path, case.changed)
    differing = {key for key in {*before, *after} if before.get(key) != after.get(key)}
    assert differing == {*case.ids.split()}


def test_the_ids_that_a_file_changes(tmp_path: Path) -> None:
    before = ids(tmp_path, COMPILED)
    changed = {}
    for name in FILES:
        plan = make(tmp_path, COMPILED)
        changed[name] = {
            identity.backend
            for identity in plan.identities
            for contents in [{file: (tmp_path / file).read_bytes() + b"x" * (file == name) for file in identity.files}]
            if identity.unique_id(plan.module, contents) != before[identity.backend]
        }
    everywhere = {"torch-ext/re_lu/__init__.py", "torch-ext/b.h", "torch-ext/b.cpp"}
    cuda = {"g/z.cuh", "g/a.cu", "g/b.cu"}
    assert {name for name, backends in changed.items() if backends == {*ALL.split()}} == everywhere
    assert {name for name, backends in changed.items() if backends == {"cuda"}} == cuda
    assert {name for name, backends in changed.items() if backends == {"rocm"}} == {"g/c.cu"}
    assert {name for name, backends in changed.items() if backends == {"cpu"}} == {"c.cpp"}


def test_the_ids_are_the_same_in_every_directory_and_not_of_every_package(tmp_path: Path) -> None:
    assert ids(tmp_path / "one", COMPILED) == ids(tmp_path / "another", COMPILED)
    early = '[general]\nversion = "1"\n[torch]\nname = "re_lu"\npyroot = "PLACE"\nsrc = ["torch-ext/b.cpp"]\n'
    early += '[kernel.g]\ndepends = []\nsrc = ["g/a.cu"]\ncapabilities = ["8.0"]\n'
    package = tmp_path / "lib" / "re_lu" / "__init__.py"
    package.parent.mkdir(parents=True)
    package.write_text("// torch-ext/re_lu/__init__.py\n")
    assert ids(tmp_path, early.replace("PLACE", "torch-ext")) != ids(tmp_path, early.replace("PLACE", "lib"))


def test_the_settings_that_an_id_is_made_of(tmp_path: Path) -> None:
    """Another word here is another id for every kernel that was ever built."""
    plan = make(tmp_path, COMPILED.replace("[torch]\n", '[torch]\nstable-abi = { cuda = "2.9" }\n'))
    common = {
        "name": "re_lu",
        "version": 2,
        "binding": [["torch-ext/b.cpp", "torch-ext/b.h"], ["g", "h"], ["-DA", "-DB"]],
    }
    section = {"depends": ["torch"], "include": [], "cxx-flags": [], "cuda-flags": [], "capabilities": None}
    cuda = {**section, "name": "g", "src": ["g/a.cu", "g/b.cu", "g/z.cuh"], "include": ["g", "h"],
            "cxx-flags": ["-DC", "-DD"], "cuda-flags": ["-DE", "-DF"], "capabilities": ["8.0", "9.0"],
            "cuda-minver": [13, 0]}  # fmt: skip
    rocm = {**section, "name": "r", "src": ["g/c.cu"], "hip-flags": ["-DG", "-DH"],
            "rocm-archs": ["gfx1100", "gfx942"], "cuda-minver": None}  # fmt: skip
    cpu = {**section, "name": "c", "src": ["c.cpp"], "cuda-minver": None}
    assert {identity.backend: json.loads(canonical(identity.settings)) for identity in plan.identities} == {
        "cpu": {**common, "backend": "cpu", "kernels": [cpu]},
        "cuda": {**common, "backend": "cuda", "stable-abi": [2, 9], "kernels": [cuda]},
        "rocm": {**common, "backend": "rocm", "kernels": [rocm]},
    }
    assert sorted(identity.name for identity in plan.identities) == ["cpu_id", "cuda_id", "rocm_id"]
    bare = {"name": "re_lu", "version": 2, "binding": [[], [], []], "kernels": []}
    assert [json.loads(canonical(identity.settings)) for identity in make(tmp_path, NOARCH).identities] == [
        {**bare, "backend": backend} for backend in ALL.split()
    ]
    listed = make(tmp_path, NOARCH + SECTION).identities  # a section that nothing is compiled of
    assert [json.loads(canonical(variant.settings))["kernels"] for variant in listed] == [[], [], []]
    text = COMPILED.replace("[kernel.c]", SECTION.replace("kernel.n", "kernel.b") + "[kernel.c]") + SECTION
    [kernels] = [
        identity.settings["kernels"] for identity in make(tmp_path, text).identities if identity.backend == "cpu"
    ]
    assert [kernel["name"] for kernel in kernels] == ["b", "c", "n"]


def test_an_id_is_what_the_rule_makes() -> None:
    """As rules/private/tools/assemble/identity.zig: each field after its length, files in buildifier's order."""
    identity = Identity(name="cpu_id", backend="cpu", settings={"b": ["é", None], "a": {"d": 1, "c": 2}},
                        files=("a-b.cu", "a.cu", "a.b/c.cu"))  # fmt: skip
    assert canonical(identity.settings) == '{"a":{"c":2,"d":1},"b":["\\u00e9",null]}'
    assert identity.config == hashlib.sha256(b'{"a":{"c":2,"d":1},"b":["\\u00e9",null]}').hexdigest()
    fields = [b"rules_torch_kernels id 1", b"cpu", b"re_lu", identity.config.encode()]
    fields += [b"a.b/c.cu", b"3", b"a.cu", b"2", b"a-b.cu", b"1"]
    packed = b"".join(len(field).to_bytes(8, "little") + field for field in fields)
    contents = {"a-b.cu": b"1", "a.cu": b"2", "a.b/c.cu": b"3"}
    assert identity.unique_id("re_lu", contents) == f"_re_lu_cpu_{hashlib.sha256(packed).hexdigest()[:12]}"
    assert label_order("a.b/c.cu") == ["a", "b/c", "cu"]
