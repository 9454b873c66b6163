[% if cuda %]
// RMSNorm with its gradients.
#include "[[ module ]].h"

#include <algorithm>
#include <type_traits>

#include "packs.h"

namespace [[ module ]]_impl {
namespace {

constexpr int kMaxThreads = 1024;
constexpr int kShortColumns = 256;  // a row of so many is a warp's, and a block has kShortRows of them
constexpr int kShortRows = 8;
constexpr std::int64_t kPartBlocks = 264;  // that add up gradients of the weight: two for each of 132 multiprocessors

// The sum over all threads of a row (blockDim.x), in each of them. Called by all threads of a block alike.
__device__ float over_row(float value) {
#pragma unroll
  for (int distance = kLanes / 2; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(0xffffffffu, value, distance);
  }
  if (blockDim.x > kLanes) {
    __shared__ float of_warp[kLanes];
    const int lane = threadIdx.x % kLanes;
    __syncthreads();
    if (lane == 0) {
      of_warp[threadIdx.x / kLanes] = value;
    }
    __syncthreads();
    value = lane < blockDim.x / kLanes ? of_warp[lane] : 0.0f;
#pragma unroll
    for (int distance = kLanes / 2; distance > 0; distance /= 2) {
      value += __shfl_xor_sync(0xffffffffu, value, distance);
    }
  }
  return value;
}

// Calls act(i, pack) for the packs of this thread: at most kEach, or any number if that is 0, with i = 0.
template <int kEach, class Act>
__device__ __forceinline__ void each_pack(std::int64_t packs, Act act) {
  if constexpr (kEach > 0) {
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const std::int64_t pack = threadIdx.x + static_cast<std::int64_t>(i) * blockDim.x;
      if (pack < packs) {
        act(i, pack);
      }
    }
  } else {
    for (std::int64_t pack = threadIdx.x; pack < packs; pack += blockDim.x) {
      act(0, pack);
    }
  }
}

// A row has blockDim.x threads, a block blockDim.y rows. A row stays in registers, unless kEach is 0.
template <typename T, bool kWide, int kEach>
__global__ void __launch_bounds__(kMaxThreads) normalize(Norm tensors, Shape shape) {
  using Own = Pack<T, kWide>;
  const std::int64_t packs = shape.columns / Own::size;
  const auto* const weight = static_cast<const Own*>(tensors.weight);
  const std::int64_t row = blockIdx.x * static_cast<std::int64_t>(blockDim.y) + threadIdx.y;
  if (row >= shape.rows) {
    return;  // the whole warp, and only where a row has no more than that
  }
  const Own* const x = row_of<const Own>(tensors.x, row);
  const bool adds = tensors.residual.at != nullptr;
  const Own* const residual = row_of<const Own>(tensors.residual, row);
  Own* const sum = row_of<Own>(tensors.sum, row);
  Own* const out = row_of<Own>(tensors.out, row);
  float kept[kEach > 0 ? kEach : 1][Own::size];
  const auto read = [&](int i, std::int64_t pack) {
    const Own own = x[pack];
    Own other;
    if (adds) {
      other = residual[pack];
    }
#pragma unroll
    for (int k = 0; k < Own::size; ++k) {
      kept[i][k] = static_cast<float>(own.of[k]) + (adds ? static_cast<float>(other.of[k]) : 0.0f);
    }
  };
  float squares = 0.0f;
  each_pack<kEach>(packs, [&](int i, std::int64_t pack) {
    read(i, pack);
    Own rounded;
#pragma unroll
    for (int k = 0; k < Own::size; ++k) {
      squares += kept[i][k] * kept[i][k];
      rounded.of[k] = T(kept[i][k]);
    }
    if (adds) {
      sum[pack] = rounded;
    }
  });
  const float rstd = rsqrtf(over_row(squares) / static_cast<float>(shape.columns) + tensors.eps);
  each_pack<kEach>(packs, [&](int i, std::int64_t pack) {
    if constexpr (kEach == 0) {
      read(i, pack);
    }
    const Own scale = weight[pack];
    Own own;
#pragma unroll
    for (int k = 0; k < Own::size; ++k) {
      own.of[k] = T(kept[i][k] * rstd * static_cast<float>(scale.of[k]));
    }
    out[pack] = own;
  });
  if (threadIdx.x == 0) {
    tensors.rstd[row] = rstd;
  }
}

// The gradients of rows, and that of the weight over the rows that the same threads have.
template <typename T, bool kWide, int kEach>
__global__ void __launch_bounds__(kMaxThreads) differentiate(NormBackward tensors, Shape shape) {
  using Own = Pack<T, kWide>;
  constexpr int kKept = kEach > 0 ? kEach : 1;
  const std::int64_t packs = shape.columns / Own::size;
  const auto* const weight = static_cast<const Own*>(tensors.weight);
  const std::int64_t first = blockIdx.x * static_cast<std::int64_t>(blockDim.y) + threadIdx.y;
  const std::int64_t step = gridDim.x * static_cast<std::int64_t>(blockDim.y);
  const bool adds = tensors.grad_sum.at != nullptr;
  float* const of_weight = tensors.partial + first * shape.columns;
  float weights[kKept][Own::size] = {};
  if constexpr (kEach == 0) {
    for (std::int64_t i = threadIdx.x; i < packs; i += blockDim.x) {
      for (int k = 0; k < Own::size; ++k) {
        of_weight[i * Own::size + k] = 0.0f;
      }
    }
  }
  for (std::int64_t row = first; row < shape.rows; row += step) {
    const Own* const grad_out = row_of<const Own>(tensors.grad_out, row);
    const Own* const grad_sum = row_of<const Own>(tensors.grad_sum, row);
    const Own* const total = row_of<const Own>(tensors.total, row);
    Own* const out = row_of<Own>(tensors.grad_input, row);
    const float rstd = tensors.rstd[row];
    Own grads[kKept];
    Own values[kKept];
    Own others[kKept];
    // All at once: what is read after the sum is known keeps the memory waiting.
    const auto read = [&](int i, std::int64_t pack) {
      grads[i] = grad_out[pack];
      values[i] = total[pack];
      if (adds) {
        others[i] = grad_sum[pack];
      }
    };
    float along = 0.0f;
    each_pack<kEach>(packs, [&](int i, std::int64_t pack) {
      read(i, pack);
      const Own scale = weight[pack];
#pragma unroll
      for (int k = 0; k < Own::size; ++k) {
        const float grad = static_cast<float>(grads[i].of[k]);
        const float normal = static_cast<float>(values[i].of[k]) * rstd;
        along += grad * static_cast<float>(scale.of[k]) * normal;
        if constexpr (kEach > 0) {
          weights[i][k] += grad * normal;
        } else {
          of_weight[pack * Own::size + k] += grad * normal;
        }
      }
    });
    const float mean = over_row(along) / static_cast<float>(shape.columns);
    each_pack<kEach>(packs, [&](int i, std::int64_t pack) {
      if constexpr (kEach == 0) {
        read(i, pack);
      }
      const Own scale = weight[pack];
      Own own;
#pragma unroll
      for (int k = 0; k < Own::size; ++k) {
        const float normal = static_cast<float>(values[i].of[k]) * rstd;
        const float grad = static_cast<float>(grads[i].of[k]) * static_cast<float>(scale.of[k]);
        const float more = adds ? static_cast<float>(others[i].of[k]) : 0.0f;
        own.of[k] = T(rstd * (grad - normal * mean) + more);
      }
      out[pack] = own;
    });
  }
  if constexpr (kEach > 0) {
    each_pack<kEach>(packs, [&](int i, std::int64_t pack) {
#pragma unroll
      for (int k = 0; k < Own::size; ++k) {
        of_weight[pack * Own::size + k] = weights[i][k];
      }
    });
  }
}

// Adds up the parts of the gradient of the weight, always in the same order.
template <typename T>
__global__ void __launch_bounds__(kLanes* kLanes)
    add_parts(T* out, const float* partial, std::int64_t parts, std::int64_t columns) {
  __shared__ float sums[kLanes][kLanes + 1];
  const std::int64_t column = blockIdx.x * static_cast<std::int64_t>(kLanes) + threadIdx.x;
  float sum = 0.0f;
  if (column < columns) {
    for (std::int64_t part = threadIdx.y; part < parts; part += kLanes) {
      sum += partial[part * columns + column];
    }
  }
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y == 0 && column < columns) {
    float all = 0.0f;
    for (int k = 0; k < kLanes; ++k) {
      all += sums[k][threadIdx.x];
    }
    out[column] = T(all);
  }
}

