"""Bazel: finding the expected version, providing it if missing, and running it."""
