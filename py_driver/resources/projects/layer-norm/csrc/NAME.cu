[% if cuda %]
#include "[[ module ]].h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cstddef>

#include "debug.h"

namespace [[ module ]]_impl {
namespace {

constexpr int kLanes = 32;
constexpr int kShortRows = 8;  // in a block, if a warp does for a row
constexpr std::int64_t kMaxBlocks = 1 << 20;
constexpr int kKeptBackward = 8;  // elements of a row that a thread keeps for the gradients
constexpr int kThreadsAtOnce = 1024;  // on a multiprocessor, for the gradients
constexpr int kMultiprocessors = 132;  // about as many as a large GPU has
constexpr int kSlices = 32;  // of the gradients of weight and bias, for the threads of a block to add up

// What a thread loads or stores at once: 16 bytes if all rows are aligned to that, else one element.
template <typename T, bool kWide>
struct alignas(kWide ? 16 : sizeof(T)) Pack {
  static constexpr int size = kWide ? 16 / static_cast<int>(sizeof(T)) : 1;
  T of[size];
};

// How a row is shared out: kThreads threads, each with up to kEach packs of it in registers. Where kEach is 0 a row may
// have any length, and is read again for each step.
template <typename T_, bool kWide, int kThreads_, int kEach_>
struct Plan {
  using T = T_;
  using Own = Pack<T, kWide>;
  static constexpr int kThreads = kThreads_;
  static constexpr int kEach = kEach_;
  static constexpr int kKept = kEach > 0 ? kEach : 1;
  static constexpr int kRows = kThreads == kLanes ? kShortRows : 1;
  static constexpr int kBlock = kRows * kThreads;
};

template <class P, class Do>
__device__ __forceinline__ void each_pack(std::int64_t packs, Do act) {
  const int thread = threadIdx.x % P::kThreads;
  if constexpr (P::kEach > 0) {
#pragma unroll
    for (int i = 0; i < P::kEach; ++i) {
      if (thread + i * P::kThreads < packs) {
        act(i, static_cast<std::int64_t>(thread + i * P::kThreads));
      }
    }
  } else {
    for (std::int64_t pack = thread; pack < packs; pack += P::kThreads) {
      act(0, pack);
    }
  }
}

__device__ float2 over_warp(float2 value) {
#pragma unroll
  for (int distance = kLanes / 2; distance > 0; distance /= 2) {
    value.x += __shfl_xor_sync(0xffffffffu, value.x, distance);
    value.y += __shfl_xor_sync(0xffffffffu, value.y, distance);
  }
  return value;
}

// The sums of all threads of a row, in each of them.
template <class P>
__device__ float2 over_row(float2 value) {
  value = over_warp(value);
  if constexpr (P::kThreads > kLanes) {
    __shared__ float2 of_warp[kLanes];
    const int lane = threadIdx.x % kLanes;
    __syncthreads();
    if (lane == 0) {
      of_warp[threadIdx.x / kLanes] = value;
    }
    __syncthreads();
    value = over_warp(lane < P::kThreads / kLanes ? of_warp[lane] : make_float2(0.0f, 0.0f));
  }
  return value;
}

template <class P>
__global__ void __launch_bounds__(P::kBlock) normalize(Forward tensors, Shape shape) {
  using T = typename P::T;
  using Own = typename P::Own;
  const std::int64_t packs = shape.columns / Own::size;
  const float part = 1.0f / static_cast<float>(shape.columns);
  const auto* const weight = static_cast<const Own*>(tensors.weight);
  const auto* const bias = static_cast<const Own*>(tensors.bias);
  const std::int64_t step = gridDim.x * static_cast<std::int64_t>(P::kRows);
  std::int64_t row = blockIdx.x * static_cast<std::int64_t>(P::kRows) + threadIdx.x / P::kThreads;
  for (; row < shape.rows; row += step) {
    const Own* const x = static_cast<const Own*>(tensors.x) + row * packs;
    const Own* const residual = static_cast<const Own*>(tensors.residual) + row * packs;
    Own* const out = static_cast<Own*>(tensors.out) + row * packs;
    Own* const rounded = static_cast<Own*>(tensors.sum) + row * packs;
    float kept[P::kKept][Own::size];
    const auto read = [&](int i, std::int64_t pack) {
      const Own left = x[pack];
      const Own right = residual[pack];
#pragma unroll
      for (int k = 0; k < Own::size; ++k) {
        kept[i][k] = static_cast<float>(left.of[k]) + static_cast<float>(right.of[k]);
      }
    };
    const auto read_again = [&](int i, std::int64_t pack) {
      if constexpr (P::kEach == 0) {
        read(i, pack);
      }
    };
    float2 sums = make_float2(0.0f, 0.0f);
    each_pack<P>(packs, [&](int i, std::int64_t pack) {
      read(i, pack);
      Own own;
#pragma unroll
      for (int k = 0; k < Own::size; ++k) {
        sums.x += kept[i][k];
        own.of[k] = T(kept[i][k]);
      }
      rounded[pack] = own;
    });
    const float mean = over_row<P>(sums).x * part;
    sums = make_float2(0.0f, 0.0f);
    each_pack<P>(packs, [&](int i, std::int64_t pack) {
      read_again(i, pack);
#pragma unroll
      for (int k = 0; k < Own::size; ++k) {
        sums.x += (kept[i][k] - mean) * (kept[i][k] - mean);
      }
    });
    const float rstd = rsqrtf(over_row<P>(sums).x * part + tensors.eps);
    each_pack<P>(packs, [&](int i, std::int64_t pack) {
      read_again(i, pack);
      const Own scale = weight[pack];
      const Own shift = bias[pack];
      Own own;
#pragma unroll
      for (int k = 0; k < Own::size; ++k) {
        const float normal = (kept[i][k] - mean) * rstd;
        own.of[k] = T(normal * static_cast<float>(scale.of[k]) + static_cast<float>(shift.of[k]));
      }
      out[pack] = own;
    });
    if (threadIdx.x % P::kThreads == 0) {
      tensors.mean[row] = mean;
      tensors.rstd[row] = rstd;
    }
  }
}

// The gradients of the input, and those of weight and bias over the rows that the same threads have.
template <class P>
__global__ void __launch_bounds__(P::kBlock, kThreadsAtOnce / P::kBlock) differentiate(Backward tensors, Shape shape) {
  using T = typename P::T;
  using Own = typename P::Own;
  const std::int64_t packs = shape.columns / Own::size;
  const float part = 1.0f / static_cast<float>(shape.columns);
  const auto* const weight = static_cast<const Own*>(tensors.weight);
  const std::int64_t step = gridDim.x * static_cast<std::int64_t>(P::kRows);
  const std::int64_t first = blockIdx.x * static_cast<std::int64_t>(P::kRows) + threadIdx.x / P::kThreads;
  float* const of_weight = tensors.partial + first * shape.columns;
  float* const of_bias = of_weight + step * shape.columns;
  float weights[P::kKept][Own::size] = {};
  float biases[P::kKept][Own::size] = {};
  for (std::int64_t row = first; row < shape.rows; row += step) {
    const Own* const grad_out = static_cast<const Own*>(tensors.grad_out) + row * packs;
    const Own* const grad_sum = static_cast<const Own*>(tensors.grad_sum) + row * packs;
    const Own* const sum = static_cast<const Own*>(tensors.sum) + row * packs;
    Own* const out = static_cast<Own*>(tensors.grad_input) + row * packs;
    const float mean = tensors.mean[row];
    const float rstd = tensors.rstd[row];
    Own grads[P::kKept];
    Own values[P::kKept];
    Own others[P::kKept];
    // All at once: what is read after the sums are known keeps the memory waiting.
    const auto read = [&](int i, std::int64_t pack) {
      grads[i] = grad_out[pack];
      values[i] = sum[pack];
      others[i] = grad_sum[pack];
    };
    float2 sums = make_float2(0.0f, 0.0f);
    each_pack<P>(packs, [&](int i, std::int64_t pack) {
      read(i, pack);
      const Own scale = weight[pack];
#pragma unroll
      for (int k = 0; k < Own::size; ++k) {
        const float grad = static_cast<float>(grads[i].of[k]);
        const float normal = (static_cast<float>(values[i].of[k]) - mean) * rstd;
        const float scaled = grad * static_cast<float>(scale.of[k]);
        sums.x += scaled;
        sums.y += scaled * normal;
        if constexpr (P::kEach > 0) {
          weights[i][k] += grad * normal;
          biases[i][k] += grad;
        } else {
          const std::int64_t column = pack * Own::size + k;
          of_weight[column] = (row == first ? 0.0f : of_weight[column]) + grad * normal;
          of_bias[column] = (row == first ? 0.0f : of_bias[column]) + grad;
        }
      }
    });
    sums = over_row<P>(sums);
    each_pack<P>(packs, [&](int i, std::int64_t pack) {
      if constexpr (P::kEach == 0) {
        read(i, pack);
      }
      const Own scale = weight[pack];
      Own own;
#pragma unroll
      for (int k = 0; k < Own::size; ++k) {
        const float normal = (static_cast<float>(values[i].of[k]) - mean) * rstd;
        const float scaled = static_cast<float>(grads[i].of[k]) * static_cast<float>(scale.of[k]);
        const float from_out = rstd * (scaled - (sums.x + normal * sums.y) * part);
        own.of[k] = T(from_out + static_cast<float>(others[i].of[k]));
      }
      out[pack] = own;
    });
  }
  if constexpr (P::kEach > 0) {
    each_pack<P>(packs, [&](int i, std::int64_t pack) {
#pragma unroll
      for (int k = 0; k < Own::size; ++k) {
        of_weight[pack * Own::size + k] = weights[i][k];
        of_bias[pack * Own::size + k] = biases[i][k];
      }
    });
  }
}

// Adds up the parts: kLanes columns for a block, kSlices parts at a time.
template <typename T>
__global__ void __launch_bounds__(kLanes* kSlices)
    add_up(T* of_weight, T* of_bias, const float* partial, std::int64_t parts, std::int64_t columns) {
  __shared__ float slices[kSlices][kLanes + 1];
  const int lane = threadIdx.x % kLanes;
  const int slice = threadIdx.x / kLanes;
  const std::int64_t column = blockIdx.x * static_cast<std::int64_t>(kLanes) + lane;
  const float* const from = partial + blockIdx.y * parts * columns;
  float sum = 0.0f;
  for (std::int64_t one = slice; one < parts && column < columns; one += kSlices) {
    sum += from[one * columns + column];
  }
  slices[slice][lane] = sum;
  __syncthreads();
  // A warp has the slices of one column now.
  sum = over_warp(make_float2(slices[lane][slice], 0.0f)).x;
  const std::int64_t own = blockIdx.x * static_cast<std::int64_t>(kLanes) + slice;
  if (lane == 0 && own < columns) {
    (blockIdx.y == 0 ? of_weight : of_bias)[own] = T(sum);
  }
}

// A number of threads for a row, and how many packs each of them keeps.
template <int kThreads_, int kEach_>
struct Share {
  static constexpr int kThreads = kThreads_;
  static constexpr int kEach = kEach_;
};

// Calls `call` with the plan for rows of a length, by the first of the shares that is large enough. `aligned`: whether
// all rows can be read 16 bytes at a time.
template <typename T, class Result, class... Shares, class Call>
Result planned(std::int64_t columns, bool aligned, Call call) {
  if (!aligned) {
    return call(Plan<T, false, 512, 0>());
  }
  Result result{};
  const auto fits = [&](auto share) {
    using S = decltype(share);
    if (columns > S::kThreads * S::kEach * Pack<T, true>::size) {
      return false;
    }
    result = call(Plan<T, true, S::kThreads, S::kEach>());
    return true;
  };
  return (fits(Shares()) || ...) ? result : call(Plan<T, true, 512, 0>());
}

// Each thread has something to do for any power of two of packs.
template <typename T, class Call>
int planned_forward(std::int64_t columns, bool aligned, Call call) {
  return planned<T, int, Share<32, 1>, Share<32, 2>, Share<128, 1>, Share<128, 2>, Share<512, 1>, Share<1024, 1>,
                 Share<1024, 2>>(columns, aligned, call);
}

// A thread keeps as many elements of the gradients of weight and bias in registers as there is room for.
template <typename T, class Result, class Call>
Result planned_backward(std::int64_t columns, bool aligned, Call call) {
  constexpr int kEach = kKeptBackward / Pack<T, true>::size;
  return planned<T, Result, Share<32, kEach>, Share<128, kEach>, Share<512, kEach>, Share<1024, kEach>>(
      columns, aligned, call);
}

template <class Result, class Call>
Result with_type(Type type, Call call) {
  switch (type) {
    case Type::float16:
      return call(__half());
    case Type::bfloat16:
      return call(__nv_bfloat16());
    default:
      return call(float());
  }
}

std::size_t size_of(Type type) { return type == Type::float32 ? 4 : 2; }

template <class... Pointers>
bool are_aligned(std::size_t row_bytes, Pointers... pointers) {
  return ((row_bytes | ... | reinterpret_cast<std::uintptr_t>(pointers)) & 15) == 0;
}

template <class P>
std::int64_t backward_rows(const Shape& shape) {
  constexpr std::int64_t kBlocks = kMultiprocessors * (kThreadsAtOnce / P::kBlock);
  return std::min((shape.rows + P::kRows - 1) / P::kRows, kBlocks) * P::kRows;
}

}  // namespace

int forward(Type type, const Forward& tensors, const Shape& shape, void* stream) {
  const bool aligned = are_aligned(shape.columns * size_of(type), tensors.out, tensors.sum, tensors.x, tensors.residual,
                                   tensors.weight, tensors.bias);
  return with_type<int>(type, [&](auto zero) -> int {
    return planned_forward<decltype(zero)>(shape.columns, aligned, [&](auto plan) -> int {
      using P = decltype(plan);
      const auto blocks = static_cast<unsigned>(std::min((shape.rows + P::kRows - 1) / P::kRows, kMaxBlocks));
      normalize<P><<<blocks, P::kBlock, 0, static_cast<cudaStream_t>(stream)>>>(tensors, shape);
      return cudaGetLastError();
    });
  });
}

int backward(Type type, const Backward& tensors, const Shape& shape, void* stream) {
  const auto on = static_cast<cudaStream_t>(stream);
  const bool aligned = are_aligned(shape.columns * size_of(type), tensors.grad_input, tensors.grad_out,
                                   tensors.grad_sum, tensors.sum, tensors.weight);
  return with_type<int>(type, [&](auto zero) -> int {
    using T = decltype(zero);
    return planned_backward<T, int>(shape.columns, aligned, [&](auto plan) -> int {
      using P = decltype(plan);
      const std::int64_t parts = backward_rows<P>(shape);
      differentiate<P><<<static_cast<unsigned>(parts / P::kRows), P::kBlock, 0, on>>>(tensors, shape);
      const dim3 blocks(static_cast<unsigned>((shape.columns + kLanes - 1) / kLanes), 2);
      add_up<T><<<blocks, kLanes * kSlices, 0, on>>>(static_cast<T*>(tensors.grad_weight),
                                                     static_cast<T*>(tensors.grad_bias), tensors.partial, parts,
                                                     shape.columns);
      return cudaGetLastError();
    });
  });
}

std::int64_t partial_rows(Type type, const Shape& shape) {
  return with_type<std::int64_t>(type, [&](auto zero) -> std::int64_t {
    using T = decltype(zero);
    const auto rows = [&](auto plan) -> std::int64_t { return backward_rows<decltype(plan)>(shape); };
    return std::max(planned_backward<T, std::int64_t>(shape.columns, true, rows),
                    planned_backward<T, std::int64_t>(shape.columns, false, rows));
  });
}

}  // namespace [[ module ]]_impl
[% endif %]
