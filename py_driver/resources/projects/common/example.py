"""Loads the kernel as its users do: `driver run . -- python example.py`."""

import kernels
import torch

gpu = torch.cuda.is_available()
kernel = kernels.get_kernel("[[ repo_id ]]", version=1, backend=None if gpu else "cpu")
x = torch.linspace(-2, 2, 5, device="cuda" if gpu else "cpu")
print(kernel.[[ module ]](x))
