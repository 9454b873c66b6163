"""Bazel out of Debian's packages."""
