"""torch.utils.hipify, which many a setup.py imports and calls for ROCm alone."""
