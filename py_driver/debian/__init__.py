"""Bazel from Debian's packages."""

HELP = (
    "install Bazelisk (npm install -g @bazel/bazelisk), or set RULES_TORCH_KERNELS_BAZEL to the path of a Bazel of the "
    "expected version"
)
"""The help of errors about a Bazel that cannot be provided."""
