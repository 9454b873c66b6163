"""Bazel out of Debian's packages."""

HELP = (
    "install Bazelisk (npm install -g @bazel/bazelisk), or set RULES_TORCH_KERNELS_BAZEL to the path of a Bazel of the "
    "expected version"
)
"""What to do where no Bazel can be provided."""