int rows_of_block(const Shape& shape) { return shape.columns <= kShortColumns ? kShortRows : 1; }

dim3 block_for(const Shape& shape, std::int64_t packs) {
  if (rows_of_block(shape) > 1) {
    return dim3(kLanes, kShortRows);
  }
  // As few packs for each thread as a block allows; those of a long row are read again, by all threads.
  const std::int64_t each = (packs + kMaxThreads - 1) / kMaxThreads;
  const std::int64_t threads = each > 4 ? kMaxThreads : (packs + each - 1) / each;
  return dim3(static_cast<unsigned>((threads + kLanes - 1) / kLanes * kLanes));
}

// Calls function(wide, each, block): whether packs are wide, and how many of them a thread has, 0 for any number, as
// types; and the threads of a block.
template <typename T, class Function>
int with_plan(const Shape& shape, bool wide, Function function) {
  const std::int64_t packs = wide ? shape.columns / Pack<T, true>::size : shape.columns;
  const dim3 block = block_for(shape, packs);
  const std::int64_t each = (packs + block.x - 1) / block.x;
  if (!wide) {
    function(std::false_type(), std::integral_constant<int, 0>(), block);
  } else if (each <= 1) {
    function(std::true_type(), std::integral_constant<int, 1>(), block);
  } else if (each <= 2) {
    function(std::true_type(), std::integral_constant<int, 2>(), block);
  } else if (each <= 4) {
    function(std::true_type(), std::integral_constant<int, 4>(), block);
  } else {
    function(std::true_type(), std::integral_constant<int, 0>(), block);
  }
  return cudaGetLastError();
}

}  // namespace

