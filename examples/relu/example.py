"""Loads the variant for this machine's torch out of build/ with the `kernels` client, and runs the op."""

from pathlib import Path

import kernels
import torch

device = "cuda" if torch.cuda.is_available() else "cpu"
# Without a GPU a torch for CUDA or ROCm takes the variant for the CPU, if it is told to.
backend = "cpu" if device == "cpu" else None
relu = kernels.get_local_kernel(Path(__file__).resolve().parent / "build", backend=backend)

x = torch.tensor([[-2.0, -0.5, 0.0], [0.5, 2.0, float("nan")]], device=device)
y = relu.relu(x)
torch.testing.assert_close(y, torch.relu(x), equal_nan=True)

print(f"torch {torch.__version__}, kernels {kernels.__version__}, {device}: loaded {Path(relu.__file__).parent.name}")
print(f"relu({x.tolist()}) = {y.tolist()}")
