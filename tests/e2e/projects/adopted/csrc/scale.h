void scale_cuda(const float* input, float* output, long count, float factor);
