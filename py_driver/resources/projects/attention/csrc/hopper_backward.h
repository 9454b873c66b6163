[% if cuda %]
// Gradients of attention on a Hopper GPU: the kernels, for tensors of four dimensions and for packed sequences.
#pragma once

#include <algorithm>

#include "backward_tiles.h"
#include "hopper.h"
#include "warpgroup.h"

namespace [[ module ]]_impl {
namespace {
[% raw %]

// A block goes over the queries that see its keys. It keeps the gradients of its keys and values, and adds to those of
// the queries, which are float32 in the scratch memory.
constexpr int kStages = 2;
constexpr int kThreads = 3 * kWarpgroup;
constexpr int kKeyBytes = kKeys * kWidth * 2;
constexpr int kQueryBytes = kQueries * kWidth * 2;
constexpr int kStatisticBytes = kQueries * sizeof(float);
constexpr int kScores = kQueries / 2;  // of a thread
constexpr int kSums = kWidth / 2;

struct Stage {
  alignas(1024) unsigned char queries[kQueryBytes];
  unsigned char grads[kQueryBytes];
};

struct Memory {
  alignas(1024) unsigned char keys[kKeyBytes];
  unsigned char values[kKeyBytes];
  Stage stages[kStages];
  // The gradients of scores, a row for each key: two, so that one is read while the other is written.
  unsigned char of_scores[2][kKeys * kSwizzled];
  alignas(16) float lse[kStages][kQueries];
  float delta[kStages][kQueries];
  std::uint64_t has_keys;
  std::uint64_t has_queries[kStages];
  std::uint64_t needs_queries[kStages];
};

template <typename Place>
__device__ void produce(Memory& memory, const CUtensorMap& q, const CUtensorMap& grad, const CUtensorMap& k,
                        const CUtensorMap& v, const Problem& problem) {
  const Place place(problem);
  if (place.step >= place.steps(problem)) {
    return;
  }
  arrive_and_expect(memory.has_keys, 2 * kKeyBytes);
  place.load_keys(memory.keys, k, memory.has_keys);
  place.load_keys(memory.values, v, memory.has_keys);
  Turn<kStages> turn;
  const int group = problem.heads / problem.kv_heads;
  for (int head = place.kv_head * group; head < (place.kv_head + 1) * group; ++head) {
    const std::int64_t steps = place.first_step(problem, head);
    for (int step = place.step; step < place.steps(problem); ++step, turn.next()) {
      std::uint64_t& has = memory.has_queries[turn.stage];
      Stage& stage = memory.stages[turn.stage];
      const std::int64_t row = (steps + step) * kQueries;
      wait(memory.needs_queries[turn.stage], turn.phase ^ 1);
      arrive_and_expect(has, 2 * kQueryBytes + 2 * kStatisticBytes);
      place.load_queries(stage.queries, q, step, head, has);
      load(memory.lse[turn.stage], problem.lse + row, kStatisticBytes, has);
      place.load_queries(stage.grads, grad, step, head, has);
      load(memory.delta[turn.stage], problem.delta + row, kStatisticBytes, has);
    }
  }
}

// Two values of a statistic, for the columns of a thread's scores i and i + 1.
__device__ float2 statistic(const float* values, int i) {
  return *reinterpret_cast<const float2*>(values + i / 4 * 8 + threadIdx.x % 4 * 2);
}

__device__ void add_to(float* to, const float* values) {
  asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to), "f"(values[0]), "f"(values[1]),
               "f"(values[2]), "f"(values[3])
               : "memory");
}

template <typename T>
__device__ void store(const View& view, int batch, int head, int row, const float* sums, float factor) {
  auto* const to = static_cast<std::uint16_t*>(view.at) + batch * view.batch + head * view.head + row * view.row +
                   threadIdx.x % 4 * 2;
#pragma unroll
  for (int i = 0; i < kWidth / 8; ++i) {
    *reinterpret_cast<unsigned*>(to + 8 * i) = pair_of<T>(sums[4 * i] * factor, sums[4 * i + 1] * factor);
  }
}

