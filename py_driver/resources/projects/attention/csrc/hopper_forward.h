[% if cuda %]
// Attention on a Hopper GPU: the kernel, for tensors of four dimensions and for packed sequences.
#pragma once

#include <algorithm>

#include "forward_tiles.h"
#include "hopper.h"
#include "warpgroup.h"

namespace [[ module ]]_impl {
namespace {
[% raw %]

// A block has one warpgroup that loads and kConsumers that compute, each for 64 queries, against kKeys keys at a time:
// up to kStages of these steps are loaded ahead.
template <typename Element, int width, int consumers, int keys>
struct Plan {
  using T = Element;
  static constexpr int kWidth = width;
  static constexpr int kConsumers = consumers;
  static constexpr int kKeys = keys;
  static constexpr int kQueries = 64 * consumers;
  static constexpr int kStages = 2;
  static constexpr int kThreads = kWarpgroup * (1 + consumers);
  static constexpr int kQueryBytes = kQueries * width * 2;
  static constexpr int kKeyBytes = keys * width * 2;
  // Registers of a thread. The block waits for ever if all together need more than it began with: 65536 of 512 threads,
  // 168 for each of 384.
  static constexpr int kFew = consumers == 3 ? 32 : 24;
  static constexpr int kMany = consumers == 3 ? 160 : 240;
};

template <typename P, typename Place>
struct Memory {
  alignas(1024) unsigned char queries[P::kQueryBytes];
  alignas(1024) unsigned char keys[P::kStages][P::kKeyBytes];
  alignas(1024) unsigned char values[P::kStages][P::kKeyBytes];
  std::uint64_t has_queries;
  std::uint64_t needs_queries;
  std::uint64_t has_keys[P::kStages];
  std::uint64_t needs_keys[P::kStages];
  std::uint64_t has_values[P::kStages];
  std::uint64_t needs_values[P::kStages];
  std::uint64_t has_tile;
  std::uint64_t needs_tile;
  typename Place::Tile tiles[Place::kSlots];
};

template <typename P, typename Place>
__device__ void produce(Memory<P, Place>& memory, const CUtensorMap& q, const CUtensorMap& k, const CUtensorMap& v,
                        const Problem& problem) {
  Turn<P::kStages> keys;
  Turn<P::kStages> values;
  // The first round finds all empty: the phase before the first one counts as ended.
  unsigned queries_phase = 1;
  unsigned tile_phase = 1;
  for (int number = blockIdx.x;;) {
    const typename Place::Tile tile = Place::find(problem, number);
    wait(memory.needs_tile, tile_phase);
    tile_phase ^= 1;
    memory.tiles[tile_phase % Place::kSlots] = tile;
    arrive(memory.has_tile);
    if (Place::is_end(problem, tile)) {
      return;
    }
    const int next = gridDim.x + atomicAdd(problem.next_tile, 1);
    const Place& place = Place::of(problem, tile);
    number = next;
    if (place.steps == 0) {
      continue;
    }
    const int kv_head = place.head / problem.group;
    wait(memory.needs_queries, queries_phase);
    queries_phase ^= 1;
    arrive_and_expect(memory.has_queries, P::kQueryBytes);
    place.load_queries(memory.queries, q, memory.has_queries);
    // The values of a step are needed after the keys of the next.
    for (int step = place.steps - 1; step >= -1; --step) {
      if (step >= 0) {
        wait(memory.needs_keys[keys.stage], keys.phase ^ 1);
        arrive_and_expect(memory.has_keys[keys.stage], P::kKeyBytes);
        place.load_keys(memory.keys[keys.stage], k, step, kv_head, memory.has_keys[keys.stage]);
        keys.next();
      }
      if (step + 1 < place.steps) {
        wait(memory.needs_values[values.stage], values.phase ^ 1);
        arrive_and_expect(memory.has_values[values.stage], P::kKeyBytes);
        place.load_keys(memory.values[values.stage], v, step + 1, kv_head, memory.has_values[values.stage]);
        values.next();
      }
    }
  }
}

// The softmax of a thread's part of two rows so far: powers of two of the scores less the largest one.
template <int kScores>
struct Softmax {
  float largest[2] = {-INFINITY, -INFINITY};
  float sum[2] = {0.0f, 0.0f};
  float factor[2];  // what was added up before has to be multiplied with

