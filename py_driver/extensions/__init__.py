"""Extension modules of a setup.py as a plan: their flags, the headers they reach, and the targets that build them."""