template <typename T, typename Place>
__device__ void consume(Memory& memory, const Problem& problem) {
  using Scores = Product<T, kQueries>;
  using Sums = Product<T, kWidth>;
  using OfQueries = Product<T, kWidth / 2>;
  const Place place(problem);
  const int consumer = threadIdx.x / kWarpgroup - 1;
  const int lane = threadIdx.x % 32;
  const int row = consumer * 64 + threadIdx.x % kWarpgroup / 32 * 16 + lane / 4;
  const int key = place.first + row;
  const int all_keys = place.keys(problem);
  const int ahead = all_keys - place.queries(problem);
  const int group = problem.heads / problem.kv_heads;
  const float scale = problem.scale * 1.4426950408889634f;  // log2(e)
  const unsigned char* const keys = memory.keys + consumer * 64 * kSwizzled;
  const unsigned char* const values = memory.values + consumer * 64 * kSwizzled;
  float of_keys[kSums] = {};
  float of_values[kSums] = {};
  Turn<kStages> turn;
  int buffer = 0;
  if (place.step < place.steps(problem)) {
    wait(memory.has_keys, 0);
  }
  for (int head = place.kv_head * group; head < (place.kv_head + 1) * group; ++head) {
    const std::int64_t steps = place.first_step(problem, head);
    for (int step = place.step; step < place.steps(problem); ++step, turn.next(), buffer ^= 1) {
      const Stage& stage = memory.stages[turn.stage];
      const float* const lse = memory.lse[turn.stage];
      const float* const delta = memory.delta[turn.stage];
      // Scores and their weights lie key by key: of k @ q^T.
      float weights[kScores];
      float of_weights[kScores];
      wait(memory.has_queries[turn.stage], turn.phase);
      begin_products();
#pragma unroll
      for (int way = 0; way < kWidth / 16; ++way) {
        const int bytes = way % 4 * 32;
        Scores::template of<false, false>(weights, descriptor(keys + way / 4 * kKeys * kSwizzled + bytes),
                                          descriptor(stage.queries + way / 4 * kQueries * kSwizzled + bytes), way > 0);
      }
      end_products();
#pragma unroll
      for (int way = 0; way < kWidth / 16; ++way) {
        const int bytes = way % 4 * 32;
        Scores::template of<false, false>(of_weights, descriptor(values + way / 4 * kKeys * kSwizzled + bytes),
                                          descriptor(stage.grads + way / 4 * kQueries * kSwizzled + bytes), way > 0);
      }
      end_products();
      wait_for_products<1>();
      pin(weights);
      const int first = step * kQueries;
      if (place.first + kKeys > all_keys || (Place::kCausal && place.first + kKeys - 1 > first + ahead)) {
#pragma unroll
        for (int i = 0; i < kScores; ++i) {
          const int of = key + i / 2 % 2 * 8;
          const int query = first + i / 4 * 8 + lane % 4 * 2 + i % 2;
          if (of >= all_keys || (Place::kCausal && of > query + ahead)) {
            weights[i] = -INFINITY;
          }
        }
      }
#pragma unroll
      for (int i = 0; i < kScores; i += 2) {
        const float2 base = statistic(lse, i);
        weights[i] = power_of_two(fmaf(weights[i], scale, -base.x));
        weights[i + 1] = power_of_two(fmaf(weights[i + 1], scale, -base.y));
      }
      unsigned left[kScores / 2];
#pragma unroll
      for (int i = 0; i < kScores / 2; ++i) {
        left[i] = pair_of<T>(weights[2 * i], weights[2 * i + 1]);
      }
      wait_for_products<0>();
      pin(of_weights);
      begin_products();
#pragma unroll
      for (int way = 0; way < kQueries / 16; ++way) {
        Sums::template of<true>(of_values, left + 4 * way,
                                descriptor(stage.grads + way * 16 * kSwizzled, kQueries * kSwizzled));
      }
      end_products();
      unsigned of_scores[kScores / 2];
#pragma unroll
      for (int i = 0; i < kScores; i += 2) {
        const float2 less = statistic(delta, i);
        of_scores[i / 2] =
            pair_of<T>(weights[i] * (of_weights[i] - less.x), weights[i + 1] * (of_weights[i + 1] - less.y));
      }
      // As TMA would have swizzled them: both warpgroups need those of all keys.
      unsigned char* const to = memory.of_scores[buffer] + row * kSwizzled + lane % 4 * 4;
#pragma unroll
      for (int i = 0; i < kScores / 2; ++i) {
        *reinterpret_cast<unsigned*>(to + i % 2 * 8 * kSwizzled + ((i / 2 ^ lane / 4) << 4)) = of_scores[i];
      }
      asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
      named_wait(1, 2 * kWarpgroup);
      float of_queries[kSums / 2];
      begin_products();
#pragma unroll
      for (int way = 0; way < kKeys / 16; ++way) {
        // Each warpgroup has half of the width.
        OfQueries::template of<true, true>(
            of_queries, descriptor(memory.of_scores[buffer] + way * 16 * kSwizzled),
            descriptor(memory.keys + (consumer * kKeys + way * 16) * kSwizzled), way > 0);
      }
      end_products();
#pragma unroll
      for (int way = 0; way < kQueries / 16; ++way) {
        Sums::template of<true>(of_keys, of_scores + 4 * way,
                                descriptor(stage.queries + way * 16 * kSwizzled, kQueries * kSwizzled));
      }
      end_products();
      wait_for_products<1>();
      pin(of_queries);
      pin(of_values);
      pin(left);
      // Not row by row, but as the threads have them: `finish` knows.
      float* const sums = problem.of_queries + (steps + step) * kQueries * kWidth +
                          consumer * kQueries * kWidth / 2 + threadIdx.x % kWarpgroup * 4;
#pragma unroll
      for (int i = 0; i < kSums / 2; i += 4) {
        add_to(sums + i * kWarpgroup, of_queries + i);
      }
      wait_for_products<0>();
      pin(of_keys);
      pin(of_scores);
      if (lane == 0) {
        arrive(memory.needs_queries[turn.stage]);
      }
    }
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    if (key + 8 * half < all_keys) {
      const int to = place.key_row(key + 8 * half);
      store<T>(problem.tensors.grad_k, place.batch, place.kv_head, to, of_keys + 2 * half, problem.scale);
      store<T>(problem.tensors.grad_v, place.batch, place.kv_head, to, of_values + 2 * half, 1.0f);
    }
  }
}

