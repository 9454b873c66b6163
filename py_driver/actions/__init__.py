"""Compile actions: the workspace that they run in, what they are expected to cost, and what they did."""
