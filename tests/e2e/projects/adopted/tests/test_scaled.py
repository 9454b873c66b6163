import json
import sys

import pytest
import scaled
import torch
from scaled import _C


def answers():
    """What the functions return, as JSON, whatever package they are of."""
    x = torch.arange(1.0, 4.0)
    output, count = torch.empty(2, 3), torch.zeros(1)
    assert _C.fill(output, 0.5, count) is None
    total, number = _C.sums([x, output], [2, 3])
    found = [
        _C.scale(x).tolist(),
        _C.scale(x, bias=x).tolist(),
        _C.scale(input=x, scale=1).tolist(),
        [total.item(), number, count.item(), output.tolist()],
        [_C.backend(), _C.backend(True), _C.backend(loud=True)],
        [_C.twice(value=21), _C.address(x) == x.data_ptr(), _C.FACTOR, _C.__doc__],
        [_C.scale.__name__, "Scale a tensor." in _C.scale.__doc__],
        scaled.triple(x).tolist(),
    ]
    for call in (
        lambda: _C.scale("no tensor"),
        lambda: _C.twice(21),
        lambda: _C.twice(value=256),
        lambda: _C.sums(tensors=[x], weights=[1]),
        lambda: _C.scale(torch.tensor(1.0)),
        lambda: _C.scale(),
    ):
        with pytest.raises((TypeError, RuntimeError)) as wrong:
            call()
        found.append("a dimension" in str(wrong.value))
    x.requires_grad_()
    _C.scale(x, 5).sum().backward()
    return json.dumps([*found, x.grad.tolist()])


def test_answers():
    assert json.loads(answers())[0] == [4, 8, 12]


if __name__ == "__main__":
    print(answers(), file=sys.stdout)