  __device__ void add(float (&scores)[kScores], float scale) {
    // Two values of each row, so that one need not wait for the other.
    float larger[2][2] = {{largest[0], scores[1]}, {largest[1], scores[3]}};
#pragma unroll
    for (int i = 0; i < kScores; ++i) {
      larger[i / 2 % 2][i % 2] = fmaxf(larger[i / 2 % 2][i % 2], scores[i]);
    }
    float base[2];
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      // Four lanes share a row.
      float all = fmaxf(larger[row][0], larger[row][1]);
      all = fmaxf(all, __shfl_xor_sync(~0u, all, 1));
      all = fmaxf(all, __shfl_xor_sync(~0u, all, 2));
      base[row] = all == -INFINITY ? 0.0f : all * scale;
      factor[row] = power_of_two(largest[row] * scale - base[row]);
      largest[row] = all;
    }
    float parts[2][2] = {};
#pragma unroll
    for (int i = 0; i < kScores; ++i) {
      scores[i] = power_of_two(fmaf(scores[i], scale, -base[i / 2 % 2]));
      parts[i / 2 % 2][i % 2] += scores[i];
    }
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      sum[row] = sum[row] * factor[row] + (parts[row][0] + parts[row][1]);
    }
  }

  // ptxas moves a wait for WGMMA up, before all of `add`, and nothing would run beside the product. It does not move
  // one over this, which depends on each score and never happens: a sum is not negative.
  __device__ void end_before_wait() const {
    asm volatile(
        "{\n"
        ".reg .pred never;\n"
        "setp.lt.f32 never, %0, 0f00000000;\n"
        "@never nanosleep.u32 1;\n"
        "}\n" ::"f"(sum[0] + sum[1])
        : "memory");
  }
};

