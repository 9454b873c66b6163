#include "transformer.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <initializer_list>
#include <type_traits>

namespace transformer_impl {
namespace {

constexpr int kLanes = 32;
constexpr int kPackBytes = 16;
constexpr int kMaxThreads = 1024;
constexpr int kShortColumns = 256;  // a row of so many is a warp's, and a block has kShortRows of them
constexpr int kShortRows = 8;
constexpr int kSimpleThreads = 256;
constexpr std::int64_t kMaxBlocks = 1 << 20;
constexpr std::int64_t kPartBlocks = 264;  // that add up gradients of the weight: two for each of 132 multiprocessors

// What a thread loads or stores at once: 16 bytes if all rows are aligned to that, else one element.
template <typename T, bool kWide>
struct alignas(kWide ? kPackBytes : sizeof(T)) Pack {
  static constexpr int size = kWide ? kPackBytes / static_cast<int>(sizeof(T)) : 1;
  T of[size];
};

bool aligned(std::initializer_list<const void*> pointers) {
  return std::all_of(pointers.begin(), pointers.end(), [](const void* pointer) {
    return reinterpret_cast<std::uintptr_t>(pointer) % kPackBytes == 0;
  });
}

template <typename T>
bool whole_packs(std::int64_t count) {
  return count * static_cast<std::int64_t>(sizeof(T)) % kPackBytes == 0;
}

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
__global__ void __launch_bounds__(kMaxThreads) norm_kernel(Norm tensors, Shape shape) {
  using Own = Pack<T, kWide>;
  const std::int64_t packs = shape.columns / Own::size;
  const auto* const weight = static_cast<const Own*>(tensors.weight);
  const std::int64_t row = blockIdx.x * static_cast<std::int64_t>(blockDim.y) + threadIdx.y;
  if (row >= shape.rows) {
    return;  // the whole warp, and only where a row has no more than that
  }
  const Own* const x = static_cast<const Own*>(tensors.x) + row * packs;
  const Own* const residual = tensors.residual ? static_cast<const Own*>(tensors.residual) + row * packs : nullptr;
  float kept[kEach > 0 ? kEach : 1][Own::size];
  const auto read = [&](int i, std::int64_t pack) {
    const Own own = x[pack];
#pragma unroll
    for (int k = 0; k < Own::size; ++k) {
      kept[i][k] = static_cast<float>(own.of[k]);
    }
    if (residual) {
      const Own other = residual[pack];
#pragma unroll
      for (int k = 0; k < Own::size; ++k) {
        kept[i][k] += static_cast<float>(other.of[k]);
      }
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
    if (residual) {
      (static_cast<Own*>(tensors.sum) + row * packs)[pack] = rounded;
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
    (static_cast<Own*>(tensors.out) + row * packs)[pack] = own;
  });
  if (threadIdx.x == 0) {
    tensors.rstd[row] = rstd;
  }
}

// The gradients of rows, and that of the weight over the rows that the same threads have.
template <typename T, bool kWide, int kEach>
__global__ void __launch_bounds__(kMaxThreads) norm_backward_kernel(NormBackward tensors, Shape shape) {
  using Own = Pack<T, kWide>;
  constexpr int kKept = kEach > 0 ? kEach : 1;
  const std::int64_t packs = shape.columns / Own::size;
  const auto* const weight = static_cast<const Own*>(tensors.weight);
  const std::int64_t first = blockIdx.x * static_cast<std::int64_t>(blockDim.y) + threadIdx.y;
  const std::int64_t step = gridDim.x * static_cast<std::int64_t>(blockDim.y);
  float* const of_weight = tensors.partial + first * shape.columns;
  float weights[kKept][Own::size] = {};
  if constexpr (kEach == 0) {
    each_pack<kEach>(packs, [&](int, std::int64_t pack) {
      for (int k = 0; k < Own::size; ++k) {
        of_weight[pack * Own::size + k] = 0.0f;
      }
    });
  }
  for (std::int64_t row = first; row < shape.rows; row += step) {
    const Own* const grad_out = static_cast<const Own*>(tensors.grad_out) + row * packs;
    const Own* const grad_sum = tensors.grad_sum ? static_cast<const Own*>(tensors.grad_sum) + row * packs : nullptr;
    const Own* const total = static_cast<const Own*>(tensors.total) + row * packs;
    const float rstd = tensors.rstd[row];
    Own grads[kKept];
    Own values[kKept];
    const auto read = [&](int i, std::int64_t pack) {
      grads[i] = grad_out[pack];
      values[i] = total[pack];
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
      Own other = {};
      if (grad_sum) {
        other = grad_sum[pack];
      }
      Own own;
#pragma unroll
      for (int k = 0; k < Own::size; ++k) {
        const float normal = static_cast<float>(values[i].of[k]) * rstd;
        const float grad = static_cast<float>(grads[i].of[k]) * static_cast<float>(scale.of[k]);
        const float more = grad_sum ? static_cast<float>(other.of[k]) : 0.0f;
        own.of[k] = T(rstd * (grad - normal * mean) + more);
      }
      (static_cast<Own*>(tensors.grad_input) + row * packs)[pack] = own;
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
__global__ void add_parts(T* out, const float* partial, std::int64_t parts, std::int64_t columns) {
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

// A thread turns a pack of the first half of a head, and that of the second half.
template <typename T, bool kWide>
__global__ void rope_kernel(Rope tensors, Heads heads) {
  using Own = Pack<T, kWide>;
  const std::int64_t half = heads.size / 2 / Own::size;
  const std::int64_t count = heads.batch * heads.tokens * heads.heads * half;
  const std::int64_t step = gridDim.x * static_cast<std::int64_t>(blockDim.x);
  for (std::int64_t i = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x; i < count; i += step) {
    const std::int64_t pack = i % half;
    const std::int64_t row = i / half;
    const std::int64_t head = row % heads.heads;
    const std::int64_t position = row / heads.heads;
    const std::int64_t batch = position / heads.tokens;
    const std::int64_t token = position % heads.tokens;
    const std::int64_t from = batch * heads.in_strides[0] + head * heads.in_strides[1] + token * heads.in_strides[2];
    const auto* const x = reinterpret_cast<const Own*>(static_cast<const T*>(tensors.x) + from);
    const std::int64_t angle = (tensors.batched ? position : token) * 2 * half + pack;
    const auto* const cos = static_cast<const Own*>(tensors.cos) + angle;
    const auto* const sin = static_cast<const Own*>(tensors.sin) + angle;
    const Own left = x[pack];
    const Own right = x[pack + half];
    const Own left_cos = cos[0];
    const Own right_cos = cos[half];
    const Own left_sin = sin[0];
    const Own right_sin = sin[half];
    Own first;
    Own second;
#pragma unroll
    for (int k = 0; k < Own::size; ++k) {
      const float a = static_cast<float>(left.of[k]);
      const float b = static_cast<float>(right.of[k]);
      const float into_first = static_cast<float>(tensors.inverse ? right_sin.of[k] : left_sin.of[k]);
      const float into_second = static_cast<float>(tensors.inverse ? left_sin.of[k] : right_sin.of[k]);
      const float turn = tensors.inverse ? -1.0f : 1.0f;
      first.of[k] = T(a * static_cast<float>(left_cos.of[k]) - turn * b * into_first);
      second.of[k] = T(b * static_cast<float>(right_cos.of[k]) + turn * a * into_second);
    }
    Own* const out = static_cast<Own*>(tensors.out) + row * 2 * half + pack;
    out[0] = first;
    out[half] = second;
  }
}

__device__ float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

template <typename T, bool kWide>
__global__ void swiglu_kernel(Swiglu tensors, std::int64_t packs) {
  using Own = Pack<T, kWide>;
  const std::int64_t step = gridDim.x * static_cast<std::int64_t>(blockDim.x);
  for (std::int64_t i = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x; i < packs; i += step) {
    const Own gate = static_cast<const Own*>(tensors.gate)[i];
    const Own up = static_cast<const Own*>(tensors.up)[i];
    Own own;
#pragma unroll
    for (int k = 0; k < Own::size; ++k) {
      const float x = static_cast<float>(gate.of[k]);
      own.of[k] = T(x * sigmoid(x) * static_cast<float>(up.of[k]));
    }
    static_cast<Own*>(tensors.out)[i] = own;
  }
}

template <typename T, bool kWide>
__global__ void swiglu_backward_kernel(SwigluBackward tensors, std::int64_t packs) {
  using Own = Pack<T, kWide>;
  const std::int64_t step = gridDim.x * static_cast<std::int64_t>(blockDim.x);
  for (std::int64_t i = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x; i < packs; i += step) {
    const Own grad = static_cast<const Own*>(tensors.grad_out)[i];
    const Own gate = static_cast<const Own*>(tensors.gate)[i];
    const Own up = static_cast<const Own*>(tensors.up)[i];
    Own of_gate;
    Own of_up;
#pragma unroll
    for (int k = 0; k < Own::size; ++k) {
      const float x = static_cast<float>(gate.of[k]);
      const float by = static_cast<float>(grad.of[k]);
      const float share = sigmoid(x);
      of_gate.of[k] = T(by * static_cast<float>(up.of[k]) * (share * (1.0f + x * (1.0f - share))));
      of_up.of[k] = T(by * (x * share));
    }
    static_cast<Own*>(tensors.grad_gate)[i] = of_gate;
    static_cast<Own*>(tensors.grad_up)[i] = of_up;
  }
}

unsigned blocks_for(std::int64_t work) {
  return static_cast<unsigned>(std::min((work + kSimpleThreads - 1) / kSimpleThreads, kMaxBlocks));
}

int rows_of_block(const Shape& shape) { return shape.columns <= kShortColumns ? kShortRows : 1; }

dim3 block_for(const Shape& shape, std::int64_t packs) {
  if (rows_of_block(shape) > 1) {
    return dim3(kLanes, kShortRows);
  }
  const std::int64_t each = (packs + kMaxThreads - 1) / kMaxThreads;
  const std::int64_t threads = each > 4 ? kMaxThreads : (packs + each - 1) / each;
  return dim3(static_cast<unsigned>((threads + kLanes - 1) / kLanes * kLanes));
}

// Calls function(wide, each) with constants: whether packs are wide, and how many of them a thread has; 0 for any number.
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

template <typename T>
int norm_as(const Norm& tensors, const Shape& shape, cudaStream_t stream) {
  const bool wide = whole_packs<T>(shape.columns) &&
                    aligned({tensors.out, tensors.sum, tensors.x, tensors.residual, tensors.weight});
  return with_plan<T>(shape, wide, [&](auto is_wide, auto each, dim3 block) {
    const auto blocks = static_cast<unsigned>((shape.rows + block.y - 1) / block.y);
    norm_kernel<T, decltype(is_wide)::value, decltype(each)::value><<<blocks, block, 0, stream>>>(tensors, shape);
  });
}

template <typename T>
int norm_backward_as(const NormBackward& tensors, const Shape& shape, cudaStream_t stream) {
  const bool wide =
      whole_packs<T>(shape.columns) &&
      aligned({tensors.grad_input, tensors.grad_out, tensors.grad_sum, tensors.total, tensors.weight});
  const std::int64_t parts = partial_rows(shape);
  const int result = with_plan<T>(shape, wide, [&](auto is_wide, auto each, dim3 block) {
    norm_backward_kernel<T, decltype(is_wide)::value, decltype(each)::value>
        <<<static_cast<unsigned>(parts / block.y), block, 0, stream>>>(tensors, shape);
  });
  if (result != cudaSuccess) {
    return result;
  }
  const auto blocks = static_cast<unsigned>((shape.columns + kLanes - 1) / kLanes);
  add_parts<T><<<blocks, dim3(kLanes, kLanes), 0, stream>>>(static_cast<T*>(tensors.grad_weight), tensors.partial,
                                                            parts, shape.columns);
  return cudaGetLastError();
}

template <typename T>
int rope_as(const Rope& tensors, const Heads& heads, cudaStream_t stream) {
  const bool wide = whole_packs<T>(heads.size / 2) && whole_packs<T>(heads.in_strides[0]) &&
                    whole_packs<T>(heads.in_strides[1]) && whole_packs<T>(heads.in_strides[2]) &&
                    aligned({tensors.out, tensors.x, tensors.cos, tensors.sin});
  const std::int64_t half = heads.size / 2 / (wide ? Pack<T, true>::size : 1);
  const unsigned blocks = blocks_for(heads.batch * heads.tokens * heads.heads * half);
  if (wide) {
    rope_kernel<T, true><<<blocks, kSimpleThreads, 0, stream>>>(tensors, heads);
  } else {
    rope_kernel<T, false><<<blocks, kSimpleThreads, 0, stream>>>(tensors, heads);
  }
  return cudaGetLastError();
}

template <typename T>
int swiglu_as(const Swiglu& tensors, std::int64_t count, cudaStream_t stream) {
  if (whole_packs<T>(count) && aligned({tensors.out, tensors.gate, tensors.up})) {
    const std::int64_t packs = count / Pack<T, true>::size;
    swiglu_kernel<T, true><<<blocks_for(packs), kSimpleThreads, 0, stream>>>(tensors, packs);
  } else {
    swiglu_kernel<T, false><<<blocks_for(count), kSimpleThreads, 0, stream>>>(tensors, count);
  }
  return cudaGetLastError();
}

template <typename T>
int swiglu_backward_as(const SwigluBackward& tensors, std::int64_t count, cudaStream_t stream) {
  if (whole_packs<T>(count) &&
      aligned({tensors.grad_gate, tensors.grad_up, tensors.grad_out, tensors.gate, tensors.up})) {
    const std::int64_t packs = count / Pack<T, true>::size;
    swiglu_backward_kernel<T, true><<<blocks_for(packs), kSimpleThreads, 0, stream>>>(tensors, packs);
  } else {
    swiglu_backward_kernel<T, false><<<blocks_for(count), kSimpleThreads, 0, stream>>>(tensors, count);
  }
  return cudaGetLastError();
}

// Calls `function` with a null pointer to the type.
template <class Function>
int with_type(Type type, Function function) {
  switch (type) {
    case Type::float32:
      return function(static_cast<float*>(nullptr));
    case Type::float16:
      return function(static_cast<__half*>(nullptr));
    case Type::bfloat16:
      return function(static_cast<__nv_bfloat16*>(nullptr));
  }
  return cudaErrorInvalidValue;
}

}  // namespace

int norm(Type type, const Norm& tensors, const Shape& shape, void* stream) {
  return with_type(type, [&](auto* of) {
    return norm_as<std::remove_pointer_t<decltype(of)>>(tensors, shape, static_cast<cudaStream_t>(stream));
  });
}

int norm_backward(Type type, const NormBackward& tensors, const Shape& shape, void* stream) {
  return with_type(type, [&](auto* of) {
    return norm_backward_as<std::remove_pointer_t<decltype(of)>>(tensors, shape, static_cast<cudaStream_t>(stream));
  });
}

int rope(Type type, const Rope& tensors, const Heads& heads, void* stream) {
  return with_type(type, [&](auto* of) {
    return rope_as<std::remove_pointer_t<decltype(of)>>(tensors, heads, static_cast<cudaStream_t>(stream));
  });
}

int swiglu(Type type, const Swiglu& tensors, std::int64_t count, void* stream) {
  return with_type(type, [&](auto* of) {
    return swiglu_as<std::remove_pointer_t<decltype(of)>>(tensors, count, static_cast<cudaStream_t>(stream));
  });
}

int swiglu_backward(Type type, const SwigluBackward& tensors, std::int64_t count, void* stream) {
  return with_type(type, [&](auto* of) {
    return swiglu_backward_as<std::remove_pointer_t<decltype(of)>>(tensors, count, static_cast<cudaStream_t>(stream));
  });
}

std::int64_t partial_rows(const Shape& shape) {
  const std::int64_t rows = rows_of_block(shape);
  return std::min((shape.rows + rows - 1) / rows, kPartBlocks) * rows;
}

}  // namespace transformer_impl