template <typename T, typename Place>
__global__ void __launch_bounds__(kThreads, 1)
    differentiate_on_hopper(const __grid_constant__ CUtensorMap q, const __grid_constant__ CUtensorMap grad,
                            const __grid_constant__ CUtensorMap k, const __grid_constant__ CUtensorMap v,
                            const __grid_constant__ Problem problem) {
  extern __shared__ __align__(1024) unsigned char bytes[];
  Memory& memory = *reinterpret_cast<Memory*>(bytes);
  if (threadIdx.x == 0) {
    init(memory.has_keys, 1);
    for (int stage = 0; stage < kStages; ++stage) {
      init(memory.has_queries[stage], 1);
      init(memory.needs_queries[stage], 2 * kWarpgroup / 32);
    }
    // TMA is to see the barriers too.
    asm volatile("fence.proxy.async;" ::: "memory");
  }
  __syncthreads();
  if (threadIdx.x < kWarpgroup) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
    if (threadIdx.x == 0) {
      produce<Place>(memory, q, grad, k, v, problem);
    }
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
    consume<T, Place>(memory, problem);
  }
}

__device__ float product_of(__half, unsigned a, unsigned b) {
  const float2 x = __half22float2(*reinterpret_cast<__half2*>(&a));
  const float2 y = __half22float2(*reinterpret_cast<__half2*>(&b));
  return x.x * y.x + x.y * y.y;
}

__device__ float product_of(__nv_bfloat16, unsigned a, unsigned b) {
  const float2 x = __bfloat1622float2(*reinterpret_cast<__nv_bfloat162*>(&a));
  const float2 y = __bfloat1622float2(*reinterpret_cast<__nv_bfloat162*>(&b));
  return x.x * y.x + x.y * y.y;
}

