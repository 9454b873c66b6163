"""A project's build as a plan: its files are checked, its variants chosen, its BUILD file written."""
