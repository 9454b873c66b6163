[% if cuda %]
// RoPE and SwiGLU.
#include <algorithm>
#include <initializer_list>
#include <type_traits>

#include "[[ module ]].h"
#include "packs.h"

namespace [[ module ]]_impl {
namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kMaxBlocks = 1 << 20;
constexpr std::int64_t kMaxDown = 65535;  // blocks in the second dimension of a grid

// As many angles as two packs of elements have pairs.
template <class Own, bool kWide>
struct alignas(kWide ? kPackBytes : sizeof(float)) Angles {
  float of[Own::size];
};

// A block has a position, a thread two packs of a head: of all queries and keys of the position, one after the other.
template <typename T, bool kWide, bool kInterleaved>
__global__ void __launch_bounds__(kThreads) turn(Rope tensors) {
  using Own = Pack<T, kWide>;
  const unsigned half = static_cast<unsigned>(tensors.size / 2 / Own::size);
  const auto queries = static_cast<unsigned>(tensors.of[0].heads);
  const unsigned count = (queries + static_cast<unsigned>(tensors.of[1].heads)) * half;
  const std::int64_t positions = tensors.batch * tensors.tokens;
  const float sign = tensors.inverse ? -1.0f : 1.0f;
  for (std::int64_t position = blockIdx.x; position < positions; position += gridDim.x) {
    const std::int64_t batch = position / tensors.tokens;
    const std::int64_t token = position - batch * tensors.tokens;
    const float* const cos = tensors.cos + batch * tensors.cos_strides[0] + token * tensors.cos_strides[1];
    const float* const sin = tensors.sin + batch * tensors.sin_strides[0] + token * tensors.sin_strides[1];
    for (unsigned i = threadIdx.x; i < count; i += blockDim.x) {
      const unsigned pack = i % half;
      const unsigned both = i / half;
      const bool is_key = both >= queries;
      const std::int64_t head = is_key ? both - queries : both;
      const Heads& of = is_key ? tensors.of[1] : tensors.of[0];
      const auto* const x = reinterpret_cast<const Own*>(static_cast<const T*>(of.x) + batch * of.strides[0] +
                                                         head * of.strides[1] + token * of.strides[2]);
      auto* const out =
          reinterpret_cast<Own*>(static_cast<T*>(of.out) + (position * of.heads + head) * tensors.size);
      const unsigned first = kInterleaved ? 2 * pack : pack;
      const unsigned second = kInterleaved ? first + 1 : pack + half;
      Own own[2] = {x[first], x[second]};
      const auto along = reinterpret_cast<const Angles<Own, kWide>*>(cos)[pack];
      const auto across = reinterpret_cast<const Angles<Own, kWide>*>(sin)[pack];
#pragma unroll
      for (int k = 0; k < Own::size; ++k) {
        // With pairs side by side, pair k is elements 2 k and 2 k + 1 of both packs.
        T& left = kInterleaved ? own[2 * k / Own::size].of[2 * k % Own::size] : own[0].of[k];
        T& right = kInterleaved ? own[(2 * k + 1) / Own::size].of[(2 * k + 1) % Own::size] : own[1].of[k];
        const float a = static_cast<float>(left);
        const float b = static_cast<float>(right);
        left = T(a * along.of[k] - b * (sign * across.of[k]));
        right = T(b * along.of[k] + a * (sign * across.of[k]));
      }
      out[first] = own[0];
      out[second] = own[1];
    }
  }
}

__device__ float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

// Calls act(std::true_type(), row, pack) for the packs of all rows, and act(std::false_type(), row, element) for the
// elements that are left over.
template <class Act>
__device__ __forceinline__ void each_of(const Shape& shape, std::int64_t packs, int size, Act act) {
  const std::int64_t first = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x;
  const std::int64_t step = gridDim.x * static_cast<std::int64_t>(blockDim.x);
  std::int64_t row = blockIdx.y * static_cast<std::int64_t>(blockDim.y) + threadIdx.y;
  for (; row < shape.rows; row += gridDim.y * static_cast<std::int64_t>(blockDim.y)) {
    for (std::int64_t i = first; i < packs; i += step) {
      act(std::true_type(), row, i);
    }
    for (std::int64_t i = packs * size + first; i < shape.columns; i += step) {
      act(std::false_type(), row, i);
    }
  }
}

template <typename T>
__global__ void __launch_bounds__(kThreads) gate(Swiglu tensors, Shape shape, std::int64_t packs) {
  each_of(shape, packs, Pack<T, true>::size, [&](auto wide, std::int64_t row, std::int64_t i) {
    using Own = Pack<T, decltype(wide)::value>;
    const Own gates = row_of<const Own>(tensors.gate, row)[i];
    const Own ups = row_of<const Own>(tensors.up, row)[i];
    Own own;
#pragma unroll
    for (int k = 0; k < Own::size; ++k) {
      const float x = static_cast<float>(gates.of[k]);
      own.of[k] = T(x * sigmoid(x) * static_cast<float>(ups.of[k]));
    }
    row_of<Own>(tensors.out, row)[i] = own;
  });
}

template <typename T>
__global__ void __launch_bounds__(kThreads) gate_backward(SwigluBackward tensors, Shape shape, std::int64_t packs) {
  each_of(shape, packs, Pack<T, true>::size, [&](auto wide, std::int64_t row, std::int64_t i) {
    using Own = Pack<T, decltype(wide)::value>;
    const Own grads = row_of<const Own>(tensors.grad_out, row)[i];
    const Own gates = row_of<const Own>(tensors.gate, row)[i];
    const Own ups = row_of<const Own>(tensors.up, row)[i];
    Own of_gate;
    Own of_up;
#pragma unroll
    for (int k = 0; k < Own::size; ++k) {
      const float x = static_cast<float>(gates.of[k]);
      const float by = static_cast<float>(grads.of[k]);
      const float share = sigmoid(x);
      of_gate.of[k] = T(by * static_cast<float>(ups.of[k]) * (share * (1.0f + x * (1.0f - share))));
      of_up.of[k] = T(by * (x * share));
    }
    row_of<Own>(tensors.grad_gate, row)[i] = of_gate;
    row_of<Own>(tensors.grad_up, row)[i] = of_up;
  });
}

// Calls launch(blocks, threads, packs): packs are those of a row, 0 if not all rows begin where one can be read.
template <typename T, class Launch>
int with_grid(const Shape& shape, std::initializer_list<Rows> tensors, Launch launch) {
  // A single row begins at its address, whatever its stride.
  bool wide = true;
  for (const Rows& rows : tensors) {
    wide = wide && is_aligned(rows.at) && (shape.rows == 1 || are_packs<T>(rows.stride));
  }
  const std::int64_t packs = wide ? shape.columns / Pack<T, true>::size : 0;
  const std::int64_t work = std::max(packs, shape.columns - packs * Pack<T, true>::size);
  unsigned across = 1;
  while (across < kThreads && across < work) {
    across *= 2;
  }
  const dim3 threads(across, kThreads / across);
  const dim3 blocks(static_cast<unsigned>(std::min((work + across - 1) / across, kMaxBlocks)),
                    static_cast<unsigned>(std::min((shape.rows + threads.y - 1) / threads.y, kMaxDown)));
  launch(blocks, threads, packs);
  return cudaGetLastError();
}

// Dense rows are a single one to the kernels: its packs need not end with a row.
Shape merged(const Shape& shape, std::initializer_list<Rows> tensors) {
  const bool dense =
      std::all_of(tensors.begin(), tensors.end(), [&](const Rows& rows) { return rows.stride == shape.columns; });
  return dense ? Shape{1, shape.rows * shape.columns} : shape;
}

template <typename T, bool kInterleaved>
int turn_as(const Rope& tensors, cudaStream_t stream) {
  bool wide = are_packs<T>(tensors.size / 2) && is_aligned(tensors.cos) && is_aligned(tensors.sin) &&
              are_packs<float>(tensors.cos_strides[0] | tensors.cos_strides[1] | tensors.sin_strides[0] |
                               tensors.sin_strides[1]);
  for (const Heads& of : tensors.of) {
    wide = wide && is_aligned(of.x) && is_aligned(of.out) &&
           std::all_of(of.strides, of.strides + 3, [](std::int64_t stride) { return are_packs<T>(stride); });
  }
  const std::int64_t pairs = (tensors.of[0].heads + tensors.of[1].heads) * (tensors.size / 2);
  const std::int64_t work = wide ? pairs / Pack<T, true>::size : pairs;
  const std::int64_t rounds = (work + kThreads - 1) / kThreads;
  const std::int64_t threads = ((work + rounds - 1) / rounds + kLanes - 1) / kLanes * kLanes;
  const auto blocks = static_cast<unsigned>(std::min(tensors.batch * tensors.tokens, kMaxBlocks));
  if (wide) {
    turn<T, true, kInterleaved><<<blocks, static_cast<unsigned>(threads), 0, stream>>>(tensors);
  } else {
    turn<T, false, kInterleaved><<<blocks, static_cast<unsigned>(threads), 0, stream>>>(tensors);
  }
  return cudaGetLastError();
}

}  // namespace

