__global__ void two(int* out) { *out = 2; }
