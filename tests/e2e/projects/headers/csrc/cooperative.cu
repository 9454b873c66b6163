#include <torch/all.h>

#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>

static __global__ void sum_of_warp(const float* in, float* out) {
  const auto warp = cooperative_groups::tiled_partition<32>(cooperative_groups::this_thread_block());
  const float sum = cooperative_groups::reduce(warp, in[threadIdx.x], cooperative_groups::plus<float>());
  if (warp.thread_rank() == 0) *out = sum;
}

void cooperative(const at::Tensor& in, at::Tensor& out) {
  sum_of_warp<<<1, 32>>>(in.const_data_ptr<float>(), out.data_ptr<float>());
}
