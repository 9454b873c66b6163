"""A kernel that is bound with tvm-ffi: it takes the tensors of every library that speaks DLPack."""

import tvm_ffi

from ._ops import has_jax, jax_add_ffi_target_name_prefix, ops


def scale(out, x, factor):
    """Write `x` times `factor` into `out`."""
    ops.scale(tvm_ffi.from_dlpack(out), tvm_ffi.from_dlpack(x), factor)
    return out


def unique_id():
    """The unique id of the build."""
    return ops.unique_id()


TARGET = jax_add_ffi_target_name_prefix("scale")
if has_jax:
    import jax_tvm_ffi

    jax_tvm_ffi.register_ffi_target(TARGET, ops.scale, arg_spec=["rets", "args"], platform="cpu")


__all__ = ["TARGET", "scale", "unique_id"]
