# What nvcc 13.0 made of `__global__ void k() {}` for sm_80, sm_90a, compute_90a, sm_100f, sm_120 and compute_120.
    .section .nv_fatbin,"a",@progbits
    .align 8
    .incbin "nvcc130.fatbin"
