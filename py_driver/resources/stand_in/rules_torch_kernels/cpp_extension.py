"""rules_torch_kernels.cpp_extension while a setup.py is recorded: what torch's stand-in has."""

from torch.utils.cpp_extension import *  # noqa: F403
from torch.utils.cpp_extension import CUDA_HOME, load, load_inline  # noqa: F401
