"""Bazel: finding one of the wanted version, providing one where there is none, and running it."""
