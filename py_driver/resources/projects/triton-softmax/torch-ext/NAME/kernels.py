"""Softmax of rows and its gradient in Triton: nothing but kernels, so that the launching code needs no Triton.

A program has a row. `BLOCK` is a power of two, as all shapes of Triton are: `softmax` keeps a row of up to that many
elements in registers, and reads it once. `softmax_long` reads a row of any length twice, `BLOCK` elements at once.
"""

import triton
import triton.language as tl


@triton.jit
def softmax(out, x, columns, scale, BLOCK: tl.constexpr):
    # 64 bits, so that tensors of more than 2^31 elements have room.
    first = tl.program_id(0).to(tl.int64) * columns
    place = tl.arange(0, BLOCK)
    inside = place < columns
    values = tl.load(x + first + place, mask=inside, other=-float("inf")).to(tl.float32) * scale
    # Where the mask ends, exp gives 0. A row of -inf has no largest value to subtract: all of it is NaN, as in torch.
    powers = tl.where(inside, tl.exp(values - tl.max(tl.where(inside, values, -float("inf")), 0)), 0.0)
    tl.store(out + first + place, (powers / tl.sum(powers, 0)).to(out.dtype.element_ty), mask=inside)


@triton.jit
def softmax_long(out, x, columns, scale, BLOCK: tl.constexpr):
    first = tl.program_id(0).to(tl.int64) * columns
    # Each lane has the largest value that it has seen, and the sum of powers relative to it.
    largest = tl.full((BLOCK,), -float("inf"), tl.float32)
    sums = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, columns, BLOCK):
        place = start + tl.arange(0, BLOCK)
        inside = place < columns
        values = tl.load(x + first + place, mask=inside, other=-float("inf")).to(tl.float32) * scale
        values = tl.where(inside, values, -float("inf"))
        larger = tl.maximum(largest, values)
        base = tl.where(larger == -float("inf"), 0.0, larger)  # -inf less itself would be NaN
        sums = sums * tl.exp(largest - base) + tl.exp(values - base)
        largest = larger
    top = tl.max(largest, 0)
    total = tl.sum(sums * tl.exp(largest - top), 0)
    for start in range(0, columns, BLOCK):
        place = start + tl.arange(0, BLOCK)
        inside = place < columns
        values = tl.load(x + first + place, mask=inside, other=0.0).to(tl.float32) * scale
        tl.store(out + first + place, (tl.exp(values - top) / total).to(out.dtype.element_ty), mask=inside)


@triton.jit
def softmax_backward(of_x, grad, y, columns, scale, BLOCK: tl.constexpr):
    first = tl.program_id(0).to(tl.int64) * columns
    place = tl.arange(0, BLOCK)
    inside = place < columns
    g = tl.load(grad + first + place, mask=inside, other=0.0).to(tl.float32)
    weight = tl.load(y + first + place, mask=inside, other=0.0).to(tl.float32)
    mean = tl.sum(g * weight, 0)
    tl.store(of_x + first + place, (scale * weight * (g - mean)).to(of_x.dtype.element_ty), mask=inside)


@triton.jit
def softmax_backward_long(of_x, grad, y, columns, scale, BLOCK: tl.constexpr):
    first = tl.program_id(0).to(tl.int64) * columns
    sums = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, columns, BLOCK):
        place = start + tl.arange(0, BLOCK)
        inside = place < columns
        g = tl.load(grad + first + place, mask=inside, other=0.0).to(tl.float32)
        sums += g * tl.load(y + first + place, mask=inside, other=0.0).to(tl.float32)
    mean = tl.sum(sums, 0)
    for start in range(0, columns, BLOCK):
        place = start + tl.arange(0, BLOCK)
        inside = place < columns
        g = tl.load(grad + first + place, mask=inside, other=0.0).to(tl.float32)
        weight = tl.load(y + first + place, mask=inside, other=0.0).to(tl.float32)
        tl.store(of_x + first + place, (scale * weight * (g - mean)).to(of_x.dtype.element_ty), mask=inside)