int rope(Type type, const Rope& tensors, void* stream) {
  const auto on = static_cast<cudaStream_t>(stream);
  return with_type(type, [&](auto zero) {
    using T = decltype(zero);
    return tensors.interleaved ? turn_as<T, true>(tensors, on) : turn_as<T, false>(tensors, on);
  });
}

int swiglu(Type type, const Swiglu& tensors, const Shape& shape, void* stream) {
  return with_type(type, [&](auto zero) {
    using T = decltype(zero);
    const std::initializer_list<Rows> all = {tensors.out, tensors.gate, tensors.up};
    const Shape rows = merged(shape, all);
    return with_grid<T>(rows, all, [&](dim3 blocks, dim3 threads, std::int64_t packs) {
      gate<T><<<blocks, threads, 0, static_cast<cudaStream_t>(stream)>>>(tensors, rows, packs);
    });
  });
}

int swiglu_backward(Type type, const SwigluBackward& tensors, const Shape& shape, void* stream) {
  return with_type(type, [&](auto zero) {
    using T = decltype(zero);
    const std::initializer_list<Rows> all = {tensors.grad_gate, tensors.grad_up, tensors.grad_out, tensors.gate,
                                             tensors.up};
    const Shape rows = merged(shape, all);
    return with_grid<T>(rows, all, [&](dim3 blocks, dim3 threads, std::int64_t packs) {
      gate_backward<T><<<blocks, threads, 0, static_cast<cudaStream_t>(stream)>>>(tensors, rows, packs);
    });
  });
}

}  // namespace [[ module ]]_impl
[% endif %]
