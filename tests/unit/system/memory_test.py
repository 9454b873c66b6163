"""How much memory there is for compile actions."""

from __future__ import annotations

from pathlib import Path

import pytest
from tree import write_files

from py_driver.system import memory

MEMINFO = "MemTotal:        8388608 kB\nMemFree:          100 kB\n"
V1, V2 = "3:cpu:/\n7:memory:/a/b\n", "0::/a/b\n"


@pytest.mark.parametrize(
    ("group", "limits", "expected"),
    [
        ("", {}, 8192),
        (V2, {"memory.max": "max\n"}, 8192),
        (V2, {"memory.max": "4294967296\n"}, 4096),
        (V2, {"a/memory.max": "4294967296\n", "a/b/memory.max": "max\n"}, 4096),
        (V2, {"a/memory.max": "4294967296\n", "a/b/memory.max": "2147483648\n"}, 2048),
        (V2, {"a/b/memory.max": "\xff", "memory.max": "0"}, 8192),
        (V1, {"memory/memory.limit_in_bytes": "9223372036854771712\n"}, 8192),
        (V1, {"memory/a/b/memory.limit_in_bytes": "1073741824\n"}, 1024),
        ("0::/../elsewhere\n", {"memory.max": "1073741824\n"}, 1024),
    ],
)
def test_the_smallest_limit_counts(tmp_path: Path, group: str, limits: dict[str, str], expected: int) -> None:
    (tmp_path / "proc" / "self").mkdir(parents=True)
    (tmp_path / "proc" / "meminfo").write_text(MEMINFO)
    (tmp_path / "proc" / "self" / "cgroup").write_text(group)
    write_files(tmp_path / "sys" / "fs" / "cgroup", limits)
    assert memory.machine_memory(tmp_path) == expected


def test_some_is_left_to_others() -> None:
    assert memory.action_memory(8) == 7 * 1024
    assert memory.action_memory(1) == 512
    assert memory.action_memory() == max(memory.machine_memory() - 1024, memory.machine_memory() // 2)


def test_this_machine_has_what_its_page_says() -> None:
    pages = int(Path("/proc/meminfo").read_text().split()[1]) // 1024
    assert 0 < memory.machine_memory() <= pages + 1