template <typename P, typename Place>
__device__ void consume(Memory<P, Place>& memory, const Problem& problem) {
  constexpr int kScores = P::kKeys / 2;
  constexpr int kSums = P::kWidth / 2;
  using Scores = Product<typename P::T, P::kKeys>;
  using Sums = Product<typename P::T, P::kWidth>;
  const int consumer = threadIdx.x / kWarpgroup - 1;
  const int lane = threadIdx.x % 32;
  const float scale = problem.scale * 1.4426950408889634f;  // log2(e)
  Turn<P::kStages> keys;
  Turn<P::kStages> values;
  unsigned queries_phase = 0;
  unsigned tile_phase = 0;
  // The consumers start their products in turn, so that one computes powers while another multiplies.
  const auto my_turn = [&] { named_wait(1 + consumer, 2 * kWarpgroup); };
  const auto your_turn = [&] { named_arrive(1 + (consumer + 1) % P::kConsumers, 2 * kWarpgroup); };
  if (consumer == P::kConsumers - 1) {
    your_turn();
  }
  while (true) {
    wait(memory.has_tile, tile_phase);
    const typename Place::Kept tile = memory.tiles[tile_phase % Place::kSlots];
    tile_phase ^= 1;
    __syncwarp();
    if (lane == 0) {
      arrive(memory.needs_tile);
    }
    if (Place::is_end(problem, tile)) {
      return;
    }
    const Place& place = Place::of(problem, tile);
    const int first = place.first + consumer * 64;
    const int row = first + threadIdx.x % kWarpgroup / 32 * 16 + lane / 4;
    const int ahead = place.keys(problem) - place.queries(problem);
    // From here on a step needs a mask.
    const int masked =
        (Place::kCausal ? max(0, min(place.keys(problem), first + 1 + ahead)) : place.keys(problem)) / P::kKeys;
    float sums[kSums] = {};
    float scores[kScores];
    unsigned weights[kScores / 2];
    Softmax<kScores> softmax;

    const auto start_scores = [&] {
      begin_products();
#pragma unroll
      for (int way = 0; way < P::kWidth / 16; ++way) {
        const int part = way / 4;
        const int bytes = way % 4 * 32;
        Scores::template of<false, false>(
            scores,
            descriptor(memory.queries + (part * P::kQueries + consumer * 64) * kSwizzled + bytes),
            descriptor(memory.keys[keys.stage] + part * P::kKeys * kSwizzled + bytes), way > 0);
      }
      end_products();
    };
    const auto start_sums = [&] {
      begin_products();
#pragma unroll
      for (int way = 0; way < P::kKeys / 16; ++way) {
        Sums::template of<true>(
            sums, weights + 4 * way,
            descriptor(memory.values[values.stage] + way * 16 * kSwizzled, P::kKeys * kSwizzled));
      }
      end_products();
    };
    const auto end_scores = [&](int step) {
      pin(scores);
      if (lane == 0) {
        arrive(memory.needs_keys[keys.stage]);
        if (step == 0) {
          arrive(memory.needs_queries);
        }
      }
      keys.next();
    };
    const auto end_sums = [&] {
      pin(sums);
      pin(weights);
      if (lane == 0) {
        arrive(memory.needs_values[values.stage]);
      }
      values.next();
    };
    const auto add = [&](int step) {
      if (step >= masked) {
        const int end = place.keys(problem) - 1;
#pragma unroll
        for (int i = 0; i < kScores; ++i) {
          const int key = step * P::kKeys + i / 4 * 8 + lane % 4 * 2 + i % 2;
          const int last = Place::kCausal ? min(end, row + i / 2 % 2 * 8 + ahead) : end;
          if (key > last) {
            scores[i] = -INFINITY;
          }
        }
      }
      softmax.add(scores, scale);
    };
    const auto round = [&] {
#pragma unroll
      for (int i = 0; i < kScores / 2; ++i) {
        weights[i] = pair_of<typename P::T>(scores[2 * i], scores[2 * i + 1]);
      }
    };

    if (place.steps > 0) {
      wait(memory.has_queries, queries_phase);
      queries_phase ^= 1;
      wait(memory.has_keys[keys.stage], keys.phase);
      my_turn();
      start_scores();
      your_turn();
      wait_for_products<0>();
      end_scores(place.steps - 1);
      add(place.steps - 1);
      round();
      for (int step = place.steps - 2; step >= 0; --step) {
        wait(memory.has_keys[keys.stage], keys.phase);
        my_turn();
        start_scores();
        wait(memory.has_values[values.stage], values.phase);
        start_sums();
        your_turn();
        wait_for_products<1>();
        end_scores(step);
        add(step);
        softmax.end_before_wait();
        wait_for_products<0>();
        end_sums();
        round();
#pragma unroll
        for (int i = 0; i < kSums; ++i) {
          sums[i] *= softmax.factor[i / 2 % 2];
        }
      }
      wait(memory.has_values[values.stage], values.phase);
      start_sums();
      wait_for_products<0>();
      end_sums();
    }

#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float all = softmax.sum[half];
      all += __shfl_xor_sync(~0u, all, 1);
      all += __shfl_xor_sync(~0u, all, 2);
      const int query = row + 8 * half;
      if (query < place.queries(problem)) {
        const bool none = softmax.largest[half] == -INFINITY;
        if (lane % 4 == 0) {
          const std::int64_t pair = static_cast<std::int64_t>(place.batch) * problem.heads + place.head;
          problem.lse[pair * problem.queries + place.row(query)] =
              none ? -INFINITY : softmax.largest[half] * problem.scale + logf(all);
        }
        const float factor = none ? 0.0f : 1.0f / all;
        auto* const to = static_cast<std::uint16_t*>(problem.out.at) + place.batch * problem.out.batch +
                         place.head * problem.out.head + place.row(query) * problem.out.row + lane % 4 * 2;
#pragma unroll
        for (int i = 0; i < P::kWidth / 8; ++i) {
          *reinterpret_cast<unsigned*>(to + 8 * i) =
              pair_of<typename P::T>(sums[4 * i + 2 * half] * factor, sums[4 * i + 2 * half + 1] * factor);
        }
      }
    }
  }
}

