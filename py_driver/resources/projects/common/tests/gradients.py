"""Compares the gradients of an op with those of a reference in float64, and finds one that is cut.

`verify_gradient` is for an op with a backward. `verify_no_gradient` is for one without: it must fail where a gradient
is wanted, since training would go on without it and say nothing.

`driver init` wrote this file. It is yours to change, and needs torch and pytest alone.
"""

from __future__ import annotations

import pytest
import torch
from verify import _compare, _poisoned, _twin, _widened, make


def verify_gradient(op, reference, inputs, *, terms=8, accumulate=None):
    """Assert that an op has the gradients of a reference in float64, and cuts none, neither those of second order.

    It differentiates with respect to all floating-point inputs, and to each alone; with random gradients of the
    outputs, and with one value in memory for all elements, as `out.sum().backward()` has it. An op may refuse second
    derivatives with a RuntimeError.

    Args:
        op: what to test: takes the inputs, returns a tensor or several.
        reference: computes the same from float64 tensors, with ops of torch.
        inputs: tensors and other arguments.
        terms: how many roundings of the largest gradient an element may be away: K of a matrix product, and more.
        accumulate: in which type; float32, or float64 for inputs of float64, if None.

    Raises:
        AssertionError: it says what is wrong, where, and by how much.
    """
    floats = _floats(inputs)
    found = [
        _verify(op, reference, inputs, wanted, spread, terms, accumulate)
        for wanted in ([floats] if len(floats) == 1 else [floats, *([i] for i in floats)])
        for spread in (False, True)
    ]
    assert found[0], "no output of the reference has a gradient"


def verify_no_gradient(op, inputs):
    """Assert that an op without a backward fails where a gradient is wanted, also compiled, and only there.

    Args:
        op: what to test: takes the inputs.
        inputs: tensors and other arguments.
    """
    for i in _floats(inputs):
        given = [_twin(value) if isinstance(value, torch.Tensor) else value for value in inputs]
        given[i].requires_grad_()
        for call in (op, torch.compile(op, backend="aot_eager")):
            with pytest.raises(RuntimeError, match="no backward"):
                call(*given)
        with torch.no_grad():
            op(*given)
        op(*(tensor.detach() if isinstance(tensor, torch.Tensor) else tensor for tensor in given))


def _floats(inputs):
    """The positions of the inputs that can have a gradient."""
    return [i for i, value in enumerate(inputs) if isinstance(value, torch.Tensor) and value.dtype.is_floating_point]


def _several(outputs):
    return outputs if isinstance(outputs, tuple) else (outputs,)


def _verify(op, reference, inputs, wanted, spread, terms, accumulate):
    """Compare the gradients of some inputs, and those of second order; False if the reference has none."""
    given, wide = [*inputs], [_widened(tensor) for tensor in inputs]
    for i in wanted:
        given[i] = _twin(inputs[i]).requires_grad_()
        wide[i] = _widened(inputs[i]).clone().requires_grad_()
    with _poisoned():
        actual = _several(op(*given))
    pairs = [pair for pair in zip(actual, _several(reference(*wide))) if pair[1].requires_grad]
    for output, _ in pairs:
        assert output.requires_grad, f"the op cuts the gradient of input {wanted}: its output does not require grad"
    if not pairs:
        return False
    outputs, wide_outputs = zip(*pairs)
    grads = [_gradient_of(output, spread) for output in outputs]
    wide_grads = [grad.detach().double().requires_grad_() for grad in grads]
    sources, wide_sources = [given[i] for i in wanted], [wide[i] for i in wanted]
    with _poisoned():
        first = torch.autograd.grad(outputs, sources, grads, retain_graph=True, allow_unused=True)
    expected = torch.autograd.grad(wide_outputs, wide_sources, wide_grads, create_graph=True, allow_unused=True)
    # One value for all elements may give a gradient of 0, which says nothing of what was added up for it.
    usual = [_gradient_of(output, spread=False).detach().double() for output in outputs]
    sizes = torch.autograd.grad(wide_outputs, wide_sources, usual, retain_graph=True, allow_unused=True)
    for i, grad, other, size in zip(wanted, first, expected, sizes):
        _compare_gradient(f"the gradient of input {i}", grad, other, size, inputs[i], terms, accumulate)
    if spread:
        return True
    try:
        again = torch.autograd.grad(outputs, sources, grads, create_graph=True, allow_unused=True)
    except RuntimeError:
        return True
    linked = [pair for pair in zip(again, expected) if pair[1] is not None and pair[1].requires_grad]
    for grad, _ in linked:
        assert grad.requires_grad, "the backward cuts second derivatives: what it returns does not require grad"
    _verify_second(linked, [*sources, *grads], [*wide_sources, *wide_grads], terms)
    return True


def _gradient_of(output, spread):
    """A gradient for an output: random values, or one for all elements."""
    if spread:
        grad = make((), output.dtype).expand(output.shape)
    else:
        grad = make(output.shape, output.dtype, seed=9)
    return grad.detach().requires_grad_()


def _verify_second(linked, sources, wide_sources, terms):
    """Compare the derivatives of gradients, unless they are refused."""
    if not linked:
        return
    firsts, wide_firsts = zip(*linked)
    weights = [make(grad.shape, grad.dtype, seed=11) for grad in firsts]
    try:
        second = torch.autograd.grad(firsts, sources, weights, allow_unused=True)
    except RuntimeError:
        return
    wide_weights = [weight.double() for weight in weights]
    expected = torch.autograd.grad(wide_firsts, wide_sources, wide_weights, allow_unused=True)
    for source, grad, other in zip(sources, second, expected):
        # What the first backward has read and returned is rounded to the type of the tensors.
        _compare_gradient("a second derivative", grad, other, other, source, terms, source.dtype)


def _compare_gradient(what, actual, expected, size, source, terms, accumulate):
    """Assert that a gradient is what was expected, within roundings of a size; None stands for zeros."""
    if expected is None:
        expected = torch.zeros_like(source, dtype=torch.float64)
    if actual is None:
        assert not expected.any(), f"{what} is None: the op cuts it"
        return
    assert actual.dtype == source.dtype, f"{what} is {actual.dtype}, not {source.dtype}"
    expected = expected.detach()
    both = [tensor.detach().abs() for tensor in (expected, size) if tensor is not None and tensor.numel()]
    sizes = [tensor.nan_to_num(nan=0.0).max() for tensor in both]
    largest = max(sizes, default=expected.sum())
    try:
        _compare(actual.detach(), expected, largest, ulps=1.0, accumulate=accumulate, terms=terms)
    except AssertionError as wrong:
        raise AssertionError(f"{what}: {wrong}") from None