// The statistics of a row, by a warp. There are as many rows as in all steps.
template <typename T, typename Step>
__global__ void __launch_bounds__(256) prepare(const __grid_constant__ Problem problem) {
  const int lane = threadIdx.x % 32;
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * 8 + threadIdx.x / 32;
  const Step step(problem, row / kQueries);
  const int query = step.first + static_cast<int>(row % kQueries);
  float sum = 0.0f;
  float lse = INFINITY;
  if (query < step.queries(problem)) {
    const auto at = [&](const View& view) {
      return static_cast<const std::uint16_t*>(view.at) + step.batch * view.batch + step.head * view.head +
             step.row(query) * view.row;
    };
    const std::uint16_t* const out = at(problem.tensors.out);
    const std::uint16_t* const grad = at(problem.tensors.grad_out);
#pragma unroll
    for (int i = 0; i < kWidth; i += 64) {
      sum += product_of(T(), *reinterpret_cast<const unsigned*>(out + i + 2 * lane),
                        *reinterpret_cast<const unsigned*>(grad + i + 2 * lane));
    }
#pragma unroll
    for (int lanes = 16; lanes > 0; lanes /= 2) {
      sum += __shfl_xor_sync(~0u, sum, lanes);
    }
    const std::int64_t pair = static_cast<std::int64_t>(step.batch) * problem.heads + step.head;
    const float own = problem.tensors.lse[pair * problem.queries + step.row(query)];
    lse = own == -INFINITY ? INFINITY : own * 1.4426950408889634f;
  }
  if (lane == 0) {
    problem.delta[row] = sum;
    problem.lse[row] = lse;
  }
}

// Rounds the gradients of queries.
template <typename T, typename Step>
__global__ void __launch_bounds__(256) finish(const __grid_constant__ Problem problem) {
  const Step step(problem, blockIdx.x);
  const int half = threadIdx.x / kWarpgroup;
  const int thread = threadIdx.x % kWarpgroup;
  const int query = step.first + thread / 32 * 16 + thread % 32 / 4;
  const float* const from = problem.of_queries + static_cast<std::int64_t>(blockIdx.x) * kQueries * kWidth +
                            half * kQueries * kWidth / 2 + thread * 4;
  const View& view = problem.tensors.grad_q;
  auto* const to = static_cast<std::uint16_t*>(view.at) + step.batch * view.batch + step.head * view.head +
                   step.row(query) * view.row + half * kWidth / 2 + thread % 4 * 2;
#pragma unroll
  for (int i = 0; i < kWidth / 16; ++i) {
    const float4 sums = *reinterpret_cast<const float4*>(from + i * 4 * kWarpgroup);
    if (query < step.queries(problem)) {
      *reinterpret_cast<unsigned*>(to + 8 * i) = pair_of<T>(sums.x * problem.scale, sums.y * problem.scale);
    }
    if (query + 8 < step.queries(problem)) {
      *reinterpret_cast<unsigned*>(to + 8 * view.row + 8 * i) =
          pair_of<T>(sums.z * problem.scale, sums.w * problem.scale);
    }
  }
}

// Computes all gradients. `steps`: those of all heads.
template <typename T, typename Place, typename Step>
int launch(const CUtensorMap& q, const CUtensorMap& grad, const CUtensorMap& k, const CUtensorMap& v,
           const Problem& problem, std::int64_t steps, std::int64_t blocks, cudaStream_t stream) {
  const auto function = differentiate_on_hopper<T, Place>;
  if (const cudaError_t error =
          cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(Memory))) {
    return error;
  }
  if (const cudaError_t error =
          cudaMemsetAsync(problem.of_queries, 0, steps * kQueries * kWidth * sizeof(float), stream)) {
    return error;
  }
  prepare<T, Step><<<static_cast<unsigned>(steps * kQueries / 8), 256, 0, stream>>>(problem);
  function<<<static_cast<unsigned>(blocks), kThreads, sizeof(Memory), stream>>>(q, grad, k, v, problem);
  finish<T, Step><<<static_cast<unsigned>(steps), 256, 0, stream>>>(problem);
  return cudaGetLastError();
}

// Whether the kernels are for what is given.
inline bool is_for_hopper(Type type, const Backward& tensors, const Sizes& sizes, std::int64_t steps) {
  constexpr std::int64_t kMost = std::int64_t{1} << 30;
  return !tensors.repeatable && Device().major == 9 && type != Type::float32 && sizes.width == kWidth &&
         sizes.keys > 0 && has_pairs(tensors.out) && has_pairs(tensors.grad_q) && has_pairs(tensors.grad_k) &&
         has_pairs(tensors.grad_v) && std::max({sizes.queries, sizes.keys, sizes.batch * sizes.heads}) <= kMost &&
         steps * kQueries <= kMost;
}

// Calls a function with a zero of the type.
template <typename Function>
int with_half(Type type, Function function) {
  return type == Type::float16 ? function(__half()) : function(__nv_bfloat16());
}
[% endraw %]

}  // namespace
}  // namespace [[ module ]]_impl
[% endif %]
