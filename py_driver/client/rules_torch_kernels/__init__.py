"""What a Python that has torch imports of rules_torch_kernels: kernels under development, built from their sources.

`load(DIR)` builds a project for this Python and this machine, and returns its module. `live.load(NAME)` follows the
builds of `driver run --watch`. Both need the `kernels` client; `load` needs the driver too.
"""

from rules_torch_kernels.loading import BuildError, load

__all__ = ["BuildError", "load"]
