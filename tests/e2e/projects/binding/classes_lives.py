"""Objects of the module `shapes` in threads, after reloads, beside a copy of the module and in compiled code: none is left.

Arguments: the directory of the module, and one that it is copied to.
"""

from __future__ import annotations

import gc
import importlib
import shutil
import sys
import threading

import torch

first, other = sys.argv[1:]
sys.path.insert(0, first)
import shapes  # noqa: E402

point = shapes.Point(1, 2)
assert importlib.reload(shapes) is shapes
assert (point.norm2(), shapes.Point(3, 4).norm2()) == (5, 25)
shutil.copytree(first, other)
del sys.modules["shapes"]
sys.path[0] = other
import shapes as copied  # noqa: E402

assert copied.Point(1, 2).norm2() == 5
try:
    copied.Point(1, 1).distance(point)
except TypeError as problem:
    assert "incompatible function arguments" in str(problem)
else:
    raise AssertionError("an object of another library was taken")


def work() -> None:
    """Make and drop objects, which others are parts of, and which threads share."""
    starts = []
    for number in range(2000):
        line = copied.Line(copied.Point(number, 1))
        starts.append(line.start)
        line.all()
        line.copies()
        copied.keep(copied.Node())
        copied.get_kept()
        copied.same_point(line.start)
        if number % 100 == 0:
            starts.clear()


threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
copied.keep(None)
gc.collect()
assert copied.alive() == 0, copied.alive()


def makes(x: torch.Tensor) -> torch.Tensor:
    """Objects that compiled code makes."""
    point = copied.Point(2, 3)
    point.scale(2)
    params = copied.Params()
    params.alpha = 3.0
    return copied.apply(x * 2, params) + point.norm2() + copied.Kind.Square.value + copied.Order.First.is_first


def takes(x: torch.Tensor, params: object) -> torch.Tensor:
    """Objects that compiled code is given."""
    return copied.apply(x, params) * 2


x = torch.ones(2)
compiled = torch.compile(makes, backend="aot_eager")
for _ in range(2):
    torch.testing.assert_close(compiled(x), makes(x))
compiled = torch.compile(takes, backend="aot_eager")
params = copied.Params()
for count in (1, 2, 7):
    params.count = count
    torch.testing.assert_close(compiled(x, params), takes(x, params))
    torch.testing.assert_close(compiled(x, copied.twice(params)), takes(x, copied.twice(params)))
gc.collect()
assert copied.alive() == 0, copied.alive()
