"""Text that compilers write between two of their actions, for tests that read it."""

PTX = "// NVVM\n\n.version 9.0\n.target sm_{}, debug\n.address_size 64\n\t// .globl\tf\n.visible .entry f() {{ {} }}\n"
TEXT = """\
# 1 "projects/p/a.cu"
# 1 "<built-in>" 1
# 1 "<built-in>" 3
# 476 "<built-in>" 3
# 1 "<command line>" 1
# 1 "<built-in>" 2
# 1 "external/cuda/bin/..//include/cuda_runtime.h" 1
cuda 1
# 1 "external/cc/gcc/include/c++/12/cmath" 1 3
cmath 2
# 2 "external/cuda/bin/..//include/cuda_runtime.h" 2
cuda 3
# 1 "<built-in>" 2
# 1 "projects/p/a.cu" 2
# 1 "projects/p/include/own.h" 1
own
# 2 "projects/p/a.cu" 2

# 1 "external/torch_2_13/include/torch/csrc/api/include/torch/all.h" 1 3
all 1
# 1 "external/torch_2_13/include/ATen/ATen.h" 1 3
aten 1
# 1 "external/torch_2_13/include/ATen/ATen.h" 1 3
itself
# 5 "external/torch_2_13/include/ATen/ATen.h" 2 3
# 60 "external/torch_2_13/include/ATen/ATen.h" 3
#pragma once
aten 2
# 3 "external/torch_2_13/include/torch/csrc/api/include/torch/all.h" 2 3
all 2
# 3 "projects/p/a.cu" 2
# 1 "external/cuda/include/cccl/cub/cub.cuh" 1 3
cub x y
# 4 "projects/p/a.cu" 2
source
"""