template <typename P, typename Place>
__global__ void __launch_bounds__(P::kThreads, 1)
    attend_on_hopper(const __grid_constant__ CUtensorMap q, const __grid_constant__ CUtensorMap k,
                     const __grid_constant__ CUtensorMap v, const __grid_constant__ Problem problem) {
  extern __shared__ __align__(1024) unsigned char bytes[];
  auto& memory = *reinterpret_cast<Memory<P, Place>*>(bytes);
  if (threadIdx.x == 0) {
    constexpr int kWarps = 4 * P::kConsumers;
    init(memory.has_queries, 1);
    init(memory.needs_queries, kWarps);
    init(memory.has_tile, 1);
    init(memory.needs_tile, kWarps);
    for (int stage = 0; stage < P::kStages; ++stage) {
      init(memory.has_keys[stage], 1);
      init(memory.needs_keys[stage], kWarps);
      init(memory.has_values[stage], 1);
      init(memory.needs_values[stage], kWarps);
    }
    // TMA is to see the barriers too.
    asm volatile("fence.proxy.async;" ::: "memory");
  }
  __syncthreads();
  // The threads that load need few registers; the others need theirs for the sums.
  if (threadIdx.x < kWarpgroup) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(P::kFew));
    if (threadIdx.x == 0) {
      produce<P, Place>(memory, q, k, v, problem);
    }
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(P::kMany));
    consume<P, Place>(memory, problem);
  }
}

template <typename P, typename Place>
int launch(const CUtensorMap& q, const CUtensorMap& k, const CUtensorMap& v, const Problem& problem, int processors,
           cudaStream_t stream) {
  constexpr int kShared = sizeof(Memory<P, Place>);
  const auto function = attend_on_hopper<P, Place>;
  if (const cudaError_t error = cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, kShared)) {
    return error;
  }
  // The blocks take tiles in turn from a counter.
  if (const cudaError_t error = cudaMemsetAsync(problem.next_tile, 0, sizeof(int), stream)) {
    return error;
  }
  function<<<std::min(processors, problem.tiles), P::kThreads, kShared, stream>>>(q, k, v, problem);
  return cudaGetLastError();
}

template <typename T, typename Function>
int with_width(const Sizes& sizes, Function function) {
  switch (sizes.width) {
    case 64:
      return function(Plan<T, 64, 3, 128>());
    case 128:
      return function(Plan<T, 128, 2, 176>());
    case 256:
      return function(Plan<T, 256, 2, 80>());
    default:
      return kNotForHopper;
  }
}

// Calls a function with the plan for a type and a width, unless the kernel is not for what is given.
template <typename Function>
int with_plan(Type type, const Forward& tensors, const Sizes& sizes, const Device& device, Function function) {
  constexpr std::int64_t kMost = std::int64_t{1} << 30;
  if (device.major != 9 || type == Type::float32 || sizes.keys == 0 || !has_pairs(tensors.out) ||
      std::max({sizes.queries, sizes.keys, sizes.batch * sizes.heads}) > kMost) {
    return kNotForHopper;
  }
  return type == Type::float16 ? with_width<__half>(sizes, function) : with_width<__nv_bfloat16>(sizes, function);
}
[% endraw %]

}  // namespace
}  // namespace [[ module ]]_impl
[% endif %]
