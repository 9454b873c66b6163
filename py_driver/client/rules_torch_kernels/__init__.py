"""What a Python that has torch imports of rules_torch_kernels: kernels under development, and slices.

`load(DIR)` builds a project for this Python and this machine, and returns its module. `live.load(NAME)` follows the
builds of `driver run --watch`. `get_kernel(REPOSITORY, version=1)` loads a published kernel's slice for this machine's
GPU, and with `policy=` only what enough builders have rebuilt. All need the `kernels` client; `load` needs the driver
too. `cpp_extension` takes the place of torch.utils.cpp_extension. `%load_ext rules_torch_kernels` gives a notebook
`%%cuda` and `%%cpp`.
"""

from typing import Any

from rules_torch_kernels.confirmed import NotConfirmedError
from rules_torch_kernels.loading import BuildError, load
from rules_torch_kernels.slices import NoSliceError, get_kernel

__all__ = ["BuildError", "NoSliceError", "NotConfirmedError", "get_kernel", "load", "load_ipython_extension"]


def load_ipython_extension(shell: Any) -> None:  # noqa: ANN401  (IPython's InteractiveShell)
    """What `%load_ext rules_torch_kernels` calls, see `notebook`."""
    from rules_torch_kernels.notebook import register

    register(shell)
