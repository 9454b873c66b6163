"""Bazel: finding one of the expected version, providing one where there is none, and running it."""
