"""Compile actions: their workspace, their estimated cost, and their results."""
