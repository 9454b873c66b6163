"""How much memory there is for compile steps."""

from __future__ import annotations

from pathlib import Path

import pytest

from py_driver import memory

MEMINFO = "MemTotal:        8388608 kB\nMemFree:          100 kB\n"


@pytest.mark.parametrize(
    ("limits", "expected"),
    [((), 8192), (("max\n",), 8192), (("4294967296\n",), 4096), (("9223372036854771712\n", "1073741824"), 1024)],
)
def test_the_smallest_limit_counts(tmp_path: Path, limits: tuple[str, ...], expected: int) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text(MEMINFO)
    files = [tmp_path / str(number) for number in range(3)]
    for file, text in zip(files, limits, strict=False):
        file.write_text(text)
    assert memory.machine_memory(meminfo, tuple(files)) == expected


def test_some_is_left_to_others() -> None:
    assert memory.step_memory(8) == 7 * 1024
    assert memory.step_memory(1) == 512
    assert memory.step_memory() == memory.machine_memory() - 1024


def test_this_machine_has_what_its_page_says() -> None:
    pages = int(Path("/proc/meminfo").read_text().split()[1]) // 1024
    assert 0 < memory.machine_memory() <= pages
