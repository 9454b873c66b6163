"""SwiGLU and its gradients in Triton: nothing but kernels, so that the launching code needs no Triton."""

import triton
import triton.language as tl


@triton.jit
def swiglu(out, gate, up, count, BLOCK: tl.constexpr):
    # 64 bits, so that tensors of more than 2^31 elements have room.
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = place < count
    x = tl.load(gate + place, mask=inside).to(tl.float32)
    y = tl.load(up + place, mask=inside).to(tl.float32)
    tl.store(out + place, (x / (1.0 + tl.exp(-x)) * y).to(out.dtype.element_ty), mask=inside)


@triton.jit
def swiglu_backward(of_gate, of_up, grad, gate, up, count, BLOCK: tl.constexpr):
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = place < count
    g = tl.load(grad + place, mask=inside).to(tl.float32)
    x = tl.load(gate + place, mask=inside).to(tl.float32)
    y = tl.load(up + place, mask=inside).to(tl.float32)
    sigmoid = 1.0 / (1.0 + tl.exp(-x))
    slope = sigmoid * (1.0 + x * (1.0 - sigmoid))
    tl.store(of_gate + place, (g * y * slope).to(of_gate.dtype.element_ty), mask=inside)
    tl.store(of_up + place, (g * x * sigmoid).to(of_up.dtype.element_ty), mask=inside)
