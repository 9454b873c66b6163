"""A project with a setup.py written anew as a kernel with a build.toml, for the Hub."""
