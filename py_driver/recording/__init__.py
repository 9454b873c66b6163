"""Recordings of a setup.py: its build, once for each configuration, without a compiler."""
