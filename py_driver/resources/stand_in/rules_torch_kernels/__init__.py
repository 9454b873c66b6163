"""rules_torch_kernels while a setup.py is recorded."""
