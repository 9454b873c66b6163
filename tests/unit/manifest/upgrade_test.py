"""driver upgrade: any edition to the current one, with everything else left alone."""

from __future__ import annotations

import json
import random
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import tomli
from hypothesis import given, settings
from hypothesis import strategies as st

from py_driver import __main__
from py_driver.errors import DriverError
from py_driver.manifest.reader import read
from py_driver.manifest.upgrade import meaning, upgrade

CORPUS = sorted((Path(__file__).parents[2] / "corpus").glob("*.toml"))

EDITION_0 = """\
# About the project.
[general]
version = "0.3.1" # a string

[torch]
name = "activation" # the name
# Where Python is.
pyroot = "ext-torch"
src = [
    "ext-torch/binding.cpp", # binds
]

[kernel.activation]
# Turing and Hopper.
capabilities = ["7.5", "9.0a"] # two
src = ["activation/activation.cu"]
depends = ["torch"]
# The end.
"""

AS_5 = """\
# About the project.
[general]
name = "activation" # the name
version = 0 # a string
edition = 5
license = "unknown"
backends = ["cuda"]

[torch]
# Where Python is.
src = [
    "ext-torch/binding.cpp", # binds
]

[kernel.activation]
backend = "cuda"
# Turing and Hopper.
cuda-capabilities = ["7.5", "9.0a"] # two
src = ["activation/activation.cu"]
depends = ["torch"]
# The end.
"""

HIPIFY = """\
[general]
name = "a-b"
[torch]
src = ["b.cpp"]
[kernel.k] # both
language = "cuda-hipify" # twice
cuda-capabilities = ["8.0"]
rocm-archs = ["gfx942"] # MI300
depends = []
src = [ # files
  "k.cu"
]"""

HIPIFY_AS_5 = """\
[general]
name = "a-b"
version = 1
edition = 5
license = "unknown"
backends = ["cuda", "rocm"]
[torch]
src = ["b.cpp"]
[kernel.k] # both
backend = "cuda" # twice
cuda-capabilities = ["8.0"]
depends = []
src = [ # files
  "k.cu"
]

[kernel.k_rocm]
backend = "rocm"
depends = []
src = [ # files
  "k.cu"
]
rocm-archs = ["gfx942"] # MI300"""


def upgraded(text: str) -> str:
    """A text in the current edition."""
    manifest, findings = read(text.encode(), "build.toml")
    assert findings.diagnostics() == ()
    return upgrade(text.encode(), manifest).decode()


@pytest.mark.parametrize(("old", "new"), [(EDITION_0, AS_5), (HIPIFY, HIPIFY_AS_5)])
def test_a_whole_file(old: str, new: str) -> None:
    assert upgraded(old) == new
    assert upgraded(new) == new


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            'general.name = "ab"\n[torch]\nuniversal = true # yes\nsrc = []\n',
            'general.name = "ab"\ngeneral.version = 1\ngeneral.edition = 5\ngeneral.license = "unknown"\n'
            'general.backends = ["cann", "cpu", "cuda", "metal", "neuron", "rocm", "tpu", "xpu"] # yes\n'
            "[torch-noarch]\n",
        ),
        (
            '[kernel.k]\nbackend = "cpu"\ndepends = []\nsrc = ["k.cpp"]\n[general] # g\ncuda-minver = "12.4" # low\n'
            'name = "ab"\n# p\npython-depends = ["nvidia-cutlass-dsl"]\n[torch]\n',
            '[kernel.k]\nbackend = "cpu"\ndepends = []\nsrc = ["k.cpp"]\n[general] # g\n'
            'name = "ab"\nversion = 1\nedition = 5\nlicense = "unknown"\nbackends = ["cpu"]\n'
            '[general.cuda]\nminver = "12.4" # low\n# p\npython-depends = ["nvidia-cutlass-dsl"]\n[torch]\n',
        ),
        (
            '[general]\nname = "ab"\nlicense = "mit"\nbackends = ["cuda"]',
            '[general]\nname = "ab"\nversion = 1\nedition = 5\nlicense = "mit"\nbackends = ["cuda"]\n\n[torch-noarch]',
        ),
        (
            '[general]\nlicense = "mit" # l\n# Its name.\nname = "ab"\nbackends = ["cuda"]\nversion = 2\n'
            "[torch-noarch]\n",
            '[general]\n# Its name.\nname = "ab"\nversion = 2\nedition = 5\nlicense = "mit" # l\nbackends = ["cuda"]\n'
            "[torch-noarch]\n",
        ),
        (
            'kernel = { k = { capabilities = ["8.0"], depends = [], src = ["k.cu"] } } # all\n[general]\n'
            '[torch]\nname = "ab"\npyroot = "x"\n',
            'kernel.k.backend = "cuda"\nkernel.k.cuda-capabilities = ["8.0"]\nkernel.k.depends = []\n'
            'kernel.k.src = ["k.cu"] # all\n[general]\nname = "ab"\nversion = 1\nedition = 5\nlicense = "unknown"\n'
            'backends = ["cuda"]\n[torch]\n',
        ),
    ],
)
def test_layouts(old: str, new: str) -> None:
    assert upgraded(old) == new
    assert upgraded(new) == new


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_the_corpus_is_upgraded_and_stays_so(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    new = upgraded(text)
    newer = path.stem.startswith(("edition5", "edition6"))
    assert read(new.encode(), "build.toml")[0].edition == (int(path.stem[len("edition")]) if newer else 5)
    assert upgraded(new) == new
    if newer:
        assert new == text


def test_windows_line_breaks_stay() -> None:
    assert upgraded(EDITION_0.replace("\n", "\r\n")) == AS_5.replace("\n", "\r\n")


_COMMENT = re.compile(r"# c\d+")


def _decorated(text: str, seed: int) -> str:
    """A text with comments and blank lines strewn in, each comment with a number of its own."""
    chance = random.Random(seed)  # noqa: S311  (no secret)
    lines, count = [], 0
    for line in text.splitlines():
        for _ in range(chance.choice([0, 0, 1, 2])):
            lines.append(chance.choice(["", f"# c{count}", f"  # c{count}"]))
            count += 1
        whole = "=" in line and not line.rstrip().endswith("[")
        lines.append(f"{line} # c{count}" if whole and chance.random() < 0.4 else line)
        count += 1
    return "\n".join(lines) + chance.choice(["", "\n", "\n# c99999\n"])


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(CORPUS), st.integers(0, 2**32))
def test_no_comment_is_lost(path: Path, seed: int) -> None:
    text = _decorated(path.read_text(encoding="utf-8"), seed)
    if not accepted(text):
        return
    new = upgraded(text)
    assert sorted(set(_COMMENT.findall(text))) == sorted(set(_COMMENT.findall(new)))
    assert upgraded(new) == new


