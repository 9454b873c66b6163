[% if cuda %]
// Gradients of attention on a Hopper GPU: the kernels, for tensors of four dimensions and for packed sequences.
#pragma once

#include "maps.h"
#include "sequences.h"
#include "warpgroup.h"

namespace [[ module ]]_impl {
namespace {
[% raw %]

// A block has 128 keys, 64 for each of two warpgroups, and goes over the queries that see them, 64 at a time. It keeps
// the gradients of its keys and values, and adds to those of the queries, which are float32 in the scratch memory.
constexpr int kKeys = 128;
constexpr int kQueries = 64;
constexpr int kWidth = 128;
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

struct Problem {
  Backward tensors;
  float* of_queries;
  float* lse;    // in powers of two, and rows of no query: infinite, so that all their weights are 0
  float* delta;  // the sum of grad_out * out
  int batch;
  int heads;
  int kv_heads;
  int queries;
  int keys;
  int side_by_side;
  float scale;

  __host__ __device__ int steps() const { return (queries + kQueries - 1) / kQueries; }
};

// What a block computes.
template <bool kCausal>
struct Place {
  int first;  // key
  int kv_head;
  int batch;
  int step;  // the first one whose queries see a key

  __device__ explicit Place(const Problem& problem) {
    const int down = (problem.keys + kKeys - 1) / kKeys;
    const int section = blockIdx.x / (problem.side_by_side * down);
    const int within = blockIdx.x % (problem.side_by_side * down);
    const int pairs = problem.batch * problem.kv_heads;
    const int across = min(problem.side_by_side, pairs - section * problem.side_by_side);
    const int pair = section * problem.side_by_side + within % across;
    first = within / across * kKeys;
    batch = pair / problem.kv_heads;
    kv_head = pair % problem.kv_heads;
    step = kCausal ? max(0, first - (problem.keys - problem.queries)) / kQueries : 0;
  }
};

template <bool kCausal>
__device__ void produce(Memory& memory, const CUtensorMap& q, const CUtensorMap& grad, const CUtensorMap& k,
                        const CUtensorMap& v, const Problem& problem) {
  const Place<kCausal> place(problem);
  if (place.step >= problem.steps()) {
    return;
  }
  arrive_and_expect(memory.has_keys, 2 * kKeyBytes);
  load(memory.keys, k, place.first, place.kv_head, place.batch, memory.has_keys);
  load(memory.values, v, place.first, place.kv_head, place.batch, memory.has_keys);
  Turn<kStages> turn;
  const int group = problem.heads / problem.kv_heads;
  for (int head = place.kv_head * group; head < (place.kv_head + 1) * group; ++head) {
    const std::int64_t pair = static_cast<std::int64_t>(place.batch) * problem.heads + head;
    for (int step = place.step; step < problem.steps(); ++step, turn.next()) {
      std::uint64_t& has = memory.has_queries[turn.stage];
      Stage& stage = memory.stages[turn.stage];
      const std::int64_t row = (pair * problem.steps() + step) * kQueries;
      wait(memory.needs_queries[turn.stage], turn.phase ^ 1);
      arrive_and_expect(has, 2 * kQueryBytes + 2 * kStatisticBytes);
      load(stage.queries, q, step * kQueries, head, place.batch, has);
      load(memory.lse[turn.stage], problem.lse + row, kStatisticBytes, has);
      load(stage.grads, grad, step * kQueries, head, place.batch, has);
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

template <typename T, bool kCausal>
__device__ void consume(Memory& memory, const Problem& problem) {
  using Scores = Product<T, kQueries>;
  using Sums = Product<T, kWidth>;
  using OfQueries = Product<T, kWidth / 2>;
  const Place<kCausal> place(problem);
  const int consumer = threadIdx.x / kWarpgroup - 1;
  const int lane = threadIdx.x % 32;
  const int row = consumer * 64 + threadIdx.x % kWarpgroup / 32 * 16 + lane / 4;
  const int key = place.first + row;
  const int ahead = problem.keys - problem.queries;
  const int group = problem.heads / problem.kv_heads;
  const float scale = problem.scale * 1.4426950408889634f;  // log2(e)
  const unsigned char* const keys = memory.keys + consumer * 64 * kSwizzled;
  const unsigned char* const values = memory.values + consumer * 64 * kSwizzled;
  float of_keys[kSums] = {};
  float of_values[kSums] = {};
  Turn<kStages> turn;
  int buffer = 0;
  if (place.step < problem.steps()) {
    wait(memory.has_keys, 0);
  }
  for (int head = place.kv_head * group; head < (place.kv_head + 1) * group; ++head) {
    const std::int64_t pair = static_cast<std::int64_t>(place.batch) * problem.heads + head;
    for (int step = place.step; step < problem.steps(); ++step, turn.next(), buffer ^= 1) {
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
      if (place.first + kKeys > problem.keys || (kCausal && place.first + kKeys - 1 > first + ahead)) {
#pragma unroll
        for (int i = 0; i < kScores; ++i) {
          const int of = key + i / 2 % 2 * 8;
          const int query = first + i / 4 * 8 + lane % 4 * 2 + i % 2;
          if (of >= problem.keys || (kCausal && of > query + ahead)) {
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
      float* const sums = problem.of_queries + (pair * problem.steps() + step) * kQueries * kWidth +
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
    if (key + 8 * half < problem.keys) {
      store<T>(problem.tensors.grad_k, place.batch, place.kv_head, key + 8 * half, of_keys + 2 * half, problem.scale);
      store<T>(problem.tensors.grad_v, place.batch, place.kv_head, key + 8 * half, of_values + 2 * half, 1.0f);
    }
  }
}

template <typename T, bool kCausal>
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
      produce<kCausal>(memory, q, grad, k, v, problem);
    }
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
    consume<T, kCausal>(memory, problem);
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
template <typename T>
__global__ void __launch_bounds__(256) prepare(const __grid_constant__ Problem problem) {
  const int rows = problem.steps() * kQueries;
  const int lane = threadIdx.x % 32;
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * 8 + threadIdx.x / 32;
  const std::int64_t pair = row / rows;
  const std::int64_t query = row % rows;
  if (pair >= static_cast<std::int64_t>(problem.batch) * problem.heads) {
    return;
  }
  float sum = 0.0f;
  float lse = INFINITY;
  if (query < problem.queries) {
    const auto at = [&](const View& view) {
      return static_cast<const std::uint16_t*>(view.at) + pair / problem.heads * view.batch +
             pair % problem.heads * view.head + query * view.row;
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
    const float own = problem.tensors.lse[pair * problem.queries + query];
    lse = own == -INFINITY ? INFINITY : own * 1.4426950408889634f;
  }
  if (lane == 0) {
    problem.delta[row] = sum;
    problem.lse[row] = lse;
  }
}

// Rounds the gradients of queries.
template <typename T>
__global__ void __launch_bounds__(256) finish(const __grid_constant__ Problem problem) {
  const std::int64_t pair = blockIdx.x / problem.steps();
  const int step = blockIdx.x % problem.steps();
  const int half = threadIdx.x / kWarpgroup;
  const int thread = threadIdx.x % kWarpgroup;
  const int query = step * kQueries + thread / 32 * 16 + thread % 32 / 4;
  const float* const from = problem.of_queries + static_cast<std::int64_t>(blockIdx.x) * kQueries * kWidth +
                            half * kQueries * kWidth / 2 + thread * 4;
  const View& view = problem.tensors.grad_q;
  auto* const to = static_cast<std::uint16_t*>(view.at) + pair / problem.heads * view.batch +
                   pair % problem.heads * view.head + half * kWidth / 2 + thread % 4 * 2;
#pragma unroll
  for (int i = 0; i < kWidth / 16; ++i) {
    const float4 sums = *reinterpret_cast<const float4*>(from + i * 4 * kWarpgroup);
    if (query < problem.queries) {
      *reinterpret_cast<unsigned*>(to + query * view.row + 8 * i) =
          pair_of<T>(sums.x * problem.scale, sums.y * problem.scale);
    }
    if (query + 8 < problem.queries) {
      *reinterpret_cast<unsigned*>(to + (query + 8) * view.row + 8 * i) =
          pair_of<T>(sums.z * problem.scale, sums.w * problem.scale);
    }
  }
}
[% endraw %]

}  // namespace
}  // namespace [[ module ]]_impl
[% endif %]
