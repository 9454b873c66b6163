__global__ void of_the_binding(int* out) { *out = 3; }
