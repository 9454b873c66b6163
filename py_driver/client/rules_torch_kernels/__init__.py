"""What a Python that has torch imports of rules_torch_kernels: kernels under development, built from their sources.

`load(DIR)` builds a project for this Python and this machine, and returns its module. `live.load(NAME)` follows the
builds of `driver run --watch`. Both need the `kernels` client; `load` needs the driver too. `cpp_extension` takes the
place of torch.utils.cpp_extension. `%load_ext rules_torch_kernels` gives a notebook `%%cuda` and `%%cpp`.
"""

from typing import Any

from rules_torch_kernels.loading import BuildError, load

__all__ = ["BuildError", "load", "load_ipython_extension"]


def load_ipython_extension(shell: Any) -> None:  # noqa: ANN401  (IPython's InteractiveShell)
    """What `%load_ext rules_torch_kernels` calls, see `notebook`."""
    from rules_torch_kernels.notebook import register

    register(shell)
