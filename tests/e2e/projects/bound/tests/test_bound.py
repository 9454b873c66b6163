"""Functions, objects of Python and classes that pybind11 binds."""

from __future__ import annotations

import bound
import pytest
import torch
from bound._ops import add_op_namespace_prefix, ops


def test_functions() -> None:
    x = torch.ones(3)
    assert bound.scale(x).tolist() == [2, 2, 2]
    assert bound.scale(x, factor=3).tolist() == [3, 3, 3]
    assert bound.call(lambda tensor: tensor + 1, x).tolist() == [2, 2, 2]


def test_objects_of_python() -> None:
    assert bound.sizes({"a": torch.ones(2, 3)}) == {"a": [2, 3]}
    counter = bound.Counter()
    counter.count += 1
    assert counter.count == 1


def test_an_op_of_torch_is_found_beside_the_functions() -> None:
    assert ops.negated(torch.ones(2)).tolist() == [-1, -1]
    assert add_op_namespace_prefix("scale") == f"{ops.__name__.rpartition('.')[2]}::scale"
    with pytest.raises(AttributeError, match="nothing"):
        _ = ops.nothing