def _rendered(table: dict[str, Any], chance: random.Random) -> str:
    """A manifest in a layout of chance: headers in any order, dotted keys, inline tables."""
    dotted, sections = [], []
    for name, value in table.items():
        parts = [(f"kernel.{one}", inner) for one, inner in value.items()] if name == "kernel" else [(name, value)]
        for path, keys in parts:
            layout = chance.choice(["header", "header", "dotted", "inline"])
            inner = {key: value for key, value in keys.items() if isinstance(value, dict)}
            if layout == "inline":
                dotted.append(f"{path} = {_inline(keys)}")
            elif layout == "dotted" and keys:
                dotted += [f"{path}.{key} = {_inline(value)} # {path}.{key}" for key, value in keys.items()]
            else:
                lines = [f"{key} = {_inline(value)} # {path}.{key}" for key, value in keys.items() if key not in inner]
                sections.append("\n".join([f"[{path}] # {path}", *lines]))
                for key, one in inner.items():
                    lines = [f"{deep} = {_inline(leaf)}" for deep, leaf in one.items()]
                    sections.append("\n".join([f"[{path}.{key}]", *lines]))
    chance.shuffle(sections)
    return "\n".join([*dotted, *sections]) + chance.choice(["", "\n", "\n\n"])


def _inline(value: object) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_inline(item)}" for key, item in value.items()) + " }" if value else "{}"
    if isinstance(value, list):
        return "[" + ", ".join(_inline(item) for item in value) + "]"
    return json.dumps(value)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(CORPUS), st.randoms(use_true_random=False))
def test_any_layout_is_upgraded_to_the_same_project(path: Path, chance: random.Random) -> None:
    text = _rendered(tomli.loads(path.read_text(encoding="utf-8")), chance)
    old, findings = read(text.encode(), "build.toml")
    assert findings.diagnostics() == ()
    new = upgraded(text)
    again, findings = read(new.encode(), "build.toml")
    assert (findings.diagnostics(), again.edition) == ((), max(5, old.edition))
    assert meaning(again) == meaning(old)
    assert upgraded(new) == new


def accepted(text: str) -> bool:
    """Whether a text is a manifest; a comment inside a string of several lines is none."""
    try:
        return read(text.encode(), "build.toml")[1].diagnostics() == ()
    except DriverError:
        return False


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "build.toml").write_text(EDITION_0, encoding="utf-8")
    return tmp_path


def test_the_verb(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = project / "build.toml"
    path.chmod(0o640)
    assert __main__.main(["upgrade", str(project), "--diff"]) == 0
    captured = capsys.readouterr()
    assert f"+++ {path} (edition 5)" in captured.out
    assert '-capabilities = ["7.5", "9.0a"] # two\n+cuda-capabilities = ["7.5", "9.0a"] # two' in captured.out
    assert "mkdir -p torch-ext && git mv ext-torch/activation torch-ext/activation" in captured.err
    assert '`license` is "unknown": write' in captured.err
    assert path.read_text(encoding="utf-8") == EDITION_0
    assert __main__.main(["upgrade", str(project)]) == 0
    assert path.read_text(encoding="utf-8") == AS_5
    assert path.stat().st_mode & 0o777 == 0o640
    stamp = path.stat().st_mtime_ns
    assert __main__.main(["upgrade", str(project)]) == 0
    assert "already has edition 5" in capsys.readouterr().err
    assert path.stat().st_mtime_ns == stamp
    assert [path.name for path in project.iterdir()] == ["build.toml"]


def test_a_link_stays_a_link(project: Path) -> None:
    shutil.move(project / "build.toml", project / "real.toml")
    (project / "build.toml").symlink_to("real.toml")
    assert __main__.main(["upgrade", str(project)]) == 0
    assert (project / "build.toml").is_symlink()
    assert (project / "real.toml").read_text(encoding="utf-8") == AS_5


def test_what_is_wrong_is_left_alone(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = project / "build.toml"
    path.write_text(EDITION_0.replace("depends", "depend"), encoding="utf-8")
    assert __main__.main(["upgrade", str(project)]) == 2
    assert capsys.readouterr().err.count("error[") == 1
    assert path.read_text(encoding="utf-8") == EDITION_0.replace("depends", "depend")
    assert __main__.main(["upgrade", str(project / "nowhere")]) == 2
