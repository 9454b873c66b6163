"""Conversion of a project with a setup.py into a kernel with a build.toml, for the Hub."""