int norm(Type type, const Norm& tensors, const Shape& shape, void* stream) {
  return with_type(type, [&](auto zero) {
    using T = decltype(zero);
    const bool wide = are_packs<T>(shape.columns) && is_aligned(tensors.weight) &&
                      begin_at_packs<T>({tensors.out, tensors.sum, tensors.x, tensors.residual});
    return with_plan<T>(shape, wide, [&](auto is_wide, auto each, dim3 block) {
      // A grid has 2^31 - 1 blocks: rows of more than one warp fill 2^39 bytes before that.
      const auto blocks = static_cast<unsigned>((shape.rows + block.y - 1) / block.y);
      normalize<T, decltype(is_wide)::value, decltype(each)::value>
          <<<blocks, block, 0, static_cast<cudaStream_t>(stream)>>>(tensors, shape);
    });
  });
}

int norm_backward(Type type, const NormBackward& tensors, const Shape& shape, void* stream) {
  const auto on = static_cast<cudaStream_t>(stream);
  return with_type(type, [&](auto zero) -> int {
    using T = decltype(zero);
    const bool wide = are_packs<T>(shape.columns) && is_aligned(tensors.weight) &&
                      begin_at_packs<T>({tensors.grad_input, tensors.grad_out, tensors.grad_sum, tensors.total});
    const std::int64_t parts = partial_rows(shape);
    const int result = with_plan<T>(shape, wide, [&](auto is_wide, auto each, dim3 block) {
      differentiate<T, decltype(is_wide)::value, decltype(each)::value>
          <<<static_cast<unsigned>(parts / block.y), block, 0, on>>>(tensors, shape);
    });
    if (result != cudaSuccess) {
      return result;
    }
    const auto blocks = static_cast<unsigned>((shape.columns + kLanes - 1) / kLanes);
    add_parts<T><<<blocks, dim3(kLanes, kLanes), 0, on>>>(static_cast<T*>(tensors.grad_weight), tensors.partial, parts,
                                                          shape.columns);
    return cudaGetLastError();
  });
}

std::int64_t partial_rows(const Shape& shape) {
  const std::int64_t rows = rows_of_block(shape);
  return std::min((shape.rows + rows - 1) / rows, kPartBlocks) * rows;
}

}  // namespace [[ module ]]_impl
[% endif %]
