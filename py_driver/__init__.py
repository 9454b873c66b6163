"""The driver of rules_torch_kernels: build.toml in, loadable kernel variants out."""

__version__ = "0.2.0"
"""Version of the driver, the rules and the toolchains, which are released together (PEP 440)."""
